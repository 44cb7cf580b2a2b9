/**
 * Floating point of A64 on numbers: exact in every rounding mode, with the flags of FPSR, with
 * subnormal numbers flushed to zeros (FZ) and the default NaN (DN). What instructions do with it is
 * in `float-instructions.ts`.
 *
 * - Of several NaNs the first signalling one comes out, made quiet, else the first quiet one; the
 *   addend of a fused operation is the first.
 * - Whether a result is tiny is asked before rounding. FZ makes a tiny result a zero, which raises
 *   underflow alone, and a subnormal operand a zero, which raises IDC. Halves have a bit of their
 *   own, FZ16, which raises no IDC and does not bear on conversions from and to other formats.
 * - Conversions to integers saturate; NaN gives 0.
 *
 * Source: Arm Architecture Reference Manual for A-profile, J1.2 (shared/functions/float).
 */
import {
  add,
  BINARY128,
  BINARY16,
  BINARY32,
  BINARY64,
  classify,
  compare,
  convert,
  divide,
  EXCEPTION,
  extremeNumber,
  fromInteger,
  multiply,
  multiplyAdd,
  roundToIntegral,
  squareRoot,
  subtract,
  toInteger,
} from '../float/index.js';
import type { Comparison, Environment, Format, Result, Rounding } from '../float/index.js';

/** Bits of FPCR. */
const FPCR = { alternative: 1 << 26, defaultNan: 1 << 25, flush: 1 << 24, flushHalves: 1 << 19 } as const;
/** The field RMode, by number. */
const MODES: readonly Rounding[] = ['nearest-even', 'up', 'down', 'to-zero'];

/** Bits of FPSR. */
const FPSR = { invalid: 1, divideByZero: 2, overflow: 4, underflow: 8, inexact: 16, denormal: 128 } as const;

/** Rounding of an instruction that has one of its own; null: that of FPCR. */
export type OwnRounding = Rounding | null;

const isNan = (of: Format, bits: bigint): boolean => classify(of, bits).endsWith('NaN');
const isSignalling = (of: Format, bits: bigint): boolean => classify(of, bits) === 'signalling NaN';
const isSubnormal = (of: Format, bits: bigint): boolean => classify(of, bits).endsWith('subnormal');
const isInfinite = (of: Format, bits: bigint): boolean => classify(of, bits).endsWith('infinity');
const isZero = (of: Format, bits: bigint): boolean => classify(of, bits).endsWith('zero');
const signOf = (of: Format, bits: bigint): bigint => bits & of.signBit;
export const magnitudeOf = (of: Format, bits: bigint): bigint => bits & (of.signBit - 1n);
const exponentOf = (of: Format, bits: bigint): number => Number(magnitudeOf(of, bits) >> BigInt(of.fractionBits));
const largestExponent = (of: Format): number => 2 ** of.exponentBits - 1;
const defaultNan = ({ infinity, quietBit }: Format): bigint => infinity | quietBit;
const largest = ({ infinity }: Format): bigint => infinity - 1n;

/** 2^exponent in the format of 128 bits. */
const power = (exponent: number): bigint => BigInt(exponent + 0x3fff) << BigInt(BINARY128.fractionBits);

function flagsOf(flags: number): number {
  return (
    ((flags & EXCEPTION.invalid) !== 0 ? FPSR.invalid : 0) |
    ((flags & EXCEPTION.divideByZero) !== 0 ? FPSR.divideByZero : 0) |
    ((flags & EXCEPTION.overflow) !== 0 ? FPSR.overflow : 0) |
    ((flags & EXCEPTION.underflow) !== 0 ? FPSR.underflow : 0) |
    ((flags & EXCEPTION.inexact) !== 0 ? FPSR.inexact : 0)
  );
}

/** A magnitude's reciprocal, in steps of 1/256: of 256 to 511. Source: RecipEstimate. */
function reciprocalEstimate(scaled: number): number {
  return (Math.floor(2 ** 19 / (2 * scaled + 1)) + 1) >> 1;
}

/** That of a square root: of 128 to 511. Source: RecipSqrtEstimate. */
function rootEstimate(scaled: number): number {
  const a = scaled < 256 ? 2 * scaled + 1 : 2 * ((scaled & ~1) + 1);
  let b = 512;
  while (a * (b + 1) * (b + 1) < 2 ** 28) b++;
  return (b + 1) >> 1;
}

/** URECPE: of an unsigned number between 0.5 and 1, in units of 2^-32. */
export const reciprocalOfInteger = (value: number): number =>
  value < 2 ** 31 ? 2 ** 32 - 1 : reciprocalEstimate(value >>> 23) * 2 ** 23;

/** URSQRTE: of one between 0.25 and 1. */
export const rootOfInteger = (value: number): number =>
  value < 2 ** 30 ? 2 ** 32 - 1 : rootEstimate(value >>> 23) * 2 ** 23;

/** Arithmetic under one value of FPCR; `flags` collects those of FPSR. */
export class ArmFloat {
  flags = 0;

  constructor(private readonly fpcr: number) {}

  private get rounding(): Rounding {
    return MODES[(this.fpcr >> 22) & 3]!;
  }

  private flushes(of: Format): boolean {
    return (this.fpcr & (of === BINARY16 ? FPCR.flushHalves : FPCR.flush)) !== 0;
  }

  /** The NaN that `operands`, in this order, give; without one, or where DN is set, the default. */
  private nan(from: Format, to: Format, operands: readonly bigint[]): bigint {
    const found =
      operands.find((each) => isSignalling(from, each)) ?? operands.find((each) => isNan(from, each)) ?? null;
    if (found === null || (this.fpcr & FPCR.defaultNan) !== 0) return defaultNan(to);
    const shift = BigInt(to.fractionBits - from.fractionBits);
    const payload = found & from.fractionMask;
    const sign = signOf(from, found) === 0n ? 0n : to.signBit;
    return sign | to.infinity | to.quietBit | (shift >= 0n ? payload << shift : payload >> -shift);
  }

  private environment(from: Format, rounding: OwnRounding = null): Environment {
    return {
      rounding: rounding ?? this.rounding,
      tininess: 'before',
      nan: (to, operands, invalid) => this.nan(from, to, invalid ? [] : operands),
    };
  }

  /** An operand, as a zero where it is subnormal and to be flushed. */
  private operand(of: Format, bits: bigint): bigint {
    if (!this.flushes(of) || !isSubnormal(of, bits)) return bits;
    if (of !== BINARY16) this.flags |= FPSR.denormal;
    return signOf(of, bits);
  }

  private finish(of: Format, { bits, flags }: Result, flushes = this.flushes(of)): bigint {
    const isTiny = isSubnormal(of, bits) || (flags & EXCEPTION.underflow) !== 0;
    if (flushes && isTiny) {
      this.flags |= FPSR.underflow;
      return signOf(of, bits);
    }
    this.flags |= flagsOf(flags);
    return bits;
  }

  /** The NaN of operands among which there is one. */
  private propagate(of: Format, operands: readonly bigint[]): bigint {
    if (operands.some((each) => isSignalling(of, each))) this.flags |= FPSR.invalid;
    return this.nan(of, of, operands);
  }

  private two(
    compute: (of: Format, env: Environment, a: bigint, b: bigint) => Result,
    of: Format,
    a: bigint,
    b: bigint,
  ): bigint {
    const [x, y] = [this.operand(of, a), this.operand(of, b)];
    return this.finish(of, compute(of, this.environment(of), x, y));
  }

  add(of: Format, a: bigint, b: bigint): bigint {
    return this.two(add, of, a, b);
  }

  subtract(of: Format, a: bigint, b: bigint): bigint {
    return this.two(subtract, of, a, b);
  }

  multiply(of: Format, a: bigint, b: bigint): bigint {
    return this.two(multiply, of, a, b);
  }

  divide(of: Format, a: bigint, b: bigint): bigint {
    return this.two(divide, of, a, b);
  }

  /** FMULX: as `multiply`, but infinity times zero is 2. */
  multiplyExtended(of: Format, a: bigint, b: bigint): bigint {
    const [x, y] = [this.operand(of, a), this.operand(of, b)];
    if ((isInfinite(of, x) && isZero(of, y)) || (isZero(of, x) && isInfinite(of, y))) {
      return this.constant(of, 2) | (signOf(of, x) ^ signOf(of, y));
    }
    return this.multiply(of, x, y);
  }

  squareRoot(of: Format, a: bigint): bigint {
    return this.finish(of, squareRoot(of, this.environment(of), this.operand(of, a)));
  }

  /** addend + a * b, rounded once. */
  multiplyAdd(of: Format, addend: bigint, a: bigint, b: bigint): bigint {
    const [x, y, z] = [this.operand(of, a), this.operand(of, b), this.operand(of, addend)];
    const env: Environment = {
      ...this.environment(of),
      // Infinity times zero is invalid, which a signalling addend is before.
      nan: (to, _operands, invalid) =>
        this.nan(of, to, invalid ? [z].filter((each) => isSignalling(of, each)) : [z, x, y]),
    };
    return this.finish(of, multiplyAdd(of, env, x, y, z));
  }

  /** addend + a * b of two halves in a single, rounded once. */
  multiplyAddLong(addend: bigint, a: bigint, b: bigint): bigint {
    const [x, y] = [a, b].map((each) => {
      const half = this.operand(BINARY16, each);
      if (!isNan(BINARY16, half)) return convert(BINARY16, BINARY32, this.environment(BINARY16), half).bits;
      // As it is, a signalling one too.
      const payload = (half & BINARY16.fractionMask) << BigInt(BINARY32.fractionBits - BINARY16.fractionBits);
      return (signOf(BINARY16, half) << 16n) | BINARY32.infinity | payload;
    });
    return this.multiplyAdd(BINARY32, addend, x!, y!);
  }

  /** The smaller or larger one, or a NaN. */
  extreme(of: Format, which: 'less' | 'greater', a: bigint, b: bigint): bigint {
    const [x, y] = [this.operand(of, a), this.operand(of, b)];
    if (isNan(of, x) || isNan(of, y)) return this.propagate(of, [x, y]);
    return extremeNumber(of, this.environment(of), which, x, y).bits;
  }

  /** The same where a quiet NaN loses against a number. */
  extremeNumber(of: Format, which: 'less' | 'greater', a: bigint, b: bigint): bigint {
    const [x, y] = [this.operand(of, a), this.operand(of, b)];
    const signals = isSignalling(of, x) || isSignalling(of, y);
    if (!signals && isNan(of, x) !== isNan(of, y)) return isNan(of, x) ? y : x;
    return this.extreme(of, which, x, y);
  }

  /** @param signals  a quiet NaN is invalid too */
  compare(of: Format, a: bigint, b: bigint, signals: boolean): Comparison['relation'] {
    const { relation, flags } = compare(of, this.operand(of, a), this.operand(of, b), signals);
    this.flags |= flagsOf(flags);
    return relation;
  }

  /** @param raises  inexact is raised */
  toIntegral(of: Format, rounding: OwnRounding, raises: boolean, a: bigint): bigint {
    const result = roundToIntegral(of, this.environment(of, rounding), this.operand(of, a), raises);
    this.flags |= flagsOf(result.flags);
    return result.bits;
  }

  /** A number times 2^scale as an integer of so many bits. */
  toInteger(of: Format, rounding: OwnRounding, a: bigint, bits: number, signed: boolean, scale: number): bigint {
    const exact = this.environment(of);
    const wide = convert(of, BINARY128, exact, this.operand(of, a)).bits;
    const scaled = multiply(BINARY128, this.environment(BINARY128), wide, power(scale)).bits;
    const result = toInteger(BINARY128, rounding ?? this.rounding, scaled, { bits, signed });
    this.flags |= flagsOf(result.flags);
    if (result.kind === 'integer') return BigInt.asUintN(bits, result.value);
    if (result.kind === 'nan') return 0n;
    if (result.sign === 1) return signed ? 1n << BigInt(bits - 1) : 0n;
    return (1n << BigInt(signed ? bits - 1 : bits)) - 1n;
  }

  /** An integer times 2^-scale. */
  fromInteger(to: Format, value: bigint, scale: number): bigint {
    const env = this.environment(BINARY128);
    const wide = multiply(BINARY128, env, fromInteger(BINARY128, env, value).bits, power(-scale)).bits;
    // Without a bit it is +0 in every rounding mode.
    return this.finish(to, convert(BINARY128, to, env, wide));
  }

  /** A number in another format; halves are not flushed. */
  convert(from: Format, to: Format, value: bigint, rounding: OwnRounding = null): bigint {
    const a = from === BINARY16 ? value : this.operand(from, value);
    const flushes = to !== BINARY16 && this.flushes(to);
    const alternative = (this.fpcr & FPCR.alternative) !== 0;
    if (alternative && from === BINARY16 && exponentOf(from, a) === largestExponent(from)) {
      // No infinities and NaNs, but one exponent more.
      const half = convert(from, BINARY64, this.environment(from), a - (1n << BigInt(from.fractionBits))).bits;
      return this.convert(BINARY64, to, this.multiply(BINARY64, half, this.constant(BINARY64, 2)));
    }
    const result = convert(from, to, this.environment(from, rounding), a);
    if (!alternative || to !== BINARY16) return this.finish(to, result, flushes);
    if (isNan(from, a)) {
      this.flags |= FPSR.invalid;
      return signOf(from, a) === 0n ? 0n : to.signBit;
    }
    if (!isInfinite(from, a) && (result.flags & EXCEPTION.overflow) === 0) return this.finish(to, result, flushes);
    const halved = isInfinite(from, a) ? a : a - (1n << BigInt(from.fractionBits));
    const near = convert(from, to, this.environment(from), halved);
    if (isInfinite(from, a) || (near.flags & EXCEPTION.overflow) !== 0) {
      this.flags |= FPSR.invalid;
      return (to.signBit - 1n) | signOf(to, result.bits);
    }
    return this.finish(to, { ...near, bits: near.bits + (1n << BigInt(to.fractionBits)) }, flushes);
  }

  /** FCVTXN: an inexact result has its lowest bit set. */
  convertToOdd(from: Format, to: Format, a: bigint): bigint {
    const before = this.flags;
    this.flags = 0;
    const bits = this.convert(from, to, a, 'to-zero');
    const odd = (this.flags & FPSR.inexact) !== 0 ? bits | 1n : bits;
    this.flags |= before;
    return odd;
  }

  /** A small number, exactly. */
  private constant(of: Format, value: number): bigint {
    const view = new DataView(new ArrayBuffer(8));
    view.setFloat64(0, value);
    return convert(BINARY64, of, this.environment(BINARY64), view.getBigUint64(0)).bits;
  }

  /** FRECPS: 2 - a * b; FRSQRTS: (3 - a * b) / 2. Rounded once; infinity times zero is zero. */
  step(of: Format, kind: 'reciprocal' | 'root', first: bigint, second: bigint): bigint {
    let [a, b] = [this.operand(of, first) ^ of.signBit, this.operand(of, second)];
    if (isNan(of, a) || isNan(of, b)) return this.propagate(of, [a, b]);
    const start = this.constant(of, kind === 'reciprocal' ? 2 : 1.5);
    if ((isInfinite(of, a) && isZero(of, b)) || (isZero(of, a) && isInfinite(of, b))) return start;
    if (kind === 'root') {
      // Half of a factor; where neither can be halved the product does not matter but as a sign.
      const half = 1n << BigInt(of.fractionBits);
      const canHalve = (each: bigint): boolean => !isInfinite(of, each) && exponentOf(of, each) > 1;
      if (canHalve(a)) a -= half;
      else if (canHalve(b)) b -= half;
    }
    return this.finish(of, multiplyAdd(of, this.environment(of), a, b, start));
  }

  /** FRECPE. */
  reciprocalEstimate(of: Format, value: bigint): bigint {
    const a = this.operand(of, value);
    const sign = signOf(of, a);
    if (isNan(of, a)) return this.propagate(of, [a]);
    if (isInfinite(of, a)) return sign;
    if (isZero(of, a)) {
      this.flags |= FPSR.divideByZero;
      return sign | of.infinity;
    }
    const magnitude = magnitudeOf(of, a);
    if (magnitude < 1n << BigInt(of.fractionBits - 2)) {
      this.flags |= FPSR.overflow | FPSR.inexact;
      const inward = this.rounding === 'to-zero' || this.rounding === (sign === 0n ? 'down' : 'up');
      return sign | (inward ? largest(of) : of.infinity);
    }
    const bias = largestExponent(of) >> 1;
    let exponent = exponentOf(of, a);
    if (this.flushes(of) && exponent >= 2 * bias - 1) {
      this.flags |= FPSR.underflow;
      return sign;
    }
    const bits = BigInt(of.fractionBits);
    let fraction = a & of.fractionMask;
    if (exponent === 0) {
      if (fraction >> (bits - 1n) === 0n) {
        exponent = -1;
        fraction = (fraction << 2n) & of.fractionMask;
      } else fraction = (fraction << 1n) & of.fractionMask;
    }
    const estimate = reciprocalEstimate(256 | Number(fraction >> (bits - 8n)));
    let result = BigInt(estimate & 0xff) << (bits - 8n);
    let resultExponent = 2 * bias - 1 - exponent;
    if (resultExponent === 0) result = (result >> 1n) | of.quietBit;
    else if (resultExponent === -1) {
      result = (result >> 2n) | (of.quietBit >> 1n);
      resultExponent = 0;
    }
    return sign | (BigInt(resultExponent) << bits) | result;
  }

  /** FRSQRTE. */
  rootEstimate(of: Format, value: bigint): bigint {
    const a = this.operand(of, value);
    const sign = signOf(of, a);
    if (isNan(of, a)) return this.propagate(of, [a]);
    if (isZero(of, a)) {
      this.flags |= FPSR.divideByZero;
      return sign | of.infinity;
    }
    if (sign !== 0n) {
      this.flags |= FPSR.invalid;
      return defaultNan(of);
    }
    if (isInfinite(of, a)) return 0n;
    const bits = BigInt(of.fractionBits);
    let exponent = exponentOf(of, a);
    let fraction = a & of.fractionMask;
    if (exponent === 0) {
      while (fraction >> (bits - 1n) === 0n) {
        fraction <<= 1n;
        exponent--;
      }
      fraction = (fraction << 1n) & of.fractionMask;
    }
    const scaled = (exponent & 1) === 0 ? 256 | Number(fraction >> (bits - 8n)) : 128 | Number(fraction >> (bits - 7n));
    const bias = largestExponent(of) >> 1;
    const resultExponent = Math.trunc((3 * bias - 1 - exponent) / 2);
    return (BigInt(resultExponent) << bits) | (BigInt(rootEstimate(scaled) & 0xff) << (bits - 8n));
  }

  /** FRECPX: the exponent with all its bits inverted. */
  invertedExponent(of: Format, value: bigint): bigint {
    const a = this.operand(of, value);
    if (isNan(of, a)) return this.propagate(of, [a]);
    const bits = BigInt(of.fractionBits);
    const exponent = exponentOf(of, a);
    const largestFinite = largestExponent(of) - 1;
    return signOf(of, a) | (BigInt(exponent === 0 ? largestFinite : largestExponent(of) - exponent) << bits);
  }
}

export { BINARY16, BINARY32, BINARY64 };
