/**
 * Stubs out of line of PowerPC: the call of a site with one nop. Owns their words and those of the
 * islands behind which the entry lies.
 *
 *   -8  address of the ops      64 bits, where stubs have that word (-4 on 32 bits)
 *    0  mflr r0                 the site jumps here with LR as the function's caller set it
 *    4  bl   entry              LR = address of the next word: the entry finds the site from it
 *    8  mtlr r0
 *   12  b    site+4
 *
 * - The site's jump does not link, so LR is still the way back to the function's caller when the
 *   stub keeps it in r0. The entry finds the site by the displacement of the last word.
 * - Kernels have three areas: one within text, which is used first, one behind text for what it
 *   does not reach or hold, one in init text. All bytes are zero until start-up writes them.
 * - Where `bl` does not reach the entry it leads to an island in the stubs' section, of the form
 *   that also leads out of modules.
 */
import type { OutOfLineModel, OutOfLineReading } from '../machine/out-of-line.js';
import { ByteView } from '../bytes.js';
import type { Address, Endian } from '../units.js';
import { branchReach } from './relocs.js';
import { bl, branch, branchDisplacement, isBl, isBranch, MFLR_R0, MTLR_R0, writeFtraceStub } from './stubs.js';

/** Deltas in a stub's code of its call and of its way back. */
export const STUB_CALL = 4;
const STUB_BACK = 12;
const STUB_WORDS = 4;

/** Code of an island that start-up writes: the words of the stub for entries up to its `bctr`. */
const ISLAND_BYTES = 20;

/**
 * Reads the words of a stub out of line.
 * @param wordAt  words of the code by address, -1 where there is none
 * Source: P-OOL-2
 */
export function readOutOfLineStub(
  wordAt: (address: Address) => number,
  address: Address,
  bits: 32 | 64,
): OutOfLineReading {
  const words = Array.from({ length: STUB_WORDS }, (_, i) => wordAt(address + BigInt(4 * i)));
  if (words.includes(-1)) return { wrong: 'no code lies there' };
  if (words.every((word) => word === 0)) return 'empty';
  const [first, call, third, back] = words as [number, number, number, number];
  if (first !== MFLR_R0) return { wrong: 'it does not begin with mflr r0' };
  if (!isBl(call)) return { wrong: 'its second word is no bl' };
  if (third !== MTLR_R0) return { wrong: 'its third word is not mtlr r0' };
  if (!isBranch(back)) return { wrong: 'its last word is no b' };
  const lead = (word: number, delta: number): Address =>
    BigInt.asUintN(bits, address + BigInt(delta + branchDisplacement(word)));
  return { target: lead(call, STUB_CALL), back: lead(back, STUB_BACK) };
}

/** The model of a target; symbols as kernels since 6.13 have them. */
export function outOfLineModel(bits: 32 | 64, endian: Endian): OutOfLineModel {
  return {
    areas: [
      { stubs: 'ftrace_ool_stub_inittext', count: 'ftrace_ool_stub_inittext_count', serves: 'init' },
      { stubs: 'ftrace_ool_stub_text', count: 'ftrace_ool_stub_text_count', serves: 'text' },
      { stubs: 'ftrace_ool_stub_text_end', count: 'ftrace_ool_stub_text_end_count', serves: 'text' },
    ],
    codeBytes: 4 * STUB_WORDS,
    callDelta: STUB_CALL,
    reach: branchReach,
    idleOps: 'ftrace_nop_ops',
    entry: 'ftrace_caller',
    unreserved: { from: '6.13', to: '6.17' },
    islands: bits === 64 ? ['ftrace_tramp_text', 'ftrace_tramp_init'] : [],
    read: (wordAt, address) => readOutOfLineStub(wordAt, address, bits),
    write({ address, site, target }) {
      const words = [
        MFLR_R0,
        bl(address + BigInt(STUB_CALL), target),
        MTLR_R0,
        branch(address + BigInt(STUB_BACK), site + 4n),
      ];
      const view = new ByteView(new Uint8Array(4 * STUB_WORDS), endian);
      words.forEach((word, i) => {
        view.insertU32(4 * i, word);
      });
      return view.bytes;
    },
    writeIsland: (address, coreToc, target) =>
      writeFtraceStub({ address, coreToc, target, targetToc: null }, 'elfv2', endian).slice(0, ISLAND_BYTES),
  };
}
