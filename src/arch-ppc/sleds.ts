/**
 * Sleds of XRay on 64-bit PowerPC, ELFv2 (M-PROD-6):
 *
 *        entry, off              exit or tail, off       on
 *    0   b .+28                  blr, or b function      lis r0,number@h
 *    4   nop                     nop                     ori r0,r0,number@l
 *    8   std r0,-8(r1)           the same                the same
 *   12   mflr r0
 *   16   bl __xray_FunctionEntry or __xray_FunctionExit
 *   20   nop, which a linker makes ld r2,24(r1) for another TOC
 *   24   mtlr r0
 *   28   (the function)          blr, or b function
 *
 * The call is the compiler's: only the two words in front of it change. A runtime switches a sled
 * off by its first word, and for a tail call it copies the branch of the last word there, which
 * leads 28 bytes too low; here it is made anew.
 */
import { ByteView } from '../bytes.js';
import type { SledKind, SledModel, SledPlace, SledReading } from '../machine/sleds.js';
import type { Endian } from '../units.js';
import { BLR, branch, branchDisplacement, isBl, isBranch, MFLR_R0, MTLR_R0, NOP, restoreToc } from './stubs.js';

const BACK = 28;
const SAVE_R0 = 0xf801_fff8;
const OVER = 0x4800_0000 | BACK;
const LIS_R0 = 0x3c00_0000;
const ORI_R0 = 0x6000_0000;

const isReturn = (kind: SledKind): boolean => kind === 'exit' || kind === 'tail';
const sizeOf = (kind: SledKind): number | null => (kind.endsWith('-event') ? null : isReturn(kind) ? BACK + 4 : BACK);

/** A field of 16 bits behind a fixed upper half. */
const has = (word: number, upper: number): boolean => (word & 0xffff_0000) >>> 0 === upper;

export function ppcSleds(endian: Endian): SledModel {
  const wordsOf = (bytes: Uint8Array): number[] => {
    const view = new ByteView(bytes, endian, 'sled');
    return Array.from({ length: bytes.length / 4 }, (_, index) => view.u32(4 * index));
  };

  /** The first word of a sled that is off; null where the last one is no way out. */
  function offWord(words: readonly number[], { kind, address }: SledPlace, relocatable: boolean): number | null {
    if (!isReturn(kind)) return OVER;
    const last = words[BACK / 4]!;
    if (last === BLR || (isBranch(last) && relocatable)) return last;
    if (!isBranch(last)) return null;
    return branch(address, address + BigInt(BACK + branchDisplacement(last)));
  }

  function read(bytes: Uint8Array, place: SledPlace, relocatable: boolean): SledReading {
    const words = wordsOf(bytes);
    const [first, second, save, from, call, restore, to] = words as [
      number, number, number, number, number, number, number,
    ]; // prettier-ignore
    const wrong = (reason: string): SledReading => ({ state: 'wrong', reason });
    const isCall = save === SAVE_R0 && from === MFLR_R0 && isBl(call) && to === MTLR_R0;
    if (!isCall || (restore !== NOP && restore !== restoreToc(24))) return wrong('it has no call of the runtime');
    const target = relocatable ? null : BigInt.asUintN(64, place.address + BigInt(16 + branchDisplacement(call)));
    const out = offWord(words, place, relocatable);
    if (out === null) return wrong('no way out of the function follows the call');
    if (has(first, LIS_R0)) {
      if (!has(second, ORI_R0)) return wrong('the lower half of the number is not loaded');
      return { state: 'on', id: (((first & 0xffff) << 16) | (second & 0xffff)) >>> 0, target };
    }
    if (first !== out) return wrong('it begins as no sled, neither off nor on');
    // A runtime leaves the lower half of the number; `ori r0,r0,0` is the nop.
    return has(second, ORI_R0) ? { state: 'off', target } : wrong('its second word is neither nop nor a number');
  }

  const withFront = (bytes: Uint8Array, first: number, second: number): Uint8Array => {
    const view = new ByteView(bytes.slice(), endian, 'sled');
    view.insertU32(0, first);
    view.insertU32(4, second);
    return view.bytes;
  };

  return {
    sizeOf,
    absolute: false,
    bound: true,
    read,
    on: (bytes, { id }) => withFront(bytes, (LIS_R0 | (id >>> 16)) >>> 0, (ORI_R0 | (id & 0xffff)) >>> 0),
    off: (bytes, place) => withFront(bytes, offWord(wordsOf(bytes), place, false)!, NOP),
  };
}
