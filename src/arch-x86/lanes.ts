/**
 * Vectors as integers, and how operations on them are put together: what helpers execute
 * (`vector.ts`, `avx.ts`).
 */
import { BINARY64 } from '../float/index.js';
import type { Format } from '../float/index.js';
import type { FloatResult, SseFloat } from './float.js';

/** What an operation works on. */
export interface VectorOperands {
  /** Bits of a register: 64 for MMX. */
  readonly width: 64 | 128 | 256;
  /** The first operand (but for AVX the target too), and the second: at least `width` bits. */
  readonly a: bigint;
  readonly b: bigint;
  /** The target as it was. */
  readonly c: bigint;
  /** The immediate byte. */
  readonly control: number;
  readonly sse: SseFloat;
  /** Exceptions of MXCSR that it raises. */
  flags: number;
}

export type VectorOperation = (x: VectorOperands) => bigint;

export const lane = (value: bigint, i: number, bits: number): bigint => BigInt.asUintN(bits, value >> BigInt(i * bits));
export const signedLane = (value: bigint, i: number, bits: number): bigint => BigInt.asIntN(bits, lane(value, i, bits));

/** A vector of so many lanes. */
export function pack(count: number, bits: number, at: (i: number) => bigint): bigint {
  let out = 0n;
  for (let i = count - 1; i >= 0; i--) out = (out << BigInt(bits)) | BigInt.asUintN(bits, at(i));
  return out;
}

/** Lane by lane. */
export const each =
  (bits: number, signed: boolean, operation: (a: bigint, b: bigint) => bigint): VectorOperation =>
  ({ width, a, b }) => {
    const take = signed ? signedLane : lane;
    return pack(width / bits, bits, (i) => operation(take(a, i, bits), take(b, i, bits)));
  };

/** So many elements, each converted; what they raise is joined. */
export function converted(x: VectorOperands, count: number, bits: number, element: (i: number) => FloatResult): bigint {
  return pack(count, bits, (i) => {
    const { bits: value, flags } = element(i);
    x.flags |= flags;
    return value;
  });
}

export const bitsOf = (of: Format): 32 | 64 => (of === BINARY64 ? 64 : 32);

/** A number from its bytes, the lowest first; and its bytes. */
export const numberIn = (bytes: Uint8Array): bigint => bytes.reduceRight((sum, each) => (sum << 8n) | BigInt(each), 0n);
export const bytesOf = (value: bigint, count: number): Uint8Array =>
  Uint8Array.from({ length: count }, (_, i) => Number((value >> BigInt(8 * i)) & 0xffn));
