/**
 * How the trace of a program that writes it itself lies in its files: the same as
 * `runtime/native.h` and the structures of `runtime/native.c`, in numbers.
 */

/** First bytes of a file, and of what is filled in of the runtime. */
export const MAGIC = 'ELFTRCN1';

/** Bytes in front of the records. */
export const HEADER_BYTES = 4096;
/** Room for a path, its terminating zero included. */
export const NAME_BYTES = 256;

/** What a file has: calls, calls and their returns, numbers of calls; calls without times. */
export const MODES = { function: 1, function_graph: 2, counter: 3, noClock: 4 } as const;

/** Byte offsets in the header of a file. Numbers have the byte order of the program. */
export const HEADER = {
  version: 8,
  mode: 12,
  process: 16,
  thread: 20,
  parent: 24,
  sequence: 28,
  bias: 32,
  /** Three pairs of counter and nanoseconds: of the start, and two of which `pair` names one. */
  pairs: 40,
  pair: 88,
  realtime: 96,
  dropped: 104,
  droppedElsewhere: 112,
  id: 120,
  name: 152,
  threadName: 408,
  droppedReturns: 424,
  overwritten: 432,
  overwrittenReturns: 440,
  block: 448,
  turns: 456,
  counters: 464,
  droppedEarly: 472,
} as const;

/** Blocks of a file that keeps its size. */
export const RING_BLOCKS = 7;

/** Byte offsets in what is filled in of the runtime. */
export const CONFIG = { address: 8, id: 16, slot: 48, name: 56, mode: 312, counters: 316, library: 320 } as const;

/** What the runtime is told of the C library. */
export const LIBRARIES = { glibc: 1, musl: 2 } as const;

/**
 * Fields of a record, from bit 0 on. A record is two units of 32 bits, the one with the lower bits
 * first; a return that follows its call closely is one unit.
 */
export const RECORD = {
  tagCall: 1,
  tagReturn: 2,
  tagControl: 3,
  clockBits: 20,
  clockShift: 2,
  stackBits: 16,
  stackShift: 22,
  /** The stack pointer is recorded without its lowest bits. */
  stackUnit: 3,
  siteShift: 38,
  controlEpoch: 1,
  controlStack: 2,
  controlReturn: 3,
  /** So many units of values follow, of the event behind them. */
  controlValues: 4,
  /** Of their number; the bit above is set while they are written. */
  valuesBits: 16,
  /** Bits of the stack pointer that a return of one unit has. */
  nearBits: 10,
} as const;

/** Name of a trace file: process, thread, beginning of the object's sum, number. */
export const FILE_NAME = /^(\d+)\.(\d+)\.([0-9a-f]{8})\.(\d+)\.trace$/;

/**
 * Name that says what a process lost without any file: process, beginning of its sum, time,
 * how many calls.
 */
export const LOST_NAME = /^(\d+\.[0-9a-f]{8}\.[0-9a-f]+)\.(\d+)\.lost$/;

/** Files of a header's size in a trace's directory, which begin so: room on a full disk. */
export const SPARES = { names: Array.from({ length: 16 }, (_, i) => `spare.${i}`), magic: 'ELFTRSPR' } as const;
