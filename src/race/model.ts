/**
 * What is raced: patchers, threads, and what must hold (hazards H1 to H14).
 * Types only; `world.ts` executes, `reduced.ts` and `every-order.ts` enumerate.
 *
 * A patcher is a list of steps, each of which is one atomic event: a store of some bytes, a wait, a
 * free. A thread is a CPU of the machine that calls a function and returns to `stop`. An event of
 * the one may fall between any two instructions of the other; every order is a schedule.
 */
import type { LivePatch, LivePatching } from '../machine/live-patching.js';
import type { Machine, StopReason } from '../emulator/index.js';
import type { ProbeCpu } from '../machine/probes.js';
import type { Address, RegisterName } from '../units.js';

/**
 * A step is done only where a variable of the sequence has this value; else nothing happens. Tested
 * together with the step.
 */
export interface Condition {
  readonly variable: string;
  readonly equals: bigint;
}

/** What the handler of probes does with a thread that trapped at an address. */
export interface ProbeEntry {
  readonly address: Address;
  /**
   * Handlers of a probe run: noted with what the call executes. null: none does, or the breakpoint
   * only stops behind a copy.
   */
  readonly mark: string | null;
  /** Where threads go on, whatever they come with; null: that depends on them. */
  readonly to: Address | null;
  /** Does what is left of the instruction; where the thread goes on, or null where it cannot. */
  resume(cpu: ProbeCpu): Address | null;
}

/** What a patcher does at once, never seen half done. */
export type RaceAction =
  /** Bytes become others, in one store. */
  | { readonly kind: 'store'; readonly address: Address; readonly bytes: Uint8Array }
  /**
   * CPUs fetch anew: one, or all. Waits for those in a trap handler, which no interrupt reaches.
   */
  | { readonly kind: 'synchronise'; readonly thread: number | 'all' }
  /**
   * Waits until every thread went through a place where it holds nothing (C-Q-2): outside a call.
   * `handlers`: until no thread is in the trap handler.
   */
  | { readonly kind: 'wait'; readonly until: 'outside' | 'handlers' }
  /**
   * Memory is given back, and overwritten with a pattern: a thread that uses it from now on uses
   * freed memory.
   */
  | {
      readonly kind: 'free';
      readonly what: string;
      readonly address: Address;
      readonly size: number;
      readonly fill: Uint8Array;
    }
  /** What was given back is in use again. */
  | { readonly kind: 'take'; readonly what: string; readonly address: Address; readonly size: number }
  /** Nothing but what the step's `serves` says. */
  | { readonly kind: 'serve' }
  /**
   * The trap handler serves these from now on, in place of others at the same addresses; or no
   * more.
   */
  | { readonly kind: 'publish'; readonly entries: readonly LivePatch[] }
  | { readonly kind: 'retract'; readonly entries: readonly LivePatch[] }
  /** Mutual exclusion among patchers. */
  | { readonly kind: 'lock'; readonly lock: string }
  | { readonly kind: 'unlock'; readonly lock: string }
  /** Variables: what patchers keep books about. */
  | { readonly kind: 'set'; readonly variable: string; readonly to: bigint | { readonly variable: string } };

export type RaceStep = RaceAction & {
  /** For people: `call into the slot`. */
  readonly label?: string;
  /** Of a store: bytes of an instruction, not the whole of it. */
  readonly phase?: 'part';
  readonly when?: Condition;
  /**
   * The machine is stopped for it, and threads are never preempted: it is done only while every
   * thread is outside its calls. Where threads can be preempted, a store of several words at once
   * is all that stopping gives.
   */
  readonly stopped?: boolean;
  /** Every CPU fetches anew before it goes on, as when it was stopped for this. */
  readonly synchronises?: boolean;
  /**
   * From this step on, and at once with it, these are what the handler of probes serves: all of
   * them.
   */
  readonly serves?: readonly ProbeEntry[];
};

/** One who changes things: its steps in their order. */
export interface Patcher {
  readonly name: string;
  readonly steps: readonly RaceStep[];
}

/** A patch sequence: usually one patcher. Variables that are not named begin as 0. */
export interface Sequence {
  readonly name: string;
  readonly patchers: readonly Patcher[];
  readonly variables?: Readonly<Record<string, bigint>>;
  /** Entries that the trap handler serves from the start. */
  readonly published?: readonly LivePatch[];
  /** What the handler of probes serves from the start. */
  readonly serves?: readonly ProbeEntry[];
}

/**
 * A place whose instructions may only be executed as a whole form: one of these contents, from one
 * of their boundaries.
 */
export interface Unit {
  readonly address: Address;
  readonly forms: readonly UnitForm[];
}

export interface UnitForm {
  readonly name: string;
  readonly bytes: Uint8Array;
  /** Offsets at which instructions begin. */
  readonly starts: readonly number[];
}

export interface RaceThread {
  readonly name: string;
  /** Calls, one after the other. Default 1. */
  readonly rounds?: number;
  /** Registers that must have these values when a call returns, the stack pointer among them. */
  readonly expect: ReadonlyMap<RegisterName, bigint>;
}

/** Half-open. */
export interface CodeExtent {
  readonly start: Address;
  readonly end: Address;
  readonly name: string;
}

/**
 * Where threads stand before anything happens. Thread i is CPU i of the machine, at the beginning
 * of its call.
 */
export interface Scene {
  readonly machine: Machine;
  readonly threads: readonly RaceThread[];
  /** What calls return to. Never executed. */
  readonly stop: Address;
  readonly stackPointer: RegisterName;
  readonly livePatching: LivePatching;
  /** Where threads may get to; null: anywhere. */
  readonly code: readonly CodeExtent[] | null;
  /** Places that are noted when a thread executes them: what an outcome consists of. */
  readonly marks: ReadonlyMap<Address, string>;
  /**
   * What must hold when a thread begins to execute somewhere, else what is wrong: rule `wrong-ops`.
   */
  readonly checks?: ReadonlyMap<Address, (view: CheckView) => string | null>;
  readonly units: readonly Unit[];
}

/** The thread at the place of a check. What is read counts as read by the thread. */
export interface CheckView {
  register(name: RegisterName): bigint;
  /** null: not mapped. */
  read(address: Address, size: 4 | 8): bigint | null;
}

/** The kinds of things that go wrong. */
export type RuleName =
  | 'wrong-function'
  | 'wrong-ops'
  | 'corrupted-register'
  | 'torn-instruction'
  | 'freed-memory'
  | 'caller-lost'
  | 'endless-loop'
  | 'stopped'
  | 'deadlock';

export interface Violation {
  /** One of ours, or the name of a property that was given. */
  readonly rule: RuleName | (string & {});
  /** -1: no thread's in particular. */
  readonly thread: number;
  readonly message: string;
  readonly address?: Address;
  readonly stop?: StopReason;
}

/** A call that returned, as a property sees it. */
export interface ReturnView {
  readonly thread: number;
  /** From 0. */
  readonly round: number;
  readonly machine: Machine;
  /** Marks that this thread passed in this call, in order. */
  readonly marks: readonly string[];
  register(name: RegisterName): bigint;
}

/** Everything at rest: all patchers are done and all threads outside. */
export interface EndView {
  readonly machine: Machine;
  variable(name: string): bigint;
  /** Per thread, per call. */
  readonly marks: readonly (readonly (readonly string[])[])[];
}

/**
 * What must hold besides the rules that always do. Returns what is wrong, or null. `atReturn` may
 * look at its own thread only: which orders of events are told apart depends on it.
 */
export interface Property {
  readonly name: string;
  readonly title?: string;
  readonly atReturn?: (view: ReturnView) => string | null;
  readonly atEnd?: (view: EndView) => string | null;
}

/** Bytes as a word in the target's order, for stores. */
export function wordBytes(value: bigint, size: 1 | 2 | 4 | 8, endian: 'little' | 'big'): Uint8Array {
  const bytes = Uint8Array.from({ length: size }, (_, i) => Number((value >> BigInt(8 * i)) & 0xffn));
  return endian === 'little' ? bytes : bytes.reverse();
}
