/**
 * What instructions of POWER9's VMX compute that have no ops: rows by mnemonic, as those of
 * `vector-rows.ts`. Decimal numbers are among them: packed (31 digits and a sign), national (seven
 * characters of 16 bits and a sign), zoned (16 bytes, the sign in the zone of the last).
 *
 * Source: Power ISA 3.0B, Book I, chapter 6.
 */
import { elements, joined, signedDecimal } from './vector-rows.js';
import type { VectorUnit, VmxRow } from './vector-rows.js';

const ROWS = new Map<string, VmxRow>();
const full = (value: bigint): bigint => BigInt.asUintN(128, value);

function add(name: string, sources: readonly string[], run: VmxRow['run']): void {
  ROWS.set(name, { sources, run });
}
const one = ['vrb'];
const two = ['vra', 'vrb'];

add('vmsumudm', ['vra', 'vrb', 'vrc'], ([a, b, c]) => {
  const second = elements(b!, 64);
  return full(elements(a!, 64).reduce((sum, each, i) => sum + each * second[i]!, c!));
});
add('vmul10uq', ['vra'], ([a]) => full(a! * 10n));
add('vmul10cuq', ['vra'], ([a]) => (a! * 10n) >> 128n);
add('vmul10euq', two, ([a, b]) => full(a! * 10n + (b! & 15n)));
add('vmul10ecuq', two, ([a, b]) => (a! * 10n + (b! & 15n)) >> 128n);

/** A bit of the doubleword beside each index, as those of `vbpermq`. */
add('vbpermd', two, ([a, b]) => {
  const sources = elements(a!, 64);
  const bits = elements(b!, 64).map((indices, i) => {
    const each = elements(indices << 64n, 8).slice(0, 8);
    return each.reduce((all, at) => (all << 1n) | (at < 64n ? (sources[i]! >> (63n - at)) & 1n : 0n), 0n);
  });
  return joined(bits, 64);
});

/** Elements rotated, and under a mask from one bit to another, which may go around the end. */
for (const [letter, bits] of [['w', 32], ['d', 64]] as const) {
  const rotate = (a: bigint, by: bigint): bigint => BigInt.asUintN(bits, (a << by) | (a >> (BigInt(bits) - by)));
  const rotated = (a: bigint, b: bigint): readonly [value: bigint, mask: bigint] => {
    const [by, last, first] = [0n, 8n, 16n].map((at) => (b >> at) & BigInt(bits - 1));
    const all = (1n << BigInt(bits)) - 1n;
    const [from, to] = [all >> first!, all & ~((1n << (BigInt(bits - 1) - last!)) - 1n)];
    return [rotate(a, by!), first! <= last! ? from & to : from | to];
  };
  const each = (name: string, sources: readonly string[], run: (a: bigint, b: bigint, t: bigint) => bigint): void => {
    add(name, sources, (x) => {
      const [a, b, t] = x.map((value) => elements(value, bits));
      return joined(a!.map((value, i) => run(value, b![i]!, t?.[i] ?? 0n)), bits);
    });
  };
  each(`vrl${letter}nm`, two, (a, b) => {
    const [value, mask] = rotated(a, b);
    return value & mask;
  });
  each(`vrl${letter}mi`, [...two, 'vrt'], (a, b, t) => {
    const [value, mask] = rotated(a, b);
    return (value & mask) | (t & ~mask);
  });
} // prettier-ignore

// -------------------------------------------------------------------------------- decimal numbers

/** A decimal number: digits as nibbles, and whether it is below zero, a zero too. */
interface Decimal {
  readonly digits: bigint;
  readonly isNegative: boolean;
}
const DIGITS = (1n << 124n) - 1n;
const areDigits = (nibbles: bigint): boolean => !/[a-f]/.test(nibbles.toString(16));

/** Field 6 of CR: less, greater or equal to zero; `overflows`: digits were lost. */
function tell(unit: VectorUnit, { digits, isNegative }: Decimal, overflows: boolean): void {
  unit.field = (digits === 0n ? 2 : isNegative ? 8 : 4) | (overflows ? 1 : 0);
}
function invalid(unit: VectorUnit): bigint {
  unit.field = 1;
  return full(-1n);
}
const packedOf = (unit: VectorUnit, { digits, isNegative }: Decimal): bigint =>
  (digits << 4n) | (isNegative ? 0xdn : unit.operands['ps'] === 1 ? 0xfn : 0xcn);

/** From a packed number to a result; `tells`: of the number or of what became of it. */
function fromPacked(name: string, sources: readonly string[], run: (unit: VectorUnit, b: Decimal, x: readonly bigint[]) => bigint): void {
  add(name, sources, (x, unit) => {
    const b = signedDecimal(x[sources.indexOf('vrb')]!);
    return b === null ? invalid(unit) : run(unit, b, x);
  });
} // prettier-ignore

add('bcdcfn.', one, ([b], unit) => {
  const characters = elements(b!, 16);
  const sign = characters.pop()!;
  const isValid = (sign === 0x2bn || sign === 0x2dn) && characters.every((each) => each >= 0x30n && each <= 0x39n);
  if (!isValid) return invalid(unit);
  const number = { digits: joined(characters, 4), isNegative: sign === 0x2dn };
  tell(unit, number, false);
  return packedOf(unit, number);
});
fromPacked('bcdctn.', one, (unit, b) => {
  tell(unit, b, b.digits >> 28n !== 0n);
  const characters = elements(b.digits << 100n, 4).slice(0, 7).map((each) => each | 0x30n); // prettier-ignore
  return joined([...characters, b.isNegative ? 0x2dn : 0x2bn], 16);
});
add('bcdcfz.', one, ([b], unit) => {
  const bytes = elements(b!, 8);
  const isPreferred = unit.operands['ps'] === 1;
  const sign = bytes[15]! >> 4n;
  const zone = isPreferred ? 0xfn : 3n;
  const isValid =
    bytes.every((each, i) => (each & 15n) <= 9n && (i === 15 || each >> 4n === zone)) && (!isPreferred || sign > 9n);
  if (!isValid) return invalid(unit);
  const isNegative = isPreferred ? sign === 0xbn || sign === 0xdn : (sign & 4n) !== 0n;
  const number = { digits: joined(bytes.map((each) => each & 15n), 4), isNegative }; // prettier-ignore
  tell(unit, number, false);
  return (number.digits << 4n) | (isNegative ? 0xdn : 0xcn);
});
fromPacked('bcdctz.', one, (unit, b) => {
  tell(unit, b, b.digits >> 64n !== 0n);
  const isPreferred = unit.operands['ps'] === 1;
  const zone = isPreferred ? 0xf0n : 0x30n;
  const sign = isPreferred ? (b.isNegative ? 0xd0n : 0xc0n) : b.isNegative ? 0x70n : 0x30n;
  const digits = elements(b.digits << 64n, 4).slice(0, 16);
  return joined(digits.map((each, i) => each | (i === 15 ? sign : zone)), 8); // prettier-ignore
});
add('bcdcfsq.', one, ([b], unit) => {
  const value = BigInt.asIntN(128, b!);
  const text = (value < 0n ? -value : value).toString();
  const number = { digits: BigInt(`0x${text.slice(-31)}`), isNegative: value < 0n };
  unit.field = (value === 0n ? 2 : value < 0n ? 8 : 4) | (text.length > 31 ? 1 : 0);
  return packedOf(unit, number);
});
fromPacked('bcdctsq.', one, (unit, b) => {
  tell(unit, b, false);
  const value = BigInt(b.digits.toString(16));
  return full(b.isNegative ? -value : value);
});
add('bcdcpsgn.', two, ([a, b], unit) => {
  const [first, second] = [signedDecimal(a!), signedDecimal(b!)];
  if (first === null || second === null) return invalid(unit);
  tell(unit, { digits: first.digits, isNegative: second.isNegative }, false);
  return (first.digits << 4n) | (b! & 15n);
});
fromPacked('bcdsetsgn.', one, (unit, b) => {
  tell(unit, b, false);
  return packedOf(unit, b);
});

/** How far to shift: to the left, or by a negative number to the right. */
const distance = (a: bigint): bigint => BigInt.asIntN(8, a >> 64n);
function shiftedDigits(digits: bigint, by: bigint, all: bigint): readonly [digits: bigint, overflows: boolean] {
  const moved = by >= 0n ? digits << (4n * by) : digits >> (-4n * by);
  return [moved & all, moved > all];
}
for (const [name, rounds] of [['bcds.', false], ['bcdsr.', true]] as const) {
  fromPacked(name, two, (unit, { digits, isNegative }, [a]) => {
    const by = distance(a!);
    let [moved, overflows] = shiftedDigits(digits, by, DIGITS);
    if (rounds && by < 0n && ((digits >> (-4n * (by + 1n))) & 15n) >= 5n) {
      const [sum] = shiftedDigits(BigInt(`0x${(BigInt(moved.toString(16)) + 1n).toString()}`), 0n, DIGITS);
      [moved, overflows] = [sum, false];
    }
    const number = { digits: moved, isNegative };
    tell(unit, number, overflows);
    return packedOf(unit, number);
  });
} // prettier-ignore
fromPacked('bcdtrunc.', two, (unit, { digits, isNegative }, [a]) => {
  const length = (a! >> 64n) & 0xffffn;
  const kept = length >= 31n ? digits : digits & ((1n << (4n * length)) - 1n);
  const number = { digits: kept, isNegative };
  tell(unit, number, kept !== digits);
  return packedOf(unit, number);
});

/** 32 digits without a sign. */
function unsigned(name: string, run: (digits: bigint, a: bigint) => readonly [digits: bigint, overflows: boolean]): void {
  add(name, two, ([a, b], unit) => {
    if (!areDigits(b!)) return invalid(unit);
    const [digits, overflows] = run(b!, a!);
    tell(unit, { digits, isNegative: false }, overflows);
    return digits;
  });
} // prettier-ignore
unsigned('bcdus.', (digits, a) => shiftedDigits(digits, distance(a), full(-1n)));
unsigned('bcdutrunc.', (digits, a) => {
  const length = (a >> 64n) & 0xffffn;
  const kept = length >= 32n ? digits : digits & ((1n << (4n * length)) - 1n);
  return [kept, kept !== digits];
});

/** Rows by mnemonic. */
export const POWER9_VECTORS: ReadonlyMap<string, VmxRow> = ROWS;
