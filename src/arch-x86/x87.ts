/**
 * x87: instructions on a stack of eight registers of 80 bits, as helpers execute them. Exact under
 * every rounding mode and precision, with flags, tags, stack faults and exceptions that are not
 * masked. Transcendental functions are those of `transcendental.ts`.
 *
 * An instruction is named by the eleven bits that processors keep of it (FOP): the low three of its
 * opcode, and ModRM.
 *
 * Source: Intel SDM volume 1, chapter 8; volume 2. Where it leaves something open, what a processor
 * of today does.
 */
import {
  add, compare, convert, divide, fromInteger, multiply, roundToIntegral, squareRoot, subtract, toInteger,
  BINARY32, BINARY64, EXTENDED, format, pack, unpack,
} from '../float/index.js'; // prettier-ignore
import type { Environment, Format, Result, Rounding, Unpacked } from '../float/index.js';
import {
  angleOf, powerLessOne, quarterTurns, timesLogarithm, timesLogarithmOfMore, trigonometric,
} from './transcendental.js'; // prettier-ignore
import type { Computed } from './transcendental.js';
import { defaultNan, flagsOf, isNan, isSubnormal } from './float.js';

/** Exceptions, at their places in the status word and, as masks, in the control word. */
const FLAG = { invalid: 1, denormal: 2, divide: 4, overflow: 8, underflow: 16, precision: 32, stack: 64 } as const;
const EXCEPTIONS = 0x3f;
/** Exceptions that are found before there is a result. */
const EARLY = FLAG.invalid | FLAG.denormal | FLAG.divide;
/** Of the status word: an exception that is not masked has been noted. */
export const X87_PENDING = 0x8080;
const CODE = { c0: 0x100, c1: 0x200, c2: 0x400, c3: 0x4000 } as const;
const CODES = CODE.c0 | CODE.c1 | CODE.c2 | CODE.c3;
const ROUNDING: readonly Rounding[] = ['nearest-even', 'down', 'up', 'to-zero'];
/** Bits of precision by the field of the control word; the second is reserved. */
const PRECISION = [24, 64, 53, 64] as const;

/** Exponents without bounds, as far as results of two operands need them. */
const WIDE = format(18, 63);
/** What exponents are changed by where overflow or underflow is not masked. */
const BIAS_ADJUST = 24576;

/** An 80-bit pattern: sign and exponent above a significand of 64 bits with its integer bit. */
type Extended = bigint;
const SIGN = 1n << 79n;
const INTEGER_BIT = 1n << 63n;
const SIGNIFICAND = (1n << 64n) - 1n;
const INFINITE = 0x7fff_8000_0000_0000_0000n;
/** The NaN of invalid operations. */
const INDEFINITE: Extended = 0xffff_c000_0000_0000_0000n;
const ONE: Extended = 0x3fff_8000_0000_0000_0000n;

const exponentOf = (value: Extended): number => Number((value >> 64n) & 0x7fffn);

/** A number as an operation reads it. */
interface Source {
  /** In `EXTENDED`, without the integer bit. */
  readonly bits: bigint;
  /** In the format it came from. */
  readonly isDenormal: boolean;
  /** Patterns that no processor since the 80387 makes: an integer bit of 0 in a normal number. */
  readonly isUnsupported: boolean;
}

function sourceOf(value: Extended): Source {
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
function extendedOf(bits: bigint): Extended {
  const exponent = (bits >> 63n) & 0x7fffn;
  const integer = exponent === 0n ? 0n : INTEGER_BIT;
  return ((bits & EXTENDED.signBit) << 1n) | (exponent << 64n) | integer | (bits & EXTENDED.fractionMask);
}

/** A number of memory; a signalling NaN stays one. */
function widened(of: Format, bits: bigint): Source {
  const isDenormal = isSubnormal(of, bits);
  const sign = (bits & of.signBit) === 0n ? 0n : EXTENDED.signBit;
  const wide = isNan(of, bits)
    ? sign | EXTENDED.infinity | ((bits & of.fractionMask) << BigInt(EXTENDED.fractionBits - of.fractionBits))
    : convert(of, EXTENDED, { rounding: 'to-zero', tininess: 'after', nan: () => 0n }, bits).bits;
  return { bits: wide, isDenormal, isUnsupported: false };
}

const integerSource = (value: bigint): Source => ({
  bits: fromInteger(EXTENDED, { rounding: 'to-zero', tininess: 'after', nan: () => 0n }, value).bits,
  isDenormal: false,
  isUnsupported: false,
});

/**
 * The NaN of x87: of a quiet and a signalling one the quiet one, else the one with the larger
 * significand, else the positive one; quiet, in the format of the result.
 */
function nanOf(to: Format, operands: readonly bigint[], invalid: boolean): bigint {
  const nans = invalid ? [] : operands.filter((each) => isNan(EXTENDED, each));
  if (nans.length === 0) return defaultNan(to);
  const quiet = nans.filter((each) => (each & EXTENDED.quietBit) !== 0n);
  const among = quiet.length === 1 ? quiet : nans;
  const significand = (each: bigint): bigint => each & EXTENDED.fractionMask;
  const found = among.reduce((best, each) => {
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

type Operation = (of: Format, env: Environment, operands: readonly bigint[]) => Result;

/** What an operation came to, and whether its magnitude was rounded up. */
interface Outcome {
  readonly value: Extended;
  readonly flags: number;
  readonly up: boolean;
}

const INVALID: Outcome = { value: INDEFINITE, flags: FLAG.invalid, up: false };

/** Stem of an instruction of two operands, by the reg field; comparisons are apart. */
const BINARY: Readonly<Record<number, Operation>> = {
  0: (of, env, [a, b]) => add(of, env, a!, b!),
  1: (of, env, [a, b]) => multiply(of, env, a!, b!),
  4: (of, env, [a, b]) => subtract(of, env, a!, b!),
  5: (of, env, [a, b]) => subtract(of, env, b!, a!),
  6: (of, env, [a, b]) => divide(of, env, a!, b!),
  7: (of, env, [a, b]) => divide(of, env, b!, a!),
};

/** Significand rounded to zero, exponent, and whether the nearest one is the next. */
const CONSTANTS: readonly (readonly [significand: bigint, exponent: bigint, isNextNearer: boolean] | null)[] = [
  [0x8000_0000_0000_0000n, 0x3fffn, false],
  [0xd49a_784b_cd1b_8afen, 0x4000n, false],
  [0xb8aa_3b29_5c17_f0bbn, 0x3fffn, true],
  [0xc90f_daa2_2168_c234n, 0x4000n, true],
  [0x9a20_9a84_fbcf_f798n, 0x3ffdn, true],
  [0xb172_17f7_d1cf_79abn, 0x3ffen, true],
  [0n, 0n, false],
];

/** Bits of a magnitude up to its highest 1, and the exponent. */
const leading = ({ magnitude, exponent }: Unpacked): number => exponent + magnitude.toString(2).length;

/**
 * What is left of finite x by y, and the codes: the low bits of the quotient, or C2 while some of
 * it is left, because one instruction makes 63 bits at most.
 */
function remainderOf(
  x: Unpacked,
  y: Unpacked,
  isNearest: boolean,
): Omit<Unpacked, 'kind'> & { readonly codes: number } {
  const distance = leading(x) - leading(y);
  const isPartial = distance >= 64;
  // The low bits of a partial quotient are 0: so many are left to the next time.
  const left = isPartial ? distance - (32 + (distance & 31)) : 0;
  const exponent = Math.min(x.exponent, y.exponent + left);
  const dividend = x.magnitude << BigInt(x.exponent - exponent);
  const divisor = y.magnitude << BigInt(y.exponent + left - exponent);
  let quotient = dividend / divisor;
  let rest = dividend - quotient * divisor;
  if (isNearest && !isPartial && (2n * rest > divisor || (2n * rest === divisor && (quotient & 1n) === 1n))) {
    quotient++;
    rest -= divisor;
  }
  const bit = (place: bigint, code: number): number => (((quotient >> place) & 1n) === 1n ? code : 0);
  const codes = isPartial ? CODE.c2 : bit(2n, CODE.c0) | bit(1n, CODE.c3) | bit(0n, CODE.c1);
  const sign = rest < 0n === (x.sign === 1) ? 0 : 1;
  return { sign, magnitude: rest < 0n ? -rest : rest, exponent, codes };
}

const isZero = ({ kind, magnitude }: Unpacked): boolean => kind === 'finite' && magnitude === 0n;
/** The exponent of the highest bit; below all others for 0. */
const leadingOf = (value: Unpacked): number => (isZero(value) ? -Infinity : leading(value) - 1);
/** Below 0, 0 or above: a positive number against 1. */
const compareWithOne = (value: Unpacked): number => {
  const place = leadingOf(value);
  return place !== 0 ? place : (value.magnitude & (value.magnitude - 1n)) === 0n ? 0 : 1;
};
const signed = (magnitude: Extended, sign: 0 | 1): { readonly value: Extended; readonly up: false } => ({
  value: sign === 1 ? magnitude | SIGN : magnitude,
  up: false,
});
/** What an exact result of these raises. */
const denormalsOf = (sources: readonly Source[]): number =>
  sources.some((each) => each.isDenormal) ? FLAG.denormal : 0;

/** Bytes of the environment by the operand size, and of it with the registers. */
const ENVIRONMENT = { 2: 14, 4: 28 } as const;
const REGISTER_BYTES = 80;

/** One instruction on the state. */
export class X87 {
  constructor(private readonly state: X87State) {}

  // ----------------------------------------------------------------------------------- the stack

  private get top(): number {
    return (this.state.status >> 11) & 7;
  }

  private number(i: number): number {
    return (this.top + i) & 7;
  }

  private isEmpty(i: number): boolean {
    return ((this.state.tags >> this.number(i)) & 1) === 0;
  }

  private get(i: number): Extended {
    return this.state.registers.get(this.number(i));
  }

  private set(i: number, value: Extended): void {
    this.state.registers.set(this.number(i), value);
    this.state.tags |= 1 << this.number(i);
  }

  private free(i: number): void {
    this.state.tags &= ~(1 << this.number(i));
  }

  private turn(by: 1 | -1): void {
    this.state.status = (this.state.status & ~0x3800) | (((this.top + by) & 7) << 11);
  }

  private pop(times = 1): void {
    for (let i = 0; i < times; i++) {
      this.free(0);
      this.turn(1);
    }
  }

  /** Pushes what an instruction loads; onto a full stack, the NaN of a stack fault. */
  private push({ value, flags, up }: Outcome): void {
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
  private note(flags: number, c1 = false): boolean {
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
  private underflows(...registers: readonly number[]): 'masked' | 'ends' | false {
    if (!registers.some((i) => this.isEmpty(i))) return false;
    return this.note(FLAG.invalid | FLAG.stack) ? 'masked' : 'ends';
  }

  // ----------------------------------------------------------------------------------- arithmetic

  private environment(precision?: number): Environment {
    const rounding = ROUNDING[(this.state.control >> 10) & 3]!;
    const bounded = precision === undefined ? {} : { precision };
    return { rounding, tininess: 'after', nan: nanOf, ...bounded };
  }

  private get precision(): number {
    return PRECISION[(this.state.control >> 8) & 3]!;
  }

  /** @param precision  bits that are asked for; all where the control word has no say */
  private compute(operation: Operation, sources: readonly Source[], precision?: number): Outcome {
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
  private scaled(operation: Operation, env: Environment, operands: readonly bigint[]): Outcome | null {
    const wide = operands.map((each) => convert(EXTENDED, WIDE, this.environment(), each).bits);
    const { bits, flags } = operation(WIDE, env, wide);
    const { kind, sign, magnitude, exponent } = unpack(WIDE, bits);
    if (kind !== 'finite' || magnitude === 0n) return null;
    const leading = exponent + magnitude.toString(2).length - 1;
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

  /** An operation on a register and something, into the register; then so many pops. */
  private binary(which: number, target: number, source: Source | number, pops: number): void {
    const registers = typeof source === 'number' ? [target, source] : [target];
    const fault = this.underflows(...registers);
    if (fault === 'ends') return;
    if (fault === 'masked') this.set(target, INDEFINITE);
    else {
      const second = typeof source === 'number' ? sourceOf(this.get(source)) : source;
      const { value, flags, up } = this.compute(BINARY[which]!, [sourceOf(this.get(target)), second], this.precision);
      if (!this.note(flags, up)) return;
      this.set(target, value);
    }
    this.pop(pops);
  }

  private unary(operation: Operation, precision?: number): void {
    this.replace(() => this.compute(operation, [sourceOf(this.get(0))], precision));
  }

  /**
   * Replaces the top of the stack, which must not be empty, nor the others.
   * @returns whether the result is there
   */
  private replace(result: () => Outcome, ...others: readonly number[]): boolean {
    const fault = this.underflows(0, ...others);
    if (fault === 'masked') this.set(0, INDEFINITE);
    if (fault) return false;
    const { value, flags, up } = result();
    if (!this.note(flags, up)) return false;
    this.set(0, value);
    return true;
  }

  // ----------------------------------------------------------------------------------- comparisons

  /** @param into  the codes of the status word, or ZF, PF and CF */
  private compare(source: Source | number, signals: boolean, pops: number, into: 'codes' | 'flags' = 'codes'): void {
    const fault = this.underflows(...(typeof source === 'number' ? [0, source] : [0]));
    let relation: ReturnType<typeof compare>['relation'] = 'unordered';
    let ends = fault === 'ends';
    if (!fault) {
      const first = sourceOf(this.get(0));
      const second = typeof source === 'number' ? sourceOf(this.get(source)) : source;
      let flags: number = FLAG.invalid;
      if (!first.isUnsupported && !second.isUnsupported) {
        const compared = compare(EXTENDED, first.bits, second.bits, signals);
        ({ relation } = compared);
        const isDenormal = relation !== 'unordered' && (first.isDenormal || second.isDenormal);
        flags = flagsOf(compared.flags) | (isDenormal ? FLAG.denormal : 0);
      }
      ends = !this.note(flags);
    }
    if (into === 'flags') {
      this.state.flags = { unordered: 0x45, greater: 0, less: 1, equal: 0x40 }[relation];
    } else {
      const { c0, c2, c3 } = CODE;
      this.codes({ unordered: c0 | c2 | c3, greater: 0, less: c0, equal: c3 }[relation], CODES & ~CODE.c1);
    }
    if (!ends) this.pop(pops);
  }

  private codes(bits: number, among: number = CODES): void {
    this.state.status = (this.state.status & ~among) | bits;
  }

  private examine(): void {
    const value = this.get(0);
    const { bits, isDenormal, isUnsupported } = sourceOf(value);
    const { c0, c2, c3 } = CODE;
    const magnitude = value & ~SIGN;
    const kind = this.isEmpty(0) ? c3 | c0
      : isUnsupported ? 0
      : isNan(EXTENDED, bits) ? c0
      : magnitude === INFINITE ? c2 | c0
      : magnitude === 0n ? c3
      : isDenormal ? c3 | c2
      : c2; // prettier-ignore
    this.codes(kind | ((value & SIGN) === 0n ? 0 : CODE.c1));
  }

  // ----------------------------------------------------------------------------- other operations

  private scale(): Outcome {
    const [number, by] = [sourceOf(this.get(0)), sourceOf(this.get(1))];
    if (number.isUnsupported || by.isUnsupported) return INVALID;
    const count = unpack(EXTENDED, by.bits);
    const isNanAmong = isNan(EXTENDED, number.bits) || isNan(EXTENDED, by.bits);
    if (isNanAmong) return this.compute(BINARY[0]!, [number, by]);
    const value = unpack(EXTENDED, number.bits);
    if (count.kind === 'infinite') {
      const isInvalid =
        count.sign === 1 ? value.kind === 'infinite' : value.kind === 'finite' && value.magnitude === 0n;
      if (isInvalid) return INVALID;
      const magnitude = count.sign === 1 ? 0n : INFINITE;
      const flags = number.isDenormal ? FLAG.denormal : 0;
      return { value: value.sign === 1 ? magnitude | SIGN : magnitude, flags, up: false };
    }
    // Larger ones leave every bound behind too.
    const limit = 1n << 17n;
    const whole = toInteger(EXTENDED, 'to-zero', by.bits, { bits: 64, signed: true });
    let shift = whole.kind === 'integer' ? whole.value : count.sign === 1 ? -limit : limit;
    shift = shift > limit ? limit : shift < -limit ? -limit : shift;
    const operation: Operation = (of, env, [bits]) => {
      const { kind, sign, magnitude, exponent } = unpack(of, bits!);
      return kind === 'finite' ? pack(of, env, sign, magnitude, exponent + Number(shift)) : { bits: bits!, flags: 0 };
    };
    const outcome = this.compute(operation, [number]);
    return by.isDenormal ? { ...outcome, flags: outcome.flags | FLAG.denormal } : outcome;
  }

  /** `fprem`, `fprem1`. An invalid one leaves C0 and C3 as they are. */
  private remainder(isNearest: boolean): void {
    let codes: number | null = null;
    const isDone = this.replace(() => {
      const [first, second] = [sourceOf(this.get(0)), sourceOf(this.get(1))];
      if (first.isUnsupported || second.isUnsupported) return INVALID;
      const [x, y] = [unpack(EXTENDED, first.bits), unpack(EXTENDED, second.bits)];
      if (x.kind === 'nan' || y.kind === 'nan') return this.compute(BINARY[0]!, [first, second]);
      if (x.kind === 'infinite' || (y.kind === 'finite' && y.magnitude === 0n)) return INVALID;
      codes = 0;
      let rest: Omit<Unpacked, 'kind'> = x;
      if (y.kind !== 'infinite' && x.magnitude !== 0n) ({ codes, ...rest } = remainderOf(x, y, isNearest));
      // Exact, but where underflow is not masked it may be one.
      return this.compute((of, env) => pack(of, env, rest.sign, rest.magnitude, rest.exponent), [first, second]);
    }, 1);
    if (isDone && codes !== null) this.codes(codes);
    else this.codes(0, CODE.c1 | CODE.c2);
  }

  /** `fxtract`: the exponent, and above it the significand. */
  private extract(): void {
    const fault = this.underflows(0);
    if (fault === 'ends') return;
    const value = this.get(0);
    const source = sourceOf(value);
    const number = unpack(EXTENDED, source.bits);
    let [exponent, significand, flags]: [Extended, Extended, number] = [INDEFINITE, INDEFINITE, 0];
    if (!fault) {
      if (!this.isEmpty(7)) {
        if (!this.note(FLAG.invalid | FLAG.stack, true)) return;
      } else {
        if (source.isUnsupported) flags = FLAG.invalid;
        else if (number.kind === 'nan') {
          const quiet = this.compute((of, env, [a]) => convert(of, of, env, a!), [source]);
          [exponent, significand, flags] = [quiet.value, quiet.value, quiet.flags];
        } else if (number.kind === 'infinite') [exponent, significand] = [INFINITE, value];
        else if (number.magnitude === 0n) [exponent, significand, flags] = [INFINITE | SIGN, value, FLAG.divide];
        else {
          const digits = number.magnitude.toString(2).length;
          exponent = extendedOf(integerSource(BigInt(number.exponent + digits - 1)).bits);
          significand = (value & SIGN) | (ONE & ~SIGNIFICAND) | (number.magnitude << BigInt(64 - digits));
          flags = source.isDenormal ? FLAG.denormal : 0;
        }
        if (!this.note(flags)) return;
      }
    }
    this.set(0, exponent);
    this.turn(-1);
    this.set(0, significand);
  }

  // ---------------------------------------------------------------------- transcendental functions

  /** A computed result with the exceptions of its operands. It is never called exact. */
  private rounded({ sign, magnitude, exponent, more }: Computed, sources: readonly Source[]): Outcome {
    const outcome = this.compute((of, env) => pack(of, env, sign, magnitude, exponent, more), sources);
    // So one that is exact and tiny is an underflow, too.
    const isTiny = exponentOf(outcome.value) === 0 && (outcome.value & SIGNIFICAND) !== 0n;
    return { ...outcome, flags: outcome.flags | FLAG.precision | (isTiny ? FLAG.underflow : 0) };
  }

  /** What NaNs and what is no number give; null: the operands are numbers. */
  private unordinary(sources: readonly Source[]): Outcome | null {
    if (sources.some((each) => each.isUnsupported)) return INVALID;
    if (!sources.some((each) => isNan(EXTENDED, each.bits))) return null;
    const [first, second = first] = sources;
    return this.compute(BINARY[0]!, [first!, second!]);
  }

  /**
   * `fsin` and its kin: replaces the top, and pushes another result or 1. An angle of 2^63 or more
   * stays as it is, which C2 tells.
   */
  private angle(which: 'sine' | 'cosine' | 'tangent', pushed: 'cosine' | 'one' | null): void {
    this.codes(0, CODE.c2);
    const fault = this.underflows(0);
    if (fault === 'ends') return;
    let results: readonly Outcome[] = [INVALID, INVALID];
    if (!fault) {
      const source = sourceOf(this.get(0));
      const number = unpack(EXTENDED, source.bits);
      const isFull = pushed !== null && !this.isEmpty(7);
      if (isFull) {
        if (!this.note(FLAG.invalid | FLAG.stack, true)) return;
      } else if (number.kind === 'finite' && !source.isUnsupported && exponentOf(this.get(0)) >= 0x3fff + 63) {
        this.codes(CODE.c2, CODE.c1 | CODE.c2);
        return;
      } else {
        results = this.angles(source, which, pushed);
        if (
          !this.note(
            results.reduce((sum, { flags }) => sum | flags, 0),
            results[0]!.up,
          )
        )
          return;
      }
    }
    this.set(0, results[0]!.value);
    if (pushed === null) return;
    this.turn(-1);
    this.set(0, results[1]!.value);
  }

  /** The results of `angle`. */
  private angles(source: Source, which: 'sine' | 'cosine' | 'tangent', pushed: 'cosine' | 'one' | null): Outcome[] {
    const number = unpack(EXTENDED, source.bits);
    const strange = number.kind === 'infinite' ? INVALID : this.unordinary([source]);
    if (strange) return [strange, strange];
    const one: Outcome = { value: ONE, flags: 0, up: false };
    const isZero = number.magnitude === 0n;
    const functions = isZero ? null : trigonometric(number);
    const result = (name: typeof which): Outcome => {
      if (functions) return this.rounded(functions[name], [source]);
      return name === 'cosine' ? one : { value: extendedOf(source.bits), flags: 0, up: false };
    };
    return [result(which), pushed === 'cosine' ? result('cosine') : one];
  }

  /** A function of the second and the first register, in place of both. */
  private ofTwo(result: (y: Unpacked, x: Unpacked, sources: readonly Source[]) => Outcome): void {
    const fault = this.underflows(0, 1);
    if (fault === 'ends') return;
    let value = INDEFINITE;
    if (!fault) {
      const sources = [sourceOf(this.get(1)), sourceOf(this.get(0))];
      const [y, x] = sources.map((each) => unpack(EXTENDED, each.bits));
      const outcome = this.unordinary(sources) ?? result(y!, x!, sources);
      if (!this.note(outcome.flags, outcome.up)) return;
      ({ value } = outcome);
    }
    this.set(1, value);
    this.pop();
  }

  private arcTangent(): void {
    this.ofTwo((y, x, sources) => {
      const [isZeroX, isZeroY] = [isZero(x), isZero(y)];
      if (isZeroY || (x.kind === 'infinite' && y.kind !== 'infinite')) {
        if (x.sign === 0) return { ...signed(0n, y.sign), flags: denormalsOf(sources) };
        return this.rounded(quarterTurns(4, y.sign), sources);
      }
      if (y.kind === 'infinite') {
        const quarters = x.kind !== 'infinite' ? 2 : x.sign === 1 ? 3 : 1;
        return this.rounded(quarterTurns(quarters, y.sign), sources);
      }
      return this.rounded(isZeroX ? quarterTurns(2, y.sign) : angleOf(y, x), sources);
    });
  }

  /** `fyl2x`. */
  private logarithm(): void {
    this.ofTwo((y, x, sources) => {
      if (x.sign === 1 && !isZero(x)) return INVALID;
      // The logarithm: its sign, whether it is 0 or infinite.
      const place = x.kind === 'infinite' ? 1 : isZero(x) ? -1 : compareWithOne(x);
      const sign = place < 0 === (y.sign === 1) ? 0 : 1;
      const isInfinite = x.kind === 'infinite' || isZero(x);
      if ((isInfinite && isZero(y)) || (place === 0 && y.kind === 'infinite')) return INVALID;
      if (isInfinite || y.kind === 'infinite') {
        const flags = isZero(x) && y.kind !== 'infinite' ? FLAG.divide : denormalsOf(sources);
        return { ...signed(INFINITE, sign), flags };
      }
      if (place === 0 || isZero(y)) return { ...signed(0n, sign), flags: denormalsOf(sources) };
      return this.rounded(timesLogarithm(y, x), sources);
    });
  }

  /** `fyl2xp1`. From -1 down the manual leaves the result open: the number itself. */
  private logarithmOfMore(): void {
    this.ofTwo((y, x, sources) => {
      if (x.sign === 1 && x.kind === 'infinite') return INVALID;
      const sign = x.sign === y.sign ? 0 : 1;
      if (x.kind === 'infinite' || y.kind === 'infinite') {
        return isZero(x) || isZero(y) ? INVALID : { ...signed(INFINITE, sign), flags: denormalsOf(sources) };
      }
      if (isZero(x) || isZero(y)) return { ...signed(0n, sign), flags: denormalsOf(sources) };
      const flags = FLAG.precision | denormalsOf(sources);
      if (x.sign === 1 && leadingOf(x) >= 0) return { value: this.get(0), flags, up: false };
      return this.rounded(timesLogarithmOfMore(y, x), sources);
    });
  }

  /** `f2xm1`. Beyond 1 the manual leaves the result open: the number itself. */
  private power(): void {
    this.replace(() => {
      const source = sourceOf(this.get(0));
      const strange = this.unordinary([source]);
      if (strange) return strange;
      const x = unpack(EXTENDED, source.bits);
      const own: Outcome = { value: extendedOf(source.bits), flags: 0, up: false };
      if (x.kind === 'infinite') return x.sign === 1 ? { ...own, value: ONE | SIGN } : own;
      if (isZero(x)) return own;
      const isBeyond = leadingOf(x) > 0 || (leadingOf(x) === 0 && (x.magnitude & (x.magnitude - 1n)) !== 0n);
      return isBeyond ? { ...own, flags: FLAG.precision } : this.rounded(powerLessOne(x), [source]);
    });
  }

  // ------------------------------------------------------------------------------ loads and stores

  /** A denormal number is noted and pushed, whether that is masked or not. */
  private load(of: Format, bits: bigint): void {
    const source = widened(of, bits);
    const { value, flags } = this.compute((to, env, [a]) => convert(to, to, env, a!), [source]);
    const isFull = !this.isEmpty(7);
    this.push({ value, flags: flags & ~FLAG.denormal, up: false });
    if (!isFull) this.note(flags & FLAG.denormal);
  }

  /** `fst` to memory in a narrower format. */
  private store(of: Format, pops: number): void {
    const bytes = of === BINARY32 ? 4 : 8;
    const fault = this.underflows(0);
    if (fault === 'ends') return;
    let bits = defaultNan(of);
    if (!fault) {
      const source = sourceOf(this.get(0));
      let flags: number = FLAG.invalid;
      let up = false;
      if (!source.isUnsupported) {
        const env = this.environment();
        const result = convert(EXTENDED, of, env, source.bits);
        flags = flagsOf(result.flags);
        ({ bits } = result);
        const inward = (): bigint => convert(EXTENDED, of, { ...env, rounding: 'to-zero' }, source.bits).bits;
        up = (flags & FLAG.precision) !== 0 && inward() !== bits;
        // Where underflow is not masked, an exact result is one too.
        if (isSubnormal(of, bits) && (this.state.control & FLAG.underflow) === 0) flags |= FLAG.underflow;
      }
      const ends = (flags & ~this.state.control & (FLAG.overflow | FLAG.underflow)) !== 0;
      if (ends) [flags, up] = [flags & ~FLAG.precision, false];
      if (!this.note(flags, up) || ends) return;
    }
    this.state.memory.write(bytes, bits);
    this.pop(pops);
  }

  private storeInteger(bytes: 2 | 4 | 8, truncates: boolean, pops: number): void {
    this.storeWhole(bytes, { bits: 8 * bytes, truncates, none: 1n << BigInt(8 * bytes - 1) }, pops, (value) =>
      BigInt.asUintN(8 * bytes, value),
    );
  }

  /** @param encode  the integer as bytes; null where they cannot hold it */
  private storeWhole(
    bytes: number,
    { bits, truncates, none }: { readonly bits: number; readonly truncates: boolean; readonly none: bigint },
    pops: number,
    encode: (value: bigint, sign: 0 | 1) => bigint | null,
  ): void {
    const fault = this.underflows(0);
    if (fault === 'ends') return;
    let stored = none;
    if (!fault) {
      const source = sourceOf(this.get(0));
      const { sign } = unpack(EXTENDED, source.bits);
      const rounding = truncates ? 'to-zero' : this.environment().rounding;
      const whole = toInteger(EXTENDED, rounding, source.bits, { bits, signed: true });
      let flags: number = FLAG.invalid;
      let up = false;
      const encoded = whole.kind === 'integer' && !source.isUnsupported ? encode(whole.value, sign) : null;
      if (whole.kind === 'integer' && encoded !== null) {
        stored = encoded;
        flags = flagsOf(whole.flags);
        const inward = toInteger(EXTENDED, 'to-zero', source.bits, { bits, signed: true });
        up = inward.kind === 'integer' && inward.value !== whole.value;
      }
      if (!this.note(flags, up)) return;
    }
    this.state.memory.write(bytes, stored);
    this.pop(pops);
  }

  /** `fbstp`: 18 decimal digits and a sign. */
  private storeDecimal(): void {
    const none = 0xffff_c000_0000_0000_0000n;
    this.storeWhole(10, { bits: 64, truncates: false, none }, 1, (value, sign) => {
      const digits = (value < 0n ? -value : value).toString();
      return digits.length > 18 ? null : BigInt(`0x${digits}`) | (sign === 1 ? SIGN : 0n);
    });
  }

  /** `fbld`. Digits above nine count as what they are. */
  private loadDecimal(): void {
    const packed = this.state.memory.read(10);
    let value = 0n;
    for (let place = 17n; place >= 0n; place--) value = 10n * value + ((packed >> (4n * place)) & 15n);
    const magnitude = extendedOf(integerSource(value).bits);
    this.push({ value: (packed & SIGN) | magnitude, flags: 0, up: false });
  }

  /** `fst`, `fstp` to a register, or as they are to memory. */
  private copy(to: number | 'memory', pops: number): void {
    const fault = this.underflows(0);
    if (fault === 'ends') return;
    if (!fault) this.note(0);
    const value = fault ? INDEFINITE : this.get(0);
    if (to === 'memory') this.state.memory.write(10, value);
    else this.set(to, value);
    this.pop(pops);
  }

  private duplicate(i: number): void {
    const fault = this.underflows(i);
    if (fault === 'ends') return;
    if (!fault) {
      this.push({ value: this.get(i), flags: 0, up: false });
      return;
    }
    this.turn(-1);
    this.set(0, INDEFINITE);
  }

  private exchange(i: number): void {
    const fault = this.underflows(0, i);
    if (fault === 'ends') return;
    if (!fault) this.note(0);
    const [first, second] = [0, i].map((each) => (this.isEmpty(each) ? INDEFINITE : this.get(each)));
    this.set(0, second!);
    this.set(i, first!);
  }

  private conditional(i: number, holds: boolean): void {
    const fault = this.underflows(0, i);
    if (fault === 'masked') this.set(0, INDEFINITE);
    if (fault) return;
    if (holds) this.set(0, this.get(i));
  }

  private constant(which: number): void {
    const [significand, exponent, isNextNearer] = CONSTANTS[which]!;
    const { rounding } = this.environment();
    const isExact = significand === 0n || which === 0;
    const isNext = !isExact && (rounding === 'up' || (rounding === 'nearest-even' && isNextNearer));
    this.push({ value: (exponent << 64n) | (isNext ? significand + 1n : significand), flags: 0, up: false });
  }

  // ------------------------------------------------------------------------------- the environment

  /** Two bits for each register: valid, 0, special, empty. */
  private tagWord(): number {
    let word = 0;
    for (let i = 0; i < 8; i++) {
      const value = this.state.registers.get(i);
      const isNormal = (value & INTEGER_BIT) !== 0n && exponentOf(value) !== 0 && exponentOf(value) !== 0x7fff;
      const isFull = ((this.state.tags >> i) & 1) === 1;
      word |= (!isFull ? 3 : (value & ~SIGN) === 0n ? 1 : isNormal ? 0 : 2) << (2 * i);
    }
    return word;
  }

  private environmentBits(size: 2 | 4): bigint {
    const { control, status, pointers } = this.state;
    const field = size === 2 ? 0xffffn : 0xffff_ffffn;
    const high = size === 2 ? 0n : 0xffff_0000n;
    const words = [
      BigInt(control) | high,
      BigInt(status) | high,
      BigInt(this.tagWord()) | high,
      pointers.instruction & field,
      size === 2 ? 0n : BigInt(pointers.opcode) << 16n,
      pointers.operand & field,
      high,
    ];
    return words.reduceRight((sum, each) => (sum << BigInt(8 * size)) | each, 0n);
  }

  private loadEnvironmentBits(size: 2 | 4, bits: bigint): void {
    const { state } = this;
    const word = (i: number): bigint => BigInt.asUintN(8 * size, bits >> BigInt(8 * size * i));
    const tags = Number(word(2) & 0xffffn);
    state.tags = 0;
    for (let i = 0; i < 8; i++) if (((tags >> (2 * i)) & 3) !== 3) state.tags |= 1 << i;
    state.pointers = {
      opcode: size === 2 ? 0 : Number((word(4) >> 16n) & 0x7ffn),
      instruction: word(3),
      operand: word(5),
    };
    state.control = (Number(word(0)) & 0x1f3f) | 0x40;
    this.setStatus(Number(word(1) & 0xffffn));
  }

  /** A status word that is loaded: whether an exception is pending follows from the masks. */
  private setStatus(status: number): void {
    const isPending = (status & ~this.state.control & EXCEPTIONS) !== 0;
    this.state.status = (status & ~X87_PENDING) | (isPending ? X87_PENDING : 0);
  }

  private storeEnvironment(size: 2 | 4): void {
    this.state.memory.write(ENVIRONMENT[size], this.environmentBits(size));
    this.state.control |= EXCEPTIONS;
    this.state.status &= ~X87_PENDING;
  }

  /** `fnsave`: the environment and the registers from the top; then as `fninit`. */
  private save(size: 2 | 4): void {
    const bytes = ENVIRONMENT[size];
    let image = this.environmentBits(size);
    for (let i = 0; i < 8; i++) image |= this.get(i) << BigInt(8 * (bytes + 10 * i));
    this.state.memory.write(bytes + REGISTER_BYTES, image);
    this.state.control = 0x37f;
    this.state.status = this.state.tags = 0;
    this.state.pointers = { opcode: 0, instruction: 0n, operand: 0n };
  }

  private restore(size: 2 | 4): void {
    const bytes = ENVIRONMENT[size];
    const image = this.state.memory.read(bytes + REGISTER_BYTES);
    this.loadEnvironmentBits(size, image);
    for (let i = 0; i < 8; i++) {
      const value = BigInt.asUintN(80, image >> BigInt(8 * (bytes + 10 * i)));
      this.state.registers.set(this.number(i), value);
    }
  }

  // ------------------------------------------------------------------------------------- decoding

  /** An instruction with an operand in memory. */
  withMemory(opcode: number, reg: number, size: 2 | 4): void {
    const { memory } = this.state;
    if ((opcode & 1) === 0 && opcode < 7) {
      const integer = (bytes: number): Source => integerSource(BigInt.asIntN(8 * bytes, memory.read(bytes)));
      const read = [
        () => widened(BINARY32, memory.read(4)),
        () => integer(4),
        () => widened(BINARY64, memory.read(8)),
        () => integer(2),
      ];
      const source = read[opcode >> 1]!();
      if (reg === 2 || reg === 3) this.compare(source, true, reg - 2);
      else this.binary(reg, 0, source, 0);
      return;
    }
    const bytes = ({ 3: 4, 5: 8, 7: 2 } as const)[opcode as 3 | 5 | 7];
    const of = opcode === 1 ? BINARY32 : BINARY64;
    const loadInteger = (width: number): void => {
      const value = BigInt.asIntN(8 * width, memory.read(width));
      this.push({ value: extendedOf(integerSource(value).bits), flags: 0, up: false });
    };
    switch (`${opcode}/${reg}`) {
      case '1/0': case '5/0': this.load(of, memory.read(of === BINARY32 ? 4 : 8)); break;
      case '1/2': case '5/2': this.store(of, 0); break;
      case '1/3': case '5/3': this.store(of, 1); break;
      case '1/4': this.loadEnvironmentBits(size, memory.read(ENVIRONMENT[size])); break;
      case '1/6': this.storeEnvironment(size); break;
      case '5/4': this.restore(size); break;
      case '5/6': this.save(size); break;
      case '3/0': case '7/0': loadInteger(bytes); break;
      case '3/1': case '5/1': case '7/1': this.storeInteger(bytes, true, 1); break;
      case '3/2': case '7/2': this.storeInteger(bytes, false, 0); break;
      case '3/3': case '7/3': this.storeInteger(bytes, false, 1); break;
      case '3/5': this.push({ value: memory.read(10), flags: 0, up: false }); break;
      case '3/7': this.copy('memory', 1); break;
      case '7/4': this.loadDecimal(); break;
      case '7/5': loadInteger(8); break;
      case '7/6': this.storeDecimal(); break;
      case '7/7': this.storeInteger(8, false, 1); break;
    } // prettier-ignore
  }

  /** An instruction on registers. */
  withRegisters(opcode: number, modRm: number): void {
    const [reg, i] = [(modRm >> 3) & 7, modRm & 7];
    switch (opcode) {
      case 0:
        if (reg === 2 || reg === 3) this.compare(i, true, reg - 2);
        else this.binary(reg, 0, i, 0);
        break;
      case 4:
      case 6:
        // fcompp; of differences and quotients the encodings are the other way round.
        if (modRm === 0xd9) this.compare(1, true, 2);
        else this.binary(reg < 4 ? reg : reg ^ 1, i, 0, opcode === 6 ? 1 : 0);
        break;
      case 1:
        this.single(modRm);
        break;
      case 2:
      case 3:
        this.conditions(opcode, reg, i);
        break;
      case 5:
        this.moves(reg, i);
        break;
      default:
        if (reg === 0) {
          this.free(i);
          this.pop();
          this.codes(0, CODE.c1);
        } else this.compare(i, reg === 6, 1, 'flags');
    }
  }

  /** da and db: `fcmov`, `fcomi`, `fucomi`, `fucompp`. */
  private conditions(opcode: number, reg: number, i: number): void {
    if (reg >= 5) {
      if (opcode === 2) this.compare(1, false, 2);
      else this.compare(i, reg === 6, 0, 'flags');
      return;
    }
    const { flags } = this.state;
    const holds = (flags & [1, 0x40, 0x41, 4][reg]!) !== 0;
    this.conditional(i, opcode === 2 ? holds : !holds);
  }

  /** dd: `ffree`, `fst`, `fucom`. */
  private moves(reg: number, i: number): void {
    if (reg === 0) {
      this.free(i);
      this.codes(0, CODE.c1);
    } else if (reg < 4) this.copy(i, reg - 2);
    else this.compare(i, false, reg - 4);
  }

  /** d9 with a register, or without operands. */
  private single(modRm: number): void {
    const i = modRm & 7;
    if (modRm < 0xc8) {
      this.duplicate(i);
      return;
    }
    if (modRm < 0xd0) {
      this.exchange(i);
      return;
    }
    if (modRm >= 0xe8 && modRm < 0xef) {
      this.constant(modRm - 0xe8);
      return;
    }
    switch (modRm) {
      case 0xe0: this.replace(() => ({ value: this.get(0) ^ SIGN, flags: 0, up: false })); break;
      case 0xe1: this.replace(() => ({ value: this.get(0) & ~SIGN, flags: 0, up: false })); break;
      case 0xe4: this.compare(sourceOf(0n), true, 0); break;
      case 0xe5: this.examine(); break;
      case 0xf0: this.power(); break;
      case 0xf1: this.logarithm(); break;
      case 0xf2: this.angle('tangent', 'one'); break;
      case 0xf3: this.arcTangent(); break;
      case 0xf9: this.logarithmOfMore(); break;
      case 0xfb: this.angle('sine', 'cosine'); break;
      case 0xfe: this.angle('sine', null); break;
      case 0xff: this.angle('cosine', null); break;
      case 0xf4: this.extract(); break;
      case 0xf5: this.remainder(true); break;
      case 0xf6: this.turn(-1); this.codes(0, CODE.c1); break;
      case 0xf7: this.turn(1); this.codes(0, CODE.c1); break;
      case 0xf8: this.remainder(false); break;
      case 0xfa: this.unary((of, env, [a]) => squareRoot(of, env, a!), this.precision); break;
      case 0xfc: this.unary((of, env, [a]) => roundToIntegral(of, env, a!, true)); break;
      case 0xfd: this.replace(() => this.scale(), 1); break;
    } // prettier-ignore
  }
}

/** Bytes of the operand in memory, and how it is accessed. */
export function x87Access(
  opcode: number,
  reg: number,
  size: 2 | 4,
): { readonly bytes: number; readonly access: 'read' | 'write' } {
  if ((opcode & 1) === 0) return { bytes: [4, 4, 8, 2][opcode >> 1]!, access: 'read' };
  const environment = ENVIRONMENT[size];
  const whole = environment + REGISTER_BYTES;
  const bytes = {
    1: [4, 0, 4, 4, environment, 2, environment, 2],
    3: [4, 4, 4, 4, 0, 10, 0, 10],
    5: [8, 8, 8, 8, whole, 0, whole, 2],
    7: [2, 2, 2, 2, 10, 8, 10, 8],
  }[opcode as 1 | 3 | 5 | 7][reg]!;
  const isLoad = reg === 0 || (opcode !== 3 && reg === 4) || reg === 5;
  return { bytes, access: isLoad ? 'read' : 'write' };
}

/** Control instructions: they leave the pointers of the last instruction alone. */
export const isX87Control = (opcode: number, modRm: number): boolean =>
  modRm < 0xc0 &&
  ((opcode === 1 && ((modRm >> 3) & 7) >= 4) || (opcode === 5 && /[46]/.test(String((modRm >> 3) & 7))));

/** True of instructions that do not wait for exceptions that are noted. */
export const isX87Unwaiting = (opcode: number, modRm: number): boolean =>
  modRm < 0xc0 && ((modRm >> 3) & 7) === 6 && (opcode === 1 || opcode === 5);
