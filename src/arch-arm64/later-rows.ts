/**
 * What came to A64 with ARMv8.2: sums of four products of bytes (FEAT_DotProd), SHA-512 and SHA-3,
 * over vector registers as numbers. Names are those of the rows of the instruction table.
 *
 * Source: Arm Architecture Reference Manual for A-profile, C7.2.
 */
import type { VectorRegisters } from './vector-rows.js';

type Operands = Readonly<Record<string, number>>;

const right = (value: bigint, by: number): bigint =>
  BigInt.asUintN(64, (value >> BigInt(by)) | (value << BigInt((64 - by) % 64)));
const low = (value: bigint): bigint => BigInt.asUintN(64, value);
const high = (value: bigint): bigint => BigInt.asUintN(64, value >> 64n);
const joined = (upper: bigint, lower: bigint): bigint => (low(upper) << 64n) | low(lower);
const choose = (x: bigint, y: bigint, z: bigint): bigint => ((y ^ z) & x) ^ z;
const majority = (x: bigint, y: bigint, z: bigint): bigint => (x & y) ^ (x & z) ^ (y & z);
const rotations =
  (...by: readonly [number, number, number]) =>
  (value: bigint): bigint =>
    right(value, by[0]) ^ right(value, by[1]) ^ right(value, by[2]);
const [sum0, sum1] = [rotations(28, 34, 39), rotations(14, 18, 41)];
const schedule0 = (value: bigint): bigint => right(value, 1) ^ right(value, 8) ^ (value >> 7n);
const schedule1 = (value: bigint): bigint => right(value, 19) ^ right(value, 61) ^ (value >> 6n);

/** Target, operands, an immediate. */
type Compute = (d: bigint, n: bigint, m: bigint, a: bigint, amount: number) => bigint;

const ROWS = {
  sha512h: (d, n, m) => {
    const first = low(choose(high(m), low(n), high(n)) + sum1(high(m)) + high(d));
    const next = low(first + low(m));
    return joined(first, choose(next, high(m), low(n)) + sum1(next) + low(d));
  },
  sha512h2: (d, n, m) => {
    const first = low(majority(low(n), high(m), low(m)) + sum0(low(m)) + high(d));
    return joined(first, majority(first, low(m), high(m)) + sum0(first) + low(d));
  },
  sha512su0: (d, n) => joined(high(d) + schedule0(low(n)), low(d) + schedule0(high(d))),
  sha512su1: (d, n, m) => joined(high(d) + schedule1(high(n)) + high(m), low(d) + schedule1(low(n)) + low(m)),
  eor3: (_d, n, m, a) => n ^ m ^ a,
  bcax: (_d, n, m, a) => n ^ (m & ~a),
  rax1: (_d, n, m) => n ^ joined(right(high(m), 63), right(low(m), 63)),
  xar: (_d, n, m, _a, amount) => joined(right(high(n ^ m), amount), right(low(n ^ m), amount)),
} as const satisfies Readonly<Record<string, Compute>>;
const PRODUCTS = ['sdot', 'udot', 'sdot-e', 'udot-e'] as const;

export type LaterRow = keyof typeof ROWS | (typeof PRODUCTS)[number];
export const LATER_ROWS = [...Object.keys(ROWS), ...PRODUCTS] as readonly LaterRow[];

/** Each word of the target and the four products of bytes that lie there. */
function products(signed: boolean, operands: Operands, registers: VectorRegisters): void {
  const { dotd, bn, bm, dote, q, h, l } = operands as Readonly<Record<string, number>>;
  const byte = (value: bigint, i: number): bigint =>
    signed ? BigInt.asIntN(8, value >> BigInt(8 * i)) : BigInt.asUintN(8, value >> BigInt(8 * i));
  const [n, m, d] = [registers.vector(bn!), registers.vector(bm ?? dote!), registers.vector(dotd!)];
  const element = dote === undefined ? null : 2 * h! + l!;
  let out = 0n;
  for (let word = 0; word < (q === 1 ? 4 : 2); word++) {
    let sum = d >> BigInt(32 * word);
    for (let i = 0; i < 4; i++) sum += byte(n, 4 * word + i) * byte(m, 4 * (element ?? word) + i);
    out |= BigInt.asUintN(32, sum) << BigInt(32 * word);
  }
  registers.setVector(dotd!, out);
}

/** Executes an instruction of `LATER_ROWS`. */
export function executeLater(row: string, operands: Operands, registers: VectorRegisters): void {
  if (row.includes('dot')) {
    products(row.startsWith('s'), operands, registers);
    return;
  }
  const at = (...names: readonly string[]): bigint => {
    const number = names.map((name) => operands[name]).find((each) => each !== undefined);
    return number === undefined ? 0n : registers.vector(number);
  };
  const target = operands['qd'] ?? operands['kd'] ?? operands['yd']!;
  const compute = (ROWS as Readonly<Record<string, Compute>>)[row]!;
  const amount = operands['rotate'] ?? 0;
  registers.setVector(
    target,
    compute(registers.vector(target), at('qn', 'kn', 'yn'), at('km', 'ym'), at('ya'), amount),
  );
}
