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
import type { NativeTrace, TraceThread } from './trace.js';
import { CallTree } from './tree.js';

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

const encoder = new TextEncoder();

/** A process from its start, or from the execution of a program, on. */
interface Session {
  readonly id: string;
  readonly process: number;
  readonly start: bigint;
  readonly files: TraceThread[];
}

/** Sessions of all processes; an executed program begins the numbers of files anew. */
function sessionsOf({ threads }: NativeTrace): Session[] {
  const sessions: Session[] = [];
  const ordered = [...threads].sort((a, b) => Number(a.header.first.nanoseconds - b.header.first.nanoseconds));
  const latest = new Map<number, { readonly session: Session; readonly sequence: number }>();
  for (const thread of ordered) {
    const { process, sequence, first } = thread.header;
    let current = latest.get(process);
    if (current === undefined || sequence > current.sequence) {
      const id = (sessions.length + 1).toString(16).padStart(16, '0');
      const session = { id, process, start: first.nanoseconds, files: [] };
      sessions.push(session);
      current = { session, sequence };
      latest.set(process, current);
    }
    current.session.files.push(thread);
  }
  return sessions;
}

const BILLION = 1_000_000_000n;
const stamp = (time: bigint): string => `${time / BILLION}.${String(time % BILLION).padStart(9, '0')}`;
const baseOf = (path: string): string => path.slice(path.lastIndexOf('/') + 1);
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
  put('info', info(trace, command));
  put('task.txt', tasks(sessions));
  for (const session of sessions) put(`sid-${session.id}.map`, mapOf(trace, session));
  const known = new Set<string>();
  for (const thread of trace.threads) {
    const name = `${baseOf(thread.header.object)}.sym`;
    if (!known.has(name)) put(name, symbols(trace, thread));
    known.add(name);
  }
  writeRecords(trace, open);
}

function info({ tasks: all, threads }: NativeTrace, command: readonly string[]): Uint8Array {
  const HEADER_BYTES = 40;
  const ids = all.map(([first]) => first!.header.thread);
  const text = encoder.encode(
    [
      `exename:${threads[0]?.header.object ?? ''}`,
      `cmdline:${command.join(' ')}`,
      'taskinfo:lines=2',
      `taskinfo:nr_tid=${ids.length}`,
      `taskinfo:tids=${ids.join(',')}`,
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
  view.insertWord(16, FEATURES, 8);
  view.insertWord(24, CONTENTS, 8);
  view.insertU16(32, DEPTH_MAX);
  out.set(text, HEADER_BYTES);
  return out;
}

function tasks(sessions: readonly Session[]): string {
  const lines = sessions.map(({ id, process, start, files }) => {
    const text = `SESS timestamp=${stamp(start)} pid=${process} sid=${id} exename="${files[0]!.header.object}"`;
    return { start, order: 0, text };
  });
  for (const { files } of sessions) {
    // Of an executed program, too: it is how uftrace knows that the thread has another session.
    const seen = new Set<number>();
    for (const { task, header } of files) {
      if (seen.has(task)) continue;
      seen.add(task);
      const { nanoseconds: start } = header.first;
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
  const lines = rows.map((each) => `${address(each.address - extent.start)} T ${each.name}\n`);
  const head = `# symbols: ${rows.length}\n# path name: ${thread.header.object}\n`;
  return `${head}${lines.join('')}${address(extent.end - extent.start)} ? __sym_end\n`;
}

function writeRecords(trace: NativeTrace, open: FileSink): void {
  // Nanoseconds of months, and addresses of 47 bits, are exact.
  const origin = Number(trace.clock.origin.nanoseconds);
  const bytes = new Uint8Array(PIECE_RECORDS * RECORD_BYTES);
  const view = new DataView(bytes.buffer);
  let file: ReturnType<FileSink> | null = null;
  let tree: CallTree | null = null;
  let task = -1;
  let used = 0;
  let biases = new Map<string, bigint>();
  /** Where functions lie in the process, by their index. */
  let places: number[] = [];
  const placeOf = ({ index, object, address: at }: NativeFunction): number =>
    (places[index] = Number(BigInt.asUintN(48, at + (biases.get(object) ?? 0n))));
  const flush = (): void => {
    if (used > 0) file?.write(bytes.slice(0, used * RECORD_BYTES));
    used = 0;
  };
  const add = (type: number, each: NativeFunction, depth: number, time: number): void => {
    const { index } = each;
    if (depth >= DEPTH_MAX) return;
    if (used === PIECE_RECORDS) flush();
    const now = origin + time;
    const low = places[index] ?? placeOf(each);
    const at = used * RECORD_BYTES;
    view.setUint32(at, now >>> 0, true);
    view.setUint32(at + 4, now / 2 ** 32, true);
    view.setUint32(at + 8, type | (MAGIC << 3) | (depth << 6) | ((low & 0xffff) << 16), true);
    view.setUint32(at + 12, low / 2 ** 16, true);
    used++;
  };
  const end = (): void => {
    tree?.end();
    flush();
    file?.close();
  };
  trace.byTask((thread, called, stack, time) => {
    if (thread.task !== task) {
      end();
      task = thread.task;
      biases = new Map();
      places = [];
      file = open(`${thread.header.thread}.dat`);
      tree = new CallTree({
        enter: (each, depth, at) => {
          add(ENTRY, each, depth, at);
        },
        leave: (each, depth, at) => {
          add(EXIT, each, depth, at);
        },
      });
    }
    const { object, bias } = thread.header;
    if (biases.get(object) !== bias) {
      // Another program was executed: what was open ends with the old one.
      if (biases.has(object)) tree?.end();
      biases.set(object, bias);
      places = [];
    }
    tree?.event(called, stack, time);
  });
  end();
}
