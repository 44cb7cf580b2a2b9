/**
 * Signal frames of RISC-V. From the stack pointer: siginfo (128 bytes), ucontext (960), whose
 * registers are pc, x1 to x31, f0 to f31, fcsr.
 *
 * Source: Linux arch/riscv/kernel/signal.c and uapi/asm; offsets measured with offsetof.
 */
import { FrameBytes, usualCause } from '../machine/signals.js';
import type { SignalModel } from '../machine/signals.js';
import { FLOAT_REGISTER_NAMES, REGISTER_NAMES } from './isa.js';

const INFO_BYTES = 128;
const FRAME_BYTES = 1088;
/** Offsets from the frame. */
const AT = {
  stack: INFO_BYTES + 16,
  mask: INFO_BYTES + 40,
  general: INFO_BYTES + 176,
  floats: INFO_BYTES + 432,
} as const;
const FCSR_AT = AT.floats + 256;
/** `li a7,139; ecall`: unwinders know handlers by these words. */
const TRAMPOLINE = Uint8Array.of(0x93, 0x08, 0xb0, 0x08, 0x73, 0, 0, 0);

export const riscvSignals: SignalModel = {
  trampoline: () => TRAMPOLINE,
  leastStackBytes: 2048,
  cause: usualCause,

  enter(cpu, { signal, handler, returnTo, top, info, mask, stack }) {
    const frame = (top - BigInt(FRAME_BYTES)) & -16n;
    const out = new FrameBytes(new Uint8Array(FRAME_BYTES), cpu.endian);
    out.bytes.set(info);
    out.putStack(AT.stack, 8, stack);
    out.put(AT.mask, 8, mask);
    out.put(AT.general, 8, cpu.register('pc'));
    for (let i = 1; i < 32; i++) out.put(AT.general + 8 * i, 8, cpu.register(REGISTER_NAMES[i]!));
    FLOAT_REGISTER_NAMES.forEach((name, i) => {
      out.put(AT.floats + 8 * i, 8, cpu.register(name));
    });
    out.put(FCSR_AT, 4, cpu.register('fcsr'));
    if (!cpu.store(frame, out.bytes)) return null;
    cpu.setRegister('ra', returnTo);
    cpu.setRegister('sp', frame);
    cpu.setRegister('a0', BigInt(signal));
    cpu.setRegister('a1', frame);
    cpu.setRegister('a2', frame + BigInt(INFO_BYTES));
    cpu.setRegister('pc', handler);
    return frame;
  },

  leave(cpu) {
    const bytes = cpu.load(cpu.register('sp'), FRAME_BYTES);
    if (!bytes) return null;
    const frame = new FrameBytes(bytes, cpu.endian);
    cpu.setRegister('pc', frame.get(AT.general, 8) & ~1n);
    for (let i = 1; i < 32; i++) cpu.setRegister(REGISTER_NAMES[i]!, frame.get(AT.general + 8 * i, 8));
    FLOAT_REGISTER_NAMES.forEach((name, i) => {
      cpu.setRegister(name, frame.get(AT.floats + 8 * i, 8));
    });
    cpu.setRegister('fcsr', frame.get(FCSR_AT, 4));
    return { mask: frame.get(AT.mask, 8), stack: frame.stack(AT.stack, 8) };
  },
};
