/**
 * The steps of AES as ops on a vector of 16 bytes, for the machines that have them as instructions.
 *
 * A byte is replaced without a table of 256: an element of AES's field is k + i t, where k and i
 * are of the subfield of 16 and t solves t^2 + at + a = 0. Its inverse is ((k + ai) + it) / N, and
 * with j = i + k and N = k^2 + aik + ai^2
 *
 *     (k + ai) / N = 1 / (1 / (1/i + a/k) + j)      (k + aj) / N = 1 / (1 / (1/j + a/k) + i)
 *
 * So nine look-ups in 16 entries do, for all bytes at once: two into k and i, five inverses and
 * quotients, and two for what is linear in those sums, the affine map among it. 1/0 is 0x80, which
 * stays beyond the entries whatever is added, where a look-up gives 0: right for each of them.
 *
 * Source: FIPS 197; M. Hamburg, Accelerating AES with Vector Permute Instructions (CHES 2009).
 */
import type { BlockBuilder, Operand, PureName, Slot } from './ir.js';

/** Product of bytes in AES's field. */
function product(a: number, b: number): number {
  let out = 0;
  for (let bit = 7; bit >= 0; bit--) {
    out = (out << 1) ^ ((out & 0x80) === 0 ? 0 : 0x11b);
    if (((b >> bit) & 1) === 1) out ^= a;
  }
  return out;
}

function power(a: number, n: number): number {
  let out = 1;
  for (let i = 0; i < n; i++) out = product(out, a);
  return out;
}

/** Of 0 it is 0. */
const inverse = (a: number): number => power(a, 254);

/** FIPS 197, 5.1.1: the affine map without what is added. */
const affine = (a: number): number => {
  const twice = a * 0x101;
  return (a ^ (twice >> 7) ^ (twice >> 6) ^ (twice >> 5) ^ (twice >> 4)) & 0xff;
};
const ADDED = 0x63;

/** 16 bytes, the first the least significant. */
type Entries = readonly [low: bigint, high: bigint];

function entries(of: (index: number) => number): Entries {
  const half = (from: number): bigint => {
    let out = 0n;
    for (let i = 7; i >= 0; i--) out = (out << 8n) | BigInt(of(from + i));
    return out;
  };
  return [half(0), half(8)];
}

/** How bytes are replaced: into k (lower four bits) and i, and from the two sums. */
interface Box {
  readonly lower: Entries;
  readonly upper: Entries;
  readonly first: Entries;
  readonly second: Entries;
  readonly added: number;
}
interface Tables {
  readonly inverses: Entries;
  readonly quotients: Entries;
  readonly forward: Box;
  readonly backward: Box;
}

const BEYOND = 0x80;

function makeTables(): Tables {
  const ALL = Array.from({ length: 256 }, (_, i) => i);
  const subfield = ALL.filter((each) => power(each, 16) === each);
  // Numbers of the elements are linear: sums of four that are independent.
  const g = subfield.find((each) => power(each, 4) === (each ^ 1))!;
  const element = (n: number): number =>
    [0, 1, 2, 3].reduce((sum, bit) => sum ^ (((n >> bit) & 1) === 1 ? power(g, bit) : 0), 0);
  const ELEMENTS = Array.from({ length: 16 }, (_, n) => element(n));
  const numberOf = (each: number): number => ELEMENTS.indexOf(each);
  // t and its conjugate, t^16, have the sum and the product a.
  const t = ALL.find((each) => each > 1 && product(each, power(each, 16)) === (each ^ power(each, 16)))!;
  const a = t ^ power(t, 16);
  const parts = new Map<number, number>();
  for (let i = 0; i < 16; i++) {
    for (let k = 0; k < 16; k++) parts.set(ELEMENTS[k]! ^ product(ELEMENTS[i]!, t), k | (i << 4));
  }
  const reached = (of: (n: number) => number) => entries((n) => (n === 0 ? BEYOND : of(n)));
  const [one, two] = [inverse(a), power(inverse(a), 2)];
  // From x = (k + ai) / N and y = (k + aj) / N: x + t (x/a + x/a^2 + y/a^2).
  const fromX = (n: number): number => product(inverse(ELEMENTS[n]!), 1 ^ product(t, one ^ two));
  const fromY = (n: number): number => product(inverse(ELEMENTS[n]!), product(t, two));
  const straight = ALL.map(affine);
  const back = (each: number): number => parts.get(straight.indexOf(each))!;
  return {
    inverses: reached((n) => numberOf(inverse(ELEMENTS[n]!))),
    quotients: reached((n) => numberOf(product(a, inverse(ELEMENTS[n]!)))),
    forward: {
      lower: entries((n) => parts.get(n)!),
      upper: entries((n) => parts.get(n << 4)!),
      first: entries((n) => affine(fromX(n))),
      second: entries((n) => affine(fromY(n))),
      added: ADDED,
    },
    backward: {
      lower: entries((n) => back(n) ^ back(ADDED)),
      upper: entries((n) => back(n << 4)),
      first: entries(fromX),
      second: entries(fromY),
      added: 0,
    },
  };
}

let made: Tables | null = null;
const tables = (): Tables => (made ??= makeTables());

/** Places in the state: byte 4c + r is row r of column c. */
const PLACES = Array.from({ length: 16 }, (_, i) => i);
const shiftedRows = (direction: 1 | -1): number[] => PLACES.map((i) => (i + 16 + direction * 4 * (i % 4)) % 16);
const columnsTurned = (by: number): number[] => PLACES.map((i) => i - (i % 4) + ((i + by) % 4));

/** The steps of one instruction. Results may be in slots of operands. */
export class AesOps {
  private readonly free: readonly Slot[];
  private readonly constant: Slot;

  /** @param first  which byte of a slot is the first of the state */
  constructor(
    private readonly b: BlockBuilder,
    private readonly first: 'lowest' | 'highest',
  ) {
    this.free = Array.from({ length: 6 }, () => b.vectorTemp());
    this.constant = b.vectorTemp();
  }

  private to(d: Slot, op: PureName, a: Operand, c: Operand = 0n): Slot {
    return this.b.to(d, op, a, c);
  }

  private held([low, high]: Entries): Slot {
    return this.to(this.constant, 'join64', low, high);
  }

  private each(byte: number): Slot {
    return this.held(entries(() => byte));
  }

  private found(d: Slot, table: Entries, index: Slot): Slot {
    return this.to(d, 'vswizzle', this.held(table), index);
  }

  private added(d: Slot, a: Slot, c: Slot): Slot {
    return this.to(d, 'xor128', a, c);
  }

  private moved(d: Slot, a: Slot, places: readonly number[]): Slot {
    const from = this.first === 'lowest' ? places : [...places].reverse().map((each) => 15 - each);
    return this.to(d, 'vswizzle', a, this.held(entries((i) => from[i]!)));
  }

  private nibbles(lower: Slot, upper: Slot, of: Slot): void {
    this.to(upper, 'vshr16', of, 4n);
    this.to(upper, 'and128', upper, this.each(0xf));
    this.to(lower, 'and128', of, this.each(0xf));
  }

  /** Replaces each byte as the header says. */
  private replaced(d: Slot, a: Slot, { lower, upper, first, second, added }: Box): void {
    const [k, i, j, quotient, x, y] = this.free as [Slot, Slot, Slot, Slot, Slot, Slot];
    const { inverses, quotients } = tables();
    this.nibbles(x, y, a);
    this.added(x, this.found(x, lower, x), this.found(y, upper, y));
    this.nibbles(k, i, x);
    this.added(j, i, k);
    this.found(quotient, quotients, k);
    for (const [sum, of, other] of [
      [x, i, j],
      [y, j, i],
    ] as const) {
      this.added(sum, this.found(sum, inverses, of), quotient);
      this.added(sum, this.found(sum, inverses, sum), other);
    }
    this.added(d, this.found(x, first, x), this.found(y, second, y));
    if (added !== 0) this.added(d, d, this.each(added));
  }

  /** SubBytes. */
  substituted(d: Slot, a: Slot): void {
    this.replaced(d, a, tables().forward);
  }

  /** SubBytes and ShiftRows, and the inverse of the two. */
  encrypted(d: Slot, a: Slot): void {
    this.replaced(d, a, tables().forward);
    this.moved(d, d, shiftedRows(1));
  }

  decrypted(d: Slot, a: Slot): void {
    this.replaced(d, a, tables().backward);
    this.moved(d, d, shiftedRows(-1));
  }

  /** d := 2 d in the field. */
  private double(d: Slot): void {
    const mask = this.free[5]!;
    this.to(mask, 'vgt8', this.each(0), d);
    this.to(mask, 'and128', mask, this.each(0x1b));
    this.added(d, this.to(d, 'vadd8', d, d), mask);
  }

  /** MixColumns: 2 a + 3 b + c + e of a column a, b, c, e is 2 (a + b) + b + (c + e). */
  mixedColumns(d: Slot, a: Slot): void {
    const [next, both, others] = this.free as [Slot, Slot, Slot];
    this.moved(next, a, columnsTurned(1));
    this.added(both, a, next);
    this.moved(others, both, columnsTurned(2));
    this.double(both);
    this.added(d, this.added(next, next, others), both);
  }

  /** The inverse: the same of a + 4 (a + c), b + 4 (b + e), and so on. */
  unmixedColumns(d: Slot, a: Slot): void {
    const more = this.free[0]!;
    this.added(more, this.moved(more, a, columnsTurned(2)), a);
    this.double(more);
    this.double(more);
    this.mixedColumns(d, this.added(d, a, more));
  }
}
