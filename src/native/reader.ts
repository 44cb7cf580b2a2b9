/**
 * Reads the trace of one thread (RT-22, RT-26, RT-29): a header, then words, in pieces. Memory does
 * not grow with the trace, and no event is an object: the reader is at one event at a time.
 */
import { ByteView, cString } from '../bytes.js';
import { ElftraceError, hexBytes, malformed } from '../errors.js';
import type { Endian } from '../units.js';
import { type RecordedValue, readValues } from './values.js';
import { HEADER, HEADER_BYTES, MAGIC, MODES, NAME_BYTES, RECORD, RING_BLOCKS } from './layout.js';

/** A file. */
export interface TraceSource {
  /** For messages. */
  readonly name: string;
  readonly size: number;
  /** Fills `into` from a position on; the number of bytes that were there. */
  read(position: number, into: Uint8Array): number;
}

/** A counter and the nanoseconds of CLOCK_MONOTONIC at the same instant. */
export interface ClockPair {
  readonly counter: bigint;
  readonly nanoseconds: bigint;
}

/** What is recorded: calls, calls and their returns, how often each function is called. */
export type NativeTracer = 'function' | 'function_graph' | 'counter';
/** Whether calls have times. */
export type TraceClock = 'mono' | 'none';

export interface ThreadHeader {
  readonly endian: Endian;
  readonly tracer: NativeTracer;
  /** `none`: calls of a file have an order, and no times. */
  readonly clock: TraceClock;
  /** Numbers of calls that follow; 0: records do. */
  readonly counters: number;
  readonly process: number;
  readonly thread: number;
  readonly parent: number;
  /** The file of this thread and process: after exec there is another one. */
  readonly sequence: number;
  /** Address in the process less address in the file, of the traced object. */
  readonly bias: bigint;
  /** SHA-256 of the object before it was patched, lower-case hex. */
  readonly id: string;
  /** Path of that object. */
  readonly object: string;
  readonly threadName: string;
  readonly first: ClockPair;
  readonly last: ClockPair;
  /** Nanoseconds since 1970 when the file was opened. */
  readonly realtime: bigint;
  /** Events of the thread that were not recorded, and of threads of the process without a file. */
  readonly dropped: number;
  readonly droppedElsewhere: number;
  /** Returns of calls that were recorded, which were not recorded themselves. */
  /** Of these: before the C library knew the thread, as resolvers of static programs run. */
  readonly droppedEarly: number;
  readonly droppedReturns: number;
  /** Calls and returns that made room for later ones. */
  readonly overwritten: number;
  readonly overwrittenReturns: number;
  /** Bytes of a block of a file that keeps its size, and how many were begun; 0: the file grew. */
  readonly block: number;
  readonly turns: number;
}

const VERSION = 1;

/**
 * The header of a trace file.
 * @throws ElftraceError 'elf-malformed' for what is no trace file, or one of another version;
 *   'unsupported-form' for one that its program did not finish to open
 */
export function readThreadHeader(source: TraceSource): ThreadHeader {
  const bytes = new Uint8Array(HEADER_BYTES);
  const size = source.read(0, bytes);
  if (size > 0 && size < HEADER_BYTES) throw malformed(source.name, 'it is shorter than the header of a trace');
  if (bytes.subarray(0, MAGIC.length).every((byte) => byte === 0)) {
    throw new ElftraceError(
      'unsupported-form',
      `${source.name}: its program ended before it had opened it, or had no room for it`,
      {
        reason: 'unfinished',
      },
    );
  }
  if (cString(bytes, 0, MAGIC.length) !== MAGIC) throw malformed(source.name, 'it does not begin as a trace does');
  // Its program's byte order is the one in which the version is a small number.
  const endian = bytes[HEADER.version] === 0 ? 'big' : 'little';
  const view = new ByteView(bytes, endian, source.name);
  const version = view.u32(HEADER.version);
  const mode = view.u32(HEADER.mode);
  if (version !== VERSION) throw malformed(source.name, `it has version ${version}, this program knows ${VERSION}`);
  const name = (Object.keys(MODES) as (keyof typeof MODES)[]).find((each) => MODES[each] === mode);
  if (name === undefined) throw malformed(source.name, `tracer ${mode} is not known`);
  const pairAt = (index: number): ClockPair => ({
    counter: view.word(HEADER.pairs + 16 * index, 8),
    nanoseconds: view.word(HEADER.pairs + 16 * index + 8, 8),
  });
  const pair = view.word(HEADER.pair, 8);
  if (pair !== 1n && pair !== 2n) throw malformed(source.name, `it names clock pair ${pair}`);
  return {
    endian,
    tracer: name === 'noClock' ? 'function' : name,
    clock: name === 'noClock' || name === 'counter' ? 'none' : 'mono',
    counters: Number(view.word(HEADER.counters, 8)),
    process: view.u32(HEADER.process),
    thread: view.u32(HEADER.thread),
    parent: view.u32(HEADER.parent),
    sequence: view.u32(HEADER.sequence),
    bias: view.word(HEADER.bias, 8),
    id: hexBytes(bytes.subarray(HEADER.id, HEADER.id + 32)).replaceAll(' ', ''),
    object: cString(bytes, HEADER.name, HEADER.name + NAME_BYTES),
    threadName: cString(bytes, HEADER.threadName, HEADER.threadName + 16),
    first: pairAt(0),
    last: pairAt(Number(pair)),
    realtime: view.word(HEADER.realtime, 8),
    dropped: Number(view.word(HEADER.dropped, 8)),
    droppedElsewhere: Number(view.word(HEADER.droppedElsewhere, 8)),
    droppedEarly: Number(view.word(HEADER.droppedEarly, 8)),
    droppedReturns: Number(view.word(HEADER.droppedReturns, 8)),
    overwritten: Number(view.word(HEADER.overwritten, 8)),
    overwrittenReturns: Number(view.word(HEADER.overwrittenReturns, 8)),
    block: Number(view.word(HEADER.block, 8)),
    turns: Number(view.word(HEADER.turns, 8)),
  };
}

/** From counters to nanoseconds, for all files of one machine alike. */
export interface Clock {
  /** The counter and the nanoseconds that `ticks` and times are counted from. */
  readonly origin: ClockPair;
  readonly nanosecondsPerTick: number;
}

/**
 * The clock of several files (RT-29). The clock of a pair is read behind its counter: it may be
 * late, where the thread waited for a processor in between, and is never early. So the true line
 * has no pair below it, and it is that between the two neighbours on the lower hull of all pairs
 * that are the furthest apart.
 */
export function clockOf(headers: readonly Pick<ThreadHeader, 'first' | 'last'>[]): Clock {
  const pairs = headers
    .flatMap(({ first, last }) => [first, last])
    .sort((a, b) => Number(a.counter - b.counter) || Number(a.nanoseconds - b.nanoseconds));
  const [origin] = pairs;
  if (origin === undefined) return { origin: { counter: 0n, nanoseconds: 0n }, nanosecondsPerTick: 1 };
  const hull: ClockPair[] = [];
  for (const pair of pairs) {
    while (hull.length > 1 && !turnsUp(hull.at(-2)!, hull.at(-1)!, pair)) hull.pop();
    if (hull.at(-1)?.counter !== pair.counter) hull.push(pair);
  }
  let best: { readonly from: ClockPair; readonly ticks: bigint; readonly time: bigint } | null = null;
  for (let i = 1; i < hull.length; i++) {
    const [from, to] = [hull[i - 1]!, hull[i]!];
    const [ticks, time] = [to.counter - from.counter, to.nanoseconds - from.nanoseconds];
    if (time > 0n && (best === null || ticks > best.ticks)) best = { from, ticks, time };
  }
  if (best === null) return { origin, nanosecondsPerTick: 1 };
  const nanoseconds = best.from.nanoseconds - ((best.from.counter - origin.counter) * best.time) / best.ticks;
  return {
    origin: { counter: origin.counter, nanoseconds },
    nanosecondsPerTick: Number(best.time) / Number(best.ticks),
  };
}

/** Whether the line from b to c is steeper than that from a to b. */
const turnsUp = (a: ClockPair, b: ClockPair, c: ClockPair): boolean =>
  (b.nanoseconds - a.nanoseconds) * (c.counter - b.counter) < (c.nanoseconds - b.nanoseconds) * (b.counter - a.counter);

const HOST_ENDIAN: Endian = new Uint8Array(Uint32Array.of(1).buffer)[0] === 1 ? 'little' : 'big';

/** Turns the bytes of units around, in place. */
function swapUnits(units: Uint32Array, count: number): void {
  for (let i = 0; i < count; i++) {
    const unit = units[i]!;
    units[i] = (unit << 24) | ((unit & 0xff00) << 8) | ((unit >>> 8) & 0xff00) | (unit >>> 24);
  }
}

/** Bytes that are read at once. */
const PIECE = 1 << 20;
const CLOCK_ONES = 2 ** RECORD.clockBits - 1;
const EPOCH_TICKS = 2 ** RECORD.clockBits;
/** Bits of the stack pointer that lie in the lower half of a word. */
const STACK_LOW_BITS = 32 - RECORD.stackShift;
const STACK_HIGH_ONES = 2 ** (RECORD.stackBits - STACK_LOW_BITS) - 1;
const SITE_HIGH_SHIFT = RECORD.siteShift - 32;
const STACK_BYTES = 2 ** RECORD.stackUnit;
/** Units of values of one event, at most, and the bit that is set while they are written. */
const VALUES_MAX = 256;
const VALUES_ONES = 2 ** RECORD.valuesBits;
const NEAR_ONES = 2 ** RECORD.nearBits - 1;
/**
 * Stack pointers of returns below it are known modulo this number of bytes, for the call that ended
 * is the innermost one of those that have such a stack pointer. None lies so low.
 */
export const NEAR_BYTES = STACK_BYTES * 2 ** RECORD.nearBits;

/** The events of a thread, one after the other. Fields are those of the event that it is at. */
export class ThreadReader {
  readonly header: ThreadHeader;
  /** Nanoseconds since the clock's origin; it never goes back (RT-46). */
  time = 0;
  /** Whether the event is the return of a call, not a call. */
  isReturn = false;
  /** Stack pointer at the function's entry, of returns perhaps modulo NEAR_BYTES. */
  stack = 0;
  /** Lowest 26 bits of the address behind the site's call; of calls. */
  site = 0;
  /** Arguments of the call, or what it returned; null: none were recorded. */
  values: readonly RecordedValue[] | null = null;
  /** Words that are no record, or that nothing can be made of. */
  damaged = 0;

  private readonly words: Uint32Array;
  private readonly bytes: Uint8Array;
  private position = HEADER_BYTES;
  /** Blocks that were read, of a file that keeps its size. */
  private blocks = 0;
  private at = 0;
  private end = 0;
  private epoch = -1;
  private base = -1;
  private ticks = 0;
  private readonly startEpoch: number;
  private readonly startTicks: number;
  private readonly rate: number;
  private readonly isTimed: boolean;

  constructor(
    private readonly source: TraceSource,
    header: ThreadHeader,
    clock: Clock,
    pieceBytes = PIECE,
  ) {
    this.header = header;
    this.bytes = new Uint8Array(pieceBytes);
    this.words = new Uint32Array(this.bytes.buffer);
    const counter = clock.origin.counter;
    this.startEpoch = Number(counter >> BigInt(RECORD.clockBits));
    this.startTicks = Number(counter & BigInt(CLOCK_ONES));
    this.rate = clock.nanosecondsPerTick;
    this.isTimed = header.clock !== 'none';
    // The entry begins with zero, and says nothing while the counter's upper bits are that.
    if (!this.isTimed || header.first.counter >> BigInt(RECORD.clockBits) === 0n) this.epoch = 0;
  }

  /** Goes on to the next event; false at the end. */
  next(): boolean {
    this.values = null;
    for (;;) {
      if (this.at === this.end && !this.fill()) return false;
      const low = this.words[this.at++]!;
      if (low === 0) continue;
      const tag = low & 3;
      if (tag === RECORD.tagReturn && this.header.tracer === 'function_graph') {
        if (this.returned(low >>> RECORD.clockShift, low >>> RECORD.stackShift)) return true;
        continue;
      }
      if (this.at === this.end && !this.fill()) {
        this.damaged++;
        return false;
      }
      const high = this.words[this.at++]!;
      if (tag === RECORD.tagCall) {
        // Between its units the program was killed.
        if (high === 0) continue;
        if (this.isPlaced()) {
          this.call(low, high);
          return true;
        }
      } else if (tag === RECORD.tagControl) {
        if (this.control(low, high)) return true;
      } else if (tag === 0 || tag === RECORD.tagReturn) this.damaged++;
    }
  }

  /** Whether the upper bits of counter and stack pointer are known. */
  private isPlaced(): boolean {
    const isPlaced = this.epoch >= 0 && this.base >= 0;
    if (!isPlaced) this.damaged++;
    return isPlaced;
  }

  /** `near`: the lowest bits of the stack pointer's distance from the base. */
  private returned(clock: number, near: number): boolean {
    if (!this.isPlaced()) return false;
    this.setTime(clock);
    this.isReturn = true;
    this.stack = (this.base + (near & NEAR_ONES) * STACK_BYTES) % NEAR_BYTES;
    return true;
  }

  private setTime(clock: number): void {
    if (!this.isTimed) return;
    this.ticks = (this.epoch - this.startEpoch) * EPOCH_TICKS + (clock & CLOCK_ONES) - this.startTicks;
    const time = Math.round(this.ticks * this.rate);
    if (time > this.time) this.time = time;
  }

  private call(low: number, high: number): void {
    this.setTime(low >>> RECORD.clockShift);
    this.isReturn = false;
    const stack = (low >>> RECORD.stackShift) | ((high & STACK_HIGH_ONES) << STACK_LOW_BITS);
    this.stack = this.base + stack * STACK_BYTES;
    this.site = high >>> SITE_HIGH_SHIFT;
  }

  /** @returns whether it is an event */
  private control(low: number, high: number): boolean {
    const kind = (low >>> 2) & 15;
    const value = high * 2 ** 26 + (low >>> 6);
    if (kind === RECORD.controlEpoch) this.epoch = value;
    else if (kind === RECORD.controlStack) this.base = value;
    else if (kind === RECORD.controlReturn && this.header.tracer === 'function_graph') {
      if (!this.isPlaced()) return false;
      this.setTime(value);
      this.isReturn = true;
      this.stack = this.base + Math.floor(value / EPOCH_TICKS) * STACK_BYTES;
      return true;
    } else if (kind === RECORD.controlValues) this.values = this.readValues(value % VALUES_ONES, value >= VALUES_ONES);
    else this.damaged++;
    return false;
  }

  /** Values of the event behind them; an odd number of units is filled up. */
  private readValues(count: number, isUnfinished: boolean): readonly RecordedValue[] | null {
    const padded = count + (count % 2);
    const units = new Uint32Array(padded);
    for (let i = 0; i < padded; i++) {
      if (count > VALUES_MAX || (this.at === this.end && !this.fill())) {
        this.damaged++;
        return null;
      }
      units[i] = this.words[this.at++]!;
    }
    // The program was killed, or a handler went elsewhere, while they were written.
    if (isUnfinished) return null;
    const values = readValues(units.subarray(0, count), this.header.endian);
    if (values === null) this.damaged++;
    return values;
  }

  private fill(): boolean {
    const { header, source, bytes } = this;
    let count = 0;
    if (header.block === 0) {
      count = source.read(this.position, bytes);
      this.position += count;
    } else {
      const inBlock = (this.position - HEADER_BYTES) % header.block;
      if (this.position > HEADER_BYTES && inBlock === 0) this.blocks++;
      if (this.blocks >= Math.min(header.turns, RING_BLOCKS)) return false;
      // Nothing is known where a block begins.
      if (inBlock === 0) {
        this.epoch = this.isTimed ? -1 : 0;
        this.base = -1;
      }
      const size = Math.min(bytes.length, header.block - inBlock);
      count = source.read(HEADER_BYTES + this.blockAt() * header.block + inBlock, bytes.subarray(0, size));
      this.position += count;
      if (count < size) this.blocks = RING_BLOCKS;
    }
    // The end of a file that was cut is no word.
    if (count % 4 !== 0) this.damaged++;
    this.at = 0;
    this.end = Math.floor(count / 4);
    if (header.endian !== HOST_ENDIAN) swapUnits(this.words, this.end);
    return this.end > 0;
  }

  /** The block that is read: the oldest is the one that would be next. */
  private blockAt(): number {
    const { turns } = this.header;
    return turns <= RING_BLOCKS ? this.blocks : (turns + this.blocks) % RING_BLOCKS;
  }
}
