/**
 * Instructions of x87 that are functions: scaling, remainders, angles, logarithms, powers. Each
 * works on the unit's stack, with the exceptions that Intel SDM volume 2 lists for it. The numbers
 * of transcendental ones are those of `transcendental.ts`.
 */
import { bitLength, convert, EXTENDED, pack, toInteger, unpack } from '../float/index.js';
import type { Unpacked } from '../float/index.js';
import { isNan } from './float.js';
import {
  angleOf, powerLessOne, quarterTurns, timesLogarithm, timesLogarithmOfMore, trigonometric,
} from './transcendental.js'; // prettier-ignore
import type { Computed } from './transcendental.js';
import {
  BINARY, CODE, exponentOf, extendedOf, FLAG, INDEFINITE, INFINITE, integerSource, INVALID, ONE, SIGN,
  SIGNIFICAND, sourceOf,
} from './x87-unit.js'; // prettier-ignore
import type { Extended, Operation, Outcome, Source, X87Unit } from './x87-unit.js';

/** Bits of a magnitude up to its highest 1, and the exponent. */
const leading = ({ magnitude, exponent }: Unpacked): number => exponent + bitLength(magnitude);

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

// ----------------------------------------------------------------------------- other operations

export function scale(unit: X87Unit): Outcome {
  const [number, by] = [sourceOf(unit.get(0)), sourceOf(unit.get(1))];
  if (number.isUnsupported || by.isUnsupported) return INVALID;
  const count = unpack(EXTENDED, by.bits);
  const isNanAmong = isNan(EXTENDED, number.bits) || isNan(EXTENDED, by.bits);
  if (isNanAmong) return unit.compute(BINARY[0]!, [number, by]);
  const value = unpack(EXTENDED, number.bits);
  if (count.kind === 'infinite') {
    const isInvalid = count.sign === 1 ? value.kind === 'infinite' : value.kind === 'finite' && value.magnitude === 0n;
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
  const outcome = unit.compute(operation, [number]);
  return by.isDenormal ? { ...outcome, flags: outcome.flags | FLAG.denormal } : outcome;
}

/** `fprem`, `fprem1`. An invalid one leaves C0 and C3 as they are. */
export function remainder(unit: X87Unit, isNearest: boolean): void {
  let codes: number | null = null;
  const isDone = unit.replace(() => {
    const [first, second] = [sourceOf(unit.get(0)), sourceOf(unit.get(1))];
    if (first.isUnsupported || second.isUnsupported) return INVALID;
    const [x, y] = [unpack(EXTENDED, first.bits), unpack(EXTENDED, second.bits)];
    if (x.kind === 'nan' || y.kind === 'nan') return unit.compute(BINARY[0]!, [first, second]);
    if (x.kind === 'infinite' || (y.kind === 'finite' && y.magnitude === 0n)) return INVALID;
    codes = 0;
    let rest: Omit<Unpacked, 'kind'> = x;
    if (y.kind !== 'infinite' && x.magnitude !== 0n) ({ codes, ...rest } = remainderOf(x, y, isNearest));
    // Exact, but where underflow is not masked it may be one.
    return unit.compute((of, env) => pack(of, env, rest.sign, rest.magnitude, rest.exponent), [first, second]);
  }, 1);
  if (isDone && codes !== null) unit.codes(codes);
  else unit.codes(0, CODE.c1 | CODE.c2);
}

/** `fxtract`: the exponent, and above it the significand. */
export function extract(unit: X87Unit): void {
  const fault = unit.underflows(0);
  if (fault === 'ends') return;
  const value = unit.get(0);
  const source = sourceOf(value);
  const number = unpack(EXTENDED, source.bits);
  let [exponent, significand, flags]: [Extended, Extended, number] = [INDEFINITE, INDEFINITE, 0];
  if (!fault) {
    if (!unit.isEmpty(7)) {
      if (!unit.note(FLAG.invalid | FLAG.stack, true)) return;
    } else {
      if (source.isUnsupported) flags = FLAG.invalid;
      else if (number.kind === 'nan') {
        const quiet = unit.compute((of, env, [a]) => convert(of, of, env, a!), [source]);
        [exponent, significand, flags] = [quiet.value, quiet.value, quiet.flags];
      } else if (number.kind === 'infinite') [exponent, significand] = [INFINITE, value];
      else if (number.magnitude === 0n) [exponent, significand, flags] = [INFINITE | SIGN, value, FLAG.divide];
      else {
        const digits = bitLength(number.magnitude);
        exponent = extendedOf(integerSource(BigInt(number.exponent + digits - 1)).bits);
        significand = (value & SIGN) | (ONE & ~SIGNIFICAND) | (number.magnitude << BigInt(64 - digits));
        flags = source.isDenormal ? FLAG.denormal : 0;
      }
      if (!unit.note(flags)) return;
    }
  }
  unit.set(0, exponent);
  unit.turn(-1);
  unit.set(0, significand);
}

// ---------------------------------------------------------------------- transcendental functions

/** A computed result with the exceptions of its operands. It is never called exact. */
function rounded(unit: X87Unit, { sign, magnitude, exponent, more }: Computed, sources: readonly Source[]): Outcome {
  const outcome = unit.compute((of, env) => pack(of, env, sign, magnitude, exponent, more), sources);
  // So one that is exact and tiny is an underflow, too.
  const isTiny = exponentOf(outcome.value) === 0 && (outcome.value & SIGNIFICAND) !== 0n;
  return { ...outcome, flags: outcome.flags | FLAG.precision | (isTiny ? FLAG.underflow : 0) };
}

/** What NaNs and what is no number give; null: the operands are numbers. */
function unordinary(unit: X87Unit, sources: readonly Source[]): Outcome | null {
  if (sources.some((each) => each.isUnsupported)) return INVALID;
  if (!sources.some((each) => isNan(EXTENDED, each.bits))) return null;
  const [first, second = first] = sources;
  return unit.compute(BINARY[0]!, [first!, second!]);
}

/**
 * `fsin` and its kin: replaces the top, and pushes another result or 1. An angle of 2^63 or more
 * stays as it is, which C2 tells.
 */
export function angle(unit: X87Unit, which: 'sine' | 'cosine' | 'tangent', pushed: 'cosine' | 'one' | null): void {
  unit.codes(0, CODE.c2);
  const fault = unit.underflows(0);
  if (fault === 'ends') return;
  let results: readonly Outcome[] = [INVALID, INVALID];
  if (!fault) {
    const source = sourceOf(unit.get(0));
    const number = unpack(EXTENDED, source.bits);
    const isFull = pushed !== null && !unit.isEmpty(7);
    if (isFull) {
      if (!unit.note(FLAG.invalid | FLAG.stack, true)) return;
    } else if (number.kind === 'finite' && !source.isUnsupported && exponentOf(unit.get(0)) >= 0x3fff + 63) {
      unit.codes(CODE.c2, CODE.c1 | CODE.c2);
      return;
    } else {
      results = angles(unit, source, which, pushed);
      if (
        !unit.note(
          results.reduce((sum, { flags }) => sum | flags, 0),
          results[0]!.up,
        )
      )
        return;
    }
  }
  unit.set(0, results[0]!.value);
  if (pushed === null) return;
  unit.turn(-1);
  unit.set(0, results[1]!.value);
}

/** The results of `angle`. */
function angles(
  unit: X87Unit,
  source: Source,
  which: 'sine' | 'cosine' | 'tangent',
  pushed: 'cosine' | 'one' | null,
): Outcome[] {
  const number = unpack(EXTENDED, source.bits);
  const strange = number.kind === 'infinite' ? INVALID : unordinary(unit, [source]);
  if (strange) return [strange, strange];
  const one: Outcome = { value: ONE, flags: 0, up: false };
  const isZero = number.magnitude === 0n;
  const functions = isZero ? null : trigonometric(number);
  const result = (name: typeof which): Outcome => {
    if (functions) return rounded(unit, functions[name], [source]);
    return name === 'cosine' ? one : { value: extendedOf(source.bits), flags: 0, up: false };
  };
  return [result(which), pushed === 'cosine' ? result('cosine') : one];
}

/** A function of the second and the first register, in place of both. */
function ofTwo(unit: X87Unit, result: (y: Unpacked, x: Unpacked, sources: readonly Source[]) => Outcome): void {
  const fault = unit.underflows(0, 1);
  if (fault === 'ends') return;
  let value = INDEFINITE;
  if (!fault) {
    const sources = [sourceOf(unit.get(1)), sourceOf(unit.get(0))];
    const [y, x] = sources.map((each) => unpack(EXTENDED, each.bits));
    const outcome = unordinary(unit, sources) ?? result(y!, x!, sources);
    if (!unit.note(outcome.flags, outcome.up)) return;
    ({ value } = outcome);
  }
  unit.set(1, value);
  unit.pop();
}

export function arcTangent(unit: X87Unit): void {
  ofTwo(unit, (y, x, sources) => {
    const [isZeroX, isZeroY] = [isZero(x), isZero(y)];
    if (isZeroY || (x.kind === 'infinite' && y.kind !== 'infinite')) {
      if (x.sign === 0) return { ...signed(0n, y.sign), flags: denormalsOf(sources) };
      return rounded(unit, quarterTurns(4, y.sign), sources);
    }
    if (y.kind === 'infinite') {
      const quarters = x.kind !== 'infinite' ? 2 : x.sign === 1 ? 3 : 1;
      return rounded(unit, quarterTurns(quarters, y.sign), sources);
    }
    return rounded(unit, isZeroX ? quarterTurns(2, y.sign) : angleOf(y, x), sources);
  });
}

/** `fyl2x`. */
export function logarithm(unit: X87Unit): void {
  ofTwo(unit, (y, x, sources) => {
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
    return rounded(unit, timesLogarithm(y, x), sources);
  });
}

/** `fyl2xp1`. From -1 down the manual leaves the result open: the number itself. */
export function logarithmOfMore(unit: X87Unit): void {
  ofTwo(unit, (y, x, sources) => {
    if (x.sign === 1 && x.kind === 'infinite') return INVALID;
    const sign = x.sign === y.sign ? 0 : 1;
    if (x.kind === 'infinite' || y.kind === 'infinite') {
      return isZero(x) || isZero(y) ? INVALID : { ...signed(INFINITE, sign), flags: denormalsOf(sources) };
    }
    if (isZero(x) || isZero(y)) return { ...signed(0n, sign), flags: denormalsOf(sources) };
    const flags = FLAG.precision | denormalsOf(sources);
    if (x.sign === 1 && leadingOf(x) >= 0) return { value: unit.get(0), flags, up: false };
    return rounded(unit, timesLogarithmOfMore(y, x), sources);
  });
}

/** `f2xm1`. Beyond 1 the manual leaves the result open: the number itself. */
export function power(unit: X87Unit): void {
  unit.replace(() => {
    const source = sourceOf(unit.get(0));
    const strange = unordinary(unit, [source]);
    if (strange) return strange;
    const x = unpack(EXTENDED, source.bits);
    const own: Outcome = { value: extendedOf(source.bits), flags: 0, up: false };
    if (x.kind === 'infinite') return x.sign === 1 ? { ...own, value: ONE | SIGN } : own;
    if (isZero(x)) return own;
    const isBeyond = leadingOf(x) > 0 || (leadingOf(x) === 0 && (x.magnitude & (x.magnitude - 1n)) !== 0n);
    return isBeyond ? { ...own, flags: FLAG.precision } : rounded(unit, powerLessOne(x), [source]);
  });
}
