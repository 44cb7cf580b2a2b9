/**
 * Traces in the forms of others, in pieces. Only entries are recorded: ends of calls, where a form
 * needs them, are those of the next event that shows that the call is over (RT-30), and the form
 * says so where it can.
 */
import { hex } from '../errors.js';
import { visibleJson, visibleLine } from '../visible.js';
import type { NativeFunction } from './objects.js';
import { forTrees, type StackNode, stackTotals } from './totals.js';
import type { NativeTrace, TraceThread } from './trace.js';
import { CallTree } from './tree.js';

/** The forms that are one file. */
export const nativeFormats = {
  chrome: 'JSON for the trace viewer of Chrome, and for ui.perfetto.dev',
  folded: 'calls by stack, for flame graphs',
  ndjson: 'one JSON object a call, in order of time',
} as const satisfies Record<string, string>;

export type NativeFormat = keyof typeof nativeFormats;

/** Receives text; called again and again. */
export type TextSink = (text: string) => void;

const PIECE = 0x4_0000;
const SCHEMA = 1;

/** JSON of text that comes from files. Applied to the text alone: events are many. */
const foreign = (value: unknown): string => visibleJson(JSON.stringify(value));

/** Gathers text to pieces. */
class Pieces {
  private text = '';

  constructor(private readonly write: TextSink) {}

  add(text: string): void {
    this.text += text;
    if (this.text.length >= PIECE) this.flush();
  }

  flush(): void {
    if (this.text !== '') this.write(this.text);
    this.text = '';
  }
}

/** Writes the whole trace in a form. */
export function exportTrace(trace: NativeTrace, format: NativeFormat, write: TextSink): void {
  const pieces = new Pieces(write);
  switch (format) {
    case 'chrome':
      writeChrome(trace, pieces);
      break;
    case 'folded':
      writeFolded(stackTotals(trace), [], pieces);
      break;
    case 'ndjson':
      writeNdjson(trace, pieces);
      break;
    default:
      format satisfies never;
  }
  pieces.flush();
}

/** Nanoseconds as microseconds with three digits. */
const microseconds = (time: number): string => `${Math.floor(time / 1000)}.${String(time % 1000).padStart(3, '0')}`;

const threadTitle = ({ header }: TraceThread): string =>
  header.threadName === '' ? `thread ${header.thread}` : header.threadName;

function writeChrome(trace: NativeTrace, pieces: Pieces): void {
  const about = { source: 'native', tracer: 'function', returns: 'inferred', dropped: trace.doubts.dropped };
  pieces.add(`{"displayTimeUnit":"ns","otherData":${JSON.stringify(about)},"traceEvents":[\n`);
  const lines: string[] = [];
  for (const [thread] of trace.tasks as readonly (readonly [TraceThread])[]) {
    const { process: pid, thread: tid, object } = thread.header;
    lines.push(foreign({ ph: 'M', pid, tid, name: 'process_name', args: { name: object } }));
    lines.push(foreign({ ph: 'M', pid, tid, name: 'thread_name', args: { name: threadTitle(thread) } }));
  }
  pieces.add(lines.join(',\n'));
  const names: string[] = [];
  const nameOf = ({ index, name }: NativeFunction): string => (names[index] ??= foreign(name));
  forTrees(trace, ({ header }) => {
    const where = `"pid":${header.process},"tid":${header.thread},"ts":`;
    return {
      enter: (called, _depth, time) => {
        pieces.add(`,\n{"ph":"B",${where}${microseconds(time)},"name":${nameOf(called)},"cat":"function"}`);
      },
      leave: (called, _depth, time) => {
        pieces.add(`,\n{"ph":"E",${where}${microseconds(time)},"name":${nameOf(called)}}`);
      },
    };
  });
  pieces.add('\n]}\n');
}

const plain = (name: string): string => visibleLine(name).replace(/[;\s]/g, '_');

function writeFolded(node: StackNode, above: readonly string[], pieces: Pieces): void {
  for (const child of node.children.values()) {
    const path = [...above, plain(child.called!.name)];
    pieces.add(`${path.join(';')} ${child.calls}\n`);
    writeFolded(child, path, pieces);
  }
}

function writeNdjson(trace: NativeTrace, pieces: Pieces): void {
  const first = { schema: SCHEMA, source: 'native', tracer: 'function', clock: 'nanoseconds', returns: false };
  pieces.add(`${JSON.stringify({ ...first, dropped: trace.doubts.dropped })}\n`);
  const heads: string[] = [];
  const head = ({ index, name, address, site, object }: NativeFunction): string =>
    (heads[index] ??=
      `{"kind":"entry","function":${foreign(name)},"address":"${hex(address)}","site":"${hex(site)}",` +
      `"object":${foreign(object)},`);
  forMerged(trace, ({ header }, called, depth, time) => {
    pieces.add(
      `${head(called)}"process":${header.process},"thread":${header.thread},"depth":${depth},"time":${time}}\n`,
    );
  });
}

/** Each call of all threads in order of time, with the calls of its thread around it. */
export function forMerged(
  trace: NativeTrace,
  take: (thread: TraceThread, called: NativeFunction, depth: number, time: number) => void,
): void {
  const trees: CallTree[] = [];
  trace.merged((thread, called, stack, time) => {
    trees[thread.task] ??= new CallTree({
      enter: (entered, depth, at) => {
        take(thread, entered, depth, at);
      },
      leave: () => undefined,
    });
    trees[thread.task]!.event(called, stack, time);
  });
}
