/**
 * What a proof knows of the x86-64 System V convention: at a function's entry rax may say how many
 * vector registers a variadic function gets, r10 is the static chain, r11 and the arithmetic flags
 * are free.
 */
import { constantWord, type FrameRow, type FrameWord, type ProofModel, registerWords } from '../machine/proof.js';

/** CF, PF, AF, ZF, SF, OF. */
const ARITHMETIC = 0x8d5n;

/** Selectors of programs and of kernels (loader.ts). */
const CS = [0x33n, 0x10n];
const SS = [0x2bn, 0x18n];

/** pt_regs as entry.h has it: what both entries save. */
const saved = (plain: boolean): FrameWord[] => [
  ...registerWords(64, 8, ['r9', 'r8', 'rax', 'rcx', 'rdx', 'rsi', 'rdi']),
  { at: 128, holds: { is: 'behind', ip: 5n }, writer: 'replacement' },
  ...(plain ? [constantWord(136, 0n)] : [constantWord(136, ...CS), constantWord(160, ...SS)]),
  { at: 152, holds: { is: 'register', name: 'rsp' } },
];
const others = [
  ...registerWords(0, 8, ['r15', 'r14', 'r13', 'r12', 'rbp', 'rbx', 'r11', 'r10']),
  ...registerWords(144, 8, ['rflags']),
];
/** orig_ax, by which a callback names a direct caller. */
const direct: FrameWord = { at: 120, holds: { is: 'constant', values: [0n] }, writer: 'direct' };

const modern: FrameRow = {
  plain: [...saved(true), ...registerWords(32, 8, ['rbp']), direct],
  full: [...saved(false), ...others, direct],
  mark: 136,
  registers: [],
};
/** The entries of 2014: the plain one passes no frame. */
const of2014: FrameRow = { ...modern, plain: null, full: [...saved(false), ...others], mark: null };

export const x86Proof: ProofModel = {
  fixed: ['mxcsr'],
  random: { rflags: ARITHMETIC },
  compared: { r11: 0n, rflags: ~ARITHMETIC & 0xffff_ffff_ffff_ffffn },
  volatile: ['rax', 'rcx', 'rdx', 'rsi', 'rdi', 'r8', 'r9', 'r10'],
  stackAlign: 16n,
  // The return address.
  stackSkew: 8n,
  redZoneBytes: { program: 128, kernel: 0 },
  calleeWords: [],
  platform: [],
  entryAddress: null,
  toc: null,
  savedLink: null,
  tocSlot: null,
  results: ['rax', 'rdx', 'xmm0', 'xmm1'],
  // THREADS_FS and THREADS_GS of entry.h.
  threadKey: { mode: 'elftrace_thread_mode', at: { 1: 'fs_base', 2: 'gs_base' } },
  halfClock: null,
  frames: { modern, y2014: of2014, mcount: of2014 },
};
