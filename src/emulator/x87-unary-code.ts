/**
 * Operations of x87 on the top of the stack alone: its root, the integer near it, and what kind of
 * number it is, as compiled code and tier 0 call them.
 *
 * Source: IEEE Std 754-2019, 5.4.1 and 5.9; Intel SDM volume 1, 4.8.4 and chapter 8.
 */
import { INLINED } from './inlined.js';
import { I32, I64 } from '../machine/ir.js';
import { X87_UNARY } from '../machine/x87-ops.js';
import type { X87Unary } from '../machine/x87-ops.js';
import type { WasmFunction } from './wasm.js';
import {
  BIAS,
  BIAS_OF_INTEGERS,
  C1,
  CODES,
  LARGEST,
  LESS_PRECISE,
  PRECISION,
  ROUNDING,
  SIGN,
  UNMASKED,
  UnitCode,
  writeWhole,
} from './x87-unit-code.js';
import type { Parts } from './x87-unit-code.js';

/** What an operation leaves: a number, and what is noted of its rounding. */
interface Outcome extends Parts {
  readonly noted: number;
}

/** Opcodes: conversion from an unsigned i64, and to one that is the nearest there is. */
const CONVERT_U = 0xba;
const TRUNCATE_U = [0xfc, 0x07];
const SQRT = 0x9f;
const MULTIPLY = 0xa2;
const ADD = 0xa0;
/** 2^32 and 2^12 as doubles. */
const TWO_TO_32 = [0x44, 0, 0, 0, 0, 0, 0, 0xf0, 0x41];
const TWO_TO_12 = [0x44, 0, 0, 0, 0, 0, 0, 0xb0, 0x40];

/**
 * The root of a number above 0 to nearest: of M, which has 127 or 128 bits, so the root has 64.
 *
 * A double's root is right to 52 bits; with 2^12 added it is none below the root. One step of
 * Newton's, r = (r + M / r) / 2, comes to the root or 1 more then. M - r^2 says which, and how r is
 * rounded: up where it is more than r, for (r + 1/2)^2 is r^2 + r + 1/4. So it is never half way,
 * nor are all 64 bits ones and rounded up.
 */
function writeRoot(unit: UnitCode, { significand, exponent, sign, noted }: Outcome, divide: number): void {
  const { code } = unit;
  const [high, low, root] = [unit.local('i64'), unit.local('i64'), unit.local('i64')];
  const [squareHigh, squareLow] = [unit.local('i64'), unit.local('i64')];
  const spare = [unit.local('i64'), unit.local('i64')];
  unit.refuseControl(ROUNDING | LESS_PRECISE);
  code.get(sign);
  unit.refuse();
  // The bias is odd: an even exponent is an odd power of 2.
  code.get(exponent).i32(1).op(I32.and).if();
  code.get(significand).i64(1n).op(I64.shr).set(high).get(significand).i64(63n).op(I64.shl).set(low);
  code.else();
  code.get(significand).set(high).i64(0n).set(low);
  code.end();
  code.get(exponent).i32(BIAS).op(I32.sub).i32(1).op(I32.sar).i32(BIAS).op(I32.add).set(exponent);
  code.get(high).op(CONVERT_U).op(SQRT).raw(TWO_TO_32).op(MULTIPLY).raw(TWO_TO_12).op(ADD).raw(TRUNCATE_U);
  // The quotient has 64 bits but for one number.
  code.set(root).get(high).get(root).op(I64.geu);
  unit.refuse();
  code.get(high).get(low).get(root).call(divide).set(squareLow);
  code.get(root).get(squareLow).op(I64.and);
  code.get(root).get(squareLow).op(I64.xor).i64(1n).op(I64.shr).op(I64.add).set(root);
  const square = (): void => {
    const push = (): void => {
      code.get(root);
    };
    INLINED.mulhu({ code, push, local: (index) => spare[index]! });
    code.set(squareHigh).get(root).get(root).op(I64.mul).set(squareLow);
  };
  square();
  code.get(high).get(squareHigh).op(I64.ltu);
  code.get(high).get(squareHigh).op(I64.eq).get(low).get(squareLow).op(I64.ltu).op(I32.and).op(I32.or).if();
  code.get(root).i64(1n).op(I64.sub).set(root);
  square();
  code.end();
  code.get(high).get(squareHigh).op(I64.sub).get(low).get(squareLow).op(I64.ltu).op(I64.extendU).op(I64.sub).set(high);
  code.get(low).get(squareLow).op(I64.sub).set(low);
  code.get(root).set(significand);
  code.get(high).get(low).op(I64.or).op(I64.eqz).op(I32.eqz).if();
  code.i32(PRECISION).set(noted);
  code.get(high).op(I64.eqz).op(I32.eqz).get(low).get(root).op(I64.gtu).op(I32.or).if();
  code.i32(PRECISION | C1).set(noted);
  code.get(significand).i64(1n).op(I64.add).set(significand);
  code.end();
  code.end();
}

/** The integer near a number other than 0, as the rounding mode says; 0 keeps the sign. */
function writeIntegral(unit: UnitCode, { significand, exponent, sign, noted }: Outcome): void {
  const { code } = unit;
  const bits = unit.local('i64');
  const mode = unit.mode();
  code.get(exponent).i32(BIAS_OF_INTEGERS).op(I32.lt).if();
  writeWhole(unit, { significand, exponent, sign }, { mode, bits, noted });
  code.get(bits).get(bits).op(I64.clz).op(I64.shl).set(significand);
  code.i32(0).i32(BIAS_OF_INTEGERS).get(bits).op(I64.clz).op(I32.wrap).op(I32.sub);
  code.get(bits).op(I64.eqz).select().set(exponent);
  code.end();
}

/** Condition codes of a number in a register, whatever it is; C1 is its sign. */
function writeKind(unit: UnitCode): void {
  const { code } = unit;
  const [significand, upper, kind] = [unit.local('i64'), unit.local('i32'), unit.local('i32')];
  const [c0, c2, c3] = [0x100, 0x400, 0x4000];
  unit.raw(unit.top, significand, upper);
  code.get(upper).i32(LARGEST).op(I32.and).op(I32.eqz).if();
  code
    .i32(c3)
    .i32(c3 | c2)
    .get(significand)
    .op(I64.eqz)
    .select()
    .set(kind);
  code.else();
  // Without the integer bit it is no number since the 80387.
  code.get(significand).i64(0n).op(I64.lt).if();
  code
    .i32(c0 | c2)
    .i32(c0)
    .get(significand)
    .i64(1n)
    .op(I64.shl)
    .op(I64.eqz)
    .select();
  code.i32(c2).get(upper).i32(LARGEST).op(I32.and).i32(LARGEST).op(I32.eq).select().set(kind);
  code.end();
  code.end();
  code.get(kind).i32(C1).op(I32.or).get(kind).get(upper).i32(SIGN).op(I32.and).select().set(kind);
  code
    .get(unit.status)
    .i32(~(CODES | C1))
    .op(I32.and)
    .get(kind)
    .op(I32.or)
    .set(unit.status);
}

export function x87Unary(divide: number): WasmFunction {
  const unit = new UnitCode();
  const { code, top } = unit;
  const outcome: Outcome = { ...unit.parts(), noted: unit.local('i32') };
  const { significand, exponent, sign, noted } = outcome;
  const isKind = (kind: X87Unary): void => {
    unit.isKind(X87_UNARY.indexOf(kind));
  };
  unit.refuseEmpty(top);
  isKind('examine');
  code.if();
  writeKind(unit);
  code.else();
  unit.refuseControl(UNMASKED);
  unit.register(top, outcome);
  code.get(significand).op(I64.eqz).op(I32.eqz).if();
  isKind('root');
  code.if();
  writeRoot(unit, outcome, divide);
  code.else();
  writeIntegral(unit, outcome);
  code.end();
  code.end();
  code.get(exponent).get(sign).op(I32.or);
  unit.write(top, significand);
  code.get(noted);
  unit.note();
  code.end();
  return unit.changed();
}
