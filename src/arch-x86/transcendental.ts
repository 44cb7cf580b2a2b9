/**
 * The transcendental functions of x87 on finite numbers: computed with some 200 bits and rounded
 * once, in the direction of the control word. Processors are allowed an error of one in the last
 * place, and use it in different ways, so that results differ from theirs in the last bit of a few
 * in a hundred. As there, angles are reduced by pi of 66 bits.
 *
 * Numbers are integers here, with a count of bits behind the point. Special operands are the
 * caller's.
 *
 * Source: Intel SDM volume 1, 8.3.8 and 8.3.10; series of Abramowitz and Stegun, 4.
 */
import { bitLength } from '../float/index.js';
import type { Unpacked } from '../float/index.js';

/** A finite number, exact or with a rest behind its last bit. */
export interface Computed {
  readonly sign: 0 | 1;
  readonly magnitude: bigint;
  readonly exponent: number;
  readonly more: boolean;
}

type Finite = Pick<Unpacked, 'sign' | 'magnitude' | 'exponent'>;

/** Significant bits of what is computed. */
const PRECISION = 200;
/** Pi cut to 66 bits, of which 64 are behind the point. */
const PI66 = 0x3_243f_6a88_85a3_08d3n;
const PI66_BITS = 64;

/** The place of the highest bit: 0 for numbers from 1 to 2. */
const leading = ({ magnitude, exponent }: Finite): number => exponent + bitLength(magnitude) - 1;
const shift = (value: bigint, by: number): bigint => (by >= 0 ? value << BigInt(by) : value >> BigInt(-by));
const magnitudeOf = (value: bigint): bigint => (value < 0n ? -value : value);

/** A number with so many bits behind the point. */
const fixed = ({ sign, magnitude, exponent }: Finite, bits: number): bigint => {
  const value = shift(magnitude, exponent + bits);
  return sign === 1 ? -value : value;
};

/** What a computation came to; the rest behind it is not 0. */
const computed = (value: bigint, bits: number): Computed => ({
  sign: value < 0n ? 1 : 0,
  magnitude: magnitudeOf(value),
  exponent: -bits,
  more: true,
});

const exactly = (value: Finite): Computed => ({ ...value, more: false });

/**
 * Sums a power series: `next` gives a term from the one before and its number.
 * @param first  the first term
 */
function series(first: bigint, next: (term: bigint, n: bigint) => bigint): bigint {
  let sum = 0n;
  let term = first;
  for (let n = 1n; term !== 0n && term !== -1n; n++) {
    sum += term;
    term = next(term, n);
  }
  return sum;
}

/** What is next to a number that is no result itself, on the side of 0. */
const inward = (value: bigint): bigint => (value < 0n ? value + 1n : value - 1n);

/** Sine and cosine of a small angle. */
function sineAndCosine(x: bigint, bits: number): { readonly sine: bigint; readonly cosine: bigint } {
  const scale = BigInt(bits);
  const square = (x * x) >> scale;
  const sine = series(x, (term, n) => -((term * square) >> scale) / (2n * n * (2n * n + 1n)));
  const cosine = series(1n << scale, (term, n) => -((term * square) >> scale) / ((2n * n - 1n) * (2n * n)));
  // Of tiny angles there is no second term here, but there is one.
  if (x === 0n) return { sine, cosine };
  return { sine: sine === x ? inward(x) : sine, cosine: cosine === 1n << scale ? inward(cosine) : cosine };
}

/** Sine, cosine and tangent of an angle below 2^63. */
export function trigonometric(x: Finite): {
  readonly sine: Computed;
  readonly cosine: Computed;
  readonly tangent: Computed;
} {
  const bits = PRECISION + 64 + Math.max(0, -leading(x));
  const angle = fixed(x, bits);
  const half = shift(PI66, bits - PI66_BITS - 1);
  // The nearest multiple of pi / 2.
  const turns = (2n * angle + (angle < 0n ? -half : half)) / (2n * half);
  const { sine, cosine } = sineAndCosine(angle - turns * half, bits);
  const quadrant = Number(BigInt.asUintN(2, turns));
  const [s, c] = ([[sine, cosine], [cosine, -sine], [-sine, -cosine], [-cosine, sine]] as const)[quadrant]!; // prettier-ignore
  return {
    sine: computed(s, bits),
    cosine: computed(c, bits),
    // Beyond tiny angles, whose sines are below them.
    tangent: c === 0n ? computed(1n, 0) : computed(s === inward(angle) ? angle : (s << BigInt(bits)) / c, bits),
  };
}

/** The arc tangent of a number from 0 to 1: from a double near it the rest is found by series. */
function arcTangent(x: bigint, bits: number): bigint {
  const scale = BigInt(bits);
  const double = Number(shift(x, 60 - bits)) / 2 ** 60;
  const near = Math.atan(double);
  const start = shift(BigInt(Math.round(near * 2 ** 60)), bits - 60);
  const { sine, cosine } = sineAndCosine(start, bits);
  const rest = ((((x * cosine) >> scale) - sine) << scale) / (cosine + ((x * sine) >> scale));
  const square = (rest * rest) >> scale;
  let power = rest;
  let sum = 0n;
  for (let n = 1n; power !== 0n && power !== -1n; n += 2n) {
    sum += power / n;
    power = -((power * square) >> scale);
  }
  const angle = start + sum;
  return angle === x && x !== 0n ? inward(x) : angle;
}

/** Pi, by four times the arc tangent of 1. */
const pi = (bits: number): bigint => 4n * arcTangent(1n << BigInt(bits), bits);

/** A multiple of pi / 4: of infinities and zeros. */
export function quarterTurns(count: number, sign: 0 | 1): Computed {
  return { ...computed((BigInt(count) * pi(PRECISION)) >> 2n, PRECISION), sign };
}

/** The angle of the point (x, y), neither of which is 0. */
export function angleOf(y: Finite, x: Finite): Computed {
  const distance = leading(y) - leading(x);
  // Of a large quotient, or beside pi, the small part does not have to be exact.
  const small = x.sign === 1 || distance >= 0 ? 0 : -distance;
  const bits = PRECISION + small;
  const isSteep = distance > 0;
  const [over, under] = isSteep ? [x, y] : [y, x];
  const away = over.exponent - under.exponent + bits;
  // A quotient that has no bit of these is next to nothing.
  const quotient =
    away < -20_000 ? 0n : away >= 0 ? (over.magnitude << BigInt(away)) / under.magnitude : over.magnitude / (under.magnitude << BigInt(-away)); // prettier-ignore
  const one = 1n << BigInt(bits);
  // Beyond 1 where the highest bits are at one place.
  const acute = quotient <= one ? arcTangent(quotient, bits) : (pi(bits) >> 1n) - arcTangent((one * one) / quotient, bits); // prettier-ignore
  let angle = isSteep ? (pi(bits) >> 1n) - acute : acute;
  if (x.sign === 1) angle = pi(bits) - angle;
  return { ...computed(angle, bits), sign: y.sign };
}

/** The natural logarithm of (1 + z) / (1 - z). */
function logarithmOfRatio(z: bigint, bits: number): bigint {
  const scale = BigInt(bits);
  const square = (z * z) >> scale;
  let power = z;
  let sum = 0n;
  for (let n = 1n; power !== 0n && power !== -1n; n += 2n) {
    sum += power / n;
    power = (power * square) >> scale;
  }
  return 2n * sum;
}

const logarithms = new Map<number, bigint>();
function logarithmOfTwo(bits: number): bigint {
  const known = logarithms.get(bits) ?? logarithmOfRatio((1n << BigInt(bits)) / 3n, bits);
  logarithms.set(bits, known);
  return known;
}

/** Of numbers below 2^-TINY the second term of a series is far behind what is computed. */
const TINY = 120;

function times(y: Finite, logarithm: bigint, bits: number): Computed {
  const product = computed((y.sign === 1 ? -logarithm : logarithm) * y.magnitude, bits);
  return { ...product, exponent: y.exponent - bits };
}

/** y times the binary logarithm of x, which is positive and not 1. */
export function timesLogarithm(y: Finite, x: Finite): Computed {
  const power = leading(x);
  if (bitLength(x.magnitude) === 1 || (x.magnitude & (x.magnitude - 1n)) === 0n) {
    const sign = power < 0 === (y.sign === 0) ? 1 : 0;
    return exactly({ sign, magnitude: y.magnitude * BigInt(Math.abs(power)), exponent: y.exponent });
  }
  const bits = PRECISION + 80;
  const one = 1n << BigInt(bits);
  let mantissa = fixed({ ...x, sign: 0, exponent: x.exponent - power }, bits);
  let exponent = power;
  // Near 1, so that nothing cancels.
  if (2n * mantissa > 3n * one) [mantissa, exponent] = [mantissa >> 1n, exponent + 1];
  const natural = logarithmOfRatio(((mantissa - one) << BigInt(bits)) / (mantissa + one), bits);
  const logarithm = (BigInt(exponent) << BigInt(bits)) + (natural << BigInt(bits)) / logarithmOfTwo(bits);
  return times(y, logarithm, bits);
}

/** y times the binary logarithm of 1 + x, which is positive; x is not 0. */
export function timesLogarithmOfMore(y: Finite, x: Finite): Computed {
  const place = leading(x);
  if (place > -2) {
    // The sum is a number of some more bits.
    const exponent = Math.min(0, x.exponent);
    const sum = (1n << BigInt(-exponent)) + fixed(x, -exponent);
    return timesLogarithm(y, { sign: 0, magnitude: sum, exponent });
  }
  if (place < -TINY) {
    const magnitude = (y.magnitude * x.magnitude * (1n << BigInt(2 * PRECISION))) / logarithmOfTwo(PRECISION);
    return { sign: x.sign === y.sign ? 0 : 1, magnitude, exponent: x.exponent + y.exponent - PRECISION, more: true };
  }
  const bits = PRECISION - place;
  const value = fixed(x, bits);
  const natural = logarithmOfRatio((value << BigInt(bits)) / ((2n << BigInt(bits)) + value), bits);
  return times(y, (natural << BigInt(bits)) / logarithmOfTwo(bits), bits);
}

/** 2^x - 1, for x between -1 and 1. */
export function powerLessOne(x: Finite): Computed {
  const place = leading(x);
  // -1 or 1.
  if (place >= 0) return exactly({ sign: x.sign, magnitude: 1n, exponent: x.sign === 1 ? -1 : 0 });
  if (place < -TINY) {
    const magnitude = x.magnitude * logarithmOfTwo(PRECISION);
    return { sign: x.sign, magnitude, exponent: x.exponent - PRECISION, more: true };
  }
  const bits = PRECISION - place;
  const scale = BigInt(bits);
  const natural = (fixed(x, bits) * logarithmOfTwo(bits)) >> scale;
  return computed(
    series(natural, (term, n) => ((term * natural) >> scale) / (n + 1n)),
    bits,
  );
}
