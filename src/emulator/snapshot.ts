/**
 * States of machines: what a snapshot holds, and how two are compared. Making and restoring
 * snapshots is the machine's (`machine.ts`); hooks, gates and watches are no state.
 */
import { ElftraceError } from '../errors.js';
import type { FetchedLines } from './fetch.js';
import type { HelperState, Lifter } from '../machine/ir.js';
import type { Deviation } from './stops.js';
import { firstDifference } from './memory.js';
import type { SavedWindow } from './memory.js';
import type { Address, RegisterName } from '../units.js';

/** Called for a snapshot; returns what puts the state of that moment back. */
export type StatePart = () => () => void;

export interface CpuState {
  /** The slots, as the generated code has them. */
  readonly state: Uint8Array;
  readonly pc: Address;
  readonly instructions: number;
  readonly passHook: Address | null;
  readonly passWatch: { readonly pc: Address; readonly instructions: number; readonly served: number } | null;
  /** null: the machine does not model what CPUs have fetched. */
  readonly fetched: FetchedLines | null;
}

export interface Snapshot {
  readonly lifter: Lifter;
  /** The CPU that was running. */
  readonly current: number;
  /** Ticks of virtual time in which no CPU executed anything. */
  readonly skippedTicks: bigint;
  readonly cpus: readonly CpuState[];
  /** By address. */
  readonly windows: readonly SavedWindow[];
  readonly parts: readonly (() => void)[];
  /** What was not done as Linux does it until then. */
  readonly deviated: ReadonlyMap<string, Deviation>;
}

export type Difference =
  | {
      readonly kind: 'register';
      readonly cpu: number;
      readonly name: RegisterName;
      readonly a: bigint;
      readonly b: bigint;
    }
  | {
      readonly kind: 'memory';
      /** First byte of a run of differing bytes; runs less than 8 bytes apart are one. */
      readonly address: Address;
      readonly a: Uint8Array;
      readonly b: Uint8Array;
    }
  /** Completed instructions of a CPU. */
  | { readonly kind: 'instructions'; readonly cpu: number; readonly a: number; readonly b: number }
  /**
   * The number of CPUs, or windows that only one of the states has: nothing more is compared in
   * them.
   */
  | { readonly kind: 'cpus'; readonly a: number; readonly b: number }
  | { readonly kind: 'window'; readonly only: 'a' | 'b'; readonly address: Address; readonly size: number };

export interface CompareOptions {
  /** Registers that may differ. */
  readonly ignoreRegisters?: readonly RegisterName[];
  /** Ranges of memory that may differ. */
  readonly ignoreMemory?: readonly { readonly address: Address; readonly size: number }[];
  /** False: counts of instructions may differ. Default true. */
  readonly instructions?: boolean;
  /** Most differences to list. Default 100. */
  readonly max?: number;
}

/** True when states of one front end can be put into a machine with the other. */
export function sameLayout(a: Lifter, b: Lifter): boolean {
  return a.slots === b.slots && a.addressBits === b.addressBits && a.endian === b.endian;
}

/**
 * True when states of the two front ends can be compared: the same registers, even if slots lie
 * differently.
 */
function comparable(a: Lifter, b: Lifter): boolean {
  const names = ({ registers }: Lifter): string => registers.map((each) => each.name).join();
  return a === b || (a.addressBits === b.addressBits && a.endian === b.endian && names(a) === names(b));
}

/** Registers of a CPU in a snapshot, by name; `pc` is one. */
export function registersOf(snapshot: Snapshot, cpu = snapshot.current): ReadonlyMap<RegisterName, bigint> {
  const { lifter } = snapshot;
  const saved = snapshot.cpus[cpu];
  if (!saved) throw new ElftraceError('usage', `the snapshot has no CPU ${cpu}`, { value: cpu });
  const bytes = new DataView(saved.state.buffer, saved.state.byteOffset, saved.state.byteLength);
  const state: HelperState = {
    get: (slot, half = 0) => bytes.getBigUint64(lifter.slots.offset(slot) + 8 * half, true),
    set: () => {
      throw new ElftraceError('internal', 'snapshots are not changed');
    },
    pc: saved.pc,
    instructions: saved.instructions,
    time: BigInt(snapshot.cpus.reduce((sum, each) => sum + each.instructions, 0)) + snapshot.skippedTicks,
    // No register lies in memory.
    memory: { check: (address) => address, read: () => null, write: () => false },
  };
  const out = new Map<RegisterName, bigint>(lifter.registers.map((view) => [view.name, view.read(state)]));
  return out.set('pc', saved.pc);
}

/** Runs of differing bytes; `visit` returns false to end. */
function differingRuns(a: Uint8Array, b: Uint8Array, visit: (from: number, to: number) => boolean): void {
  const GAP = 8;
  let from = firstDifference(a, b);
  while (from !== -1) {
    let to = from + 1;
    let next = firstDifference(a, b, to);
    while (next !== -1 && next - to < GAP) {
      to = next + 1;
      next = firstDifference(a, b, to);
    }
    if (!visit(from, to)) return;
    from = next;
  }
}

/**
 * The differences of two states: counts and registers of each CPU, then memory by address. Windows
 * are compared where both have the same range, whatever their permissions and names.
 * @throws ElftraceError 'usage' when the states are of different kinds of machines
 */
export function compareStates(a: Snapshot, b: Snapshot, options: CompareOptions = {}): Difference[] {
  if (!comparable(a.lifter, b.lifter))
    throw new ElftraceError('usage', 'the states are of different kinds of machines');
  const { ignoreMemory = [], max = 100 } = options;
  const ignored = new Set(options.ignoreRegisters);
  const out: Difference[] = [];
  if (a.cpus.length !== b.cpus.length) out.push({ kind: 'cpus', a: a.cpus.length, b: b.cpus.length });
  for (let cpu = 0; cpu < Math.min(a.cpus.length, b.cpus.length); cpu++) {
    const [x, y] = [a.cpus[cpu]!, b.cpus[cpu]!];
    if (options.instructions !== false && x.instructions !== y.instructions) {
      out.push({ kind: 'instructions', cpu, a: x.instructions, b: y.instructions });
    }
    // Equal slots are equal registers; the opposite does not hold: a flag has several
    // representations.
    const equal = a.lifter.slots === b.lifter.slots && firstDifference(x.state, y.state) === -1;
    if (x.pc === y.pc && equal) continue;
    const others = registersOf(b, cpu);
    for (const [name, value] of registersOf(a, cpu)) {
      const other = others.get(name)!;
      if (value !== other && !ignored.has(name)) out.push({ kind: 'register', cpu, name, a: value, b: other });
    }
  }
  const find = (list: readonly SavedWindow[], window: SavedWindow): SavedWindow | undefined =>
    list.find((each) => each.address === window.address && each.size === window.size);
  for (const window of a.windows) {
    const other = find(b.windows, window);
    if (!other) {
      out.push({ kind: 'window', only: 'a', address: window.address, size: window.size });
      continue;
    }
    if (out.length >= max) break;
    const [x, y] = [window.bytes.slice(), other.bytes];
    for (const { address, size } of ignoreMemory) {
      const from = Math.max(0, Number(address - window.address));
      const to = Math.min(window.size, Number(address + BigInt(size) - window.address));
      if (from < to) x.set(y.subarray(from, to), from);
    }
    differingRuns(x, y, (from, to) => {
      out.push({ kind: 'memory', address: window.address + BigInt(from), a: x.slice(from, to), b: y.slice(from, to) });
      return out.length < max;
    });
  }
  for (const { address, size } of b.windows.filter((each) => !find(a.windows, each))) {
    out.push({ kind: 'window', only: 'b', address, size });
  }
  return out.slice(0, max);
}
