/**
 * Binary floating point formats of IEEE 754, numbers as their bits, and what an operation raises.
 * Knows no machine: the caller says how machines make NaNs and when a result counts as tiny.
 *
 * Source: IEEE Std 754-2019, clauses 3 and 7.
 */

/** A binary interchange format. Numbers are bigints below 2^(1 + exponentBits + fractionBits). */
export interface Format {
  readonly exponentBits: number;
  /** Bits of the fraction that are stored: the precision less one. */
  readonly fractionBits: number;
  /** The sign. */
  readonly signBit: bigint;
  /** All bits of the exponent, which is infinity too. */
  readonly infinity: bigint;
  /** The highest bit of the fraction: set in quiet NaNs. */
  readonly quietBit: bigint;
  readonly fractionMask: bigint;
}

/** A binary format of so many bits. */
export function format(exponentBits: number, fractionBits: number): Format {
  const fractionMask = (1n << BigInt(fractionBits)) - 1n;
  return {
    exponentBits,
    fractionBits,
    fractionMask,
    signBit: 1n << BigInt(exponentBits + fractionBits),
    infinity: ((1n << BigInt(exponentBits)) - 1n) << BigInt(fractionBits),
    quietBit: 1n << BigInt(fractionBits - 1),
  };
}

export const BINARY16 = format(5, 10);
export const BINARY32 = format(8, 23);
export const BINARY64 = format(11, 52);
/** Holds every integer of 64 bits and every product of a double with a small power of 2. */
export const BINARY128 = format(15, 112);

/** The five exceptions, as bits of `Result.flags`. Machines have them in other places. */
export const EXCEPTION = { inexact: 1, underflow: 2, overflow: 4, divideByZero: 8, invalid: 16 } as const;

/** The rounding-direction attributes. Source: IEEE 754-2019, 4.3. */
export type Rounding = 'nearest-even' | 'to-zero' | 'down' | 'up' | 'nearest-away';

/** What machines decide differently. */
export interface Environment {
  readonly rounding: Rounding;
  /** Whether a result is tiny is asked before or after it is rounded (7.5). */
  readonly tininess: 'before' | 'after';
  /** Results have at most so many significant bits, in the exponents of their format. */
  readonly precision?: number;
  /**
   * The NaN that an operation gives.
   * @param operands  all operands in order, as bits; one of them is a NaN unless `invalid`
   * @param invalid   the operation itself is invalid (inf - inf), whatever the operands are
   */
  readonly nan: (to: Format, operands: readonly bigint[], invalid: boolean) => bigint;
}

/** Bits of a number, and the exceptions that making it raised. */
export interface Result {
  readonly bits: bigint;
  readonly flags: number;
}

export function isNan({ infinity, signBit }: Format, bits: bigint): boolean {
  return (bits & (signBit - 1n)) > infinity;
}

export function isSignalling(of: Format, bits: bigint): boolean {
  return isNan(of, bits) && (bits & of.quietBit) === 0n;
}

/**
 * A NaN as a quiet one in another format. Of its payload the highest bits are kept, as machines do
 * that keep any.
 */
export function quieted(from: Format, to: Format, bits: bigint): bigint {
  const sign = (bits & from.signBit) === 0n ? 0n : to.signBit;
  const shift = BigInt(to.fractionBits - from.fractionBits);
  const payload = bits & from.fractionMask;
  return sign | to.infinity | to.quietBit | (shift >= 0n ? payload << shift : payload >> -shift);
}

/** A number taken apart: (-1)^sign * magnitude * 2^exponent; zeros have magnitude 0. */
export interface Unpacked {
  readonly kind: 'finite' | 'infinite' | 'nan';
  readonly sign: 0 | 1;
  readonly magnitude: bigint;
  readonly exponent: number;
}

/**
 * Double extended precision, as interchange formats are laid out: without the integer bit that
 * stands among its 80 bits in memory.
 */
export const EXTENDED = format(15, 63);

/** The exponent of the lowest bit of subnormal numbers. */
function lowestExponent({ exponentBits, fractionBits }: Format): number {
  return 2 - 2 ** (exponentBits - 1) - fractionBits;
}

export function unpack(of: Format, bits: bigint): Unpacked {
  const sign = (bits & of.signBit) === 0n ? 0 : 1;
  const biased = Number((bits & of.infinity) >> BigInt(of.fractionBits));
  const fraction = bits & of.fractionMask;
  if (biased === 2 ** of.exponentBits - 1) {
    return { kind: fraction === 0n ? 'infinite' : 'nan', sign, magnitude: 0n, exponent: 0 };
  }
  const exponent = lowestExponent(of) + Math.max(biased, 1) - 1;
  return { kind: 'finite', sign, exponent, magnitude: biased === 0 ? fraction : fraction | (of.fractionMask + 1n) };
}

/** Bits of a number that is not negative up to its highest 1; 0 of zero. */
export function bitLength(value: bigint): number {
  let [rest, length] = [value, 0];
  for (; rest >> 64n !== 0n; rest >>= 64n) length += 64;
  const upper = Number(rest >> 32n);
  return length + (upper === 0 ? 32 - Math.clz32(Number(rest)) : 64 - Math.clz32(upper));
}

/** True when a number whose lowest bits are cut off goes to the next larger magnitude. */
function goesUp(
  rounding: Rounding,
  sign: 0 | 1,
  isOdd: boolean,
  rest: 'none' | 'below half' | 'half' | 'above half',
): boolean {
  if (rest === 'none') return false;
  switch (rounding) {
    case 'nearest-even':
      return rest === 'above half' || (rest === 'half' && isOdd);
    case 'nearest-away':
      return rest !== 'below half';
    case 'to-zero':
      return false;
    case 'down':
      return sign === 1;
    case 'up':
      return sign === 0;
    default:
      return rounding satisfies never;
  }
}

/** A magnitude rounded to a multiple of 2^shift, in units of that, and whether it changed. */
export interface Rounded {
  readonly magnitude: bigint;
  readonly isExact: boolean;
}

/**
 * Rounds `magnitude` to a multiple of 2^shift.
 * @param more  there is something not 0 below the lowest bit of `magnitude`, which has then at
 *              least two bits to lose
 */
export function roundMagnitude(
  rounding: Rounding,
  sign: 0 | 1,
  magnitude: bigint,
  shift: number,
  more: boolean,
): Rounded {
  if (shift <= 0) return { magnitude: magnitude << BigInt(-shift), isExact: !more };
  const kept = magnitude >> BigInt(shift);
  const low = magnitude - (kept << BigInt(shift));
  const half = 1n << BigInt(shift - 1);
  const isHalf = low === half && !more;
  const rest = low === 0n && !more ? 'none' : isHalf ? 'half' : low >= half ? 'above half' : 'below half';
  const up = goesUp(rounding, sign, (kept & 1n) === 1n, rest);
  return { magnitude: up ? kept + 1n : kept, isExact: rest === 'none' };
}

function overflowed(to: Format, rounding: Rounding, sign: 0 | 1): Result {
  const inward = rounding === 'to-zero' || rounding === (sign === 0 ? 'down' : 'up');
  const magnitude = inward ? to.infinity - 1n : to.infinity;
  return { bits: sign === 1 ? magnitude | to.signBit : magnitude, flags: EXCEPTION.overflow | EXCEPTION.inexact };
}

/**
 * The number of the format that (-1)^sign * magnitude * 2^exponent is rounded to. A magnitude of 0
 * gives a zero of that sign.
 * @param more  as of `roundMagnitude`
 */
export function pack(
  to: Format,
  env: Pick<Environment, 'rounding' | 'tininess' | 'precision'>,
  sign: 0 | 1,
  magnitude: bigint,
  exponent: number,
  more = false,
): Result {
  const { rounding, tininess, precision: asked } = env;
  if (asked !== undefined && asked <= to.fractionBits) {
    const narrow = format(to.exponentBits, asked - 1);
    const { bits, flags } = pack(narrow, { rounding, tininess }, sign, magnitude, exponent, more);
    return { bits: bits << BigInt(to.fractionBits - narrow.fractionBits), flags };
  }
  const signBits = sign === 1 ? to.signBit : 0n;
  if (magnitude === 0n) return { bits: signBits, flags: 0 };
  const precision = to.fractionBits + 1;
  const lowest = lowestExponent(to);
  // The exponent of the lowest bit when there is no lower bound to it.
  const free = exponent + bitLength(magnitude) - precision;
  const last = Math.max(free, lowest);
  const { magnitude: rounded, isExact } = roundMagnitude(rounding, sign, magnitude, last - exponent, more);
  if (free < lowest || rounded === 0n) {
    let flags = 0;
    if (!isExact) {
      // Rounded as if exponents had no bound it may reach the smallest normal number.
      const isTiny =
        tininess === 'before' ||
        free < lowest - 1 ||
        roundMagnitude(rounding, sign, magnitude, free - exponent, more).magnitude >> BigInt(precision) === 0n;
      flags = EXCEPTION.inexact | (isTiny ? EXCEPTION.underflow : 0);
    }
    // A carry into the exponent makes the smallest normal number.
    return { bits: signBits | rounded, flags };
  }
  const carried = rounded >> BigInt(precision) !== 0n;
  const biased = last - lowest + 1 + (carried ? 1 : 0);
  if (biased >= 2 ** to.exponentBits - 1) return overflowed(to, rounding, sign);
  const bits = (BigInt(biased) << BigInt(to.fractionBits)) | (carried ? 0n : rounded & to.fractionMask);
  return { bits: signBits | bits, flags: isExact ? 0 : EXCEPTION.inexact };
}
