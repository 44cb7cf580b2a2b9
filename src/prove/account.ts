/**
 * The account of a trial that failed (PV-4): it is done once more, instruction by instruction, and
 * both ways are written down, with the instruction that wrote what differs.
 */
import type { Difference, Pair } from './compare.js';
import type { Account, Executed } from './verdict.js';
import type { ProofWorld, Recorder } from './world.js';

/** Of a way, how many instructions are kept: the last ones, which lead to the difference. */
const KEPT = 400;

/** Reads what differs; null: it is nothing that an instruction writes. */
function probeOf(difference: Difference): ((world: ProofWorld) => bigint) | null {
  if (difference.what === 'register') return ({ machine }) => machine.register(difference.name);
  if (difference.what === 'memory') return (world) => BigInt(world.read(difference.address, 1)[0]!);
  return null;
}

/** Writes down the instructions of one world, and which of them wrote what differs. */
class Way implements Recorder {
  executed: Executed[] = [];
  private writer: Executed | null = null;
  private value: bigint | null = null;
  private readonly probe: ((world: ProofWorld) => bigint) | null;

  constructor(difference: Difference) {
    this.probe = probeOf(difference);
  }

  /** What the instruction before did is seen. */
  look(world: ProofWorld): void {
    const now = this.probe?.(world) ?? 0n;
    if (this.value !== null && now !== this.value) this.writer = this.executed.at(-1) ?? null;
    this.value = now;
  }

  step(world: ProofWorld): void {
    this.look(world);
    const address = world.machine.register('pc');
    this.executed.push({ address, bytes: world.read(address, 8), place: '' });
    if (this.executed.length >= 2 * KEPT) this.executed = this.executed.slice(-KEPT);
  }

  turn(): void {
    this.executed = [];
    this.value = this.writer = null;
  }

  /** Position of the writer among the instructions that are kept; -1: none of them is. */
  get at(): number {
    return this.writer === null ? -1 : this.executed.lastIndexOf(this.writer);
  }
}

/** The same with the functions that the instructions are in. */
function placed(way: readonly Executed[], { layout: { program } }: ProofWorld): Executed[] {
  return way.map((step) => {
    const range = program.codeAt(step.address);
    return { ...step, place: range === undefined ? '' : program.describe(range, step.address) };
  });
}

/**
 * Follows both ways of a failed trial to where it failed: to the place behind the site, or from
 * there back to the caller.
 * @param again  does the trial once more
 */
export function giveAccount(
  pair: Pair,
  found: Pick<Account, 'seed' | 'entry' | 'phase' | 'difference' | 'registers' | 'during'>,
  again: () => () => void,
): Account {
  const [a, b] = [new Way(found.difference), new Way(found.difference)];
  const run = again();
  [pair.original.recorder, pair.patched.recorder] = [a, b];
  run();
  [pair.original.recorder, pair.patched.recorder] = [null, null];
  a.look(pair.original);
  b.look(pair.patched);
  for (const [way, { machine }] of [
    [a, pair.original],
    [b, pair.patched],
  ] as const) {
    // Where a way stops at a hook, the instruction there was looked at, and not executed.
    if (way.executed.at(-1)?.address === machine.register('pc')) way.executed.pop();
    way.executed = way.executed.slice(-KEPT);
  }
  const writer =
    b.at >= 0 ? ({ side: 'patched', at: b.at } as const) : a.at >= 0 ? ({ side: 'original', at: a.at } as const) : null;
  return { ...found, original: placed(a.executed, pair.original), patched: placed(b.executed, pair.patched), writer };
}
