/**
 * SSE floating point as helpers execute it: exact in every rounding mode, with the exceptions of
 * MXCSR, denormal operands and flushed results.
 *
 * Source: Intel SDM volume 1, 4.9 and 11.5, appendix E; volume 2.
 */
import {
  add,
  classify,
  compare,
  convert,
  divide,
  EXCEPTION,
  fromInteger,
  multiply,
  roundToIntegral,
  squareRoot,
  subtract,
  toInteger,
} from '../float/index.js';
import type { Environment, Format, Result, Rounding } from '../float/index.js';

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
   * @param predicate  of `cmp`: the low three bits of the immediate
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
        const { relation, flags } = this.compare(of, a, b, /[1256]/.test(String(predicate)));
        const holds = [
          relation === 'equal',
          relation === 'less',
          relation === 'less' || relation === 'equal',
          relation === 'unordered',
        ][predicate & 3]!;
        const ones = (of.signBit << 1n) - 1n;
        return { bits: holds === ((predicate & 4) === 0) ? ones : 0n, flags };
      }
      default:
        return operation satisfies never;
    }
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
