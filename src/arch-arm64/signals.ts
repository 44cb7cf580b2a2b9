/**
 * Signal frames of arm64. From the stack pointer: siginfo (128 bytes), ucontext (4560), whose last
 * part is a list of records (magic, size): floating point and vectors here; then a frame record
 * {x29, x30}.
 *
 * Source: Linux arch/arm64/kernel/signal.c and uapi/asm/sigcontext.h; offsets measured with
 * offsetof.
 */
import { FrameBytes, usualCause } from '../machine/signals.js';
import type { SignalCpu, SignalModel } from '../machine/signals.js';

const INFO_BYTES = 128;
const FRAME_BYTES = 4688;
const RECORD_BYTES = 16n;
/** Offsets from the frame. */
const AT = {
  stack: INFO_BYTES + 16,
  mask: INFO_BYTES + 40,
  faultAddress: INFO_BYTES + 176,
  general: INFO_BYTES + 184,
  sp: INFO_BYTES + 432,
  pc: INFO_BYTES + 440,
  pstate: INFO_BYTES + 448,
  records: INFO_BYTES + 464,
} as const;
const FLOAT_RECORD = { magic: 0x4650_8001n, size: 528 } as const;
/** `mov x8,#139; svc #0`: unwinders know handlers by these words. */
const TRAMPOLINE = Uint8Array.of(0x68, 0x11, 0x80, 0xd2, 0x01, 0, 0, 0xd4);
/** What an indirect call leaves in BTYPE. */
const BTYPE_CALL = 2n;

function putFloats(cpu: SignalCpu, out: FrameBytes, at: number): void {
  out.put(at, 4, FLOAT_RECORD.magic);
  out.put(at + 4, 4, BigInt(FLOAT_RECORD.size));
  out.put(at + 8, 4, cpu.register('fpsr'));
  out.put(at + 12, 4, cpu.register('fpcr'));
  for (let i = 0; i < 32; i++) out.put(at + 16 + 16 * i, 16, cpu.register(`v${i}`));
}

/** Takes the record of floating point; false: the list has no end, or no such record. */
function takeFloats(cpu: SignalCpu, frame: FrameBytes): boolean {
  let found = false;
  for (let at: number = AT.records; at + 8 <= frame.bytes.length;) {
    const [magic, size] = [frame.get(at, 4), Number(frame.get(at + 4, 4))];
    if (magic === 0n) return found && size === 0;
    if (size < 16 || size % 16 !== 0 || at + size > frame.bytes.length) return false;
    if (magic === FLOAT_RECORD.magic) {
      if (found || size !== FLOAT_RECORD.size) return false;
      found = true;
      cpu.setRegister('fpsr', frame.get(at + 8, 4));
      cpu.setRegister('fpcr', frame.get(at + 12, 4));
      for (let i = 0; i < 32; i++) cpu.setRegister(`v${i}`, frame.get(at + 16 + 16 * i, 16));
    }
    at += size;
  }
  return false;
}

export const arm64Signals: SignalModel = {
  leastStackBytes: 5120,
  trampoline: () => TRAMPOLINE,
  usesRestorer: true,
  cause: usualCause,

  enter(cpu, { signal, handler, wantsInfo, returnTo, top, info, mask, stack, cause, guarded }) {
    const record = (top - RECORD_BYTES) & -16n;
    const frame = (record - BigInt(FRAME_BYTES)) & -16n;
    const out = new FrameBytes(new Uint8Array(Number(record + RECORD_BYTES - frame)), cpu.endian);
    if (wantsInfo) out.bytes.set(info);
    out.putStack(AT.stack, 8, stack);
    out.put(AT.mask, 8, mask);
    out.put(AT.faultAddress, 8, cause?.address ?? 0n);
    for (let i = 0; i < 31; i++) out.put(AT.general + 8 * i, 8, cpu.register(`x${i}`));
    out.put(AT.sp, 8, cpu.register('sp'));
    out.put(AT.pc, 8, cpu.register('pc'));
    out.put(AT.pstate, 8, cpu.register('nzcv') | (cpu.register('btype') << 10n));
    putFloats(cpu, out, AT.records);
    out.put(Number(record - frame), 8, cpu.register('x29'));
    out.put(Number(record - frame) + 8, 8, cpu.register('x30'));
    if (!cpu.store(frame, out.bytes)) return null;
    cpu.setRegister('x0', BigInt(signal));
    if (wantsInfo) {
      cpu.setRegister('x1', frame);
      cpu.setRegister('x2', frame + BigInt(INFO_BYTES));
    }
    cpu.setRegister('x29', record);
    cpu.setRegister('x30', returnTo);
    cpu.setRegister('sp', frame);
    cpu.setRegister('btype', guarded ? BTYPE_CALL : 0n);
    cpu.setRegister('pc', handler);
    return frame;
  },

  leave(cpu) {
    const sp = cpu.register('sp');
    const bytes = sp % 16n === 0n ? cpu.load(sp, FRAME_BYTES) : null;
    if (!bytes) return null;
    const frame = new FrameBytes(bytes, cpu.endian);
    if (!takeFloats(cpu, frame)) return null;
    for (let i = 0; i < 31; i++) cpu.setRegister(`x${i}`, frame.get(AT.general + 8 * i, 8));
    cpu.setRegister('sp', frame.get(AT.sp, 8));
    cpu.setRegister('pc', frame.get(AT.pc, 8));
    const pstate = frame.get(AT.pstate, 8);
    cpu.setRegister('nzcv', pstate & 0xf000_0000n);
    cpu.setRegister('btype', (pstate >> 10n) & 3n);
    return { mask: frame.get(AT.mask, 8), stack: frame.stack(AT.stack, 8) };
  },
};
