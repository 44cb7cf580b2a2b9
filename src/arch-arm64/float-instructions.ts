/**
 * What the instructions of floating point and of Advanced SIMD on numbers do, for any operands,
 * rounding modes and flags: the slow way, which the lifter takes where the processor of the host
 * does not give the same by itself.
 *
 * Rows of the instruction table are named by their mnemonic and a form: none and `-s` for scalars,
 * `-v` for vectors, `-e` and `-es` for those with an element, `-fix`, `-sfix` and `-vfix` for
 * numbers with a fixed point, `…z` for comparisons with zero, `…h` for half precision where that
 * has a row of its own.
 *
 * Source: Arm Architecture Reference Manual for A-profile, C7.2.
 */
import { ArmFloat, BINARY16, BINARY32, BINARY64, magnitudeOf, reciprocalOfInteger, rootOfInteger } from './float.js';
import type { OwnRounding } from './float.js';
import { halfElement } from './vector-rows.js';
import type { Format } from '../float/index.js';

/** The machine as an instruction finds and changes it. */
export interface FloatRegisters {
  readonly fpcr: number;
  vector(number: number): bigint;
  setVector(number: number, value: bigint): void;
  /** 31 is zero. */
  integer(number: number): bigint;
  setInteger(number: number, value: bigint): void;
  /** N, Z, C, V in bits 3 to 0. */
  setNzcv(value: number): void;
  holds(condition: number): boolean;
}

/** One instruction: its fields, the registers, and the arithmetic that collects its flags. */
class Execution {
  readonly float: ArmFloat;

  constructor(
    readonly fields: Readonly<Record<string, number>>,
    readonly registers: FloatRegisters,
  ) {
    this.float = new ArmFloat(registers.fpcr);
  }

  n(name: string): number {
    return this.fields[name]!;
  }

  /** The format that the fields name. */
  get format(): Format {
    const { ptype, sz, shiftimm, half } = this.fields;
    if (half !== undefined || shiftimm! < 32) return BINARY16;
    if (ptype !== undefined) return ptype === 3 ? BINARY16 : ptype === 1 ? BINARY64 : BINARY32;
    const isDouble = shiftimm === undefined ? sz === 1 : shiftimm >= 64;
    return isDouble ? BINARY64 : BINARY32;
  }

  get isFull(): boolean {
    return this.fields['q'] === 1;
  }

  /** Digits behind the point of a number with a fixed one. */
  get fixedBits(): number {
    if (this.fields['shiftimm'] !== undefined) return 2 * widthOf(this.format) - this.fields['shiftimm'];
    return this.fields['fixed'] === undefined ? 0 : 64 - this.fields['fixed'];
  }

  relationNzcv(of: Format, a: bigint, b: bigint, signals: boolean): number {
    return { less: 8, equal: 6, greater: 2, unordered: 3 }[this.float.compare(of, a, b, signals)];
  }
}
type Execute = (x: Execution) => void;

const widthOf = (of: Format): number => 1 + of.exponentBits + of.fractionBits;
const lowOnes = (bits: number): bigint => (1n << BigInt(bits)) - 1n;
const element = (vector: bigint, bits: number, index: number): bigint =>
  (vector >> BigInt(bits * index)) & lowOnes(bits);

/** The element of 2 bytes that an instruction names. */
function halfOf(x: Execution, field: string): bigint {
  const { number, index } = halfElement(x.n(field), { h: x.n('h'), l: x.n('l') });
  return element(x.registers.vector(number), 16, index);
}

/** The low element of a register. */
const low = (x: Execution, field: string, of: Format): bigint =>
  element(x.registers.vector(x.n(field)), widthOf(of), 0);

/** Elements of `bits` one after the other, from the lowest. */
function joined(bits: number, elements: readonly bigint[]): bigint {
  return elements.reduce((sum, each, i) => sum | (each << BigInt(bits * i)), 0n);
}

/** An operation on elements: of one operand, two, or the target and two. */
type Operation = (x: Execution, of: Format, a: bigint, b: bigint, c: bigint) => bigint;

// -------------------------------------------------------------------------------------- operations

const holds = (kind: 'eq' | 'ge' | 'gt' | 'le' | 'lt', isAbsolute = false): Operation => {
  return ({ float }, of, first, second) => {
    const [a, b] = isAbsolute ? [magnitudeOf(of, first), magnitudeOf(of, second)] : [first, second];
    const relation = float.compare(of, a, b, kind !== 'eq');
    const result =
      (relation === 'equal' && kind !== 'gt' && kind !== 'lt') ||
      (relation === 'greater' && (kind === 'ge' || kind === 'gt')) ||
      (relation === 'less' && (kind === 'le' || kind === 'lt'));
    return result ? lowOnes(widthOf(of)) : 0n;
  };
};

/** Of two operands. */
const BINARY: Readonly<Record<string, Operation>> = {
  fadd: ({ float }, of, a, b) => float.add(of, a, b),
  fsub: ({ float }, of, a, b) => float.subtract(of, a, b),
  fmul: ({ float }, of, a, b) => float.multiply(of, a, b),
  fdiv: ({ float }, of, a, b) => float.divide(of, a, b),
  fnmul: ({ float }, of, a, b) => float.multiply(of, a, b) ^ of.signBit,
  fmulx: ({ float }, of, a, b) => float.multiplyExtended(of, a, b),
  fabd: ({ float }, of, a, b) => magnitudeOf(of, float.subtract(of, a, b)),
  fmax: ({ float }, of, a, b) => float.extreme(of, 'greater', a, b),
  fmin: ({ float }, of, a, b) => float.extreme(of, 'less', a, b),
  fmaxnm: ({ float }, of, a, b) => float.extremeNumber(of, 'greater', a, b),
  fminnm: ({ float }, of, a, b) => float.extremeNumber(of, 'less', a, b),
  frecps: ({ float }, of, a, b) => float.step(of, 'reciprocal', a, b),
  frsqrts: ({ float }, of, a, b) => float.step(of, 'root', a, b),
  fcmeq: holds('eq'),
  fcmge: holds('ge'),
  fcmgt: holds('gt'),
  facge: holds('ge', true),
  facgt: holds('gt', true),
};

/** Of the target and two. */
const FUSED: Readonly<Record<string, Operation>> = {
  fmla: ({ float }, of, a, b, c) => float.multiplyAdd(of, c, a, b),
  fmls: ({ float }, of, a, b, c) => float.multiplyAdd(of, c, a ^ of.signBit, b),
};

const ROUNDING: Readonly<Record<string, OwnRounding>> = {
  n: 'nearest-even', m: 'down', p: 'up', z: 'to-zero', a: 'nearest-away', x: null, i: null,
}; // prettier-ignore

/** Of one operand. */
const UNARY: Readonly<Record<string, Operation>> = {
  fabs: (_x, of, a) => magnitudeOf(of, a),
  fneg: (_x, of, a) => a ^ of.signBit,
  fsqrt: ({ float }, of, a) => float.squareRoot(of, a),
  frecpe: ({ float }, of, a) => float.reciprocalEstimate(of, a),
  frsqrte: ({ float }, of, a) => float.rootEstimate(of, a),
  frecpx: ({ float }, of, a) => float.invertedExponent(of, a),
  ...Object.fromEntries(
    Object.entries(ROUNDING).map(([letter, rounding]): [string, Operation] => [
      `frint${letter}`,
      ({ float }, of, a) => float.toIntegral(of, rounding, letter === 'x', a),
    ]),
  ),
};

const AGAINST_ZERO: Readonly<Record<string, Operation>> = {
  fcmeq: holds('eq'), fcmge: holds('ge'), fcmgt: holds('gt'), fcmle: holds('le'), fcmlt: holds('lt'),
}; // prettier-ignore

/** Conversions to integers, by their letters. */
const TO_INTEGER = ['n', 'm', 'p', 'z', 'a'].flatMap((letter) =>
  (['s', 'u'] as const).map((sign) => ({
    name: `fcvt${letter}${sign}`,
    rounding: ROUNDING[letter]!,
    signed: sign === 's',
  })),
);

/** Between elements of one width. */
const CONVERSIONS: Readonly<Record<string, Operation>> = {
  ...Object.fromEntries(
    TO_INTEGER.map(({ name, rounding, signed }): [string, Operation] => [
      name,
      ({ float, fixedBits }, of, a) => float.toInteger(of, rounding, a, widthOf(of), signed, fixedBits),
    ]),
  ),
  scvtf: ({ float, fixedBits }, of, a) => float.fromInteger(of, BigInt.asIntN(widthOf(of), a), fixedBits),
  ucvtf: ({ float, fixedBits }, of, a) => float.fromInteger(of, a, fixedBits),
};

// ------------------------------------------------------------------------------------------- forms

/** On scalars: the rest of the target becomes zero. */
const scalar =
  (operation: Operation, operands: 1 | 2 | 3): Execute =>
  (x) => {
    const of = x.format;
    const b = operands > 1 ? low(x, 'fm', of) : 0n;
    const c = operands > 2 ? low(x, 'fd', of) : 0n;
    x.registers.setVector(x.n('fd'), operation(x, of, low(x, 'fn', of), b, c));
  };

/** On all elements. */
const vector =
  (operation: Operation, operands: 1 | 2 | 3): Execute =>
  (x) => {
    const of = x.format;
    const bits = widthOf(of);
    const [a, b, c] = ['vn', 'vm', 'vd'].map((name, i) => (i < operands ? x.registers.vector(x.n(name)) : 0n));
    const results = Array.from({ length: (x.isFull ? 128 : 64) / bits }, (_, i) =>
      operation(x, of, element(a!, bits, i), element(b!, bits, i), element(c!, bits, i)),
    );
    x.registers.setVector(x.n('vd'), joined(bits, results));
  };

/** The element of the second operand that h:l names, with a bit of the register for halves. */
function indexed(x: Execution, of: Format): bigint {
  if (of === BINARY16) return halfOf(x, 'vem');
  const index = of === BINARY64 ? x.n('h') : 2 * x.n('h') + x.n('l');
  return element(x.registers.vector(x.n('vem')), widthOf(of), index);
}

const byElement =
  (operation: Operation, isScalar: boolean): Execute =>
  (x) => {
    const of = x.format;
    const bits = widthOf(of);
    const b = indexed(x, of);
    const [d, n] = isScalar ? ['fd', 'fn'] : ['vd', 'vn'];
    const [a, c] = [x.registers.vector(x.n(n!)), x.registers.vector(x.n(d!))];
    const count = isScalar ? 1 : (x.isFull ? 128 : 64) / bits;
    const results = Array.from({ length: count }, (_, i) =>
      operation(x, of, element(a, bits, i), b, element(c, bits, i)),
    );
    x.registers.setVector(x.n(d!), joined(bits, results));
  };

/** Neighbours of both operands. */
const pairwise =
  (operation: Operation): Execute =>
  (x) => {
    const of = x.format;
    const bits = widthOf(of);
    const count = (x.isFull ? 128 : 64) / bits;
    const both = ['vn', 'vm'].flatMap((name) => {
      const each = x.registers.vector(x.n(name));
      return Array.from({ length: count }, (_, i) => element(each, bits, i));
    });
    const results = Array.from({ length: count }, (_, i) => operation(x, of, both[2 * i]!, both[2 * i + 1]!, 0n));
    x.registers.setVector(x.n('vd'), joined(bits, results));
  };

/** The two elements of one operand. */
const pair =
  (operation: Operation): Execute =>
  (x) => {
    const of = x.format;
    const value = x.registers.vector(x.n('vpair'));
    const bits = widthOf(of);
    x.registers.setVector(x.n('fd'), operation(x, of, element(value, bits, 0), element(value, bits, 1), 0n));
  };

/** All elements: those of the lower half first, and so on. */
const across =
  (operation: Operation): Execute =>
  (x) => {
    const of = x.format;
    const bits = widthOf(of);
    const value = x.registers.vector(x.n('vn'));
    const reduced = (first: number, count: number): bigint =>
      count === 1
        ? element(value, bits, first)
        : operation(x, of, reduced(first, count / 2), reduced(first + count / 2, count / 2), 0n);
    x.registers.setVector(x.n('fd'), reduced(0, (x.isFull ? 128 : 64) / bits));
  };

/** Products of halves, of the lower or upper ones of what is read, added to singles. */
const longProduct =
  (isUpper: boolean, negates: boolean): Execute =>
  (x) => {
    const count = x.isFull ? 4 : 2;
    const first = isUpper ? count : 0;
    const [a, b, sums] = [x.registers.vector(x.n('hvn')), x.fields['hvm'], x.registers.vector(x.n('v4s'))];
    const results = Array.from({ length: count }, (_, i) => {
      const one = element(a, 16, first + i) ^ (negates ? BINARY16.signBit : 0n);
      const other = b === undefined ? halfOf(x, 'hve') : element(x.registers.vector(b), 16, first + i);
      return x.float.multiplyAddLong(element(sums, 32, i), one, other);
    });
    x.registers.setVector(x.n('v4s'), joined(32, results));
  };

const fused =
  (negates: { readonly product: boolean; readonly addend: boolean }): Execute =>
  (x) => {
    const of = x.format;
    const a = low(x, 'fn', of) ^ (negates.product ? of.signBit : 0n);
    const c = low(x, 'fa', of) ^ (negates.addend ? of.signBit : 0n);
    x.registers.setVector(x.n('fd'), x.float.multiplyAdd(of, c, a, low(x, 'fm', of)));
  };

const comparison =
  (signals: boolean, withZero: boolean, isConditional: boolean): Execute =>
  (x) => {
    const of = x.format;
    if (isConditional && !x.registers.holds(x.n('cond'))) x.registers.setNzcv(x.n('nzcv'));
    else x.registers.setNzcv(x.relationNzcv(of, low(x, 'fn', of), withZero ? 0n : low(x, 'fm', of), signals));
  };

const conversion =
  (to: Format, target: string): Execute =>
  (x) => {
    const from = x.format;
    x.registers.setVector(x.n(target), x.float.convert(from, to, low(x, 'fn', from)));
  };

const toGeneral =
  ({ rounding, signed }: (typeof TO_INTEGER)[number]): Execute =>
  (x) => {
    const of = x.format;
    const bits = x.n('sf') === 1 ? 64 : 32;
    const value = x.float.toInteger(of, rounding, low(x, 'fn', of), bits, signed, x.fixedBits);
    x.registers.setInteger(x.n('rd'), value);
  };

const fromGeneral =
  (signed: boolean): Execute =>
  (x) => {
    const bits = x.n('sf') === 1 ? 64 : 32;
    const value = x.registers.integer(x.n('rn'));
    const integer = signed ? BigInt.asIntN(bits, value) : BigInt.asUintN(bits, value);
    x.registers.setVector(x.n('fd'), x.float.fromInteger(x.format, integer, x.fixedBits));
  };

/** From narrow elements in the lower or upper half of a register. */
const lengthened: Execute = (x) => {
  const [from, to] = x.n('sz') === 1 ? [BINARY32, BINARY64] : [BINARY16, BINARY32];
  const bits = widthOf(from);
  const half = x.registers.vector(x.n('vfn')) >> (x.n('two') === 1 ? 64n : 0n);
  const results = Array.from({ length: 64 / bits }, (_, i) => x.float.convert(from, to, element(half, bits, i)));
  x.registers.setVector(x.n('vfl'), joined(2 * bits, results));
};

/** Into the lower half of the target, whose upper half becomes zero, or into the upper one. */
const shortened =
  (toOdd: boolean): Execute =>
  (x) => {
    const [from, to] = x.n('sz') === 1 ? [BINARY64, BINARY32] : [BINARY32, BINARY16];
    const bits = widthOf(from);
    const value = x.registers.vector(x.n('vfl'));
    const results = Array.from({ length: 128 / bits }, (_, i) => {
      const each = element(value, bits, i);
      return toOdd ? x.float.convertToOdd(from, to, each) : x.float.convert(from, to, each);
    });
    const narrow = joined(bits / 2, results);
    const d = x.n('vfn');
    x.registers.setVector(d, x.n('two') === 0 ? narrow : (x.registers.vector(d) & lowOnes(64)) | (narrow << 64n));
  };

const onWords =
  (compute: (value: number) => number): Execute =>
  (x) => {
    const value = x.registers.vector(x.n('vn'));
    const results = Array.from({ length: x.isFull ? 4 : 2 }, (_, i) => BigInt(compute(Number(element(value, 32, i)))));
    x.registers.setVector(x.n('vd'), joined(32, results));
  };

const entries = (
  of: Readonly<Record<string, Operation>>,
  suffix: string,
  form: (operation: Operation) => Execute,
): [string, Execute][] => Object.entries(of).map(([name, operation]) => [`${name}${suffix}`, form(operation)]);

const only = (of: Readonly<Record<string, Operation>>, names: string): Readonly<Record<string, Operation>> =>
  Object.fromEntries(names.split(' ').map((name) => [name, of[name]!]));

/** By the names of the rows. */
const EXECUTE: ReadonlyMap<string, Execute> = new Map<string, Execute>([
  ...entries(BINARY, '', (each) => scalar(each, 2)),
  ...entries(UNARY, '', (each) => scalar(each, 1)),
  ['fmadd', fused({ product: false, addend: false })],
  ['fmsub', fused({ product: true, addend: false })],
  ['fnmadd', fused({ product: true, addend: true })],
  ['fnmsub', fused({ product: false, addend: true })],
  ['fcmp', comparison(false, false, false)],
  ['fcmp-zero', comparison(false, true, false)],
  ['fcmpe', comparison(true, false, false)],
  ['fcmpe-zero', comparison(true, true, false)],
  ['fccmp', comparison(false, false, true)],
  ['fccmpe', comparison(true, false, true)],
  ['fcvt-s', conversion(BINARY32, 'sd')],
  ['fcvt-d', conversion(BINARY64, 'dd')],
  ['fcvt-h', conversion(BINARY16, 'hd')],
  ...TO_INTEGER.flatMap((each): [string, Execute][] => [
    [each.name, toGeneral(each)],
    [`${each.name}-fix`, toGeneral(each)],
  ]),
  ...['', '-fix'].flatMap((form): [string, Execute][] => [
    [`scvtf${form}`, fromGeneral(true)],
    [`ucvtf${form}`, fromGeneral(false)],
  ]),

  ...entries(BINARY, '-s', (each) => scalar(each, 2)),
  ...entries(UNARY, '-s', (each) => scalar(each, 1)),
  ...entries(BINARY, '-v', (each) => vector(each, 2)),
  ...entries(UNARY, '-v', (each) => vector(each, 1)),
  ...entries(FUSED, '-v', (each) => vector(each, 3)),
  ...entries(AGAINST_ZERO, '-sz', (each) => scalar((x, of, a) => each(x, of, a, 0n, 0n), 1)),
  ...entries(AGAINST_ZERO, '-vz', (each) => vector((x, of, a) => each(x, of, a, 0n, 0n), 1)),
  ...['-s', '-sfix'].flatMap((suffix) => entries(CONVERSIONS, suffix, (each) => scalar(each, 1))),
  ...['-v', '-vfix'].flatMap((suffix) => entries(CONVERSIONS, suffix, (each) => vector(each, 1))),
  ...[false, true].flatMap((isScalar) =>
    entries({ ...FUSED, ...only(BINARY, 'fmul fmulx') }, isScalar ? '-es' : '-e', (each) => byElement(each, isScalar)),
  ),
  ...entries(only(BINARY, 'fadd fmax fmin fmaxnm fminnm'), 'p-v', pairwise),
  ...entries(only(BINARY, 'fadd fmax fmin fmaxnm fminnm'), 'p-s', pair),
  ...entries(only(BINARY, 'fmax fmin fmaxnm fminnm'), 'v', across),
  ['fcvtl', lengthened],
  ['fcvtn', shortened(false)],
  ['fcvtxn', shortened(true)],
  [
    'fcvtxn-s',
    (x) => {
      x.registers.setVector(x.n('sd'), x.float.convertToOdd(BINARY64, BINARY32, low(x, 'dn', BINARY64)));
    },
  ],
  ...(
    [
      ['fmlal', false],
      ['fmlsl', true],
    ] as const
  ).flatMap(([name, negates]) =>
    ['', '-e'].flatMap((form): [string, Execute][] => [
      [`${name}${form}`, longProduct(false, negates)],
      [`${name}2${form}`, longProduct(true, negates)],
    ]),
  ),
  ['urecpe', onWords(reciprocalOfInteger)],
  ['ursqrte', onWords(rootOfInteger)],
]);

/**
 * Executes an instruction.
 * @param row  its name in the instruction table
 * @returns the bits that it adds to FPSR; null: it is none of floating point
 */
export function executeFloat(
  row: string,
  fields: Readonly<Record<string, number>>,
  registers: FloatRegisters,
): number | null {
  const execute = EXECUTE.get(row) ?? EXECUTE.get(row.replace(/-?h$/, ''));
  if (execute === undefined) return null;
  const execution = new Execution(fields, registers);
  execute(execution);
  return execution.float.flags;
}
