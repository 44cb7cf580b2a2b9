/**
 * The state of an x86-64 processor in slots, and the registers that people see of it.
 *
 * A vector register of 256 bits is two slots: `xmm3` has its lower half, `ymm3h` the upper one,
 * which only programs touch that may use AVX. Instructions of AVX compute into `low result` and
 * `high result` and write their target at the end, when nothing can fault any more.
 */
import { SlotLayout, slotRegister, vectorRegister } from '../machine/ir.js';
import type { HelperState, RegisterView, Slot } from '../machine/ir.js';
import { flagBits, STATUS_FLAGS } from '../machine/status-flags.js';
import { modeOf } from './float-lift.js';
import { X87_SLOTS } from '../machine/x87-ops.js';
import { X87_PENDING } from './x87-unit.js';

const GPR_NAMES = [
  'rax', 'rcx', 'rdx', 'rbx', 'rsp', 'rbp', 'rsi', 'rdi', 'r8', 'r9', 'r10', 'r11', 'r12', 'r13', 'r14', 'r15',
] as const; // prettier-ignore
const XMM_NAMES = Array.from({ length: 16 }, (_, i) => `xmm${i}`);
const YMM_NAMES = XMM_NAMES.map((_, i) => `ymm${i}h`);

/** What fused operations of both halves of a vector need. */
const VECTOR_TEMPORARIES = 10;
export const SLOTS = new SlotLayout(
  [
    ...GPR_NAMES.map((name) => [name, 'i64'] as const),
    // K, A, B, C of the status flags; the direction flag as 0 or -2; NT, AC and ID at their places
    // in RFLAGS; always 0; what a helper works on.
    ...[
      'k',
      'fa',
      'fb',
      'fc',
      'df',
      'system',
      'zero',
      'argument',
      'fs_base',
      'gs_base',
      'mxcsr',
      'float mode',
      'tracker',
    ].map((name) => [name, 'i64'] as const),
    ...XMM_NAMES.map((name) => [name, 'v128'] as const),
    ...YMM_NAMES.map((name) => [name, 'v128'] as const),
    ['vector', 'v128'],
    ['high vector', 'v128'],
    ['low result', 'v128'],
    ['high result', 'v128'],
    ['second', 'v128'],
    ['constant', 'v128'],
  ],
  VECTOR_TEMPORARIES,
  X87_SLOTS,
);
export const GPR = GPR_NAMES.map((name) => SLOTS.slot(name));
export const [RAX, RCX, RDX, RBX, RSP, RBP, RSI, RDI] = GPR as [Slot, Slot, Slot, Slot, Slot, Slot, Slot, Slot];
export const R11 = SLOTS.slot('r11');
export const K = SLOTS.slot('k');
export const FA = SLOTS.slot('fa');
export const FB = SLOTS.slot('fb');
export const FC = SLOTS.slot('fc');
export const DF = SLOTS.slot('df');
export const SYSTEM = SLOTS.slot('system');
/** Never written: a base for absolute addresses. */
export const ZERO = SLOTS.slot('zero');
export const ARGUMENT = SLOTS.slot('argument');
export const FS_BASE = SLOTS.slot('fs_base');
export const GS_BASE = SLOTS.slot('gs_base');
export const MXCSR = SLOTS.slot('mxcsr');
/** A vector operand from memory on its way. */
export const VECTOR = SLOTS.slot('vector');
/** Its upper half. */
export const HIGH_VECTOR = SLOTS.slot('high vector');
export const SECOND = SLOTS.slot('second');
export const CONSTANT = SLOTS.slot('constant');
/** 1 behind a tracked branch: endbr64 must follow. Kept only where that is checked (M-PAD-7). */
export const TRACKER = SLOTS.slot('tracker');
export const XMM = XMM_NAMES.map((name) => SLOTS.slot(name));

/** Upper halves of the registers of 256 bits. */
export const YMM = YMM_NAMES.map((name) => SLOTS.slot(name));
/**
 * Places of 128 bits by the numbers of operands: lower halves of registers, upper ones, both halves
 * of a result and of a source.
 */
export const VECTORS: readonly Slot[] = [
  ...XMM, ...YMM, SLOTS.slot('low result'), SLOTS.slot('high result'), VECTOR, HIGH_VECTOR,
]; // prettier-ignore
export const RESULT_NUMBERS = [32, 33] as const;
export const SOURCE_NUMBERS = [34, 35] as const;

/** Slots are 0 at the start, MXCSR is not: it is kept xored with its initial value. */
export const MXCSR_INITIAL = 0x1f80n;
/** What MXCSR says to the ops of floating point (`modeOf`). */
export const MODE = SLOTS.slot('float mode');
/** Of x87: control word, kept likewise, status word, a bit for each register that is not empty. */
export const FCW = SLOTS.slot('fcw');
export const FSW = SLOTS.slot('fsw');
export const FTW = SLOTS.slot('ftw');
export const FCW_INITIAL = 0x37fn;
/** Opcode and addresses of the last instruction of x87. */
export const [FOP, FIP, FDP] = [SLOTS.slot('fop'), SLOTS.slot('fip'), SLOTS.slot('fdp')];
/** Registers of x87, 80 bits each, by their numbers: the top of the stack is in the status word. */
export const FPR = Array.from({ length: 8 }, (_, i) => SLOTS.slot(`fpr${i}`));
/** What ops of x87 take and leave beside their operand and their result (`X87_AT`). */
export const [X87_UPPER, X87_BITS, X87_STATUS, X87_TAGS] = [
  SLOTS.slot('x87 upper'),
  SLOTS.slot('x87 bits'),
  SLOTS.slot('x87 status'),
  SLOTS.slot('x87 tags'),
];
/** Exceptions in the low bits of control and status word; the two bits that say one is pending. */
export const X87_EXCEPTIONS = 0x3fn;
export const PENDING = BigInt(X87_PENDING);
/** The number of the register at a place from the top of the stack. */
export const x87Number = (state: HelperState, i: number): number => (Number(state.get(FSW) >> 11n) + i) & 7;

// ------------------------------------------------------------------------- registers as people see

export const FLAG = {
  ...STATUS_FLAGS,
  tf: 0x100n,
  if: 0x200n,
  df: 0x400n,
  nt: 0x4000n,
  ac: 0x4_0000n,
  id: 0x20_0000n,
} as const;
export const SYSTEM_FLAGS = FLAG.nt | FLAG.ac | FLAG.id;
export const STATUS = FLAG.cf | FLAG.pf | FLAG.af | FLAG.zf | FLAG.sf | FLAG.of;
export const ONES = 0xffff_ffff_ffff_ffffn;

export function statusOf(state: HelperState): bigint {
  return flagBits(state.get(K), state.get(FA), state.get(FB), state.get(FC));
}

export function setStatus(state: HelperState, bits: bigint): void {
  state.set(K, 0n);
  state.set(FA, bits & STATUS);
  state.set(FB, 0n);
  state.set(FC, 0n);
}

export function readRflags(state: HelperState): bigint {
  const direction = state.get(DF) === 0n ? 0n : FLAG.df;
  return statusOf(state) | direction | state.get(SYSTEM) | FLAG.if | 2n;
}

export function writeRflags(state: HelperState, value: bigint): void {
  setStatus(state, value);
  state.set(DF, (value & FLAG.df) === 0n ? 0n : ONES - 1n);
  state.set(SYSTEM, value & SYSTEM_FLAGS);
}

export function setMxcsr(state: HelperState, value: bigint): void {
  state.set(MXCSR, value ^ MXCSR_INITIAL);
  state.set(MODE, modeOf(value));
}

export const REGISTERS: readonly RegisterView[] = [
  ...GPR.map((slot, i) => slotRegister(GPR_NAMES[i]!, slot, 64)),
  { name: 'rflags', widthBits: 64, read: readRflags, write: writeRflags },
  slotRegister('fs_base', FS_BASE, 64),
  slotRegister('gs_base', GS_BASE, 64),
  {
    name: 'mxcsr',
    widthBits: 32,
    read: (state) => state.get(MXCSR) ^ MXCSR_INITIAL,
    write: (state, value) => {
      setMxcsr(state, value & 0xffffn);
    },
  },
  ...XMM.map((slot, i) => vectorRegister(`xmm${i}`, slot, slot)),
];

/** Those of a processor with AVX: `ymm0h` to `ymm15h` are bits 128 to 255. */
export const AVX_REGISTERS: readonly RegisterView[] = [
  ...REGISTERS,
  ...YMM.map((slot, i) => vectorRegister(YMM_NAMES[i]!, slot, slot)),
];

/** The whole of a slot of 128 bits. */
export const wholeOf = (state: HelperState, slot: Slot): bigint => state.get(slot) | (state.get(slot, 1) << 64n);

export function setWhole(state: HelperState, slot: Slot, value: bigint): void {
  state.set(slot, BigInt.asUintN(64, value));
  state.set(slot, BigInt.asUintN(64, value >> 64n), 1);
}
