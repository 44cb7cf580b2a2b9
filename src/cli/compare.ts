/**
 * What `run --compare` compares: how two runs ended and what they wrote, line by line. There are three answers, for a run that
 * used something which is not served as Linux serves it proves nothing, whatever it wrote.
 */

/** Which of the two runs: the one of the image that was named, or the one that it is compared with. */
export type Side = 'here' | 'original';

/** Why a run proves nothing. */
export interface Doubt {
  /** A kind of `Deviation`; `stop`: it did not end; `call`: a called function did not return; `output`: nothing of it was compared. */
  readonly kind: 'refused' | 'half' | 'signal' | 'image' | 'stop' | 'call' | 'output';
  /** `system call clone (56)`. */
  readonly what: string;
  readonly why: string;
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

/** Bytes one to one, so that what is no UTF-8 differs too. The newline belongs to the line. */
function allLines(bytes: Uint8Array): Line[] {
  const text = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('latin1');
  const lines = text.match(/[^\n]*\n|[^\n]+$/g) ?? [];
  return lines.map((each, i) => ({ number: i + 1, text: each }));
}

const linesOf = (bytes: Uint8Array, ignore: RegExp | null): Line[] =>
  allLines(bytes).filter((each) => ignore === null || !ignore.test(each.text.replace(/\n$/, '')));

function firstDifference(what: 'stdout' | 'stderr', a: readonly Line[], b: readonly Line[]): RunDifference | null {
  for (let i = 0; i < Math.max(a.length, b.length); i++) {
    if (a[i]?.text === b[i]?.text) continue;
    const line = a[i]?.number ?? (a.at(-1)?.number ?? 0) + 1;
    return { what, line, here: a[i]?.text ?? null, original: b[i]?.text ?? null };
  }
  return null;
}

/** The first difference: of standard output, then of standard error, then of the end; null when there is none. */
function difference(here: RunResult, original: RunResult, ignore: RegExp | null): RunDifference | null {
  for (const what of ['stdout', 'stderr'] as const) {
    const found = firstDifference(what, linesOf(here[what], ignore), linesOf(original[what], ignore));
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

/** Equal, different, or, where one of the runs proves nothing, inconclusive. */
export function compareRuns(here: RunResult, original: RunResult, ignore: RegExp | null): Comparison {
  const count = (run: RunResult, but: RegExp | null): number =>
    linesOf(run.stdout, but).length + linesOf(run.stderr, but).length;
  const compared = count(here, ignore);
  const lines = { compared, ignored: count(here, null) - compared };
  const found = difference(here, original, ignore);
  const doubts = {
    here: compared === 0 && lines.ignored > 0 ? [...here.doubts, NOTHING_COMPARED] : here.doubts,
    original: original.doubts,
  };
  const reasons = (['here', 'original'] as const).flatMap((side) => doubts[side].map((each) => ({ side, ...each })));
  if (reasons.length > 0) return { lines, result: 'inconclusive', reasons, difference: found };
  return found ? { lines, result: 'different', difference: found } : { lines, result: 'equal' };
}
