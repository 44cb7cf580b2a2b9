/**
 * Why the bytes of an image changed: who stored them last, under which rule, for which site. Plans
 * of sessions name that for each of their steps; that a place changed at all they see by comparing
 * the bytes, so that nothing which was written can be missing.
 */

/** What a store was for. */
export interface StoreReason {
  /** Rule that the store follows. */
  readonly rule: string;
  /** Index of the site; -1 for what is no part of one. */
  readonly site: number;
  /** In words. */
  readonly reason: string;
}

interface Noted extends StoreReason {
  readonly start: number;
  readonly end: number;
}

/** A part of a range of the file, with the reason of the store that came last. */
export interface ExplainedRange {
  readonly start: number;
  readonly end: number;
  /** null: nothing noted that it writes there. */
  readonly why: StoreReason | null;
}

/** All stores of a session, in order. */
export class StoreLedger {
  private readonly noted: Noted[] = [];

  /** Notes that bytes of the file are about to be stored. */
  note(start: number, size: number, why: StoreReason): void {
    this.noted.push({ ...why, start, end: start + size });
  }

  /**
   * Splits ranges of the file where the reasons change.
   * @param ranges  ascending, not overlapping
   * @returns parts in ascending order that cover the ranges
   */
  explain(ranges: readonly (readonly [start: number, end: number])[]): ExplainedRange[] {
    const last = ranges.map(([start, end]) => new Int32Array(end - start).fill(-1));
    this.noted.forEach(({ start, end }, i) => {
      for (let at = firstBehind(ranges, start); at < ranges.length && ranges[at]![0] < end; at++) {
        const [from, to] = ranges[at]!;
        last[at]!.fill(i, Math.max(start, from) - from, Math.min(end, to) - from);
      }
    });
    return ranges.flatMap(([from, to], at) => {
      const parts: ExplainedRange[] = [];
      const owners = last[at]!;
      for (let start = 0; start < to - from;) {
        let end = start + 1;
        while (end < to - from && owners[end] === owners[start]) end++;
        parts.push({ start: from + start, end: from + end, why: this.noted[owners[start]!] ?? null });
        start = end;
      }
      return parts;
    });
  }
}

/** Index of the first range that ends behind a place. */
function firstBehind(ranges: readonly (readonly [start: number, end: number])[], place: number): number {
  let [low, high] = [0, ranges.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (ranges[middle]![1] > place) high = middle;
    else low = middle + 1;
  }
  return low;
}
