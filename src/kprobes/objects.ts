/**
 * What both state machines share: probes and their flags, the aggregators of probes at one address,
 * and the machine under them. A machine is text that can be read and written, out-of-line slots and
 * the six functions of jump optimisation; it may be a file, a running machine or one that a test
 * made up. Owns no rule of either version (state-2009.ts, state-modern.ts).
 */
import type { Address } from '../units.js';
import type { ProbeCpu, ProbeErrno, ProbeRefusal } from '../machine/probes.js';

/** Flags of 2009 (T-KP-3). 4 is what the user asks for. */
export const FLAGS_2009 = { GONE: 1, DISABLED: 2, OPTIMIZE: 4 } as const;
/** Flags of today. 4 is what the core has done. */
export const FLAGS = { GONE: 1, DISABLED: 2, OPTIMIZED: 4, FTRACE: 8, ON_FUNC_ENTRY: 16 } as const;

/**
 * Handlers of such a probe do not run, and nothing of it is armed: disabled, or its text is gone.
 * The bits are those of both versions.
 */
export const isOff = (flags: number): boolean => (flags & (FLAGS.GONE | FLAGS.DISABLED)) !== 0;

/**
 * `regs` at a handler: of a breakpoint the pc that the trap left; of a jump what the buffer saved,
 * of which the pc cannot be changed.
 */
export interface KprobeHandlers {
  /** Nonzero: the handler has set the pc, the instruction is not executed. */
  readonly pre?: (probe: Kprobe, regs: ProbeCpu) => number;
  /** After the instruction. */
  readonly post?: (probe: Kprobe, regs: ProbeCpu) => void;
  /** 2009 only: a breakpoint hit while a handler runs. */
  readonly breakpoint?: (probe: Kprobe, regs: ProbeCpu) => number;
  /** 2009 only: a handler of the probe faulted. Nonzero: it has been dealt with. */
  readonly fault?: (probe: Kprobe, regs: ProbeCpu) => number;
}

/** A probe as its user holds it. */
export class Kprobe {
  flags: number;
  nmissed = 0;
  /** Null while not registered. */
  address: Address | null = null;
  constructor(
    readonly asked: Address,
    readonly handlers: KprobeHandlers = {},
    flags = 0,
    readonly name = '',
  ) {
    this.flags = flags;
  }
}

/** The arch part of an optimised object (T-KP-5). */
export interface OptimizedPart {
  /** Address of the detour buffer. */
  readonly slot: Address;
  /** Bytes that the window covers. */
  readonly length: number;
  /** Original bytes of the whole window. */
  readonly saved: Uint8Array;
}

/** An address that was checked. */
export interface CheckedAddress {
  readonly kind: 'checked';
  readonly address: Address;
  /** It is an ftrace site: served by ftrace, no breakpoint (K-ADDR-7). */
  readonly ftrace: boolean;
}

/** What `prepareSlot` made. */
export interface OwnSlot {
  readonly kind: 'own-slot';
  readonly address: Address;
}

/** What a machine does for the state machines. None of it may throw for what a user can ask. */
export interface KprobeMachine<Part extends OptimizedPart = OptimizedPart> {
  /** Text at rest: switches that can damage text are refused. */
  readonly isFile: boolean;
  /** MAX_OPTIMIZED_LENGTH. */
  readonly maxOptimizedBytes: number;
  /** Section 3. */
  check(address: Address): CheckedAddress | ProbeRefusal;
  /**
   * The out-of-line copy of an instruction. It belongs to one registration: a second one at the
   * address, made before the first was freed, has its own.
   */
  prepareSlot(address: Address): OwnSlot | ProbeRefusal;
  releaseSlot(slot: OwnSlot): void;
  arm(address: Address): void;
  disarm(address: Address): void;
  /** An ops of ftrace in place of a breakpoint. */
  armFtrace(address: Address, wantsIp: boolean): void;
  disarmFtrace(address: Address): void;
  /** The bytes at the address are the object's jump. */
  hasJump(address: Address, part: Part): boolean;
  /**
   * All of the window behind the breakpoint is as it was or the jump: who hit the breakpoint may go
   * on in the buffer.
   */
  mayResume(address: Address, part: Part): boolean;

  // The six functions of T-KP-32.
  covers(part: Part, start: Address, address: Address): boolean;
  prepare(address: Address): { readonly kind: 'prepared'; readonly part: Part } | ProbeRefusal;
  remove(part: Part): void;
  /** Breakpoint -> jump. A refusal leaves the breakpoint: another probe lies in the window. */
  optimize(address: Address, part: Part): ProbeRefusal | null;
  /** Jump -> breakpoint; cannot fail. */
  unoptimize(address: Address, part: Part): void;
  /** Makes the registers what handlers expect, calls `handlers`, and yields its result. */
  detour(address: Address, regs: ProbeCpu, handlers: () => number): number;
}

/**
 * Results of operations. `waiting`: another one holds a lock; it is carried out when that one is
 * done.
 */
export type KprobeResult = 'done' | 'waiting' | KprobeFailure;

export interface KprobeFailure {
  readonly kind: 'failed';
  readonly errno: ProbeErrno;
  readonly refusal: ProbeRefusal | null;
}

export function failed(errno: ProbeErrno, refusal: ProbeRefusal | null = null): KprobeFailure {
  return { kind: 'failed', errno, refusal };
}

/** What happened, in order: what tests and listings look at. */
export interface KprobeEvent {
  readonly what:
    | 'armed'
    | 'disarmed'
    /** The probe is a member of the object that will stand for it; the object is in the table. */
    | 'adopted'
    | 'replaced'
    | 'queued'
    | 'dequeued'
    | 'scheduled'
    | 'optimizer-waits'
    | 'optimizer-walks'
    | 'optimizer-done'
    | 'optimized'
    | 'optimize-refused'
    | 'unoptimized'
    | 'undo-queued'
    | 'freed'
    | 'use-after-free';
  readonly address: Address;
}

/** Faults that tests let happen. */
export interface KprobeFaults {
  /** No memory for an optimised object (T-KP-16). */
  allocate?: (address: Address) => boolean;
  /** The machine refuses to write a jump (T-KP-13). */
  optimize?: (address: Address) => ProbeRefusal | null;
  /** No memory or no way for a breakpoint (enable, K-OPT-9). */
  arm?: (address: Address) => ProbeErrno | null;
}

/** State of a probed address, for listings. */
export interface ProbeState {
  readonly address: Address;
  readonly kind: 'probe' | 'aggregate' | 'optimized';
  /** Text, as the state machine believes it to be. */
  readonly text: 'original' | 'breakpoint' | 'jump' | 'ftrace';
  readonly list: 'none' | 'optimizing' | 'unoptimizing' | 'freeing';
  readonly flags: number;
  readonly probes: readonly Kprobe[];
  readonly part: OptimizedPart | null;
}
