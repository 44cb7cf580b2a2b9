/**
 * The WebAssembly functions for condition records of six status flags (`machine/status-flags.ts`):
 * all flags of a record, and the conditions that are asked of them. Parameters are K, A, B, C.
 */
import { I32, I64 } from '../machine/ir.js';
import {
  ALL_STATUS_FLAGS,
  FLAG_FAMILIES,
  FLAG_KINDS_START,
  FLAG_ROTATED,
  type FlagFamily,
} from '../machine/status-flags.js';
import { Code } from './wasm.js';
import type { WasmFunction } from './wasm.js';

const [K, A, B, C] = [0, 1, 2, 3] as const;
/** Locals. Operands are shifted to the top of 64 bits: one computation serves all widths. */
const [SHIFT, X, Y, RESULT, FIRST, CARRY, OVERFLOW, ADJUST] = [4, 5, 6, 7, 8, 9, 10, 11] as const;
const LOCALS = 8;
const TOP = 1n << 63n;

/** Pushes 1 at the lowest place of the shifted operands. */
function pushUnit(code: Code): void {
  code.i64(1n).get(SHIFT).op(I64.shl);
}

/** Bit 4 of A, B and a value that was shifted. */
function setAdjustOf(code: Code, value: number): void {
  code.get(A).get(B).op(I64.xor).get(value).get(SHIFT).op(I64.shr).op(I64.xor).i64(16n).op(I64.and).set(ADJUST);
}

/** Overflow: both pairs of values differ in the highest bit. */
function setOverflow(code: Code, first: readonly [number, number], second: readonly [number, number]): void {
  code.get(first[0]).get(first[1]).op(I64.xor).get(second[0]).get(second[1]).op(I64.xor);
  code.op(I64.and).i64(63n).op(I64.shr).set(OVERFLOW);
}

/** X - Y, and one less with a carry; carry where X < Y, or X <= Y with one. */
function difference(code: Code, to: number, withCarry: boolean): void {
  code.get(X).get(Y).op(I64.sub);
  if (withCarry) {
    pushUnit(code);
    code.op(I64.sub);
  }
  code.set(to);
  code
    .get(X)
    .get(Y)
    .op(withCarry ? I64.leu : I64.ltu);
  code.op(I64.extendU).set(CARRY);
}

function subtraction(code: Code, withCarry: boolean): void {
  difference(code, RESULT, withCarry);
  setOverflow(code, [X, Y], [X, RESULT]);
  setAdjustOf(code, RESULT);
}

function addition(code: Code, withCarry: boolean): void {
  difference(code, FIRST, withCarry);
  setOverflow(code, [X, FIRST], [X, Y]);
  setAdjustOf(code, FIRST);
}

/** Overflow where the result is one value, adjust where its lowest digit is. */
function step(code: Code, digit: bigint): void {
  code.i64(TOP).op(I64.eq).op(I64.extendU).set(OVERFLOW);
  code.get(A).i64(15n).op(I64.and).i64(digit).op(I64.eq).op(I64.extendU).i64(4n).op(I64.shl).set(ADJUST);
}

/** The product does not fit when its upper half is not its sign. */
function product(code: Code, mulhs: number): void {
  code.get(X).get(SHIFT).op(I64.sar).set(X);
  code.get(Y).get(SHIFT).op(I64.sar).set(Y);
  code.get(X).get(Y).op(I64.mul).tee(FIRST).get(SHIFT).op(I64.shl).tee(RESULT);
  code.get(SHIFT).op(I64.sar).get(FIRST).op(I64.ne);
  code.get(X).get(Y).call(mulhs).get(FIRST).i64(63n).op(I64.sar).op(I64.ne).op(I32.or);
  code.op(I64.extendU).tee(CARRY).set(OVERFLOW);
}

/** Result, carry, overflow and adjust of each family, from the shifted operands. */
const FAMILY: Readonly<Record<FlagFamily, (code: Code, mulhs: number) => void>> = {
  sub: (code) => subtraction(code, false),
  sbb: (code) => subtraction(code, true),
  add: (code) => addition(code, false),
  adc: (code) => addition(code, true),
  inc(code) {
    code.get(X);
    step(code, 0n);
  },
  dec(code) {
    code.get(X);
    pushUnit(code);
    code.op(I64.add);
    step(code, 15n);
  },
  shr(code) {
    code.get(X).get(Y).op(I64.xor).i64(63n).op(I64.shr).set(OVERFLOW);
  },
  res(code) {
    code.get(B).i64(11n).op(I64.shr).i64(1n).op(I64.and).set(OVERFLOW);
    code.get(B).i64(16n).op(I64.and).set(ADJUST);
  },
  mul: product,
};

/** Shifted operands, and the carry of those families that keep it in B. */
function shiftOperands(code: Code): void {
  // 56, 48, 32, 0 from the width: 64 - (8 << w)
  code.i64(64n).i64(8n).get(K).i64(3n).op(I64.and).op(I64.shl).op(I64.sub).set(SHIFT);
  code.get(A).get(SHIFT).op(I64.shl).tee(X).set(RESULT);
  code.get(B).get(SHIFT).op(I64.shl).set(Y);
  code.get(B).i64(1n).op(I64.and).set(CARRY);
}

/** Pushes K without the mark of rotates. */
function pushKind(code: Code): void {
  code
    .get(K)
    .i64(BigInt(FLAG_ROTATED - 1))
    .op(I64.and);
}

/** What each family does, chosen by the kind; goes on behind all of them. */
function familyTable(code: Code, mulhs: number): void {
  const done = code.block();
  const labels = FLAG_FAMILIES.map(() => code.block()).reverse();
  pushKind(code);
  code.i64(BigInt(FLAG_KINDS_START)).op(I64.sub).i64(2n).op(I64.shr).op(I32.wrap);
  code.brTable(labels, labels.at(-1)!);
  for (const family of FLAG_FAMILIES) {
    code.end();
    FAMILY[family](code, mulhs);
    code.br(done);
  }
  code.end();
}

/** Puts the flags of RESULT with CARRY, OVERFLOW and ADJUST into RESULT. */
function gatherFlags(code: Code): void {
  code.get(CARRY).get(ADJUST).op(I64.or).get(OVERFLOW).i64(11n).op(I64.shl).op(I64.or);
  code.get(RESULT).op(I64.eqz).op(I64.extendU).i64(6n).op(I64.shl).op(I64.or);
  code.get(RESULT).i64(63n).op(I64.shr).i64(7n).op(I64.shl).op(I64.or);
  code.get(RESULT).get(SHIFT).op(I64.shr).i64(0xffn).op(I64.and).op(I64.popcnt).i64(1n).op(I64.and);
  code.i64(1n).op(I64.xor).i64(2n).op(I64.shl).op(I64.or);
  code.set(RESULT);
}

/** All status flags of a record, as `flagBits` of `machine/status-flags.ts` has them. */
export function flagBitsFunction(mulhs: number): WasmFunction {
  const code = new Code();
  const known = code.block();
  pushKind(code);
  code.op(I64.eqz).if();
  code.get(A).i64(ALL_STATUS_FLAGS).op(I64.and).set(RESULT).br(known);
  code.end();
  shiftOperands(code);
  familyTable(code, mulhs);
  gatherFlags(code);
  code.end();
  code.get(K).i64(BigInt(FLAG_ROTATED)).op(I64.and).op(I64.eqz).op(I32.eqz).if();
  code.get(RESULT).i64(~0x801n).op(I64.and).get(C).i64(1n).op(I64.and).tee(CARRY).op(I64.or);
  code.get(C).i64(63n).op(I64.shr).get(CARRY).op(I64.xor).i64(11n).op(I64.shl).op(I64.or).set(RESULT);
  code.end();
  code.get(RESULT);
  const locals = Array.from({ length: LOCALS }, () => 'i64' as const);
  return { parameters: ['i64', 'i64', 'i64', 'i64'], results: ['i64'], locals, code };
}

/**
 * A condition of a record: calls `flagbits`, whose index is `all`. Bits of RFLAGS that are set, or
 * SF != OF.
 */
export function flagTest(all: number, mask: bigint, signs: boolean): WasmFunction {
  const code = new Code();
  for (const parameter of [K, A, B, C]) code.get(parameter);
  code.call(all);
  if (signs) {
    // SF is bit 7, OF bit 11: moved to SF's place and compared.
    code.tee(4).i64(mask).op(I64.and);
    code.get(4).i64(4n).op(I64.shr).get(4).op(I64.xor).i64(0x80n).op(I64.and).op(I64.or);
  } else code.i64(mask).op(I64.and);
  code.i64(0n).op(I64.ne).op(I64.extendU);
  return { parameters: ['i64', 'i64', 'i64', 'i64'], results: ['i64'], locals: ['i64'], code };
}

/**
 * The carry alone: what `inc` and `dec` keep is asked for in every round of a loop, and then lies
 * in B.
 */
export function carryTest(all: number): WasmFunction {
  const code = new Code();
  const family = (name: FlagFamily): bigint => BigInt(FLAG_KINDS_START + 4 * FLAG_FAMILIES.indexOf(name));
  code
    .get(K)
    .i64(family('inc'))
    .op(I64.sub)
    .i64(family('mul') - family('inc'))
    .op(I64.ltu)
    .if();
  code.get(B).i64(1n).op(I64.and).return();
  code.end();
  for (const parameter of [K, A, B, C]) code.get(parameter);
  code.call(all).i64(1n).op(I64.and);
  return { parameters: ['i64', 'i64', 'i64', 'i64'], results: ['i64'], locals: [], code };
}
