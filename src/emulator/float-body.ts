/**
 * The body of a function on doubles that is being written: exact sums and products, what a result
 * is, rounding to odd.
 *
 * Source of rounding to odd: Boldo and Melquiond, Emulation of a FMA and correctly rounded sums:
 * proved algorithms using rounding to odd, IEEE Transactions on Computers 57(4), 2008; of the exact
 * sum and product: Knuth, The Art of Computer Programming 2, 4.2.2; Dekker, A floating-point
 * technique for extending the available precision, 1971.
 */
import { I32, I64 } from '../machine/ir.js';
import { Code } from './wasm.js';
import type { ValueType, WasmFunction } from './wasm.js';

export const F64 = {
  eq: 0x61, ne: 0x62, lt: 0x63, gt: 0x64, abs: 0x99, max: 0xa5, add: 0xa0, sub: 0xa1, mul: 0xa2, trunc: 0x9d, promote: 0xbb,
  demote: 0xb6, truncS: [0xfc, 0x06], truncU: [0xfc, 0x07], bits: 0xbd, fromBits: 0xbf,
} as const; // prettier-ignore
const F32 = { eq: 0x5b, bits: 0xbc } as const;

/** The body of a function being written: names of locals to numbers. */
export class Body {
  readonly code = new Code();
  private readonly locals: ValueType[] = [];

  constructor(
    private readonly parameters: readonly ValueType[],
    private readonly result: ValueType,
  ) {}

  local(type: ValueType): number {
    this.locals.push(type);
    return this.parameters.length + this.locals.length - 1;
  }

  /** A new local that takes the f64 on the stack. */
  keep(): number {
    const local = this.local('f64');
    this.code.set(local);
    return local;
  }

  /** A new local with a double: a parameter that is a single is widened. */
  double(parameter: number): number {
    if (this.parameters[parameter] === 'f64') return parameter;
    this.code.get(parameter).op(F64.promote);
    return this.keep();
  }

  /** `a op b` of two locals, in a new one. */
  of(a: number, op: number, b: number): number {
    this.code.get(a).get(b).op(op);
    return this.keep();
  }

  /** Returns `value` unless the i32 on the stack is 0. */
  returnIf(value: number): void {
    this.code.if();
    this.code.i32(value).return();
    this.code.end();
  }

  /** a + b as its rounded value and the rest. No |a| >= |b| is asked for. */
  sum(a: number, b: number): { readonly high: number; readonly low: number } {
    const high = this.of(a, F64.add, b);
    const second = this.of(high, F64.sub, a);
    const first = this.of(high, F64.sub, second);
    const [x, y] = [this.of(a, F64.sub, first), this.of(b, F64.sub, second)];
    return { high, low: this.of(x, F64.add, y) };
  }

  /** a as a sum of two numbers of 26 bits. */
  private split(a: number): { readonly high: number; readonly low: number } {
    this.code.get(a).raw([0x44, 0, 0, 0, 0x02, 0, 0, 0xa0, 0x41]).op(F64.mul);
    const scaled = this.keep();
    const high = this.of(scaled, F64.sub, this.of(scaled, F64.sub, a));
    return { high, low: this.of(a, F64.sub, high) };
  }

  /** a * b likewise, where neither it nor its rest overflow or underflow. */
  product(a: number, b: number): { readonly high: number; readonly low: number } {
    const high = this.of(a, F64.mul, b);
    const [x, y] = [this.split(a), this.split(b)];
    let rest = this.of(this.of(x.high, F64.mul, y.high), F64.sub, high);
    rest = this.of(rest, F64.add, this.of(x.high, F64.mul, y.low));
    rest = this.of(rest, F64.add, this.of(x.low, F64.mul, y.high));
    return { high, low: this.of(rest, F64.add, this.of(x.low, F64.mul, y.low)) };
  }

  /** high + low rounded to odd: the last bit is 1 where the rest is not 0. In a new local. */
  toOdd({ high, low }: { readonly high: number; readonly low: number }): number {
    const { code } = this;
    const out = this.local('f64');
    code.get(high).set(out);
    code.get(low).raw(ZERO64).op(F64.ne);
    code.get(high).op(F64.bits).op(I32.wrap).i32(1).op(I32.and).op(I32.eqz).op(I32.and).if();
    // Away from zero where the rest has the sign of the number.
    code.get(high).op(F64.bits).i64(1n).i64(-1n);
    code.get(low).raw(ZERO64).op(F64.gt).get(high).raw(ZERO64).op(F64.gt).op(I32.eq).select();
    code.op(I64.add).op(F64.fromBits).set(out);
    code.end();
    return out;
  }

  /**
   * high + low, a sum of a and b, in a directed mode, whose lower two bits `pushMode` pushes (an
   * i64: 1 to zero, 2 up, 3 down): one step from the nearer number where the rest points so. In a
   * new local.
   */
  directed(
    [a, b]: readonly [a: number, b: number],
    { high, low }: { readonly high: number; readonly low: number },
    pushMode: () => void,
  ): number {
    const { code } = this;
    const out = this.local('f64');
    const isAway = this.local('i64');
    code.get(high).set(out);
    // 1 where the rest has the sign of the nearer number.
    code.get(high).op(F64.bits).get(low).op(F64.bits).op(I64.xor).i64(63n).op(I64.shr).i64(1n).op(I64.xor).set(isAway);
    code.get(low).raw(ZERO64).op(F64.ne).if();
    pushMode();
    code.i64(2n).op(I64.eq).get(low).raw(ZERO64).op(F64.gt).op(I32.and);
    pushMode();
    code.i64(3n).op(I64.eq).get(low).raw(ZERO64).op(F64.lt).op(I32.and).op(I32.or);
    pushMode();
    code.i64(1n).op(I64.eq).get(isAway).op(I64.eqz).op(I32.and).op(I32.or).if();
    code
      .get(high)
      .op(F64.bits)
      .get(isAway)
      .i64(1n)
      .op(I64.shl)
      .op(I64.add)
      .i64(1n)
      .op(I64.sub)
      .op(F64.fromBits)
      .set(out);
    code.end();
    code.else();
    // A zero of both signs is negative where all else is rounded down.
    pushMode();
    code.i64(3n).op(I64.eq).get(high).raw(ZERO64).op(F64.eq).op(I32.and);
    code.get(a).op(F64.bits).get(b).op(F64.bits).op(I64.or).i64(0n).op(I64.lt).op(I32.and).if();
    code.raw(ZERO64).op(0x9a).set(out);
    code.end();
    code.end();
    return out;
  }

  finish(): WasmFunction {
    const { parameters, locals, code } = this;
    return { parameters, results: [this.result], locals, code };
  }
}

export const ZERO64 = [0x44, 0, 0, 0, 0, 0, 0, 0, 0] as const;
export const INFINITY64 = [0x44, 0, 0, 0, 0, 0, 0, 0xf0, 0x7f] as const;
export const NAN64 = [0x44, 0, 0, 0, 0, 0, 0, 0xf8, 0x7f] as const;

/** Pushes whether a local is a zero. */
export function isZero(body: Body, local: number, type: 'f32' | 'f64'): void {
  body.code.get(local);
  if (type === 'f32') body.code.op(F64.promote);
  body.code.raw(ZERO64).op(F64.eq);
}

/** Pushes `settled` of the row for the result. */
export function ordinary(body: Body, result: number, type: 'f32' | 'f64'): void {
  const { code } = body;
  code.get(result);
  if (type === 'f64')
    code
      .op(F64.bits)
      .i64(1n)
      .op(I64.shl)
      .i64(2n << 53n)
      .op(I64.sub)
      .i64(2045n << 53n)
      .op(I64.ltu);
  else
    code
      .op(F32.bits)
      .i32(1)
      .op(I32.shl)
      .i32(2 << 24)
      .op(I32.sub)
      .i32((253 << 24) | 0)
      .op(I32.ltu);
}

/** Pushes whether the exponent of a double is between those bounds. */
export function exponentWithin(body: Body, local: number, low: number, high: number): void {
  const { code } = body;
  code.get(local).op(F64.bits).i64(52n).op(I64.shr).i64(0x7ffn).op(I64.and);
  code
    .i64(BigInt(1023 + low))
    .op(I64.sub)
    .i64(BigInt(high - low))
    .op(I64.leu);
}
