/**
 * What a proof knows of the PowerPC conventions: r0, r12, ctr, xer and the fields 0, 1, 5, 6 and 7
 * of cr are free at a function's entry; r11 is the static chain. The frame of the caller has
 * words that the callee fills: the link register, cr, and on 64 bits the table of contents.
 */
import { constantWord, type FrameRow, type FrameWord, type ProofModel, registerWords } from '../machine/proof.js';

/** Fields 2, 3 and 4 of cr belong to the caller. */
const KEPT_CR = 0x00ff_f000n;

const CALLEE_WORDS = { sysv: [4], elfv1: [8, 16, 40], elfv2: [8, 16, 24] } as const;

/** Frames of entry.h: bytes of both, where pt_regs is in the second, the link register's word. */
const LAYOUTS = {
  sysv: { word: 4, minimal: 16, frame: 192, regsAt: 16, lr: 4 },
  elfv1: { word: 8, minimal: 112, frame: 496, regsAt: 112, lr: 16 },
  elfv2: { word: 8, minimal: 32, frame: 432, regsAt: 48, lr: 16 },
} as const;

/** Words of pt_regs. */
const REGS = { nip: 32, msr: 33, ctr: 35, link: 36, xer: 37, ccr: 38, direct: 43 };

const numbered = (first: number, last: number): string[] =>
  Array.from({ length: last - first + 1 }, (_, i) => `r${first + i}`);

/**
 * Frames of the entries of all conventions but `pg`. Left out: ctr, r11 and r12, which a stub on
 * the way may use.
 */
function framesOf(abi: 'sysv' | 'elfv1' | 'elfv2'): ProofModel['frames'] {
  const { word, minimal, frame, regsAt, lr } = LAYOUTS[abi];
  const behind = { is: 'behind', ip: 4n } as const;
  const back = { is: 'return' } as const;
  const traced = frame - regsAt;
  const both: FrameWord[] = [
    { at: 0, holds: back },
    ...registerWords(word, word, numbered(1, 10)),
    { at: REGS.nip * word, holds: behind, writer: 'replacement' },
    { at: REGS.link * word, holds: back, writer: 'graph' },
    ...registerWords(REGS.xer * word, word, ['xer', 'cr']),
    // Frames: of the entry, of the traced function, of its caller.
    { at: -regsAt, holds: { is: 'frame', at: BigInt(traced) } },
    { at: traced, holds: { is: 'register', name: 'r1' } },
    { at: traced + lr, holds: behind },
    // With 32 bits some sites save the return address there, and the entry does not.
    ...(word === 8 ? [{ at: traced + minimal + lr, holds: back }] : []),
  ];
  const msr = REGS.msr * word;
  const row: FrameRow = {
    plain: [...both, constantWord(msr, 0n)],
    full: [...both, ...registerWords(13 * word, word, numbered(13, 31)), constantWord(msr, 0x4000n)],
    mark: msr,
    registers: [{ name: 'r1', holds: { is: 'frame', at: BigInt(-regsAt) } }],
  };
  const direct: FrameWord = {
    at: REGS.direct * word,
    holds: { is: 'constant', values: [0n] },
    writer: 'direct',
  };
  const callops = { ...row, plain: [...row.plain!, direct], full: [...row.full!, direct] };
  return { regs: row, ool: row, callops, 'ool-ops': callops };
}

export function ppcProof(abi: 'sysv' | 'elfv1' | 'elfv2'): ProofModel {
  return {
    fixed: ['fpscr', 'vrsave', 'tar'],
    random: { cr: 0xffff_ffffn, xer: 0xe000_0000n },
    compared: { r0: 0n, r12: 0n, ctr: 0n, xer: 0n, cr: KEPT_CR },
    volatile: Array.from({ length: 9 }, (_, i) => `r${3 + i}`),
    stackAlign: 16n,
    stackSkew: 0n,
    redZoneBytes: abi === 'sysv' ? { program: 0, kernel: 0 } : { program: 288, kernel: 288 },
    calleeWords: CALLEE_WORDS[abi],
    platform: [...(abi === 'sysv' ? ['r2'] : []), 'r13'],
    entryAddress: abi === 'elfv2' ? 'r12' : null,
    toc: abi === 'sysv' ? null : 'r2',
    savedLink: 'r0',
    tocSlot: abi === 'sysv' ? null : abi === 'elfv1' ? 40 : 24,
    results: ['r3', 'r4', 'r5', 'r6', 'f1', 'f2'],
    halfClock: abi === 'sysv' ? 'timebase' : null,
    frames: framesOf(abi),
  };
}
