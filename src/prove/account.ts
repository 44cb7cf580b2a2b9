/**
 * The account of a trial that failed (PV-4): it is done once more, instruction by instruction, and
 * both ways are written down, with the instruction that wrote what differs.
 */
import type { Difference, Pair } from './compare.js';
import type { Account, Executed } from './verdict.js';
import type { Address } from '../units.js';
import type { ProofWorld, Recorder } from './world.js';

/** How many instructions of a way are kept: the first, and those that lead to the difference. */
const FIRST = 16;
const KEPT = 400;

/** Reads what differs; null: it is nothing that an instruction writes. */
function probeOf(difference: Difference): ((world: ProofWorld) => bigint) | null {
  if (difference.what === 'register') return ({ machine }) => machine.register(difference.name);
  if (difference.what === 'memory') return (world) => BigInt(world.read(difference.address, 1)[0]!);
  return null;
}

/** Writes down the instructions of one world, and which of them wrote what differs. */
class Way implements Recorder {
  private first: Executed[] = [];
  private last: Executed[] = [];
  private count = 0;
  private writer: Executed | null = null;
  private value: bigint | null = null;
  private readonly probe: ((world: ProofWorld) => bigint) | null;
  /** The callback that saw what differs. */
  private readonly place: Address | null;
  /** Nothing differs but where the way ended. */
  private readonly isEnd: boolean;

  constructor(difference: Difference) {
    this.probe = probeOf(difference);
    this.place = difference.what === 'event' ? (difference.place ?? null) : null;
    this.isEnd = difference.what === 'stop';
  }

  /** What the instruction before did is seen. */
  look(world: ProofWorld): void {
    const now = this.probe?.(world) ?? 0n;
    if (this.value !== null && now !== this.value) this.writer = this.last.at(-1) ?? null;
    this.value = now;
  }

  step(world: ProofWorld): void {
    this.look(world);
    const address = world.machine.register('pc');
    const step = { address, bytes: world.read(address, 8), place: '' };
    if (address === this.place) this.writer = step;
    this.last.push(step);
    if (this.count++ < FIRST) this.first.push(step);
    if (this.last.length >= 2 * KEPT) this.last = this.last.slice(-KEPT);
  }

  turn(): void {
    this.first = [];
    this.last = [];
    this.count = 0;
    this.value = this.writer = null;
  }

  /** Where a way stops at a hook, the instruction there was looked at, and not executed. */
  end({ machine }: ProofWorld): void {
    if (this.last.at(-1)?.address === machine.register('pc')) {
      this.last.pop();
      if (this.count-- <= FIRST) this.first.pop();
    }
    this.last = this.last.slice(-KEPT);
    if (this.isEnd) this.writer = this.last.at(-1) ?? null;
  }

  /** Instructions that are kept, in order. */
  get executed(): readonly Executed[] {
    const { first, last, count } = this;
    return [...first.slice(0, Math.max(0, count - last.length)), ...last];
  }

  /** Those that are not. */
  get gap(): Account['gap'] {
    const at = Math.min(FIRST, Math.max(0, this.count - this.last.length));
    return { at, count: this.count - this.last.length - at };
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
    // Code that is laid in for one site or one ops has no name but that of its section.
    return { ...step, place: range === undefined ? '' : program.describe(range, step.address) || range.name };
  });
}

/**
 * Follows both ways of a failed trial to where it failed: to the place behind the site, or from
 * there back to the caller.
 * @param again  does the trial once more
 */
export function giveAccount(
  pair: Pair,
  found: Omit<Account, 'original' | 'patched' | 'gap' | 'writer'>,
  again: () => () => void,
): Account {
  const [a, b] = [new Way(found.difference), new Way(found.difference)];
  const run = again();
  [pair.original.recorder, pair.patched.recorder] = [a, b];
  run();
  [pair.original.recorder, pair.patched.recorder] = [null, null];
  a.look(pair.original);
  b.look(pair.patched);
  a.end(pair.original);
  b.end(pair.patched);
  const writer =
    b.at >= 0 ? ({ side: 'patched', at: b.at } as const) : a.at >= 0 ? ({ side: 'original', at: a.at } as const) : null;
  const [original, patched] = [placed(a.executed, pair.original), placed(b.executed, pair.patched)];
  return { ...found, original, patched, gap: b.gap, writer };
}
