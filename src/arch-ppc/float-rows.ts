/**
 * Which instruction of floating point computes what: rows by mnemonic, over the operations of
 * `float.ts`. Registers are named by the fields of the instruction; values are bits.
 *
 * Source: Power ISA 2.07B, Book I, chapters 4, 6 and 7.
 */
import { BINARY32, BINARY64 } from '../float/index.js';
import type { Format } from '../float/index.js';
import { testDivide, testRoot } from './float.js';
import type { FloatUnit, IntegerForm, IntegralMode, Operation } from './float.js';

/** An instruction on scalars: the first doublewords of its registers. */
export interface ScalarRow {
  /** Fields of the operands, those of fused operations in the order a * b + c. */
  readonly sources: readonly string[];
  /** The result of a register; 0: `into` says what becomes of it. */
  readonly run: (unit: FloatUnit, x: readonly bigint[]) => bigint;
}

/** An immediate of the instruction, or 0. */
type Immediate = (name: string) => number;

/** An instruction on the elements of vectors. */
export interface VectorRow {
  readonly sources: readonly string[];
  /** Of 128 bits, as the result is. */
  readonly run: (unit: FloatUnit, x: readonly bigint[], n: Immediate) => bigint;
}

/** A comparison or test into a field of CR. */
export interface TestRow {
  readonly sources: readonly string[];
  readonly run: (unit: FloatUnit, x: readonly bigint[], n: Immediate) => number;
}

const SIGN64 = BINARY64.signBit;
const wide = (value: bigint): bigint => BigInt.asUintN(64, value);
const word = (value: bigint): bigint => BigInt.asUintN(32, value);

/** Suffixes of the conversions to integers: `fcti…`, `xscvdp…`. */
const MODES = { i: null, ic: null, im: 'down', ip: 'up', iz: 'to-zero' } as const satisfies Record<
  string,
  IntegralMode
>;

const SIGNED64: IntegerForm = { bits: 64, signed: true };
const SIGNED32: IntegerForm = { bits: 32, signed: true };
const UNSIGNED64: IntegerForm = { bits: 64, signed: false };
const UNSIGNED32: IntegerForm = { bits: 32, signed: false };

// ---------------------------------------------------------------------------------------- scalars

type Entry<Row> = readonly [name: string, row: Row];

function classicRows(): Entry<ScalarRow>[] {
  const out: Entry<ScalarRow>[] = [];
  const add = (name: string, sources: readonly string[], run: ScalarRow['run']): void => {
    out.push([name, { sources, run }]);
  };
  const pair = (operation: Operation, sources: readonly string[]): void => {
    for (const [letter, to] of [['', BINARY64], ['s', BINARY32]] as const)
      add(`f${operation}${letter}`, sources, (unit, x) => unit.scalar(operation, to, x));
  }; // prettier-ignore
  for (const operation of ['add', 'sub', 'div'] as const) pair(operation, ['fra', 'frb']);
  pair('mul', ['fra', 'frc']);
  for (const operation of ['sqrt', 're', 'rsqrte'] as const) pair(operation, ['frb']);
  for (const operation of ['madd', 'msub', 'nmadd', 'nmsub'] as const) pair(operation, ['fra', 'frc', 'frb']);
  add('frsp', ['frb'], (unit, [b]) => unit.roundToSingle(b!));
  for (const [name, form, mode] of [
    ['fctiw', SIGNED32, null], ['fctiwz', SIGNED32, 'to-zero'], ['fctiwu', UNSIGNED32, null], ['fctiwuz', UNSIGNED32, 'to-zero'],
    ['fctid', SIGNED64, null], ['fctidz', SIGNED64, 'to-zero'], ['fctidu', UNSIGNED64, null], ['fctiduz', UNSIGNED64, 'to-zero'],
  ] as const) {
    add(name, ['frb'], (unit, [b]) => wide(unit.toInteger(b!, form, mode)));
  } // prettier-ignore
  for (const [letter, to] of [['', BINARY64], ['s', BINARY32]] as const) {
    add(`fcfid${letter}`, ['frb'], (unit, [b]) => unit.fromInteger(to, BigInt.asIntN(64, b!)));
    add(`fcfidu${letter}`, ['frb'], (unit, [b]) => unit.fromInteger(to, b!));
  } // prettier-ignore
  for (const [letter, mode] of [['n', 'nearest-away'], ['z', 'to-zero'], ['p', 'up'], ['m', 'down']] as const)
    add(`fri${letter}`, ['frb'], (unit, [b]) => unit.toIntegral(b!, mode)); // prettier-ignore
  return out;
}

/** The forms of fused instructions of VSX: the target is the addend, or a factor. */
export const FUSED_FORMS = { a: ['xa', 'xb', 'xt'], m: ['xa', 'xt', 'xb'] } as const;
export const FUSED = ['madd', 'msub', 'nmadd', 'nmsub'] as const;
const PRECISIONS = [['dp', BINARY64], ['sp', BINARY32]] as const; // prettier-ignore

/** A word in both halves of the first doubleword, where the manual leaves the second one open. */
const twice = (value: bigint): bigint => (word(value) << 32n) | word(value);

function scalarVectorRows(): Entry<ScalarRow>[] {
  const out: Entry<ScalarRow>[] = [];
  const add = (name: string, sources: readonly string[], run: ScalarRow['run']): void => {
    out.push([name, { sources, run }]);
  };
  for (const [suffix, to] of PRECISIONS) {
    const operate =
      (operation: Operation): ScalarRow['run'] =>
      (unit, x) =>
        unit.scalar(operation, to, x);
    for (const operation of ['add', 'sub', 'mul', 'div'] as const)
      add(`xs${operation}${suffix}`, ['xa', 'xb'], operate(operation));
    for (const operation of ['sqrt', 're', 'rsqrte'] as const)
      add(`xs${operation}${suffix}`, ['xb'], operate(operation));
    for (const operation of FUSED)
      for (const form of ['a', 'm'] as const)
        add(`xs${operation}${form}${suffix}`, FUSED_FORMS[form], operate(operation));
    add(`xscvsxd${suffix}`, ['xb'], (unit, [b]) => unit.fromInteger(to, BigInt.asIntN(64, b!)));
    add(`xscvuxd${suffix}`, ['xb'], (unit, [b]) => unit.fromInteger(to, b!));
  }
  for (const [suffix, mode] of Object.entries(MODES))
    add(`xsrdp${suffix}`, ['xb'], (unit, [b]) => unit.toIntegral(b!, suffix === 'i' ? 'nearest-away' : mode));
  add('xsrsp', ['xb'], (unit, [b]) => unit.roundToSingle(b!));
  add('xscvdpsp', ['xb'], (unit, [b]) => twice(unit.convertScalar(BINARY64, BINARY32, b!)));
  add('xscvspdp', ['xb'], (unit, [b]) => unit.convertScalar(BINARY32, BINARY64, b! >> 32n));
  add('xscvdpsxds', ['xb'], (unit, [b]) => wide(unit.toInteger(b!, SIGNED64, 'to-zero')));
  add('xscvdpuxds', ['xb'], (unit, [b]) => wide(unit.toInteger(b!, UNSIGNED64, 'to-zero')));
  add('xscvdpsxws', ['xb'], (unit, [b]) => twice(unit.toInteger(b!, SIGNED32, 'to-zero')));
  add('xscvdpuxws', ['xb'], (unit, [b]) => twice(unit.toInteger(b!, UNSIGNED32, 'to-zero')));
  add('xsmaxdp', ['xa', 'xb'], (unit, [a, b]) => unit.extreme(BINARY64, 'greater', a!, b!));
  add('xsmindp', ['xa', 'xb'], (unit, [a, b]) => unit.extreme(BINARY64, 'less', a!, b!));
  return out;
}

/** Scalars that tell of nothing: only bits of signs change. */
function signRows(): Entry<ScalarRow>[] {
  const out: Entry<ScalarRow>[] = [];
  for (const [abs, nabs, neg, copy, sources] of [
    ['fabs', 'fnabs', 'fneg', 'fcpsgn', ['fra', 'frb']],
    ['xsabsdp', 'xsnabsdp', 'xsnegdp', 'xscpsgndp', ['xa', 'xb']],
  ] as const) {
    const one = [sources[1]];
    out.push([abs, { sources: one, run: (_unit, [b]) => b! & ~SIGN64 }]);
    out.push([nabs, { sources: one, run: (_unit, [b]) => b! | SIGN64 }]);
    out.push([neg, { sources: one, run: (_unit, [b]) => b! ^ SIGN64 }]);
    out.push([copy, { sources, run: (_unit, [a, b]) => (a! & SIGN64) | (b! & ~SIGN64) }]);
  }
  return out;
}

export const SCALAR_ROWS: ReadonlyMap<string, ScalarRow> = new Map([...classicRows(), ...scalarVectorRows()]);
export const SIGN_ROWS: ReadonlyMap<string, ScalarRow> = new Map(signRows());

export const TEST_ROWS: ReadonlyMap<string, TestRow> = new Map<string, TestRow>([
  ['fcmpu', { sources: ['fra', 'frb'], run: (unit, [a, b]) => unit.compare(a!, b!, false) }],
  ['fcmpo', { sources: ['fra', 'frb'], run: (unit, [a, b]) => unit.compare(a!, b!, true) }],
  ['xscmpudp', { sources: ['xa', 'xb'], run: (unit, [a, b]) => unit.compare(a!, b!, false) }],
  ['xscmpodp', { sources: ['xa', 'xb'], run: (unit, [a, b]) => unit.compare(a!, b!, true) }],
  ['ftdiv', { sources: ['fra', 'frb'], run: (_unit, [a, b]) => testDivide(BINARY64, a!, b!) }],
  ['xstdivdp', { sources: ['xa', 'xb'], run: (_unit, [a, b]) => testDivide(BINARY64, a!, b!) }],
  ['ftsqrt', { sources: ['frb'], run: (_unit, [b]) => testRoot(BINARY64, b!) }],
  ['xstsqrtdp', { sources: ['xb'], run: (_unit, [b]) => testRoot(BINARY64, b!) }],
]);

// ---------------------------------------------------------------------------------------- vectors

/** Elements of so many bits, the first the most significant. */
function elements(value: bigint, bits: 32 | 64): bigint[] {
  return Array.from({ length: 128 / bits }, (_, i) => BigInt.asUintN(bits, value >> BigInt(128 - bits * (i + 1))));
}

function joined(values: readonly bigint[], bits: 32 | 64): bigint {
  return values.reduce((all, each) => (all << BigInt(bits)) | BigInt.asUintN(bits, each), 0n);
}

const widthOf = (of: Format): 32 | 64 => (of === BINARY64 ? 64 : 32);

/** The same of each element, which are of one width. */
const each =
  (bits: 32 | 64, run: (unit: FloatUnit, x: readonly bigint[]) => bigint): VectorRow['run'] =>
  (unit, x) => {
    const split = x.map((value) => elements(value, bits));
    return joined(split[0]!.map((_, i) => run(unit, split.map((value) => value[i]!))), bits);
  }; // prettier-ignore

/** Each doubleword of the result from one of the operand. */
const doublewords = (run: (unit: FloatUnit, b: bigint) => bigint): VectorRow['run'] =>
  each(64, (unit, [b]) => run(unit, b!));

function arithmeticRows(add: (name: string, sources: readonly string[], run: VectorRow['run']) => void): void {
  for (const [suffix, of] of PRECISIONS) {
    const bits = widthOf(of);
    const operate = (operation: Operation): VectorRow['run'] => each(bits, (unit, x) => unit.element(operation, of, x));
    for (const operation of ['add', 'sub', 'mul', 'div'] as const)
      add(`xv${operation}${suffix}`, ['xa', 'xb'], operate(operation));
    for (const operation of ['sqrt', 're', 'rsqrte'] as const) add(`xv${operation}${suffix}`, ['xb'], operate(operation));
    for (const operation of FUSED)
      for (const form of ['a', 'm'] as const) add(`xv${operation}${form}${suffix}`, FUSED_FORMS[form], operate(operation));
    for (const [name, which] of [['max', 'greater'], ['min', 'less']] as const)
      add(`xv${name}${suffix}`, ['xa', 'xb'], each(bits, (unit, [a, b]) => unit.extreme(of, which, a!, b!)));
    add(`xvabs${suffix}`, ['xb'], each(bits, (_unit, [b]) => b! & ~of.signBit));
    add(`xvnabs${suffix}`, ['xb'], each(bits, (_unit, [b]) => b! | of.signBit));
    add(`xvneg${suffix}`, ['xb'], each(bits, (_unit, [b]) => b! ^ of.signBit));
    const copied = each(bits, (_unit, [a, b]) => (a! & of.signBit) | (b! & ~of.signBit));
    add(`xvcpsgn${suffix}`, ['xa', 'xb'], copied);
    for (const [letters, mode] of Object.entries(MODES)) {
      const chosen: IntegralMode = letters === 'i' ? 'nearest-away' : mode;
      add(`xvr${suffix}${letters}`, ['xb'], each(bits, (unit, [b]) => unit.toIntegralElement(of, b!, chosen)));
    }
    const ones = (1n << BigInt(bits)) - 1n;
    for (const [name, holds] of [['eq', /equal/], ['gt', /greater/], ['ge', /greater|equal/]] as const) {
      const compared = each(bits, (unit, [a, b]) => (holds.test(unit.relation(of, a!, b!, name !== 'eq')) ? ones : 0n));
      add(`xvcmp${name}${suffix}`, ['xa', 'xb'], compared);
    }
  }
} // prettier-ignore

function conversionRows(add: (name: string, sources: readonly string[], run: VectorRow['run']) => void): void {
  const to = (unit: FloatUnit, of: Format, b: bigint, form: IntegerForm): bigint =>
    unit.toIntegerElement(of, b, form, 'to-zero').value;
  const one = ['xb'] as const;
  add('xvcvdpsp', one, doublewords((unit, b) => twice(unit.convertElement(BINARY64, BINARY32, b))));
  add('xvcvspdp', one, doublewords((unit, b) => unit.convertElement(BINARY32, BINARY64, b >> 32n)));
  for (const [letter, signed] of [['s', true], ['u', false]] as const) {
    const [wideForm, wordForm]: readonly IntegerForm[] = [{ bits: 64, signed }, { bits: 32, signed }];
    const whole = (value: bigint, bits: 32 | 64): bigint => (signed ? BigInt.asIntN(bits, value) : BigInt.asUintN(bits, value));
    add(`xvcvdp${letter}xds`, one, doublewords((unit, b) => to(unit, BINARY64, b, wideForm!)));
    add(`xvcvdp${letter}xws`, one, doublewords((unit, b) => twice(to(unit, BINARY64, b, wordForm!))));
    add(`xvcvsp${letter}xds`, one, doublewords((unit, b) => to(unit, BINARY32, b >> 32n, wideForm!)));
    add(`xvcvsp${letter}xws`, one, each(32, (unit, [b]) => to(unit, BINARY32, b!, wordForm!)));
    add(`xvcv${letter}xddp`, one, doublewords((unit, b) => unit.fromIntegerElement(BINARY64, whole(b, 64))));
    add(`xvcv${letter}xdsp`, one, doublewords((unit, b) => twice(unit.fromIntegerElement(BINARY32, whole(b, 64)))));
    add(`xvcv${letter}xwdp`, one, doublewords((unit, b) => unit.fromIntegerElement(BINARY64, whole(b >> 32n, 32))));
    add(`xvcv${letter}xwsp`, one, each(32, (unit, [b]) => unit.fromIntegerElement(BINARY32, whole(b!, 32))));
  }
} // prettier-ignore

export const VECTOR_ROWS: ReadonlyMap<string, VectorRow> = (() => {
  const out = new Map<string, VectorRow>();
  const add = (name: string, sources: readonly string[], run: VectorRow['run']): void => {
    out.set(name, { sources, run });
  };
  arithmeticRows(add);
  conversionRows(add);
  return out;
})();

/** Tests of all elements: a bit of the field is set where it is set for one. */
export const VECTOR_TESTS: ReadonlyMap<string, TestRow> = new Map(
  PRECISIONS.flatMap(([suffix, of]): Entry<TestRow>[] => {
    const bits = widthOf(of);
    const any = (fields: readonly number[]): number => fields.reduce((all, field) => all | field, 0);
    return [
      [`xvtdiv${suffix}`, {
        sources: ['xa', 'xb'],
        run: (_unit, [a, b]) => {
          const second = elements(b!, bits);
          return any(elements(a!, bits).map((value, i) => testDivide(of, value, second[i]!)));
        },
      }],
      [`xvtsqrt${suffix}`, { sources: ['xb'], run: (_unit, [b]) => any(elements(b!, bits).map((value) => testRoot(of, value))) }],
    ];
  }),
); // prettier-ignore
