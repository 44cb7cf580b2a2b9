/**
 * The arithmetic of `src/float` against the processor: to nearest, operations of doubles are those
 * of JavaScript, and those of singles are them rounded: for sums, products, quotients and roots
 * that is exact (Figueroa, When is double rounding innocuous?, 1995). Other directions are told by
 * exact fractions.
 */
import { describe, expect, test } from '@jest/globals';
import {
  add, BINARY32, BINARY64, convert, divide, EXCEPTION, fromInteger, multiply, multiplyAdd, roundToIntegral, squareRoot, subtract,
  toInteger,
} from '../src/float/index.js'; // prettier-ignore
import type { Environment, Format, Result, Rounding } from '../src/float/index.js';
import { times } from './support/long.js';
import { Random } from './support/random.js';

const view = new DataView(new ArrayBuffer(8));
function bitsOf(of: Format, value: number): bigint {
  if (of === BINARY64) {
    view.setFloat64(0, value);
    return view.getBigUint64(0);
  }
  view.setFloat32(0, value);
  return BigInt(view.getUint32(0));
}
function numberOf(of: Format, bits: bigint): number {
  if (of === BINARY64) {
    view.setBigUint64(0, bits);
    return view.getFloat64(0);
  }
  view.setUint32(0, Number(bits));
  return view.getFloat32(0);
}

const canonical = ({ infinity, quietBit }: Format): bigint => infinity | quietBit;
const env = (rounding: Rounding, tininess: 'before' | 'after' = 'after'): Environment => ({
  rounding,
  tininess,
  nan: canonical,
});
const NEAREST = env('nearest-even');
const DIRECTIONS: readonly Rounding[] = ['nearest-even', 'to-zero', 'down', 'up', 'nearest-away'];

const random = new Random();
/** Bits of any number; exponents near each other in two of three. */
function operand(of: Format): bigint {
  const bits = of === BINARY64 ? 64 : 32;
  const any = BigInt.asUintN(bits, random.wide());
  const kind = random.below(12);
  if (kind === 0)
    return [0n, 1n, of.infinity, of.infinity | 1n, of.infinity | of.quietBit, of.infinity - 1n][random.below(6)]!;
  if (kind < 4) return any;
  const bias = (of.infinity >> BigInt(of.fractionBits)) >> 1n;
  const exponent = (bias + BigInt(random.below(40)) - 20n) << BigInt(of.fractionBits);
  const cut = BigInt(kind < 7 ? of.fractionBits - 4 : 0);
  return (any & (of.signBit | of.fractionMask & (-1n << cut))) | exponent; // prettier-ignore
}

/** Numbers of which each is added, multiplied and both, in each direction. */
const RUNS = times(3000, 1000);

const BINARY_OPERATIONS = [
  ['add', add, (a: number, b: number) => a + b],
  ['subtract', subtract, (a: number, b: number) => a - b],
  ['multiply', multiply, (a: number, b: number) => a * b],
  ['divide', divide, (a: number, b: number) => a / b],
] as const;

describe.each([
  ['binary32', BINARY32],
  ['binary64', BINARY64],
] as const)('%s', (_name, of) => {
  const same = (bits: bigint, wanted: number): boolean =>
    Number.isNaN(wanted) ? bits === canonical(of) : bits === bitsOf(of, wanted);

  test.each(BINARY_OPERATIONS)('%s to nearest is what the processor gives', (_operation, ours, theirs) => {
    const wrong: string[] = [];
    for (let i = 0; i < 4000; i++) {
      const [a, b] = [operand(of), operand(of)];
      const { bits } = ours(of, NEAREST, a, b);
      if (!same(bits, theirs(numberOf(of, a), numberOf(of, b)))) wrong.push(`${a.toString(16)} ${b.toString(16)}`);
    }
    expect(wrong).toEqual([]);
  });

  test('square roots to nearest are what the processor gives', () => {
    for (let i = 0; i < 4000; i++) {
      const a = operand(of);
      expect(same(squareRoot(of, NEAREST, a).bits, Math.sqrt(numberOf(of, a)))).toBe(true);
    }
  });

  /** A finite number as a fraction of 2^1200. */
  const scaled = (bits: bigint): bigint => {
    const biased = (bits & of.infinity) >> BigInt(of.fractionBits);
    const magnitude = (bits & of.fractionMask) | (biased === 0n ? 0n : of.fractionMask + 1n);
    const lowest = of === BINARY64 ? 1074n : 149n;
    const value = magnitude << (1200n - lowest + (biased === 0n ? 0n : biased - 1n));
    return (bits & of.signBit) === 0n ? value : -value;
  };
  const isFinite = (bits: bigint): boolean => (bits & of.infinity) !== of.infinity;

  test.each(DIRECTIONS)('sums, products and fused ones %s are the neighbour on the right side', (rounding) => {
    let inexact = 0;
    for (let i = 0; i < RUNS; i++) {
      const [a, b, c] = [operand(of), operand(of), operand(of)];
      if (![a, b, c].every(isFinite)) continue;
      const exact: readonly (readonly [Result, bigint])[] = [
        [add(of, env(rounding), a, b), (scaled(a) + scaled(b)) << 1200n],
        [multiply(of, env(rounding), a, b), scaled(a) * scaled(b)],
        [multiplyAdd(of, env(rounding), a, b, c), scaled(a) * scaled(b) + (scaled(c) << 1200n)],
      ];
      for (const [{ bits, flags }, value] of exact) {
        if (!isFinite(bits)) continue;
        const got = scaled(bits) << 1200n;
        expect((flags & EXCEPTION.inexact) !== 0).toBe(got !== value);
        if (got === value || (flags & EXCEPTION.overflow) !== 0) continue;
        inexact++;
        // The neighbour on the other side of the exact value.
        const isBelow = got < value;
        const grows = isBelow === got > 0n || (got === 0n && isBelow);
        const step = scaled(grows || got === 0n ? 1n : 0n);
        const towards = got === 0n ? (isBelow ? step : -step) << 1200n : scaled(grows ? bits + 1n : bits - 1n) << 1200n;
        const own = isBelow ? value - got : got - value;
        const other = isBelow ? towards - value : value - towards;
        if (isFinite(grows ? bits + 1n : bits)) expect(other > 0n).toBe(true);
        if (rounding === 'down') expect(isBelow).toBe(true);
        if (rounding === 'up') expect(isBelow).toBe(false);
        if (rounding === 'to-zero') expect(isBelow).toBe(value > 0n);
        if (rounding.startsWith('nearest') && isFinite(bits + 1n)) expect(own <= other).toBe(true);
        if (own === other && rounding === 'nearest-even') expect(bits & 1n).toBe(0n);
        if (own === other && rounding === 'nearest-away') expect(isBelow).toBe(value < 0n);
      }
    }
    expect(inexact).toBeGreaterThan(RUNS / 3);
  });

  test('integers go there and back', () => {
    for (let i = 0; i < 2000; i++) {
      const value = BigInt.asIntN(64, random.wide()) >> BigInt(random.below(60));
      const { bits, flags } = fromInteger(of, NEAREST, value);
      expect(numberOf(of, bits)).toBe(
        of === BINARY64 ? Number(value) : Math.fround(Number(value)) === numberOf(of, bits) ? numberOf(of, bits) : NaN,
      );
      if (flags === 0)
        expect(toInteger(of, 'to-zero', bits, { bits: 64, signed: true })).toEqual({
          kind: 'integer',
          value,
          flags: 0,
        });
      const a = operand(of);
      const whole = roundToIntegral(of, env('to-zero'), a, false).bits;
      expect(same(whole, Math.trunc(numberOf(of, a)))).toBe(true);
    }
  });
});

test('narrowing is what the processor gives, widening is exact', () => {
  for (let i = 0; i < 4000; i++) {
    const a = operand(BINARY64);
    const { bits } = convert(BINARY64, BINARY32, NEAREST, a);
    const wanted = Math.fround(numberOf(BINARY64, a));
    expect(bits).toBe(Number.isNaN(wanted) ? canonical(BINARY32) : bitsOf(BINARY32, wanted));
    const b = operand(BINARY32);
    const wide = convert(BINARY32, BINARY64, NEAREST, b);
    if (!Number.isNaN(numberOf(BINARY32, b)))
      expect(wide).toEqual({ bits: bitsOf(BINARY64, numberOf(BINARY32, b)), flags: 0 });
  }
});

test('tininess is asked before or after rounding', () => {
  // (1 - 2^-53) * 2^-1022: rounded to 53 bits it is tiny, and becomes the smallest normal number.
  const [almost, half] = [0x3fef_ffff_ffff_ffffn, 0x0010_0000_0000_0000n];
  const { underflow, inexact } = EXCEPTION;
  expect(multiply(BINARY64, env('nearest-even', 'before'), almost, half)).toEqual({
    bits: half,
    flags: underflow | inexact,
  });
  expect(multiply(BINARY64, env('nearest-even', 'after'), almost, half)).toEqual({
    bits: half,
    flags: underflow | inexact,
  });
  // (1 - 2^-54) made by a fused operation reaches the normal number with 53 bits already.
  const third = multiplyAdd(BINARY64, env('nearest-even', 'after'), half, 0x3ff0_0000_0000_0000n, 0n);
  expect(third).toEqual({ bits: half, flags: 0 });
  const [a, b] = [0x2000_0000_0000_0001n, 0x1fff_ffff_ffff_fffen];
  expect(multiply(BINARY64, env('nearest-even', 'before'), a, b).flags).toBe(underflow | inexact);
  expect(multiply(BINARY64, env('nearest-even', 'after'), a, b)).toEqual({ bits: half, flags: inexact });
});
