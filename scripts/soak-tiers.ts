/**
 * Both tiers of the emulator in step on random programs of every machine, to which everything
 * happens that can happen to a program: patches, hooks, watches, mappings, CPUs, snapshots.
 * `node build/scripts/soak-tiers.js [MINUTES] [FIRST SEED] [MACHINE]` runs until the time is up and
 * prints counts; what differs is printed with its seed, and the same seed differs again. Each
 * program is executed twice, and takes what the one before it and its own first run have kept.
 * Between them random sequences of instructions as one block and one by one, which finds what both
 * tiers do wrong.
 */
import { arches } from '../src/arches.js';
import { KeptTranslations } from '../src/emulator/index.js';
import { oneBlock } from '../test/support/one-block.js';
import { randomProgram } from '../test/support/tiers.js';

const minutes = Number(process.argv[2] ?? 10);
const first = Number(process.argv[3] ?? 1);
const only = process.argv[4];
const SLICES = 300;
const SEQUENCES = 1000;

const machines = arches.flatMap(({ target, emulation }) =>
  emulation.kind === 'ir' && (only === undefined || target.id === only)
    ? [{ id: target.id, lifter: emulation.lifter }]
    : [],
);
if (machines.length === 0) throw new Error(`no machine is named ${only}`);
const counts = new Map(
  machines.map(({ id }) => [
    id,
    { programs: 0, instructions: 0, patches: 0, regions: 0, stops: 0, alone: 0, different: 0 },
  ]),
);
/** What the last program of each machine has kept. */
const last = new Map<string, Uint8Array>();
/** Random bytes among which instructions are looked for. */
const TRIES = 150_000;

const end = performance.now() + minutes * 60_000;
for (let seed = first; performance.now() < end; seed++) {
  for (const { id, lifter } of machines) {
    const count = counts.get(id)!;
    // What is kept of many programs is more than what is kept of one: the last one alone.
    const kept = KeptTranslations.from(last.get(id) ?? null);
    const first = randomProgram(id, lifter, seed, SLICES, kept);
    last.set(id, kept.bytes());
    const run = randomProgram(id, lifter, seed, SLICES, KeptTranslations.from(kept.bytes()));
    count.programs++;
    count.instructions += run.instructions;
    count.patches += run.patches;
    count.regions += run.compiled;
    for (const [kind, times] of run.stops) if (kind !== 'step-limit') count.stops += times;
    const blocks = oneBlock(lifter, seed, SEQUENCES, TRIES);
    count.alone += blocks.instructions;
    for (const differing of [first.differing, run.differing, blocks.differing]) {
      if (differing.length === 0) continue;
      count.different++;
      console.log(`${id}, seed ${seed}: ${differing.join('; ')}`);
    }
  }
}
let different = 0;
for (const [id, count] of counts) {
  different += count.different;
  console.log(
    `${id}: ${count.programs} programs, ${count.instructions} instructions, ${count.patches} patches while running, ` +
      `${count.regions} regions compiled, ${count.stops} stops; ${count.alone} instructions in blocks and one by one: ${count.different} differ`,
  );
}
process.exitCode = different === 0 ? 0 : 1;
