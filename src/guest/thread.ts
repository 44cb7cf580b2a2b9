/** What a process keeps for each of its threads. Types, and how a thread begins. */
import type { SignalStack } from '../machine/signals.js';
import type { Address } from '../units.js';

/** A timer of `setitimer`, or of `timer_create`. */
export interface Timer {
  /** Real time, or the instructions of the process. */
  readonly clock: 'real' | 'wall' | 'cpu';
  /** 0: it makes no signal. */
  readonly signal: number;
  readonly info: Uint8Array | null;
  /** The thread that gets the signal; null: any of the process. */
  readonly thread: number | null;
  /** Null: it is not set. */
  expiry: bigint | null;
  interval: bigint;
  /** Expirations since the signal was sent, and those that it stood for when it was taken. */
  missed: bigint;
  overrun: bigint;
}

/** A signal that was sent and not taken yet. */
export interface Pending {
  readonly signal: number;
  /** `siginfo`; of a timer it is completed when the signal is taken. */
  readonly info: Uint8Array;
  readonly timer: Timer | null;
}

/** A system call that has not answered yet. */
export interface Wait {
  /** True: what it waits for is there. Null: only time and signals end it. */
  readonly ready: (() => boolean) | null;
  /** Its answer then; it may wait again. */
  readonly woken: () => void;
  /** Time at which it ends by itself; null: never. */
  readonly deadline: bigint | null;
  /** Its answer then. */
  readonly expired: () => void;
  /** Its answer when a handler interrupts it. */
  readonly interrupted: () => void;
  /** It is made again behind handlers that ask for it. */
  readonly restart: (() => void) | null;
  /** Signals that end it without a handler. */
  readonly accepts: bigint;
  readonly accepted: (signal: number, info: Uint8Array) => void;
  /** What is blocked again once it is over; null: what is blocked now. */
  readonly mask: bigint | null;
  /** Called when it is over, however that came. */
  readonly over: (() => void) | null;
  /** Handlers do not interrupt it: they run when it is over. */
  readonly isFirm: boolean;
  /** It is over, interrupted, when the process stops; others go on waiting behind that. */
  readonly endsByStop: boolean;
  /** The system call. */
  readonly instruction: Address;
}

export interface Thread {
  readonly id: number;
  /** The CPU of the machine that executes it and nothing else while it lives. */
  cpu: number;
  /** What that CPU had executed before. */
  startedAt: number;
  /** Signals that were sent to this thread. */
  pending: readonly Pending[];
  blocked: bigint;
  /** The stack for handlers. */
  stack: SignalStack;
  waiting: Wait | null;
  /** What the next handler restores, where it is not what is blocked now. */
  savedMask: bigint | null;
  /** Where 0 is stored and a waiter woken when it ends; 0: nowhere. */
  clearAddress: Address;
  /** `struct robust_list_head`; 0: none. */
  robustList: Address;
  /** Address, size and signature of the registered `struct rseq`. */
  sequences: readonly [address: Address, size: bigint, signature: bigint] | null;
  /** It waits for standard input, which has nothing yet: others run first. */
  lacksInput: boolean;
  /** It has ended. */
  isGone: boolean;
}

/** SS_DISABLE. */
export const NO_STACK: SignalStack = { pointer: 0n, flags: 2n, size: 0n };

/** A thread that begins; `blocked` is what its maker has blocked. */
export function newThread(id: number, cpu: number, blocked = 0n): Thread {
  return {
    id,
    cpu,
    startedAt: 0,
    blocked,
    pending: [],
    stack: NO_STACK,
    waiting: null,
    savedMask: null,
    clearAddress: 0n,
    robustList: 0n,
    sequences: null,
    lacksInput: false,
    isGone: false,
  };
}
