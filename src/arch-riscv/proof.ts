/**
 * What a proof knows of the RISC-V convention: t0, t1 and t3 to t6 are free at a function's
 * entry; t2 is the static chain. gp and tp belong to the platform.
 */
import { constantWord, type FrameRow, type FrameWord, type ProofModel, registerWords } from '../machine/proof.js';

const numbered = (letter: string, first: number, last: number): string[] =>
  Array.from({ length: last - first + 1 }, (_, i) => `${letter}${first + i}`);

const STATUS = 256;
/** The word by which a helper names a direct caller; where it takes another way, whatever t1 is. */
const t1 = (at: number): FrameWord => ({ at, holds: { is: 'constant', values: [0n] }, writer: 'direct' });

/** pt_regs: what plain and register entries of G2 both save. The site leaves its way back in t0. */
const common = (behind: bigint): FrameWord[] => [
  { at: 0, holds: { is: 'behind', ip: behind }, writer: 'replacement' },
  { at: 8, holds: { is: 'return' }, writer: 'graph' },
  ...registerWords(56, 8, ['t2', 's0']),
  ...registerWords(80, 8, numbered('a', 0, 7)),
];
/** The stack pointer is the entry's own. */
const all: readonly FrameWord[] = [
  { at: 16, holds: { is: 'frame', at: 0n } },
  ...registerWords(24, 8, ['gp', 'tp']),
  ...registerWords(72, 8, ['s1']),
  ...registerWords(144, 8, numbered('s', 2, 11)),
  ...registerWords(224, 8, numbered('t', 3, 6)),
  constantWord(STATUS, 0x20n),
];
const g2: FrameRow = {
  plain: [...common(8n), constantWord(STATUS, 0n)],
  full: [...common(8n), ...all, { at: 40, holds: { is: 'behind', ip: 8n } }, t1(48)],
  mark: STATUS,
  registers: [],
};
/** The site is 12 bytes in front of its last instruction, which loads ra again. */
const g1: FrameRow = {
  ...g2,
  plain: null,
  full: [...common(12n), ...all, ...registerWords(40, 8, ['t0', 't1'])],
  mark: null,
};
/** Behind a prologue; the site itself puts the return address into a0, or not. */
const g0: FrameRow = {
  ...g1,
  full: [
    { at: 0, holds: { is: 'behind', ip: null }, writer: 'replacement' },
    ...g1.full!.filter(({ at }) => at !== 0 && at !== 80),
  ],
};
const merged = (behind: bigint): FrameRow => ({
  plain: [
    { at: 0, holds: { is: 'behind', ip: behind }, writer: 'replacement' },
    { at: 8, holds: { is: 'return' }, writer: 'graph' },
    ...registerWords(16, 8, ['sp', 's0']),
    t1(32),
    ...registerWords(40, 8, [...numbered('a', 0, 7), 't2']),
  ],
  full: null,
  mark: null,
  registers: [],
});

export const riscvProof: ProofModel = {
  fixed: ['fcsr'],
  random: {},
  compared: { t0: 0n, t1: 0n, t3: 0n, t4: 0n, t5: 0n, t6: 0n },
  volatile: ['t2', ...Array.from({ length: 8 }, (_, i) => `a${i}`)],
  stackAlign: 16n,
  stackSkew: 0n,
  redZoneBytes: { program: 0, kernel: 0 },
  calleeWords: [],
  platform: ['tp', 'gp'],
  entryAddress: null,
  toc: null,
  savedLink: null,
  tocSlot: null,
  results: ['a0', 'a1', 'fa0', 'fa1'],
  halfClock: null,
  frames: { g2, 'g2-merged': merged(8n), g1, g3: merged(4n), g3c: merged(4n), g0 },
};
