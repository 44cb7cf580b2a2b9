/**
 * Floating point of VMX: singles, rounded to nearest, with no exceptions but VSCR.SAT. Rows by
 * mnemonic, as those of `vector-rows.ts`.
 *
 * In the mode that VSCR.NJ asks for, subnormal operands are zeros of their sign, and so are results
 * that are tiny before they are rounded. What the manual leaves open is what QEMU gives, where that
 * is one number: estimates are the rounded numbers. A number that is the lowest integer exactly
 * does not saturate.
 *
 * Source: Power ISA 2.07B, Book I, 6.6 and 6.10.
 */
import {
  add,
  BINARY32,
  compare,
  divide,
  EXCEPTION,
  fromInteger,
  isNan,
  multiplyAdd,
  quieted,
  roundToIntegral,
  squareRoot,
  subtract,
} from '../float/index.js';
import type { Comparison, Environment, Result, Rounding } from '../float/index.js';
import { isSubnormal, narrowed, widened } from './float.js';
import { elements, joined } from './vector-rows.js';
import type { VectorUnit, VmxRow } from './vector-rows.js';

const { infinity, quietBit, signBit } = BINARY32;
const DEFAULT_NAN = infinity | quietBit;
const ONE = 0x3f80_0000n;

/** The first operand that is a NaN, quiet; operands are in the order vA, vB, vC. */
const ENVIRONMENT: Environment = {
  rounding: 'nearest-even',
  tininess: 'before',
  nan: (_to, operands) => {
    const found = operands.find((each) => isNan(BINARY32, each));
    return found === undefined ? DEFAULT_NAN : quieted(BINARY32, BINARY32, found);
  },
};
/** `multiplyAdd` has the factors in front: vA, vC, vB. */
const FUSED: Environment = { ...ENVIRONMENT, nan: (to, [a, c, b]) => ENVIRONMENT.nan(to, [a!, b!, c!], false) };

/** An operand as the mode of VSCR has it. */
const taken = (unit: VectorUnit, bits: bigint): bigint =>
  unit.nonJava && isSubnormal(BINARY32, bits) ? bits & signBit : bits;

/** A result as the mode of VSCR has it. */
function given(unit: VectorUnit, { bits, flags }: Result): bigint {
  const isTiny = isSubnormal(BINARY32, bits) || (flags & EXCEPTION.underflow) !== 0;
  return unit.nonJava && isTiny ? bits & signBit : bits;
}

type OfElement = (unit: VectorUnit, x: readonly bigint[]) => bigint;

const ROWS = new Map<string, VmxRow>();

/** The same of each single. */
function lanes(name: string, sources: readonly string[], run: OfElement): void {
  ROWS.set(name, {
    sources,
    run: (x, unit) => {
      const split = x.map((value) => elements(value, 32).map((each) => taken(unit, each)));
      return joined(split[0]!.map((_, i) => run(unit, split.map((value) => value[i]!))), 32);
    },
  });
} // prettier-ignore

const two = ['vra', 'vrb'];
const three = ['vra', 'vrc', 'vrb'];
const one = ['vrb'];

lanes('vaddfp', two, (unit, [a, b]) => given(unit, add(BINARY32, ENVIRONMENT, a!, b!)));
lanes('vsubfp', two, (unit, [a, b]) => given(unit, subtract(BINARY32, ENVIRONMENT, a!, b!)));
lanes('vmaddfp', three, (unit, [a, c, b]) => given(unit, multiplyAdd(BINARY32, FUSED, a!, c!, b!)));
lanes('vnmsubfp', three, (unit, [a, c, b]) => {
  const addend = isNan(BINARY32, b!) ? b! : b! ^ signBit;
  const result = given(unit, multiplyAdd(BINARY32, FUSED, a!, c!, addend));
  return isNan(BINARY32, result) ? result : result ^ signBit;
});

for (const [name, which] of [['vmaxfp', 'greater'], ['vminfp', 'less']] as const) {
  lanes(name, two, (_unit, [a, b]) => {
    if (isNan(BINARY32, a!) || isNan(BINARY32, b!)) return ENVIRONMENT.nan(BINARY32, [a!, b!], false);
    const { relation } = compare(BINARY32, a!, b!, false);
    // Zeros: the positive one is the greater.
    if (relation === 'equal') return which === 'greater' ? a! & b! : a! | b!;
    return relation === which ? a! : b!;
  });
} // prettier-ignore

// ---------------------------------------------------------------------- comparisons

const ONES = 0xffff_ffffn;
const relationOf = (a: bigint, b: bigint): Comparison['relation'] => compare(BINARY32, a, b, false).relation;

for (const [name, holds] of [['vcmpeqfp', /^equal/], ['vcmpgefp', /^greater|^equal/], ['vcmpgtfp', /^greater/]] as const)
  lanes(name, two, (_unit, [a, b]) => (holds.test(relationOf(a!, b!)) ? ONES : 0n)); // prettier-ignore
/** Two bits: above vB, below -vB. */
lanes('vcmpbfp', two, (_unit, [a, b]) => {
  const isAbove = !/less|equal/.test(relationOf(a!, b!));
  const isBelow = !/greater|equal/.test(relationOf(a!, b! ^ signBit));
  return (isAbove ? 0x8000_0000n : 0n) | (isBelow ? 0x4000_0000n : 0n);
});

// ---------------------------------------------------------------------- conversions

for (const [letter, rounding] of [
  ['n', 'nearest-even'], ['z', 'to-zero'], ['p', 'up'], ['m', 'down'],
] as const satisfies readonly (readonly [string, Rounding])[]) {
  lanes(`vrfi${letter}`, one, (_unit, [b]) => roundToIntegral(BINARY32, { ...ENVIRONMENT, rounding }, b!, false).bits);
} // prettier-ignore

/** Divided by 2^UIM, which changes the exponent alone. */
for (const [name, signed] of [['vcfsx', true], ['vcfux', false]] as const) {
  ROWS.set(name, {
    sources: one,
    run: ([b], unit) => {
      const less = BigInt(unit.operands['uim5']!) << BigInt(BINARY32.fractionBits);
      const numbers = elements(b!, 32, signed).map((value) => fromInteger(BINARY32, ENVIRONMENT, value).bits);
      return joined(numbers.map((bits) => (bits === 0n ? bits : bits - less)), 32);
    },
  });
} // prettier-ignore

/** Multiplied by 2^UIM and cut off; what does not fit saturates, a NaN is 0. */
for (const [name, signed] of [['vctsxs', true], ['vctuxs', false]] as const) {
  lanes(name, one, (unit, [b]) => {
    if (isNan(BINARY32, b!)) return 0n;
    const isNegative = (b! & signBit) !== 0n;
    const magnitude = b! & ~signBit;
    if (magnitude === infinity) return unit.clamp(isNegative ? -(1n << 64n) : 1n << 64n, 32, signed);
    const exponent = Number(magnitude >> 23n);
    const fraction = exponent === 0 ? 0n : (magnitude & BINARY32.fractionMask) | (1n << 23n);
    const shift = exponent - 150 + unit.operands['uim5']!;
    const value = shift >= 0 ? fraction << BigInt(shift) : fraction >> BigInt(-shift);
    return unit.clamp(isNegative ? -value : value, 32, signed);
  });
} // prettier-ignore

// ---------------------------------------------------------------------- estimates

/** A function of doubles, rounded to single. The lowest bit is not to be relied on. */
const FLOATS = new Float64Array(1);
const WORDS = new BigUint64Array(FLOATS.buffer);
function throughDouble(bits: bigint, compute: (value: number) => number): Result {
  WORDS[0] = widened(BINARY32, bits);
  FLOATS[0] = compute(FLOATS[0]!);
  return narrowed('nearest-even', WORDS[0]);
}

function estimate(name: string, run: (b: bigint) => Result): void {
  lanes(name, one, (unit, [b]) => {
    if (isNan(BINARY32, b!)) return b! | quietBit;
    const result = run(b!);
    return isNan(BINARY32, result.bits) ? DEFAULT_NAN : given(unit, result);
  });
}
estimate('vrefp', (b) => divide(BINARY32, ENVIRONMENT, ONE, b));
estimate('vrsqrtefp', (b) => divide(BINARY32, ENVIRONMENT, ONE, squareRoot(BINARY32, ENVIRONMENT, b).bits));
estimate('vexptefp', (b) => throughDouble(b, (value) => 2 ** value));
estimate('vlogefp', (b) => throughDouble(b, Math.log2));

/** Rows by mnemonic. */
export const FLOAT_ROWS: ReadonlyMap<string, VmxRow> = ROWS;
