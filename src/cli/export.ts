/** `elftrace export [DIR] --format FORM`: a trace in the form of another tool. */
import { exportTrace, type NativeFormat } from '../native/export.js';
import { openOutput } from '../output/stream.js';
import { visibleJson } from '../visible.js';
import { openTrace, sayDoubts, type TraceArguments } from './native-trace.js';
import { flush, outBytes } from './terminal.js';

export interface ExportArguments extends TraceArguments {
  readonly format: NativeFormat;
  readonly output?: string | undefined;
}

/** Writes to a file, or to standard output where none is named. */
export async function runExport(args: ExportArguments): Promise<number> {
  const trace = await openTrace(args);
  const encoder = new TextEncoder();
  const isJson = args.format !== 'folded';
  const { output = '-' } = args;
  const stream = output === '-' ? { write: outBytes, close: flush } : openOutput(output);
  exportTrace(trace, args.format, (text) => {
    stream.write(encoder.encode(isJson ? visibleJson(text) : text));
  });
  stream.close();
  return sayDoubts(args.dir, trace.doubts);
}
