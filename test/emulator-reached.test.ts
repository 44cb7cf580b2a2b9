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
