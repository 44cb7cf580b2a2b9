/**
 * How functions of the ops of x87 (`x87-ops.ts`) read and write its state, and the numbers that
 * they decide for: normal ones of 80 bits, and zeros. Parameters: the operand, and what is asked.
 * The result is negative where a helper must decide; then nothing was written.
 *
 * Source: IEEE Std 754-2019, 3.4; Intel SDM volume 1, chapter 8.
 */
import { STATE } from './host.js';
import { I32, I64 } from '../machine/ir.js';
import { X87_AT, X87_FIELDS, X87_SOURCES } from '../machine/x87-ops.js';
import type { X87Source } from '../machine/x87-ops.js';
import { Code } from './wasm.js';
import type { ValueType, WasmFunction } from './wasm.js';

export const VALUE = 0;
const ASKED = 1;

/** Of the status word: an exception is pending; C1; C0, C2 and C3; inexact; the top. */
const PENDING = 0x8080;
export const C1 = 0x200;
export const CODES = 0x4500;
export const PRECISION = 0x20;
const TOP = 0x3800;
/** Of the control word as it is kept: masks that are off, and the rounding mode. */
export const UNMASKED = 0x3f;
export const ROUNDING = 0xc00;
/** Of the same: fewer bits of precision than 64. */
export const LESS_PRECISE = 0x300;

export const SIGN = 0x8000;
export const LARGEST = 0x7fff;
export const BIAS = 16383;
/** Normal numbers have so many, from 1 on. */
export const NORMAL_EXPONENTS = LARGEST - 1;
/** The exponent of a number whose significand is an integer. */
export const BIAS_OF_INTEGERS = BIAS + 63;
export const INTEGER_BIT = 1n << 63n;
const FRACTION = INTEGER_BIT - 1n;
/** Of what is below the last bit of a result. */
export const MORE_THAN_HALF = 3n << 62n;

/** Host addresses for a base of 0: the halves of a register, what is stored. */
const LOWER_AT = STATE + X87_AT.registers;
const UPPER_AT = LOWER_AT + 8;
export const BITS_AT = STATE + X87_AT.bits;

export type Part = keyof typeof X87_AT;

/** A number: significand with the integer bit, exponent as it is kept, sign in its place. */
export interface Parts {
  readonly significand: number;
  readonly exponent: number;
  readonly sign: number;
}
/** Locals of a number that becomes an integer. */
interface Whole {
  /** As the control word has it. */
  readonly mode: number;
  readonly bits: number;
  /** What is noted of the rounding. */
  readonly noted: number;
}
/** Numbers of fewer bits, as memory has them. */
export interface Narrow {
  /** Bits of the fraction: from the lowest one on. */
  readonly fraction: bigint;
  /** Bits of 80 that they lack, and those behind them as the upper part of 64. */
  readonly lacking: bigint;
  readonly kept: bigint;
  /** All bits of the exponent, which no number has. */
  readonly most: number;
  /** How much smaller their exponents are. */
  readonly moved: number;
  /** Of infinity. */
  readonly infinity: bigint;
  /** How far the sign is from where numbers of 80 bits have it. */
  readonly sign: bigint;
}

function narrow(fraction: number, exponentBits: number): Narrow {
  const most = (1 << exponentBits) - 1;
  return {
    fraction: BigInt(fraction),
    lacking: BigInt(63 - fraction),
    kept: BigInt(fraction + 1),
    most,
    moved: BIAS - (most >> 1),
    infinity: BigInt(most) << BigInt(fraction),
    sign: BigInt(fraction + exponentBits - 15),
  };
}
export const DOUBLE = narrow(52, 11);
export const SINGLE = narrow(23, 8);

/**
 * Rounds a significand to nearest where `rest` is below its last bit, as a fraction of 64 bits;
 * says so in `noted`.
 */
export function roundUp(code: Code, kept: number, rest: number, noted: number): void {
  code.get(rest).i64(0n).op(I64.ne).if();
  code.i32(PRECISION).set(noted);
  code.get(rest).i64(63n).op(I64.shr);
  code.get(rest).i64(1n).op(I64.shl).i64(0n).op(I64.ne).op(I64.extendU).get(kept).op(I64.or).op(I64.and);
  code.op(I32.wrap).i32(1).op(I32.and).if();
  code.i32(PRECISION | C1).set(noted);
  code.get(kept).i64(1n).op(I64.add).set(kept);
  code.end();
  code.end();
}

/** The magnitude of a number other than 0 as an integer, under the rounding mode in `mode`. */
export function writeWhole(unit: UnitCode, { significand, exponent, sign }: Parts, out: Whole): void {
  const { code } = unit;
  const { mode, bits, noted } = out;
  const [rest, shift] = [unit.local('i64'), unit.local('i64')];
  code.i32(BIAS_OF_INTEGERS).get(exponent).op(I32.sub).op(I64.extendS).tee(shift).i64(64n).op(I64.ltu).if();
  code.get(significand).get(shift).op(I64.shr).set(bits);
  code.get(significand).i64(64n).get(shift).op(I64.sub).op(I64.shl).set(rest);
  code.else();
  code.i64(0n).set(bits);
  code.get(significand).i64(1n).get(shift).i64(64n).op(I64.eq).select().set(rest);
  code.end();
  code.get(mode).op(I32.eqz).if();
  roundUp(code, bits, rest, noted);
  code.else();
  code.get(rest).i64(0n).op(I64.ne).if();
  code.i32(PRECISION).set(noted);
  // Away from 0: down below it, up above.
  code.i32(1).i32(2).get(sign).select().get(mode).op(I32.eq).if();
  code.i32(PRECISION | C1).set(noted);
  code.get(bits).i64(1n).op(I64.add).set(bits);
  code.end();
  code.end();
  code.end();
}

/** A function as it grows. */
export class UnitCode {
  readonly code = new Code(1024);
  private readonly locals: ValueType[] = [];
  /** Of 32 bits: where the state is, status and tags, the top of the stack. */
  readonly base = this.local('i32');
  readonly status = this.local('i32');
  readonly tags = this.local('i32');
  readonly top = this.local('i32');
  private readonly word = this.local('i32');

  constructor() {
    const { code, base, status, tags, top } = this;
    const { base: field } = X87_FIELDS;
    code.get(ASKED).op(I32.wrap).i32(field).op(I32.shr).set(base);
    this.fetch('status');
    code.tee(status).i32(PENDING).op(I32.and);
    this.refuse();
    this.fetch('tags');
    code.set(tags);
    code.get(status).i32(11).op(I32.shr).i32(7).op(I32.and).set(top);
  }

  local(type: ValueType): number {
    this.locals.push(type);
    return ASKED + this.locals.length;
  }

  parts(): Parts {
    return { significand: this.local('i64'), exponent: this.local('i32'), sign: this.local('i32') };
  }

  /** Pushes a word of the state. */
  fetch(part: Part): void {
    const at = STATE + X87_AT[part];
    this.code.get(this.base).memory([I32.load], at);
  }

  /** Writes a local to one. */
  keep(part: Part, local: number): void {
    const at = STATE + X87_AT[part];
    this.code.get(this.base).get(local).memory([I32.store], at);
  }

  /** A local with the rounding mode. */
  mode(): number {
    const mode = this.local('i32');
    this.fetch('control');
    this.code.i32(10).op(I32.shr).i32(3).op(I32.and).set(mode);
    return mode;
  }

  /** Leaves the instruction to a helper where the i32 on the stack is not 0. */
  refuse(): void {
    this.code.rarely().if();
    this.code.i64(-1n).return().end();
  }

  /** The same where the control word has one of these bits. */
  refuseControl(bits: number): void {
    this.fetch('control');
    this.code.i32(bits).op(I32.and);
    this.refuse();
  }

  /** Pushes a field of what is asked. */
  field(at: number, bits: number): void {
    const mask = (1 << bits) - 1;
    this.code.get(ASKED).op(I32.wrap).i32(at).op(I32.shr).i32(mask).op(I32.and);
  }

  /** Pushes whether the kind that is asked is number `index` of its list. */
  isKind(index: number): void {
    this.field(X87_FIELDS.kind, 3);
    this.code.i32(index).op(I32.eq);
  }

  /** The number of the register at a place from the top, which a field has. */
  number(at: number): number {
    const number = this.local('i32');
    this.field(at, 3);
    this.code.get(this.top).op(I32.add).i32(7).op(I32.and).set(number);
    return number;
  }

  /** A register that is empty is left to a helper. */
  refuseEmpty(number: number): void {
    this.code.get(this.tags).get(number).op(I32.shr).i32(1).op(I32.and).op(I32.eqz);
    this.refuse();
  }

  /** Where a register is, without `STATE`. */
  place(number: number): number {
    const place = this.local('i32');
    this.code.get(number).i32(4).op(I32.shl).get(this.base).op(I32.add).set(place);
    return place;
  }

  /** A register as it is, whatever it holds. */
  raw(number: number, significand: number, upper: number): void {
    const place = this.place(number);
    this.code.get(place).memory([I64.load], LOWER_AT).set(significand);
    this.code.get(place).memory([I32.load], UPPER_AT).set(upper);
  }

  /** The number in a register: a normal one or 0, or it is refused. */
  register(number: number, { significand, exponent, sign }: Parts): void {
    const { code } = this;
    this.raw(number, significand, exponent);
    code.get(exponent).i32(SIGN).op(I32.and).set(sign);
    code.get(exponent).i32(LARGEST).op(I32.and).tee(exponent).op(I32.eqz);
    code.if('i32');
    code.get(significand).op(I64.eqz);
    code.else().get(significand).i64(0n).op(I64.lt).get(exponent).i32(LARGEST).op(I32.ne).op(I32.and).end();
    code.op(I32.eqz);
    this.refuse();
  }

  /** The operand as a number in memory. */
  private narrow(
    { fraction, lacking, most, moved, sign: place }: Narrow,
    { significand, exponent, sign }: Parts,
  ): void {
    const { code } = this;
    code.get(VALUE).i64(place).op(I64.shr).op(I32.wrap).i32(SIGN).op(I32.and).set(sign);
    code.get(VALUE).i64(fraction).op(I64.shr).op(I32.wrap).i32(most).op(I32.and).set(exponent);
    code.get(VALUE).i64(lacking).op(I64.shl).i64(FRACTION).op(I64.and).set(significand);
    code.get(exponent).op(I32.eqz).if();
    code.get(significand).i64(0n).op(I64.ne);
    this.refuse();
    code.else();
    code.get(exponent).i32(most).op(I32.eq);
    this.refuse();
    code.get(significand).i64(INTEGER_BIT).op(I64.or).set(significand);
    code.get(exponent).i32(moved).op(I32.add).set(exponent);
    code.end();
  }

  /** The operand as an integer with a sign. */
  private integer({ significand, exponent, sign }: Parts): void {
    const { code } = this;
    code.get(VALUE).op(I64.eqz).if();
    code.i64(0n).set(significand).i32(0).set(exponent).i32(0).set(sign);
    code.else();
    code.get(VALUE).i64(48n).op(I64.shr).op(I32.wrap).i32(SIGN).op(I32.and).set(sign);
    code.i64(0n).get(VALUE).op(I64.sub).get(VALUE).get(sign).select().tee(significand);
    code.get(significand).op(I64.clz).op(I64.shl);
    code.i32(BIAS_OF_INTEGERS).get(significand).op(I64.clz).op(I32.wrap).op(I32.sub).set(exponent);
    code.set(significand);
    code.end();
  }

  /** The operand as the number of memory that it is; `otherwise`: it is none. */
  memory(parts: Parts, otherwise: () => void = () => undefined): void {
    const { code } = this;
    this.ifSource('double');
    this.narrow(DOUBLE, parts);
    code.else();
    this.ifSource('single');
    this.narrow(SINGLE, parts);
    code.else();
    this.ifSource('integer');
    this.integer(parts);
    code.else();
    otherwise();
    code.end().end().end();
  }

  /** The number in a register, or the operand. */
  source(parts: Parts): void {
    this.ifSource('register');
    const number = this.number(X87_FIELDS.source);
    this.refuseEmpty(number);
    this.register(number, parts);
    this.code.else();
    this.memory(parts);
    this.code.end();
  }

  ifSource(kind: X87Source): void {
    this.isKind(X87_SOURCES.indexOf(kind));
    this.code.if();
  }

  /** Writes a register; the i32 on the stack is its sign and exponent. */
  write(number: number, significand: number): void {
    const { code, word } = this;
    const place = this.place(number);
    code.set(word);
    code.get(place).get(significand).memory([I64.store], LOWER_AT);
    code.get(place).get(word).op(I64.extendU).memory([I64.store], UPPER_AT);
  }

  /** The register is not empty any more. */
  fill(number: number): void {
    const { code, tags } = this;
    code.get(tags).i32(1).get(number).op(I32.shl).op(I32.or).set(tags);
  }

  /** C1 becomes 0; the i32 on the stack is noted. */
  note(): void {
    const { code, status } = this;
    code.get(status).i32(~C1).op(I32.and).op(I32.or).set(status);
  }

  /** Pops as often as a field says, twice at most, and puts the top where it belongs. */
  pop(): void {
    const { code, tags, top } = this;
    for (const times of [1, 2]) {
      this.field(X87_FIELDS.pops, 2);
      code.i32(times).op(I32.geu).if();
      code.get(tags).i32(1).get(top).op(I32.shl).i32(-1).op(I32.xor).op(I32.and).set(tags);
      code.get(top).i32(1).op(I32.add).i32(7).op(I32.and).set(top);
      code.end();
    }
    this.turn();
  }

  /** The status word names the top. */
  turn(): void {
    const { code, status, top } = this;
    code.get(status).i32(~TOP).op(I32.and).get(top).i32(11).op(I32.shl).op(I32.or).set(status);
  }

  /** Writes status and tags. */
  settle(status: Part = 'status', tags: Part = 'tags'): void {
    this.keep(status, this.status);
    this.keep(tags, this.tags);
  }

  /** The function, which has changed the state. */
  changed(): WasmFunction {
    this.settle();
    this.code.i64(0n);
    return this.finish();
  }

  /** The function; its result is on the stack. */
  finish(): WasmFunction {
    return { parameters: ['i64', 'i64'], results: ['i64'], locals: this.locals, code: this.code };
  }
}
