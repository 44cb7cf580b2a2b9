/**
 * The one error class of the project and the builders of its recurring messages. Owns the table of
 * error codes; owns no policy: what exit code an error becomes is decided in `cli/`.
 */

/**
 * Stable error codes. A program may switch on them; the message is for people.
 *
 * | code | meaning | command line exit |
 * |---|---|---|
 * | elf-truncated | a structure of the file reaches past its end | 2 |
 * | elf-malformed | a field holds a value that no valid file has | 2 |
 * | not-elf | the input is no ELF file, archive or known compressed form | 2 |
 * | bad-reference | an index or address of the file names nothing | 2 |
 * | unknown-machine | e_machine is not known at all | 4 |
 * | unsupported-machine | the machine is recognised and not served (ENODEV) | 4 |
 * | unsupported-form | a recognised form of input that this request cannot work on | 4 |
 * | unknown-relocation | a relocation type without a row | 2 |
 * | relocation-out-of-range | the value does not fit the field | 2 |
 * | relocation-misaligned | the value has low bits that the field cannot hold | 2 |
 * | operand-out-of-range | an assembler operand does not fit its field | 2 |
 * | branch-out-of-range | a branch cannot reach its target | 2 |
 * | unknown-instruction | bytes that the instruction table does not know | 2 |
 * | bad-row | an instruction or relocation row contradicts itself (a fault of ours) | 3 |
 * | site-mismatch | bytes at a place are not the expected ones (EINVAL) | 1 |
 * | plan-refused | sites were refused and a partial plan was not accepted | 1 |
 * | plan-stale | a plan was made for another file | 2 |
 * | no-record | the file carries no elftrace record | 2 |
 * | bad-record | the record is damaged or of an unknown version | 2 |
 * | state-mismatch | the record and the bytes disagree | 1 |
 * | no-runtime | the image has no tracing entries and none can be added | 2 |
 * | host-callback-in-file | bytes for a file refer to a function of the host | 1 |
 * | bad-probe | a probe definition cannot be understood (EINVAL); `column` says where | 2 |
 * | probe-refused | a probe cannot be set; `reason`, `errno` and `rule` say why | 1 |
 * | unsafe-graph | return addresses cannot be replaced in this program; the findings say why | 1 |
 * | no-match | a selection matches nothing | 2 |
 * | bad-pattern | a filter word cannot be understood (EINVAL) | 2 |
 * | usage | the request itself makes no sense | 2 |
 * | io | a file cannot be read or written | 2 |
 * | output-busy | another process is writing the output | 2 |
 * | output-changed | a file changed after it was read, so it was not replaced | 2 |
 * | undefined-symbols | parts use symbols that no part defines; the message lists all | 2 |
 * | duplicate-symbols | parts define the same symbol; the message lists all | 2 |
 * | toc-restore-missing | no room behind a call to another part for the TOC restore | 2 |
 * | no-landing-pad | an indirect branch would land where none may | 2 |
 * | stub-area-full | a stub area has no free entry | 2 |
 * | module-in-use | another part uses symbols of the module | 1 |
 * | step-limit | a run was stopped by its budget | 125 |
 * | limit-exceeded | more than is allowed; `reason` is the option that allows more | 2 |
 * | timeout | the time that `--timeout` gives was over | 2 |
 * | internal | a fault of ours | 3 |
 */
export type ErrorCode =
  | 'elf-truncated'
  | 'elf-malformed'
  | 'not-elf'
  | 'bad-reference'
  | 'unknown-machine'
  | 'unsupported-machine'
  | 'unsupported-form'
  | 'unknown-relocation'
  | 'relocation-out-of-range'
  | 'relocation-misaligned'
  | 'operand-out-of-range'
  | 'branch-out-of-range'
  | 'unknown-instruction'
  | 'bad-row'
  | 'site-mismatch'
  | 'plan-refused'
  | 'plan-stale'
  | 'no-record'
  | 'bad-record'
  | 'state-mismatch'
  | 'no-runtime'
  | 'host-callback-in-file'
  | 'bad-probe'
  | 'probe-refused'
  | 'unsafe-graph'
  | 'no-match'
  | 'bad-pattern'
  | 'usage'
  | 'io'
  | 'output-busy'
  | 'output-changed'
  | 'undefined-symbols'
  | 'duplicate-symbols'
  | 'toc-restore-missing'
  | 'no-landing-pad'
  | 'stub-area-full'
  | 'module-in-use'
  | 'step-limit'
  | 'limit-exceeded'
  | 'timeout'
  | 'internal';

/**
 * Where and what: every field is optional because errors arise at many levels; numbers are file
 * offsets or counts.
 */
export interface ErrorContext {
  readonly file?: string;
  /** Byte position in the file. */
  readonly fileOffset?: number;
  readonly address?: bigint;
  readonly section?: string;
  /** Offset in `section`, bytes. */
  readonly offset?: bigint;
  readonly symbol?: string;
  /** Which structure and which field of it, e.g. `section header 3: sh_link`. */
  readonly what?: string;
  readonly value?: bigint | number | string;
  readonly min?: bigint | number;
  readonly max?: bigint | number;
  readonly expected?: string;
  readonly actual?: string;
  /** Position in a text that was given, from 0. */
  readonly column?: number;
  /** A stable word for programs, finer than the code. */
  readonly reason?: string;
  /** The error number of Linux that it stands for. */
  readonly errno?: string;
  /** Rule of the specification that decides. */
  readonly rule?: string;
}

/**
 * The only error the library throws on purpose. `code` is for programs, `context` says where,
 * `message` says both.
 */
export class ElftraceError extends Error {
  override readonly name = 'ElftraceError';
  constructor(
    readonly code: ErrorCode,
    message: string,
    readonly context: ErrorContext = {},
    options?: { cause?: unknown },
  ) {
    super(message, options);
  }
}

/** `0x` and lower case, as in every message and JSON key of the project. */
export function hex(value: bigint | number): string {
  return value < 0 ? `-0x${(-value).toString(16)}` : `0x${value.toString(16)}`;
}

/** Bytes as two-digit groups: `e8 00 00 00 00`. */
export function hexBytes(bytes: Uint8Array): string {
  let text = '';
  for (const byte of bytes) text += (text === '' ? '' : ' ') + byte.toString(16).padStart(2, '0');
  return text;
}

/** A structure reaches past the end of the file. `what` names structure and field. */
export function truncated(
  what: string,
  offset: number | bigint,
  size: number | bigint,
  fileSize: number,
): ElftraceError {
  return new ElftraceError(
    'elf-truncated',
    `${what}: needs ${size} bytes at ${hex(offset)}, the file has ${fileSize}`,
    { what, fileOffset: Number(offset), value: BigInt(size), max: fileSize },
  );
}

/** A field holds what no valid file has. */
export function malformed(what: string, cause: string, context: ErrorContext = {}): ElftraceError {
  return new ElftraceError('elf-malformed', `${what}: ${cause}`, { what, ...context });
}

/** A value does not fit `[min, max]`; both ends are included. */
export function outOfRange(
  code: 'relocation-out-of-range' | 'operand-out-of-range' | 'branch-out-of-range',
  what: string,
  value: bigint,
  min: bigint,
  max: bigint,
  context: ErrorContext = {},
): ElftraceError {
  return new ElftraceError(code, `${what}: ${hex(value)} is outside [${hex(min)}, ${hex(max)}]`, {
    what,
    value,
    min,
    max,
    ...context,
  });
}
