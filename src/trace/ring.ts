/**
 * The ring in which a traced program keeps its events, read out of any memory: that of a machine,
 * of a process, or a file. Owns the layout, and what a reader must make of it: order, overwritten
 * and dropped events, entries paired with their returns.
 *
 *   header (64 bytes)                      record of version 1 (32 bytes)
 *    0  "ELFTRCE1"                          0  u64 time
 *    8  u32 version                         8  u64 ip          the site
 *   12  u32 record size, bytes             16  u64 parent_ip   where the function returns to
 *   16  u32 capacity, a power of two       24  u32 kind        1 entry 2 return 3 direct 4 probe 5
 *                                                              user 6 data 7 call
 *   20  u32 flags: 1 keeps the oldest,     28  u32 cpu or thread
 *             2 records have no times
 *   24  u64 head: records ever written
 *   32  u64 dropped                        record number n is at header + 64 + (n mod capacity) *
 *                                          record size;
 *   40  u64 clock kind                     the last `capacity` of them are there
 *   48  unused
 *
 * A record of kind data belongs to the record of a probe in front of it: time, ip and parent_ip are
 * three words that the probe fetched.
 *
 * A record of kind call is that of a tracer that hears of no returns. Where others record returns
 * it is an event inside of what they recorded; alone it is an entry.
 *
 *   record of version 2 (16 bytes)
 *    0  u64 bits 0-2 kind, 3 far, 4-7 thread, 8-63 lower bits of the time
 *    8  u32 lower half of ip
 *   12  u32 lower half of parent_ip
 *
 * The upper halves of its addresses are that of the ring's own. A record that says far has them in
 * the one behind it, of kind data; a word that a probe fetched is one more. The upper bits of times
 * are found from the order of records.
 *
 * All in the byte order of the target, addresses of 32-bit targets in 64 bits. Source: RT-11.
 */
import { ByteView } from '../bytes.js';
import { ElftraceError, hex } from '../errors.js';
import type { Address, Endian } from '../units.js';
import type { ClockUnit, ProbeData, TracedFunction, TraceEvent, TraceLosses, TraceSink } from './events.js';
import { functionLookup } from './functions.js';

/** "ELFTRCE1". */
export const RING_MAGIC: readonly number[] = [0x45, 0x4c, 0x46, 0x54, 0x52, 0x43, 0x45, 0x31];
/** The version of long records. */
const LONG_VERSION = 1;
export const RING_HEADER_BYTES = 64;
export const RING_RECORD_BYTES = 32;
/** The version of short records. */
const SHORT_VERSION = 2;
const RECORD_BYTES: Readonly<Record<number, number>> = { [LONG_VERSION]: RING_RECORD_BYTES, [SHORT_VERSION]: 16 };
/** More records than any memory that we read has: a sign of damage. */
const CAPACITY_MAX = 1 << 24;

/** Flag: events that find the ring full are dropped, instead of overwriting the oldest. */
export const RING_KEEPS_OLDEST = 1;
/** Flag: records have no times. */
const NO_TIMES = 2;

/** Kind of the records that belong to the probe in front of them. */
const DATA = 6;

const recordKinds = ['entry', 'return', 'direct', 'probe', 'user', null, 'call'] as const;
export type RingRecordKind = Exclude<(typeof recordKinds)[number], null>;

/** Reads memory; null where a byte of the range is not there. `GuestMemory.read` is one. */
export type MemoryReader = (address: Address, size: number) => Uint8Array | null;

export interface RingRecord {
  readonly kind: RingRecordKind;
  readonly time: bigint;
  readonly ip: Address;
  readonly parent: Address;
  /** CPU or thread, as the guest numbers them. */
  readonly cpu: number;
  /** What a probe fetched, words of 64 bits; absent for nothing. */
  readonly words?: readonly bigint[];
}

/** A ring as it was when it was read. */
export interface Ring {
  readonly version: number;
  readonly capacity: number;
  readonly flags: number;
  /** Records ever written. */
  readonly written: bigint;
  /** Records that the guest could not write. */
  readonly dropped: bigint;
  /** Of those written, how many were overwritten since: the oldest. */
  readonly overwritten: bigint;
  /**
   * Records without a kind that we know: one that was being written when the program ended, or
   * damage.
   */
  readonly unreadable: number;
  readonly clock: number;
  /** Oldest first. */
  readonly records: readonly RingRecord[];
}

function refuse(address: Address, what: string, value: bigint | number, fileOffset = 0): ElftraceError {
  return new ElftraceError('bad-record', `trace ring at ${hex(address)}: ${what}`, {
    address: address + BigInt(fileOffset),
    what: 'trace ring',
    value,
  });
}

/** What a header says, once it is known to be one. */
type RingHeader = Pick<Ring, 'version' | 'capacity' | 'flags' | 'written' | 'dropped' | 'clock'>;

function readHeader(read: MemoryReader, address: Address, endian: Endian): RingHeader {
  const header = read(address, RING_HEADER_BYTES);
  if (header?.length !== RING_HEADER_BYTES) {
    throw new ElftraceError('bad-reference', `trace ring at ${hex(address)}: no memory is there`, { address });
  }
  const view = new ByteView(header, endian, 'trace ring');
  if (!RING_MAGIC.every((byte, i) => header[i] === byte)) {
    throw refuse(address, 'it does not begin with ELFTRCE1', view.u64(0));
  }
  const version = view.u32(8);
  const wanted = RECORD_BYTES[version];
  if (wanted === undefined) {
    throw refuse(address, `version ${version} is not known, ${LONG_VERSION} and ${SHORT_VERSION} are`, version, 8);
  }
  const recordBytes = view.u32(12);
  if (recordBytes !== wanted) {
    const what = `records of ${recordBytes} bytes, version ${version} has ${wanted}`;
    throw refuse(address, what, recordBytes, 12);
  }
  const capacity = view.u32(16);
  if (capacity === 0 || (capacity & (capacity - 1)) !== 0 || capacity > CAPACITY_MAX) {
    throw refuse(address, `a capacity of ${capacity} records is no power of two up to ${CAPACITY_MAX}`, capacity, 16);
  }
  const [flags, written, dropped] = [view.u32(20), view.u64(24), view.u64(32)];
  return { version, capacity, flags, written, dropped, clock: Number(view.u64(40)) };
}

/** `count` records from the oldest on, which is number `first` of the ring. */
function readRecords(
  body: ByteView,
  first: number,
  count: number,
  capacity: number,
): Pick<Ring, 'records' | 'unreadable'> {
  const records: RingRecord[] = [];
  let unreadable = 0;
  /** Of the record of a probe while its data follow. */
  let words: bigint[] | null = null;
  for (let i = 0; i < count; i++) {
    const at = ((first + i) % capacity) * RING_RECORD_BYTES;
    const number = body.u32(at + 24);
    if (number === DATA) {
      const last = records.at(-1);
      // Data whose probe was overwritten are dropped.
      if (last?.kind !== 'probe' || (words === null && last.words)) continue;
      if (words === null) {
        words = [];
        records[records.length - 1] = { ...last, words };
      }
      words.push(body.u64(at), body.u64(at + 8), body.u64(at + 16));
      continue;
    }
    words = null;
    const kind = recordKinds[number - 1];
    if (kind === undefined || kind === null) {
      unreadable++;
      continue;
    }
    records.push({ kind, time: body.u64(at), ip: body.u64(at + 8), parent: body.u64(at + 16), cpu: body.u32(at + 28) });
  }
  return { records, unreadable };
}

/** Of times in short records, these bits are there. */
const TIME_BITS = 56;

/** The same of a ring with short records. */
function readShortRecords(
  body: ByteView,
  first: number,
  count: number,
  { capacity, flags }: RingHeader,
  address: Address,
): Pick<Ring, 'records' | 'unreadable'> {
  const records: RingRecord[] = [];
  const ownHalf = address & ~0xffff_ffffn;
  const isTimed = (flags & NO_TIMES) === 0;
  let unreadable = 0;
  let before = 0n;
  /** Of the record of a probe while its data follow: a word each. */
  let words: bigint[] | null = null;
  let isProbe = false;
  const at = (i: number): number => ((first + i) % capacity) * RECORD_BYTES[SHORT_VERSION]!;
  for (let i = 0; i < count; i++) {
    const place = at(i);
    const event = body.u64(place);
    const bits = Number(event & 0xffn);
    if ((bits & 7) === DATA) {
      // Those whose probe, or whose lower halves, were overwritten are dropped.
      if (!isProbe) continue;
      if (words === null) records.push({ ...records.pop()!, words: (words = []) });
      words.push(BigInt(body.u32(place + 8)) | (BigInt(body.u32(place + 12)) << 32n));
      continue;
    }
    words = null;
    isProbe = false;
    const kind = recordKinds[(bits & 7) - 1];
    const isFar = (bits & 8) !== 0;
    const isWhole = !isFar || (i + 1 < count && Number(body.u64(at(i + 1)) & 7n) === DATA);
    if (kind === undefined || kind === null || !isWhole) {
      unreadable++;
      continue;
    }
    const upper = (offset: number): bigint => (isFar ? BigInt(body.u32(at(i + 1) + offset)) << 32n : ownHalf);
    let time = BigInt(i);
    if (isTimed) {
      // Records of several threads may be a little out of order.
      const since = BigInt.asIntN(TIME_BITS, (event >> 8n) - before);
      time = records.length === 0 ? event >> 8n : before + since;
      if (time > before) before = time;
    }
    const [ip, parent] = [upper(8) | BigInt(body.u32(place + 8)), upper(12) | BigInt(body.u32(place + 12))];
    isProbe = kind === 'probe';
    records.push({ kind, time, ip, parent, cpu: bits >> 4 });
    if (isFar) i++;
  }
  return { records, unreadable };
}

/**
 * Decodes the ring whose header is at `address`.
 * @throws ElftraceError 'bad-reference' where no memory is, 'bad-record' for what is no ring or one
 *   of another version
 */
export function readRing(read: MemoryReader, address: Address, endian: Endian): Ring {
  const header = readHeader(read, address, endian);
  const { version, capacity, written } = header;
  const kept = written < BigInt(capacity) ? Number(written) : capacity;
  // Record numbers modulo the capacity; the oldest that is left follows the newest.
  const first = kept < capacity ? 0 : Number(written & BigInt(capacity - 1));
  const size = kept * RECORD_BYTES[version]!;
  const bytes = kept === 0 ? new Uint8Array() : read(address + BigInt(RING_HEADER_BYTES), size);
  if (bytes?.length !== size) {
    throw new ElftraceError('bad-reference', `trace ring at ${hex(address)}: no memory is behind its ${kept} records`, {
      address,
    });
  }
  const body = new ByteView(bytes, endian, 'trace ring');
  const found =
    version === SHORT_VERSION
      ? readShortRecords(body, first, kept, header, address)
      : readRecords(body, first, kept, capacity);
  return { ...header, overwritten: written - BigInt(kept), ...found };
}

/**
 * What the clock of a ring counts. Kind 1 is the counter of the machine, which the emulator
 * advances by one an instruction. Records without times are numbered.
 */
export function ringClock(ring: Ring, machine: 'emulator' | 'other'): ClockUnit {
  if (ring.version === SHORT_VERSION && (ring.flags & NO_TIMES) !== 0) return 'events';
  if (ring.clock === 2) return 'nanoseconds';
  return machine === 'emulator' && ring.clock === 1 ? 'instructions' : 'ticks';
}

/** What a ring no longer has: records that were overwritten, dropped or cut. */
export function ringLosses(ring: Ring): TraceLosses {
  return {
    written: Number(ring.written),
    kept: ring.records.length,
    dropped: Number(ring.dropped),
  };
}

/**
 * True when the ring has returns, or entries of a tracer that records them beside one that does
 * not: entries and returns can be paired.
 */
export function ringIsNested({ records }: Ring): boolean {
  const has = (kind: RingRecordKind): boolean => records.some((each) => each.kind === kind);
  return has('return') || (has('entry') && has('call'));
}

/**
 * For each record of kind `call` how many of the activations around it are its own: 1 where the
 * entry of the same call was recorded first. Which tracer hears of a call first is the same for all
 * calls of a ring, and only a function that calls itself leaves it open: the others decide.
 */
function ownEntries({ records }: Ring): Uint8Array {
  const follows = new Uint8Array(records.length);
  /**
   * By CPU: the last entry or return, and the calls since then whose next entry or return is not
   * known yet.
   */
  const last = new Map<number, RingRecord>();
  const waiting = new Map<number, RingRecord[]>();
  let before = 0;
  let behind = 0;
  const isOf = (call: RingRecord, other: RingRecord | undefined): boolean =>
    other?.kind === 'entry' && other.ip === call.ip;
  records.forEach((record, i) => {
    if (record.kind === 'call') {
      const previous = last.get(record.cpu);
      follows[i] = isOf(record, previous) ? 1 : 0;
      waiting.set(record.cpu, [...(waiting.get(record.cpu) ?? []), record]);
      return;
    }
    if (record.kind !== 'entry' && record.kind !== 'return') return;
    const previous = last.get(record.cpu);
    for (const call of waiting.get(record.cpu) ?? []) {
      const [isBefore, isBehind] = [isOf(call, previous), isOf(call, record)];
      if (isBefore && !isBehind) before++;
      if (isBehind && !isBefore) behind++;
    }
    waiting.delete(record.cpu);
    last.set(record.cpu, record);
  });
  return before > behind ? follows : new Uint8Array(records.length);
}

/**
 * What a record of a probe says, and where its function was called from, 0 where that was not
 * recorded; null: the probe is not known.
 */
export type ProbeReader = (record: RingRecord) => { readonly data: ProbeData; readonly parent: Address } | null;

export interface ReplayResult {
  readonly events: number;
  /** Returns left out because their entries were overwritten. */
  readonly orphans: number;
  /**
   * Entries whose returns are not there: left by exit or longjmp, or still running. Their events
   * are `unwound`.
   */
  readonly open: number;
}

/** CPU numbers index arrays in the sinks: large ones (thread ids) are replaced by their order. */
const CPU_MAX = 1024;

/**
 * Gives the records of a ring to sinks, as events.
 *
 * Entries and returns are paired by function on each CPU, as a stack: a return ends the innermost
 * activation of its function, and those above it are `unwound`. Returns whose entries were
 * overwritten are left out and counted. A program does not know how many instructions its CPU has
 * executed: its clock stands for them. A record of kind call is a point of its function, at the
 * depth that the function has; where no tracer records returns it is an entry.
 *
 * @param probeOf  what a record of a probe says; null: the probe is not known
 */
export function replayRing(
  ring: Ring,
  functions: readonly TracedFunction[],
  sinks: readonly TraceSink[],
  probeOf: ProbeReader = () => null,
): ReplayResult {
  const replay = new Replay(ring, functions, sinks, probeOf);
  for (const [number, record] of ring.records.entries()) replay.record(record, number);
  return replay.end();
}

/** A replay that is under way: open activations by CPU, and counts. */
class Replay {
  private readonly lookup: ReturnType<typeof functionLookup>;
  private readonly unknown = new Map<Address, TracedFunction>();
  private readonly nested: boolean;
  /** Where a tracer has recorded the entry of a call before the call (`ownEntries`). */
  private readonly own: Uint8Array | null;
  /** CPUs by their numbers in the ring; null: they are what they are. */
  private readonly numbers: Map<number, number> | null;
  private readonly stacks: TracedFunction[][] = [];
  private readonly times: number[] = [];
  private events = 0;
  private orphans = 0;
  private open = 0;

  constructor(
    ring: Ring,
    private readonly functions: readonly TracedFunction[],
    private readonly sinks: readonly TraceSink[],
    private readonly probeOf: ProbeReader,
  ) {
    this.lookup = functionLookup(functions);
    this.nested = ringIsNested(ring);
    this.own = this.nested ? ownEntries(ring) : null;
    this.numbers = ring.records.some((each) => each.cpu >= CPU_MAX) ? new Map() : null;
  }

  /** `number`: of the record in the ring. */
  record(record: RingRecord, number: number): void {
    const cpu = this.cpuOf(record.cpu);
    for (let i = this.stacks.length; i <= cpu; i++) {
      this.stacks.push([]);
      this.times.push(0);
    }
    const time = Number(record.time);
    this.times[cpu] = time;
    const stack = this.stacks[cpu]!;
    const named = this.functionAt(record.ip);
    if (record.kind === 'return') {
      const at = stack.lastIndexOf(named);
      if (at < 0) this.orphans++;
      else this.pop(cpu, at, true);
      return;
    }
    const depth = stack.length - (this.own?.[number] ?? 0);
    const common = { function: named, cpu, depth, time, instructions: time, parent: record.parent };
    const { nested } = this;
    if (record.kind === 'entry' || (record.kind === 'call' && !nested)) {
      this.tell({ kind: 'entry', ...common });
      if (nested) stack.push(named);
      return;
    }
    const probe = record.kind === 'probe' ? this.probeOf(record) : null;
    const known = probe ? { probe: probe.data, parent: probe.parent } : {};
    this.tell({ kind: record.kind, ...common, ip: record.ip, ...known });
  }

  end(): ReplayResult {
    this.stacks.forEach((_, cpu) => {
      this.pop(cpu, 0, false);
    });
    for (const sink of this.sinks) sink.end(this.times);
    const { events, orphans, open } = this;
    return { events, orphans, open };
  }

  private tell(event: TraceEvent): void {
    this.events++;
    for (const sink of this.sinks) sink.event(event);
  }

  private functionAt(ip: Address): TracedFunction {
    const known = this.lookup.at(ip) ?? this.unknown.get(ip);
    if (known) return known;
    const index = this.functions.length + this.unknown.size;
    const made = { index, name: hex(ip), address: ip, otherEntries: [], site: ip };
    this.unknown.set(ip, made);
    return made;
  }

  private cpuOf(cpu: number): number {
    if (!this.numbers) return cpu;
    const known = this.numbers.get(cpu) ?? this.numbers.size;
    this.numbers.set(cpu, known);
    return known;
  }

  /** Ends activations down to a depth; the last one has `returned`, or none has. */
  private pop(cpu: number, to: number, returned: boolean): void {
    const stack = this.stacks[cpu]!;
    const time = this.times[cpu]!;
    while (stack.length > to) {
      const popped = stack.pop()!;
      const depth = stack.length;
      const unwound = !(returned && depth === to);
      if (unwound) this.open++;
      this.tell({ kind: 'return', function: popped, cpu, depth, time, instructions: time, unwound });
    }
  }
}

/** What must be said of a ring besides its events, one sentence each; empty when all is there. */
export function ringNotices(ring: Ring, replay: ReplayResult): string[] {
  const notices: string[] = [];
  if (ring.overwritten > 0n) {
    notices.push(
      `the ring holds ${ring.capacity} events: the oldest ${ring.overwritten} of ${ring.written} were overwritten`,
    );
  }
  if (replay.orphans > 0) notices.push(`${replay.orphans} returns are left out: their entries were overwritten`);
  if (ring.dropped > 0n) {
    notices.push(
      (ring.flags & RING_KEEPS_OLDEST) !== 0 && ring.written >= BigInt(ring.capacity)
        ? `the ring holds ${ring.capacity} events and keeps the oldest: ${ring.dropped} later ones were dropped`
        : `${ring.dropped} events could not be recorded by the program`,
    );
  }
  if (ring.unreadable > 0) {
    notices.push(`${ring.unreadable} records are of no known kind: not finished when the program ended, or damaged`);
  }
  return notices;
}
