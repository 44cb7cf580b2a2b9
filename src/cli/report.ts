/** `elftrace report [DIR]`: how often each function of a trace was called. */
import { functionTotals } from '../native/totals.js';
import { jsonSchema } from '../report/json.js';
import { openTrace, sayDoubts, type TraceArguments } from './native-trace.js';
import { out } from './terminal.js';

export async function runReport(args: TraceArguments & { readonly json: boolean }): Promise<number> {
  const trace = await openTrace(args);
  const totals = functionTotals(trace);
  const calls = totals.reduce((sum, each) => sum + each.calls, 0);
  if (args.json) {
    const functions = totals.map(({ called, calls: count, threads }) => ({
      function: called.name,
      object: called.object,
      calls: count,
      threads: threads.size,
    }));
    const { doubts } = trace;
    const sums = { threads: trace.tasks.length, calls, ...doubts };
    out(JSON.stringify({ schema: jsonSchema, dir: args.dir, tracer: 'function', ...sums, functions }));
  } else {
    out('#      CALLS  THREADS  FUNCTION');
    for (const { called, calls: count, threads } of totals) {
      out(`${String(count).padStart(12)} ${String(threads.size).padStart(8)}  ${called.name}`);
    }
    out(`# ${calls} calls of ${totals.length} functions in ${trace.tasks.length} threads`);
  }
  return sayDoubts(args.dir, trace.doubts);
}
