/**
 * What a trace consists of. Types only, and what every reader and writer must know of them.
 *
 * Events come in order of time. Every entry has its return, properly nested on each CPU;
 * activations that the program left without returning (longjmp, exit) end with `unwound`. Tracers
 * that record entries only make a trace without any return, which its header says (`nested`): there
 * every depth is 0.
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

/**
 * Something that a program recorded inside a function: a direct call, a probe that was hit, an
 * event of its own. Or a call of the function, by a tracer that hears of no returns beside one that
 * does: it has the depth of the function's entry, whichever of them came first.
 */
export interface PointEvent extends Activation {
  readonly kind: 'direct' | 'probe' | 'user' | 'call';
  /** Where it was recorded. */
  readonly ip: Address;
  readonly parent: Address;
  /** What a probe recorded, where the reader knows the probes of the image. */
  readonly probe?: ProbeData;
}

/** What a probe recorded. */
export interface ProbeData {
  readonly group: string;
  readonly event: string;
  /** Values as people read them. */
  readonly arguments: readonly { readonly name: string; readonly value: string }[];
  /** Of a return probe: where the function returned to. */
  readonly isReturn: boolean;
}

export type TraceEvent = EntryEvent | ReturnEvent | PointEvent;

/**
 * What `time` counts. `ticks`: a counter of the machine whose frequency is not known; `events`:
 * there are no times, and events are numbered.
 */
export type ClockUnit = 'instructions' | 'nanoseconds' | 'ticks' | 'events';

/** How much of what was recorded is there. */
export interface TraceLosses {
  /** Events ever written. */
  readonly written: number;
  /** Of these, how many are there: the oldest are overwritten when a ring is full. */
  readonly kept: number;
  /** Events that could not be recorded at all. */
  readonly dropped: number;
}

/** What a writer says of a trace before its events. */
export interface TraceHeader {
  /** Who recorded: the machine's hooks, or the program itself. */
  readonly source: 'oracle' | 'guest';
  /** Name of the image, for people. */
  readonly image: string;
  readonly clock: ClockUnit;
  /** False: entries only, no returns. */
  readonly nested: boolean;
  /** null: everything is there, or the trace is still being recorded. */
  readonly losses: TraceLosses | null;
  /** Process id of the program. */
  readonly process: number;
  /** Function at an address of the running image, without offset; '' where none is. */
  readonly nameOf: (address: Address) => string;
}

/** Takes the events of one run. Event objects are the sender's: what is kept must be copied. */
export interface TraceSink {
  event(event: TraceEvent): void;
  /** The run is over; `instructions` are those of each CPU. */
  end(instructions: readonly number[]): void;
}
