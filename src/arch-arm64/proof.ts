/**
 * What a proof knows of AAPCS64: x8 is live at a function's entry, x9 to x17 are free (x9 has
 * the caller at sites that save it, x16 and x17 belong to veneers), x18 is the platform's.
 */
import { constantWord, type FrameRow, type FrameWord, type ProofModel, registerWords } from '../machine/proof.js';

const numbered = (first: number, last: number): string[] =>
  Array.from({ length: last - first + 1 }, (_, i) => `x${first + i}`);

/** The words of both layouts of entry.h, by the offsets that differ. */
function words(at: { fp: number; lr: number; sp: number; pc: number; own: number; traced: number }): FrameWord[] {
  return [
    ...registerWords(0, 8, numbered(0, 8)),
    ...registerWords(at.fp, 8, ['x29']),
    { at: at.lr, holds: { is: 'return' }, writer: 'graph' },
    ...registerWords(at.sp, 8, ['sp']),
    { at: at.pc, holds: { is: 'behind', ip: 4n }, writer: 'replacement' },
    // Frame records: of the entry, and behind it of the traced function.
    { at: at.own, holds: { is: 'frame', at: BigInt(at.traced) } },
    { at: at.own + 8, holds: { is: 'behind', ip: 4n } },
    ...registerWords(at.traced, 8, ['x29']),
    { at: at.traced + 8, holds: { is: 'return' } },
  ];
}

const ARGS = { fp: 80, lr: 88, sp: 96, pc: 104, own: 112, traced: 128 };
const PT_REGS = { fp: 232, lr: 240, sp: 248, pc: 256, own: 304, traced: 336 };
const MARK = 280;

const framePointer = (own: number): FrameRow['registers'] => [{ name: 'x29', holds: { is: 'frame', at: BigInt(own) } }];

const args: FrameRow = {
  plain: [...words(ARGS), { at: 72, holds: { is: 'constant', values: [0n] }, writer: 'direct' }],
  full: null,
  mark: null,
  registers: framePointer(ARGS.own),
};
/** x16 and x17 may be those of a veneer. */
const regs: FrameRow = {
  plain: [...words(PT_REGS), { at: 72, holds: { is: 'return' } }, constantWord(MARK, 0n)],
  full: [
    ...words(PT_REGS),
    { at: 72, holds: { is: 'return' } },
    ...registerWords(80, 8, numbered(10, 15)),
    ...registerWords(144, 8, numbered(18, 28)),
    constantWord(MARK, 0xffff_ffff_ffff_ffffn),
  ],
  mark: MARK,
  restoresPlain: true,
  registers: framePointer(PT_REGS.own),
};

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
  redZoneBytes: { program: 0, kernel: 0 },
  calleeWords: [],
  platform: ['x18'],
  entryAddress: null,
  toc: null,
  savedLink: null,
  tocSlot: null,
  // Calls of firmware (SMCCC) have results in all of x0 to x7.
  results: [...Array.from({ length: 8 }, (_, i) => `x${i}`), 'v0', 'v1', 'v2', 'v3'],
  halfClock: null,
  frames: { args, callops: args, regs },
};
