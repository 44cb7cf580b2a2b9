/**
 * Signal frames of x86-64. From the stack pointer: the return address (`sa_restorer`), ucontext
 * (304 bytes), siginfo (128); above them, at a multiple of 64, what `fxsave` stores. 128 bytes
 * below the stack pointer are the program's.
 *
 * Source: Linux arch/x86/kernel/signal.c, traps.c and uapi/asm/sigcontext.h; offsets measured with
 * offsetof.
 */
import { loadExtendedState, storeExtendedState, x87Raised } from './lift.js';
import { CODE, FrameBytes, SIGNAL, usualCause } from '../machine/signals.js';
import type { Cause, Raised, SignalCpu, SignalModel } from '../machine/signals.js';

const RED_ZONE = 128n;
const FRAME_BYTES = 440;
const CONTEXT_AT = 8;
const INFO_AT = 312;
const EXTENDED_BYTES = 512;
/** From the ucontext. */
const AT = { stack: 16, general: 40, cs: 184, ss: 190, error: 192, number: 200, mask: 208, cr2: 216, extended: 224, sigmask: 296 } as const; // prettier-ignore
const GENERAL = [
  'r8', 'r9', 'r10', 'r11', 'r12', 'r13', 'r14', 'r15', 'rdi', 'rsi', 'rbp', 'rbx', 'rdx', 'rax', 'rcx', 'rsp', 'pc',
  'rflags',
] as const; // prettier-ignore
/** UC_SIGCONTEXT_SS, UC_STRICT_RESTORE_SS: there is no extended state beside that of `fxsave`. */
const FLAGS = 6n;
const USER_CS = 0x33n;
const USER_SS = 0x2bn;
const DIRECTION_FLAG = 0x400n;
/** Exceptions of the processor. */
const EXCEPTION = { divide: 0n, debug: 1n, breakpoint: 3n, opcode: 6n, protection: 13n, page: 14n, x87: 16n, simd: 19n, control: 21n } as const; // prettier-ignore
/** Error codes of page faults: rights were missing, a store, user mode, a fetch. */
const PAGE = { rights: 1n, write: 2n, user: 4n, fetch: 16n } as const;
/** By exception bits: invalid, denormal, divide, overflow, underflow, inexact. */
const FLOAT_CODES = [7, 5, 3, 4, 5, 6] as const;

/** The first opcode byte behind prefixes, and what follows. */
function opcodeAt(cpu: SignalCpu, pc: bigint): readonly [number, number] {
  const PREFIXES = new Set([0x26, 0x2e, 0x36, 0x3e, 0x64, 0x65, 0x66, 0x67, 0xf0, 0xf2, 0xf3]);
  for (let at = pc; at < pc + 15n; at++) {
    const byte = cpu.load(at, 1)?.[0] ?? 0;
    if (PREFIXES.has(byte) || (byte & 0xf0) === 0x40) continue;
    return [byte, cpu.load(at + 1n, 1)?.[0] ?? 0];
  }
  return [0, 0];
}

/** An exception of arithmetic: of integers, of x87, or of SSE. */
function arithmeticCause(cpu: SignalCpu, pc: bigint): Cause {
  const [opcode] = opcodeAt(cpu, pc);
  const code = (raised: number): number => FLOAT_CODES[31 - Math.clz32(raised & -raised)] ?? 0;
  if (opcode === 0xf6 || opcode === 0xf7) {
    const exception = { number: EXCEPTION.divide, error: 0n };
    return { signal: SIGNAL.FPE, code: CODE.FPE_INTDIV, address: pc, exception };
  }
  if (opcode === 0x0f || opcode === 0xc4 || opcode === 0xc5) {
    const mxcsr = Number(cpu.register('mxcsr'));
    const raised = mxcsr & ~(mxcsr >> 7) & 0x3f;
    return { signal: SIGNAL.FPE, code: code(raised), address: pc, exception: { number: EXCEPTION.simd, error: 0n } };
  }
  const exception = { number: EXCEPTION.x87, error: 0n };
  return { signal: SIGNAL.FPE, code: code(x87Raised(cpu.state)), address: pc, exception };
}

function trapCause(cpu: SignalCpu, raised: Extract<Raised, { kind: 'trap' }>): Cause {
  const pc = cpu.register('pc');
  const exception = (number: bigint, error = 0n): Pick<Cause, 'exception'> => ({ exception: { number, error } });
  switch (raised.trap) {
    case 'breakpoint': {
      const [opcode] = opcodeAt(cpu, pc);
      if (opcode === 0xcc || opcode === 0xcd) {
        // The kernel names no place.
        const skip = opcode === 0xcc ? 1 : 2;
        return { signal: SIGNAL.TRAP, code: CODE.SI_KERNEL, address: 0n, skip, ...exception(EXCEPTION.breakpoint) };
      }
      const skip = opcode === 0xf1 ? 1 : 0;
      const address = pc + BigInt(skip);
      return { signal: SIGNAL.TRAP, code: CODE.TRAP_BRKPT, address, skip, ...exception(EXCEPTION.debug) };
    }
    case 'divide':
      return arithmeticCause(cpu, pc);
    case 'protection':
      return { ...usualCause(cpu, raised), ...exception(EXCEPTION.protection) };
    case 'control-protection':
      return { ...usualCause(cpu, raised), ...exception(EXCEPTION.control, 3n) };
    default:
      return { signal: SIGNAL.ILL, code: CODE.ILL_ILLOPN, address: pc, ...exception(EXCEPTION.opcode) };
  }
}

export const x86Signals: SignalModel = {
  trampoline: null,

  cause(cpu, raised) {
    if (raised.kind === 'trap') return trapCause(cpu, raised);
    const { address, access, mapped } = raised;
    // Addresses that are no addresses are no page faults.
    if (address >= 0x8000_0000_0000n && address < 0xffff_8000_0000_0000n) {
      const exception = { number: EXCEPTION.protection, error: 0n };
      return { signal: SIGNAL.SEGV, code: CODE.SI_KERNEL, address: 0n, exception };
    }
    const kind = access === 'write' ? PAGE.write : access === 'execute' ? PAGE.fetch : 0n;
    const error = PAGE.user | kind | (mapped ? PAGE.rights : 0n);
    return { ...usualCause(cpu, raised), exception: { number: EXCEPTION.page, error } };
  },

  enter(cpu, { signal, handler, returnTo, top, switched, info, mask, stack, cause }) {
    const extended = (top - (switched ? 0n : RED_ZONE) - BigInt(EXTENDED_BYTES)) & -64n;
    const frame = ((extended - BigInt(FRAME_BYTES)) & -16n) - 8n;
    const out = new FrameBytes(new Uint8Array(FRAME_BYTES), 'little');
    const context = (at: number, size: number, value: bigint): void => {
      out.put(CONTEXT_AT + at, size, value);
    };
    out.put(0, 8, returnTo);
    context(0, 8, FLAGS);
    out.putStack(CONTEXT_AT + AT.stack, 8, stack);
    GENERAL.forEach((name, i) => {
      context(AT.general + 8 * i, 8, cpu.register(name));
    });
    context(AT.cs, 2, USER_CS);
    context(AT.ss, 2, USER_SS);
    context(AT.error, 8, cause?.exception?.error ?? 0n);
    context(AT.number, 8, cause?.exception?.number ?? 0n);
    context(AT.mask, 8, mask);
    context(AT.cr2, 8, cause?.exception?.number === EXCEPTION.page ? cause.address : 0n);
    context(AT.extended, 8, extended);
    context(AT.sigmask, 8, mask);
    out.bytes.set(info, INFO_AT);
    if (!cpu.store(extended, new Uint8Array(EXTENDED_BYTES)) || !cpu.store(frame, out.bytes)) return null;
    if (!storeExtendedState(cpu.state, extended)) return null;
    clearExtendedState(cpu, extended);
    cpu.setRegister('rdi', BigInt(signal));
    cpu.setRegister('rax', 0n);
    cpu.setRegister('rsi', frame + BigInt(INFO_AT));
    cpu.setRegister('rdx', frame + BigInt(CONTEXT_AT));
    cpu.setRegister('rsp', frame);
    cpu.setRegister('rflags', cpu.register('rflags') & ~DIRECTION_FLAG);
    cpu.setRegister('pc', handler);
    return frame;
  },

  leave(cpu) {
    const bytes = cpu.load(cpu.register('rsp'), FRAME_BYTES - CONTEXT_AT);
    if (!bytes) return null;
    const frame = new FrameBytes(bytes, 'little');
    // Code of 32 bits is not executed.
    if (frame.get(AT.cs, 2) !== USER_CS) return null;
    const extended = frame.get(AT.extended, 8);
    if (extended !== 0n && !loadExtendedState(cpu.state, extended)) return null;
    GENERAL.forEach((name, i) => {
      cpu.setRegister(name, frame.get(AT.general + 8 * i, 8));
    });
    return { mask: frame.get(AT.sigmask, 8), stack: frame.stack(AT.stack, 8) };
  },
};

/** A handler begins with the state that a program begins with; what is stored at `at` stays. */
function clearExtendedState(cpu: SignalCpu, at: bigint): void {
  const stored = cpu.load(at, EXTENDED_BYTES)!;
  const initial = new FrameBytes(new Uint8Array(EXTENDED_BYTES), 'little');
  initial.put(0, 2, 0x37fn);
  initial.put(24, 4, 0x1f80n);
  cpu.store(at, initial.bytes);
  loadExtendedState(cpu.state, at);
  cpu.store(at, stored);
}
