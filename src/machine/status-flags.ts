/**
 * Condition records of machines with six status flags (x86): carry, parity, adjust, zero, sign and
 * overflow of one result, computed when they are asked for. One kind of the condition records of
 * `ir.ts`; the functions of both tiers are in `emulator/status-flags.ts`.
 */
import { ElftraceError } from '../errors.js';

/**
 * Families of results, at four widths. Records have a fourth slot, C, behind B. A 32- or 64-bit
 * operand is taken from the low bits of its slot; those of 8 and 16 bits are kept sign-extended, so
 * that one 64-bit comparison of A and B serves both signs.
 *
 *   sub  A - B (`and`, `test`: result - 0)      sbb  A - B - 1
 *   add  A = result, B = second operand         adc  the same with 1 carried in
 *   inc, dec  A = result, B = the carry flag, which they keep
 *   shr  A = result, B = the operand shifted by one less: its lowest bit is the carry. A left shift
 *        is `add` of that to itself
 *   res  A = result, B holds carry (bit 0), adjust (4) and overflow (11)
 *   mul  A and B = the signed operands; carry and overflow when their product does not fit
 *
 * With `FLAG_ROTATED` added to K the carry is bit 0 of C and overflow that and bit 63 of C: rotates
 * leave the rest as it was. Kind "bits" holds the flags in A at their places in RFLAGS.
 */
export const FLAG_FAMILIES = ['sub', 'sbb', 'add', 'adc', 'inc', 'dec', 'shr', 'res', 'mul'] as const;
export type FlagFamily = (typeof FLAG_FAMILIES)[number];
export type FlagWidth = 8 | 16 | 32 | 64;
export type FlagKind = `${FlagFamily}${FlagWidth}`;
export const FLAG_ROTATED = 0x40;
/** K of the first of them. */
export const FLAG_KINDS_START = 16;
const FLAG_WIDTHS: readonly FlagWidth[] = [8, 16, 32, 64];
const KINDS: ReadonlyMap<string, number> = new Map(
  FLAG_FAMILIES.flatMap((family, f) =>
    FLAG_WIDTHS.map((width, w) => [`${family}${width}`, FLAG_KINDS_START + 4 * f + w] as const),
  ),
);

/** Value of the K slot for a kind. */
export function flagCode(kind: FlagKind): number {
  return KINDS.get(kind)!;
}

/**
 * What such a record can be asked: a condition (0 or 1), or `flagbits`: all status flags at their
 * places in RFLAGS.
 */
export type FlagTestName = 'flagbits' | 'flago' | 'flagb' | 'flage' | 'flagbe' | 'flags' | 'flagp' | 'flagl' | 'flagle';

/** Places of the status flags in RFLAGS. Source: Intel SDM volume 1, 3.4.3. */
export const STATUS_FLAGS = { cf: 1n, pf: 4n, af: 0x10n, zf: 0x40n, sf: 0x80n, of: 0x800n } as const;
export const ALL_STATUS_FLAGS = 0x8d5n;

interface ArithmeticFlags {
  /** Modulo the width. */
  readonly result: bigint;
  readonly carry: boolean;
  readonly overflow: boolean;
  readonly adjust: boolean;
}

/** Operands of a record: as they are, and modulo the width. */
interface Operands {
  readonly a: bigint;
  readonly b: bigint;
  readonly x: bigint;
  readonly y: bigint;
  readonly width: FlagWidth;
  /** The highest bit of the width. */
  readonly top: bigint;
}

/** x - y - borrow. */
function subtracted({ x, y, width, top }: Operands, borrow: bigint): ArithmeticFlags {
  const result = BigInt.asUintN(width, x - y - borrow);
  const overflow = ((x ^ y) & (x ^ result) & top) !== 0n;
  return { result, carry: x < y + borrow, overflow, adjust: ((x ^ y ^ result) & 16n) !== 0n };
}

/** x is the sum of y, carry and an operand that is found again. */
function added({ x, y, width, top }: Operands, carry: bigint): ArithmeticFlags {
  const first = BigInt.asUintN(width, x - y - carry);
  const overflow = ((x ^ first) & (x ^ y) & top) !== 0n;
  return { result: x, carry: first + y + carry !== x, overflow, adjust: ((x ^ y ^ first) & 16n) !== 0n };
}

function multiplied({ a, b, width }: Operands): ArithmeticFlags {
  const exact = BigInt.asIntN(width, a) * BigInt.asIntN(width, b);
  const wide = BigInt.asIntN(width, exact) !== exact;
  return { result: BigInt.asUintN(width, exact), carry: wide, overflow: wide, adjust: false };
}

function flagsOf(family: FlagFamily, operands: Operands): ArithmeticFlags {
  const { b, x, y, top } = operands;
  const kept = (y & 1n) !== 0n;
  switch (family) {
    case 'sub':
    case 'sbb':
      return subtracted(operands, family === 'sbb' ? 1n : 0n);
    case 'add':
    case 'adc':
      return added(operands, family === 'adc' ? 1n : 0n);
    case 'inc':
      return { result: x, carry: kept, overflow: x === top, adjust: (x & 15n) === 0n };
    case 'dec':
      return { result: x, carry: kept, overflow: x === top - 1n, adjust: (x & 15n) === 15n };
    case 'shr':
      return { result: x, carry: kept, overflow: ((x ^ y) & top) !== 0n, adjust: false };
    case 'res':
      return { result: x, carry: kept, overflow: (b & STATUS_FLAGS.of) !== 0n, adjust: (y & 16n) !== 0n };
    case 'mul':
      return multiplied(operands);
    default:
      return family satisfies never;
  }
}

/** The bits of one result at their places in RFLAGS. */
function bitsOf({ result, carry, overflow, adjust }: ArithmeticFlags, top: bigint): bigint {
  const odd = [...(result & 0xffn).toString(2)].filter((digit) => digit === '1').length % 2 === 1;
  const parts: readonly (readonly [boolean, bigint])[] = [
    [carry, STATUS_FLAGS.cf], [!odd, STATUS_FLAGS.pf], [adjust, STATUS_FLAGS.af],
    [result === 0n, STATUS_FLAGS.zf], [(result & top) !== 0n, STATUS_FLAGS.sf], [overflow, STATUS_FLAGS.of],
  ]; // prettier-ignore
  return parts.reduce((sum, [set, bit]) => (set ? sum | bit : sum), 0n);
}

/**
 * The six status flags of a record at their places in RFLAGS. The function `flagbits` of the
 * generated code computes the same.
 */
export function flagBits(code: bigint, a: bigint, b: bigint, c: bigint): bigint {
  const kind = Number(code & BigInt(FLAG_ROTATED - 1));
  let bits = a & ALL_STATUS_FLAGS;
  // 0 is the kind "bits".
  if (kind !== 0) {
    const family = FLAG_FAMILIES[(kind - FLAG_KINDS_START) >> 2];
    if (family === undefined) throw new ElftraceError('internal', `no flag kind has code ${code}`, { value: code });
    const width = FLAG_WIDTHS[(kind - FLAG_KINDS_START) & 3]!;
    const top = 1n << BigInt(width - 1);
    const operands = { a, b, x: BigInt.asUintN(width, a), y: BigInt.asUintN(width, b), width, top };
    bits = bitsOf(flagsOf(family, operands), top);
  }
  if ((code & BigInt(FLAG_ROTATED)) === 0n) return bits;
  const carry = c & 1n;
  const overflow = (c >> 63n) ^ carry;
  return (bits & ~(STATUS_FLAGS.cf | STATUS_FLAGS.of)) | carry | (overflow << 11n);
}
