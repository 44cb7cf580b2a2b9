/**
 * AES of A64 in ops, and SHA-1 and SHA-256 over vector registers as numbers. Names are those of the
 * rows of the instruction table; the product of polynomials is a row of `vector-rows.ts`.
 *
 * Source: Arm Architecture Reference Manual for A-profile, J1.2 (shared/functions/crypto).
 */
import { AesOps } from '../machine/aes-ops.js';
import type { Slot } from '../machine/ir.js';
import type { VectorRegisters } from './vector-rows.js';
import type { Fields, Place } from './vectors.js';

type Operands = Readonly<Record<string, number>>;
/** Words from the lowest. */
type Words = readonly number[];

const elements = (value: bigint): number[] =>
  Array.from({ length: 4 }, (_, i) => Number(BigInt.asUintN(32, value >> BigInt(32 * i))));
const joined = (parts: Words): bigint =>
  parts.reduce((sum, each, i) => sum | (BigInt.asUintN(32, BigInt(each)) << BigInt(32 * i)), 0n);

const left = (value: number, by: number): number => (value << by) | (value >>> (32 - by));
const right = (value: number, by: number): number => left(value, 32 - by);
const choose = (x: number, y: number, z: number): number => ((y ^ z) & x) ^ z;
const majority = (x: number, y: number, z: number): number => (x & y) | ((x | y) & z);
const parity = (x: number, y: number, z: number): number => x ^ y ^ z;

/** Four rounds of SHA-1: `d` holds a to d, `n` e. */
const rounds =
  (mix: (x: number, y: number, z: number) => number) =>
  (d: Words, n: Words, m: Words): number[] => {
    let [a, b, c, e, f] = [d[0]!, d[1]!, d[2]!, d[3]!, n[0]!];
    for (const word of m) {
      const next = (f + left(a, 5) + mix(b, c, e) + word) | 0;
      [a, b, c, e, f] = [next, a, left(b, 30), c, e];
    }
    return [a, b, c, e];
  };

/** Four rounds of SHA-256: `x` holds a to d, `y` e to h; both halves of the state. */
function hashed(x: Words, y: Words, words: Words): readonly [number[], number[]] {
  let [a, b, c, d] = x as [number, number, number, number];
  let [e, f, g, h] = y as [number, number, number, number];
  for (const word of words) {
    const t = (h + (right(e, 6) ^ right(e, 11) ^ right(e, 25)) + choose(e, f, g) + word) | 0;
    const sum = (t + (right(a, 2) ^ right(a, 13) ^ right(a, 22)) + majority(a, b, c)) | 0;
    [a, b, c, d, e, f, g, h] = [sum, a, b, c, (d + t) | 0, e, f, g];
  }
  return [
    [a, b, c, d],
    [e, f, g, h],
  ];
}

/** The rest of the schedule of SHA-256. */
function scheduled(d: Words, n: Words, m: Words): number[] {
  const before = [n[1]!, n[2]!, n[3]!, m[0]!];
  const out = [m[2]!, m[3]!];
  for (let i = 0; i < 4; i++) {
    const word = out[i]!;
    out.push(((right(word, 17) ^ right(word, 19) ^ (word >>> 10)) + d[i]! + before[i]!) | 0);
  }
  return out.slice(2);
}

type OnWords = (d: Words, n: Words, m: Words) => number[];
const WORDS = {
  sha1c: rounds(choose),
  sha1p: rounds(parity),
  sha1m: rounds(majority),
  sha1h: (_d, n) => [left(n[0]!, 30), 0, 0, 0],
  sha1su0: (d, n, m) => [d[2]!, d[3]!, n[0]!, n[1]!].map((each, i) => each ^ d[i]! ^ m[i]!),
  sha1su1: (d, n) => {
    const t = d.map((each, i) => each ^ (n[i + 1] ?? 0));
    return t.map((each, i) => left(each, 1) ^ (i === 3 ? left(t[0]!, 2) : 0));
  },
  sha256h: (d, n, m) => hashed(d, n, m)[0],
  sha256h2: (d, n, m) => hashed(n, d, m)[1],
  sha256su0: (d, n) =>
    [d[1]!, d[2]!, d[3]!, n[0]!].map((each, i) => ((right(each, 7) ^ right(each, 18) ^ (each >>> 3)) + d[i]!) | 0),
  sha256su1: scheduled,
} as const satisfies Readonly<Record<string, OnWords>>;

export const CRYPTOGRAPHY_ROWS = Object.keys(WORDS) as readonly CryptographyRow[];
export type CryptographyRow = keyof typeof WORDS;

/** Executes an instruction of `CRYPTOGRAPHY_ROWS`. */
export function executeCryptography(row: string, operands: Operands, registers: VectorRegisters): void {
  const number = (names: readonly string[]): number | undefined =>
    operands[names.find((name) => operands[name] !== undefined) ?? ''];
  const target = number(['yd', 'td', 'qd', 'sd'])!;
  const [d, n, m] = [target, number(['yn', 'tn', 'qn', 'sn']), number(['tm'])].map((each) =>
    elements(each === undefined ? 0n : registers.vector(each)),
  );
  registers.setVector(target, joined((WORDS as Readonly<Record<string, OnWords>>)[row]!(d!, n!, m!)));
}

/** Rounds of AES, from the lowest byte on: the key is added before anything else. */
export function cipherSemantics(registers: readonly Slot[]) {
  const added = ({ b }: Place, f: Fields): Slot => {
    const d = registers[f.n('yd')]!;
    return b.to(d, 'xor128', d, registers[f.n('yn')]!);
  };
  const aes = ({ b }: Place): AesOps => new AesOps(b, 'lowest');
  return {
    aese: (x: Place, f: Fields): undefined => {
      const d = added(x, f);
      aes(x).encrypted(d, d);
    },
    aesd: (x: Place, f: Fields): undefined => {
      const d = added(x, f);
      aes(x).decrypted(d, d);
    },
    aesmc: (x: Place, f: Fields): undefined => {
      aes(x).mixedColumns(registers[f.n('yd')]!, registers[f.n('yn')]!);
    },
    aesimc: (x: Place, f: Fields): undefined => {
      aes(x).unmixedColumns(registers[f.n('yd')]!, registers[f.n('yn')]!);
    },
  };
}
