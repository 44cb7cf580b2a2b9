/**
 * Arithmetic on numbers of binary formats, correctly rounded in every direction, with exactly the
 * exceptions of IEEE 754. Exact in the middle: operands become integers and powers of two, and one
 * function rounds (`pack`). So it is slow, some microseconds, and meant for what the processor of
 * the host does not do by itself: other directions, exceptions, special operands.
 *
 * Source: IEEE Std 754-2019, clauses 5 to 7.
 */
import { EXCEPTION, isNan, isSignalling, pack, roundMagnitude, unpack } from './format.js';
import type { Environment, Format, Result, Rounding, Unpacked } from './format.js';

/** The NaN of an operation with a NaN among its operands. */
function propagated(of: Format, env: Environment, operands: readonly bigint[], to = of): Result {
  const signals = operands.some((each) => isSignalling(of, each));
  return { bits: env.nan(to, operands, false), flags: signals ? EXCEPTION.invalid : 0 };
}

/** The NaN of an invalid operation. */
function invalid(of: Format, env: Environment, operands: readonly bigint[]): Result {
  return { bits: env.nan(of, operands, true), flags: EXCEPTION.invalid };
}

const exactly = (bits: bigint): Result => ({ bits, flags: 0 });

function infinity(of: Format, sign: 0 | 1): Result {
  return exactly(sign === 1 ? of.infinity | of.signBit : of.infinity);
}

/** The sum of two finite numbers, whose formats may be others. */
function addFinite(to: Format, env: Environment, a: Unpacked, b: Unpacked): Result {
  const exponent = Math.min(a.exponent, b.exponent);
  const scaled = ({ sign, magnitude, exponent: own }: Unpacked): bigint => {
    const value = magnitude << BigInt(own - exponent);
    return sign === 1 ? -value : value;
  };
  const sum = scaled(a) + scaled(b);
  if (sum === 0n) {
    // 6.3: a sum of two numbers of one sign keeps it, another zero is negative only downwards.
    const sign = a.sign === b.sign ? a.sign : env.rounding === 'down' ? 1 : 0;
    return pack(to, env, sign, 0n, 0);
  }
  return sum < 0n ? pack(to, env, 1, -sum, exponent) : pack(to, env, 0, sum, exponent);
}

/** a + b. */
export function add(of: Format, env: Environment, a: bigint, b: bigint): Result {
  if (isNan(of, a) || isNan(of, b)) return propagated(of, env, [a, b]);
  return sum(of, env, unpack(of, a), unpack(of, b), [a, b]);
}

function sum(of: Format, env: Environment, x: Unpacked, y: Unpacked, operands: readonly bigint[]): Result {
  if (x.kind === 'infinite') {
    if (y.kind === 'infinite' && x.sign !== y.sign) return invalid(of, env, operands);
    return infinity(of, x.sign);
  }
  if (y.kind === 'infinite') return infinity(of, y.sign);
  return addFinite(of, env, x, y);
}

/** a - b. */
export function subtract(of: Format, env: Environment, a: bigint, b: bigint): Result {
  if (isNan(of, a) || isNan(of, b)) return propagated(of, env, [a, b]);
  return sum(of, env, unpack(of, a), unpack(of, b ^ of.signBit), [a, b]);
}

const signOfProduct = (a: Unpacked, b: Unpacked): 0 | 1 => (a.sign === b.sign ? 0 : 1);

/** a * b. */
export function multiply(of: Format, env: Environment, a: bigint, b: bigint): Result {
  if (isNan(of, a) || isNan(of, b)) return propagated(of, env, [a, b]);
  const [x, y] = [unpack(of, a), unpack(of, b)];
  const sign = signOfProduct(x, y);
  if (x.kind === 'infinite' || y.kind === 'infinite') {
    const isZero = [x, y].some((each) => each.kind === 'finite' && each.magnitude === 0n);
    return isZero ? invalid(of, env, [a, b]) : infinity(of, sign);
  }
  return pack(of, env, sign, x.magnitude * y.magnitude, x.exponent + y.exponent);
}

/** a / b. */
export function divide(of: Format, env: Environment, a: bigint, b: bigint): Result {
  if (isNan(of, a) || isNan(of, b)) return propagated(of, env, [a, b]);
  const [x, y] = [unpack(of, a), unpack(of, b)];
  const sign = signOfProduct(x, y);
  if (x.kind === 'infinite') return y.kind === 'infinite' ? invalid(of, env, [a, b]) : infinity(of, sign);
  if (y.kind === 'infinite') return pack(of, env, sign, 0n, 0);
  if (y.magnitude === 0n) {
    if (x.magnitude === 0n) return invalid(of, env, [a, b]);
    return { ...infinity(of, sign), flags: EXCEPTION.divideByZero };
  }
  // Two bits more than the precision, at least, whatever the operands are.
  const more = 2 * of.fractionBits + 4;
  const dividend = x.magnitude << BigInt(more);
  const quotient = dividend / y.magnitude;
  const rest = quotient * y.magnitude !== dividend;
  return pack(of, env, sign, quotient, x.exponent - y.exponent - more, rest);
}

/** The largest integer whose square is not above `value`. */
function integerRoot(value: bigint): bigint {
  let root = BigInt(Math.floor(Math.sqrt(Number(value))));
  for (;;) {
    const next = (root + value / root) >> 1n;
    const distance = next - root;
    root = next;
    if (distance >= -1n && distance <= 1n) break;
  }
  while (root * root > value) root--;
  while ((root + 1n) * (root + 1n) <= value) root++;
  return root;
}

/** The square root of a. */
export function squareRoot(of: Format, env: Environment, a: bigint): Result {
  if (isNan(of, a)) return propagated(of, env, [a]);
  const x = unpack(of, a);
  if (x.kind === 'finite' && x.magnitude === 0n) return exactly(a);
  if (x.sign === 1) return invalid(of, env, [a]);
  if (x.kind === 'infinite') return exactly(a);
  let more = 2 * of.fractionBits + 6;
  if ((x.exponent - more) % 2 !== 0) more++;
  const scaled = x.magnitude << BigInt(more);
  const root = integerRoot(scaled);
  return pack(of, env, 0, root, (x.exponent - more) / 2, root * root !== scaled);
}

/**
 * a * b + c, rounded once. Infinity times zero is invalid where c is a NaN too; a machine that
 * says otherwise looks at the operands itself.
 */
export function multiplyAdd(of: Format, env: Environment, a: bigint, b: bigint, c: bigint): Result {
  const operands = [a, b, c];
  const isNanProduct = isNan(of, a) || isNan(of, b);
  const [x, y, z] = [unpack(of, a), unpack(of, b), unpack(of, c)];
  const sign = signOfProduct(x, y);
  if (!isNanProduct && (x.kind === 'infinite' || y.kind === 'infinite')) {
    const isZero = [x, y].some((each) => each.kind === 'finite' && each.magnitude === 0n);
    if (isZero) return invalid(of, env, operands);
  }
  if (isNanProduct || isNan(of, c)) return propagated(of, env, operands);
  const product: Unpacked =
    x.kind === 'infinite' || y.kind === 'infinite'
      ? { kind: 'infinite', sign, magnitude: 0n, exponent: 0 }
      : { kind: 'finite', sign, magnitude: x.magnitude * y.magnitude, exponent: x.exponent + y.exponent };
  return sum(of, env, product, z, operands);
}

/** How two numbers compare, and what asking raises. Source: IEEE 754-2019, 5.11. */
export interface Comparison {
  readonly relation: 'less' | 'equal' | 'greater' | 'unordered';
  readonly flags: number;
}

/** @param signals  quiet NaNs raise invalid too */
export function compare(of: Format, a: bigint, b: bigint, signals: boolean): Comparison {
  if (isNan(of, a) || isNan(of, b)) {
    const raises = signals || isSignalling(of, a) || isSignalling(of, b);
    return { relation: 'unordered', flags: raises ? EXCEPTION.invalid : 0 };
  }
  const [x, y] = [ordinal(of, a), ordinal(of, b)];
  return { relation: x < y ? 'less' : x > y ? 'greater' : 'equal', flags: 0 };
}

/** An integer that grows with the number; both zeros have 0. */
function ordinal(of: Format, bits: bigint): bigint {
  return (bits & of.signBit) === 0n ? bits : -(bits ^ of.signBit);
}

/** The classes of 5.7.2. */
export type NumberClass =
  'signalling NaN' | 'quiet NaN' | `${'negative' | 'positive'} ${'infinity' | 'normal' | 'subnormal' | 'zero'}`;

export function classify(of: Format, bits: bigint): NumberClass {
  if (isNan(of, bits)) return isSignalling(of, bits) ? 'signalling NaN' : 'quiet NaN';
  const sign = (bits & of.signBit) === 0n ? 'positive' : 'negative';
  const magnitude = bits & (of.signBit - 1n);
  if (magnitude === of.infinity) return `${sign} infinity`;
  if (magnitude === 0n) return `${sign} zero`;
  return magnitude > of.fractionMask ? `${sign} normal` : `${sign} subnormal`;
}

/** A number of one format in another. */
export function convert(from: Format, to: Format, env: Environment, a: bigint): Result {
  if (isNan(from, a)) return propagated(from, env, [a], to);
  const x = unpack(from, a);
  return x.kind === 'infinite' ? infinity(to, x.sign) : pack(to, env, x.sign, x.magnitude, x.exponent);
}

/** An integer as a number. */
export function fromInteger(to: Format, env: Environment, value: bigint): Result {
  return value < 0n ? pack(to, env, 1, -value, 0) : pack(to, env, 0, value, 0);
}

/** An integer that a number was rounded to, or why there is none. */
export type IntegerResult =
  | { readonly kind: 'integer'; readonly value: bigint; readonly flags: number }
  /** NaN, or beyond the range on the side of `sign`; what that gives is the machine's. */
  | { readonly kind: 'nan' | 'outside'; readonly sign: 0 | 1; readonly flags: number };

/** A number as an integer of so many bits; inexact where it was none. Source: 5.8. */
export function toInteger(
  of: Format,
  rounding: Rounding,
  a: bigint,
  { bits, signed }: { readonly bits: number; readonly signed: boolean },
): IntegerResult {
  const { kind, sign, magnitude, exponent } = unpack(of, a);
  if (kind !== 'finite') return { kind: kind === 'nan' ? 'nan' : 'outside', sign, flags: EXCEPTION.invalid };
  // Much larger ones are not written out.
  if (exponent > 2 * bits && magnitude !== 0n) return { kind: 'outside', sign, flags: EXCEPTION.invalid };
  const rounded = roundMagnitude(rounding, sign, magnitude, -exponent, false);
  const value = sign === 1 ? -rounded.magnitude : rounded.magnitude;
  const low = signed ? -(1n << BigInt(bits - 1)) : 0n;
  const high = (1n << BigInt(signed ? bits - 1 : bits)) - 1n;
  if (value < low || value > high) return { kind: 'outside', sign, flags: EXCEPTION.invalid };
  return { kind: 'integer', value, flags: rounded.isExact ? 0 : EXCEPTION.inexact };
}

/**
 * A number rounded to an integer of its format.
 * @param raises  whether inexact is raised (5.9)
 */
export function roundToIntegral(of: Format, env: Environment, a: bigint, raises: boolean): Result {
  if (isNan(of, a)) return propagated(of, env, [a]);
  const { kind, sign, magnitude, exponent } = unpack(of, a);
  if (kind === 'infinite' || exponent >= 0) return exactly(a);
  const rounded = roundMagnitude(env.rounding, sign, magnitude, -exponent, false);
  const { bits } = pack(of, env, sign, rounded.magnitude, 0);
  return { bits, flags: raises && !rounded.isExact ? EXCEPTION.inexact : 0 };
}

/** The smaller or larger of two numbers; -0 is below +0, and a NaN loses (9.6). */
export function extremeNumber(of: Format, env: Environment, which: 'less' | 'greater', a: bigint, b: bigint): Result {
  const flags = isSignalling(of, a) || isSignalling(of, b) ? EXCEPTION.invalid : 0;
  if (isNan(of, a)) return isNan(of, b) ? { ...propagated(of, env, [a, b]), flags } : { bits: b, flags };
  if (isNan(of, b)) return { bits: a, flags };
  const { relation } = compare(of, a, b, false);
  if (relation === 'equal') {
    const negative = (a & of.signBit) !== 0n ? a : b;
    const positive = (a & of.signBit) !== 0n ? b : a;
    return { bits: which === 'less' ? negative : positive, flags };
  }
  return { bits: relation === which ? a : b, flags };
}
