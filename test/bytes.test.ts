/** Words without a view, against views. */
import { expect, test } from '@jest/globals';
import { bytesOfWord, ByteView, wordOf } from '../src/bytes.js';

test.each([
  ['little', 4],
  ['little', 8],
  ['big', 4],
  ['big', 8],
] as const)('words of %s endian machines, %d bytes', (endian, size) => {
  for (const value of [
    0n,
    1n,
    0x80n,
    0x8000_0000n,
    0xffff_ffffn,
    0x1_0000_0000n,
    0x8182_8384_8586_8788n,
    (1n << 64n) - 1n,
    -1n,
  ]) {
    const bytes = new Uint8Array(size);
    new ByteView(bytes, endian).insertWord(0, BigInt.asUintN(8 * size, value), size);
    expect([...bytesOfWord(value, endian, size)]).toEqual([...bytes]);
    expect(wordOf(bytes, endian, size)).toBe(new ByteView(bytes, endian).word(0, size));
  }
  expect(() => wordOf(new Uint8Array(size - 1), endian, size)).toThrow(/word/);
});
