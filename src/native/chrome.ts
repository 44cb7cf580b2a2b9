/**
 * Traces for the trace viewer of Chrome and for ui.perfetto.dev: events B and E by thread, one a
 * line. No form with one event a call: those that last no time have no order in it.
 */
import { blockOf, ByteWriter, type ByteSink } from './byte-writer.js';
import { baseOf, foreign, perFunction, threadTitle, titleOf } from './names.js';
import type { NativeTrace } from './trace.js';
import { jsonOf, nameOf, type RecordedValue } from './values.js';

function about(trace: NativeTrace): string[] {
  const lines: string[] = [];
  for (const [thread] of trace.tasks) {
    const { process: pid, thread: tid, object } = thread!.header;
    lines.push(foreign({ ph: 'M', pid, tid, name: 'process_name', args: { name: object } }));
    lines.push(foreign({ ph: 'M', pid, tid, name: 'thread_name', args: { name: threadTitle(thread!) } }));
  }
  return lines;
}

const argumentsOf = (values: readonly RecordedValue[]): string =>
  `,"args":${foreign(Object.fromEntries(values.map((each) => [nameOf(each), jsonOf(each)])))}`;

export function writeChrome(trace: NativeTrace, sink: ByteSink): void {
  const out = new ByteWriter(sink);
  const facts = {
    source: 'native',
    tracer: trace.returns ? 'function_graph' : 'function',
    returns: trace.returns ? 'recorded' : 'inferred',
    dropped: trace.doubts.dropped,
  };
  out.text(`{"displayTimeUnit":"ns","otherData":${JSON.stringify(facts)},"traceEvents":[\n`);
  out.text(about(trace).join(',\n'));
  const close = blockOf('}');
  trace.byTask(({ header }) => {
    const where = `"pid":${header.process},"tid":${header.thread}`;
    // Of each function once, in this thread.
    const begin = perFunction((called) => {
      const category = foreign(baseOf(called.object));
      return blockOf(`,\n{"ph":"B","name":${foreign(titleOf(called))},"cat":${category},${where},"ts":`);
    });
    const end = perFunction((called) => blockOf(`,\n{"ph":"E","name":${foreign(titleOf(called))},${where},"ts":`));
    return {
      enter: (called, _depth, time, values = null) => {
        out.block(begin(called));
        out.thousandths(time);
        if (values !== null) out.text(argumentsOf(values));
        out.block(close);
      },
      leave: (called, _depth, time, _isExact, values = null) => {
        out.block(end(called));
        out.thousandths(time);
        if (values !== null) out.text(argumentsOf(values));
        out.block(close);
      },
    };
  });
  out.text('\n]}\n');
  out.flush();
}
