/** `elftrace replay [DIR]`: the calls of a trace in order of time, as uftrace prints them. */
import { ElftraceError } from '../errors.js';
import { writeNdjson } from '../native/ndjson.js';
import { replayLines } from '../native/replay.js';
import { needRecords, NO_TIMES, openTrace, sayDoubts, type TraceArguments } from './native-trace.js';
import { marksOf, replayTriggers } from './replay-triggers.js';
import { flush, out, outBytes } from './terminal.js';
import { selectionOf, type TraceSelectionOptions } from './trace-selection.js';

export async function runReplay(
  args: TraceArguments &
    TraceSelectionOptions & { readonly trigger?: readonly string[] | undefined; readonly json: boolean },
): Promise<number> {
  const triggers = replayTriggers(args.trigger ?? []);
  if (args.json && triggers.backtrace.length + triggers.colours.length > 0) {
    throw new ElftraceError('usage', '-T backtrace and color are about text, and --json has none');
  }
  const trace = await openTrace({ ...args, sources: args.json });
  needRecords(trace, 'replay');
  const selection = selectionOf(trace, {
    ...args,
    filter: [...(args.filter ?? []), ...triggers.filter],
    notrace: [...(args.notrace ?? []), ...triggers.notrace],
    hide: [...(args.hide ?? []), ...triggers.hide],
    depths: triggers.depths,
  });
  if (args.json) {
    writeNdjson(trace, outBytes, selection);
    flush();
  } else {
    out('# DURATION     TID     FUNCTION');
    if (!trace.isTimed) out(NO_TIMES);
    else if (!trace.returns) out('# returns are not recorded: a call lasts until what shows that it is over');
    replayLines(trace, selection, marksOf(triggers, args.match), out);
  }
  return sayDoubts(args.dir, trace.doubts);
}
