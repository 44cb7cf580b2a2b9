/** What tier 0 has reached, and what its time there counts for. */
import { expect, test } from '@jest/globals';
import { ReachedCode } from '../src/emulator/reached-code.js';
import type { ReachedBlock } from '../src/emulator/reached-code.js';

const block = (address: bigint, count: number, recordBytes: number): ReachedBlock => ({
  address,
  count,
  last: address,
  terminator: { kind: 'ret', s: 0, mask: -1n },
  header: 0x1000,
  recordsEnd: 0x1000 + recordBytes,
});

test('time in blocks with many records an instruction counts more, in others as usual', () => {
  const reached = new ReachedCode(() => false);
  reached.add(block(0x10n, 10, 200));
  reached.add(block(0x20n, 10, 480));
  reached.add(block(0x30n, 10, 960));
  reached.add(block(0x40n, 0, 32));
  expect([0x10n, 0x20n, 0x30n, 0x40n, 0x50n].map((each) => reached.slownessOf(each))).toEqual([1, 1, 4, 1, 1]);
});

/** A function of so many blocks of ten instructions, each of which jumps to one of all. */
function jumpingFunction(blocks: number): { readonly reached: ReachedCode; readonly places: readonly bigint[] } {
  const reached = new ReachedCode(() => false);
  const places = Array.from({ length: blocks }, (_, i) => 0x1000n + BigInt(0x40 * i));
  for (const address of places) {
    reached.add({ ...block(address, 10, 480), last: address + 36n, terminator: { kind: 'ind', s: 0, mask: -1n } });
  }
  for (const from of places) for (const to of places.slice(1)) reached.addJump(from + 36n, to);
  return { reached, places };
}

test('a large function with indirect jumps is taken to pieces once, a smaller one never', () => {
  const { reached, places } = jumpingFunction(251);
  expect(reached.targets(places[5]! + 36n)).toHaveLength(250);
  expect(reached.split(places[0]!)).toEqual(new Set(places.slice(1)));
  expect(reached.split(places[0]!).size).toBe(0);
  expect(reached.entryOf(places[7]! + 8n)).toBe(places[7]);
  expect(reached.sizeOf(places[7]!)).toBe(10);
  expect([reached.targets(places[5]! + 36n), reached.isThreaded(places[5]! + 36n)]).toEqual([[], true]);
  // What a part jumps to that was not known yet is a part as well.
  expect(reached.addJump(places[5]! + 36n, 0x9000n)).toBe(false);
  expect(reached.entryOf(0x9010n)).toBe(0x9000n);
  const small = jumpingFunction(249);
  expect(small.reached.split(small.places[0]!).size).toBe(0);
});
