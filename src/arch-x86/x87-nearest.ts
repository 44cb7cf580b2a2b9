/**
 * Sums, products and quotients of normal numbers of x87, to nearest, with all 64 bits of precision,
 * where compiled code leaves them to a call: where an exception is not masked. What has another
 * operand or result is left to `src/float`, which knows every case and takes three times as long.
 *
 * Source: IEEE Std 754-2019, 4.3.1; Intel SDM volume 1, 4.8.4 and 8.1.5.
 */

import { bitLength } from '../float/index.js';

/** A number other than zero: (-1)^sign * magnitude * 2^exponent. */
interface Normal {
  readonly isNegative: boolean;
  /** Of 64 bits, the highest of which is 1. */
  readonly magnitude: bigint;
  readonly exponent: number;
}

/** Bits of the format without the integer bit, and how far its exponents are moved. */
const FRACTION_BITS = 63n;
const BIAS = 16383 + 63;
const LARGEST = 0x7ffe;
const INTEGER_BIT = 1n << FRACTION_BITS;
const SIGN = 1n << 78n;

/** A number in the format; null where it is not normal. */
function normalOf(bits: bigint): Normal | null {
  const biased = Number((bits >> FRACTION_BITS) & 0x7fffn);
  if (biased === 0 || biased > LARGEST) return null;
  const magnitude = (bits & (INTEGER_BIT - 1n)) | INTEGER_BIT;
  return { isNegative: (bits & SIGN) !== 0n, magnitude, exponent: biased - BIAS };
}

export interface NearestResult {
  /** In the format without the integer bit. */
  readonly bits: bigint;
  readonly isExact: boolean;
  /** The magnitude was rounded up. */
  readonly up: boolean;
}

/**
 * Rounds to 64 bits; null where the exponent has no room.
 * @param more  there is something not 0 below the lowest bit of `magnitude`, which has 66 at least
 */
function rounded(isNegative: boolean, magnitude: bigint, exponent: number, more: boolean): NearestResult | null {
  const shift = bitLength(magnitude) - 64;
  let kept = shift > 0 ? magnitude >> BigInt(shift) : magnitude << BigInt(-shift);
  const rest = shift > 0 ? magnitude - (kept << BigInt(shift)) : 0n;
  const half = shift > 0 ? 1n << BigInt(shift - 1) : 1n;
  const up = rest > half || (rest === half && (more || (kept & 1n) === 1n));
  let last = exponent + shift;
  if (up && ++kept >> 64n !== 0n) {
    kept >>= 1n;
    last++;
  }
  const biased = last + BIAS;
  if (biased <= 0 || biased > LARGEST) return null;
  const bits = (isNegative ? SIGN : 0n) | (BigInt(biased) << FRACTION_BITS) | (kept & (INTEGER_BIT - 1n));
  return { bits, isExact: rest === 0n && !more, up };
}

/** a + b; null also where nothing is left, or one is far below the other. */
function sum(a: Normal, b: Normal): NearestResult | null {
  const distance = a.exponent - b.exponent;
  if (distance < 0) return sum(b, a);
  if (distance > 128) return null;
  const [first, second] = [a.magnitude << BigInt(distance), b.magnitude];
  const total = a.isNegative === b.isNegative ? first + second : first - second;
  if (total === 0n) return null;
  const isOther = total < 0n;
  return rounded(a.isNegative !== isOther, isOther ? -total : total, b.exponent, false);
}

function product(a: Normal, b: Normal): NearestResult | null {
  return rounded(a.isNegative !== b.isNegative, a.magnitude * b.magnitude, a.exponent + b.exponent, false);
}

/** Bits of a quotient: two more than are kept, at least. */
const QUOTIENT_SHIFT = 66;

function quotient(a: Normal, b: Normal): NearestResult | null {
  const dividend = a.magnitude << BigInt(QUOTIENT_SHIFT);
  const whole = dividend / b.magnitude;
  const more = whole * b.magnitude !== dividend;
  return rounded(a.isNegative !== b.isNegative, whole, a.exponent - b.exponent - QUOTIENT_SHIFT, more);
}

const negated = (a: Normal): Normal => ({ ...a, isNegative: !a.isNegative });

/** By the reg field of an instruction. */
const OPERATIONS: Readonly<Record<number, (a: Normal, b: Normal) => NearestResult | null>> = {
  0: sum,
  1: product,
  4: (a, b) => sum(a, negated(b)),
  5: (a, b) => sum(negated(a), b),
  6: quotient,
  7: (a, b) => quotient(b, a),
};

/**
 * An operation on two numbers in the format without the integer bit; null where it is left to
 * others.
 * @param which  its reg field: 0 adds, 1 multiplies, 4 and 5 subtract, 6 and 7 divide
 */
export function nearest(which: number, first: bigint, second: bigint): NearestResult | null {
  const [a, b] = [normalOf(first), normalOf(second)];
  return a && b ? OPERATIONS[which]!(a, b) : null;
}
