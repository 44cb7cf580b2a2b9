/** `elftrace export [DIR] --format FORM`: a trace in the form of another tool. */
import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { ElftraceError } from '../errors.js';
import { exportTrace, type NativeFormat } from '../native/export.js';
import type { NativeTrace } from '../native/trace.js';
import { writeCtf } from '../native/ctf.js';
import { type FileSink, writeUftrace } from '../native/uftrace.js';
import { makeDirectory } from '../output/directory.js';
import { openOutput } from '../output/stream.js';
import { needRecords, needTimes, openTrace, runFacts, sayDoubts, type TraceArguments } from './native-trace.js';
import { flush, outBytes } from './terminal.js';

/** The forms that are directories. */
export type DirectoryFormat = 'ctf' | 'uftrace';

export interface ExportArguments extends TraceArguments {
  readonly format: NativeFormat | DirectoryFormat;
  readonly output?: string | undefined;
}

/** A directory: a new one, or an empty one. */
function writeDirectory(trace: NativeTrace, format: DirectoryFormat, { dir, output }: ExportArguments): void {
  if (output === undefined || output === '-') {
    throw new ElftraceError('usage', `--format ${format} writes a directory: name it with -o DIR`);
  }
  if (existsSync(output) && readdirSync(output).length > 0) {
    throw new ElftraceError('usage', `${output} is there and not empty: name another directory`, { file: output });
  }
  makeDirectory(output);
  const open: FileSink = (name) => openOutput(join(output, name));
  if (format === 'ctf') writeCtf(trace, open);
  else writeUftrace(trace, runFacts(dir)?.command ?? [], open);
}

/** Writes to a file, or to standard output where none is named. */
export async function runExport(args: ExportArguments): Promise<number> {
  const { format } = args;
  const trace = await openTrace({ ...args, sources: format === 'ndjson' || format === 'perfetto' });
  if (format === 'folded' || format === 'ndjson') needRecords(trace, `--format ${format}`);
  else needTimes(trace, `--format ${format}`);
  if (format === 'uftrace' || format === 'ctf') {
    writeDirectory(trace, format, args);
    return sayDoubts(args.dir, trace.doubts);
  }
  const { output = '-' } = args;
  const stream = output === '-' ? { write: outBytes, close: flush } : openOutput(output);
  await exportTrace(trace, format, stream.write);
  stream.close();
  return sayDoubts(args.dir, trace.doubts);
}
