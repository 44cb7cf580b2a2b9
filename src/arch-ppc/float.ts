/**
 * Floating point of PowerPC on bits: what instructions compute under a value of FPSCR, and what
 * they leave there, for any operands. The slow way, which the lifter takes where the processor of
 * the host does not give the same by itself.
 *
 * - Registers hold doubles. Instructions on singles round once, to single, and give a double.
 * - The NaN of an operation is its first operand that is one, made quiet; of a fused operation the
 *   addend stands before the second factor.
 * - Whether a result is tiny is asked before rounding.
 * - FR, FI and FPRF tell of the last instruction alone; FX, VX and FEX are put together from the
 *   others. An exception that is enabled is a trap.
 * - What the manual leaves open is what QEMU gives: reciprocal estimates are the rounded numbers,
 *   words in registers are sign-extended or zero-extended. FPRF after conversions to integers is 0.
 *
 * Source: Power ISA 2.07B, Book I, chapters 4, 6 and 7.
 */
import {
  add,
  BINARY128,
  BINARY32,
  BINARY64,
  classify,
  compare,
  convert,
  divide,
  EXCEPTION,
  fromInteger,
  isNan,
  isSignalling,
  multiply,
  multiplyAdd,
  quieted,
  roundToIntegral,
  squareRoot,
  subtract,
  toInteger,
} from '../float/index.js';
import type { Environment, Format, NumberClass, Result, Rounding } from '../float/index.js';
import { FLOAT_MODE } from '../machine/float-ops.js';

/** Bits of the low word of FPSCR. */
export const FPSCR = {
  fx: 0x8000_0000, fex: 0x4000_0000, vx: 0x2000_0000, ox: 0x1000_0000, ux: 0x0800_0000, zx: 0x0400_0000, xx: 0x0200_0000,
  vxsnan: 0x0100_0000, vxisi: 0x0080_0000, vxidi: 0x0040_0000, vxzdz: 0x0020_0000, vximz: 0x0010_0000, vxvc: 0x0008_0000,
  fr: 0x0004_0000, fi: 0x0002_0000, fprf: 0x0001_f000, fpcc: 0x0000_f000, vxsoft: 0x400, vxsqrt: 0x200, vxcvi: 0x100,
  ve: 0x80, oe: 0x40, ue: 0x20, ze: 0x10, xe: 0x08, ni: 0x04, rn: 0x03,
} as const; // prettier-ignore
const FPRF_SHIFT = 12;
const { vxsnan, vxisi, vxidi, vxzdz, vximz, vxvc, vxsoft, vxsqrt, vxcvi } = FPSCR;
const INVALID = vxsnan | vxisi | vxidi | vxzdz | vximz | vxvc | vxsoft | vxsqrt | vxcvi;
const ENABLES = FPSCR.ve | FPSCR.oe | FPSCR.ue | FPSCR.ze | FPSCR.xe;
/** What `mcrfs` takes away, and what sets FX when it is set. */
export const EXCEPTIONS = INVALID | FPSCR.ox | FPSCR.ux | FPSCR.zx | FPSCR.xx;
/** Reserved. */
const RESERVED = 0x800;
export const STATUS_MASKS = { invalid: INVALID, enables: ENABLES, reserved: RESERVED } as const;

const ROUNDING: readonly Rounding[] = ['nearest-even', 'to-zero', 'up', 'down'];

/** FX, and FEX and VX, as the other bits say. */
function summarised(bits: number): number {
  const vx = (bits & INVALID) !== 0;
  const enabled =
    (vx && (bits & FPSCR.ve) !== 0) || // OX UX ZX XX stand above OE UE ZE XE in the same order
    ((bits >>> 22) & bits & (FPSCR.oe | FPSCR.ue | FPSCR.ze | FPSCR.xe)) !== 0;
  const rest = bits & ~(FPSCR.fex | FPSCR.vx | RESERVED);
  return (rest | (vx ? FPSCR.vx : 0) | (enabled ? FPSCR.fex : 0)) >>> 0;
}

/** FPSCR with other bits, FEX and VX put right. */
export const withBits = (fpscr: number, mask: number, bits: number): number =>
  summarised((fpscr & ~mask) | (bits & mask));

export const isTrapping = (fpscr: number): boolean => (fpscr & FPSCR.fex) !== 0;

/** The mode of the ops of floating point. */
export function modeOf(fpscr: number): bigint {
  if ((fpscr & ENABLES) !== 0) return FLOAT_MODE.other;
  const rn = fpscr & FPSCR.rn;
  if ((fpscr & FPSCR.xx) === 0) return rn === 0 ? FLOAT_MODE.nearest : FLOAT_MODE.other;
  return [FLOAT_MODE.inexact, FLOAT_MODE.toZero, FLOAT_MODE.up, FLOAT_MODE.down][rn]!;
}

const CLASS: Readonly<Record<NumberClass, number>> = {
  'quiet NaN': 0x11, 'signalling NaN': 0x11, 'negative infinity': 0x09, 'negative normal': 0x08, 'negative subnormal': 0x18,
  'negative zero': 0x12, 'positive zero': 0x02, 'positive subnormal': 0x14, 'positive normal': 0x04, 'positive infinity': 0x05,
}; // prettier-ignore

// ------------------------------------------------------------------------------------ arithmetic

/**
 * Operations; operands of the fused ones are in the order a * b + c. `rsqrte` is 1 over the square
 * root.
 */
export type Operation = 'add' | 'sub' | 'mul' | 'div' | 'sqrt' | 'madd' | 'msub' | 'nmadd' | 'nmsub' | 're' | 'rsqrte';
/** Those that are rounded once. */
type Exact = Exclude<Operation, 'rsqrte'>;

/** A result, the exceptions of IEEE 754, and bits VX* of FPSCR. */
interface Outcome extends Result {
  readonly invalid: number;
}

const one = ({ infinity, fractionBits }: Format): bigint =>
  (infinity >> BigInt(fractionBits + 1)) << BigInt(fractionBits);
const isFused = (operation: Operation): boolean => operation.endsWith('madd') || operation.endsWith('msub');
const isZero = (of: Format, bits: bigint): boolean => (bits & ~of.signBit) === 0n;
const isInfinite = (of: Format, bits: bigint): boolean => (bits & ~of.signBit) === of.infinity;

/** Operands in the order in which the first NaN is the result. */
const inOrder = (operands: readonly bigint[]): readonly bigint[] =>
  operands.length === 3 ? [operands[0]!, operands[2]!, operands[1]!] : operands;

function environment(from: Format, rounding: Rounding): Environment {
  return {
    rounding,
    tininess: 'before',
    nan: (to, operands) => {
      const found = inOrder(operands).find((each) => isNan(from, each));
      return found === undefined ? to.infinity | to.quietBit : quieted(from, to, found);
    },
  };
}

/** The operation as IEEE 754 has it. */
function computed(operation: Exact, of: Format, env: Environment, x: readonly bigint[]): Result {
  const [a, b, c] = [x[0]!, x[1]!, x[2]!];
  switch (operation) {
    case 'add':
      return add(of, env, a, b);
    case 'sub':
      return subtract(of, env, a, b);
    case 'mul':
      return multiply(of, env, a, b);
    case 'div':
      return divide(of, env, a, b);
    case 'sqrt':
      return squareRoot(of, env, a);
    case 're':
      return divide(of, env, one(of), a);
    case 'madd':
    case 'msub':
    case 'nmadd':
    case 'nmsub': {
      const addend = operation.endsWith('sub') && !isNan(of, c) ? c ^ of.signBit : c;
      return multiplyAdd(of, env, a, b, addend);
    }
    default:
      return operation satisfies never;
  }
}

/** Why an operation on numbers, or a product before a NaN is added, is invalid. */
function invalidCause(operation: Exact, of: Format, x: readonly bigint[]): number {
  const [a, b] = [x[0]!, x[1] ?? 0n];
  if (operation === 'add' || operation === 'sub') return vxisi;
  if (operation === 'sqrt') return vxsqrt;
  if (operation === 'div') return isZero(of, a) ? vxzdz : vxidi;
  const isProduct = (isZero(of, a) && isInfinite(of, b)) || (isInfinite(of, a) && isZero(of, b));
  return isProduct ? vximz : vxisi;
}

/**
 * An operation on numbers of one format, rounded once to another, which may be `BINARY32` of
 * doubles.
 */
function operate(operation: Operation, from: Format, to: Format, rounding: Rounding, x: readonly bigint[]): Outcome {
  if (operation === 'rsqrte') return reciprocalRoot(from, to, rounding, x);
  const nearest = (env: Environment): Result => computed(operation, from, env, x);
  let result: Result;
  if (from === to) result = nearest(environment(from, rounding));
  else {
    // Rounded to odd, a double has all that rounding to single needs.
    const odd = nearest(environment(from, 'to-zero'));
    if ((odd.flags & EXCEPTION.inexact) === 0) result = nearest(environment(from, rounding));
    else result = { bits: odd.bits | 1n, flags: odd.flags & ~(EXCEPTION.overflow | EXCEPTION.underflow) };
    if (!isNan(from, result.bits)) {
      const narrow = convert(from, to, environment(from, rounding), result.bits);
      result = { bits: narrow.bits, flags: narrow.flags | (result.flags & ~EXCEPTION.inexact) };
    } else result = { ...result, bits: quieted(from, to, result.bits) };
  }
  let invalid = 0;
  if ((result.flags & EXCEPTION.invalid) !== 0) {
    const isOfNans = x.some((each) => isNan(from, each));
    if (x.some((each) => isSignalling(from, each))) invalid |= vxsnan;
    const cause = invalidCause(operation, from, x);
    if (!isOfNans || (isFused(operation) && cause === vximz)) invalid |= cause;
  }
  const negates = operation.startsWith('n') && !isNan(to, result.bits);
  return { bits: negates ? result.bits ^ to.signBit : result.bits, flags: result.flags, invalid };
}

/** 1 over the root, which is rounded as well; what the root lost does not make the quotient odd. */
function reciprocalRoot(from: Format, to: Format, rounding: Rounding, x: readonly bigint[]): Outcome {
  const root = operate('sqrt', from, from, rounding, x);
  if (isNan(from, root.bits)) return operate('sqrt', from, to, rounding, x);
  const quotient = operate('div', from, to, rounding, [one(from), root.bits]);
  return { ...quotient, flags: quotient.flags | root.flags };
}

/** How a number is to be rounded to an integer: `null` is as FPSCR says. */
export type IntegralMode = Rounding | null;
export interface IntegerForm {
  readonly bits: 32 | 64;
  readonly signed: boolean;
}

/** One instruction under a value of FPSCR, which it changes. */
export class FloatUnit {
  private raised = 0;

  constructor(public fpscr: number) {}

  get rounding(): Rounding {
    return ROUNDING[this.fpscr & FPSCR.rn]!;
  }

  /** Whether the instruction raised an exception that is enabled. */
  get traps(): boolean {
    const { raised, fpscr } = this;
    return isTrapping(summarised(raised | (fpscr & ENABLES)));
  }

  /** Notes exceptions, by their bits. */
  raise(bits: number): void {
    this.raised |= bits;
    const fresh = (bits & ~this.fpscr) !== 0;
    this.fpscr = summarised(this.fpscr | bits | (fresh ? FPSCR.fx : 0));
  }

  private raiseFlags({ flags, invalid }: Outcome): void {
    const bits =
      invalid |
      ((flags & EXCEPTION.overflow) !== 0 ? FPSCR.ox : 0) |
      ((flags & EXCEPTION.underflow) !== 0 ? FPSCR.ux : 0) |
      ((flags & EXCEPTION.divideByZero) !== 0 ? FPSCR.zx : 0) |
      ((flags & EXCEPTION.inexact) !== 0 ? FPSCR.xx : 0);
    if (bits !== 0) this.raise(bits);
  }

  /** FR, FI and FPRF of a scalar result. `fprf` null: it has none. */
  private tell(isInexact: boolean, wentUp: boolean, fprf: number): void {
    const fraction = (isInexact ? FPSCR.fi : 0) | (wentUp ? FPSCR.fr : 0);
    this.fpscr = withBits(this.fpscr, FPSCR.fr | FPSCR.fi | FPSCR.fprf, fraction | (fprf << FPRF_SHIFT));
  }

  /** The result of a scalar operation, which FPSCR tells of; `towardsZero` is it cut off. */
  private told(to: Format, outcome: Outcome, towardsZero: () => bigint): bigint {
    this.raiseFlags(outcome);
    const isInexact = (outcome.flags & EXCEPTION.inexact) !== 0;
    this.tell(isInexact, isInexact && towardsZero() !== outcome.bits, CLASS[classify(to, outcome.bits)]);
    return outcome.bits;
  }

  /** The same as a double. */
  private scalarResult(to: Format, outcome: Outcome, towardsZero: () => bigint): bigint {
    return widened(to, this.told(to, outcome, towardsZero));
  }

  /** An operation on doubles whose result is a number of `to`, as a double. */
  scalar(operation: Operation, to: Format, x: readonly bigint[]): bigint {
    const outcome = operate(operation, BINARY64, to, this.rounding, x);
    return this.scalarResult(to, outcome, () => operate(operation, BINARY64, to, 'to-zero', x).bits);
  }

  /** An operation on an element of a vector. */
  element(operation: Operation, of: Format, x: readonly bigint[]): bigint {
    const outcome = operate(operation, of, of, this.rounding, x);
    this.raiseFlags(outcome);
    return outcome.bits;
  }

  /** A double rounded to single, as a double. */
  roundToSingle(a: bigint): bigint {
    const narrow = (rounding: Rounding): Outcome => narrowed(rounding, a);
    return this.scalarResult(BINARY32, narrow(this.rounding), () => narrow('to-zero').bits);
  }

  /** A number of one format in the other, of an element. */
  convertElement(from: Format, to: Format, a: bigint): bigint {
    const { bits, flags } = convert(from, to, environment(from, this.rounding), a);
    this.raiseFlags({ bits, flags, invalid: isSignalling(from, a) ? vxsnan : 0 });
    return bits;
  }

  /** The same of a scalar. */
  convertScalar(from: Format, to: Format, a: bigint): bigint {
    const result = (rounding: Rounding): Outcome => ({
      ...convert(from, to, environment(from, rounding), a),
      invalid: isSignalling(from, a) ? vxsnan : 0,
    });
    return this.told(to, result(this.rounding), () => result('to-zero').bits);
  }

  /** An integer as a number of `to`, as a double. */
  fromInteger(to: Format, value: bigint): bigint {
    const make = (rounding: Rounding): Result => fromInteger(to, environment(to, rounding), value);
    return this.scalarResult(to, { ...make(this.rounding), invalid: 0 }, () => make('to-zero').bits);
  }

  fromIntegerElement(to: Format, value: bigint): bigint {
    const result = fromInteger(to, environment(to, this.rounding), value);
    this.raiseFlags({ ...result, invalid: 0 });
    return result.bits;
  }

  /** An integer of a number: saturated, and of a NaN the lowest. */
  toIntegerElement(of: Format, a: bigint, form: IntegerForm, mode: IntegralMode): { value: bigint; inexact: boolean } {
    const result = toInteger(of, mode ?? this.rounding, a, form);
    const low = form.signed ? -(1n << BigInt(form.bits - 1)) : 0n;
    if (result.kind === 'integer') {
      const inexact = (result.flags & EXCEPTION.inexact) !== 0;
      if (inexact) this.raise(FPSCR.xx);
      return { value: result.value, inexact };
    }
    this.raise(vxcvi | (isSignalling(of, a) ? vxsnan : 0));
    const high = (1n << BigInt(form.signed ? form.bits - 1 : form.bits)) - 1n;
    return { value: result.kind === 'nan' || result.sign === 1 ? low : high, inexact: false };
  }

  /** The same of a scalar, which tells of its fraction. */
  toInteger(a: bigint, form: IntegerForm, mode: IntegralMode, of: Format = BINARY64): bigint {
    const { value, inexact } = this.toIntegerElement(of, a, form, mode);
    const cut = inexact ? toInteger(of, 'to-zero', a, form) : null;
    this.tell(inexact, cut?.kind === 'integer' && cut.value !== value, 0);
    return value;
  }

  /** A number rounded to an integer of its format. `raises`: inexact too (`x…rdpic`). */
  toIntegralElement(of: Format, a: bigint, mode: IntegralMode): bigint {
    const env = environment(of, mode ?? this.rounding);
    const { bits, flags } = roundToIntegral(of, env, a, mode === null);
    this.raiseFlags({ bits, flags, invalid: isSignalling(of, a) ? vxsnan : 0 });
    return bits;
  }

  toIntegral(a: bigint, mode: IntegralMode): bigint {
    const env = environment(BINARY64, mode ?? this.rounding);
    const { bits, flags } = roundToIntegral(BINARY64, env, a, mode === null);
    const outcome = { bits, flags, invalid: isSignalling(BINARY64, a) ? vxsnan : 0 };
    const cut = (): bigint => roundToIntegral(BINARY64, { ...env, rounding: 'to-zero' }, a, false).bits;
    return this.scalarResult(BINARY64, outcome, cut);
  }

  /** `x…max`, `x…min`: a NaN loses against a number, a signalling one wins. */
  extreme(of: Format, which: 'less' | 'greater', a: bigint, b: bigint): bigint {
    const signalling = [a, b].some((each) => isSignalling(of, each));
    if (signalling) this.raise(vxsnan);
    if (isSignalling(of, a)) return quieted(of, of, a);
    if (isNan(of, a)) return isNan(of, b) ? a : b;
    if (isSignalling(of, b)) return quieted(of, of, b);
    if (isNan(of, b)) return a;
    const { relation } = compare(of, a, b, false);
    if (relation !== 'equal') return relation === which ? a : b;
    const [negative, positive] = (a & of.signBit) !== 0n ? [a, b] : [b, a];
    return which === 'less' ? negative : positive;
  }

  /** Raises what a comparison does. `ordered`: a quiet NaN is invalid too. */
  relation(of: Format, a: bigint, b: bigint, ordered: boolean): ReturnType<typeof compare>['relation'] {
    const { relation } = compare(of, a, b, false);
    if (relation !== 'unordered') return relation;
    const signalling = isSignalling(of, a) || isSignalling(of, b);
    const comparison = ordered && !(signalling && (this.fpscr & FPSCR.ve) !== 0) ? vxvc : 0;
    if (signalling || comparison !== 0) this.raise((signalling ? vxsnan : 0) | comparison);
    return relation;
  }

  /** A comparison into a field of CR, and FPCC. */
  compare(a: bigint, b: bigint, ordered: boolean, of: Format = BINARY64): number {
    return this.tellField({ less: 8, greater: 4, equal: 2, unordered: 1 }[this.relation(of, a, b, ordered)]);
  }

  /** A field of CR is FPCC, too. */
  tellField(field: number): number {
    this.fpscr = withBits(this.fpscr, FPSCR.fpcc, field << FPRF_SHIFT);
    return field;
  }

  // ------------------------------------------------------------------------------- quad precision

  /** An operation on numbers of quad precision. `toOdd`: the last bit is 1 where it is inexact. */
  quad(operation: Operation, x: readonly bigint[], toOdd: boolean): bigint {
    const cut = (): Outcome => operate(operation, BINARY128, BINARY128, 'to-zero', x);
    const outcome = toOdd ? odd(cut()) : operate(operation, BINARY128, BINARY128, this.rounding, x);
    return this.told(BINARY128, outcome, () => cut().bits);
  }

  /** A double of a number of quad precision. */
  narrowedQuad(a: bigint, toOdd: boolean): bigint {
    const result = (rounding: Rounding): Outcome => ({
      ...convert(BINARY128, BINARY64, environment(BINARY128, rounding), a),
      invalid: isSignalling(BINARY128, a) ? vxsnan : 0,
    });
    return this.told(BINARY64, toOdd ? odd(result('to-zero')) : result(this.rounding), () => result('to-zero').bits);
  }

  integerQuad(value: bigint): bigint {
    const result = fromInteger(BINARY128, environment(BINARY128, this.rounding), value);
    return this.told(BINARY128, { ...result, invalid: 0 }, () => result.bits);
  }

  integralQuad(a: bigint, mode: IntegralMode, raises: boolean): bigint {
    const result = (rounding: Rounding): Outcome => ({
      ...roundToIntegral(BINARY128, environment(BINARY128, rounding), a, raises),
      invalid: isSignalling(BINARY128, a) ? vxsnan : 0,
    });
    return this.told(BINARY128, result(mode ?? this.rounding), () => result('to-zero').bits);
  }

  /** Rounded to the 64 bits of double-extended precision, to which a NaN is cut. */
  extendedQuad(a: bigint, mode: IntegralMode): bigint {
    const lost = isNan(BINARY128, a) ? (1n << 49n) - 1n : 0n;
    const result = (rounding: Rounding): Outcome => {
      const env = { ...environment(BINARY128, rounding), precision: 64 };
      const { bits, flags } = convert(BINARY128, BINARY128, env, a);
      return { bits: bits & ~lost, flags, invalid: isSignalling(BINARY128, a) ? vxsnan : 0 };
    };
    return this.told(BINARY128, result(mode ?? this.rounding), () => result('to-zero').bits);
  }

  /** Whether a double is one of the singles. */
  isSingle(a: bigint): boolean {
    if (isNan(BINARY64, a)) return (a & 0x1fff_ffffn) === 0n;
    const { bits } = convert(BINARY64, BINARY32, environment(BINARY64, 'nearest-even'), a);
    return widened(BINARY32, bits) === a;
  }
}

/** A result that was cut off, rounded to odd. */
const odd = (cut: Outcome): Outcome => ((cut.flags & EXCEPTION.inexact) !== 0 ? { ...cut, bits: cut.bits | 1n } : cut);

export function narrowed(rounding: Rounding, a: bigint): Outcome {
  const { bits, flags } = convert(BINARY64, BINARY32, environment(BINARY64, rounding), a);
  return { bits, flags, invalid: isSignalling(BINARY64, a) ? vxsnan : 0 };
}

/** A number of `of` as a double; NaNs keep their payload. */
export function widened(of: Format, bits: bigint): bigint {
  return of === BINARY64 ? bits : convert(of, BINARY64, environment(of, 'nearest-even'), bits).bits;
}

/** Exponent of a number; below the lowest of normal ones where it is subnormal or zero. */
function exponentOf(of: Format, bits: bigint): number {
  const bias = 2 ** (of.exponentBits - 1) - 1;
  return Number((bits & of.infinity) >> BigInt(of.fractionBits)) - bias;
}

export const isSubnormal = (of: Format, bits: bigint): boolean => classify(of, bits).endsWith('subnormal');

/** `ftdiv` and its kin: the field of CR that tells whether a division in software needs care. */
export function testDivide(of: Format, a: bigint, b: bigint): number {
  const highest = 2 ** (of.exponentBits - 1) - 1;
  const lowest = 1 - highest;
  const [x, y] = [exponentOf(of, a), exponentOf(of, b)];
  const special = (bits: bigint): boolean => isNan(of, bits) || isInfinite(of, bits);
  const guard = isInfinite(of, a) || isInfinite(of, b) || isZero(of, b) || isSubnormal(of, b);
  const far = !isZero(of, a) && (x - y >= highest || x - y <= lowest + 1 || x <= lowest + of.fractionBits);
  const careful = special(a) || special(b) || isZero(of, b) || y <= lowest || y >= highest - 2 || far;
  return 8 | (guard ? 4 : 0) | (careful ? 2 : 0);
}

/** `ftsqrt` and its kin. */
export function testRoot(of: Format, b: bigint): number {
  const lowest = 2 - 2 ** (of.exponentBits - 1);
  const guard = isInfinite(of, b) || isZero(of, b) || isSubnormal(of, b);
  const isNegative = (b & of.signBit) !== 0n;
  const careful = isNan(of, b) || guard || isNegative || exponentOf(of, b) <= lowest + of.fractionBits;
  return 8 | (guard ? 4 : 0) | (careful ? 2 : 0);
}
