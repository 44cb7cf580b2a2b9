/**
 * What a machine adds to signals: the frame that Linux leaves on the stack for a handler, how it is
 * taken down, and what `siginfo` says of an instruction that raised one. Which signal is delivered
 * when is the emulator's (`guest/signals.ts`).
 */
import type { HelperState, TrapKind } from './ir.js';
import type { Address, Endian, RegisterName } from '../units.js';

/** The CPU that is interrupted, and its memory. */
export interface SignalCpu {
  readonly endian: Endian;
  readonly state: HelperState;
  register(name: RegisterName): bigint;
  setRegister(name: RegisterName, value: bigint): void;
  /** A copy of the bytes; null: they cannot be read. */
  load(address: Address, size: number): Uint8Array | null;
  /** False: they cannot be written. */
  store(address: Address, bytes: Uint8Array): boolean;
}

/** `stack_t`. */
export interface SignalStack {
  readonly pointer: Address;
  readonly flags: bigint;
  readonly size: bigint;
}

/** What an instruction did that raises a signal. */
export type Raised =
  | {
      readonly kind: 'access';
      readonly address: Address;
      readonly access: 'read' | 'write' | 'execute';
      /** Something is mapped there, with other rights. */
      readonly mapped: boolean;
    }
  | { readonly kind: 'trap'; readonly trap: TrapKind };

/** How Linux names it. */
export interface Cause {
  readonly signal: number;
  readonly code: number;
  /** `si_addr`. */
  readonly address: Address;
  /** Number and error code of the exception, where the frame shows them. */
  readonly exception?: { readonly number: bigint; readonly error: bigint };
  /** Bytes of the instruction where the handler sees the address behind it. Default 0. */
  readonly skip?: number;
}

/** A handler that is about to run. */
export interface Delivery {
  readonly signal: number;
  readonly handler: Address;
  /** It wants `siginfo` and `ucontext` (SA_SIGINFO). */
  readonly wantsInfo: boolean;
  /** Where it returns to. */
  readonly returnTo: Address;
  /** The frame ends here, exclusive: the stack pointer, or the end of another stack. */
  readonly top: Address;
  /** `top` is of another stack: nothing of the program is below it. */
  readonly switched: boolean;
  /** `siginfo`, 128 bytes. */
  readonly info: Uint8Array;
  /** What is blocked once the handler has returned. */
  readonly mask: bigint;
  readonly stack: SignalStack;
  /** Null: no instruction of this CPU raised it. */
  readonly cause: Cause | null;
  /** The handler lies in guarded memory. */
  readonly guarded: boolean;
}

/** What a handler left. `stack` null: as it is. */
export interface Restored {
  readonly mask: bigint;
  readonly stack: SignalStack | null;
}

/** The signals of a target. */
export interface SignalModel {
  /**
   * Code that a handler returns to, by whether it wants `siginfo`; null: `sa_restorer` is used.
   */
  readonly trampoline: ((wantsInfo: boolean) => Uint8Array) | null;
  /** `sa_restorer` is used where a program gives it, in place of the trampoline. Default: no. */
  readonly usesRestorer?: boolean;
  /**
   * Least bytes of a stack for handlers (MINSIGSTKSZ). Source: Linux uapi/asm/signal.h of the
   * machine.
   */
  readonly leastStackBytes: number;
  /** How Linux names what an instruction raised; the CPU stands at it. */
  cause(cpu: SignalCpu, raised: Raised): Cause;
  /** Leaves the frame and enters the handler; its address, null: there is no room. */
  enter(cpu: SignalCpu, delivery: Delivery): Address | null;
  /** Takes the frame down; null: it cannot be read, or makes no sense. */
  leave(cpu: SignalCpu): Restored | null;
  /** The same for handlers without `siginfo`, where their frames are others. */
  readonly leaveOld?: (cpu: SignalCpu) => Restored | null;
  /** Bytes that programs must say a `ucontext` has, where `swapcontext` is a system call. */
  readonly contextBytes?: number;
  /** How that keeps and takes what a thread is. */
  readonly contexts?: ThreadContexts;
}

/** A `ucontext` of the program. */
export interface ThreadContexts {
  /** Writes registers and mask; false: it cannot be written. */
  save(cpu: SignalCpu, context: Address, mask: bigint): boolean;
  /** Takes them, but for the register that threads have their own of; null: it cannot be read. */
  take(cpu: SignalCpu, context: Address): Restored | null;
}

/** Numbers in the bytes of a frame, in the target's byte order. */
export class FrameBytes {
  constructor(
    readonly bytes: Uint8Array,
    private readonly endian: Endian,
  ) {}

  put(at: number, size: number, value: bigint): void {
    let rest = value;
    for (let i = 0; i < size; i++) {
      this.bytes[this.endian === 'little' ? at + i : at + size - 1 - i] = Number(rest & 0xffn);
      rest >>= 8n;
    }
  }

  get(at: number, size: number): bigint {
    let value = 0n;
    for (let i = size - 1; i >= 0; i--) {
      value = (value << 8n) | BigInt(this.bytes[this.endian === 'little' ? at + i : at + size - 1 - i]!);
    }
    return value;
  }

  /** `stack_t`. */
  putStack(at: number, wordBytes: 4 | 8, { pointer, flags, size }: SignalStack): void {
    this.put(at, wordBytes, pointer);
    this.put(at + wordBytes, 4, flags);
    this.put(at + 2 * wordBytes, wordBytes, size);
  }

  stack(at: number, wordBytes: 4 | 8): SignalStack {
    return {
      pointer: this.get(at, wordBytes),
      flags: this.get(at + wordBytes, 4),
      size: this.get(at + 2 * wordBytes, wordBytes),
    };
  }
}

/** Numbers of signals, equal on all targets. Source: Linux asm-generic/signal.h. */
export const SIGNAL = { ILL: 4, TRAP: 5, BUS: 7, FPE: 8, KILL: 9, SEGV: 11, STOP: 19 } as const;

/** Codes of `siginfo`. Source: Linux asm-generic/siginfo.h. */
export const CODE = {
  ILL_ILLOPC: 1,
  ILL_ILLOPN: 2,
  ILL_PRVOPC: 5,
  FPE_INTDIV: 1,
  SEGV_MAPERR: 1,
  SEGV_ACCERR: 2,
  SEGV_CPERR: 10,
  BUS_ADRALN: 1,
  BUS_ADRERR: 2,
  TRAP_BRKPT: 1,
  SI_KERNEL: 0x80,
} as const;

/** Signals and codes by traps, as most machines have them. */
const TRAPS: Readonly<Record<TrapKind, readonly [signal: number, code: number]>> = {
  breakpoint: [SIGNAL.TRAP, CODE.TRAP_BRKPT],
  'trap-instruction': [SIGNAL.TRAP, CODE.TRAP_BRKPT],
  divide: [SIGNAL.FPE, CODE.FPE_INTDIV],
  privileged: [SIGNAL.ILL, CODE.ILL_ILLOPC],
  'misaligned-pc': [SIGNAL.BUS, CODE.BUS_ADRALN],
  alignment: [SIGNAL.BUS, CODE.BUS_ADRALN],
  'undefined-instruction': [SIGNAL.ILL, CODE.ILL_ILLOPC],
  protection: [SIGNAL.SEGV, CODE.SI_KERNEL],
  'invalid-form': [SIGNAL.ILL, CODE.ILL_ILLOPC],
  undefined: [SIGNAL.ILL, CODE.ILL_ILLOPC],
  'branch-target': [SIGNAL.ILL, CODE.ILL_ILLOPC],
  'control-protection': [SIGNAL.SEGV, CODE.SEGV_CPERR],
};

/** What most machines say. */
export function usualCause(cpu: SignalCpu, raised: Raised): Cause {
  if (raised.kind === 'access') {
    const code = raised.mapped ? CODE.SEGV_ACCERR : CODE.SEGV_MAPERR;
    return { signal: SIGNAL.SEGV, code, address: raised.address };
  }
  const [signal, code] = TRAPS[raised.trap];
  return { signal, code, address: code === CODE.SI_KERNEL ? 0n : cpu.register('pc') };
}
