/**
 * Sleds of XRay on arm64 (M-PROD-5), eight words each, the same at entries, exits and tail calls:
 *
 *        off       on
 *    0   b .+32    stp x0,x30,[sp,#-16]!
 *    4   nop       ldr w17,.+12          the number of the function
 *    8   nop       ldr x16,.+12          the trampoline
 *   12   nop       blr x16
 *   16   nop       the number
 *   20   nop nop   the trampoline's address
 *   28   nop       ldp x0,x30,[sp],#16
 *
 * blr skips nothing: it links to the number, and the trampoline returns 12 bytes behind it. Until
 * LLVM 16 the number was in w0, which the sled has saved; trampolines of that time do not move it
 * from w17. A runtime switches a sled off by its first word alone.
 */
import { ByteView } from '../bytes.js';
import type { SledCall, SledModel, SledPlace, SledReading } from '../machine/sleds.js';

const SIZE = 32;
const OFF = 0x1400_0008;
const NOP = 0xd503_201f;
const SAVE = 0xa9bf_7be0;
const LOAD_ID = 0x1800_0071;
const LOAD_ID_OLD = 0x1800_0060;
const LOAD_TARGET = 0x5800_0070;
const CALL = 0xd63f_0200;
const RESTORE = 0xa8c1_7be0;
/** `mov w0, w17`: how a trampoline hands the number on. */
const TAKES_W17 = 0x2a11_03e0;
/** Words of a trampoline in which it must have done so: it saves at most 30 and 32 registers. */
const SEARCHED = 64;

function read(bytes: Uint8Array, _place: SledPlace): SledReading {
  const view = new ByteView(bytes, 'little', 'sled');
  const word = (index: number): number => view.u32(4 * index);
  const calls = [1, 2, 3, 7].every((index) =>
    index === 1
      ? word(1) === LOAD_ID || word(1) === LOAD_ID_OLD
      : word(index) === { 2: LOAD_TARGET, 3: CALL, 7: RESTORE }[index],
  );
  if (word(0) === SAVE) {
    if (!calls) return { state: 'wrong', reason: 'the words behind the store of x0 and x30 call nothing' };
    return { state: 'on', id: word(4), target: view.u64(20) };
  }
  if (word(0) !== OFF) return { state: 'wrong', reason: 'it begins as no sled, neither off nor on' };
  const isNops = [1, 2, 3, 4, 5, 6, 7].every((index) => word(index) === NOP);
  return isNops || calls
    ? { state: 'off', target: null }
    : { state: 'wrong', reason: 'behind its first instruction are neither nops nor what a switched-off call leaves' };
}

function on(_bytes: Uint8Array, { id, target }: SledCall, code: Uint8Array): Uint8Array {
  const view = new ByteView(new Uint8Array(SIZE), 'little', 'sled');
  const trampoline = new ByteView(code, 'little', 'trampoline');
  let load = LOAD_ID_OLD;
  for (let at = 0; at + 4 <= Math.min(code.length, 4 * SEARCHED); at += 4) {
    if (trampoline.u32(at) === TAKES_W17) load = LOAD_ID;
  }
  [SAVE, load, LOAD_TARGET, CALL, id].forEach((word, index) => {
    view.insertU32(4 * index, word);
  });
  view.insertU64(20, target);
  view.insertU32(28, RESTORE);
  return view.bytes;
}

function off(): Uint8Array {
  const view = new ByteView(new Uint8Array(SIZE), 'little', 'sled');
  for (let index = 0; index < SIZE / 4; index++) view.insertU32(4 * index, index === 0 ? OFF : NOP);
  return view.bytes;
}

export const arm64Sleds: SledModel = {
  sizeOf: (kind) => (kind.endsWith('-event') ? null : SIZE),
  absolute: true,
  bound: false,
  read,
  on,
  off,
};
