/**
 * The stores of a session, in order: under which rule, for which site, and why. They are what the
 * plan of a session is made of: a step for each place whose bytes are other ones than before,
 * with the reason of the store that came last there.
 */
import { equalBytes } from '../bytes.js';
import type { ElfImage } from '../elf/image.js';
import { ElftraceError } from '../errors.js';
import { type FileRange, storeStep } from '../patch/kept-relocations.js';
import type { Step } from '../patch/plan.js';
import type { SiteIndex } from '../units.js';

/** What a store was for. */
export interface StoreReason {
  /** Rule that the store follows. */
  readonly rule: string;
  /** Index of the site; -1 for what is no part of one. */
  readonly site: SiteIndex;
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
  /** null: nothing was stored there. */
  readonly why: StoreReason | null;
}

/** All stores of a session, in order. */
export class StoreLedger {
  private readonly noted: Noted[] = [];

  /** Notes that bytes of the file are about to be stored. */
  note(start: number, size: number, why: StoreReason): void {
    this.noted.push({ ...why, start, end: start + size });
  }

  /** Where the stores left other bytes than there were: whole words, near ones as one range. */
  changed({ bytes, wordBytes: word }: ElfImage, after: Uint8Array): FileRange[] {
    const ranges: [start: number, end: number][] = [];
    for (const { start, end } of [...this.noted].sort((a, b) => a.start - b.start)) {
      const last = ranges[ranges.length - 1];
      for (let at = Math.max(start - (start % word), last?.[1] ?? 0); at < end; at += word) {
        const to = Math.min(at + word, bytes.length);
        if (equalBytes(bytes.subarray(at, to), after.subarray(at, to))) continue;
        const open = ranges[ranges.length - 1];
        if (open?.[1] === at) open[1] = to;
        else ranges.push([at, to]);
      }
    }
    return ranges;
  }

  /**
   * The steps from an image to what the stores made of it.
   * @throws ElftraceError 'internal' where bytes changed that no store was noted for: a plan must
   *   not lack a store
   */
  steps(image: ElfImage, after: Uint8Array): Step[] {
    const steps: Step[] = [];
    const planned = image.bytes.slice();
    for (const { start, end, why } of this.explain(this.changed(image, after))) {
      const bytes = after.slice(start, end);
      if (why === null || equalBytes(image.bytes.subarray(start, end), bytes)) continue;
      steps.push(storeStep(image, [start, end], bytes, why));
      planned.set(bytes, start);
    }
    if (!equalBytes(planned, after)) throw new ElftraceError('internal', 'a session wrote bytes without a reason');
    return steps;
  }

  /**
   * Splits ranges of the file where the reasons change.
   * @param ranges  ascending, not overlapping
   * @returns parts in ascending order that cover the ranges
   */
  explain(ranges: readonly FileRange[]): ExplainedRange[] {
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
function firstBehind(ranges: readonly FileRange[], place: number): number {
  let [low, high] = [0, ranges.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (ranges[middle]![1] > place) high = middle;
    else low = middle + 1;
  }
  return low;
}
