/**
 * POWER8's cryptography in ops. The functions of SHA-2 on elements of VMX are three rotations of
 * which the last may be a shift; which of two functions an element takes is said by the
 * instruction. Rounds of AES take the whole state, whose first byte is element 0.
 *
 * Source: Power ISA 2.07B, Book I, chapter 6; FIPS 180-4 (vshasigmaw, vshasigmad); FIPS 197.
 */
import { AesOps } from '../machine/aes-ops.js';
import type { Operand, Slot } from '../machine/ir.js';
import type { Vectors } from './vector-builder.js';

/** By ST and a bit of SIX: counts to the right; the last of the first two rows is a shift. */
const SHA = {
  w: { bits: 32, left: 'vshl32', right: 'vshr32', counts: [[7, 18, 3], [17, 19, 10], [2, 13, 22], [6, 11, 25]] },
  d: { bits: 64, left: 'vshl64', right: 'vshr64', counts: [[1, 8, 7], [19, 61, 6], [28, 34, 39], [14, 18, 41]] },
} as const; // prettier-ignore

/** One function of all elements. */
function sigma(v: Vectors, a: Slot, letter: keyof typeof SHA, which: number): Slot {
  const { bits, left, right, counts } = SHA[letter];
  const [first, second, last] = counts[which]!;
  const shifted = (count: number): Slot => v.op(right, a, BigInt(count));
  const rotated = (count: number): Slot => v.op('or128', shifted(count), v.op(left, a, BigInt(bits - count)));
  const both = v.op('xor128', rotated(first), rotated(second));
  return v.op('xor128', both, which < 2 ? shifted(last) : rotated(last));
}

/** What `vshasigmaw` or `vshasigmad` leaves; element 0 takes the highest bit of `six`. */
export function hashed(v: Vectors, a: Slot, letter: keyof typeof SHA, st: number, six: number): Slot {
  const { bits } = SHA[letter];
  const words = bits / 32;
  const takesSecond = Array.from({ length: 128 / bits }, (_, i) => ((six >> (3 - i * words)) & 1) === 1);
  const [first, second] = [2 * st, 2 * st + 1];
  if (takesSecond.every((each) => each === takesSecond[0])) return sigma(v, a, letter, takesSecond[0] ? second : first);
  const ones = (1n << BigInt(bits)) - 1n;
  const mask = takesSecond.reduce((sum, each) => (sum << BigInt(bits)) | (each ? ones : 0n), 0n);
  const chosen = v.constant(BigInt.asUintN(64, mask), mask >> 64n);
  return v.choose(chosen, sigma(v, a, letter, second), sigma(v, a, letter, first));
}

/** Rounds of AES and its substitution, of `a`; `key` is what is added. */
export const CIPHERS = ['vcipher', 'vcipherlast', 'vncipher', 'vncipherlast', 'vsbox'] as const;

export function ciphered(v: Vectors, name: (typeof CIPHERS)[number], a: Slot, key: Operand): Slot {
  const aes = new AesOps(v.b, 'highest');
  const d = v.b.vectorTemp();
  if (name === 'vsbox') aes.substituted(d, a);
  else if (name === 'vcipher' || name === 'vcipherlast') aes.encrypted(d, a);
  else aes.decrypted(d, a);
  if (name === 'vsbox') return d;
  if (name === 'vcipher') aes.mixedColumns(d, d);
  v.b.to(d, 'xor128', d, key);
  // The inverse adds the key first.
  if (name === 'vncipher') aes.unmixedColumns(d, d);
  return d;
}
