/**
 * What instructions of VMX on integers compute that have no ops (`vectors.ts`): rows by
 * mnemonic, over numbers of 128 bits whose most significant element is the first. POWER8's
 * cryptography is among them.
 *
 * Source: Power ISA 2.07B, Book I, chapter 6; FIPS 197 and FIPS 180-4 for the tables.
 */
import { decrypted, encrypted, mixedColumns, substituted, unmixedColumns } from '../machine/aes.js';
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
const three = ['vra', 'vrb', 'vrc'];
const LETTERS = { b: 8, h: 16, w: 32, d: 64 } as const;
const NARROW = [['b', 8], ['h', 16], ['w', 32]] as const; // prettier-ignore
const ALL = Object.entries(LETTERS);
const SIGNS = [['s', true], ['u', false]] as const; // prettier-ignore

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
const total = (parts: readonly bigint[]): bigint => parts.reduce((sum, each) => sum + each, 0n);

const ROWS = new Map<string, VmxRow>();

function add(name: string, sources: readonly string[], run: VmxRow['run']): void {
  ROWS.set(name, { sources, run });
}

type OfElement = (a: bigint, b: bigint, unit: VectorUnit) => bigint;

/** Element by element. */
function lanes(name: string, bits: number, compute: OfElement, signed = false): void {
  add(name, two, ([a, b], unit) => {
    const second = elements(b!, bits, signed);
    return joined(elements(a!, bits, signed).map((each, i) => compute(each, second[i]!, unit)), bits); // prettier-ignore
  });
}

function lanesOfOne(name: string, bits: number, compute: (value: bigint) => bigint): void {
  add(name, ['vrb'], ([b]) => joined(elements(b!, bits).map(compute), bits));
}

// ------------------------------------------------------------------------------ sums and products

for (const [letter, bits] of NARROW) {
  for (const [sign, signed] of SIGNS) {
    lanes(`vavg${sign}${letter}`, bits, (a, b) => (a + b + 1n) >> 1n, signed);
    for (const [where, offset] of [['e', 0], ['o', 1]] as const) {
      add(`vmul${where}${sign}${letter}`, two, ([a, b]) => {
        const second = elements(b!, bits, signed);
        const products = elements(a!, bits, signed).map((each, i) => each * second[i]!);
        return joined(products.filter((_, i) => i % 2 === offset), 2 * bits); // prettier-ignore
      });
    } // prettier-ignore
  }
}
for (const [sign, signed] of SIGNS) {
  lanes(`vadd${sign}ws`, 32, (a, b, unit) => unit.clamp(a + b, 32, signed), signed);
  lanes(`vsub${sign}ws`, 32, (a, b, unit) => unit.clamp(a - b, 32, signed), signed);
}
lanes('vaddcuw', 32, (a, b) => (a + b) >> 32n);
lanes('vsubcuw', 32, (a, b) => (a >= b ? 1n : 0n));
lanes('vmuluwm', 32, (a, b) => a * b);

/** Sums of quadwords with a carry in; differences add the complement. */
for (const [name, isDifference] of [['add', false], ['sub', true]] as const) {
  const sum = (a: bigint, b: bigint, carry: bigint): bigint => a + (isDifference ? full(~b) : b) + carry;
  const carry = isDifference ? 1n : 0n;
  add(`v${name}cuq`, two, ([a, b]) => sum(a!, b!, carry) >> 128n);
  add(`v${name}euqm`, three, ([a, b, c]) => full(sum(a!, b!, c! & 1n)));
  add(`v${name}ecuq`, three, ([a, b, c]) => sum(a!, b!, c! & 1n) >> 128n);
} // prettier-ignore

add('vmladduhm', three, ([a, b, c]) => {
  const [second, third] = [elements(b!, 16), elements(c!, 16)];
  return joined(elements(a!, 16).map((each, i) => each * second[i]! + third[i]!), 16); // prettier-ignore
});
for (const [name, half] of [['vmhaddshs', 0n], ['vmhraddshs', 0x4000n]] as const) {
  add(name, three, ([a, b, c], unit) => {
    const [second, third] = [elements(b!, 16, true), elements(c!, 16, true)];
    const sum = (each: bigint, i: number): bigint => ((each * second[i]! + half) >> 15n) + third[i]!;
    return joined(elements(a!, 16, true).map((each, i) => unit.clamp(sum(each, i), 16, true)), 16);
  });
} // prettier-ignore

/** Products summed into the words of a third operand; `limit`: saturated, and signed. */
function productSums(name: string, bits: 8 | 16, signs: readonly [a: boolean, b: boolean], limit?: boolean): void {
  add(name, three, ([a, b, c], unit) => {
    const second = elements(b!, bits, signs[1]);
    const products = elements(a!, bits, signs[0]).map((each, i) => each * second[i]!);
    const count = 32 / bits;
    const words = elements(c!, 32, limit === true).map((each, i) => {
      const sum = each + total(products.slice(i * count, (i + 1) * count));
      return limit === undefined ? sum : unit.clamp(sum, 32, limit);
    });
    return joined(words, 32);
  });
}
productSums('vmsumubm', 8, [false, false]);
productSums('vmsummbm', 8, [true, false]);
productSums('vmsumuhm', 16, [false, false]);
productSums('vmsumshm', 16, [true, true]);
productSums('vmsumuhs', 16, [false, false], false);
productSums('vmsumshs', 16, [true, true], true);

/** Elements of the first operand across parts of `into` bits, and the last word of each part. */
function across(name: string, bits: number, into: number, signed: boolean): void {
  add(name, two, ([a, b], unit) => {
    const [first, last] = [elements(a!, bits, signed), elements(b!, 32, signed)];
    const count = into / bits;
    const sums = Array.from({ length: 128 / into }, (_, i) => {
      const sum = total(first.slice(i * count, (i + 1) * count)) + last[((i + 1) * into) / 32 - 1]!;
      return BigInt.asUintN(32, unit.clamp(sum, 32, signed));
    });
    return joined(sums, into);
  });
}
across('vsum4ubs', 8, 32, false);
across('vsum4sbs', 8, 32, true);
across('vsum4shs', 16, 32, true);
across('vsum2sws', 32, 64, true);
across('vsumsws', 32, 128, true);

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

// ------------------------------------------------------------------------------------- bits

const rotated = (value: bigint, right: bigint, bits: number): bigint =>
  (value >> right) | BigInt.asUintN(bits, value << (BigInt(bits) - right));

for (const [letter, bits] of ALL) {
  const count = (value: bigint): bigint => value & BigInt(bits - 1);
  lanes(`vrl${letter}`, bits, (a, b) => rotated(a, count(-b), bits));
  lanes(`vsl${letter}`, bits, (a, b) => a << count(b));
  lanes(`vsr${letter}`, bits, (a, b) => a >> count(b));
  lanes(`vsra${letter}`, bits, (a, b) => BigInt.asIntN(bits, a) >> count(b));
  lanesOfOne(`vclz${letter}`, bits, (value) => BigInt(bits - (value === 0n ? 0 : value.toString(2).length)));
  lanesOfOne(`vpopcnt${letter}`, bits, (value) => BigInt(value.toString(2).replaceAll('0', '').length));
}
add('vbpermq', two, ([a, b]) => {
  const bits = elements(b!, 8).map((index) => (index < 128n ? (a! >> (127n - index)) & 1n : 0n));
  return joined(bits, 1) << 64n;
});
add('vpermxor', three, ([a, b, c]) => {
  const [first, second] = [elements(a!, 8), elements(b!, 8)];
  return joined(elements(c!, 8).map((by) => first[Number(by >> 4n)]! ^ second[Number(by & 15n)]!), 8); // prettier-ignore
});

// --------------------------------------------------------------------------------- pack, unpack

for (const [letter, bits] of [['h', 16], ['w', 32], ['d', 64]] as const) {
  const packed = (name: string, from: boolean, narrow: (value: bigint, unit: VectorUnit) => bigint): void => {
    add(name, two, ([a, b], unit) => {
      const all = [...elements(a!, bits, from), ...elements(b!, bits, from)];
      return joined(all.map((each) => narrow(each, unit)), bits / 2); // prettier-ignore
    });
  };
  packed(`vpku${letter}us`, false, (value, unit) => unit.clamp(value, bits / 2, false));
  packed(`vpks${letter}us`, true, (value, unit) => unit.clamp(value, bits / 2, false));
  packed(`vpks${letter}ss`, true, (value, unit) => unit.clamp(value, bits / 2, true));
} // prettier-ignore
for (const [half, offset] of [['h', 0n], ['l', 64n]] as const) {
  // Pixels: a bit, which fills a byte, and three numbers of 5 bits.
  add(`vupk${half}px`, ['vrb'], ([b]) => {
    const pixels = elements(full(b! << offset), 16).slice(0, 4);
    const wide = (pixel: bigint): bigint =>
      ((pixel >> 15n) * 0xff00_0000n) | ((pixel & 0x7c00n) << 6n) | ((pixel & 0x3e0n) << 3n) | (pixel & 31n);
    return joined(pixels.map(wide), 32);
  });
} // prettier-ignore
add('vpkpx', two, ([a, b]) => {
  const narrow = (word: bigint): bigint =>
    ((word >> 9n) & 0x8000n) | ((word >> 9n) & 0x7c00n) | ((word >> 6n) & 0x3e0n) | ((word >> 3n) & 31n);
  return joined([...elements(a!, 32), ...elements(b!, 32)].map(narrow), 16);
});
// -------------------------------------------------------------------------------- decimal numbers

/** 31 decimal digits and a sign behind them; null: it is none. */
function decimalOf(bits: bigint): bigint | null {
  const sign = Number(bits & 15n);
  const digits = (bits >> 4n).toString(16);
  if (sign < 10 || /[a-f]/.test(digits)) return null;
  return sign === 0xb || sign === 0xd ? -BigInt(digits) : BigInt(digits);
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

// ----------------------------------------------------------------------------------- cryptography

const bytesOf = (value: bigint): number[] => elements(value, 8).map(Number);
const ofBytes = (bytes: readonly number[]): bigint => joined(bytes.map(BigInt), 8);

add('vsbox', ['vra'], ([a]) => ofBytes(substituted(bytesOf(a!))));
add('vcipher', two, ([a, b]) => ofBytes(mixedColumns(encrypted(bytesOf(a!)))) ^ b!);
add('vcipherlast', two, ([a, b]) => ofBytes(encrypted(bytesOf(a!))) ^ b!);
add('vncipher', two, ([a, b]) => ofBytes(unmixedColumns(bytesOf(ofBytes(decrypted(bytesOf(a!))) ^ b!))));
add('vncipherlast', two, ([a, b]) => ofBytes(decrypted(bytesOf(a!))) ^ b!);

/**
 * The functions of SHA-2 by ST and a bit of SIX: three rotations; the last of the first two is a
 * shift.
 */
const SHA = {
  w: { bits: 32, rotations: [[7, 18, 3], [17, 19, 10], [2, 13, 22], [6, 11, 25]] },
  d: { bits: 64, rotations: [[1, 8, 7], [19, 61, 6], [28, 34, 39], [14, 18, 41]] },
} as const; // prettier-ignore
for (const [letter, { bits, rotations }] of Object.entries(SHA)) {
  add(`vshasigma${letter}`, ['vra'], ([a], unit) => {
    const { st, six } = unit.operands;
    const sigma = (value: bigint, i: number): bigint => {
      const which = 2 * st! + ((six! >> (3 - (i * bits) / 32)) & 1);
      const [first, second, third] = rotations[which]!;
      const last = which < 2 ? value >> BigInt(third) : rotated(value, BigInt(third), bits);
      return rotated(value, BigInt(first), bits) ^ rotated(value, BigInt(second), bits) ^ last;
    };
    return joined(elements(a!, bits).map(sigma), bits);
  });
}

/** Rows by mnemonic. */
export const INTEGER_ROWS: ReadonlyMap<string, VmxRow> = ROWS;
