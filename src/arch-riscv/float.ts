/**
 * What the instructions of F and D compute, for any operands, rounding modes and flags: the slow
 * way, which the lifter takes where the processor of the host does not give the same by itself.
 *
 * - A single is in the low half of its register, below 32 ones; any other register read as a single
 *   is the canonical NaN.
 * - Every NaN that an operation gives is the canonical one.
 * - Whether a result is tiny is asked after rounding.
 * - Conversions to integers saturate, NaN like +infinity; those to words are sign-extended,
 *   unsigned ones too.
 * - A rounding mode that does not exist is an illegal instruction, also when `frm` holds it.
 *
 * Source: The RISC-V Instruction Set Manual, Volume I (20240411), chapters 20 and 21.
 */
import {
  add,
  BINARY32,
  BINARY64,
  classify,
  compare,
  convert,
  divide,
  EXCEPTION,
  extremeNumber,
  fromInteger,
  multiply,
  multiplyAdd,
  squareRoot,
  subtract,
  toInteger,
} from '../float/index.js';
import type { Environment, Format, NumberClass, Result, Rounding } from '../float/index.js';
import { FLOAT_MODE } from '../machine/float-ops.js';
import type { BlockBuilder, Slot } from '../machine/ir.js';

/** The upper half of a register that holds a single. */
export const BOX = 0xffff_ffff_0000_0000n;

const FORMATS = [BINARY32, BINARY64] as const;
const canonical = ({ infinity, quietBit }: Format): bigint => infinity | quietBit;

/** `frm` and the rm field: by number. */
const MODES: readonly (Rounding | undefined)[] = ['nearest-even', 'to-zero', 'down', 'up', 'nearest-away'];
export const ROUNDING_MODE = { nearest: 0, zero: 1, down: 2, up: 3, away: 4, dynamic: 7 } as const;

/** Bit of `fclass` by class. */
const CLASS_BITS: Readonly<Record<NumberClass, bigint>> = {
  'negative infinity': 1n, 'negative normal': 2n, 'negative subnormal': 4n, 'negative zero': 8n, 'positive zero': 16n,
  'positive subnormal': 32n, 'positive normal': 64n, 'positive infinity': 128n, 'signalling NaN': 256n, 'quiet NaN': 512n,
}; // prettier-ignore

/** Registers as the instruction finds them; numbers are those of its fields. */
export interface FloatOperands {
  /** The register as it is. */
  float(register: number): bigint;
  integer(register: number): bigint;
  /** `frm`. */
  readonly mode: number;
}

/**
 * What the instruction writes: a register, and the flags that it adds. `EXCEPTION` has the bits of
 * `fflags`.
 */
export interface FloatEffect {
  readonly file: 'float' | 'integer';
  readonly register: number;
  readonly value: bigint;
  readonly flags: number;
}

const field = (word: number, low: number, bits: number): number => (word >>> low) & ((1 << bits) - 1);

function read(of: Format, register: bigint): bigint {
  if (of === BINARY64) return register;
  return register >= BOX ? register & 0xffff_ffffn : canonical(of);
}

const boxed = (of: Format, bits: bigint): bigint => (of === BINARY64 ? bits : bits | BOX);

function fused(word: number, of: Format, env: Environment, operand: (low: number) => bigint): Result {
  // fmadd, fmsub, fnmsub, fnmadd: a * b + c, a * b - c, -(a * b) + c, -(a * b) - c
  const kind = field(word, 2, 2);
  const a = operand(15) ^ (kind >= 2 ? of.signBit : 0n);
  const c = operand(27) ^ (kind === 1 || kind === 3 ? of.signBit : 0n);
  return multiplyAdd(of, env, a, operand(20), c);
}

/** w, wu, l, lu: a field of the conversions. */
const integerForm = (number: number): { readonly bits: 32 | 64; readonly signed: boolean } => ({
  bits: number >= 2 ? 64 : 32,
  signed: (number & 1) === 0,
});

function integerOf(of: Format, rounding: Rounding, bits: bigint, form: number): { value: bigint; flags: number } {
  const { bits: width, signed } = integerForm(form);
  const result = toInteger(of, rounding, bits, { bits: width, signed });
  let value: bigint;
  if (result.kind === 'integer') value = result.value;
  else if (result.kind === 'outside' && result.sign === 1) value = signed ? -(1n << BigInt(width - 1)) : 0n;
  else value = (1n << BigInt(signed ? width - 1 : width)) - 1n;
  return { value: BigInt.asUintN(64, width === 32 ? BigInt.asIntN(32, value) : value), flags: result.flags };
}

/** `fle`, `flt`, `feq`, by their field. */
function compared(of: Format, kind: number, a: bigint, b: bigint): { value: bigint; flags: number } {
  const { relation, flags } = compare(of, a, b, kind !== 2);
  const holds = (relation === 'equal' && kind !== 1) || (relation === 'less' && kind !== 2);
  return { value: holds ? 1n : 0n, flags };
}

/** Operation field (funct7 without the format). */
const OPERATION = {
  add: 0x00, sub: 0x01, mul: 0x02, div: 0x03, sqrt: 0x0b, extreme: 0x05, convert: 0x08, compare: 0x14, toInteger: 0x18,
  fromInteger: 0x1a, classify: 0x1c,
} as const; // prettier-ignore
/** Those without a rounding mode: the field says which of several they are. */
const UNROUNDED: ReadonlySet<number> = new Set([OPERATION.extreme, OPERATION.compare, OPERATION.classify]);
const OP_FP = 0x53;

function computed(word: number, of: Format, env: Environment, x: FloatOperands): Result {
  const operand = (low: number): bigint => read(of, x.float(field(word, low, 5)));
  if (field(word, 0, 7) !== OP_FP) return fused(word, of, env, operand);
  const a = operand(15);
  const second = field(word, 20, 5);
  switch (field(word, 27, 5)) {
    case OPERATION.add:
      return add(of, env, a, operand(20));
    case OPERATION.sub:
      return subtract(of, env, a, operand(20));
    case OPERATION.mul:
      return multiply(of, env, a, operand(20));
    case OPERATION.div:
      return divide(of, env, a, operand(20));
    case OPERATION.sqrt:
      return squareRoot(of, env, a);
    case OPERATION.extreme:
      return extremeNumber(of, env, field(word, 12, 3) === 0 ? 'less' : 'greater', a, operand(20));
    case OPERATION.convert: {
      const from = FORMATS[second & 1]!;
      return convert(from, of, env, read(from, x.float(field(word, 15, 5))));
    }
    default: {
      const { bits, signed } = integerForm(second);
      const value = x.integer(field(word, 15, 5));
      return fromInteger(of, env, signed ? BigInt.asIntN(bits, value) : BigInt.asUintN(bits, value));
    }
  }
}

/**
 * Executes an instruction of F or D that computes.
 * @returns null: its rounding mode does not exist
 */
export function executeFloat(word: number, x: FloatOperands): FloatEffect | null {
  const of = FORMATS[field(word, 25, 2) & 1]!;
  const register = field(word, 7, 5);
  const isFused = field(word, 0, 7) !== OP_FP;
  const operation = isFused ? -1 : field(word, 27, 5);
  const rm = field(word, 12, 3);
  const mode = UNROUNDED.has(operation) ? ROUNDING_MODE.nearest : rm === ROUNDING_MODE.dynamic ? x.mode : rm;
  const rounding = MODES[mode];
  if (rounding === undefined) return null;
  const a = (): bigint => read(of, x.float(field(word, 15, 5)));
  let integer: { value: bigint; flags: number };
  switch (operation) {
    case OPERATION.compare:
      integer = compared(of, rm, a(), read(of, x.float(field(word, 20, 5))));
      break;
    case OPERATION.toInteger:
      integer = integerOf(of, rounding, a(), field(word, 20, 5));
      break;
    case OPERATION.classify:
      integer = { value: CLASS_BITS[classify(of, a())], flags: 0 };
      break;
    default: {
      const env: Environment = { rounding, tininess: 'after', nan: canonical };
      const { bits, flags } = computed(word, of, env, x);
      return { file: 'float', register, value: boxed(of, bits), flags };
    }
  }
  return { file: 'integer', register, value: integer.value, flags: integer.flags };
}

/** The mode of the ops of floating point. They raise no flag, so of the flags only NX matters. */
export function modeOf(fcsr: bigint): bigint {
  if ((fcsr & 0xe0n) !== 0n) return FLOAT_MODE.other;
  return (fcsr & BigInt(EXCEPTION.inexact)) === 0n ? FLOAT_MODE.nearest : FLOAT_MODE.inexact;
}

/** The same in ops. */
export function setMode(b: BlockBuilder, mode: Slot, fcsr: Slot): void {
  const isOther = b.make('setne', b.make('and', fcsr, 0xe0n), 0n);
  b.select(mode, isOther, FLOAT_MODE.other, b.make('and', fcsr, BigInt(EXCEPTION.inexact)));
}
