/**
 * What is told of a result of PowerPC's floating point in compiled code (`ftold`), against
 * `src/float`: inexact is its flag, the fraction went up where the result is not the one that is
 * cut off, and the class is that of its bits. Ordinary numbers are decided.
 */
import { expect, test } from '@jest/globals';
import { compileModule, HostMemory, instantiate } from '../src/emulator/host.js';
import { toldFunction } from '../src/emulator/told-function.js';
import { writeModule } from '../src/emulator/wasm.js';
import {
  add,
  BINARY32,
  BINARY64,
  classify,
  convert,
  divide,
  EXCEPTION,
  fromInteger,
  multiply,
  multiplyAdd,
  squareRoot,
  subtract,
  toInteger,
} from '../src/float/index.js';
import type { Environment, Format, NumberClass, Result, Rounding } from '../src/float/index.js';
import { TOLD } from '../src/machine/float-ops.js';
import type { ToldKind } from '../src/machine/float-ops.js';
import { Random } from './support/random.js';

const exports = instantiate(compileModule(writeModule([{ ...toldFunction(), export: 'told' }])), new HostMemory());
const random = new Random(11);
const SIGN = BINARY64.signBit;

const doubles = new Float64Array(1);
const bitsOfDoubles = new BigUint64Array(doubles.buffer);
const double = (bits: bigint): number => {
  bitsOfDoubles[0] = bits;
  return doubles[0]!;
};
function told(kind: number, operands: readonly bigint[]): bigint {
  const call = exports['told'];
  if (typeof call !== 'function') throw new Error('told');
  const [a, b, c] = operands.map(double);
  return call(a, b, c, BigInt(kind)) as bigint;
}

const env = (rounding: Rounding): Environment => ({
  rounding,
  tininess: 'before',
  nan: ({ infinity }) => infinity | 1n,
});
const narrow = (bits: bigint): bigint => convert(BINARY64, BINARY32, env('nearest-even'), bits).bits;

type Operate = (of: Format, rounding: Rounding, x: readonly bigint[]) => Result;
const OPERATIONS: Partial<Record<ToldKind, Operate>> = {
  add: (of, rounding, [a, b]) => add(of, env(rounding), a!, b!),
  sub: (of, rounding, [a, b]) => subtract(of, env(rounding), a!, b!),
  mul: (of, rounding, [a, b]) => multiply(of, env(rounding), a!, b!),
  div: (of, rounding, [a, b]) => divide(of, env(rounding), a!, b!),
  sqrt: (of, rounding, [a]) => squareRoot(of, env(rounding), a!),
  fma: (of, rounding, [a, b, c]) => multiplyAdd(of, env(rounding), a!, b!, c!),
};
/** Power ISA 2.07B, Book I, table 7. */
const CLASS: Partial<Record<NumberClass, bigint>> = {
  'negative normal': 0x08n, 'negative zero': 0x12n, 'positive zero': 0x02n, 'positive normal': 0x04n,
  'negative subnormal': 0x18n, 'positive subnormal': 0x14n,
}; // prettier-ignore

function wanted(of: Format, nearest: Result, cut: Result): bigint {
  const isInexact = (nearest.flags & EXCEPTION.inexact) !== 0;
  const fraction = (isInexact ? 0x2_0000n : 0n) | (!isInexact || nearest.bits === cut.bits ? 0n : 0x4_0000n);
  return fraction | ((CLASS[classify(of, nearest.bits)] ?? 0x1fn) << 12n);
}

/** Doubles, or singles as doubles; near 1, of few bits, far away, next to each other, or any. */
function operand(single: boolean, i: number, last: bigint): bigint {
  const kind = i % 5;
  let bits = random.wide() & 0xffff_ffff_ffff_ffffn;
  const spread = [20, 20, single ? 100 : 300, 3, 0][kind]!;
  if (kind < 4)
    bits = (bits & (SIGN | BINARY64.fractionMask)) | (BigInt(1023 - spread + random.below(2 * spread)) << 52n);
  if (kind === 1) bits &= -1n << 48n;
  if (kind === 3 && random.below(2) === 0) bits = last + BigInt(random.below(3));
  return single ? convert(BINARY32, BINARY64, env('nearest-even'), narrow(bits)).bits : bits;
}

const CASES = Object.entries(OPERATIONS).flatMap(([kind, operate]) =>
  [false, true].map((single) => [kind as ToldKind, single, operate] as const),
);

test.each(CASES)('%s, single: %s', (kind, single, operate) => {
  const of = single ? BINARY32 : BINARY64;
  let [decided, ordinary] = [0, 0];
  for (let i = 0; i < 4000; i++) {
    const x: bigint[] = [];
    for (let k = 0; k < 3; k++) x.push(operand(single, i, x.at(-1) ?? SIGN));
    if (kind === 'sqrt') x[0]! &= SIGN - 1n;
    const flags = kind === 'fma' ? random.below(4) * TOLD.negatesAddend : 0;
    const taken = x.map((bits) => (single ? narrow(bits) : bits));
    if ((flags & TOLD.negatesAddend) !== 0) taken[2]! ^= of.signBit;
    const [nearest, cut] = (['nearest-even', 'to-zero'] as const).map((rounding) => {
      const result = operate(of, rounding, taken);
      return (flags & TOLD.negates) === 0 ? result : { ...result, bits: result.bits ^ of.signBit };
    });
    const value = told(TOLD.kinds[kind] | flags | (single ? TOLD.single : 0), x);
    if (i % 5 < 2) ordinary++;
    if (value === -1n) continue;
    if (i % 5 < 2) decided++;
    expect([x.map((bits) => bits.toString(16)), flags, value.toString(16)]).toEqual([
      x.map((bits) => bits.toString(16)),
      flags,
      wanted(of, nearest!, cut!).toString(16),
    ]);
  }
  expect(decided).toBeGreaterThan(ordinary * 0.98);
});

test.each(['add', 'sub'] as const)('%s in directed modes', (kind) => {
  const operate = OPERATIONS[kind]!;
  for (let i = 0; i < 4000; i++) {
    const a = operand(false, i, SIGN);
    const x = [a, operand(false, i, a)];
    const rn = 1 + (i % 3);
    const rounding = (['to-zero', 'up', 'down'] as const)[rn - 1]!;
    const value = told(TOLD.kinds[kind] | TOLD.directed | (rn << 5), [...x, 0n]);
    if (value === -1n) continue;
    const [there, cut] = [rounding, 'to-zero' as const].map((each) => operate(BINARY64, each, x));
    const where = [i, ...x.map((bits) => bits.toString(16))];
    expect([...where, value.toString(16)]).toEqual([...where, wanted(BINARY64, there!, cut!).toString(16)]);
  }
});

test('conversions: to single, to integers, from integers', () => {
  let decided = 0;
  for (let i = 0; i < 4000; i++) {
    const a = operand(false, i, 0n);
    const round = (rounding: Rounding): Result => convert(BINARY64, BINARY32, env(rounding), a);
    const single = told(TOLD.kinds.round | TOLD.single, [a, 0n, 0n]);
    const integers = (['to-zero', 'nearest-even'] as const).map((mode) =>
      toInteger(BINARY64, mode, a, { bits: 64, signed: true }),
    );
    const [cut, nearest] = integers;
    if (cut?.kind === 'integer' && nearest?.kind === 'integer') {
      const inexact = nearest.flags === 0 ? 0n : 0x2_0000n;
      expect(told(TOLD.kinds.cut, [a, 0n, 0n])).toBe(inexact);
      expect(told(TOLD.kinds.nearest, [a, 0n, 0n])).toBe(inexact | (cut.value === nearest.value ? 0n : 0x4_0000n));
    }
    const integer = random.wide() >> BigInt(random.below(64));
    const bits = BigInt.asUintN(64, integer);
    for (const [of, flag] of [
      [BINARY64, 0],
      [BINARY32, TOLD.single],
    ] as const) {
      const make = (rounding: Rounding): Result => fromInteger(of, env(rounding), BigInt.asIntN(64, integer));
      const value = told(TOLD.kinds.integer | flag, [bits, 0n, 0n]);
      if (value !== -1n) expect(value).toBe(wanted(of, make('nearest-even'), make('to-zero')));
    }
    if (single === -1n) continue;
    decided++;
    expect(single).toBe(wanted(BINARY32, round('nearest-even'), round('to-zero')));
  }
  expect(decided).toBeGreaterThan(2000);
  expect(told(TOLD.kinds.value, [0x8000_0000_0000_0000n, 0n, 0n])).toBe(0x1_2000n);
  expect(told(0, [1n, 0n, 0n])).toBe(0n);
  expect(told(TOLD.unknown, [1n, 0n, 0n])).toBe(-1n);
});
