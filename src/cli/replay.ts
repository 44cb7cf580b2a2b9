/** `elftrace replay [DIR]`: the calls of a trace in order of time, as uftrace prints them. */
import { writeNdjson } from '../native/ndjson.js';
import { replayLines } from '../native/replay.js';
import { needRecords, NO_TIMES, openTrace, sayDoubts, type TraceArguments } from './native-trace.js';
import { flush, out, outBytes } from './terminal.js';
import { selectionOf, type TraceSelectionOptions } from './trace-selection.js';

export async function runReplay(
  args: TraceArguments & TraceSelectionOptions & { readonly json: boolean },
): Promise<number> {
  const trace = await openTrace({ ...args, sources: args.json });
  needRecords(trace, 'replay');
  const selection = selectionOf(trace, args);
  if (args.json) {
    writeNdjson(trace, outBytes, selection);
    flush();
  } else {
    out('# DURATION     TID     FUNCTION');
    if (!trace.isTimed) out(NO_TIMES);
    else if (!trace.returns) out('# returns are not recorded: a call lasts until what shows that it is over');
    replayLines(trace, selection, ({ name }) => name, out);
  }
  return sayDoubts(args.dir, trace.doubts);
}
