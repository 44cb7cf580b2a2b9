/**
 * Floating point that came with POWER9: quad precision in VR, half precision, comparisons into
 * registers, extremes as C and Java have them, tests of classes. Rows by mnemonic, as those of
 * `float-rows.ts`; scalars too are over whole registers, in whose first doubleword they are.
 *
 * Source: Power ISA 3.0B, Book I, chapter 7.
 */
import { BINARY128, BINARY16, BINARY32, BINARY64, classify, compare, isNan, isSignalling } from '../float/index.js';
import type { Format, NumberClass } from '../float/index.js';
import { FPSCR } from './float.js';
import type { FloatUnit, IntegralMode, Operation } from './float.js';
import type { TestRow, VectorRow } from './float-rows.js';

const ROWS = new Map<string, VectorRow>();
const TESTS = new Map<string, TestRow>();
const wide = (value: bigint): bigint => BigInt.asUintN(64, value);
const upper = (value: bigint): bigint => value >> 64n;

function add(name: string, sources: readonly string[], run: VectorRow['run']): void {
  ROWS.set(name, { sources, run });
}
/** From and to first doublewords. */
function scalar(name: string, sources: readonly string[], run: (unit: FloatUnit, x: readonly bigint[]) => bigint): void {
  add(name, sources, (unit, x) => wide(run(unit, x.map(upper))) << 64n);
} // prettier-ignore

// ---------------------------------------------------------------------------------- quad precision

const QUADS: readonly (readonly [name: string, operation: Operation, sources: readonly string[]])[] = [
  ['xsaddqp', 'add', ['vra', 'vrb']],
  ['xssubqp', 'sub', ['vra', 'vrb']],
  ['xsmulqp', 'mul', ['vra', 'vrb']],
  ['xsdivqp', 'div', ['vra', 'vrb']],
  ['xssqrtqp', 'sqrt', ['vrb']],
  ['xsmaddqp', 'madd', ['vra', 'vrb', 'vrt']],
  ['xsmsubqp', 'msub', ['vra', 'vrb', 'vrt']],
  ['xsnmaddqp', 'nmadd', ['vra', 'vrb', 'vrt']],
  ['xsnmsubqp', 'nmsub', ['vra', 'vrb', 'vrt']],
];
for (const [name, operation, sources] of QUADS)
  add(name, sources, (unit, x, n) => unit.quad(operation, x, n('ro') === 1));

add('xscvqpdp', ['vrb'], (unit, [b], n) => unit.narrowedQuad(b!, n('ro') === 1) << 64n);
add('xscvdpqp', ['vrb'], (unit, [b]) => unit.convertScalar(BINARY64, BINARY128, upper(b!)));
for (const [name, bits, signed] of [['sd', 64, true], ['ud', 64, false], ['sw', 32, true], ['uw', 32, false]] as const) {
  add(`xscvqp${name}z`, ['vrb'], (unit, [b]) => wide(unit.toInteger(b!, { bits, signed }, 'to-zero', BINARY128)) << 64n);
} // prettier-ignore
add('xscvsdqp', ['vrb'], (unit, [b]) => unit.integerQuad(BigInt.asIntN(64, upper(b!))));
add('xscvudqp', ['vrb'], (unit, [b]) => unit.integerQuad(upper(b!)));

/** R and RMC: how to round. */
function roundingOf(n: (name: string) => number): IntegralMode {
  if (n('r') === 1) return (['nearest-even', 'to-zero', 'up', 'down'] as const)[n('rm') as 0 | 1 | 2 | 3];
  return n('rm') === 3 ? null : 'nearest-away';
}
add('xsrqpi', ['vrb'], (unit, [b], n) => unit.integralQuad(b!, roundingOf(n), false));
add('xsrqpix', ['vrb'], (unit, [b], n) => unit.integralQuad(b!, roundingOf(n), true));
add('xsrqpxp', ['vrb'], (unit, [b], n) => unit.extendedQuad(b!, roundingOf(n)));

TESTS.set('xscmpoqp', { sources: ['vra', 'vrb'], run: (unit, [a, b]) => unit.compare(a!, b!, true, BINARY128) });
TESTS.set('xscmpuqp', { sources: ['vra', 'vrb'], run: (unit, [a, b]) => unit.compare(a!, b!, false, BINARY128) });

// ---------------------------------------------------------------------------------- half precision

add('xscvhpdp', ['xb'], (unit, [b]) => unit.convertScalar(BINARY16, BINARY64, upper(b!) & 0xffffn) << 64n);
add('xscvdphp', ['xb'], (unit, [b]) => unit.convertScalar(BINARY64, BINARY16, upper(b!)) << 64n);
const words = (value: bigint): bigint[] => [96n, 64n, 32n, 0n].map((at) => (value >> at) & 0xffff_ffffn);
const ofWords = (x: readonly bigint[]): bigint => x.reduce((all, each) => (all << 32n) | each, 0n);
add('xvcvhpsp', ['xb'], (unit, [b]) =>
  ofWords(words(b!).map((each) => unit.convertElement(BINARY16, BINARY32, each & 0xffffn))),
);
add('xvcvsphp', ['xb'], (unit, [b]) => ofWords(words(b!).map((each) => unit.convertElement(BINARY32, BINARY16, each))));

// ------------------------------------------------------------------------ comparisons, extremes

for (const [name, holds] of [['eq', /^equal/], ['gt', /^greater/], ['ge', /^greater|^equal/]] as const) {
  scalar(`xscmp${name}dp`, ['xa', 'xb'], (unit, [a, b]) =>
    holds.test(unit.relation(BINARY64, a!, b!, name !== 'eq')) ? -1n : 0n,
  );
} // prettier-ignore

const noteSignalling = (unit: FloatUnit, x: readonly bigint[]): void => {
  if (x.some((each) => isSignalling(BINARY64, each))) unit.raise(FPSCR.vxsnan);
};
/** As C has `a >= b ? a : b` and `a < b ? a : b`: the second where nothing is said. */
for (const [name, holds] of [['xsmaxcdp', /^greater|^equal/], ['xsmincdp', /^less/]] as const) {
  scalar(name, ['xa', 'xb'], (unit, [a, b]) => {
    noteSignalling(unit, [a!, b!]);
    return holds.test(compare(BINARY64, a!, b!, false).relation) ? a! : b!;
  });
} // prettier-ignore
/** As Java has it: a NaN wins, zeros have an order. */
for (const [name, which] of [['xsmaxjdp', 'greater'], ['xsminjdp', 'less']] as const) {
  scalar(name, ['xa', 'xb'], (unit, [a, b]) => {
    noteSignalling(unit, [a!, b!]);
    if (isNan(BINARY64, a!)) return a!;
    if (isNan(BINARY64, b!)) return b!;
    const { relation } = compare(BINARY64, a!, b!, false);
    if (relation !== 'equal') return relation === which ? a! : b!;
    const isNegative = (a! & BINARY64.signBit) !== 0n;
    return (which === 'less') === isNegative ? a! : b!;
  });
} // prettier-ignore

// ----------------------------------------------------------------------------------------- classes

/** Bits of DCMX. */
const CLASS: Readonly<Record<NumberClass, number>> = {
  'quiet NaN': 0x40, 'signalling NaN': 0x40, 'positive infinity': 0x20, 'negative infinity': 0x10, 'positive zero': 8, 'negative zero': 4,
  'positive subnormal': 2, 'negative subnormal': 1, 'positive normal': 0, 'negative normal': 0,
}; // prettier-ignore
const isOf = (of: Format, bits: bigint, wanted: number): boolean => (CLASS[classify(of, bits)] & wanted) !== 0;

/** The sign, and whether it is of a class. */
function classTest(of: Format, bits: bigint, wanted: number): number {
  return ((bits & of.signBit) !== 0n ? 8 : 0) | (isOf(of, bits, wanted) ? 2 : 0);
}
TESTS.set('xststdcdp', {
  sources: ['xb'],
  run: (unit, [b], n) => unit.tellField(classTest(BINARY64, upper(b!), n('dcmx'))),
});
TESTS.set('xststdcqp', {
  sources: ['vrb'],
  run: (unit, [b], n) => unit.tellField(classTest(BINARY128, b!, n('dcmx'))),
});
TESTS.set('xststdcsp', {
  sources: ['xb'],
  run: (unit, [x], n) => {
    const b = upper(x!);
    const exponent = (b & BINARY64.infinity) >> 52n;
    const isSubnormal = exponent > 0n && exponent < 0x381n && (n('dcmx') & ((b & BINARY64.signBit) !== 0n ? 1 : 2)) !== 0;
    return unit.tellField(classTest(BINARY64, b, n('dcmx')) | (isSubnormal ? 2 : 0) | (unit.isSingle(b) ? 0 : 1));
  },
}); // prettier-ignore
for (const [suffix, of, bits] of [['dp', BINARY64, 64], ['sp', BINARY32, 32]] as const) {
  add(`xvtstdc${suffix}`, ['xb'], (_unit, [b], n) => {
    let out = 0n;
    const ones = (1n << BigInt(bits)) - 1n;
    for (let at = 0n; at < 128n; at += BigInt(bits)) if (isOf(of, (b! >> at) & ones, n('dcmx'))) out |= ones << at;
    return out;
  });
} // prettier-ignore

/** Exponents alone. */
function compareExponents(of: Format, unit: FloatUnit, a: bigint, b: bigint): number {
  if (isNan(of, a) || isNan(of, b)) return unit.tellField(1);
  const [x, y] = [a & of.infinity, b & of.infinity];
  return unit.tellField(x < y ? 8 : x > y ? 4 : 2);
}
TESTS.set('xscmpexpdp', {
  sources: ['xa', 'xb'],
  run: (unit, [a, b]) => compareExponents(BINARY64, unit, upper(a!), upper(b!)),
});
TESTS.set('xscmpexpqp', { sources: ['vra', 'vrb'], run: (unit, [a, b]) => compareExponents(BINARY128, unit, a!, b!) });

/** Rows by mnemonic, and those whose target is a field of CR. */
export const POWER9_FLOATS: ReadonlyMap<string, VectorRow> = ROWS;
export const POWER9_TESTS: ReadonlyMap<string, TestRow> = TESTS;
