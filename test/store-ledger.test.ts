/** The ledger of stores, against a list of what every single byte was stored for. */
import fc from 'fast-check';
import { expect, test } from '@jest/globals';
import { readElf } from '../src/elf/read.js';
import { readSample } from './support/pipeline.js';
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

test('the steps of a plan: every word that the stores left changed, with its reason, and no other one', () => {
  const image = readElf(readSample('x86-64/program-fentry'));
  const base = 0x1000;
  const store = fc.record({ at: fc.nat(100), bytes: fc.uint8Array({ minLength: 1, maxLength: 20 }) });
  fc.assert(
    fc.property(fc.array(store, { maxLength: 12 }), fc.boolean(), (stores, undo) => {
      const ledger = new StoreLedger();
      const after = image.bytes.slice();
      const last = new Map<number, number>();
      stores.forEach(({ at, bytes }, i) => {
        ledger.note(base + at, bytes.length, whyOf(i));
        after.set(bytes, base + at);
        bytes.forEach((_, k) => last.set(base + at + k, i));
      });
      // What a session gives back leaves no step.
      if (undo && stores[0]) {
        const { at, bytes } = stores[0];
        after.set(image.bytes.subarray(base + at, base + at + bytes.length), base + at);
      }
      const steps = ledger.steps(image, after);
      const made = image.bytes.slice();
      let end = 0;
      for (const { fileOffset, before, after: now, site } of steps) {
        expect(fileOffset).toBeGreaterThanOrEqual(end);
        end = fileOffset + now.length;
        expect(before).toEqual(image.bytes.slice(fileOffset, end));
        expect(before).not.toEqual(now);
        for (let at = fileOffset; at < end; at++) expect(last.get(at)).toBe(site);
        made.set(now, fileOffset);
      }
      expect(Buffer.compare(made, after)).toBe(0);
      const [first] = steps;
      if (first) expect(first).toMatchObject({ rule: `R-${first.site}`, reason: `store ${first.site}` });
    }),
  );
});

test('bytes that no store was noted for make no plan', () => {
  const image = readElf(readSample('x86-64/program-fentry'));
  const after = image.bytes.slice();
  after[0x1000]! ^= 1;
  const ledger = new StoreLedger();
  expect(() => ledger.steps(image, after)).toThrow(/without a reason/);
  ledger.note(0x1000, 1, whyOf(0));
  expect(ledger.steps(image, after)).toMatchObject([{ fileOffset: 0x1000, rule: 'R-0' }]);
});

/** Whether a place is in a range and not its beginning. */
const isInside = (ranges: readonly (readonly [number, number])[], place: number): boolean =>
  ranges.some(([start, end]) => place > start && place < end);
