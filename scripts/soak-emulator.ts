/**
 * Random C programs of csmith on all targets at three levels, here in both tiers and under
 * qemu-user, until a number of programs were compared:
 * `node build/scripts/soak-emulator.js [COUNT] [FIRST SEED]`. Prints each program that differs with
 * its seed and, for choosing the fixed seeds of the tests, the instructions of each. Programs that
 * run too long are left out.
 */
import {
  ARM64_CSMITH_TARGETS,
  buildCsmith,
  LEVELS,
  RISCV_TARGETS,
  runHere,
  runQemu,
  TARGETS as PPC_TARGETS,
  X86_TARGETS,
} from '../test/support/c-programs.js';

/** Random programs may loop for ever; most end within a million instructions. */
const QEMU_MS = 5000;
const MAX_INSTRUCTIONS = 25_000_000_000;

// Of x86-64 without SSE the headers of csmith do not compile.
const TARGETS = [...PPC_TARGETS, ...RISCV_TARGETS, ...ARM64_CSMITH_TARGETS, ...X86_TARGETS.slice(1)];
const count = Number(process.argv[2] ?? 100);
const first = Number(process.argv[3] ?? 1000);
let compared = 0;
let long = 0;
const different: string[] = [];

for (let seed = first; compared < count; seed++) {
  const target = TARGETS[seed % TARGETS.length]!;
  const level = LEVELS[Math.floor(seed / TARGETS.length) % LEVELS.length]!;
  const path = buildCsmith(target, level, seed);
  const expected = runQemu(target, path, { args: ['1'], timeoutMs: QEMU_MS });
  if (typeof expected.end === 'string') {
    long++;
    continue;
  }
  const here = runHere(target, path, { args: ['1'], budget: MAX_INSTRUCTIONS, tier: 0 });
  const compiled = runHere(target, path, { args: ['1'], budget: MAX_INSTRUCTIONS, tier: 1 });
  compared++;
  const same =
    [here, compiled].every((each) => each.output === expected.output && each.end === expected.end) &&
    here.instructions === compiled.instructions;
  const name = `seed ${seed}, ${target.name}, -O${level}`;
  if (!same) different.push(`${name}: ends ${expected.end} under qemu, ${here.end} here`);
  console.log(
    `${name}: ${same ? 'same' : 'DIFFERENT'}, ${here.instructions} instructions, ${here.output.length} bytes`,
  );
}
console.log(`${compared} programs compared, ${long} left out, ${different.length} different`);
for (const each of different) console.log(each);
process.exitCode = different.length === 0 ? 0 : 1;
