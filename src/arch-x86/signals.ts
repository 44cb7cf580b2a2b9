/**
 * Signal frames of x86-64. From the stack pointer: the return address (`sa_restorer`), ucontext
 * (304 bytes), siginfo (128); above them, at a multiple of 64, what `fxsave` stores, or with AVX
 * what `xsave` does, whose size and components are said at the end of the part that `fxsave` has,
 * and a word behind it. 128 bytes below the stack pointer are the program's.
 *
 * Source: Linux arch/x86/kernel/signal.c, traps.c and uapi/asm/sigcontext.h; offsets measured with
 * offsetof.
 */
import { clearExtended, fxrstor, fxsave, XSAVE, xrstor, xsave } from './extended-state.js';
import { x87Raised } from './lift.js';
import { CODE, FrameBytes, SIGNAL, usualCause } from '../machine/signals.js';
import type { Cause, Raised, SignalCpu, SignalModel } from '../machine/signals.js';

const RED_ZONE = 128n;
const FRAME_BYTES = 440;
const CONTEXT_AT = 8;
const INFO_AT = 312;
/** Bytes of the state, with the word behind that of `xsave`. */
const FXSAVE_BYTES = 512;
const XSAVE_BYTES = XSAVE.bytes + 4;
/** Behind what `fxsave` writes: magic, all bytes, components, bytes of `xsave`; word behind. */
const SOFTWARE = {
  magic: 464,
  extended: 468,
  components: 472,
  size: 480,
  first: 0x4650_5853n,
  last: 0x4650_5845n,
} as const;
/** From the ucontext. */
const AT = {
  stack: 16,
  general: 40,
  cs: 184,
  ss: 190,
  error: 192,
  number: 200,
  mask: 208,
  cr2: 216,
  extended: 224,
  sigmask: 296,
} as const;
const GENERAL = [
  'r8', 'r9', 'r10', 'r11', 'r12', 'r13', 'r14', 'r15', 'rdi', 'rsi', 'rbp', 'rbx', 'rdx', 'rax', 'rcx', 'rsp', 'pc',
  'rflags',
] as const; // prettier-ignore
/** UC_SIGCONTEXT_SS, UC_STRICT_RESTORE_SS; UC_FP_XSTATE where the state is that of `xsave`. */
const FLAGS = { plain: 6n, extended: 7n } as const;
const USER_CS = 0x33n;
const USER_SS = 0x2bn;
const DIRECTION_FLAG = 0x400n;
/** Exceptions of the processor. */
const EXCEPTION = {
  divide: 0n,
  debug: 1n,
  breakpoint: 3n,
  opcode: 6n,
  protection: 13n,
  page: 14n,
  x87: 16n,
  simd: 19n,
  control: 21n,
} as const;
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

/** Stores the extended state of a frame; false: it cannot be. */
function storeState(cpu: SignalCpu, at: bigint, hasAvx: boolean): boolean {
  if (!cpu.store(at, new Uint8Array(hasAvx ? XSAVE_BYTES : FXSAVE_BYTES))) return false;
  if (!hasAvx) return fxsave(cpu.state, at, true).kind === 'next';
  if (xsave(cpu.state, at, XSAVE.components, true).kind !== 'next') return false;
  const words = new FrameBytes(new Uint8Array(FXSAVE_BYTES - SOFTWARE.magic), 'little');
  const put = (place: number, size: number, value: bigint): void => {
    words.put(place - SOFTWARE.magic, size, value);
  };
  put(SOFTWARE.magic, 4, SOFTWARE.first);
  put(SOFTWARE.extended, 4, BigInt(XSAVE_BYTES));
  put(SOFTWARE.components, 8, XSAVE.components);
  put(SOFTWARE.size, 4, BigInt(XSAVE.bytes));
  const last = new FrameBytes(new Uint8Array(4), 'little');
  last.put(0, 4, SOFTWARE.last);
  // Readers of the part of `fxsave` do not look for what it holds in the header.
  const header = new FrameBytes(cpu.load(at + BigInt(XSAVE.header), 8)!, 'little');
  header.put(0, 8, header.get(0, 8) | 3n);
  return (
    cpu.store(at + BigInt(SOFTWARE.magic), words.bytes) &&
    cpu.store(at + BigInt(XSAVE.header), header.bytes) &&
    cpu.store(at + BigInt(XSAVE.bytes), last.bytes)
  );
}

/** Loads it again: all of it where it says that it is that of `xsave`, else what `fxsave` has. */
function loadState(cpu: SignalCpu, at: bigint, hasAvx: boolean): boolean {
  const plain = (): boolean => fxrstor(cpu.state, at, true).kind === 'next';
  if (!hasAvx) return plain();
  const words = cpu.load(at, FXSAVE_BYTES);
  if (!words || at % 64n !== 0n) return false;
  const frame = new FrameBytes(words, 'little');
  const size = frame.get(SOFTWARE.size, 4);
  const isWhole =
    frame.get(SOFTWARE.magic, 4) === SOFTWARE.first &&
    size >= BigInt(XSAVE.upper) &&
    size <= BigInt(XSAVE.bytes) &&
    size <= frame.get(SOFTWARE.extended, 4);
  const last = isWhole ? cpu.load(at + size, 4) : null;
  const components = frame.get(SOFTWARE.components, 8) & XSAVE.components;
  clearExtended(cpu.state);
  if (!last || new FrameBytes(last, 'little').get(0, 4) !== SOFTWARE.last) return plain();
  return xrstor(cpu.state, at, components, true).kind === 'next';
}

/** @param hasAvx  the processor has AVX, and `xsave` */
export const x86SignalsOf = (hasAvx: boolean): SignalModel => ({
  trampoline: null,
  leastStackBytes: 2048,

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
    const extended = (top - (switched ? 0n : RED_ZONE) - BigInt(hasAvx ? XSAVE_BYTES : FXSAVE_BYTES)) & -64n;
    const frame = ((extended - BigInt(FRAME_BYTES)) & -16n) - 8n;
    const out = new FrameBytes(new Uint8Array(FRAME_BYTES), 'little');
    const context = (at: number, size: number, value: bigint): void => {
      out.put(CONTEXT_AT + at, size, value);
    };
    out.put(0, 8, returnTo);
    context(0, 8, hasAvx ? FLAGS.extended : FLAGS.plain);
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
    if (!storeState(cpu, extended, hasAvx) || !cpu.store(frame, out.bytes)) return null;
    clearExtended(cpu.state);
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
    // Without a state the registers are those of a new program.
    if (extended === 0n) clearExtended(cpu.state);
    else if (!loadState(cpu, extended, hasAvx)) return null;
    GENERAL.forEach((name, i) => {
      cpu.setRegister(name, frame.get(AT.general + 8 * i, 8));
    });
    return { mask: frame.get(AT.sigmask, 8), stack: frame.stack(AT.stack, 8) };
  },
});

export const x86Signals = x86SignalsOf(false);
