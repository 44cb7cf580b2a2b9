/**
 * What `run --compare` compares: how two runs ended and what they wrote, line by line. There are
 * three answers, for a run that used something which is not served as Linux serves it proves
 * nothing, whatever it wrote.
 */
import { ElftraceError } from '../errors.js';
import { Deadline } from '../limits/index.js';

/** Says whether it is found somewhere in a line. */
export interface LinePattern {
  test(line: string): boolean;
}

/**
 * Which of the two runs: the one of the image that was named, or the one that it is compared with.
 */
export type Side = 'here' | 'original';

/** Why a run proves nothing. */
export interface Doubt {
  /**
   * A kind of `Deviation`; `stop`: it did not end; `call`: a called function did not return;
   * `output`: nothing of it was compared.
   */
  readonly kind: 'refused' | 'half' | 'signal' | 'image' | 'stop' | 'call' | 'output';
  /** `system call clone (56)`. */
  readonly what: string;
  readonly why: string;
  /** Of a system call: argument registers, at the first place. */
  readonly arguments?: readonly string[];
  /** Address and function of the first place, where there is one. */
  readonly instruction: string | null;
  readonly function: string;
  readonly count: number;
}

/** The end of a run, as far as it must be equal. */
export interface RunResult {
  /** `exit status 3`, `signal 11`, `f(1) = 2`. */
  readonly end: string;
  readonly stdout: Uint8Array;
  readonly stderr: Uint8Array;
  /** Empty: everything was served as Linux serves it. */
  readonly doubts: readonly Doubt[];
}

export interface RunDifference {
  readonly what: 'end' | 'stdout' | 'stderr';
  /** Line from 1, counted with those that are ignored in the first run; null for the end. */
  readonly line: number | null;
  /** null: the output is over. */
  readonly here: string | null;
  readonly original: string | null;
}

/** Lines of the first run. */
export interface ComparedLines {
  readonly compared: number;
  readonly ignored: number;
}

export type Comparison = { readonly lines: ComparedLines } & (
  | { readonly result: 'equal' }
  | { readonly result: 'different'; readonly difference: RunDifference }
  | {
      readonly result: 'inconclusive';
      readonly reasons: readonly (Doubt & { readonly side: Side })[];
      /** What differs nevertheless. */
      readonly difference: RunDifference | null;
    }
);

interface Line {
  readonly number: number;
  readonly text: string;
}

const NEWLINE = 0x0a;
/** Lines between two looks at the clock. */
const LINES_PER_LOOK = 64;

/** What does not count, and until when there is time to find out. */
interface Reading {
  readonly ignore: LinePattern | null;
  readonly deadline: Deadline;
}

/**
 * The lines that count, one by one: all of them at once would take many times the memory of the
 * output. Bytes one to one, so that what is no UTF-8 differs too. The newline belongs to the line.
 */
function* linesOf(bytes: Uint8Array, { ignore, deadline }: Reading): Generator<Line> {
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  let number = 1;
  for (let at = 0; at < buffer.length; number++) {
    const newline = buffer.indexOf(NEWLINE, at);
    const end = newline < 0 ? buffer.length : newline;
    const next = newline < 0 ? end : newline + 1;
    if (number % LINES_PER_LOOK === 0) deadline.check('the comparison');
    if (ignore === null || !ignore.test(buffer.toString('latin1', at, end))) {
      yield { number, text: buffer.toString('latin1', at, next) };
    }
    at = next;
  }
}

/** Number of lines that count, and of all. */
function countLines(bytes: Uint8Array, reading: Reading): { readonly compared: number; readonly all: number } {
  let compared = 0;
  for (const _ of linesOf(bytes, reading)) compared++;
  let all = 0;
  for (let at = 0; at < bytes.length; all++) {
    const newline = bytes.indexOf(NEWLINE, at);
    at = newline < 0 ? bytes.length : newline + 1;
  }
  return { compared, all };
}

function firstDifference(
  what: 'stdout' | 'stderr',
  here: RunResult,
  original: RunResult,
  reading: Reading,
): RunDifference | null {
  const own = linesOf(here[what], reading);
  const others = linesOf(original[what], reading);
  let last = 0;
  for (;;) {
    const a = own.next().value as Line | undefined;
    const b = others.next().value as Line | undefined;
    if (a === undefined && b === undefined) return null;
    if (a?.text !== b?.text) {
      return { what, line: a?.number ?? last + 1, here: a?.text ?? null, original: b?.text ?? null };
    }
    last = a?.number ?? last;
  }
}

/**
 * The first difference: of standard output, then of standard error, then of the end; null when
 * there is none.
 */
function difference(here: RunResult, original: RunResult, reading: Reading): RunDifference | null {
  for (const what of ['stdout', 'stderr'] as const) {
    const found = firstDifference(what, here, original, reading);
    if (found) return found;
  }
  return here.end === original.end ? null : { what: 'end', line: null, here: here.end, original: original.end };
}

const NOTHING_COMPARED: Doubt = {
  kind: 'output',
  what: 'output',
  why: 'every line was to be ignored: none was compared',
  instruction: null,
  function: '',
  count: 1,
};

const TIME_OVER: Doubt = {
  ...NOTHING_COMPARED,
  why: 'not all of it was compared when the time was over (--timeout)',
};

/** Lines of the first run, and the first difference; null when there was no time to find out. */
function compareOutputs(
  here: RunResult,
  original: RunResult,
  reading: Reading,
): { readonly lines: ComparedLines; readonly found: RunDifference | null } | null {
  try {
    const counts = [here.stdout, here.stderr].map((bytes) => countLines(bytes, reading));
    const compared = counts.reduce((sum, each) => sum + each.compared, 0);
    const ignored = counts.reduce((sum, each) => sum + each.all, 0) - compared;
    return { lines: { compared, ignored }, found: difference(here, original, reading) };
  } catch (error) {
    if (error instanceof ElftraceError && error.code === 'timeout') return null;
    throw error;
  }
}

/** Equal, different, or, where one of the runs proves nothing or the time is over, inconclusive. */
export function compareRuns(
  here: RunResult,
  original: RunResult,
  ignore: LinePattern | null,
  deadline: Deadline = Deadline.never,
): Comparison {
  const outputs = compareOutputs(here, original, { ignore, deadline });
  const { lines, found } = outputs ?? { lines: { compared: 0, ignored: 0 }, found: null };
  const own = outputs === null ? [TIME_OVER] : lines.compared === 0 && lines.ignored > 0 ? [NOTHING_COMPARED] : [];
  const doubts = { here: [...here.doubts, ...own], original: original.doubts };
  const reasons = (['here', 'original'] as const).flatMap((side) => doubts[side].map((each) => ({ side, ...each })));
  if (reasons.length > 0) return { lines, result: 'inconclusive', reasons, difference: found };
  return found ? { lines, result: 'different', difference: found } : { lines, result: 'equal' };
}
