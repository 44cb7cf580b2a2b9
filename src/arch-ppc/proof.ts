/**
 * What a proof knows of the PowerPC conventions: r0, r12, ctr, xer and the fields 0, 1, 5, 6 and 7
 * of cr are free at a function's entry; r11 is the static chain. The frame of the caller has
 * words that the callee fills: the link register, cr, and on 64 bits the table of contents.
 */
import type { ProofModel } from '../machine/proof.js';

/** Fields 2, 3 and 4 of cr belong to the caller. */
const KEPT_CR = 0x00ff_f000n;

const CALLEE_WORDS = { sysv: [4], elfv1: [8, 16, 40], elfv2: [8, 16, 24] } as const;

export function ppcProof(abi: 'sysv' | 'elfv1' | 'elfv2'): ProofModel {
  return {
    fixed: ['fpscr', 'vrsave', 'tar'],
    random: { cr: 0xffff_ffffn, xer: 0xe000_0000n },
    compared: { r0: 0n, r12: 0n, ctr: 0n, xer: 0n, cr: KEPT_CR },
    volatile: Array.from({ length: 9 }, (_, i) => `r${3 + i}`),
    stackAlign: 16n,
    stackSkew: 0n,
    calleeWords: CALLEE_WORDS[abi],
    entryAddress: abi === 'elfv2' ? 'r12' : null,
    toc: abi === 'sysv' ? null : 'r2',
    savedLink: 'r0',
    tocSlot: abi === 'sysv' ? null : abi === 'elfv1' ? 40 : 24,
    results: ['r3', 'r4', 'r5', 'r6', 'f1', 'f2'],
  };
}
