/**
 * What instructions of VMX on integers compute that have no ops (`vectors.ts`): rows by
 * mnemonic, over numbers of 128 bits whose most significant element is the first.
 *
 * Source: Power ISA 2.07B, Book I, chapter 6.
 */
import type { Operands } from '../isa/table.js';

/** One instruction while it is computed. */
export class VectorUnit {
  /** An element did not fit: VSCR.SAT. */
  saturated = false;
  /** What field 6 of CR becomes; null: what the result says where the instruction records. */
  field: number | null = null;

  constructor(
    /** Immediates of the instruction. */
    readonly operands: Operands,
    /** VSCR.NJ: subnormal numbers are zeros. */
    readonly nonJava = false,
  ) {}

  /** The nearest number of `bits` bits. */
  clamp(value: bigint, bits: number, signed: boolean): bigint {
    const top = (1n << BigInt(signed ? bits - 1 : bits)) - 1n;
    const least = signed ? -top - 1n : 0n;
    if (value >= least && value <= top) return value;
    this.saturated = true;
    return value > top ? top : least;
  }
}

export interface VmxRow {
  /** Fields of the operands. */
  readonly sources: readonly string[];
  /** The 128 bits of the result. */
  readonly run: (x: readonly bigint[], unit: VectorUnit) => bigint;
}

const two = ['vra', 'vrb'];
const LETTERS = { b: 8, h: 16, w: 32, d: 64 } as const;
const ALL = Object.entries(LETTERS);

/** Elements of `bits` bits, the first one first. */
export function elements(value: bigint, bits: number, signed = false): bigint[] {
  return Array.from({ length: 128 / bits }, (_, i) => {
    const element = BigInt.asUintN(bits, value >> BigInt(128 - bits * (i + 1)));
    return signed ? BigInt.asIntN(bits, element) : element;
  });
}

export function joined(parts: readonly bigint[], bits: number): bigint {
  return parts.reduce((sum, each) => (sum << BigInt(bits)) | BigInt.asUintN(bits, each), 0n);
}

const full = (value: bigint): bigint => BigInt.asUintN(128, value);

const ROWS = new Map<string, VmxRow>();

function add(name: string, sources: readonly string[], run: VmxRow['run']): void {
  ROWS.set(name, { sources, run });
}

/** Product of polynomials over GF(2). */
function polynomialProduct(a: bigint, b: bigint): bigint {
  let product = 0n;
  for (let rest = b, at = 0n; rest !== 0n; rest >>= 1n, at++) if ((rest & 1n) !== 0n) product ^= a << at;
  return product;
}
for (const [letter, bits] of ALL) {
  add(`vpmsum${letter}`, two, ([a, b]) => {
    const second = elements(b!, bits);
    const products = elements(a!, bits).map((each, i) => polynomialProduct(each, second[i]!));
    const sums = products.flatMap((each, i) => (i % 2 === 0 ? [each ^ products[i + 1]!] : []));
    return joined(sums, 2 * bits);
  });
}

// -------------------------------------------------------------------------------- decimal numbers

/** 31 decimal digits, as nibbles, and a sign behind them; null: it is none. */
export function signedDecimal(bits: bigint): { readonly digits: bigint; readonly isNegative: boolean } | null {
  const sign = bits & 15n;
  const digits = bits >> 4n;
  if (sign < 10n || /[a-f]/.test(digits.toString(16))) return null;
  return { digits, isNegative: sign === 0xbn || sign === 0xdn };
}

function decimalOf(bits: bigint): bigint | null {
  const number = signedDecimal(bits);
  if (number === null) return null;
  const value = BigInt(number.digits.toString(16));
  return number.isNegative ? -value : value;
}

for (const [name, sign] of [['bcdadd.', 1n], ['bcdsub.', -1n]] as const) {
  add(name, two, ([a, b], unit) => {
    const [first, second] = [decimalOf(a!), decimalOf(b!)];
    unit.field = 1;
    if (first === null || second === null) return full(-1n);
    const sum = first + sign * second;
    const digits = (sum < 0n ? -sum : sum).toString();
    unit.field = (sum < 0n ? 8 : sum > 0n ? 4 : 2) | (digits.length > 31 ? 1 : 0);
    const code = sum < 0n ? 0xdn : unit.operands['ps'] === 1 ? 0xfn : 0xcn;
    return (BigInt(`0x${digits.slice(-31)}`) << 4n) | code;
  });
} // prettier-ignore

/** Rows by mnemonic. */
export const INTEGER_ROWS: ReadonlyMap<string, VmxRow> = ROWS;
