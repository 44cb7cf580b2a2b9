/** `elftrace replay [DIR]`: the calls of a trace in order of time, one a line. */
import { openTrace, sayDoubts, type TraceArguments } from './native-trace.js';
import { out } from './terminal.js';

/** Deeper calls are indented as far as this. */
const INDENT_MAX = 64;

/** One line a call: time in microseconds, thread, name indented by depth. */
export async function runReplay(args: TraceArguments): Promise<number> {
  const trace = await openTrace(args);
  out('#     TIME(us)      TID  FUNCTION');
  trace.inOrder(({ header }) => {
    const thread = String(header.thread).padStart(8);
    return {
      enter: (called, depth, time) => {
        const shown = (time / 1000).toFixed(3).padStart(14);
        out(`${shown} ${thread}  ${'  '.repeat(Math.min(depth, INDENT_MAX))}${called.name}`);
      },
      leave: () => undefined,
    };
  });
  return sayDoubts(args.dir, trace.doubts);
}
