/** One JSON object a call, and one a return where returns are recorded, in order of time. */
import { hex } from '../errors.js';
import { demangle } from '../demangle/index.js';
import { blockOf, ByteWriter, type ByteSink } from './byte-writer.js';
import { foreign, perFunction } from './names.js';
import type { NativeFunction } from './objects.js';
import { type CallSelection, selector } from './select.js';
import type { NativeTrace } from './trace.js';
import { jsonOf } from './values.js';

const SCHEMA = 1;

function describe({ name, address, site, object, source }: NativeFunction): string {
  const title = demangle(name);
  const words = [
    `"function":${foreign(name)}`,
    ...(title === null ? [] : [`"demangled":${foreign(title)}`]),
    `"address":"${hex(address)}","site":"${hex(site)}","object":${foreign(object)}`,
    ...(source === null ? [] : [`"source":${foreign(`${source.file}:${source.line}`)}`]),
  ];
  return words.join(',');
}

export function writeNdjson(trace: NativeTrace, sink: ByteSink, selection: CallSelection = {}): void {
  const out = new ByteWriter(sink);
  const { returns } = trace;
  const tracer = returns ? 'function_graph' : 'function';
  const clock = trace.isTimed ? 'nanoseconds' : 'none';
  const first = { schema: SCHEMA, source: 'native', tracer, clock, returns };
  out.text(`${JSON.stringify({ ...first, dropped: trace.doubts.dropped })}\n`);
  const depthWord = blockOf(',"depth":');
  const timeWord = blockOf(',"time":');
  const close = blockOf('}\n');
  const entry = perFunction((called) => blockOf(`{"kind":"entry",${describe(called)}`));
  const exit = perFunction((called) => blockOf(`{"kind":"return",${describe(called)}`));
  const select = selector(selection);
  trace.inOrder(({ header }) => {
    const where = blockOf(`,"process":${header.process},"thread":${header.thread}`);
    const end = (depth: number, time: number, values: string): void => {
      if (values !== '') out.text(values);
      out.block(where);
      out.block(depthWord);
      out.number(depth);
      if (trace.isTimed) {
        out.block(timeWord);
        out.number(time);
      }
      out.block(close);
    };
    return select({
      enter: (called, depth, time, values = null) => {
        out.block(entry(called));
        end(depth, time, values === null ? '' : `,"arguments":${foreign(values.map(jsonOf))}`);
      },
      leave: (called, depth, time, _isExact, values = null) => {
        if (!returns) return;
        out.block(exit(called));
        end(depth, time, values?.[0] === undefined ? '' : `,"returned":${foreign(jsonOf(values[0]))}`);
      },
    });
  });
  out.flush();
}
