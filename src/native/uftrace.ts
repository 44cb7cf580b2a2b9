/**
 * A trace as the data directory of uftrace, which its own verbs read: replay, report, graph, tui,
 * dump. Layout of version 4 (uftrace.h, utils/data-file.c, cmds/info.c of uftrace 0.13): `info`,
 * `task.txt`, a map of each session, symbols of each object, records of each thread.
 *
 * uftrace wants an exit for each entry: it gets one at the next event that shows that the call is
 * over (RT-30), so durations are at most those.
 */
import { ByteView } from '../bytes.js';
import type { NativeFunction } from './objects.js';
import { baseOf, titleOf } from './names.js';
import type { NativeTrace, TraceThread } from './trace.js';
import type { Values } from './tree.js';
import { UftraceValues } from './uftrace-values.js';

/** Receives the bytes of one file after the other. */
export type FileSink = (name: string) => { readonly write: (bytes: Uint8Array) => void; readonly close: () => void };

const RECORD_BYTES = 16;
const PIECE_RECORDS = 1 << 14;
/** Fields of a record's second word. */
const ENTRY = 0;
const EXIT = 1;
const MAGIC = 5;
/** Depths have 10 bits; deeper calls are left out. */
const DEPTH_MAX = 1 << 10;
/** TASK_SESSION, SYM_REL_ADDR, MAX_STACK; exename, cmdline, taskinfo. */
const FEATURES = 0x62n;
const CONTENTS = 0x89n;

/** ARGUMENT, RETVAL; argument specifications and the type of their patterns. */
const VALUE_FEATURES = 0x18n;
const VALUE_CONTENTS = 0x1400n;
/** Of a record behind which values follow. */
const MORE = 1 << 2;

const encoder = new TextEncoder();

/** A program from its start on. */
interface Session {
  readonly id: string;
  readonly process: number;
  readonly start: bigint;
  readonly files: readonly TraceThread[];
}

/** No later than the thread's first record: uftrace passes over what is in front of its task. */
const startOf = (trace: NativeTrace, { header }: TraceThread): bigint =>
  trace.clock.origin.nanoseconds + BigInt(trace.timeOf(header.first.counter));

const sessionsOf = (trace: NativeTrace): Session[] =>
  trace.sessions.map(({ process, files }, i) => {
    const times = files.map((each) => startOf(trace, each));
    const start = times.reduce((least, each) => (each < least ? each : least), times[0]!);
    return { id: (i + 1).toString(16).padStart(16, '0'), process, start, files };
  });

const BILLION = 1_000_000_000n;
const stamp = (time: bigint): string => `${time / BILLION}.${String(time % BILLION).padStart(9, '0')}`;
const address = (value: bigint): string => value.toString(16).padStart(16, '0');

/**
 * Writes a trace as a data directory of uftrace.
 * @param command  words of the command, for its `info`
 * @param open     makes the files of the directory
 */
export function writeUftrace(trace: NativeTrace, command: readonly string[], open: FileSink): void {
  const put = (name: string, contents: string | Uint8Array): void => {
    const file = open(name);
    file.write(typeof contents === 'string' ? encoder.encode(contents) : contents);
    file.close();
  };
  const sessions = sessionsOf(trace);
  put('task.txt', tasks(trace, sessions));
  for (const session of sessions) put(`sid-${session.id}.map`, mapOf(trace, session));
  const known = new Set<string>();
  for (const thread of trace.threads) {
    const name = `${baseOf(thread.header.object)}.sym`;
    if (!known.has(name)) put(name, symbols(trace, thread));
    known.add(name);
  }
  const specs = new UftraceValues();
  writeRecords(trace, specs, open);
  // What values are is known when they were all seen.
  put('info', info(trace, command, specs));
}

function info({ tasks: all, threads }: NativeTrace, command: readonly string[], specs: UftraceValues): Uint8Array {
  const HEADER_BYTES = 40;
  const lines = specs.lines();
  const ids = all.map(([first]) => first!.header.thread);
  const text = encoder.encode(
    [
      `exename:${threads[0]?.header.object ?? ''}`,
      `cmdline:${command.join(' ')}`,
      'taskinfo:lines=2',
      `taskinfo:nr_tid=${ids.length}`,
      `taskinfo:tids=${ids.join(',')}`,
      ...lines,
      '',
    ].join('\n'),
  );
  const out = new Uint8Array(HEADER_BYTES + text.length);
  const view = new ByteView(out, 'little');
  out.set(encoder.encode('Ftrace!'));
  view.insertU32(8, 4);
  view.insertU16(12, HEADER_BYTES);
  // Little-endian, 64 bits.
  out.set([1, 2], 14);
  view.insertWord(16, FEATURES | (lines.length > 0 ? VALUE_FEATURES : 0n), 8);
  view.insertWord(24, CONTENTS | (lines.length > 0 ? VALUE_CONTENTS : 0n), 8);
  view.insertU16(32, DEPTH_MAX);
  out.set(text, HEADER_BYTES);
  return out;
}

function tasks(trace: NativeTrace, sessions: readonly Session[]): string {
  const lines = sessions.map(({ id, process, start, files }) => {
    const text = `SESS timestamp=${stamp(start)} pid=${process} sid=${id} exename="${files[0]!.header.object}"`;
    return { start, order: 0, text };
  });
  for (const { files } of sessions) {
    // Of an executed program, too: it is how uftrace knows that the thread has another session.
    const seen = new Set<number>();
    for (const thread of files) {
      const { task, header } = thread;
      if (seen.has(task)) continue;
      seen.add(task);
      const start = startOf(trace, thread);
      lines.push({
        start,
        order: 1,
        text: `TASK timestamp=${stamp(start)} tid=${header.thread} pid=${header.process}`,
      });
    }
  }
  lines.sort((a, b) => (a.start === b.start ? a.order - b.order : a.start < b.start ? -1 : 1));
  return lines.map(({ text }) => `${text}\n`).join('');
}

function mapOf(trace: NativeTrace, { files }: Session): string {
  const lines = new Map<string, string>();
  for (const thread of files) {
    const { bias, object } = thread.header;
    const { start, end } = trace.objectOf(thread).extent;
    const [from, to] = [start + bias, end + bias].map((value) => value.toString(16).padStart(12, '0'));
    lines.set(object, `${from}-${to} r-xp 00000000 00:00 0                          ${object}\n`);
  }
  const stack = '7ffffffde000-7ffffffff000 rw-p 00000000 00:00 0                          [stack]\n';
  return [...lines.values()].sort().join('') + stack;
}

/** Functions that are traced, by their distance from where the object lies. */
function symbols(trace: NativeTrace, thread: TraceThread): string {
  const { functions, extent } = trace.objectOf(thread);
  const rows = [...functions].sort((a, b) => (a.address < b.address ? -1 : a.address > b.address ? 1 : 0));
  const lines = rows.map((each) => `${address(each.address - extent.start)} T ${titleOf(each)}\n`);
  const head = `# symbols: ${rows.length}\n# path name: ${thread.header.object}\n`;
  return `${head}${lines.join('')}${address(extent.end - extent.start)} ? __sym_end\n`;
}

/** Records of one thread. */
class Records {
  private readonly bytes = new Uint8Array(PIECE_RECORDS * RECORD_BYTES);
  private readonly view = new DataView(this.bytes.buffer);
  private used = 0;
  /** Where functions lie in the process, by their index. */
  private places: number[] = [];

  constructor(
    private readonly trace: NativeTrace,
    private readonly file: ReturnType<FileSink>,
    private session: number,
    private readonly origin: number,
    private readonly specs: UftraceValues,
  ) {}

  add(type: number, each: NativeFunction, depth: number, time: number, values: Values = null): void {
    if (depth >= DEPTH_MAX) return;
    if (this.used + RECORD_BYTES > this.bytes.length) this.flush();
    const now = this.origin + time;
    const low = this.places[each.index] ?? this.placeOf(each);
    const { view, used: at } = this;
    const more = values === null ? 0 : MORE;
    view.setUint32(at, now >>> 0, true);
    view.setUint32(at + 4, now / 2 ** 32, true);
    view.setUint32(at + 8, type | more | (MAGIC << 3) | (depth << 6) | ((low & 0xffff) << 16), true);
    view.setUint32(at + 12, low / 2 ** 16, true);
    this.used += RECORD_BYTES;
    if (values === null) return;
    this.flush();
    this.file.write(this.specs.encode(each, values));
  }

  private placeOf(each: NativeFunction): number {
    const file = this.trace.sessions[this.session]?.files.find(({ header }) => header.object === each.object);
    const place = Number(BigInt.asUintN(48, each.address + (file?.header.bias ?? 0n)));
    this.places[each.index] = place;
    return place;
  }

  /** Another program lies elsewhere. */
  executed(session: number): void {
    this.session = session;
    this.places = [];
  }

  flush(): void {
    if (this.used > 0) this.file.write(this.bytes.slice(0, this.used));
    this.used = 0;
  }

  close(): void {
    this.flush();
    this.file.close();
  }
}

function writeRecords(trace: NativeTrace, specs: UftraceValues, open: FileSink): void {
  // Nanoseconds of months, and addresses of 47 bits, are exact.
  const origin = Number(trace.clock.origin.nanoseconds);
  let last: Records | null = null;
  trace.byTask(({ header, session }) => {
    last?.close();
    const records = new Records(trace, open(`${header.thread}.dat`), session, origin, specs);
    last = records;
    return {
      enter: (called, depth, time, values) => {
        records.add(ENTRY, called, depth, time, values);
      },
      leave: (called, depth, time, _isExact, values) => {
        records.add(EXIT, called, depth, time, values);
      },
      executed: (next) => {
        records.executed(next);
      },
    };
  });
  (last as Records | null)?.close();
}
