/**
 * States of the tracer's data in which trials begin and functions return (PV-3): those that a
 * program can have, and that code seldom meets. The numbers are those of `runtime/abi.ts`.
 */
import {
  GRAPH_ENTRY_COUNT,
  ONE_STACK,
  PROBE_INSTANCE_COUNT,
  RING_FLAGS,
  SIDE_ENTRY_COUNT,
  THREAD_COUNT,
  threadBytes,
} from '../runtime/abi.js';
import type { Random } from './random.js';
import {
  callers,
  CALLS,
  elsewhere,
  leftFrames,
  type StateCall,
  StateWriter,
  STEP,
  type TracerMemory,
  UPPER,
} from './state-writer.js';
import type { WaitingPlan } from './waiting-calls.js';

export type TracerState =
  /** As the image has it. */
  | 'fresh'
  /** The thread called the site before, and came back or not. */
  | 'again'
  /**
   * The next record is the last one of the ring, or the first one again. No return was ever
   * probed.
   */
  | 'ring-end'
  /** So many records that their number needs more than 32 bits next. */
  | 'ring-wrapped'
  /** The oldest records are kept, and one more fits, or some, or none. */
  | 'ring-full'
  | 'ring-nearly-full'
  /** Blocks in front of the thread's own belong to others; functions return in another thread. */
  | 'others'
  /** The same, and the call has others of its thread under it. */
  | 'moved'
  /** All blocks belong to others. */
  | 'no-block'
  /** A callback of the list calls the site: the tracer itself is traced. */
  | 'list-runs'
  /** A callback of the graph tracer calls it, or one while a hit is handled. */
  | 'graph-runs'
  /** No further call fits on the graph tracer's stack. */
  | 'deep'
  /** Calls that were left lie on it, under calls that go on; more are left before the return. */
  | 'left'
  /** Calls of another stack, and one of this frame that was left. */
  | 'other-stack'
  /** The function was called by a tail call: the one before it has this frame, and its return. */
  | 'tail'
  /** The same, and a return probe took the return of that one behind the graph tracer. */
  | 'probed-tail'
  /**
   * The same, but that one is not known in this thread: nothing says who had the return before the
   * return probe.
   */
  | 'lost-tail'
  /** All calls of the thread were left. */
  | 'gone'
  /** A graph tracer that is a branch of the entry has no filter of its own. */
  | 'unfiltered'
  /** The graph tracer was stopped; blocks may belong to others, too. */
  | 'stopped'
  /** RCU does not watch: callbacks that need it are left out. */
  | 'not-watching'
  /** The last callback names another place to go on at; there may be no room to keep its caller. */
  | 'redirected'
  /** The same, and that callback changes registers in its frame, too. */
  | 'rerouted'
  /** A callback that has all registers changes them in its frame. */
  | 'rewritten'
  /**
   * No function in the place of another one can be kept, and no call for a return probe; or some
   * were left. Of the event that comes one call goes on.
   */
  | 'side-full'
  | 'side-left'
  /** Tables hold what other requests left in them (filled-tables.ts). */
  | 'filled'
  /** Half of what pointers lead to is not mapped. */
  | 'unmapped'
  /** The probe is off: its place still leads to the tracer. */
  | 'off'
  /** Direct callers and probes are taken off: tables have no row of the site, or are gone. */
  | 'rowless'
  /** Stores under a reservation fail once, as when another hart comes between (contention.ts). */
  | 'retried'
  /**
   * Another thread takes a free block, or the number of a record, between the look at it and the
   * attempt to take it, or a handler of the same thread takes the block.
   */
  | 'overtaken'
  /** Behind the last call under way stand others of its frame that came back. */
  | 'stale'
  /** The same behind a tail call whose return a return probe took. */
  | 'stale-tail'
  /** Numbers of 64 bits that differ from those of the call in their upper halves alone. */
  | 'twins';

/** In the order in which the trials of a site take them. */
export const TRACER_STATES: readonly TracerState[] = [
  'fresh',
  'ring-end',
  'again',
  'others',
  'unmapped',
  'ring-full',
  'no-block',
  'list-runs',
  'redirected',
  'left',
  'graph-runs',
  'redirected',
  'other-stack',
  'ring-wrapped',
  'stopped',
  'deep',
  'tail',
  'not-watching',
  'side-full',
  'ring-nearly-full',
  'side-left',
  'moved',
  'probed-tail',
  'lost-tail',
  'rewritten',
  'gone',
  'unfiltered',
  'filled',
  'filled',
  'filled',
  'filled',
  'unmapped',
  'off',
  'rowless',
  'retried',
  'overtaken',
  'rowless',
  'unfiltered',
  'unfiltered',
  'unfiltered',
  'ring-nearly-full',
  'ring-nearly-full',
  'retried',
  'retried',
  'overtaken',
  'overtaken',
  'overtaken',
  'stale',
  'stale-tail',
  'twins',
  'twins',
  'off',
  'overtaken',
  'rerouted',
  'rerouted',
];

/** Those in which a function returns to where the one before it does. */
export const TAILS: ReadonlySet<TracerState | null> = new Set<TracerState>([
  'tail',
  'probed-tail',
  'lost-tail',
  'stale-tail',
]);

/** Those of them in which it returns to a return probe. */
export const PROBED_TAILS: ReadonlySet<TracerState | null> = new Set<TracerState>([
  'probed-tail',
  'lost-tail',
  'stale-tail',
]);

/** Those in which callbacks change registers in their frames; in two of them also without room. */
export const REWRITES: ReadonlySet<TracerState | null> = new Set<TracerState>(['rewritten', 'side-full', 'rerouted']);

/** Those in which a callback names another place to go on at. */
export const REDIRECTS: ReadonlySet<TracerState | null> = new Set<TracerState>(['redirected', 'rerouted']);

/** Those in which code that follows a pointer of 0 must find nothing there. */
export const NULL_POINTERS: ReadonlySet<TracerState | null> = new Set<TracerState>([
  'filled',
  'rowless',
  'unfiltered',
  'no-block',
  'others',
]);

/** What a thread's block says while callbacks of the list run; any word but 0 says so. */
export const LIST_ACTIVE = 5n;
/** The same while a hit of a probe is handled. */
export const HIT_ACTIVE = 1n;
/** The same while the graph tracer calls a user, of whatever else is under way, or a hit is. */
const GRAPH_ACTIVE = [2n, 2n, HIT_ACTIVE, HIT_ACTIVE | 2n, LIST_ACTIVE | 2n];

const HIGH = 0xffff_ffffn;
const KEEP_OLDEST = BigInt(RING_FLAGS.keepOldest);
const NO_TIMES = BigInt(RING_FLAGS.noTimes);
/** Flags of a ring that overwrites the oldest: bits that nothing asks, or of times alone. */
const OVERWRITING = [HIGH ^ KEEP_OLDEST ^ NO_TIMES, HIGH ^ KEEP_OLDEST ^ NO_TIMES, NO_TIMES];
/** Flags of one that keeps them. */
const KEEPING = [HIGH, KEEP_OLDEST, KEEP_OLDEST | NO_TIMES];
/** More records than those of any event. */
const ROOM_FOR_EVENT = 48;
/** Records for which there is room at last: one, or more than any event of a probe needs. */
const roomLeft = (random: Random): number => (random.below(3) === 0 ? 1 : 1 + random.below(ROOM_FOR_EVENT));
/** Records that were written over before the ring was told to keep the oldest. */
const beyond = (random: Random): bigint => (random.below(2) === 0 ? 0n : BigInt(1 + random.below(0x10000)));

/**
 * Brings the data into a state before a trial. `again`, `redirected`, `rewritten` and `unmapped`
 * are of the trial itself, what `filled` and `rowless` mean is in filled-tables.ts.
 * @returns whether the state is one of this tracer
 */
export function enterState(state: TracerState, memory: TracerMemory, call: StateCall, random: Random): boolean {
  const { capacity } = memory;
  const writer = new StateWriter(memory, call, 0);
  if (CROWDED.has(state)) writer.beyond();
  switch (state) {
    case 'ring-end':
      writer.ring('head', capacity - BigInt(random.below(2)));
      return true;
    case 'ring-wrapped':
      // The record of the call, or that of the return, needs the upper half.
      writer.ring('head', HIGH - BigInt(random.below(3)));
      writer.ring('flags', OVERWRITING[random.below(OVERWRITING.length)]!);
      return true;
    case 'ring-full':
    case 'ring-nearly-full':
      writer.ring('head', state === 'ring-full' ? capacity + beyond(random) : capacity - BigInt(roomLeft(random)));
      writer.ring('flags', KEEPING[random.below(KEEPING.length)]!);
      writer.ring('dropped', HIGH);
      return true;
    case 'others':
      writer.others(0, 1 + random.below(THREAD_COUNT - 1), random);
      return true;
    case 'off':
      // The word that says so is in the object of the probe (`own-data.ts`). Nothing is dropped.
      if (random.below(2) === 0) writer.others(0, THREAD_COUNT, random);
      return call.probe !== 0n;
    case 'retried':
      writer.others(0, random.below(3) === 0 ? THREAD_COUNT : random.below(THREAD_COUNT - 1), random);
      if (random.below(2) === 0) return true;
      // Numbers of records are taken with the same instructions.
      writer.ring('flags', KEEP_OLDEST);
      writer.ring('head', capacity - BigInt(roomLeft(random)));
      return true;
    case 'overtaken':
      enterOvertaken(memory, call, random);
      return true;
    case 'moved': {
      const first = random.below(THREAD_COUNT - 1);
      writer.others(0, first, random);
      new StateWriter(memory, call, first).own().calls(0, callers(1 + random.below(CALLS)));
      return true;
    }
    case 'no-block':
      writer.others(0, THREAD_COUNT, random);
      writer.ring('dropped', HIGH);
      return true;
    case 'stopped':
      if (memory.stopped === null) return false;
      memory.store(memory.stopped, random.below(2) === 0 ? 1n : writer.highest, memory.word);
      // Who is stopped drops nothing, whether or not the thread has a block.
      writer.others(0, [0, THREAD_COUNT, random.below(THREAD_COUNT)][random.below(3)]!, random);
      return true;
    case 'unfiltered':
      if (memory.graphOps !== null) memory.store(memory.graphOps, 0n, memory.word);
      return memory.graphOps !== null;
    case 'not-watching':
      if (memory.watching !== null) memory.store(memory.watching, 0n, memory.word);
      return memory.watching !== null;
    default:
      return enterBlock(state, memory, call, random);
  }
}

/** A state of what the thread has under way, in any of the blocks. */
function enterBlock(state: TracerState, memory: TracerMemory, call: StateCall, random: Random): boolean {
  const isTwin = state === 'twins';
  const number = random.below(THREAD_COUNT);
  const own = new StateWriter(memory, call, number);
  if (isTwin && memory.word === 4) return false;
  if (enterCalls(state, own, random)) own.others(0, number, random, !isTwin, isTwin);
  return true;
}

/** A block that is free, or the thread's own: then another thread takes a record's number. */
function enterOvertaken(memory: TracerMemory, call: StateCall, random: Random): void {
  // What a search does with the first block it does with no other: that one comes twice as often.
  const drawn = random.below(THREAD_COUNT - 1);
  const first = drawn === 3 ? 0 : drawn;
  const writer = new StateWriter(memory, call, first);
  writer.others(0, first, random);
  if (random.below(2) === 0) return;
  writer.own().ring('flags', KEEP_OLDEST);
  // With room for both, the number that was taken shows.
  const room = random.below(2) === 0 ? roomLeft(random) : ROOM_FOR_EVENT + random.below(8);
  writer.ring('head', memory.capacity - BigInt(room));
}

/**
 * Brings what a thread has under way into a state.
 * @returns whether the state has anything under way
 */
function enterCalls(state: TracerState, writer: StateWriter, random: Random): boolean {
  const some = (): number => random.below(CALLS);
  switch (state) {
    case 'list-runs':
      writer.own().head('active', random.below(3) === 0 ? writer.highest : LIST_ACTIVE);
      return true;
    case 'graph-runs':
      writer.own().head('active', GRAPH_ACTIVE[random.below(GRAPH_ACTIVE.length)]!);
      return true;
    case 'deep':
      writer.own().calls(0, callers(GRAPH_ENTRY_COUNT));
      return true;
    case 'left':
      writer.own().calls(0, [...callers(some()), ...leftFrames(1 + some())]);
      return true;
    case 'gone': {
      const frames = Array.from({ length: 1 + random.below(3) }, (_, i) => -BigInt(i + 1) * STEP);
      writer.own().calls(0, frames);
      writer.side(frames);
      writer.waiting(0, frames, random);
      return true;
    }
    case 'other-stack':
      writer.own().calls(0, [...elsewhere(some()), -ONE_STACK, 0n]);
      writer.side([...elsewhere(some()), -ONE_STACK]);
      writer.waiting(0, [...elsewhere(some()), -ONE_STACK], random);
      return true;
    case 'stale':
      writer.own().stale(callers(some()), random);
      return true;
    case 'twins': {
      const frames = [...callers(some()), UPPER];
      writer.own().calls(0, frames);
      writer.side(frames);
      writer.waiting(0, frames, random, true);
      return true;
    }
    case 'redirected':
    case 'rerouted':
      // Only where what the caller needs is kept is there more than one way.
      if (random.below(2) === 0) return false;
      writer.own().side(callers(SIDE_ENTRY_COUNT));
      return true;
    case 'side-full':
      writer.own().side(callers(SIDE_ENTRY_COUNT));
      writer.waiting(0, callers(PROBE_INSTANCE_COUNT), random);
      return true;
    case 'side-left': {
      const frames = [...callers(some()), ...leftFrames(1 + some())];
      writer.own().side(frames);
      writer.waiting(0, frames, random);
      return true;
    }
    default:
      return enterTail(state, writer, random);
  }
}

/** The same where the function was called by a tail call. */
function enterTail(state: TracerState, writer: StateWriter, random: Random): boolean {
  const some = (): number => random.below(CALLS);
  switch (state) {
    case 'tail':
      writer.own().calls(0, [...callers(some()), 0n]);
      return true;
    case 'probed-tail': {
      const [before, count] = [some(), 1 + random.below(2)];
      writer.own().calls(0, [...callers(some()), 0n]);
      writer.waiting(0, [...callers(before), ...new Array<bigint>(count).fill(0n)], random);
      writer.chain(before + count, count);
      return true;
    }
    case 'lost-tail': {
      const count = some();
      writer.own().calls(0, [...callers(some()), 0n]);
      writer.waiting(0, new Array<bigint>(count).fill(0n), random);
      writer.chain(count, count, false);
      writer.neighbour();
      if (count > 0 && random.below(2) === 0) writer.breakChain(count, random.below(count), random);
      return true;
    }
    case 'stale-tail': {
      const [before, count] = [some(), 1 + random.below(2)];
      writer.own().stale([...callers(before), ...new Array<bigint>(count).fill(0n)], random);
      writer.chain(before + count, count);
      return true;
    }
    default:
      return false;
  }
}

/** Where a function that was called comes back. */
export interface CallPlace {
  /** Of the block with its call. */
  readonly number: number;
  /** Calls under way in it. */
  readonly depth: number;
}

/** What changed while a function was on its way back. */
export interface OnWayBack {
  /** Calls that were left since. */
  readonly left: number;
  /** The block of the thread that it returns in; null: its own, or, if `isGone`, it has none. */
  readonly block: number | null;
  /** Its own block is another's now. */
  readonly isGone: boolean;
}

export const NOTHING_NEW: OnWayBack = { left: 0, block: null, isGone: false };

/** States in which a function comes back in another thread. */
export const MOVES: ReadonlySet<TracerState> = new Set<TracerState>(['others', 'moved', 'retried', 'overtaken']);
/** Those in which all blocks may belong to others: then none lies behind the last. */
const CROWDED: ReadonlySet<TracerState> = new Set<TracerState>([...MOVES, 'no-block', 'off', 'stopped']);

/**
 * States in which no store under a reservation fails: in all others each of them does once, beside
 * what the state is. What the tracer counts or takes in one it does in no other.
 */
export const UNDISTURBED: ReadonlySet<TracerState> = new Set<TracerState>(['fresh', 'again']);

/** States in which calls are left on the way back. */
export const LEAVES: ReadonlySet<TracerState> = new Set<TracerState>(['left', 'twins']);

/** Changes the data while a function is on its way back. */
export function returnState(
  state: TracerState,
  memory: TracerMemory,
  call: StateCall,
  { number, depth }: CallPlace,
  random: Random,
): OnWayBack {
  const leave = (most: number): number => {
    const left = Math.min(most, GRAPH_ENTRY_COUNT - depth);
    const frames = Array.from({ length: left }, (_, i) => BigInt(i % 2 === 0 ? -1 - i : i) * STEP);
    new StateWriter(memory, call, number).calls(depth, frames);
    return left;
  };
  if (state === 'left') return { ...NOTHING_NEW, left: leave(1 + random.below(CALLS)) };
  if (state === 'twins') {
    const frames = [UPPER, -UPPER].slice(0, GRAPH_ENTRY_COUNT - depth);
    new StateWriter(memory, call, number).calls(depth, frames);
    return { ...NOTHING_NEW, left: frames.length };
  }
  if (!MOVES.has(state)) return NOTHING_NEW;
  const left = state === 'moved' ? leave(random.below(CALLS)) : 0;
  // It comes back in a thread that has calls of its own, or in one for which there is no block.
  memory.store(memory.threads + BigInt(number * threadBytes(memory.word)), 0x7ffn, memory.word);
  const block = number + 1 + random.below(THREAD_COUNT - number);
  const writer = new StateWriter(memory, call, block);
  writer.others(number + 1, block - number - 1, random);
  if (block === THREAD_COUNT) return { ...NOTHING_NEW, left, isGone: true };
  // Or in one that no callback has asked for yet: it takes its block now.
  const isContended = state === 'retried' || state === 'overtaken';
  if (!isContended && random.below(2) === 0) writer.own().calls(0, elsewhere(random.below(2) * random.below(CALLS)));
  return { left, block, isGone: true };
}

/** Calls that return probes wait for are left while the function is on its way back. */
export function leaveWaiting(
  memory: TracerMemory,
  call: StateCall,
  number: number,
  { depth, events }: WaitingPlan,
  random: Random,
): void {
  const first = depth + events.length;
  const left = Math.min(1 + random.below(CALLS), PROBE_INSTANCE_COUNT - first);
  new StateWriter(memory, call, number).waiting(first, leftFrames(left), random);
}

/**
 * Functions in the place of others are left while the one of the trial is on its way back.
 * @param depth  of those that are under way, with it
 */
export function leaveSide(memory: TracerMemory, call: StateCall, { number, depth }: CallPlace, random: Random): void {
  const left = Math.min(1 + random.below(CALLS), SIDE_ENTRY_COUNT - depth);
  new StateWriter(memory, call, number).side(leftFrames(left), depth);
}
