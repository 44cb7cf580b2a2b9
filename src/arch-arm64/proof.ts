/**
 * What a proof knows of AAPCS64: x8 is live at a function's entry, x9 to x17 are free (x9 has
 * the caller at sites that save it, x16 and x17 belong to veneers), x18 is the platform's.
 */
import type { ProofModel } from '../machine/proof.js';

export const arm64Proof: ProofModel = {
  fixed: ['fpcr', 'fpsr', 'btype'],
  random: { nzcv: 0xf000_0000n },
  compared: {
    ...Object.fromEntries(Array.from({ length: 9 }, (_, i) => [`x${9 + i}`, 0n])),
    nzcv: 0n,
    btype: 0n,
  },
  volatile: Array.from({ length: 9 }, (_, i) => `x${i}`),
  stackAlign: 16n,
  stackSkew: 0n,
  calleeWords: [],
  entryAddress: null,
  toc: null,
  savedLink: null,
  tocSlot: null,
  // Calls of firmware (SMCCC) have results in all of x0 to x7.
  results: [...Array.from({ length: 8 }, (_, i) => `x${i}`), 'v0', 'v1', 'v2', 'v3'],
};
