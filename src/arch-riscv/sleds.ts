/**
 * Sleds of XRay on 64-bit RISC-V (M-PROD-9), 68 bytes each, the same at entries, exits and tail
 * calls:
 *
 *   off   j .+68, then nops: 33 of two bytes behind a jump of two, or 16 of four behind one of four
 *   on    addi sp,sp,-32    sd ra,24(sp)     sd a0,16(sp)     sd t1,8(sp)
 *         lui t1,highest    addi t1,t1,higher  slli t1,t1,32
 *         lui ra,hi         addi ra,ra,lo    add ra,t1,ra            the trampoline
 *         lui a0,hi         addi a0,a0,lo                            the number of the function
 *         jalr ra           ld t1,8(sp)      ld a0,16(sp)     ld ra,24(sp)     addi sp,sp,32
 *
 * The parts of a number are signed, so each upper part is rounded. A runtime switches a sled off by
 * a jump of four bytes and leaves the rest; the trampoline keeps every register but ra.
 */
import { ByteView } from '../bytes.js';
import type { SledCall, SledModel, SledPlace, SledReading } from '../machine/sleds.js';

const SIZE = 68;
const WORDS = SIZE / 4;
const JUMP = 0x0440_006f;
const JUMP_C = 0xa091;
/** In an object the jump has a relocation, and no distance yet. */
const JUMP_C_UNBOUND = 0xa001;
const JUMP_UNBOUND = 0x0000_006f;
const NOP = 0x0000_0013;
const NOP_C = 0x0001;

/** The words of a sled that is on; fields of immediates are 0. */
const ON: readonly number[] = [
  0xfe01_0113, 0x0011_3c23, 0x00a1_3823, 0x0061_3423, 0x0000_0337, 0x0003_0313, 0x0203_1313, 0x0000_00b7, 0x0000_8093,
  0x0013_00b3, 0x0000_0537, 0x0005_0513, 0x0000_80e7, 0x0081_3303, 0x0101_3503, 0x0181_3083, 0x0201_0113,
]; // prettier-ignore
/** Indices of the upper and the lower part of each number. */
const HIGH = [4, 5] as const;
const LOW = [7, 8] as const;
const ID = [10, 11] as const;

const UPPER = 0xffff_f000;
const LOWER = 0xfff0_0000;
const isUpper = (index: number): boolean => [HIGH[0], LOW[0], ID[0]].includes(index as never);
const isLower = (index: number): boolean => [HIGH[1], LOW[1], ID[1]].includes(index as never);
const fieldOf = (index: number): number => (isUpper(index) ? UPPER : isLower(index) ? LOWER : 0);

/** Whether the words from an index on are those of a sled that is on. */
function isOn(words: readonly number[], from: number): boolean {
  return ON.every((word, index) => index < from || (words[index]! & ~fieldOf(index)) >>> 0 === word);
}

/** The signed number of 32 bits that a pair loads. */
function pairValue(words: readonly number[], [upper, lower]: readonly [number, number]): bigint {
  return BigInt.asIntN(32, BigInt((words[upper]! & UPPER) | 0) + BigInt((words[lower]! | 0) >> 20));
}

function withPair(words: number[], [upper, lower]: readonly [number, number], value: bigint): void {
  const low = BigInt.asIntN(12, value);
  words[upper] = (words[upper]! | Number(BigInt.asUintN(32, value - low) & BigInt(UPPER))) >>> 0;
  words[lower] = (words[lower]! | Number(BigInt.asUintN(12, low) << 20n)) >>> 0;
}

function read(bytes: Uint8Array, _place: SledPlace, relocatable: boolean): SledReading {
  const view = new ByteView(bytes, 'little', 'sled');
  const words = Array.from({ length: WORDS }, (_, index) => view.u32(4 * index));
  const off = { state: 'off', target: null } as const;
  if (isOn(words, 0)) {
    const target = BigInt.asUintN(64, (pairValue(words, HIGH) << 32n) + pairValue(words, LOW));
    return { state: 'on', id: Number(BigInt.asUintN(32, pairValue(words, ID))), target };
  }
  if (words[0] === ON[0]) return { state: 'wrong', reason: 'the words behind its first instruction call nothing' };
  const halves = Array.from({ length: SIZE / 2 }, (_, index) => view.u16(2 * index));
  const isJumpC = halves[0] === JUMP_C || (relocatable && halves[0] === JUMP_C_UNBOUND);
  const isJump = words[0] === JUMP || (relocatable && words[0] === JUMP_UNBOUND);
  if (!isJumpC && !isJump) return { state: 'wrong', reason: 'it begins as no sled, neither off nor on' };
  if (isJumpC && halves.slice(1).every((half) => half === NOP_C)) return off;
  if (isJump && (words.slice(1).every((word) => word === NOP) || isOn(words, 1))) return off;
  const reason = 'behind its first instruction are neither nops nor what a switched-off call leaves';
  return { state: 'wrong', reason };
}

function bytesOf(words: readonly number[]): Uint8Array {
  const view = new ByteView(new Uint8Array(SIZE), 'little', 'sled');
  words.forEach((word, index) => {
    view.insertU32(4 * index, word);
  });
  return view.bytes;
}

function on(_bytes: Uint8Array, { id, target }: SledCall): Uint8Array {
  const words = [...ON];
  withPair(words, HIGH, BigInt.asIntN(32, (target + 0x8000_0000n) >> 32n));
  withPair(words, LOW, BigInt.asIntN(32, target));
  withPair(words, ID, BigInt.asIntN(32, BigInt(id)));
  return bytesOf(words);
}

export const riscvSleds: SledModel = {
  sizeOf: (kind) => (kind.endsWith('-event') ? null : SIZE),
  absolute: true,
  bound: false,
  read,
  on,
  // The form that every RISC-V executes.
  off: () => bytesOf([JUMP, ...Array.from({ length: WORDS - 1 }, () => NOP)]),
};
