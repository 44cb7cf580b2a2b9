/**
 * The search for the first instruction after which two machines differ.
 *
 * The search runs both machines in slices and compares after each. A slice that ends in different
 * states is halved from a snapshot of its beginning until one instruction is left:
 *
 *   equal ------- slice ------- equal ------- slice ------- differ
 *                                 |--- half --- equal
 *                                                |- ... one instruction
 *
 * A difference that comes and goes within a slice is not seen; a slice of 1 sees every one. Slices
 * are executed several times, so what happens outside the machines (output) happens several times
 * too, and what system calls remember must be a part of the state (`addState`).
 */
import { ElftraceError } from '../errors.js';
import type { Address } from '../units.js';
import type { Machine } from './machine.js';
import { type CompareOptions, compareStates, type Difference, type Snapshot } from './snapshot.js';
import type { Deviation, StopReason } from './stops.js';

export interface DivergenceOptions extends CompareOptions {
  /** Most instructions to run. Default: until both stop. */
  readonly budget?: number;
  /** Instructions between two comparisons. Default 4096. */
  readonly slice?: number;
}

/** One side after the instruction that made the difference. */
export interface DivergentSide {
  /** Address and bytes of the instruction that it executed. */
  readonly address: Address;
  readonly bytes: Uint8Array;
  readonly stop: StopReason;
  readonly state: Snapshot;
}

export interface Divergence {
  /** Instructions that both completed from the start of the search, in equal states. */
  readonly instructions: number;
  /** The last equal state (that of machine A). */
  readonly before: Snapshot;
  readonly a: DivergentSide;
  readonly b: DivergentSide;
  /** May be empty when only the stops differ. */
  readonly differences: readonly Difference[];
}

/**
 * Where two machines were found equal so far: both stopped in the same way, or the budget was used
 * (`step-limit`).
 */
export interface NoDivergence {
  readonly instructions: number;
  readonly stop: StopReason;
}

/**
 * Equal states that prove nothing: the machines stopped at what is not served or not executed, or
 * something was not done as Linux does it.
 */
export interface Inconclusive extends NoDivergence {
  readonly deviations: { readonly a: readonly Deviation[]; readonly b: readonly Deviation[] };
}

function sameStop(a: StopReason, b: StopReason): boolean {
  const text = (stop: StopReason): string =>
    JSON.stringify(stop, (_key, value: unknown) => (typeof value === 'bigint' ? `${value}n` : value));
  return text(a) === text(b);
}

/** How both machines stand after some instructions. */
interface Outcome {
  readonly a: StopReason;
  readonly b: StopReason;
  readonly stateA: Snapshot;
  readonly stateB: Snapshot;
  readonly differences: readonly Difference[];
  readonly equal: boolean;
}

type Comparison =
  | { readonly kind: 'differ'; readonly at: Divergence }
  | { readonly kind: 'equal'; readonly end: NoDivergence }
  | { readonly kind: 'inconclusive'; readonly end: Inconclusive };

/**
 * Runs both machines in step and finds the first instruction after which their states, or the ways
 * they stopped, differ. `inconclusive`: none was found, and that proves nothing. Afterwards both
 * stand behind that instruction, or where the search ended. Only the running CPUs run.
 * @throws ElftraceError 'usage' when the machines differ at the start or are of different kinds
 */
export function firstDivergence(machineA: Machine, machineB: Machine, options: DivergenceOptions = {}): Comparison {
  return new Lockstep(machineA, machineB, options).run();
}

/** Two machines that were equal at the last snapshots, and how far they have got. */
class Lockstep {
  private readonly budget: number;
  private readonly slice: number;
  private readonly compare: CompareOptions;
  private startA: Snapshot;
  private startB: Snapshot;
  private done = 0;

  constructor(
    private readonly machineA: Machine,
    private readonly machineB: Machine,
    options: DivergenceOptions,
  ) {
    const { budget = Number.MAX_SAFE_INTEGER, slice = 4096 } = options;
    if (slice < 1) throw new ElftraceError('usage', 'a slice has at least one instruction', { value: slice });
    this.budget = budget;
    this.slice = slice;
    [this.startA, this.startB] = [machineA.snapshot(), machineB.snapshot()];
    // Code may differ from the start: that is often what the search is about. Registers may not.
    const early = compareStates(this.startA, this.startB, options).find((each) => each.kind !== 'memory');
    if (early) throw new ElftraceError('usage', `the machines differ before they run (${early.kind})`);
    // Bytes that differ from the start are left out, whatever becomes of them.
    const base = compareStates(this.startA, this.startB, { ...options, max: Number.MAX_SAFE_INTEGER });
    const known = base.flatMap((each) =>
      each.kind === 'memory' ? [{ address: each.address, size: each.a.length }] : [],
    );
    this.compare = { ...options, ignoreMemory: [...(options.ignoreMemory ?? []), ...known] };
  }

  run(): Comparison {
    while (this.done < this.budget) {
      const width = Math.min(this.slice, this.budget - this.done);
      const outcome = this.advance(width);
      if (!outcome.equal) return this.narrow(width, outcome);
      const ran = outcome.stateA.cpus[outcome.stateA.current]!.instructions;
      this.done += ran - this.startA.cpus[this.startA.current]!.instructions;
      if (outcome.a.kind !== 'step-limit') return this.nothing(outcome.a);
      [this.startA, this.startB] = [outcome.stateA, outcome.stateB];
    }
    return this.nothing({ kind: 'step-limit' });
  }

  private advance(count: number): Outcome {
    const { machineA, machineB } = this;
    const [a, b] = [machineA.run({ budget: count }), machineB.run({ budget: count })];
    const [stateA, stateB] = [machineA.snapshot(), machineB.snapshot()];
    const differences = compareStates(stateA, stateB, this.compare);
    return { a, b, stateA, stateB, differences, equal: differences.length === 0 && sameStop(a, b) };
  }

  /** Halves what the machines ran until one instruction is left. */
  private narrow(ran: number, differing: Outcome): Comparison {
    let [width, outcome] = [ran, differing];
    while (width > 1) {
      const half = width >> 1;
      this.machineA.restore(this.startA);
      this.machineB.restore(this.startB);
      const first = this.advance(half);
      if (!first.equal) {
        [width, outcome] = [half, first];
        continue;
      }
      [this.startA, this.startB] = [first.stateA, first.stateB];
      this.done += half;
      width -= half;
      if (width === 1) outcome = this.advance(1);
    }
    const a = sideOf(this.machineA, this.startA, outcome.a, outcome.stateA);
    const b = sideOf(this.machineB, this.startB, outcome.b, outcome.stateB);
    const { differences } = outcome;
    return { kind: 'differ', at: { instructions: this.done, before: this.startA, a, b, differences } };
  }

  private nothing(stop: StopReason): Comparison {
    const deviations = { a: this.machineA.deviations, b: this.machineB.deviations };
    const end = { instructions: this.done, stop };
    const isUnknown = stop.kind === 'unknown-instruction' || stop.kind === 'syscall';
    return isUnknown || deviations.a.length + deviations.b.length > 0
      ? { kind: 'inconclusive', end: { ...end, deviations } }
      : { kind: 'equal', end };
  }
}

/** The instruction at which a machine began, and what became of it. */
function sideOf(machine: Machine, start: Snapshot, stop: StopReason, state: Snapshot): DivergentSide {
  const address = start.cpus[start.current]!.pc;
  machine.restore(start);
  const bytes = machine.instructionBytes();
  machine.restore(state);
  return { address, bytes, stop, state };
}
