/**
 * Writes states of the tracer's data (PV-3): blocks of threads, calls under way, the ring's header.
 * The numbers are those of `runtime/abi.ts`.
 */
import {
  GRAPH_ENTRY_COUNT,
  GRAPH_ENTRY_WORDS,
  GRAPH_USER_COUNT,
  graphEntryBytes,
  ONE_STACK,
  PROBE_INSTANCE_COUNT,
  type PROBE_INSTANCE_WORDS,
  RING_HEADER,
  SIDE_ENTRY_WORD_COUNT,
  SIDE_ENTRY_WORDS,
  THREAD_COUNT,
  THREAD_HEAD_WORDS,
  THREAD_WORDS,
  threadBytes,
} from '../runtime/abi.js';
import type { Address } from '../units.js';
import type { Random } from './random.js';
import type { WaitingCalls } from './waiting-calls.js';
import type { Wanted } from './wanted.js';

const ALL_USERS = (1n << BigInt(GRAPH_USER_COUNT)) - 1n;
/** Bytes between frames of calls of one stack. */
export const STEP = 32n;
/** Most calls of a state that are under way, or were left; loops that go two by two see both. */
export const CALLS = 6;
/** Calls of before that the words behind the last one still name. */
const STALE = 3;
/** So many calls were lost that few more need the upper half of a number. */
const CALLS_LOST = 0x5_ffff_ffffn;
/** From a number to one that is the same in its lower half. */
export const UPPER = 1n << 32n;

/** Where the tracer's data is, and how it is written. */
export interface TracerMemory {
  readonly word: 4 | 8;
  readonly ring: Address;
  readonly threads: Address;
  readonly stopped: Address | null;
  readonly watching: Address | null;
  /** The ops whose filter a graph tracer asks that is a branch of the entry. */
  readonly graphOps: Address | null;
  readonly capacity: bigint;
  readonly recordBytes: bigint;
  /** Calls that return probes wait for; null: there are none. */
  readonly waiting: WaitingCalls | null;
  /** Where functions return to that the graph tracer took, or a return probe; null: none does. */
  readonly handler: Address | null;
  readonly trap: Address | null;
  store(at: Address, value: bigint, size: number): void;
  /**
   * The same for a word of memory that is of no image, for both.
   * @returns whether it is there
   */
  aside(at: Address, value: bigint): boolean;
}

/** What tells the call for which a state is made. */
export interface StateCall {
  /** What the running thread's block has as its owner. */
  readonly owner: bigint;
  /** The function's frame, and what its function in the place of another one is told by. */
  readonly frame: bigint;
  /** The same for return probes: the stack pointer behind the return. */
  readonly stack: bigint;
  /** An event that waits for the function's return; 0n: none does. */
  readonly event: bigint;
  /** The object of the probe that the tracer handles there; 0n: there is none. */
  readonly probe: Address;
  /** Its site, and what that calls. */
  readonly ip: Address;
  readonly wanted: Wanted | null;
}

/** Writes the state of a thread's block and of the ring. */
export class StateWriter {
  private readonly block: Address;

  constructor(
    private readonly memory: TracerMemory,
    private readonly call: StateCall,
    private readonly number: number,
  ) {
    this.block = this.at(number);
  }

  /** The highest bit of a word alone: who asks for a part of it finds 0. */
  get highest(): bigint {
    return 1n << BigInt(8 * this.memory.word - 1);
  }

  private at(number: number): Address {
    return this.memory.threads + BigInt(number * threadBytes(this.memory.word));
  }

  ring(field: keyof typeof RING_HEADER, value: bigint): void {
    const size = field === 'head' || field === 'dropped' ? 8 : 4;
    this.memory.store(this.memory.ring + BigInt(RING_HEADER[field]), value, size);
  }

  /**
   * So many blocks from `first` on belong to others, which have calls of their own under way.
   * @param meets   those of a thread that is gone, whose stack the running one has now
   * @param isTwin  their owners have the lower half of the running one's
   */
  others(first: number, count: number, random: Random, meets = false, isTwin = false): void {
    for (let i = first; i < first + count; i++) {
      const number = BigInt(0x1000 + random.below(0x1000));
      const owner = isTwin ? BigInt.asUintN(64, this.call.owner + UPPER * number) : (this.near(number) ?? number);
      const other = new StateWriter(this.memory, { ...this.call, owner }, i);
      const frames = [...elsewhere(random.below(CALLS)), ...(meets ? [0n] : [])];
      other.own().calls(0, frames);
      other.side(frames);
      other.waiting(0, frames, random);
    }
  }

  /** Of every other thread the number is next to the running one's; null: of this one not. */
  private near(number: bigint): bigint | null {
    const owner = BigInt.asUintN(8 * this.memory.word, this.call.owner + [1n, -1n, 0n, 0n][Number(number % 4n)]!);
    return owner === this.call.owner || owner === 0n ? null : owner;
  }

  /**
   * Calls under way, and behind the last one what those left that came back: of the same frame and
   * event as the one that comes.
   */
  stale(distances: readonly bigint[], random: Random): void {
    const all = [...distances, ...new Array<bigint>(STALE).fill(0n)];
    this.calls(0, all);
    this.side(all);
    this.waiting(0, all, random);
    const depth = BigInt(distances.length);
    this.head('depth', depth);
    this.head('sideDepth', depth);
    const { waiting, word, store } = this.memory;
    if (waiting !== null) store(waiting.depthAt(this.number), depth, word);
  }

  /** Words behind the last block are as those of a free one, where nothing else is. */
  beyond(): void {
    const bytes = threadBytes(this.memory.word);
    for (let i = THREAD_COUNT; i < 2 * THREAD_COUNT; i++)
      this.memory.aside(this.memory.threads + BigInt(i * bytes), 0n);
  }

  own(): this {
    this.memory.store(this.block, this.call.owner, this.memory.word);
    const shift = 32n - BigInt(4 * this.memory.word);
    // What is in front of the first function in the place of another one looks like one left.
    const { word, store } = this.memory;
    const below = BigInt.asUintN(8 * word, this.call.frame - STEP);
    store(this.sideAt(-1) + BigInt(SIDE_ENTRY_WORDS.frame * word), below, word);
    this.head('overrun', CALLS_LOST >> shift);
    this.head('abandoned', (CALLS_LOST - 1n) >> shift);
    return this;
  }

  head(name: keyof typeof THREAD_WORDS, value: bigint): void {
    const { word, store } = this.memory;
    store(this.block + BigInt(THREAD_WORDS[name] * word), value, word);
  }

  /** Calls under way, the oldest first, by the distance of their frames from the one that comes. */
  calls(first: number, distances: readonly bigint[]): void {
    const { word, store } = this.memory;
    distances.forEach((distance, i) => {
      const entry = this.block + BigInt(THREAD_HEAD_WORDS * word + (first + i) * graphEntryBytes(word));
      const put = (name: keyof typeof GRAPH_ENTRY_WORDS, value: bigint): void => {
        store(entry + BigInt(GRAPH_ENTRY_WORDS[name] * word), value, word);
      };
      put('frame', BigInt.asUintN(8 * word, this.call.frame + distance));
      put('parentIp', 0x1234n + BigInt(i));
      // Users that wanted them: of calls that were left the next one must not have any.
      put('users', ALL_USERS);
    });
    this.head('depth', BigInt(first + distances.length));
  }

  private sideAt(index: number): Address {
    const { word } = this.memory;
    const begin = THREAD_HEAD_WORDS * word + GRAPH_ENTRY_COUNT * graphEntryBytes(word);
    return this.block + BigInt(begin + SIDE_ENTRY_WORD_COUNT * index * word);
  }

  /** Functions in the place of others that are under way. */
  side(distances: readonly bigint[], first = 0): void {
    const { word, store } = this.memory;
    distances.forEach((distance, i) => {
      const entry = this.sideAt(first + i);
      store(entry + BigInt(SIDE_ENTRY_WORDS.frame * word), BigInt.asUintN(8 * word, this.call.frame + distance), word);
    });
    this.head('sideDepth', BigInt(first + distances.length));
  }

  /**
   * Calls that return probes wait for: some of the event that comes.
   * @param isTwin  others are of one that is the same in its lower half
   */
  waiting(first: number, distances: readonly bigint[], random: Random, isTwin = false): void {
    const { word, store, waiting } = this.memory;
    if (waiting === null) return;
    distances.forEach((distance, i) => {
      const put = (name: keyof typeof PROBE_INSTANCE_WORDS, value: bigint): void => {
        store(waiting.wordAt(this.number, first + i, name), BigInt.asUintN(8 * word, value), word);
      };
      put('frame', this.call.stack + distance);
      const other = isTwin && this.call.event !== 0n ? this.call.event + UPPER : 0n;
      put('event', random.below(2) === 0 ? this.call.event : other);
      put('parentIp', 0x1234n + BigInt(i));
    });
    store(waiting.depthAt(this.number), BigInt(first + distances.length), word);
  }

  /**
   * The last ones took their return from each other, the first of them from the graph tracer, or,
   * where that is not known, from another one, too.
   */
  chain(end: number, count: number, isKnown = true): void {
    const { word, store, waiting, handler, trap } = this.memory;
    if (waiting === null || trap === null) return;
    for (let i = 0; i < count; i++) {
      const parent = isKnown && i === count - 1 ? handler! : trap;
      store(waiting.wordAt(this.number, end - 1 - i, 'parentIp'), parent, word);
    }
  }

  /** One of the calls in a chain goes to its caller: those below it are none of the chain. */
  breakChain(end: number, place: number, random: Random): void {
    const { word, store, waiting, handler, trap } = this.memory;
    if (waiting === null || trap === null || handler === null) return;
    store(waiting.wordAt(this.number, end - 1 - place, 'parentIp'), 0x1234n, word);
    for (let i = place + 1; i < end; i++) {
      store(waiting.wordAt(this.number, end - 1 - i, 'parentIp'), random.below(3) > 0 ? handler : trap, word);
    }
  }

  /** The thread's neighbour has as many calls under way as there can be, of a traced function. */
  neighbour(): void {
    const { word, store, waiting, handler } = this.memory;
    if (waiting === null || handler === null || this.number === 0) return;
    for (let i = 0; i < PROBE_INSTANCE_COUNT; i++) {
      store(waiting.wordAt(this.number - 1, i, 'parentIp'), handler, word);
    }
  }
}

/** Frames of callers, which lie above: the oldest call first. */
export const callers = (count: number): bigint[] => Array.from({ length: count }, (_, i) => BigInt(count - i) * STEP);
/** Frames of calls that were left: the last one as far off as one of the same stack can be. */
export const leftFrames = (count: number): bigint[] =>
  Array.from({ length: count }, (_, i) => (i < count - 1 ? BigInt(-1 - i) * STEP : 1n - ONE_STACK));
/** Frames of other stacks. */
export const elsewhere = (count: number): bigint[] =>
  Array.from({ length: count }, (_, i) => BigInt(count + 2 - i) * ONE_STACK);
