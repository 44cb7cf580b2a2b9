/**
 * What a proof knows of the RISC-V convention: t0, t1 and t3 to t6 are free at a function's
 * entry; t2 is the static chain. gp and tp belong to the platform.
 */
import type { ProofModel } from '../machine/proof.js';

export const riscvProof: ProofModel = {
  fixed: ['fcsr'],
  random: {},
  compared: { t0: 0n, t1: 0n, t3: 0n, t4: 0n, t5: 0n, t6: 0n },
  volatile: ['t2', ...Array.from({ length: 8 }, (_, i) => `a${i}`)],
  stackAlign: 16n,
  stackSkew: 0n,
  calleeWords: [],
  entryAddress: null,
  toc: null,
  savedLink: null,
  tocSlot: null,
  results: ['a0', 'a1', 'fa0', 'fa1'],
};
