/**
 * The unit of x87: a stack of eight registers of 80 bits, exceptions and their masks, and
 * arithmetic that is exact under every rounding mode and precision. Instructions (`x87.ts`) and
 * functions of several steps (`x87-functions.ts`) are made of it.
 *
 * Source: Intel SDM volume 1, chapter 8.
 */
import {
  add, bitLength, convert, divide, fromInteger, multiply, subtract, BINARY32, BINARY64, EXTENDED, format, pack, unpack,
} from '../float/index.js'; // prettier-ignore
import type { Environment, Format, Result, Rounding } from '../float/index.js';
import { defaultNan, flagsOf, isNan, isSubnormal } from './float.js';
import { nearest } from './x87-nearest.js';

/** Exceptions, at their places in the status word and, as masks, in the control word. */
export const FLAG = {
  invalid: 1,
  denormal: 2,
  divide: 4,
  overflow: 8,
  underflow: 16,
  precision: 32,
  stack: 64,
} as const;
export const EXCEPTIONS = 0x3f;
/** Exceptions that are found before there is a result. */
const EARLY = FLAG.invalid | FLAG.denormal | FLAG.divide;
/** Of the status word: an exception that is not masked has been noted. */
export const X87_PENDING = 0x8080;
export const CODE = { c0: 0x100, c1: 0x200, c2: 0x400, c3: 0x4000 } as const;
export const CODES = CODE.c0 | CODE.c1 | CODE.c2 | CODE.c3;
const ROUNDING: readonly Rounding[] = ['nearest-even', 'down', 'up', 'to-zero'];
/** Bits of precision by the field of the control word; the second is reserved. */
const PRECISION = [24, 64, 53, 64] as const;

/** Of the control word: to nearest, with all bits. */
const PLAIN = { mask: 0xf00, value: 0x300 } as const;

/** Exponents without bounds, as far as results of two operands need them. */
const WIDE = format(18, 63);
/** What exponents are changed by where overflow or underflow is not masked. */
const BIAS_ADJUST = 24576;

/** An 80-bit pattern: sign and exponent above a significand of 64 bits with its integer bit. */
export type Extended = bigint;
export const SIGN = 1n << 79n;
export const INTEGER_BIT = 1n << 63n;
export const SIGNIFICAND = (1n << 64n) - 1n;
export const INFINITE = 0x7fff_8000_0000_0000_0000n;
/** The NaN of invalid operations. */
export const INDEFINITE: Extended = 0xffff_c000_0000_0000_0000n;
export const ONE: Extended = 0x3fff_8000_0000_0000_0000n;

export const exponentOf = (value: Extended): number => Number((value >> 64n) & 0x7fffn);

/** A number as an operation reads it. */
export interface Source {
  /** In `EXTENDED`, without the integer bit. */
  readonly bits: bigint;
  /** In the format it came from. */
  readonly isDenormal: boolean;
  /** Patterns that no processor since the 80387 makes: an integer bit of 0 in a normal number. */
  readonly isUnsupported: boolean;
}

export function sourceOf(value: Extended): Source {
  const sign = (value & SIGN) >> 1n;
  const fraction = value & (INTEGER_BIT - 1n);
  const hasInteger = (value & INTEGER_BIT) !== 0n;
  const exponent = exponentOf(value);
  // A denormal number with an integer bit has the exponent of the smallest normal one.
  const biased = exponent === 0 && hasInteger ? 1 : exponent;
  return {
    bits: sign | (BigInt(biased) << 63n) | fraction,
    isDenormal: exponent === 0 && (value & SIGNIFICAND) !== 0n,
    isUnsupported: exponent !== 0 && !hasInteger,
  };
}

/** A number with its integer bit. */
export function extendedOf(bits: bigint): Extended {
  const exponent = (bits >> 63n) & 0x7fffn;
  const integer = exponent === 0n ? 0n : INTEGER_BIT;
  return ((bits & EXTENDED.signBit) << 1n) | (exponent << 64n) | integer | (bits & EXTENDED.fractionMask);
}

/** A normal number of memory becomes one of 80 bits: its magnitude is shifted, and this added. */
interface Widening {
  readonly shift: bigint;
  readonly bias: bigint;
}
const wideningOf = (of: Format): Widening => ({
  shift: BigInt(EXTENDED.fractionBits - of.fractionBits),
  bias: BigInt((1 << (EXTENDED.exponentBits - 1)) - (1 << (of.exponentBits - 1))) << BigInt(EXTENDED.fractionBits),
});
const WIDENINGS: ReadonlyMap<Format, Widening> = new Map([BINARY32, BINARY64].map((of) => [of, wideningOf(of)]));

/** What most numbers of memory are; null: not a normal one. */
export function normalWidened(of: Format, bits: bigint): Source | null {
  const widening = WIDENINGS.get(of);
  const magnitude = bits & (of.signBit - 1n);
  if (!widening || magnitude <= of.fractionMask || magnitude >= of.infinity) return null;
  const sign = (bits & of.signBit) === 0n ? 0n : EXTENDED.signBit;
  return {
    bits: sign | ((magnitude << widening.shift) + widening.bias),
    isDenormal: false,
    isUnsupported: false,
  };
}

/** A number of memory; a signalling NaN stays one. */
export function widened(of: Format, bits: bigint): Source {
  const normal = normalWidened(of, bits);
  if (normal) return normal;
  const isDenormal = isSubnormal(of, bits);
  const sign = (bits & of.signBit) === 0n ? 0n : EXTENDED.signBit;
  const wide = isNan(of, bits)
    ? sign | EXTENDED.infinity | ((bits & of.fractionMask) << BigInt(EXTENDED.fractionBits - of.fractionBits))
    : convert(of, EXTENDED, { rounding: 'to-zero', tininess: 'after', nan: () => 0n }, bits).bits;
  return { bits: wide, isDenormal, isUnsupported: false };
}

export const integerSource = (value: bigint): Source => ({
  bits: fromInteger(EXTENDED, { rounding: 'to-zero', tininess: 'after', nan: () => 0n }, value).bits,
  isDenormal: false,
  isUnsupported: false,
});

/**
 * The NaN of x87: the one with the larger significand, which a quiet one has beside a signalling
 * one, else the positive one; quiet, in the format of the result.
 */
function nanOf(to: Format, operands: readonly bigint[], invalid: boolean): bigint {
  const nans = invalid ? [] : operands.filter((each) => isNan(EXTENDED, each));
  if (nans.length === 0) return defaultNan(to);
  const significand = (each: bigint): bigint => each & EXTENDED.fractionMask;
  const found = nans.reduce((best, each) => {
    if (significand(each) !== significand(best)) return significand(each) > significand(best) ? each : best;
    return (each & EXTENDED.signBit) === 0n ? each : best;
  });
  const sign = (found & EXTENDED.signBit) === 0n ? 0n : to.signBit;
  return sign | to.infinity | to.quietBit | (significand(found) >> BigInt(EXTENDED.fractionBits - to.fractionBits));
}

/** What instructions read and write besides memory. */
export interface X87State {
  control: number;
  /** The top of the stack in bits 11 to 13. */
  status: number;
  /** A bit for each register, by its number, that is not empty. */
  tags: number;
  /** ZF, PF and CF at their places in RFLAGS, and the other status flags. */
  flags: number;
  readonly registers: { get: (number: number) => Extended; set: (number: number, value: Extended) => void };
  /** The operand in memory, lowest byte first. */
  readonly memory: { read: (bytes: number) => bigint; write: (bytes: number, value: bigint) => void };
  /** Of the last instruction that was no control instruction: opcode, own address, operand's. */
  pointers: { readonly opcode: number; readonly instruction: bigint; readonly operand: bigint };
}

export type Operation = (of: Format, env: Environment, operands: readonly bigint[]) => Result;

/** What an operation came to, and whether its magnitude was rounded up. */
export interface Outcome {
  readonly value: Extended;
  readonly flags: number;
  readonly up: boolean;
}

export const INVALID: Outcome = { value: INDEFINITE, flags: FLAG.invalid, up: false };

/** Stem of an instruction of two operands, by the reg field; comparisons are apart. */
export const BINARY: Readonly<Record<number, Operation>> = {
  0: (of, env, [a, b]) => add(of, env, a!, b!),
  1: (of, env, [a, b]) => multiply(of, env, a!, b!),
  4: (of, env, [a, b]) => subtract(of, env, a!, b!),
  5: (of, env, [a, b]) => subtract(of, env, b!, a!),
  6: (of, env, [a, b]) => divide(of, env, a!, b!),
  7: (of, env, [a, b]) => divide(of, env, b!, a!),
};

/** The state of the unit, and what instructions do with it in common. */
export class X87Unit {
  constructor(protected readonly state: X87State) {}

  // ----------------------------------------------------------------------------------- the stack

  get top(): number {
    return (this.state.status >> 11) & 7;
  }

  number(i: number): number {
    return (this.top + i) & 7;
  }

  isEmpty(i: number): boolean {
    return ((this.state.tags >> this.number(i)) & 1) === 0;
  }

  get(i: number): Extended {
    return this.state.registers.get(this.number(i));
  }

  set(i: number, value: Extended): void {
    this.state.registers.set(this.number(i), value);
    this.state.tags |= 1 << this.number(i);
  }

  free(i: number): void {
    this.state.tags &= ~(1 << this.number(i));
  }

  turn(by: 1 | -1): void {
    this.state.status = (this.state.status & ~0x3800) | (((this.top + by) & 7) << 11);
  }

  pop(times = 1): void {
    for (let i = 0; i < times; i++) {
      this.free(0);
      this.turn(1);
    }
  }

  /** Pushes what an instruction loads; onto a full stack, the NaN of a stack fault. */
  push({ value, flags, up }: Outcome): void {
    const isFull = !this.isEmpty(7);
    if (isFull) {
      if (!this.note(FLAG.invalid | FLAG.stack, true)) return;
    } else if (!this.note(flags, up)) return;
    this.turn(-1);
    this.set(0, isFull ? INDEFINITE : value);
  }

  // ----------------------------------------------------------------------------------- exceptions

  /**
   * Notes exceptions, and in C1 that a magnitude was rounded up or a full stack.
   * @returns false where the instruction ends here: one is not masked that is found early
   */
  note(flags: number, c1 = false): boolean {
    const { state } = this;
    const unmasked = flags & ~state.control & EXCEPTIONS;
    const ends = (unmasked & EARLY) !== 0;
    const noted = ends ? flags & (EARLY | FLAG.stack) : flags;
    state.status =
      (state.status & ~CODE.c1) |
      noted |
      (c1 && (!ends || (flags & FLAG.stack) !== 0) ? CODE.c1 : 0) |
      (unmasked !== 0 ? X87_PENDING : 0);
    return !ends;
  }

  /** Notes a stack fault where one of these registers is empty; false: none is. */
  underflows(...registers: readonly number[]): 'masked' | 'ends' | false {
    if (!registers.some((i) => this.isEmpty(i))) return false;
    return this.note(FLAG.invalid | FLAG.stack) ? 'masked' : 'ends';
  }

  // ----------------------------------------------------------------------------------- arithmetic

  environment(precision?: number): Environment {
    const rounding = ROUNDING[(this.state.control >> 10) & 3]!;
    const bounded = precision === undefined ? {} : { precision };
    return { rounding, tininess: 'after', nan: nanOf, ...bounded };
  }

  get precision(): number {
    return PRECISION[(this.state.control >> 8) & 3]!;
  }

  /** @param precision  bits that are asked for; all where the control word has no say */
  compute(operation: Operation, sources: readonly Source[], precision?: number): Outcome {
    if (sources.some((each) => each.isUnsupported)) return INVALID;
    const env = this.environment(precision);
    const operands = sources.map((each) => each.bits);
    const { bits, flags: raised } = operation(EXTENDED, env, operands);
    let flags = flagsOf(raised);
    const isPlain = (flags & (FLAG.invalid | FLAG.divide)) === 0 && !operands.some((each) => isNan(EXTENDED, each));
    if (isPlain && sources.some((each) => each.isDenormal)) flags |= FLAG.denormal;
    if (isPlain && (~this.state.control & (FLAG.overflow | FLAG.underflow)) !== 0) {
      const scaled = this.scaled(operation, env, operands);
      if (scaled) return { ...scaled, flags: scaled.flags | (flags & FLAG.denormal) };
    }
    const inward = (): bigint => operation(EXTENDED, { ...env, rounding: 'to-zero' }, operands).bits;
    return { value: extendedOf(bits), flags, up: (flags & FLAG.precision) !== 0 && bits !== inward() };
  }

  /** A result beyond the bounds where that is not masked: its exponent is moved between them. */
  scaled(operation: Operation, env: Environment, operands: readonly bigint[]): Outcome | null {
    const wide = operands.map((each) => convert(EXTENDED, WIDE, this.environment(), each).bits);
    const { bits, flags } = operation(WIDE, env, wide);
    const { kind, sign, magnitude, exponent } = unpack(WIDE, bits);
    if (kind !== 'finite' || magnitude === 0n) return null;
    const leading = exponent + bitLength(magnitude) - 1;
    const which = leading > 16383 ? FLAG.overflow : leading < -16382 ? FLAG.underflow : 0;
    if ((which & ~this.state.control) === 0) return null;
    const by = which === FLAG.overflow ? -BIAS_ADJUST : BIAS_ADJUST;
    const moved = pack(EXTENDED, { rounding: 'nearest-even', tininess: 'after' }, sign, magnitude, exponent + by);
    if (moved.flags !== 0) {
      // Too far beyond them (`fscale`): infinity, or 0 whatever the rounding mode is.
      const value = which === FLAG.overflow ? INFINITE : 0n;
      const flags = which | FLAG.precision;
      return { value: sign === 1 ? value | SIGN : value, flags, up: which === FLAG.overflow };
    }
    const inward = operation(WIDE, { ...env, rounding: 'to-zero' }, wide).bits;
    return { value: extendedOf(moved.bits), flags: flagsOf(flags) | which, up: bits !== inward };
  }

  /** The operation of a reg field on two numbers. */
  private operate(which: number, first: Source, second: Source): Outcome {
    const isPlain = (this.state.control & PLAIN.mask) === PLAIN.value;
    if (isPlain && !first.isUnsupported && !second.isUnsupported) {
      const result = nearest(which, first.bits, second.bits);
      // Normal operands, and a normal result, raise nothing else. A denormal number is told of.
      if (result && !first.isDenormal && !second.isDenormal) {
        return { value: extendedOf(result.bits), flags: result.isExact ? 0 : FLAG.precision, up: result.up };
      }
    }
    return this.compute(BINARY[which]!, [first, second], this.precision);
  }

  /** An operation on a register and something, into the register; then so many pops. */
  binary(which: number, target: number, source: Source | number, pops: number): void {
    const registers = typeof source === 'number' ? [target, source] : [target];
    const fault = this.underflows(...registers);
    if (fault === 'ends') return;
    if (fault === 'masked') this.set(target, INDEFINITE);
    else {
      const second = typeof source === 'number' ? sourceOf(this.get(source)) : source;
      const { value, flags, up } = this.operate(which, sourceOf(this.get(target)), second);
      if (!this.note(flags, up)) return;
      this.set(target, value);
    }
    this.pop(pops);
  }

  unary(operation: Operation, precision?: number): void {
    this.replace(() => this.compute(operation, [sourceOf(this.get(0))], precision));
  }

  /**
   * Replaces the top of the stack, which must not be empty, nor the others.
   * @returns whether the result is there
   */
  replace(result: () => Outcome, ...others: readonly number[]): boolean {
    const fault = this.underflows(0, ...others);
    if (fault === 'masked') this.set(0, INDEFINITE);
    if (fault) return false;
    const { value, flags, up } = result();
    if (!this.note(flags, up)) return false;
    this.set(0, value);
    return true;
  }

  codes(bits: number, among: number = CODES): void {
    this.state.status = (this.state.status & ~among) | bits;
  }
}
