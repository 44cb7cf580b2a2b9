/**
 * What PowerPC tells of a result in FPSCR, of the operands from which it was rounded to nearest, or
 * sums in other modes (`TOLD` of `machine/float-ops.ts`): whether it is inexact (FI), whether its
 * magnitude became larger by rounding (FR), and its class (FPRF). Decided where the operation is
 * exact as a sum of doubles: neither too large nor too small; -1 elsewhere.
 *
 * Source: Power ISA 2.07B, Book I, 4.2.2 and 4.5.
 */
import { I32, I64 } from '../machine/ir.js';
import { TOLD } from '../machine/float-ops.js';
import type { ToldKind } from '../machine/float-ops.js';
import { Body, exponentWithin, F64, INFINITY64, isZero, ordinary, ZERO64 } from './float-body.js';
import type { WasmFunction } from './wasm.js';

const [A, B, C, KIND] = [0, 1, 2, 3] as const;
const NEGATE = 0x9a;
const SQRT = 0x9f;
const DIV = 0xa3;
const NEAREST = 0x9e;
/** Bits of FPSCR. */
const FR = 0x4_0000n;
const FI = 0x2_0000n;
const [FPRF_C, FL, FG, FE] = [0x1_0000n, 0x8000n, 0x4000n, 0x2000n];
const MINUS_ONE = -1n;

/** The function being written: each operation leaves a result and what rounding took from it. */
class Told {
  readonly body = new Body(['f64', 'f64', 'f64', 'i64'], 'i64');
  readonly result = this.body.local('f64');
  /** Its sign is that of the exact number less the result; 0: it is exact. */
  readonly rest = this.body.local('f64');

  get code(): Body['code'] {
    return this.body.code;
  }

  /** Pushes whether a bit of the kind is set. */
  has(bit: number): void {
    this.code.get(KIND).i64(BigInt(bit)).op(I64.and).op(I64.eqz).op(I32.eqz);
  }

  /** Returns -1 unless the i32 on the stack is not 0. */
  demand(): void {
    this.code.op(I32.eqz).if();
    this.code.i64(MINUS_ONE).return();
    this.code.end();
  }

  /** Rounds the double on the stack to single, where that is asked for, into the result. */
  rounded(): void {
    const { code, result } = this;
    code.set(result);
    this.has(TOLD.single);
    code.if();
    code.get(result).op(F64.demote).op(F64.promote).set(result);
    code.end();
  }

  /** The rest of `high` + `low`, of which the result is the rounded value. */
  restOf(high: number, low: number): void {
    const { code, result, rest } = this;
    code.get(high).get(result).op(F64.sub).set(rest);
    code.get(rest).raw(ZERO64).op(F64.eq).if();
    code.get(low).set(rest);
    code.end();
  }

  /** Near enough to 1 that its products are exact; zeros are not. */
  demandMiddle(local: number, low: number, high: number): void {
    exponentWithin(this.body, local, low, high);
    this.demand();
  }

  sum(isDifference: boolean): void {
    const { body, code } = this;
    const b = body.local('f64');
    code.get(B);
    if (isDifference) code.op(NEGATE);
    code.set(b);
    const { high, low } = body.sum(A, b);
    code.get(high).op(F64.abs).raw(INFINITY64).op(F64.lt);
    this.demand();
    // A single is rounded once: the sum to odd has all that it needs.
    const odd = body.toOdd({ high, low });
    code.get(odd).get(high);
    this.has(TOLD.single);
    code.select();
    this.rounded();
    this.has(TOLD.directed);
    code.if();
    const out = body.directed([A, b], { high, low }, () => {
      code.get(KIND).i64(5n).op(I64.shr).i64(3n).op(I64.and);
    });
    code.get(out).set(this.result);
    code.end();
    this.restOf(high, low);
  }

  product(): void {
    const { body, code } = this;
    for (const each of [A, B]) this.demandMiddle(each, -400, 400);
    const { high, low } = body.product(A, B);
    code.get(high);
    this.rounded();
    this.restOf(high, low);
  }

  /** The rest of a quotient or root is what its product with `factor` lacks of `whole`. */
  inverse(isRoot: boolean): void {
    const { body, code, result, rest } = this;
    for (const each of isRoot ? [A] : [A, B]) this.demandMiddle(each, -400, 400);
    code.get(A);
    if (isRoot) code.op(SQRT);
    else code.get(B).op(DIV);
    // Of singles the double next to a quotient or root rounds as that itself does.
    this.rounded();
    const { high, low } = body.product(result, isRoot ? result : B);
    code.get(A).get(high).op(F64.sub).get(low).op(F64.sub).set(rest);
    if (isRoot) return;
    code.get(B).raw(ZERO64).op(F64.lt).if();
    code.get(rest).op(NEGATE).set(rest);
    code.end();
  }

  fused(): void {
    const { body, code, result, rest } = this;
    for (const each of [A, B]) this.demandMiddle(each, -400, 400);
    this.demandMiddle(C, -1023, 900);
    this.has(TOLD.negatesAddend);
    code.if();
    code.get(C).op(NEGATE).set(C);
    code.end();
    // The steps of `fma64`: three numbers, each far below the one before.
    const product = body.product(A, B);
    const lower = body.sum(C, product.low);
    const upper = body.sum(product.high, lower.high);
    const small = body.sum(lower.low, upper.low);
    code.get(upper.high).get(body.toOdd(small)).op(F64.add).set(result);
    this.has(TOLD.single);
    code.if();
    // The product of singles is one double.
    code.get(body.toOdd(upper)).op(F64.demote).op(F64.promote).set(result);
    code.end();
    const above = body.of(upper.high, F64.sub, result);
    const middle = body.sum(above, small.high);
    code.get(middle.high).set(rest);
    code.get(rest).raw(ZERO64).op(F64.eq).if();
    code.get(small.low).set(rest);
    code.end();
    this.has(TOLD.negates);
    code.if();
    code.get(result).op(NEGATE).set(result);
    code.get(rest).op(NEGATE).set(rest);
    code.end();
  }

  /** A double rounded to single. */
  round(): void {
    this.code.get(A);
    this.rounded();
    this.code.get(A).get(this.result).op(F64.sub).set(this.rest);
  }

  value(): void {
    this.code.get(A).set(this.result);
  }

  /** To an integer, which has no class: returns at once. */
  toInteger(opcode: number): void {
    const { body, code, result, rest } = this;
    code.get(A).op(opcode).set(result);
    code.get(A).get(result).op(F64.sub).set(rest);
    code.get(A).op(F64.abs).raw(INFINITY64).op(F64.lt);
    this.demand();
    this.pushFraction(body.local('i64'));
    code.return();
  }

  fromInteger(): void {
    const { code, result } = this;
    code.get(A).op(F64.bits).raw([0xb9]);
    this.rounded();
    // An integer that is not what it was is left to the slow way, as is the end of the range.
    code.get(result).op(F64.abs).raw([0x44, 0, 0, 0, 0, 0, 0, 0xe0, 0x43]).op(F64.lt);
    this.demand();
    code.get(result).raw(F64.truncS).get(A).op(F64.bits).op(I64.eq);
    this.demand();
  }

  /** Pushes FR and FI. */
  pushFraction(scratch: number): void {
    const { code, result, rest } = this;
    code.i64(0n).set(scratch);
    code.get(rest).raw(ZERO64).op(F64.ne).if();
    code.i64(FI | FR).i64(FI);
    code.get(rest).op(F64.bits).get(result).op(F64.bits).op(I64.xor).i64(0n).op(I64.lt).select().set(scratch);
    code.end();
    code.get(scratch);
  }

  /** What is told of the result: an ordinary number, or a zero that is exact. */
  finish(): WasmFunction {
    const { body, code, result, rest } = this;
    isZero(body, result, 'f64');
    code.if();
    code.get(rest).raw(ZERO64).op(F64.eq);
    this.demand();
    code
      .i64(FPRF_C | FE)
      .i64(FE)
      .get(result)
      .op(F64.bits)
      .i64(0n)
      .op(I64.lt)
      .select()
      .return();
    code.end();
    this.has(TOLD.single);
    code.if();
    exponentWithin(body, result, -126, 127);
    this.demand();
    code.end();
    ordinary(body, result, 'f64');
    this.demand();
    code.i64(FL).i64(FG).get(result).raw(ZERO64).op(F64.lt).select();
    this.pushFraction(body.local('i64'));
    code.op(I64.or);
    return body.finish();
  }
}

/** What each operation does, by its kind. */
const OPERATIONS: Readonly<Record<ToldKind, (told: Told) => void>> = {
  add: (told) => {
    told.sum(false);
  },
  sub: (told) => {
    told.sum(true);
  },
  mul: (told) => {
    told.product();
  },
  div: (told) => {
    told.inverse(false);
  },
  sqrt: (told) => {
    told.inverse(true);
  },
  fma: (told) => {
    told.fused();
  },
  round: (told) => {
    told.round();
  },
  value: (told) => {
    told.value();
  },
  cut: (told) => {
    told.toInteger(F64.trunc);
  },
  nearest: (told) => {
    told.toInteger(NEAREST);
  },
  integer: (told) => {
    told.fromInteger();
  },
};

/**
 * The function: parameters are three doubles and the kind. -1 where it does not decide, 0 where
 * nothing is asked.
 */
export function toldFunction(): WasmFunction {
  const told = new Told();
  const { code } = told;
  code.get(KIND).op(I64.eqz).if();
  code.i64(0n).return();
  code.end();
  const done = code.block();
  for (const kind of Object.keys(OPERATIONS) as ToldKind[]) {
    code.get(KIND).i64(0xfn).op(I64.and).i64(BigInt(TOLD.kinds[kind])).op(I64.eq).if();
    OPERATIONS[kind](told);
    code.br(done);
    code.end();
  }
  code.i64(MINUS_ONE).return();
  code.end();
  return told.finish();
}
