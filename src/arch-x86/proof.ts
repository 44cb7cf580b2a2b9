/**
 * What a proof knows of the x86-64 System V convention: at a function's entry rax may say how many
 * vector registers a variadic function gets, r10 is the static chain, r11 and the arithmetic flags
 * are free.
 */
import type { ProofModel } from '../machine/proof.js';

/** CF, PF, AF, ZF, SF, OF. */
const ARITHMETIC = 0x8d5n;

export const x86Proof: ProofModel = {
  fixed: ['mxcsr'],
  random: { rflags: ARITHMETIC },
  compared: { r11: 0n, rflags: ~ARITHMETIC & 0xffff_ffff_ffff_ffffn },
  volatile: ['rax', 'rcx', 'rdx', 'rsi', 'rdi', 'r8', 'r9', 'r10'],
  stackAlign: 16n,
  // The return address.
  stackSkew: 8n,
  calleeWords: [],
  entryAddress: null,
  toc: null,
  savedLink: null,
  tocSlot: null,
  results: ['rax', 'rdx', 'xmm0', 'xmm1'],
};
