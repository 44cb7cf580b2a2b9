/** Why runs end, what system calls did, and what runs left out. Types only. */
import type { TrapKind } from '../machine/ir.js';
import type { Address } from '../units.js';
import type { AccessKind } from './memory.js';

/** Why a run ended. `instruction` is the address of the instruction that did not complete. */
export type StopReason =
  | { readonly kind: 'exit'; readonly code: number }
  | {
      readonly kind: 'fault';
      /** First byte that may not be accessed. */
      readonly address: Address;
      readonly access: AccessKind;
      readonly instruction: Address;
    }
  | { readonly kind: 'trap'; readonly trap: TrapKind; readonly instruction: Address }
  | {
      readonly kind: 'unknown-instruction';
      readonly instruction: Address;
      readonly bytes: Uint8Array;
      /**
       * null: the bytes are no instruction we know; a name: known, but its semantics are missing.
       */
      readonly mnemonic: string | null;
    }
  | { readonly kind: 'syscall'; readonly instruction: Address }
  /** A system call waits for standard input; it is made again when the run goes on. */
  | { readonly kind: 'waiting'; readonly instruction: Address }
  /**
   * A hook said so, or a watch, or a gate; `address` is the instruction that comes next (a gate:
   * its own, which is done).
   */
  | { readonly kind: 'hook'; readonly address: Address; readonly watch?: WatchEvent }
  /**
   * A system call raised a signal that ends the process; the call is completed. Numbers as in Linux
   * asm-generic/signal.h.
   */
  | { readonly kind: 'signal'; readonly signal: number; readonly instruction: Address }
  /**
   * A system call is completed, and before the program goes on its process must act: enter a signal
   * handler, wait. `Process.run` does so; only those who run the machine itself see it.
   */
  | { readonly kind: 'yield'; readonly instruction: Address }
  | Deadlock
  /** A process that the program made stopped in a way that is no end in Linux. */
  | { readonly kind: 'child'; readonly process: number; readonly program: string; readonly stop: StopReason }
  | { readonly kind: 'step-limit' };

/**
 * What a system call did. `unserved` and `waiting` stop the run at the instruction. `yields`: the
 * run ends behind it. `resumed`: registers and `pc` are what the call made them.
 */
export type SyscallResult =
  | { readonly kind: 'next'; readonly yields?: boolean }
  | { readonly kind: 'resumed' }
  | { readonly kind: 'exit'; readonly code: number }
  | { readonly kind: 'signal'; readonly signal: number }
  | { readonly kind: 'waiting' }
  | { readonly kind: 'unserved' };

/** Every thread waits, and nothing is left that could wake one. */
export interface Deadlock {
  readonly kind: 'deadlock';
  readonly threads: readonly WaitingThread[];
}

export interface WaitingThread {
  readonly thread: number;
  /** The system call in which it waits, or where it goes on. */
  readonly instruction: Address;
  /** The signal that has stopped its process. Absent: it is not stopped. */
  readonly stoppedBy?: number;
}

/** An access that is about to be made. */
export interface WatchEvent {
  readonly address: Address;
  readonly size: number;
  readonly access: 'read' | 'write';
  readonly instruction: Address;
  /** What a store will write, in memory order. */
  readonly bytes: Uint8Array | null;
}

/**
 * Something that the machine's world did not do as Linux does it: what ran since then proves
 * nothing about Linux.
 */
export interface Deviation {
  /**
   * `refused`: a system call that is not served at all; `half`: one under a condition in which it
   * is served otherwise; `signal`: a signal that was not delivered; `image`: something about the
   * image was left out.
   */
  readonly kind: 'refused' | 'half' | 'signal' | 'image';
  /** `system call clone (56)`, `signal 11`. */
  readonly what: string;
  /** What was done, or not done. */
  readonly why: string;
  /** Argument registers of the system call that it is about, as they were there first. */
  readonly arguments?: readonly bigint[];
  /** Where it was done first. */
  readonly instruction: Address;
  readonly count: number;
}
