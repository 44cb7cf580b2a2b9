/**
 * Loads, comparisons, stores and moves of x87, as compiled code and tier 0 call them.
 *
 * Source: Intel SDM volume 1, 4.8.4 and chapter 8.
 */
import { I32, I64 } from '../machine/ir.js';
import { X87_FIELDS, X87_MOVES, X87_TARGETS } from '../machine/x87-ops.js';
import type { X87Move, X87Target } from '../machine/x87-ops.js';
import type { Code, WasmFunction } from './wasm.js';
import {
  BIAS_OF_INTEGERS,
  BITS_AT,
  CODES,
  DOUBLE,
  LARGEST,
  roundUp,
  ROUNDING,
  SIGN,
  SINGLE,
  UNMASKED,
  UnitCode,
  VALUE,
  writeWhole,
} from './x87-unit-code.js';
import type { Narrow, Parts } from './x87-unit-code.js';

/** Pushes a number: loads, and register i once more. */
export function x87Load(): WasmFunction {
  const unit = new UnitCode();
  const { code, top } = unit;
  const parts = unit.parts();
  const { significand, exponent, sign } = parts;
  // A constant depends on the rounding mode.
  unit.ifSource('constant');
  unit.refuseControl(ROUNDING);
  code.end();
  code.i32(0).set(sign);
  unit.ifSource('register');
  const from = unit.number(X87_FIELDS.source);
  unit.refuseEmpty(from);
  unit.raw(from, significand, exponent);
  code.else();
  unit.memory(parts, () => {
    code.get(VALUE).set(significand);
    unit.fetch('upper');
    code.set(exponent);
  });
  code.end();
  code.get(top).i32(7).op(I32.add).i32(7).op(I32.and).set(top);
  code.get(unit.tags).get(top).op(I32.shr).i32(1).op(I32.and);
  unit.refuse();
  code.get(exponent).get(sign).op(I32.or);
  unit.write(top, significand);
  unit.fill(top);
  code.i32(0);
  unit.note();
  unit.turn();
  return unit.changed();
}

/** Compares register 0 with a number. The result: what ZF, PF and CF are, or 0 where codes are. */
export function x87Compare(): WasmFunction {
  const unit = new UnitCode();
  const { code } = unit;
  const [a, b] = [unit.parts(), unit.parts()];
  const [isLess, isEqual] = [unit.local('i32'), unit.local('i32')];
  unit.refuseEmpty(unit.top);
  unit.register(unit.top, a);
  unit.source(b);
  const bothZero = (): Code => code.get(a.significand).get(b.significand).op(I64.or).op(I64.eqz);
  bothZero().if();
  code.i32(1).set(isEqual);
  code.else();
  code.get(a.sign).get(b.sign).op(I32.ne).if();
  code.get(a.sign).i32(0).op(I32.ne).set(isLess);
  code.else();
  code.get(a.exponent).get(b.exponent).op(I32.eq).if();
  code.get(a.significand).get(b.significand).op(I64.eq).set(isEqual);
  code.get(a.significand).get(b.significand).op(I64.ltu).set(isLess);
  code.else();
  code.get(a.exponent).get(b.exponent).op(I32.lt).set(isLess);
  code.end();
  // Of negative numbers the one with the larger magnitude is less.
  code.get(isLess).get(a.sign).i32(0).op(I32.ne).op(I32.xor).get(isEqual).op(I32.eqz).op(I32.and).set(isLess);
  code.end();
  code.end();
  code.i32(0);
  unit.note();
  unit.field(X87_FIELDS.intoFlags, 1);
  code.op(I32.eqz).if();
  code.get(unit.status).i32(~CODES).op(I32.and);
  code.get(isLess).i32(8).op(I32.shl).op(I32.or).get(isEqual).i32(14).op(I32.shl).op(I32.or).set(unit.status);
  code.end();
  unit.pop();
  unit.settle();
  code.get(isLess).get(isEqual).i32(6).op(I32.shl).op(I32.or).op(I64.extendU);
  return unit.finish();
}

/** Makes of register 0 what is stored, with status and tags for afterwards. Writes nothing else. */
export function x87Store(): WasmFunction {
  const unit = new UnitCode();
  const { code, base } = unit;
  const parts = unit.parts();
  const { significand, exponent, sign } = parts;
  const [bits, noted] = [unit.local('i64'), unit.local('i32')];
  unit.refuseEmpty(unit.top);
  const isKind = (kind: X87Target): void => {
    unit.isKind(X87_TARGETS.indexOf(kind));
  };
  isKind('extended');
  code.if();
  unit.raw(unit.top, bits, exponent);
  unit.keep('upper', exponent);
  code.else();
  unit.refuseControl(UNMASKED);
  unit.register(unit.top, parts);
  isKind('double');
  code.if();
  writeNarrowed(unit, parts, DOUBLE, bits, noted);
  code.else();
  isKind('single');
  code.if();
  writeNarrowed(unit, parts, SINGLE, bits, noted);
  code.else();
  writeInteger(unit, { significand, exponent, sign }, bits, noted);
  for (let i = 0; i < 3; i++) code.end();
  code.get(noted);
  unit.note();
  unit.pop();
  unit.settle('nextStatus', 'nextTags');
  code.get(base).get(bits).memory([I64.store], BITS_AT).i64(0n);
  return unit.finish();
}

/** The double or single of a number; subnormal and infinite ones are refused. */
function writeNarrowed(
  unit: UnitCode,
  { significand, exponent, sign }: Parts,
  { fraction, lacking, kept, most, moved, infinity, sign: place }: Narrow,
  bits: number,
  noted: number,
): void {
  const { code } = unit;
  const rest = unit.local('i64');
  const exponents = most - 1;
  unit.refuseControl(ROUNDING);
  code.get(significand).op(I64.eqz).if();
  code.i64(0n).set(bits);
  code.else();
  code.get(exponent).i32(moved).op(I32.sub).i32(1).op(I32.sub).tee(exponent).i32(exponents).op(I32.geu);
  unit.refuse();
  code.get(significand).i64(lacking).op(I64.shr).set(bits);
  code.get(significand).i64(kept).op(I64.shl).set(rest);
  roundUp(code, bits, rest, noted);
  // The integer bit, and a carry beyond it, count up the exponent.
  code.get(exponent).op(I64.extendU).i64(fraction).op(I64.shl).get(bits).op(I64.add);
  code.tee(bits).i64(infinity).op(I64.geu);
  unit.refuse();
  code.end();
  code.get(sign).op(I64.extendU).i64(place).op(I64.shl).get(bits).op(I64.or).set(bits);
}

/** The integer of a number, as the rounding mode or the instruction says. */
function writeInteger(unit: UnitCode, { significand, exponent, sign }: Parts, bits: number, noted: number): void {
  const { code } = unit;
  const mode = unit.mode();
  unit.field(X87_FIELDS.truncates, 1);
  code.if();
  code.i32(3).set(mode).end();
  code.get(significand).op(I64.eqz).if();
  code.i64(0n).set(bits);
  code.else();
  code.i32(BIAS_OF_INTEGERS).get(exponent).op(I32.sub).i32(1).op(I32.lt);
  unit.refuse();
  writeWhole(unit, { significand, exponent, sign }, { mode, bits, noted });
  // Half of what 16, 32 or 64 bits hold.
  code.get(bits).i64(15n).i64(31n);
  unit.isKind(X87_TARGETS.indexOf('integer16'));
  code.select().i64(63n);
  unit.isKind(X87_TARGETS.indexOf('integer64'));
  code.op(I32.eqz).select().op(I64.shr).i64(0n).op(I64.ne);
  unit.refuse();
  code.i64(0n).get(bits).op(I64.sub).get(bits).get(sign).select().set(bits);
  code.end();
}

/** Moves within the stack. */
export function x87Move(): WasmFunction {
  const unit = new UnitCode();
  const { code, top } = unit;
  const [significand, upper] = [unit.local('i64'), unit.local('i32')];
  const [other, otherUpper] = [unit.local('i64'), unit.local('i32')];
  const target = unit.number(X87_FIELDS.target);
  const isKind = (kind: X87Move): void => {
    unit.isKind(X87_MOVES.indexOf(kind));
  };
  unit.refuseEmpty(top);
  isKind('choose');
  code.if();
  unit.refuseEmpty(target);
  code.get(VALUE).op(I64.eqz).if();
  code.i64(0n).return().end();
  unit.raw(target, significand, upper);
  code.get(upper);
  unit.write(top, significand);
  code.i64(0n).return().end();
  unit.raw(top, significand, upper);
  isKind('copy');
  code.if();
  code.get(upper);
  unit.write(target, significand);
  unit.fill(target);
  code.else();
  isKind('exchange');
  code.if();
  unit.refuseEmpty(target);
  unit.raw(target, other, otherUpper);
  code.get(upper);
  unit.write(target, significand);
  code.get(otherUpper);
  unit.write(top, other);
  code.else();
  code.get(upper).i32(SIGN).op(I32.xor).get(upper).i32(LARGEST).op(I32.and);
  isKind('negate');
  code.select();
  unit.write(top, significand);
  code.end();
  code.end();
  code.i32(0);
  unit.note();
  unit.pop();
  return unit.changed();
}
