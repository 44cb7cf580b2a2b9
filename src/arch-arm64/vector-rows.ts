/**
 * Advanced SIMD on integers that has no ops (`vectors.ts`): halved, rounded and saturating sums,
 * shifts by registers, products into wider elements, and shifts that round or saturate. Rows by
 * mnemonic, over elements as integers; `-d` is one element of 8 bytes, `-s` one of any size, `-e`
 * and `-es` have the element of a vector as their second operand.
 *
 * Source: Arm Architecture Reference Manual for A-profile, C7.2.
 */

/** The machine as an instruction finds and changes it. */
export interface VectorRegisters {
  vector(number: number): bigint;
  setVector(number: number, value: bigint): void;
}
type Operands = Readonly<Record<string, number>>;

/** Elements of one instruction while they are computed. */
class Unit {
  /** An element did not fit: FPSR.QC. */
  saturated = false;

  constructor(
    /** Bits of an element, of the narrow ones where there are two kinds. */
    readonly bits: number,
    /** By how much an immediate shifts to the left; to the right it is negative. */
    readonly left: number,
  ) {}

  /** The nearest number of so many bits. */
  clamp(value: bigint, signed: boolean, bits = this.bits): bigint {
    const top = (1n << BigInt(signed ? bits - 1 : bits)) - 1n;
    const least = signed ? -top - 1n : 0n;
    if (value >= least && value <= top) return value;
    this.saturated = true;
    return value > top ? top : least;
  }
}

/** An element from those of the operands and of the target. */
type Element = (unit: Unit, a: bigint, b: bigint, d: bigint) => bigint;
/** What elements are: all of one width, or with twice the bits in some of the operands. */
type Shape = 'same' | 'long' | 'wide' | 'narrow';
interface Row {
  readonly shape: Shape;
  readonly signed: boolean;
  readonly element: Element;
}

const absolute = (value: bigint): bigint => (value < 0n ? -value : value);
const half = (bits: number): bigint => 1n << BigInt(bits - 1);

/** Shifted to the left by a number of either sign. */
function shifted(value: bigint, left: number, rounds: boolean): bigint {
  if (left >= 0) return value << BigInt(left);
  return (rounds ? value + half(-left) : value) >> BigInt(-left);
}

/** By the low byte of an element. */
const byRegister = (signed: boolean, rounds: boolean, saturates: boolean): Row => ({
  shape: 'same',
  signed,
  element: (unit, a, b) => {
    const value = shifted(a, Number(BigInt.asIntN(8, b)), rounds);
    return saturates ? unit.clamp(value, signed) : value;
  },
});

const of =
  (shape: Shape) =>
  (signed: boolean, element: Element): Row => ({ shape, signed, element });
const [same, long, wide, narrow] = [of('same'), of('long'), of('wide'), of('narrow')];

function leadingZeros(value: bigint, bits: number): bigint {
  return BigInt(bits - (value === 0n ? 0 : value.toString(2).length));
}

function polynomialProduct(a: bigint, b: bigint): bigint {
  let product = 0n;
  for (let rest = b, at = 0n; rest !== 0n; rest >>= 1n, at++) if ((rest & 1n) !== 0n) product ^= a << at;
  return product;
}

/** Right shifts that round are in front of what they are added to. */
const right = (signed: boolean, rounds: boolean, accumulates: boolean): Row =>
  same(signed, (unit, a, _b, d) => shifted(a, unit.left, rounds) + (accumulates ? d : 0n));
/** `from` and `to`: signed. */
const saturatingShift = (from: boolean, to: boolean): Row =>
  same(from, (unit, a) => unit.clamp(a << BigInt(unit.left), to));
const narrowing = (from: boolean, to: boolean, rounds: boolean, saturates = true): Row =>
  narrow(from, (unit, a) => {
    const value = shifted(a, unit.left, rounds);
    return saturates ? unit.clamp(value, to) : value;
  });
const highHalf = (sign: 1n | -1n): Row =>
  narrow(false, (unit, a, b) => (a + sign * b + half(unit.bits)) >> BigInt(unit.bits));

const difference: Element = (_unit, a, b) => absolute(a - b);
const accumulated: Element = (_unit, a, b, d) => d + absolute(a - b);
const sum: Element = (_unit, a, b) => a + b;
const less: Element = (_unit, a, b) => a - b;
const product: Element = (_unit, a, b) => a * b;
const productAdded: Element = (_unit, a, b, d) => d + a * b;
const productTaken: Element = (_unit, a, b, d) => d - a * b;
const compared =
  (holds: (a: bigint, b: bigint) => boolean): Element =>
  (_unit, a, b) =>
    holds(a, b) ? -1n : 0n;
const doubled = (sign: 0n | 1n | -1n): Row =>
  long(true, (unit, a, b, d) => {
    const twice = unit.clamp(2n * a * b, true, 2 * unit.bits);
    return sign === 0n ? twice : unit.clamp(d + sign * twice, true, 2 * unit.bits);
  });

/** The high half of twice a product and of what it is added to, rounded once (FEAT_RDM). */
const roundedHigh = (sign: 1n | -1n): Row =>
  same(true, (unit, a, b, d) => {
    const bits = BigInt(unit.bits);
    return unit.clamp(((d << bits) + sign * 2n * a * b + half(unit.bits)) >> bits, true);
  });

/** A shift that leaves the bits of the target where none come in. */
const insertedRight: Element = (unit, a, _b, d) => {
  const kept = ((1n << BigInt(-unit.left)) - 1n) << BigInt(unit.bits + unit.left);
  return (a >> BigInt(-unit.left)) | (d & kept);
};
const insertedLeft: Element = (unit, a, _b, d) => (a << BigInt(unit.left)) | (d & ((1n << BigInt(unit.left)) - 1n));

const ROWS = {
  shadd: same(true, (_unit, a, b) => (a + b) >> 1n),
  uhadd: same(false, (_unit, a, b) => (a + b) >> 1n),
  srhadd: same(true, (_unit, a, b) => (a + b + 1n) >> 1n),
  urhadd: same(false, (_unit, a, b) => (a + b + 1n) >> 1n),
  shsub: same(true, (_unit, a, b) => (a - b) >> 1n),
  uhsub: same(false, (_unit, a, b) => (a - b) >> 1n),
  sqadd: same(true, (unit, a, b) => unit.clamp(a + b, true)),
  uqadd: same(false, (unit, a, b) => unit.clamp(a + b, false)),
  sqsub: same(true, (unit, a, b) => unit.clamp(a - b, true)),
  uqsub: same(false, (unit, a, b) => unit.clamp(a - b, false)),
  sshl: byRegister(true, false, false),
  ushl: byRegister(false, false, false),
  srshl: byRegister(true, true, false),
  urshl: byRegister(false, true, false),
  'sqshl-v': byRegister(true, false, true),
  'uqshl-v': byRegister(false, false, true),
  sqrshl: byRegister(true, true, true),
  uqrshl: byRegister(false, true, true),
  sabd: same(true, difference),
  uabd: same(false, difference),
  saba: same(true, accumulated),
  uaba: same(false, accumulated),
  sqdmulh: same(true, (unit, a, b) => unit.clamp((2n * a * b) >> BigInt(unit.bits), true)),
  sqrdmulh: same(true, (unit, a, b) => unit.clamp((2n * a * b + half(unit.bits)) >> BigInt(unit.bits), true)),
  sqrdmlah: roundedHigh(1n),
  sqrdmlsh: roundedHigh(-1n),
  pmul: same(false, (_unit, a, b) => polynomialProduct(a, b)),
  saddl: long(true, sum),
  uaddl: long(false, sum),
  ssubl: long(true, less),
  usubl: long(false, less),
  sabal: long(true, accumulated),
  uabal: long(false, accumulated),
  sabdl: long(true, difference),
  uabdl: long(false, difference),
  smull: long(true, product),
  umull: long(false, product),
  smlal: long(true, productAdded),
  umlal: long(false, productAdded),
  smlsl: long(true, productTaken),
  umlsl: long(false, productTaken),
  pmull: long(false, (_unit, a, b) => polynomialProduct(a, b)),
  sqdmull: doubled(0n),
  sqdmlal: doubled(1n),
  sqdmlsl: doubled(-1n),
  saddw: wide(true, sum),
  uaddw: wide(false, sum),
  ssubw: wide(true, less),
  usubw: wide(false, less),
  raddhn: highHalf(1n),
  rsubhn: highHalf(-1n),
  'cls-v': same(true, (unit, a) => leadingZeros(a < 0n ? ~a : a, unit.bits) - 1n),
  'clz-v': same(false, (unit, a) => leadingZeros(a, unit.bits)),
  sqabs: same(true, (unit, a) => unit.clamp(absolute(a), true)),
  sqneg: same(true, (unit, a) => unit.clamp(-a, true)),
  suqadd: same(true, (unit, a, _b, d) => unit.clamp(BigInt.asUintN(unit.bits, a) + d, true)),
  usqadd: same(false, (unit, a, _b, d) => unit.clamp(BigInt.asIntN(unit.bits, a) + d, false)),
  sqxtn: narrow(true, (unit, a) => unit.clamp(a, true)),
  uqxtn: narrow(false, (unit, a) => unit.clamp(a, false)),
  sqxtun: narrow(true, (unit, a) => unit.clamp(a, false)),
  srshr: right(true, true, false),
  urshr: right(false, true, false),
  srsra: right(true, true, true),
  ursra: right(false, true, true),
  sri: same(false, insertedRight),
  sli: same(false, insertedLeft),
  sqshl: saturatingShift(true, true),
  uqshl: saturatingShift(false, false),
  sqshlu: saturatingShift(true, false),
  rshrn: narrowing(false, false, true, false),
  sqshrn: narrowing(true, true, false),
  uqshrn: narrowing(false, false, false),
  sqshrun: narrowing(true, false, false),
  sqrshrn: narrowing(true, true, true),
  uqrshrn: narrowing(false, false, true),
  sqrshrun: narrowing(true, false, true),
  'add-d': same(false, sum),
  'sub-d': same(false, less),
  'cmeq-d': same(
    false,
    compared((a, b) => a === b),
  ),
  'cmgt-d': same(
    true,
    compared((a, b) => a > b),
  ),
  'cmge-d': same(
    true,
    compared((a, b) => a >= b),
  ),
  'cmhi-d': same(
    false,
    compared((a, b) => a > b),
  ),
  'cmhs-d': same(
    false,
    compared((a, b) => a >= b),
  ),
  'cmtst-d': same(
    false,
    compared((a, b) => (a & b) !== 0n),
  ),
  'sshl-d': byRegister(true, false, false),
  'ushl-d': byRegister(false, false, false),
  'srshl-d': byRegister(true, true, false),
  'urshl-d': byRegister(false, true, false),
  'abs-d': same(true, (_unit, a) => absolute(a)),
  'neg-d': same(true, (_unit, a) => -a),
  'sshr-d': right(true, false, false),
  'ushr-d': right(false, false, false),
  'ssra-d': right(true, false, true),
  'usra-d': right(false, false, true),
  'srshr-d': right(true, true, false),
  'urshr-d': right(false, true, false),
  'srsra-d': right(true, true, true),
  'ursra-d': right(false, true, true),
  'shl-d': same(false, (unit, a) => a << BigInt(unit.left)),
  'sri-d': same(false, insertedRight),
  'sli-d': same(false, insertedLeft),
} as const satisfies Readonly<Record<string, Row>>;

/** Rows that are there on scalars, too. */
const SCALARS = [
  'sqadd', 'uqadd', 'sqsub', 'uqsub', 'sqshl-v', 'uqshl-v', 'sqrshl', 'uqrshl', 'sqdmulh', 'sqrdmulh', 'sqdmlal', 'sqdmlsl', 'sqdmull',
  'suqadd', 'usqadd', 'sqabs', 'sqneg', 'sqxtn', 'uqxtn', 'sqxtun', 'sqshlu', 'sqshl', 'uqshl', 'sqshrun', 'sqrshrun', 'sqshrn',
  'sqrshrn', 'uqshrn', 'uqrshrn', 'sqrdmlah', 'sqrdmlsh',
] as const satisfies readonly (keyof typeof ROWS)[]; // prettier-ignore
/** Rows that are there with an element. */
const BY_ELEMENT = [
  'smlal', 'umlal', 'smlsl', 'umlsl', 'smull', 'umull', 'sqdmlal', 'sqdmlsl', 'sqdmull', 'sqdmulh', 'sqrdmulh', 'sqrdmlah', 'sqrdmlsh',
] as const satisfies readonly (keyof typeof ROWS)[]; // prettier-ignore
const SCALARS_BY_ELEMENT = ['sqdmlal', 'sqdmlsl', 'sqdmull', 'sqdmulh', 'sqrdmulh', 'sqrdmlah', 'sqrdmlsh'] as const;

/** Names of the rows of the instruction table that are executed here. */
export type IntegerRow =
  | keyof typeof ROWS
  | `${(typeof SCALARS)[number]}-s`
  | `${(typeof BY_ELEMENT)[number]}-e`
  | `${(typeof SCALARS_BY_ELEMENT)[number]}-es`;

export const INTEGER_ROWS: ReadonlyMap<string, Row> = new Map<string, Row>([
  ...Object.entries(ROWS),
  ...SCALARS.map((name) => [`${name}-s`, ROWS[name]] as const),
  ...BY_ELEMENT.map((name) => [`${name}-e`, ROWS[name]] as const),
  ...SCALARS_BY_ELEMENT.map((name) => [`${name}-es`, ROWS[name]] as const),
]);

/** Names whose immediate is a shift to the left. */
export const isLeftShift = (mnemonic: string): boolean =>
  /^(u?shl|sshll|ushll|sli|sqshlu?|uqshl)(-[ds])?$/.test(mnemonic);

interface ElementPlace {
  readonly number: number;
  readonly index: number;
}

/** The element of 2 bytes that h, l and the highest bit of the register's field name. */
export const halfElement = (field: number, o: Operands): ElementPlace => ({
  number: field & 15,
  index: 4 * o['h']! + 2 * o['l']! + (field >> 4),
});

/** The element of a vector that h, l and the register's field name. */
export function integerElement(o: Operands): ElementPlace {
  const field = o['vem']!;
  return o['size'] === 1 ? halfElement(field, o) : { number: field, index: 2 * o['h']! + o['l']! };
}

/** Elements of a number from `first` on. */
function elements(value: bigint, bits: number, first: number, count: number, signed: boolean): bigint[] {
  return Array.from({ length: count }, (_, i) => {
    const element = BigInt.asUintN(bits, value >> BigInt(bits * (first + i)));
    return signed ? BigInt.asIntN(bits, element) : element;
  });
}

const joined = (bits: number, parts: readonly bigint[]): bigint =>
  parts.reduce((all, each, i) => all | (BigInt.asUintN(bits, each) << BigInt(bits * i)), 0n);

/** Fields of registers by what they hold. */
const FIRST = ['vn', 'vln', 'dn', 'fn', 'fln'];
const SECOND = ['vm', 'vlm', 'dm', 'fm'];
const TARGET = ['vd', 'vld', 'dd', 'fd', 'fld'];

/**
 * Executes an instruction of `INTEGER_ROWS`; whether an element did not fit.
 * @param operands  fields of the instruction
 */
export function executeVector(mnemonic: string, operands: Operands, registers: VectorRegisters): boolean {
  const { shape, signed, element } = INTEGER_ROWS.get(mnemonic)!;
  const { shiftimm, two, q, dd, fd, fld, vem } = operands;
  const isOne = dd !== undefined || fd !== undefined || fld !== undefined;
  const size = shiftimm === undefined ? (operands['size'] ?? 3) : 31 - Math.clz32(shiftimm >> 3);
  const bits = 8 << size;
  const left = shiftimm === undefined ? 0 : isLeftShift(mnemonic) ? shiftimm - bits : shiftimm - 2 * bits;
  const unit = new Unit(bits, left);
  const count = isOne ? 1 : (shape !== 'same' || q === 0 ? 64 : 128) / bits;
  const upper = two === 1 ? count : 0;
  const registerOf = (names: readonly string[]): number | undefined => {
    const name = names.find((each) => operands[each] !== undefined);
    return name === undefined ? undefined : operands[name];
  };
  const take = (names: readonly string[], isWide: boolean): bigint[] => {
    const number = registerOf(names);
    const value = number === undefined ? 0n : registers.vector(number);
    return isWide
      ? elements(value, 2 * bits, 0, count, signed)
      : elements(value, bits, shape === 'same' ? 0 : upper, count, signed);
  };
  const takeSecond = (): bigint[] => {
    if (vem === undefined) return take(SECOND, shape === 'narrow');
    const { number, index } = integerElement(operands);
    return Array<bigint>(count).fill(elements(registers.vector(number), bits, index, 1, signed)[0]!);
  };
  const first = take(FIRST, shape === 'wide' || shape === 'narrow');
  const second = takeSecond();
  const target = take(TARGET, shape === 'long' || shape === 'wide');
  const results = first.map((each, i) => element(unit, each, second[i]!, target[i]!));
  const number = registerOf(TARGET)!;
  const low = joined(shape === 'long' || shape === 'wide' ? 2 * bits : bits, results);
  const isUpper = shape === 'narrow' && two === 1;
  registers.setVector(number, isUpper ? BigInt.asUintN(64, registers.vector(number)) | (low << 64n) : low);
  return unit.saturated;
}
