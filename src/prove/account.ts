/**
 * The account of a trial that failed (PV-4): it is done once more, instruction by instruction, and
 * both ways are written down, with the instruction that wrote what differs.
 */
import type { Begun } from './state.js';
import type { Difference, Pair, Trial } from './compare.js';
import { Trials } from './trial.js';
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
    this.executed.push({ address, bytes: world.read(address, 8) });
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

/**
 * Follows both ways of a failed trial to where it failed: to the place behind the site, or from
 * there back to the caller.
 * @param begin  brings both worlds into the state that the trial began with
 */
export function giveAccount(
  pair: Pair,
  trial: Trial,
  found: Pick<Account, 'seed' | 'entry' | 'phase' | 'difference'>,
  begin: () => Begun,
): Account {
  const [a, b] = [new Way(found.difference), new Way(found.difference)];
  const trials = new Trials(pair, trial);
  const begun = begin();
  [pair.original.recorder, pair.patched.recorder] = [a, b];
  trials.once(begun);
  [pair.original.recorder, pair.patched.recorder] = [null, null];
  trials.end();
  a.look(pair.original);
  b.look(pair.patched);
  for (const way of [a, b]) way.executed = way.executed.slice(-KEPT);
  const writer =
    b.at >= 0 ? ({ side: 'patched', at: b.at } as const) : a.at >= 0 ? ({ side: 'original', at: a.at } as const) : null;
  return { ...found, original: a.executed, patched: b.executed, writer };
}
