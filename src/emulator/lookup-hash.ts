/**
 * Where lookup tables of code keep an address: the same function for generated code and for
 * TypeScript. Entries lie at multiples of powers of two, and functions of a program do so too,
 * which is why all bits of the address have a say (Fibonacci hashing: Knuth, The Art of Computer
 * Programming, volume 3, 6.4).
 */
import { I32 } from '../machine/ir.js';
import type { Address } from '../units.js';
import type { Code } from './wasm.js';

/** 2^32 divided by the golden ratio, to the next odd number; as a signed word. */
const SPREAD = 0x9e37_79b1 | 0;

/** Number of the entry of an address in a table of `2 ** bits` entries. */
export function lookupHash(address: Address, bits: number): number {
  return Math.imul(Number(address & 0xffff_ffffn), SPREAD) >>> (32 - bits);
}

/** The same of the word on the stack, which is the low half of the address. */
export function writeLookupHash(code: Code, bits: number): void {
  code
    .i32(SPREAD)
    .op(I32.mul)
    .i32(32 - bits)
    .op(I32.shr);
}
