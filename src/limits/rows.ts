/**
 * Every limit that a user may move: one row each. Options, help, documentation and errors are made
 * from the rows, or tested against them. What a format or a kernel fixes (the longest instruction,
 * the names of kprobe events) is no limit of this kind and stays beside what it describes.
 */
import { ElftraceError, type ErrorCode, type ErrorContext } from '../errors.js';

export type LimitUnit = 'bytes' | 'seconds' | 'instructions' | 'processes' | 'times';

export interface Limit {
  /** Name of the option that moves it, without its dashes. */
  readonly option: string;
  readonly unit: LimitUnit;
  /** In `unit`; Infinity: none. */
  readonly default: number;
  /** What is limited, as help and documentation say it. */
  readonly what: string;
  /** What went wrong, as it stands in the error, behind the name of what was too much. */
  readonly message: string;
  /** Of the error; its context's `reason` is the option. */
  readonly code: ErrorCode;
}

const MIB = 2 ** 20;
const GIB = 2 ** 30;

const rows = {
  file: {
    option: 'max-file',
    unit: 'bytes',
    default: GIB,
    what: 'an input as it is stored',
    message: 'is larger than',
    code: 'limit-exceeded',
  },
  unpacked: {
    option: 'max-unpacked',
    unit: 'bytes',
    default: 256 * MIB,
    what: 'a compressed input, or a member of an archive, when it is unpacked',
    message: 'unpacks to more than',
    code: 'limit-exceeded',
  },
  ratio: {
    option: 'max-ratio',
    unit: 'times',
    default: 250,
    what: 'how many times larger compressed data may become, once that is more than 16 MiB',
    message: 'unpacks to more than its size times',
    code: 'limit-exceeded',
  },
  memory: {
    option: 'max-memory',
    unit: 'bytes',
    default: GIB,
    what: 'memory of the program that runs',
    message: 'needs more memory than',
    code: 'limit-exceeded',
  },
  output: {
    option: 'max-output',
    unit: 'bytes',
    default: 256 * MIB,
    what: 'what the program that runs writes to its outputs',
    message: 'wrote more than',
    code: 'limit-exceeded',
  },
  trace: {
    option: 'max-trace',
    unit: 'bytes',
    default: GIB,
    what: 'a trace as it is written',
    message: 'is larger than',
    code: 'limit-exceeded',
  },
  instructions: {
    option: 'max-instructions',
    unit: 'instructions',
    default: 1_000_000_000,
    what: 'instructions of the program that runs',
    message: 'executed more than',
    code: 'step-limit',
  },
  processes: {
    option: 'max-processes',
    unit: 'processes',
    default: 128,
    what: 'processes at a time, of a program that makes some',
    message: 'made more processes than',
    code: 'limit-exceeded',
  },
  time: {
    option: 'timeout',
    unit: 'seconds',
    default: 3600,
    what: 'time by the clock on the wall',
    message: 'took longer than',
    code: 'timeout',
  },
} as const satisfies Record<string, Limit>;

export type LimitName = keyof typeof rows;

/** The limits by name. */
export const limits: Readonly<Record<LimitName, Limit>> = rows;

/** A value for each limit, in its unit; Infinity: none. */
export type Limits = Readonly<Record<LimitName, number>>;

export const limitNames = Object.keys(rows) as readonly LimitName[];

/** What holds unless something else is asked for. */
export const defaultLimits: Limits = Object.fromEntries(
  limitNames.map((name) => [name, limits[name].default]),
) as Limits;

const scales: Readonly<Record<string, number>> = { K: 2 ** 10, M: MIB, G: GIB, T: 2 ** 40 };
const durations: Readonly<Record<string, number>> = { s: 1, m: 60, h: 3600 };

/**
 * Bytes from `4096`, `64K`, `256M`, `1G` or `1T` (powers of 1024); Infinity from `none`; null from
 * anything else, zero included.
 */
export function parseSize(text: string): number | null {
  if (text === 'none') return Infinity;
  const [, digits, scale = ''] = /^(\d{1,15})([KMGT]?)$/i.exec(text) ?? [];
  if (digits === undefined) return null;
  const value = Number(digits) * (scales[scale.toUpperCase()] ?? 1);
  return value > 0 && Number.isSafeInteger(value) ? value : null;
}

/**
 * Seconds from `90`, `0.5`, `90s`, `5m` or `2h`; Infinity from `none`; null from anything else,
 * zero included.
 */
export function parseSeconds(text: string): number | null {
  if (text === 'none') return Infinity;
  const [, digits, unit = 's'] = /^(\d{1,9}(?:\.\d{1,9})?|\.\d{1,9})([smh]?)$/.exec(text) ?? [];
  if (digits === undefined) return null;
  const value = Number(digits) * durations[unit === '' ? 's' : unit]!;
  return value > 0 ? value : null;
}

function parseCount(text: string): number | null {
  if (text === 'none') return Infinity;
  const value = /^\d{1,16}(e\d{1,2})?$/.test(text) ? Number(text) : 0;
  return value > 0 && Number.isSafeInteger(value) ? value : null;
}

const wanted: Readonly<Record<LimitUnit, string>> = {
  bytes: 'a size as in 4096, 64K, 256M or 1G, or none',
  seconds: 'seconds, or as in 5m or 2h, or none',
  instructions: 'a positive whole number, or none',
  processes: 'a positive whole number, or none',
  times: 'a positive whole number, or none',
};

/**
 * The value that an option's text stands for.
 * @throws ElftraceError 'usage' when it is none
 */
export function parseLimit(name: LimitName, text: string): number {
  const { unit, option } = limits[name];
  const value = unit === 'bytes' ? parseSize(text) : unit === 'seconds' ? parseSeconds(text) : parseCount(text);
  if (value === null) throw new ElftraceError('usage', `--${option} ${text}: it takes ${wanted[unit]}`);
  return value;
}

/** A size as `parseSize` takes it, in the largest unit that divides it: `256M`. */
export function sizeText(bytes: number): string {
  if (bytes === Infinity) return 'none';
  for (const unit of ['T', 'G', 'M', 'K']) {
    if (bytes > 0 && bytes % scales[unit]! === 0) return `${bytes / scales[unit]!}${unit}`;
  }
  return String(bytes);
}

/** A value as the option takes it. */
export function limitText(name: LimitName, value: number): string {
  if (value === Infinity) return 'none';
  return limits[name].unit === 'bytes' ? sizeText(value) : String(value);
}

/**
 * The error of a limit that was reached.
 * @param what   what was too much: `gzip data`, a path
 * @param max    the limit that held
 * @param context  more of the place; `reason` is the option's name
 */
export function limitExceeded(name: LimitName, what: string, max: number, context: ErrorContext = {}): ElftraceError {
  const { option, unit, message, code } = limits[name];
  const amount = {
    bytes: `${sizeText(max)} bytes`,
    seconds: `${max} seconds`,
    instructions: `${max}`,
    processes: `${max}`,
    times: `${max}`,
  };
  const text = unit === 'bytes' && /[KMGT]$/.test(sizeText(max)) ? sizeText(max) : amount[unit];
  return new ElftraceError(code, `${what} ${message} ${text} (--${option})`, { what, max, reason: option, ...context });
}
