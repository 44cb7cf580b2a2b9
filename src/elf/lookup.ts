/**
 * Half-open ranges that may overlap, searched by binary search; and the stable radix sort that
 * orders columns of 64-bit keys without making objects. Owns no meaning: sections, segments and
 * functions are its users.
 */

import type { ByteView } from '../bytes.js';

/** One range `[start, end)` and what it stands for. */
export interface Range<T> {
  readonly start: bigint;
  readonly end: bigint;
  readonly value: T;
}

/**
 * Finds the range around a point. Among overlapping ranges the one that starts last wins, then the
 * one given first.
 */
export class RangeIndex<T> {
  readonly #ranges: readonly Range<T>[];
  /**
   * Largest end of ranges 0..i: a search that walks back may stop as soon as this is not behind the
   * point.
   */
  readonly #reach: readonly bigint[];

  constructor(ranges: readonly Range<T>[]) {
    // Sort is stable; reversed first, so that among equal starts the range given first comes last
    // and is met first.
    const sorted = ranges.filter((range) => range.end > range.start).reverse();
    sorted.sort((a, b) => (a.start < b.start ? -1 : a.start > b.start ? 1 : 0));
    const reach: bigint[] = [];
    let furthest = 0n;
    for (const range of sorted) {
      if (range.end > furthest) furthest = range.end;
      reach.push(furthest);
    }
    this.#ranges = sorted;
    this.#reach = reach;
  }

  /** The range that holds `point`, or undefined. */
  find(point: bigint): Range<T> | undefined {
    let low = 0;
    let high = this.#ranges.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (this.#ranges[middle]!.start <= point) low = middle + 1;
      else high = middle;
    }
    for (let i = low - 1; i >= 0 && this.#reach[i]! > point; i--) {
      const range = this.#ranges[i]!;
      if (range.end > point) return range;
    }
    return undefined;
  }
}

/** True where a 64-bit array's low half is the first of its two 32-bit halves. */
const HOST_LITTLE_ENDIAN = new Uint8Array(new Uint32Array([1]).buffer)[0] === 1;
/**
 * Index of the low and the high half of element 0 in `halves(column)`; element i is at 2 * i + LOW.
 */
export const LOW = HOST_LITTLE_ENDIAN ? 0 : 1;
export const HIGH = 1 - LOW;

/**
 * A 64-bit column as 32-bit halves over the same memory: reading and writing them makes no bigint.
 */
export function halves(column: BigUint64Array | BigInt64Array): Uint32Array {
  return new Uint32Array(column.buffer, column.byteOffset, column.length * 2);
}

/**
 * Words of 32 bits of a table, in the byte order of this processor: the file's own bytes where they
 * are in it, else a copy. Rows are read from them without a call for each field.
 */
export function wordsOf({ bytes, littleEndian }: ByteView, offset: number, count: number): Uint32Array {
  const at = bytes.byteOffset + offset;
  const isOwnOrder = littleEndian === HOST_LITTLE_ENDIAN;
  if (isOwnOrder && at % 4 === 0) return new Uint32Array(bytes.buffer, at, count);
  const words = new Uint32Array(count);
  new Uint8Array(words.buffer).set(bytes.subarray(offset, offset + 4 * count));
  for (let i = 0; i < count && !isOwnOrder; i++) {
    const word = words[i]!;
    words[i] = (word << 24) | ((word & 0xff00) << 8) | ((word >>> 8) & 0xff00) | (word >>> 24);
  }
  return words;
}

/** An element of a column of unsigned words as a number; exact below 2^53. */
export function numberAt(words: Uint32Array, i: number): number {
  const high = words[2 * i + HIGH]!;
  // Before V8 compiles it, a product is a number on the heap, also that of 0.
  return high === 0 ? words[2 * i + LOW]! : high * 0x1_0000_0000 + words[2 * i + LOW]!;
}

/** How far an element of such a column is above one of another column. */
export function distance(words: Uint32Array, i: number, from: Uint32Array, k: number): number {
  const high = words[2 * i + HIGH]! - from[2 * k + HIGH]!;
  const low = words[2 * i + LOW]! - from[2 * k + LOW]!;
  return high === 0 ? low : high * 0x1_0000_0000 + low;
}

/** Whether rows stand in the order of their keys, least significant key first. */
export function inOrder(keys: readonly Uint32Array[], count: number): boolean {
  for (let i = 1; i < count; i++) {
    for (let k = keys.length - 1; k >= 0; k--) {
      const key = keys[k]!;
      const before = key[i - 1]!;
      const here = key[i]!;
      if (before < here) break;
      if (before > here) return false;
    }
  }
  return true;
}

/**
 * The order that sorts rows by several unsigned 32-bit keys, least significant key first; rows with
 * equal keys keep their order. Digits of 16 bits, passes in which all rows agree are skipped: a
 * million rows take some 10 ms a pass.
 * @param keys each of at least `count` elements
 * @returns `order[i]` is the row at rank i
 */
export function sortedOrder(keys: readonly Uint32Array[], count: number): Uint32Array {
  let order = new Uint32Array(count);
  for (let i = 0; i < count; i++) order[i] = i;
  if (inOrder(keys, count)) return order;
  if (count < 4096) {
    // A counting pass costs 65,536 steps whatever the count: few rows are faster by comparison (and
    // sort is stable).
    const significantFirst = [...keys].reverse();
    return order.sort((a, b) => {
      for (const key of significantFirst) {
        const x = key[a]!;
        const y = key[b]!;
        if (x !== y) return x < y ? -1 : 1;
      }
      return a - b;
    });
  }
  let other = new Uint32Array(count);
  const counts = new Uint32Array(0x1_0000);
  for (const key of keys) {
    for (const shift of [0, 16]) {
      counts.fill(0);
      for (let i = 0; i < count; i++) counts[(key[i]! >>> shift) & 0xffff]!++;
      if (counts[(key[0]! >>> shift) & 0xffff] === count) continue;
      let sum = 0;
      for (let digit = 0; digit < 0x1_0000; digit++) {
        const here = counts[digit]!;
        counts[digit] = sum;
        sum += here;
      }
      for (let i = 0; i < count; i++) {
        const row = order[i]!;
        other[counts[(key[row]! >>> shift) & 0xffff]!++] = row;
      }
      [order, other] = [other, order];
    }
  }
  return order;
}

/** The numbers in order, each once. */
export function ascending(numbers: readonly number[]): readonly number[] {
  if (numbers.every((each, i) => i === 0 || each > numbers[i - 1]!)) return numbers;
  return [...Float64Array.from(numbers).sort()].filter((each, i, all) => each !== all[i - 1]);
}

/** First position in ascending offsets whose offset is not below `offset`. */
export function lowerBound(offsets: Float64Array | Uint32Array, offset: number): number {
  let low = 0;
  let high = offsets.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (offsets[middle]! < offset) low = middle + 1;
    else high = middle;
  }
  return low;
}

/**
 * The same, looked for from `hint` on: callers that ask in ascending order give the last answer,
 * and are a few steps away from the next.
 */
export function lowerBoundFrom(offsets: Float64Array, offset: number, hint: number): number {
  let i = hint;
  if (i < offsets.length && offsets[i]! < offset) {
    for (let step = 0; step < 16 && i < offsets.length && offsets[i]! < offset; step++) i++;
    return i < offsets.length && offsets[i]! < offset ? lowerBound(offsets, offset) : i;
  }
  return i === 0 || i > offsets.length || offsets[i - 1]! >= offset ? lowerBound(offsets, offset) : i;
}
