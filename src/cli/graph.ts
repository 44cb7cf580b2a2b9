/** `elftrace graph [DIR]`: the calls of a trace by their callers, all threads together. */
import { type StackNode, stackTotals } from '../native/totals.js';
import { type Json, jsonSchema } from '../report/json.js';
import { openTrace, sayDoubts, type TraceArguments } from './native-trace.js';
import { out } from './terminal.js';

function nodeJson({ called, calls, children }: StackNode): Json {
  return { function: called?.name ?? '', calls, children: [...children.values()].map(nodeJson) };
}

export async function runGraph(args: TraceArguments & { readonly json: boolean }): Promise<number> {
  const trace = await openTrace(args);
  const root = stackTotals(trace);
  if (args.json) {
    const calls = [...root.children.values()].map(nodeJson);
    out(JSON.stringify({ schema: jsonSchema, dir: args.dir, tracer: 'function', ...trace.doubts, calls }));
  } else {
    out('#      CALLS  FUNCTION');
    const print = (node: StackNode, depth: number): void => {
      for (const child of node.children.values()) {
        out(`${String(child.calls).padStart(12)}  ${'  '.repeat(depth)}${child.called!.name}`);
        print(child, depth + 1);
      }
    };
    print(root, 0);
  }
  return sayDoubts(args.dir, trace.doubts);
}
