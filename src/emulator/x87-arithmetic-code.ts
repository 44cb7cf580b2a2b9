/**
 * Sums, products and quotients of x87, to nearest with all 64 bits of precision, as compiled code
 * and tier 0 call them.
 *
 * Source: IEEE Std 754-2019, 4.3.1; Intel SDM volume 1, 4.8.4.
 */
import { INLINED } from './inlined.js';
import { I32, I64 } from '../machine/ir.js';
import { X87_FIELDS } from '../machine/x87-ops.js';
import type { Code, WasmFunction } from './wasm.js';
import {
  BIAS,
  INTEGER_BIT,
  LESS_PRECISE,
  MORE_THAN_HALF,
  NORMAL_EXPONENTS,
  ROUNDING,
  SIGN,
  UNMASKED,
  UnitCode,
  roundUp,
} from './x87-unit-code.js';
import type { Parts } from './x87-unit-code.js';

type Operands = readonly [a: Parts, b: Parts];

/** What a result is before it is rounded: 128 bits, the first of which is 1. */
interface Exact {
  readonly high: number;
  readonly low: number;
  readonly exponent: number;
  readonly sign: number;
}

const isZero = (code: Code, { significand }: Parts): Code => code.get(significand).op(I64.eqz);

/** Exchanges two numbers. */
function exchange(code: Code, a: Parts, b: Parts): void {
  for (const part of ['significand', 'exponent', 'sign'] as const) {
    code.get(a[part]).get(b[part]).set(a[part]).set(b[part]);
  }
}

/** The sum of a and b, neither of which is 0. `nothing`: leaves with +0. */
function writeSum(unit: UnitCode, a: Parts, b: Parts, { high, low, exponent, sign }: Exact, nothing: () => void): void {
  const { code } = unit;
  const [distance, other] = [unit.local('i64'), unit.local('i64')];
  // a is the one with the larger magnitude.
  code.get(a.exponent).get(b.exponent).op(I32.lt);
  code.get(a.exponent).get(b.exponent).op(I32.eq).get(a.significand).get(b.significand).op(I64.ltu).op(I32.and);
  code.op(I32.or).if();
  exchange(code, a, b);
  code.end();
  code.get(a.sign).set(sign);
  code.get(a.exponent).set(exponent);
  code.get(a.exponent).get(b.exponent).op(I32.sub).op(I64.extendU).tee(distance).op(I64.eqz).if();
  code.get(b.significand).set(other).i64(0n).set(low);
  code.else();
  // What is moved out of 128 bits stays as their lowest bit.
  code.get(distance).i64(64n).op(I64.ltu).if();
  code.get(b.significand).get(distance).op(I64.shr).set(other);
  code.get(b.significand).i64(64n).get(distance).op(I64.sub).op(I64.shl).set(low);
  code.else();
  code.i64(0n).set(other);
  code.get(distance).i64(64n).op(I64.eq).if();
  code.get(b.significand).set(low);
  code.else();
  code.get(distance).i64(128n).op(I64.ltu).if();
  code.get(b.significand).get(distance).i64(64n).op(I64.sub).op(I64.shr);
  code.get(b.significand).i64(128n).get(distance).op(I64.sub).op(I64.shl).i64(0n).op(I64.ne).op(I64.extendU);
  code.op(I64.or).set(low);
  code.else();
  code.i64(1n).set(low);
  code.end();
  code.end();
  code.end();
  code.end();
  code.get(a.sign).get(b.sign).op(I32.eq).if();
  code.get(a.significand).get(other).op(I64.add).tee(high).get(other).op(I64.ltu).if();
  // The lowest bit is 0 here: b was moved by less than 64.
  code.get(low).i64(1n).op(I64.shr).get(high).i64(63n).op(I64.shl).op(I64.or).set(low);
  code.get(high).i64(1n).op(I64.shr).i64(INTEGER_BIT).op(I64.or).set(high);
  code.get(exponent).i32(1).op(I32.add).set(exponent);
  code.end();
  code.else();
  code.get(a.significand).get(other).op(I64.sub).get(low).i64(0n).op(I64.ne).op(I64.extendU).op(I64.sub).set(high);
  code.i64(0n).get(low).op(I64.sub).set(low);
  code.get(high).op(I64.eqz).if();
  code.get(low).op(I64.eqz).if();
  nothing();
  code.end();
  code.get(low).set(high).i64(0n).set(low);
  code.get(exponent).i32(64).op(I32.sub).set(exponent);
  code.end();
  code.get(high).op(I64.clz).tee(distance).op(I64.eqz).op(I32.eqz).if();
  code.get(high).get(distance).op(I64.shl).get(low).i64(64n).get(distance).op(I64.sub).op(I64.shr).op(I64.or).set(high);
  code.get(low).get(distance).op(I64.shl).set(low);
  code.get(exponent).get(distance).op(I32.wrap).op(I32.sub).set(exponent);
  code.end();
  code.end();
}

function writeProduct(unit: UnitCode, a: Parts, b: Parts, { high, low, exponent }: Exact): void {
  const { code } = unit;
  const spare = [unit.local('i64'), unit.local('i64')];
  INLINED.mulhu({
    code,
    push: (operand) => {
      code.get((operand === 0 ? a : b).significand);
    },
    local: (index) => spare[index]!,
  });
  code.tee(high).i64(0n).op(I64.lt).set(exponent);
  code.get(a.significand).get(b.significand).op(I64.mul).set(low);
  code.get(exponent).op(I32.eqz).if();
  code.get(high).i64(1n).op(I64.shl).get(low).i64(63n).op(I64.shr).op(I64.or).set(high);
  code.get(low).i64(1n).op(I64.shl).set(low);
  code.end();
  code.get(exponent).get(a.exponent).op(I32.add).get(b.exponent).op(I32.add).i32(BIAS).op(I32.sub).set(exponent);
}

/**
 * What is left over decides only how the quotient is rounded: less than half, or more. It is never
 * half: twice the quotient and 1 would have 65 bits, and be a factor of a dividend of 64.
 */
function writeQuotient(unit: UnitCode, a: Parts, b: Parts, { high, low, exponent }: Exact, divide: number): void {
  const { code } = unit;
  const [upper, lower] = [unit.local('i64'), unit.local('i64')];
  const isLess = unit.local('i32');
  code.get(a.significand).get(b.significand).op(I64.ltu).set(isLess);
  code.get(a.significand).get(a.significand).i64(1n).op(I64.shr).get(isLess).select().tee(upper);
  code.i64(0n).get(a.significand).i64(63n).op(I64.shl).get(isLess).select().tee(lower);
  code.get(b.significand).call(divide).set(high);
  code.get(lower).get(high).get(b.significand).op(I64.mul).op(I64.sub).set(upper);
  code.get(b.significand).get(upper).op(I64.sub).set(lower);
  code.i64(0n);
  code.i64(MORE_THAN_HALF).i64(1n).get(upper).get(lower).op(I64.gtu).select();
  code.get(upper).op(I64.eqz).select().set(low);
  code.get(a.exponent).get(b.exponent).op(I32.sub).i32(BIAS).op(I32.add).get(isLess).op(I32.sub).set(exponent);
}

/** A product (operation 1) or quotient; goes to `done` with 0 where a factor or dividend is 0. */
function writeScaled(
  unit: UnitCode,
  [a, b]: Operands,
  exact: Exact,
  operation: number,
  divide: number,
  done: number,
): void {
  const { code } = unit;
  code.get(a.sign).get(b.sign).op(I32.xor).set(exact.sign);
  code.i64(0n).set(exact.high).i32(0).set(exact.exponent);
  code.get(operation).i32(1).op(I32.eq).if();
  isZero(code, a);
  isZero(code, b).op(I32.or).brIf(done);
  writeProduct(unit, a, b, exact);
  code.else();
  isZero(code, b);
  unit.refuse();
  isZero(code, a).brIf(done);
  writeQuotient(unit, a, b, exact, divide);
  code.end();
}

/** Goes to `done` where a or b is 0: with the other one, or the 0 of a sum of both. */
function addZeros({ code }: UnitCode, [a, b]: Operands, { high, exponent, sign }: Exact, done: number): void {
  isZero(code, a);
  isZero(code, b).op(I32.or).if();
  isZero(code, a).if();
  for (const part of ['significand', 'exponent'] as const) code.get(b[part]).set(a[part]);
  code.get(a.sign).get(b.sign).op(I32.and).get(b.sign);
  isZero(code, b).select().set(a.sign);
  code.end();
  code.get(a.significand).set(high).get(a.exponent).set(exponent).get(a.sign).set(sign).br(done);
  code.end();
}

/** Sums, differences, products and quotients into register i. */
export function x87Arithmetic(divide: number): WasmFunction {
  const unit = new UnitCode();
  const { code } = unit;
  const [a, b] = [unit.parts(), unit.parts()];
  const [operation, noted] = [unit.local('i32'), unit.local('i32')];
  const [high, low] = [unit.local('i64'), unit.local('i64')];
  const [exponent, sign] = [unit.local('i32'), unit.local('i32')];
  const exact: Exact = { high, low, exponent, sign };
  unit.refuseControl(UNMASKED | ROUNDING | LESS_PRECISE);
  const target = unit.number(X87_FIELDS.target);
  unit.refuseEmpty(target);
  unit.register(target, a);
  unit.source(b);
  unit.field(X87_FIELDS.operation, 3);
  code.tee(operation).i32(5).op(I32.eq).get(operation).i32(7).op(I32.eq).op(I32.or).if();
  exchange(code, a, b);
  code.end();
  const done = code.block();
  const round = code.block();
  const add = code.block();
  code.get(operation).i32(5).op(I32.leu).get(operation).i32(1).op(I32.ne).op(I32.and).brIf(add);
  writeScaled(unit, [a, b], exact, operation, divide, done);
  code.br(round);
  code.end(); // add
  code.get(operation).if();
  code.get(b.sign).i32(SIGN).op(I32.xor).set(b.sign);
  code.end();
  addZeros(unit, [a, b], exact, done);
  writeSum(unit, a, b, exact, () => {
    code.i64(0n).set(high).i32(0).set(exponent).i32(0).set(sign).br(done);
  });
  code.end(); // round
  roundUp(code, high, low, noted);
  code.get(high).op(I64.eqz).if();
  code.i64(INTEGER_BIT).set(high).get(exponent).i32(1).op(I32.add).set(exponent);
  code.end();
  code.get(exponent).i32(1).op(I32.sub).i32(NORMAL_EXPONENTS).op(I32.geu);
  unit.refuse();
  code.end(); // done
  code.get(exponent).get(sign).op(I32.or);
  unit.write(target, high);
  code.get(noted);
  unit.note();
  unit.pop();
  return unit.changed();
}
