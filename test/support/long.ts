/**
 * Long proofs: repetitions of what another test shows (more seeds, more machines, more schedules).
 * `npm test` leaves them out; `npm run test:all`, which CI runs, sets ELFTRACE_LONG=1 and takes
 * each machine and each rule. What is left repeats these, and is run by ELFTRACE_LONG=whole. A
 * behaviour that nothing else shows is no long proof, however long it takes.
 *
 * A test that CI leaves out is not there for it, `if (isWhole) test(…)`: a skipped one fails it.
 */
import { test } from '@jest/globals';

/** Whether long proofs run. */
export const isLong = process.env['ELFTRACE_LONG'] !== undefined;

/** Whether tables run as a whole, of which CI takes a part: `ELFTRACE_LONG=whole`. */
export const isWhole = process.env['ELFTRACE_LONG'] === 'whole';

/** `test` of a long proof. */
export const longTest = (isLong ? test : test.skip) as typeof test;

/** Rows of a table of which each shows the same: the first alone, or all where long proofs run. */
export function repeats<T>(rows: readonly T[], atLeast = 1): readonly T[] {
  return isLong ? rows : rows.slice(0, atLeast);
}

/** As `repeats`, of large tables: each n-th row where not all are asked for. */
export function everyNth<T>(rows: readonly T[], n: number): readonly T[] {
  return repeats(isWhole ? rows : rows.filter((_, i) => i % n === 0));
}

/**
 * Rows that together have every value that one of the questions gives, each row that brings a new
 * one: what the others show is a repetition, which is left to the whole tables.
 */
export function covering<T>(rows: readonly T[], ...questions: readonly ((row: T) => string)[]): readonly T[] {
  if (isWhole) return rows;
  const seen = questions.map(() => new Set<string>());
  return rows.filter((row) => {
    const isNew = questions.map((question, i) => !seen[i]!.has(question(row)));
    questions.forEach((question, i) => seen[i]!.add(question(row)));
    return isNew.includes(true);
  });
}

/** The first rows of a table of which each shows the same; all of them where whole tables run. */
export const few = <T>(rows: readonly T[], count = 1): readonly T[] => (isWhole ? rows : rows.slice(0, count));

/** Rows of which each shows the same for its own values: each n-th in quick runs, else all. */
export const sampled = <T>(rows: readonly T[], n: number): readonly T[] =>
  isLong ? rows : rows.filter((_, i) => i % n === 0);

/** How often something random is tried: in whole runs, in CI, in `npm test` (a third of CI's). */
export const times = (whole: number, ci: number, quick = Math.ceil(ci / 3)): number =>
  isWhole ? whole : isLong ? ci : quick;

/** The first of each group of rows. */
export function firstOf<T>(rows: readonly T[], groupOf: (row: T) => string): ReadonlySet<T> {
  const groups = new Map<string, T>();
  for (const row of rows) if (!groups.has(groupOf(row))) groups.set(groupOf(row), row);
  return new Set(groups.values());
}
