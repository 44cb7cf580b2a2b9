/** What `run --compare` compares: how two runs ended and what they wrote, line by line. */

/** The end of a run, as far as it must be equal. */
export interface RunResult {
  /** `exit status 3`, `signal 11`, `f(1) = 2`. */
  readonly end: string;
  readonly stdout: Uint8Array;
  readonly stderr: Uint8Array;
}

export interface RunDifference {
  readonly what: 'end' | 'stdout' | 'stderr';
  /** Line from 1, counted with those that are ignored in the first run; null for the end. */
  readonly line: number | null;
  /** null: the output is over. */
  readonly here: string | null;
  readonly original: string | null;
}

interface Line {
  readonly number: number;
  readonly text: string;
}

/** Bytes one to one, so that what is no UTF-8 differs too. The newline belongs to the line. */
function linesOf(bytes: Uint8Array, ignore: RegExp | null): Line[] {
  const text = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('latin1');
  const lines = text.match(/[^\n]*\n|[^\n]+$/g) ?? [];
  return lines
    .map((each, i) => ({ number: i + 1, text: each }))
    .filter((each) => ignore === null || !ignore.test(each.text.replace(/\n$/, '')));
}

function firstDifference(what: 'stdout' | 'stderr', a: readonly Line[], b: readonly Line[]): RunDifference | null {
  for (let i = 0; i < Math.max(a.length, b.length); i++) {
    if (a[i]?.text === b[i]?.text) continue;
    const line = a[i]?.number ?? (a.at(-1)?.number ?? 0) + 1;
    return { what, line, here: a[i]?.text ?? null, original: b[i]?.text ?? null };
  }
  return null;
}

/** The first difference: of standard output, then of standard error, then of the end; null when there is none. */
export function compareRuns(here: RunResult, original: RunResult, ignore: RegExp | null): RunDifference | null {
  for (const what of ['stdout', 'stderr'] as const) {
    const found = firstDifference(what, linesOf(here[what], ignore), linesOf(original[what], ignore));
    if (found) return found;
  }
  return here.end === original.end ? null : { what: 'end', line: null, here: here.end, original: original.end };
}
