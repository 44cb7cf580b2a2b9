/** The ledger of stores, against a list of what every single byte was stored for. */
import fc from 'fast-check';
import { expect, test } from '@jest/globals';
import { StoreLedger, type StoreReason } from '../src/tracing/ledger.js';

const SIZE = 64;
const whyOf = (i: number): StoreReason => ({ rule: `R-${i}`, site: i, reason: `store ${i}` });

test('each byte of a range has the reason of the store that came last, in parts that cover the range', () => {
  const place = fc.record({ start: fc.nat(SIZE - 1), size: fc.integer({ min: 1, max: 12 }) });
  const cuts = fc.uniqueArray(fc.nat(SIZE), { maxLength: 10 });
  fc.assert(
    fc.property(fc.array(place, { maxLength: 20 }), cuts, (stores, ends) => {
      const ledger = new StoreLedger();
      const last = new Array<number | null>(SIZE + 12).fill(null);
      stores.forEach(({ start, size }, i) => {
        ledger.note(start, size, whyOf(i));
        last.fill(i, start, start + size);
      });
      ends.sort((a, b) => a - b);
      const ranges = Array.from({ length: ends.length >> 1 }, (_, i) => [ends[2 * i]!, ends[2 * i + 1]!] as const);
      const parts = ledger.explain(ranges);
      const bytes = parts.flatMap(({ start, end, why }) =>
        Array.from({ length: end - start }, (_, i) => [start + i, why?.site ?? null] as const),
      );
      const expected = ranges.flatMap(([start, end]) =>
        Array.from({ length: end - start }, (_, i) => [start + i, last[start + i]!] as const),
      );
      expect(bytes).toEqual(expected);
      // No part could be one with the next.
      parts.slice(1).forEach((part, i) => {
        const previous = parts[i]!;
        expect(
          previous.end === part.start && previous.why?.site === part.why?.site && isInside(ranges, part.start),
        ).toBe(false);
      });
    }),
  );
});

/** Whether a place is in a range and not its beginning. */
const isInside = (ranges: readonly (readonly [number, number])[], place: number): boolean =>
  ranges.some(([start, end]) => place > start && place < end);
