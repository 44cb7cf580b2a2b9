/**
 * What a trace consists of. Types only, and what every reader and writer must know of them.
 *
 * Events come in order of time. Every entry has its return, properly nested on each CPU; activations that the program left
 * without returning (longjmp, exit) end with `unwound`.
 */
import type { Address } from '../units.js';

/** Version of the text formats; readers reject others. */
export const traceSchema = 1;

/** A function as traces name it. Addresses are those of the running image. */
export interface TracedFunction {
  /** Position in its list. */
  readonly index: number;
  readonly name: string;
  /** Its first instruction. */
  readonly address: Address;
  /** Other places at which it is entered (the local entry of ELFv2). */
  readonly otherEntries: readonly Address[];
  /** The ftrace site in it, if it has one. */
  readonly site: Address | null;
}

/** Common to all events. */
interface Activation {
  readonly function: TracedFunction;
  readonly cpu: number;
  /** Activations around this one; 0 is the outermost. */
  readonly depth: number;
  /** Instructions that all CPUs together had completed: the clock of the trace. */
  readonly time: number;
  /** Those of its own CPU. */
  readonly instructions: number;
}

export interface EntryEvent extends Activation {
  readonly kind: 'entry';
  /** Where the function will return to. */
  readonly parent: Address;
}

export interface ReturnEvent extends Activation {
  readonly kind: 'return';
  /** True when the function did not return but was abandoned. */
  readonly unwound: boolean;
}

export type TraceEvent = EntryEvent | ReturnEvent;

/** Takes the events of one run. Event objects are the sender's: what is kept must be copied. */
export interface TraceSink {
  event(event: TraceEvent): void;
  /** The run is over; `instructions` are those of each CPU. */
  end(instructions: readonly number[]): void;
}
