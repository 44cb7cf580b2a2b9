/**
 * What the emulator needs from a machine. Types only: the front end (`Lifter` of `ir.ts`) and what a Linux process of the
 * target finds when it starts. Built in the `arch-*` folders.
 */
import type { Lifter } from './ir.js';
import type { RegisterName } from '../units.js';

/** `none` says why programs of the target cannot be executed yet. */
export type EmulationModel = { readonly kind: 'none'; readonly reason: string } | IrEmulation;

export interface IrEmulation {
  readonly kind: 'ir';
  readonly lifter: Lifter;
  readonly process: ProcessModel;
}

/** Names of the system calls that are served; numbers are the target's. Others return ENOSYS. */
export type SyscallName =
  | 'exit'
  | 'exit_group'
  | 'read'
  | 'write'
  | 'writev'
  | 'close'
  | 'brk'
  | 'mmap'
  /** The offset counts units of 4096 bytes. */
  | 'mmap2'
  | 'munmap'
  | 'mprotect'
  | 'ioctl'
  | 'getpid'
  | 'gettid'
  | 'set_tid_address'
  | 'clock_gettime'
  | 'getrandom';

/** The state in which a process starts. Register values not named are 0. */
export interface ProcessModel {
  /**
   * `code`: e_entry is the first instruction, and `register`, if not null, holds it too. `descriptor`: e_entry is the address of a
   * function descriptor whose second word goes to `toc`.
   */
  readonly entry:
    | { readonly kind: 'code'; readonly register: RegisterName | null }
    | { readonly kind: 'descriptor'; readonly toc: RegisterName };
  /** AT_HWCAP and AT_HWCAP2: the least that compiled code needs, so that libraries choose plain code. */
  readonly hwcap: bigint;
  readonly hwcap2: bigint;
  /** AT_DCACHEBSIZE, AT_ICACHEBSIZE; 0: not announced. */
  readonly cacheLineBytes: number;
  /** End of the stack, exclusive. Mappings without an address go below the stack. */
  readonly stackTop: bigint;
  readonly syscalls: ReadonlyMap<number, SyscallName>;
}
