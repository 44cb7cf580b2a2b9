/** `elftrace graph [DIR]`: the calls of a trace by their callers, all threads together. */
import { durationText } from '../native/replay.js';
import { type StackNode, stackTotals } from '../native/totals.js';
import { type Json, jsonSchema } from '../report/json.js';
import { needRecords, openTrace, sayDoubts, tracerOf, type TraceArguments } from './native-trace.js';
import { out } from './terminal.js';
import { selectionOf, type TraceSelectionOptions } from './trace-selection.js';

function nodeJson({ called, calls, total, children }: StackNode, isTimed: boolean): Json {
  const inner = [...children.values()].map((each) => nodeJson(each, isTimed));
  return { function: called?.name ?? '', calls, ...(isTimed ? { total } : {}), children: inner };
}

export async function runGraph(
  args: TraceArguments & TraceSelectionOptions & { readonly json: boolean },
): Promise<number> {
  const trace = await openTrace(args);
  needRecords(trace, 'graph');
  const { isTimed } = trace;
  const root = stackTotals(trace, selectionOf(trace, args));
  if (args.json) {
    const calls = [...root.children.values()].map((each) => nodeJson(each, isTimed));
    const head = { schema: jsonSchema, dir: args.dir, tracer: tracerOf(trace) };
    out(JSON.stringify({ ...head, ...trace.doubts, returns: trace.returns, calls }));
  } else {
    out('# TOTAL TIME   FUNCTION');
    const print = (node: StackNode, depth: number): void => {
      for (const child of node.children.values()) {
        const spent = isTimed ? durationText(child.total) : '';
        out(`${spent.padStart(13)} : ${'  '.repeat(depth)}(${child.calls}) ${child.called!.name}`);
        print(child, depth + 1);
      }
    };
    print(root, 0);
    if (!isTimed) out('# times are not recorded');
    else if (!trace.returns) out('# returns are not recorded: a call lasts until what shows that it is over');
  }
  return sayDoubts(args.dir, trace.doubts);
}
