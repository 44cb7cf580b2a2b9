/**
 * A trace in the Common Trace Format, version 1.8: a directory of `metadata`, in its language, and
 * a stream for each thread. A stream is packets, each with the times that it covers, thread and
 * process, and events of entries and returns. Functions are numbers, whose names the metadata
 * has as an enumeration. Times are those of CLOCK_MONOTONIC, which the metadata places in 1970's.
 *
 *   packet: u32 magic, u8[16] trace, u32 stream; u64 first and last time, u64 bits, u64 bits with
 *           padding, u64 events that were dropped until then, u32 process, u32 thread, name[16]
 *   event:  u8 kind (0 entry, 1 return), u32 lowest bits of the time; u32 function
 */
import { ByteView, nameBytes } from '../bytes.js';
import { foreign, titleInObject } from './names.js';
import type { NativeFunction } from './objects.js';
import type { NativeTrace, TraceThread } from './trace.js';
import type { FileSink } from './uftrace.js';

const MAGIC = 0xc1fc1fc1;
const UUID_BYTES = 16;
const PACKET_BYTES = 1 << 18;
const HEAD_BYTES = 4 + UUID_BYTES + 4 + 5 * 8 + 2 * 4 + 16;
const EVENT_BYTES = 9;
const ENTRY = 0;
const EXIT = 1;
/** An event farther from the one before it begins a packet, which has all bits of its time. */
const FAR = 2 ** 31;
const BILLION = 1_000_000_000n;

/** Fields of a packet's head behind the numbers of trace and stream. */
const AT = { first: 24, last: 32, bits: 40, padded: 48, dropped: 56, process: 64, thread: 68, name: 72 } as const;

/** A number for the trace, out of what it is: the same trace has the same. */
function uuidOf({ threads }: NativeTrace): Uint8Array {
  const { id = '', process = 0, realtime = 0n } = threads[0]?.header ?? {};
  const bytes = Uint8Array.from({ length: UUID_BYTES }, (_, i) => Number.parseInt(id.slice(2 * i, 2 * i + 2), 16) || 0);
  new ByteView(bytes, 'little').insertU64(0, realtime);
  new ByteView(bytes, 'little').insertU32(8, process);
  bytes[6] = (bytes[6]! & 0x0f) | 0x40;
  bytes[8] = (bytes[8]! & 0x3f) | 0x80;
  return bytes;
}

const uuidText = (bytes: Uint8Array): string =>
  Buffer.from(bytes)
    .toString('hex')
    .replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-');

/** The stream of one thread. */
class Stream {
  private readonly bytes = new Uint8Array(PACKET_BYTES);
  private readonly view = new DataView(this.bytes.buffer);
  private readonly head = new ByteView(this.bytes, 'little');
  private at = HEAD_BYTES;
  private last = 0;

  constructor(
    private readonly file: ReturnType<FileSink>,
    uuid: Uint8Array,
    { header }: TraceThread,
    private readonly dropped: number,
  ) {
    this.head.insertU32(0, MAGIC);
    this.bytes.set(uuid, 4);
    this.head.insertU32(AT.process, header.process);
    this.head.insertU32(AT.thread, header.thread);
    this.bytes.set(nameBytes(header.threadName).subarray(0, 15), AT.name);
  }

  /** @param now  nanoseconds of the clock */
  add(kind: number, called: number, now: number): void {
    if (this.at + EVENT_BYTES > PACKET_BYTES || now - this.last >= FAR) this.flush();
    if (this.at === HEAD_BYTES) this.head.insertU64(AT.first, BigInt(now));
    this.last = now;
    const { view, at } = this;
    view.setUint8(at, kind);
    view.setUint32(at + 1, now % 2 ** 32, true);
    view.setUint32(at + 5, called, true);
    this.at = at + EVENT_BYTES;
  }

  private flush(): void {
    if (this.at === HEAD_BYTES) return;
    this.head.insertU64(AT.last, BigInt(this.last));
    this.head.insertU64(AT.bits, BigInt(this.at * 8));
    this.head.insertU64(AT.padded, BigInt(this.at * 8));
    // When events were dropped is not known: the stream says it from its start on.
    this.head.insertU64(AT.dropped, BigInt(this.dropped));
    this.file.write(this.bytes.slice(0, this.at));
    this.at = HEAD_BYTES;
  }

  end(): void {
    this.flush();
    this.file.close();
  }
}

const INTEGER = (bits: number, more = ''): string => `integer { size = ${bits}; align = 8; signed = false;${more} }`;

/** A string of the language: other than in JSON, there are no escapes of four digits. */
function literal(text: string): string {
  return foreign(text).replace(/\\u([0-9a-f]{4})/g, (_, digits: string) => `\\\\u${digits}`);
}

/** The clock starts so far behind 1970, by the pairs of clocks that the program noted. */
function clockText({ threads }: NativeTrace): string {
  const [{ header } = { header: null }] = threads;
  const offset = header === null ? 0n : header.realtime - header.first.nanoseconds;
  return `clock {
  name = monotonic;
  description = "CLOCK_MONOTONIC";
  freq = ${BILLION};
  offset_s = ${offset / BILLION};
  offset = ${offset % BILLION};
};`;
}

function metadata(trace: NativeTrace, uuid: Uint8Array, functions: readonly NativeFunction[]): string {
  const names = functions.map((each) => `    ${literal(titleInObject(each))} = ${each.index}`);
  const time = (bits: number): string => INTEGER(bits, ' map = clock.monotonic.value;');
  const event = (name: string, id: number): string => `event {
  name = ${name};
  id = ${id};
  stream_id = 0;
  fields := struct { function_t function; };
};`;
  return `/* CTF 1.8 */
typealias ${INTEGER(8)} := uint8_t;
typealias ${INTEGER(32)} := uint32_t;
typealias ${INTEGER(64)} := uint64_t;
trace {
  major = 1;
  minor = 8;
  uuid = "${uuidText(uuid)}";
  byte_order = le;
  packet.header := struct { uint32_t magic; uint8_t uuid[16]; uint32_t stream_id; };
};
env {
  domain = "ust";
  tracer_name = "elftrace";
  tracer = "${trace.returns ? 'function_graph' : 'function'}";
  returns = "${trace.returns ? 'recorded' : 'inferred'}";
};
${clockText(trace)}
typealias ${time(32)} := time32_t;
typealias ${time(64)} := time64_t;
typealias enum : uint32_t {
${names.join(',\n')}
} := function_t;
stream {
  id = 0;
  packet.context := struct {
    time64_t timestamp_begin; time64_t timestamp_end; uint64_t content_size; uint64_t packet_size;
    uint64_t events_discarded; uint32_t vpid; uint32_t vtid;
    integer { size = 8; align = 8; signed = false; encoding = UTF8; } procname[16];
  };
  event.header := struct { uint8_t id; time32_t timestamp; };
};
${event('func_entry', ENTRY)}
${event('func_exit', EXIT)}
`;
}

/**
 * Writes a trace as a directory of CTF.
 * @param open  makes the files of the directory
 */
export function writeCtf(trace: NativeTrace, open: FileSink): void {
  const uuid = uuidOf(trace);
  const origin = Number(trace.clock.origin.nanoseconds);
  const functions: NativeFunction[] = [];
  let elsewhere = trace.doubts.dropped - trace.threads.reduce((sum, { header }) => sum + header.dropped, 0);
  let stream: Stream | null = null;
  trace.byTask((thread) => {
    stream?.end();
    const { process, thread: id } = thread.header;
    const lost = trace.tasks[thread.task]!.reduce((sum, { header }) => sum + header.dropped, elsewhere);
    elsewhere = 0;
    const own = new Stream(open(`stream-${process}-${id}`), uuid, thread, lost);
    stream = own;
    return {
      enter: (called, _depth, time) => {
        functions[called.index] = called;
        own.add(ENTRY, called.index, origin + time);
      },
      leave: (called, _depth, time) => {
        own.add(EXIT, called.index, origin + time);
      },
    };
  });
  (stream as Stream | null)?.end();
  const file = open('metadata');
  file.write(
    new TextEncoder().encode(
      metadata(
        trace,
        uuid,
        functions.filter((each) => each !== undefined),
      ),
    ),
  );
  file.close();
}
