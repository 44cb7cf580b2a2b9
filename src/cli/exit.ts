/**
 * Exit codes: what an error becomes. The only place that decides it; `docs/elftrace.1` lists the
 * codes.
 */
import { ElftraceError, type ErrorCode, hex } from '../errors.js';

/**
 * 0 as asked; 1 a check failed; 2 wrong use or bad input; 3 a fault of ours; 4 recognised and not
 * supported; 130 ended by Ctrl-C, as shells count.
 */
export const exitCodes = {
  ok: 0,
  failed: 1,
  badInput: 2,
  internal: 3,
  unsupported: 4,
  runFailed: 125,
  interrupted: 130,
} as const;

const byCode: Readonly<Partial<Record<ErrorCode, number>>> = {
  'unknown-machine': exitCodes.unsupported,
  'unsupported-machine': exitCodes.unsupported,
  'unsupported-form': exitCodes.unsupported,
  'site-mismatch': exitCodes.failed,
  'plan-refused': exitCodes.failed,
  'probe-refused': exitCodes.failed,
  'unsafe-graph': exitCodes.failed,
  'state-mismatch': exitCodes.failed,
  'host-callback-in-file': exitCodes.failed,
  'module-in-use': exitCodes.failed,
  'bad-row': exitCodes.internal,
  internal: exitCodes.internal,
  'step-limit': exitCodes.runFailed,
};

export function exitCodeOf(error: unknown): number {
  return error instanceof ElftraceError ? (byCode[error.code] ?? exitCodes.badInput) : exitCodes.internal;
}

/** An error with the file that it is about, where it does not name one itself. */
export function ofFile(error: unknown, file: string): unknown {
  if (!(error instanceof ElftraceError) || error.context.file !== undefined) return error;
  return new ElftraceError(error.code, error.message, { ...error.context, file }, { cause: error });
}

/** `file:section+offset (function): error: …`, as far as the error knows its place. */
export function errorLine(error: unknown, file: string): string {
  if (!(error instanceof ElftraceError)) {
    const text = error instanceof Error ? (error.stack ?? error.message) : String(error);
    return `${file}: internal error: ${text}`;
  }
  const { section, offset, symbol } = error.context;
  const place = section !== undefined && offset !== undefined ? `:${section}+${hex(offset)}` : '';
  const name = symbol !== undefined && symbol !== '' && place !== '' ? ` (${symbol})` : '';
  return `${file === '' ? 'elftrace' : file}${place}${name}: error: ${error.message} [${error.code}]`;
}
