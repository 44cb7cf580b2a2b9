/** Room for copies and buffers: random requests against a pool that remembers every byte. */
import { expect, test } from '@jest/globals';
import fc from 'fast-check';
import { SlotPool } from '../src/kprobes/slots.js';

const AREAS = [
  { start: 0x1004n, end: 0x1600n },
  { start: 0x4000n, end: 0x4400n },
];
const REACHES = [
  { min: -0x1_0000n, max: 0x1_0000n, alignBytes: 1 },
  { min: -0x300n, max: 0x300n, alignBytes: 2 },
  { min: -0x80n, max: 0x200n, alignBytes: 4 },
];

interface Held {
  readonly address: bigint;
  readonly sizeBytes: number;
  /** Its size up to its alignment: nothing else is put there. */
  readonly end: bigint;
}

const up = (value: bigint, align: bigint): bigint => ((value + align - 1n) / align) * align;

/** The lowest place of the nearest area that is reached and free, byte by byte. */
function expected(
  held: readonly Held[],
  size: bigint,
  align: bigint,
  near: bigint,
  reach: (typeof REACHES)[0],
): bigint | null {
  const away = ({ start, end }: (typeof AREAS)[0]): bigint =>
    near < start ? start - near : near >= end ? near - end : 0n;
  const nearest = [...AREAS].sort((a, b) => Number(away(a) - away(b)));
  for (const { start, end } of nearest) {
    for (let at = up(start, align); at + size <= end; at += align) {
      if (at - near < reach.min || at - near > reach.max) continue;
      if (held.every((each) => at + size <= each.address || at >= each.end)) return at;
    }
  }
  return null;
}

test('K-SLOT-2: pieces are the lowest free ones in reach, never overlap, and come back whole', () => {
  const request = fc.record({
    size: fc.integer({ min: 1, max: 200 }),
    align: fc.constantFrom(1, 4, 8, 16),
    near: fc.bigInt({ min: 0xf00n, max: 0x4600n }),
    reach: fc.constantFrom(...REACHES),
    /** A piece that is given back instead. */
    free: fc.option(fc.nat(), { freq: 2 }),
  });
  fc.assert(
    fc.property(fc.array(request, { maxLength: 60 }), (requests) => {
      const pool = new SlotPool(AREAS);
      const held: Held[] = [];
      for (const { size, align, near, reach, free } of requests) {
        if (free !== null && held.length > 0) {
          const [piece] = held.splice(free % held.length, 1);
          pool.free(piece!.address);
        } else {
          const found = pool.allocate(size, align, near, reach);
          expect(found).toBe(expected(held, BigInt(size), BigInt(align), near, reach));
          if (found === null) continue;
          const area = AREAS.find(({ start, end }) => found >= start && found < end)!;
          const end = up(found + BigInt(size), BigInt(align));
          held.push({ address: found, sizeBytes: size, end: end < area.end ? end : area.end });
        }
        const sorted = [...held].sort((a, b) => Number(a.address - b.address));
        expect(pool.taken.map(({ address, sizeBytes }) => [address, sizeBytes])).toEqual(
          sorted.map(({ address, sizeBytes }) => [address, sizeBytes]),
        );
        expect(pool.count).toBe(held.length);
      }
      for (const { address } of held) pool.free(address);
      const [first] = AREAS;
      expect(pool.allocate(Number(first!.end - first!.start), 4, first!.start, REACHES[0]!)).toBe(first!.start);
    }),
    { seed: 40, numRuns: 300 },
  );
});
