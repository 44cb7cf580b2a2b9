/**
 * WebAssembly of the functions that rows of floating point call: fused operations in steps, and
 * whether a result is exact. Singles are computed with doubles, which hold their sums, products and
 * what a quotient or root is compared with exactly.
 *
 * Source of the fused operation: Boldo and Melquiond (`float-body.ts`).
 */
import { I32, I64 } from '../machine/ir.js';
import type { FloatFunction } from '../machine/float-ops.js';
import { FLOAT_MODE } from '../machine/float-ops.js';
import { Body, exponentWithin, F64, INFINITY64, isZero, NAN64, ordinary } from './float-body.js';
import { toldFunction } from './told-function.js';
import type { ValueType, WasmFunction } from './wasm.js';

/** Returns 0 unless the mode is `mode`; the mode is parameter `at`. */
function onlyIn(body: Body, at: number, mode: bigint): void {
  body.code.get(at).i64(mode).op(I64.ne);
  body.returnIf(0);
}

function notOther(body: Body, at: number): void {
  body.code.get(at).i64(FLOAT_MODE.other).op(I64.geu);
  body.returnIf(0);
}

type Real = 'f32' | 'f64';
const begin = (operands: readonly ValueType[], result: ValueType): Body =>
  new Body([...operands, result, 'i64'], 'i32');

/** A sum is exact when it has no rest; singles are summed as doubles. */
function cleanSum(type: Real, negated: boolean): WasmFunction {
  const body = begin([type, type], type);
  const { code } = body;
  onlyIn(body, 3, FLOAT_MODE.nearest);
  const a = body.double(0);
  code.get(1);
  if (type === 'f32') code.op(F64.promote);
  if (negated) code.op(0x9a);
  const { high, low } = body.sum(a, body.keep());
  // An infinity or a NaN leaves a NaN.
  isZero(body, low, 'f64');
  code.get(body.double(2)).get(high).op(F64.eq).op(I32.and);
  return body.finish();
}

/** A sum of doubles in any mode: the result to nearest where it is exact, or a step from that. */
function roundedSum(negated: boolean): WasmFunction {
  const body = new Body(['f64', 'f64', 'f64', 'i64'], 'f64');
  const { code } = body;
  if (negated) code.get(1).op(0x9a).set(1);
  const sum = body.sum(0, 1);
  code.get(3).i64(FLOAT_MODE.other).op(I64.gtu).if();
  const out = body.directed([0, 1], sum, () => {
    code.get(3).i64(3n).op(I64.and);
  });
  code.get(out).raw(NAN64);
  // Neither the one nor the other is infinite.
  code.get(sum.high).op(F64.abs).get(out).op(F64.abs).op(F64.max).raw(INFINITY64).op(F64.lt).select().return();
  code.end();
  code.get(2).raw(NAN64).get(3).i64(FLOAT_MODE.nearest).op(I64.eq);
  // An infinity or a NaN leaves a NaN.
  isZero(body, sum.low, 'f64');
  code.op(I32.and).select();
  return body.finish();
}

/**
 * Pushes whether the product of two doubles, neither zero nor infinite nor a NaN nor subnormal, has
 * at most 53 bits: of each the lowest 1 is moved to the end.
 */
function hasShortProduct(body: Body, a: number, b: number): void {
  const { code } = body;
  const odd = (local: number): number => {
    const bits = body.local('i64');
    code.get(local).op(F64.bits).i64((1n << 52n) - 1n).op(I64.and).i64(1n << 52n).op(I64.or).set(bits); // prettier-ignore
    code.get(bits).get(bits).op(I64.ctz).op(I64.shr).set(bits);
    return bits;
  };
  const [x, y] = [odd(a), odd(b)];
  // At least 74 leading zeros: a product of 54 bits at most, which does not wrap.
  code.get(x).op(I64.clz).get(y).op(I64.clz).op(I64.add).i64(73n).op(I64.gt);
  code.get(x).get(y).op(I64.mul).i64(53n).op(I64.shr).op(I64.eqz).op(I32.and);
}

/** Of products, quotients and roots a zero is exact where an operand was zero. */
function zeroResult(body: Body, operands: readonly number[], result: number, type: Real): void {
  isZero(body, result, type);
  const { code } = body;
  code.if();
  operands.forEach((each, i) => {
    isZero(body, each, type);
    if (i > 0) code.op(I32.or);
  });
  code.return().end();
}

function cleanProduct(type: Real): WasmFunction {
  const body = begin([type, type], type);
  const { code } = body;
  notOther(body, 3);
  zeroResult(body, [0, 1], 2, type);
  onlyIn(body, 3, FLOAT_MODE.nearest);
  ordinary(body, 2, type);
  if (type === 'f64') {
    // Of subnormal operands the shape is another.
    for (const each of [0, 1]) {
      ordinary(body, each, type);
      code.op(I32.and);
    }
    hasShortProduct(body, 0, 1);
  } else {
    const product = body.of(body.double(0), F64.mul, body.double(1));
    code.get(body.double(2)).get(product).op(F64.eq);
  }
  code.op(I32.and);
  return body.finish();
}

/** A quotient or root is exact when multiplying it back gives the operand. */
function cleanInverse(type: Real, isRoot: boolean): WasmFunction {
  const body = begin(isRoot ? [type] : [type, type], type);
  const { code } = body;
  const result = isRoot ? 1 : 2;
  notOther(body, result + 1);
  zeroResult(body, [0], result, type);
  onlyIn(body, result + 1, FLOAT_MODE.nearest);
  ordinary(body, result, type);
  const [r, other, whole] = [body.double(result), isRoot ? result : 1, body.double(0)];
  const factor = isRoot ? r : body.double(other);
  if (type === 'f64') {
    // Multiplying back is exact where nothing is subnormal.
    for (const each of isRoot ? [0] : [0, 1]) {
      ordinary(body, each, type);
      code.op(I32.and);
    }
    hasShortProduct(body, r, factor);
    code.op(I32.and);
  }
  code.get(r).get(factor).op(F64.mul).get(whole).op(F64.eq).op(I32.and);
  return body.finish();
}

/**
 * a * b + c. A NaN, which is nothing that a row settles, where factors are not near enough to 1 for
 * the exact product: between 2^-400 and 2^400, the addend below 2^900.
 */
function fused64(): WasmFunction {
  const body = new Body(['f64', 'f64', 'f64'], 'f64');
  const { code } = body;
  isZero(body, 0, 'f64');
  isZero(body, 1, 'f64');
  code.op(I32.or).if();
  code.get(0).get(1).op(F64.mul).get(2).op(F64.add).return();
  code.end();
  exponentWithin(body, 0, -400, 400);
  exponentWithin(body, 1, -400, 400);
  code.op(I32.and);
  exponentWithin(body, 2, -1023, 900);
  code.op(I32.and).op(I32.eqz).if();
  code.raw(NAN64).return();
  code.end();
  const product = body.product(0, 1);
  const lower = body.sum(2, product.low);
  const upper = body.sum(product.high, lower.high);
  const odd = body.toOdd(body.sum(lower.low, upper.low));
  code.get(upper.high).get(odd).op(F64.add);
  return body.finish();
}

/** A product of singles, which a double holds, plus a single: to odd and then to single. */
function fused32(): WasmFunction {
  const body = new Body(['f32', 'f32', 'f32'], 'f32');
  const product = body.of(body.double(0), F64.mul, body.double(1));
  const odd = body.toOdd(body.sum(product, body.double(2)));
  body.code.get(odd).op(F64.demote);
  return body.finish();
}

/**
 * Pushes whether a sum of a product that is not `ordinary` raises nothing while inexact is raised:
 * it is finite, and a factor is zero, or the product so large that no bit of the sum is below the
 * smallest number.
 */
function isExactWhereTiny(
  body: Body,
  [a, b, product]: readonly [a: number, b: number, product: number],
  result: number,
): void {
  const { code } = body;
  isZero(body, a, 'f64');
  isZero(body, b, 'f64');
  code.op(I32.or);
  exponentWithin(body, product, -900, 1023);
  code.op(I32.or);
  code.get(result).op(F64.abs).raw(INFINITY64).op(F64.lt).op(I32.and);
}

function cleanFused(type: Real): WasmFunction {
  const body = begin([type, type, type], type);
  const { code } = body;
  notOther(body, 4);
  const [a, b, c] = [body.double(0), body.double(1), body.double(2)];
  const product = body.of(a, F64.mul, b);
  const { high, low } = body.sum(product, c);
  const isExact = (): void => {
    isZero(body, low, 'f64');
    code.get(body.double(3)).get(high).op(F64.eq).op(I32.and);
  };
  if (type === 'f32') {
    // Also in the other mode: a zero is what is not settled there.
    code.get(4).i64(FLOAT_MODE.inexact).op(I64.eq).if();
    isZero(body, 3, type);
    isExact();
    code.op(I32.and).return().end();
    ordinary(body, 3, type);
    isZero(body, 3, type);
    code.op(I32.or);
  } else {
    code.get(4).i64(FLOAT_MODE.inexact).op(I64.eq).if();
    isExactWhereTiny(body, [a, b, product], 3);
    code.return().end();
    onlyIn(body, 4, FLOAT_MODE.nearest);
    // The product is zero, or one that is exact: then its sum is the rest of the question.
    isZero(body, a, type);
    isZero(body, b, type);
    code.op(I32.or);
    ordinary(body, product, type);
    for (const each of [a, b]) {
      ordinary(body, each, type);
      code.op(I32.and);
    }
    hasShortProduct(body, a, b);
    code.op(I32.and).op(I32.or);
  }
  isExact();
  code.op(I32.and);
  return body.finish();
}

function cleanNarrow(): WasmFunction {
  const body = begin(['f64'], 'f32');
  const { code } = body;
  notOther(body, 2);
  isZero(body, 1, 'f32');
  code.if();
  isZero(body, 0, 'f64');
  code.return().end();
  onlyIn(body, 2, FLOAT_MODE.nearest);
  ordinary(body, 1, 'f32');
  code.get(body.double(1)).get(0).op(F64.eq).op(I32.and);
  return body.finish();
}

/** An integer is converted exactly when it comes back; the bound of its range does not. */
function cleanFromInteger(type: Real, signed: boolean): WasmFunction {
  const body = begin(['i64'], type);
  const { code } = body;
  onlyIn(body, 2, FLOAT_MODE.nearest);
  const result = body.double(1);
  code
    .get(result)
    .raw([0x44, 0, 0, 0, 0, 0, 0, signed ? 0xe0 : 0xf0, 0x43])
    .op(F64.lt);
  code
    .get(result)
    .raw(signed ? F64.truncS : F64.truncU)
    .get(0)
    .op(I64.eq)
    .op(I32.and);
  return body.finish();
}

/** A double that is an integer is rounded to itself. Whether it is in range is the row's domain. */
function cleanInteger(): WasmFunction {
  const body = begin(['f64'], 'i64');
  onlyIn(body, 2, FLOAT_MODE.nearest);
  body.code.get(0).op(F64.trunc).get(0).op(F64.eq);
  return body.finish();
}

/** The function of that name. */
export function floatFunction(name: FloatFunction): WasmFunction {
  switch (name) {
    case 'fma64':
      return fused64();
    case 'fma32':
      return fused32();
    case 'cleanadd64':
      return cleanSum('f64', false);
    case 'cleansub64':
      return cleanSum('f64', true);
    case 'cleanadd32':
      return cleanSum('f32', false);
    case 'cleansub32':
      return cleanSum('f32', true);
    case 'cleanmul64':
      return cleanProduct('f64');
    case 'cleanmul32':
      return cleanProduct('f32');
    case 'cleandiv64':
      return cleanInverse('f64', false);
    case 'cleandiv32':
      return cleanInverse('f32', false);
    case 'cleansqrt64':
      return cleanInverse('f64', true);
    case 'cleansqrt32':
      return cleanInverse('f32', true);
    case 'cleanfma64':
      return cleanFused('f64');
    case 'cleanfma32':
      return cleanFused('f32');
    case 'cleannarrow':
      return cleanNarrow();
    case 'cleansigned64':
      return cleanFromInteger('f64', true);
    case 'cleanunsigned64':
      return cleanFromInteger('f64', false);
    case 'cleansigned32':
      return cleanFromInteger('f32', true);
    case 'cleanunsigned32':
      return cleanFromInteger('f32', false);
    case 'cleaninteger':
      return cleanInteger();
    case 'roundadd64':
      return roundedSum(false);
    case 'roundsub64':
      return roundedSum(true);
    case 'told':
      return toldFunction();
    default:
      return name satisfies never;
  }
}
