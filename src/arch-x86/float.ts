/**
 * SSE floating point as helpers execute it: exact in every rounding mode, with the exceptions of
 * MXCSR, denormal operands and flushed results.
 *
 * Source: Intel SDM volume 1, 4.9 and 11.5, appendix E; volume 2.
 */
import {
  add,
  BINARY16,
  BINARY32,
  classify,
  compare,
  convert,
  divide,
  EXCEPTION,
  fromInteger,
  isSignalling,
  multiply,
  multiplyAdd,
  roundToIntegral,
  squareRoot,
  subtract,
  toInteger,
} from '../float/index.js';
import type { Environment, Format, Result, Rounding } from '../float/index.js';

/** Which parts of a sum with a product change their sign. */
export interface FusedKind {
  readonly negates: boolean;
  readonly subtracts: boolean;
}

/** Bits of MXCSR. */
const MXCSR = {
  invalid: 1,
  denormal: 2,
  divide: 4,
  overflow: 8,
  underflow: 16,
  precision: 32,
  zeros: 0x40,
  flush: 0x8000,
} as const;
const EXCEPTIONS = 0x3f;
const MASKS_SHIFT = 7;
const ROUNDING: readonly Rounding[] = ['nearest-even', 'down', 'up', 'to-zero'];

/** Operations on elements, by the stems of their names. */
export const FLOAT_OPERATIONS = ['add', 'sub', 'mul', 'div', 'min', 'max', 'sqrt', 'cmp'] as const;
export type FloatOperation = (typeof FLOAT_OPERATIONS)[number];

/** How two numbers compare, as bits of a set. */
export const RELATION = { less: 1, equal: 2, greater: 4, unordered: 8 } as const;
/** With which a predicate of `cmp` holds, by its low four bits. */
const PREDICATES = [2, 1, 3, 8, 13, 14, 12, 7, 10, 9, 11, 0, 5, 6, 4, 15] as const;
export const relationsOf = (predicate: number): number => PREDICATES[predicate & 15]!;
/** Bit n: predicate n says that a quiet NaN is invalid; of those from 16 on the others do. */
const SIGNALLING = 0b0110_0110_0110_0110;
const signalsOn = (predicate: number): boolean =>
  (((SIGNALLING >> (predicate & 15)) & 1) === 1) !== ((predicate & 16) !== 0);

/** What an element, or a comparison, came to; `flags` are those of MXCSR. */
export interface FloatResult {
  readonly bits: bigint;
  readonly flags: number;
}

export const isNan = (of: Format, bits: bigint): boolean => classify(of, bits).endsWith('NaN');
export const isSubnormal = (of: Format, bits: bigint): boolean => classify(of, bits).endsWith('subnormal');
export const defaultNan = ({ infinity, quietBit, signBit }: Format): bigint => infinity | quietBit | signBit;

/** The first operand that is a NaN, made quiet, in the format of the result. */
function nanOf(from: Format, to: Format, operands: readonly bigint[], invalid: boolean): bigint {
  const found = invalid ? undefined : operands.find((each) => isNan(from, each));
  if (found === undefined) return defaultNan(to);
  const sign = (found & from.signBit) === 0n ? 0n : to.signBit;
  const shift = BigInt(to.fractionBits - from.fractionBits);
  const payload = found & from.fractionMask;
  return sign | to.infinity | to.quietBit | (shift >= 0n ? payload << shift : payload >> -shift);
}

export function flagsOf(flags: number): number {
  return (
    ((flags & EXCEPTION.invalid) !== 0 ? MXCSR.invalid : 0) |
    ((flags & EXCEPTION.divideByZero) !== 0 ? MXCSR.divide : 0) |
    ((flags & EXCEPTION.overflow) !== 0 ? MXCSR.overflow : 0) |
    ((flags & EXCEPTION.underflow) !== 0 ? MXCSR.underflow : 0) |
    ((flags & EXCEPTION.inexact) !== 0 ? MXCSR.precision : 0)
  );
}

/** True when one of these exceptions is not masked. */
export const isUnmasked = (mxcsr: number, flags: number): boolean =>
  (flags & EXCEPTIONS & ~(mxcsr >> MASKS_SHIFT)) !== 0;

/** Arithmetic under one value of MXCSR. */
export class SseFloat {
  constructor(private readonly mxcsr: number) {}

  private environment(from: Format): Environment {
    return {
      rounding: ROUNDING[(this.mxcsr >> 13) & 3]!,
      tininess: 'after',
      nan: (to, operands, invalid) => nanOf(from, to, operands, invalid),
    };
  }

  /** An operand, a zero where subnormal numbers are to be zeros. */
  private operand(of: Format, bits: bigint): bigint {
    return (this.mxcsr & MXCSR.zeros) !== 0 && isSubnormal(of, bits) ? bits & of.signBit : bits;
  }

  /** Adds what x86 knows beside IEEE 754: subnormal operands, and results that are flushed. */
  private finish(from: Format, to: Format, operands: readonly bigint[], { bits, flags }: Result): FloatResult {
    let out = flagsOf(flags);
    const isPlain = (out & (MXCSR.invalid | MXCSR.divide)) === 0 && !operands.some((each) => isNan(from, each));
    if (isPlain && operands.some((each) => isSubnormal(from, each))) out |= MXCSR.denormal;
    const isFlushed =
      (this.mxcsr & MXCSR.flush) !== 0 &&
      (this.mxcsr & (MXCSR.underflow << MASKS_SHIFT)) !== 0 &&
      (isSubnormal(to, bits) || (out & MXCSR.underflow) !== 0);
    if (!isFlushed) return { bits, flags: out };
    return { bits: bits & to.signBit, flags: out | MXCSR.underflow | MXCSR.precision };
  }

  /**
   * An element of an operation.
   * @param predicate  of `cmp`: below 8, with AVX below 32
   */
  element(of: Format, operation: FloatOperation, first: bigint, second: bigint, predicate: number): FloatResult {
    const env = this.environment(of);
    const [a, b] = [this.operand(of, first), this.operand(of, second)];
    switch (operation) {
      case 'add':
        return this.finish(of, of, [a, b], add(of, env, a, b));
      case 'sub':
        return this.finish(of, of, [a, b], subtract(of, env, a, b));
      case 'mul':
        return this.finish(of, of, [a, b], multiply(of, env, a, b));
      case 'div':
        return this.finish(of, of, [a, b], divide(of, env, a, b));
      case 'sqrt':
        return this.finish(of, of, [b], squareRoot(of, env, b));
      case 'min':
      case 'max': {
        // The second operand as it is where there is no smaller or greater one.
        const { relation, flags } = compare(of, a, b, true);
        const takesFirst = relation === (operation === 'min' ? 'less' : 'greater');
        return { bits: takesFirst ? a : b, flags: this.finish(of, of, [a, b], { bits: 0n, flags }).flags & 3 };
      }
      case 'cmp': {
        const { relation, flags } = this.compare(of, a, b, signalsOn(predicate));
        const holds = (relationsOf(predicate) & RELATION[relation]) !== 0;
        return { bits: holds ? (of.signBit << 1n) - 1n : 0n, flags };
      }
      default:
        return operation satisfies never;
    }
  }

  /**
   * a * b + c with signs as `kind` has them, rounded once. The first operand that is a NaN is the
   * result, and then nothing but a signalling one is invalid.
   */
  fused(of: Format, { negates, subtracts }: FusedKind, first: bigint, second: bigint, third: bigint): FloatResult {
    const [a, b, c] = [this.operand(of, first), this.operand(of, second), this.operand(of, third)];
    const operands = [a, b, c];
    if (operands.some((each) => isNan(of, each))) {
      const signals = operands.some((each) => isSignalling(of, each));
      return { bits: nanOf(of, of, operands, false), flags: signals ? MXCSR.invalid : 0 };
    }
    const sign = (value: bigint, isOther: boolean): bigint => (isOther ? value ^ of.signBit : value);
    const result = multiplyAdd(of, this.environment(of), sign(a, negates), b, sign(c, subtracts));
    return this.finish(of, of, operands, result);
  }

  /** A number of 16 bits as a single: exact, and subnormal ones are numbers. */
  fromHalf(value: bigint): FloatResult {
    const { bits, flags } = convert(BINARY16, BINARY32, this.environment(BINARY16), value);
    return { bits, flags: flagsOf(flags) };
  }

  /** A single as a number of 16 bits, as the control byte of `vcvtps2ph` says; none is flushed. */
  toHalf(value: bigint, control: number): FloatResult {
    const env = this.environment(BINARY32);
    const rounding = (control & 4) !== 0 ? env.rounding : ROUNDING[control & 3]!;
    const a = this.operand(BINARY32, value);
    const { bits, flags } = convert(BINARY32, BINARY16, { ...env, rounding }, a);
    return { bits, flags: flagsOf(flags) | (isSubnormal(BINARY32, a) ? MXCSR.denormal : 0) };
  }

  /** How two numbers compare. `signals`: a quiet NaN is invalid too. */
  compare(
    of: Format,
    first: bigint,
    second: bigint,
    signals: boolean,
  ): { readonly relation: ReturnType<typeof compare>['relation']; readonly flags: number } {
    const [a, b] = [this.operand(of, first), this.operand(of, second)];
    const { relation, flags } = compare(of, a, b, signals);
    return { relation, flags: this.finish(of, of, [a, b], { bits: 0n, flags }).flags & 3 };
  }

  /** A number in the other format. */
  convert(from: Format, to: Format, value: bigint): FloatResult {
    const a = this.operand(from, value);
    return this.finish(from, to, [a], convert(from, to, this.environment(from), a));
  }

  fromInteger(to: Format, value: bigint): FloatResult {
    const { bits, flags } = fromInteger(to, this.environment(to), value);
    return { bits, flags: flagsOf(flags) };
  }

  /**
   * A number rounded to an integer of its format, as the control byte of `roundps` has it: the
   * mode, or that of MXCSR, and whether precision is raised. Subnormal operands are not told.
   */
  round(of: Format, value: bigint, control: number): FloatResult {
    const env = this.environment(of);
    const rounding = (control & 4) !== 0 ? env.rounding : ROUNDING[control & 3]!;
    const raises = (control & 8) === 0;
    const { bits, flags } = roundToIntegral(of, { ...env, rounding }, this.operand(of, value), raises);
    return { bits, flags: flagsOf(flags) };
  }

  /** An integer of so many bits; the most negative one where there is none. */
  toInteger(of: Format, value: bigint, bits: 32 | 64, truncates: boolean): FloatResult {
    const rounding = truncates ? 'to-zero' : ROUNDING[(this.mxcsr >> 13) & 3]!;
    const result = toInteger(of, rounding, this.operand(of, value), { bits, signed: true });
    if (result.kind !== 'integer') return { bits: 1n << BigInt(bits - 1), flags: MXCSR.invalid };
    return { bits: BigInt.asUintN(bits, result.value), flags: flagsOf(result.flags) };
  }
}
