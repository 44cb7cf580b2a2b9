/**
 * Signal frames of the PowerPC ABIs. Below the frame is a stack frame of the ABI, whose back chain
 * leads to the interrupted one. 64 bits: ucontext, then siginfo. 32 bits: siginfo, then ucontext;
 * handlers without SA_SIGINFO get an older frame there, a short context that points to the same
 * registers.
 *
 * Source: Linux arch/powerpc/kernel/signal_64.c and signal_32.c, uapi/asm/sigcontext.h; offsets
 * measured with offsetof.
 */
import { CODE, FrameBytes, SIGNAL, usualCause } from '../machine/signals.js';
import type { Cause, Delivery, Raised, Restored, SignalCpu, SignalModel, ThreadContexts } from '../machine/signals.js';
import type { Address, Endian } from '../units.js';

/** Places in the list of registers behind r0 to r31. Source: Linux uapi/asm/ptrace.h. */
const PLACE = { nip: 32, msr: 33, r3: 34, ctr: 35, link: 36, xer: 37, ccr: 38, trap: 40, dar: 41 } as const;
/** Exceptions: of data, of instructions, of programs. */
const VECTOR = { data: 0x300n, instruction: 0x400n, program: 0x700n } as const;
/** User mode with everything enabled. */
const MSR = { 4: 0xf032n, 8: 0x8000_0000_0000_f032n } as const;
const INFO_BYTES = 128;

interface Layout {
  readonly wordBytes: 4 | 8;
  /** Bytes of the frame, with what is left free above it for code that saves below its stack. */
  readonly frameBytes: number;
  /** From the stack pointer to the frame. */
  readonly below: number;
  readonly info: number;
  /** From the frame: stack_t, mask, registers, floating point, vectors. */
  readonly stack: number;
  readonly mask: number;
  readonly general: number;
  readonly floats: number;
}
const LAYOUT_64: Layout = {
  wordBytes: 8,
  frameBytes: 2400,
  below: 128,
  info: 1760,
  stack: 16,
  mask: 40,
  general: 232,
  floats: 616,
};
const LAYOUT_32: Layout = {
  wordBytes: 4,
  frameBytes: 1792,
  below: 80,
  info: 0,
  stack: INFO_BYTES + 8,
  mask: INFO_BYTES + 52,
  general: INFO_BYTES + 192,
  floats: INFO_BYTES + 384,
};
/** Own to 64 bits, from the frame. */
const AT_64 = { signal: 200, handler: 208, oldMask: 216, registers: 224, vectors: 880, reserve: 888, infoPointer: 1744 } as const; // prettier-ignore
/** From the vectors: VSCR, VRSAVE, lower halves of the VSX registers. */
const VECTORS = { vscr: 32 * 16, vrsave: 33 * 16, lower: 34 * 16 } as const;
/** The pointer to the registers of the 32-bit ucontext. */
const REGISTERS_AT_32 = INFO_BYTES + 48;
/** The older frame: a context, then the registers. */
const OLD = { frameBytes: 1504, below: 64, mask: 8, maskHigh: 12, handler: 20, signal: 16, registers: 28, general: 32 } as const; // prettier-ignore

function putGeneral(cpu: SignalCpu, out: FrameBytes, at: number, size: 4 | 8, cause: Cause | null): void {
  const put = (place: number, value: bigint): void => {
    out.put(at + size * place, size, value);
  };
  for (let i = 0; i < 32; i++) put(i, cpu.register(`r${i}`));
  put(PLACE.nip, cpu.register('pc'));
  put(PLACE.msr, MSR[size] | (cpu.endian === 'little' ? 1n : 0n));
  put(PLACE.r3, cpu.register('r3'));
  put(PLACE.ctr, cpu.register('ctr'));
  put(PLACE.link, cpu.register('lr'));
  put(PLACE.xer, cpu.register('xer'));
  put(PLACE.ccr, cpu.register('cr'));
  put(PLACE.trap, cause?.exception?.number ?? 0n);
  put(PLACE.dar, cause?.signal === SIGNAL.SEGV ? cause.address : 0n);
}

function takeGeneral(cpu: SignalCpu, frame: FrameBytes, at: number, size: 4 | 8): void {
  const get = (place: number): bigint => frame.get(at + size * place, size);
  for (let i = 0; i < 32; i++) cpu.setRegister(`r${i}`, get(i));
  cpu.setRegister('pc', get(PLACE.nip) & ~3n);
  cpu.setRegister('ctr', get(PLACE.ctr));
  cpu.setRegister('lr', get(PLACE.link));
  cpu.setRegister('xer', get(PLACE.xer));
  cpu.setRegister('cr', get(PLACE.ccr) & 0xffff_ffffn);
}

function putFloats(cpu: SignalCpu, out: FrameBytes, at: number): void {
  for (let i = 0; i < 32; i++) out.put(at + 8 * i, 8, cpu.register(`f${i}`));
  out.put(at + 256, 8, cpu.register('fpscr'));
}

function takeFloats(cpu: SignalCpu, frame: FrameBytes, at: number, size: 4 | 8): void {
  for (let i = 0; i < 32; i++) cpu.setRegister(`f${i}`, frame.get(at + 8 * i, 8));
  cpu.setRegister('fpscr', BigInt.asUintN(8 * size, frame.get(at + 256, 8)));
}

function putVectors(cpu: SignalCpu, out: FrameBytes, at: number): void {
  for (let i = 0; i < 32; i++) {
    out.put(at + 16 * i, 16, cpu.register(`v${i}`));
    out.put(at + VECTORS.lower + 8 * i, 8, BigInt.asUintN(64, cpu.register(`vs${i}`)));
  }
  // As a quadword, like the registers: `mfvscr` gives it in the last word.
  out.put(at + VECTORS.vscr, 16, cpu.register('vscr'));
  out.put(at + VECTORS.vrsave, 4, cpu.register('vrsave'));
}

/** Of 32 bits, from the registers of the frame; VRSAVE is in the quadword of VSCR. */
const VECTORS_AT_32 = 464;
const VECTORS_BYTES_32 = 33 * 16;

function putVectors32(cpu: SignalCpu, out: FrameBytes, at: number): void {
  for (let i = 0; i < 32; i++) out.put(at + 16 * i, 16, cpu.register(`v${i}`));
  out.put(at + VECTORS.vscr, 16, (cpu.register('vrsave') << 96n) | cpu.register('vscr'));
}

function takeVectors32(cpu: SignalCpu, frame: FrameBytes, at: number): void {
  for (let i = 0; i < 32; i++) cpu.setRegister(`v${i}`, frame.get(at + 16 * i, 16));
  const last = frame.get(at + VECTORS.vscr, 16);
  cpu.setRegister('vscr', BigInt.asUintN(32, last));
  cpu.setRegister('vrsave', last >> 96n);
}

/** Behind the floating point registers, which are the other halves. */
function takeVectors(cpu: SignalCpu, at: Address): boolean {
  const bytes = cpu.load(at, VECTORS.lower + 256);
  if (!bytes) return false;
  const frame = new FrameBytes(bytes, cpu.endian);
  for (let i = 0; i < 32; i++) {
    cpu.setRegister(`v${i}`, frame.get(16 * i, 16));
    const upper = cpu.register(`f${i}`) << 64n;
    cpu.setRegister(`vs${i}`, upper | frame.get(VECTORS.lower + 8 * i, 8));
  }
  cpu.setRegister('vscr', BigInt.asUintN(32, frame.get(VECTORS.vscr, 16)));
  cpu.setRegister('vrsave', frame.get(VECTORS.vrsave, 4));
  return true;
}

/** The registers at a handler's entry; `arguments_` beside the signal. */
function enterHandler(
  cpu: SignalCpu,
  delivery: Delivery,
  sp: Address,
  abi: PpcSignalOptions['abi'],
  others: readonly Address[],
): boolean {
  const { handler, signal, returnTo } = delivery;
  const size = abi === 'sysv' ? 4 : 8;
  // The back chain.
  const chain = new FrameBytes(new Uint8Array(size), cpu.endian);
  chain.put(0, size, cpu.register('r1'));
  if (!cpu.store(sp, chain.bytes)) return false;
  let entry = handler;
  if (abi === 'elfv1') {
    const bytes = cpu.load(handler, 16);
    if (!bytes) return false;
    const descriptor = new FrameBytes(bytes, cpu.endian);
    entry = descriptor.get(0, 8);
    cpu.setRegister('r2', descriptor.get(8, 8));
  }
  cpu.setRegister('r1', sp);
  cpu.setRegister('r3', BigInt(signal));
  others.forEach((value, i) => {
    cpu.setRegister(`r${4 + i}`, value);
  });
  if (size === 8) {
    cpu.setRegister('ctr', entry);
    cpu.setRegister('r12', entry);
  }
  cpu.setRegister('lr', returnTo);
  cpu.setRegister('fpscr', 0n);
  cpu.setRegister('pc', entry & ~3n);
  return true;
}

function enter64(cpu: SignalCpu, delivery: Delivery, abi: PpcSignalOptions['abi']): Address | null {
  const { signal, handler, top, info, mask, stack, cause, wantsInfo } = delivery;
  const layout = LAYOUT_64;
  const frame = (top - BigInt(layout.frameBytes)) & -16n;
  // Nothing is written to the bytes above `siginfo`.
  const out = new FrameBytes(new Uint8Array(layout.info + INFO_BYTES), cpu.endian);
  const vectors = (frame + BigInt(AT_64.reserve) + 15n) & -16n;
  out.putStack(layout.stack, 8, stack);
  out.put(layout.mask, 8, mask);
  out.put(AT_64.signal, 4, BigInt(signal));
  out.put(AT_64.handler, 8, handler);
  out.put(AT_64.oldMask, 8, mask);
  out.put(AT_64.registers, 8, frame + BigInt(layout.general));
  putGeneral(cpu, out, layout.general, 8, cause);
  putFloats(cpu, out, layout.floats);
  out.put(AT_64.vectors, 8, vectors);
  putVectors(cpu, out, Number(vectors - frame));
  out.put(AT_64.infoPointer, 8, frame + BigInt(layout.info));
  out.put(AT_64.infoPointer + 8, 8, frame);
  out.bytes.set(info, layout.info);
  if (!cpu.store(frame, out.bytes)) return null;
  const context = frame + 168n;
  const others = wantsInfo ? [frame + BigInt(layout.info), frame, frame] : [context];
  return enterHandler(cpu, delivery, frame - BigInt(layout.below), abi, others) ? frame : null;
}

function enter32(cpu: SignalCpu, delivery: Delivery): Address | null {
  const { top, info, mask, stack, cause } = delivery;
  const layout = LAYOUT_32;
  const frame = (top - BigInt(layout.frameBytes)) & -16n;
  const out = new FrameBytes(new Uint8Array(layout.general + VECTORS_AT_32 + VECTORS_BYTES_32), cpu.endian);
  out.bytes.set(info);
  out.putStack(layout.stack, 4, stack);
  out.put(REGISTERS_AT_32, 4, frame + BigInt(layout.general));
  out.put(layout.mask, 8, wordsOf(mask, cpu.endian));
  putGeneral(cpu, out, layout.general, 4, cause);
  putFloats(cpu, out, layout.floats);
  putVectors32(cpu, out, layout.general + VECTORS_AT_32);
  if (!cpu.store(frame, out.bytes)) return null;
  const others = [frame, frame + BigInt(INFO_BYTES), frame];
  return enterHandler(cpu, delivery, frame - BigInt(layout.below), 'sysv', others) ? frame : null;
}

/** A set of signals is two words, the lower first, whatever the byte order. */
function wordsOf(mask: bigint, endian: Endian): bigint {
  return endian === 'big' ? ((mask & 0xffff_ffffn) << 32n) | (mask >> 32n) : mask;
}

function enterOld(cpu: SignalCpu, delivery: Delivery): Address | null {
  const { signal, handler, top, mask, cause } = delivery;
  const frame = (top - BigInt(OLD.frameBytes)) & -16n;
  const out = new FrameBytes(new Uint8Array(OLD.general + VECTORS_AT_32 + VECTORS_BYTES_32), cpu.endian);
  out.put(OLD.signal, 4, BigInt(signal));
  out.put(OLD.handler, 4, handler);
  out.put(24, 4, mask & 0xffff_ffffn);
  out.put(OLD.maskHigh, 4, mask >> 32n);
  out.put(OLD.registers, 4, frame + BigInt(OLD.general));
  putGeneral(cpu, out, OLD.general, 4, cause);
  putFloats(cpu, out, OLD.general + 192);
  putVectors32(cpu, out, OLD.general + VECTORS_AT_32);
  if (!cpu.store(frame, out.bytes)) return null;
  return enterHandler(cpu, delivery, frame - BigInt(OLD.below), 'sysv', [frame]) ? frame : null;
}

function leave64(cpu: SignalCpu): Restored | null {
  const layout = LAYOUT_64;
  // The trampoline took the stack frame down.
  const bytes = cpu.load(cpu.register('r1'), AT_64.reserve);
  if (!bytes) return null;
  const frame = new FrameBytes(bytes, cpu.endian);
  const vectors = frame.get(AT_64.vectors, 8);
  takeFloats(cpu, frame, layout.floats, 8);
  if (vectors !== 0n && !takeVectors(cpu, vectors)) return null;
  takeGeneral(cpu, frame, layout.general, 8);
  return { mask: frame.get(layout.mask, 8), stack: frame.stack(layout.stack, 8) };
}

function takeContext32(cpu: SignalCpu, registers: Address): boolean {
  const bytes = cpu.load(registers, VECTORS_AT_32 + VECTORS_BYTES_32);
  if (!bytes) return false;
  const frame = new FrameBytes(bytes, cpu.endian);
  takeFloats(cpu, frame, 192, 4);
  takeVectors32(cpu, frame, VECTORS_AT_32);
  takeGeneral(cpu, frame, 0, 4);
  return true;
}

function leave32(cpu: SignalCpu): Restored | null {
  const bytes = cpu.load(cpu.register('r1') + BigInt(LAYOUT_32.below), LAYOUT_32.general);
  if (!bytes) return null;
  const frame = new FrameBytes(bytes, cpu.endian);
  if (!takeContext32(cpu, frame.get(REGISTERS_AT_32, 4))) return null;
  const mask = wordsOf(frame.get(LAYOUT_32.mask, 8), cpu.endian);
  return { mask, stack: frame.stack(LAYOUT_32.stack, 4) };
}

function leaveOld(cpu: SignalCpu): Restored | null {
  const bytes = cpu.load(cpu.register('r1') + BigInt(OLD.below), OLD.general);
  if (!bytes) return null;
  const frame = new FrameBytes(bytes, cpu.endian);
  if (!takeContext32(cpu, frame.get(OLD.registers, 4))) return null;
  return { mask: frame.get(24, 4) | (frame.get(OLD.maskHigh, 4) << 32n), stack: null };
}

const CR0_SO = 0x1000_0000n;
/** Bytes of `struct ucontext` without what VSX adds. */
const CONTEXT_BYTES = { 4: 1184, 8: 1440 } as const;
/** In it: the pointer to the registers, the mask, and the registers from a quadword on. */
const CONTEXT_32 = { pointer: 48n, mask: 52n, registers: 192n } as const;

const contexts32: ThreadContexts = {
  save: (cpu, context, mask) => {
    const registers = (context + CONTEXT_32.registers) & -16n;
    const out = new FrameBytes(new Uint8Array(VECTORS_AT_32 + VECTORS_BYTES_32), cpu.endian);
    putGeneral(cpu, out, 0, 4, null);
    // It goes on behind the call, which has not failed.
    out.put(4 * PLACE.nip, 4, cpu.register('pc') + 4n);
    out.put(4 * PLACE.ccr, 4, cpu.register('cr') & ~CR0_SO);
    putFloats(cpu, out, 192);
    putVectors32(cpu, out, VECTORS_AT_32);
    const head = new FrameBytes(new Uint8Array(12), cpu.endian);
    head.put(0, 4, registers);
    head.put(4, 8, wordsOf(mask, cpu.endian));
    return cpu.store(registers, out.bytes) && cpu.store(context + CONTEXT_32.pointer, head.bytes);
  },
  take: (cpu, context) => {
    const bytes = cpu.load(context + CONTEXT_32.pointer, 12);
    if (!bytes) return null;
    const head = new FrameBytes(bytes, cpu.endian);
    const pointer = cpu.register('r2');
    if (!takeContext32(cpu, head.get(0, 4))) return null;
    cpu.setRegister('r2', pointer);
    return { mask: wordsOf(head.get(4, 8), cpu.endian), stack: null };
  },
};

function causeOf(cpu: SignalCpu, raised: Raised): Cause {
  const usual = usualCause(cpu, raised);
  const vector =
    raised.kind === 'trap' ? VECTOR.program : raised.access === 'execute' ? VECTOR.instruction : VECTOR.data;
  const exception = { number: vector, error: 0n };
  if (raised.kind === 'trap' && raised.trap === 'privileged') return { ...usual, code: CODE.ILL_PRVOPC, exception };
  return { ...usual, exception };
}

export interface PpcSignalOptions {
  readonly wordBytes: 4 | 8;
  readonly endian: Endian;
  readonly abi: 'sysv' | 'elfv1' | 'elfv2';
}

/**
 * `addi r1,r1,128; li r0,172; sc`, or `li r0,N; sc`, with a nop between. Without it libgcc knows
 * the code and takes a way that stops the program: it is older than the unwind information of
 * Linux's vDSO, which is not here. So it sees the end of the stack, where a cancelled thread has
 * its cleanups called.
 */
function trampoline({ wordBytes, endian }: PpcSignalOptions, wantsInfo: boolean): Uint8Array {
  const NOP = 0x6000_0000;
  const words = wordBytes === 8 ? [0x3821_0080, 0x3800_00ac, NOP, 0x4400_0002] : [wantsInfo ? 0x3800_00ac : 0x3800_0077, NOP, 0x4400_0002]; // prettier-ignore
  const out = new FrameBytes(new Uint8Array(4 * words.length), endian);
  words.forEach((word, i) => {
    out.put(4 * i, 4, BigInt(word));
  });
  return out.bytes;
}

export function createPpcSignals(options: PpcSignalOptions): SignalModel {
  const { wordBytes, abi } = options;
  return {
    trampoline: (wantsInfo) => trampoline(options, wantsInfo),
    leastStackBytes: wordBytes === 8 ? 8192 : 2048,
    cause: causeOf,
    enter: (cpu, delivery) => {
      if (wordBytes === 8) return enter64(cpu, delivery, abi);
      return delivery.wantsInfo ? enter32(cpu, delivery) : enterOld(cpu, delivery);
    },
    leave: wordBytes === 8 ? leave64 : leave32,
    contextBytes: CONTEXT_BYTES[wordBytes],
    ...(wordBytes === 4 && { leaveOld, contexts: contexts32 }),
  };
}
