/**
 * What the system calls share, whichever file they are in: the process that makes them, its memory,
 * and how they answer. Types, and what reads arguments.
 */
import type { Condition } from '../machine/calls.js';
import type { ProcessModel } from '../machine/emulation.js';
import type { Abi } from '../machine/abi.js';
import type { Address, Endian } from '../units.js';
import type { AddressSpace } from './address-space.js';
import type { Description, Descriptors } from './descriptions.js';
import type { Errno } from './errno.js';
import type { NodeStatus } from './files.js';
import type { FollowedFiles } from './followed-files.js';
import type { Machine } from '../emulator/machine.js';
import type { Network } from './network.js';
import type { SyscallResult } from '../emulator/stops.js';
import type { AccessKind } from '../emulator/memory.js';
import type { ProcSubject } from './proc.js';
import type { ProcSystem } from './proc-system.js';
import type { SharedMemory } from './shared-memory.js';
import type { Signals } from './signals.js';
import type { Terminals } from './terminals.js';
import type { Wait } from './thread.js';

/** The system call answers later (`CallContext.waitFor`). */
export interface Waits {
  readonly kind: 'waits';
}

/** A value for the result register, an error, or what happens to the process instead. */
export type Answer = bigint | Errno | SyscallResult | Waits;

/** Argument registers; calls have at most six. */
export type Arguments = readonly bigint[];

/** A system call: argument registers and the size of the words of times in, answer out. */
export type Service = (args: Arguments, timeWords: 4 | 8) => Answer;

/** Argument `i`. */
export const arg = (args: Arguments, i: number): bigint => args[i] ?? 0n;

/** The low 32 bits, signed. */
export const int = (value: bigint): number => Number(BigInt.asIntN(32, value));

export const storeOr = (stored: boolean, result = 0n): bigint | Errno => (stored ? result : 'EFAULT');

/** How a call waits that may do so. */
export interface Patience {
  /** What is done so far: the answer of a call that a handler interrupts. Default: nothing. */
  readonly done?: () => bigint;
  /** It does not wait. Default: as its description says. */
  readonly isHasty?: boolean;
  /** The time at which it gives up; null: never, the default. */
  readonly deadline?: bigint | null;
  /** What it answers then, where nothing is done. Default: EAGAIN. */
  readonly expires?: Errno;
  /** Called when the wait ends, whatever ends it. */
  readonly over?: (() => void) | null;
  /** A handler interrupts it even where it would be made again. */
  readonly isBrittle?: boolean;
  /** So does a stop of the process. Default: as handlers do. */
  readonly endsByStop?: boolean;
}

/** The process that makes a system call. */
export interface CallContext {
  readonly machine: Machine;
  readonly model: ProcessModel;
  readonly convention: Abi['syscall'];
  readonly stackPointer: Abi['stackPointer'];
  readonly wordBytes: 4 | 8;
  readonly endian: Endian;
  readonly signals: Signals;
  readonly space: AddressSpace;
  readonly descriptors: Descriptors;
  readonly files: FollowedFiles;
  readonly sharing: SharedMemory;
  readonly network: Network;
  readonly terminals: Terminals;
  /** What the wall clock showed when the run began: nanoseconds since 1970. */
  readonly date: bigint;
  /** Bytes that repeat from run to run. */
  randomBytes(size: number): Uint8Array;
  /** What `/proc` tells of the process, or of another by its id; null: there is none. */
  procSubject(): ProcSubject;
  procSubjectOf(id: number): ProcSubject | null;
  /** What `/proc` tells of the system. */
  procSystem(): ProcSystem;
  /** What is at a path, seen from the current directory. */
  statusOfPath(path: string): NodeStatus | Errno;
  /** Number of the next pipe, socket or other thing without a name. */
  nextInode(): number;
  /** The path without links; as it is where nothing is there any more. */
  realPath(path: string): string;
  /** A set of signals; null: the program may not read it. */
  loadSet(address: Address): bigint | null;
  /** A 64-bit argument from index `i` on. */
  long(args: Arguments, i: number): bigint;
  /** True when the guest may access the range, of which the stack grows. */
  usable(address: Address, size: number, access: AccessKind): boolean;
  /** The same for a buffer, of which Linux transfers what it can. */
  usableBuffer(address: Address, size: number, access: AccessKind): boolean;
  /**
   * Attempts until there is an answer: at once, and again when `ready` says so. `description` is
   * what it waits for: where that may not wait the answer is EAGAIN.
   */
  attempt(
    description: Description,
    ready: () => boolean,
    attempt: () => bigint | Errno | null,
    patience?: Patience,
  ): Answer;
  /**
   * Waits, and attempts again whenever `ready` says so, until there is an answer.
   */
  retry(ready: () => boolean, attempt: () => bigint | Errno | null, more?: Patience): Answer;
  /** Bytes that the process may read; null: it may not. */
  load(address: Address, size: number): Uint8Array | null;
  /** False: it may not write there. */
  store(address: Address, bytes: Uint8Array): boolean;
  /** A number of `size` bytes, default a word. */
  loadNumber(address: Address, size?: number): bigint | null;
  storeNumbers(address: Address, values: readonly bigint[], size?: number): boolean;
  /** Puts the answer of a system call where the program finds it. */
  answer(answer: bigint | Errno): void;
  /** Notes that the call is not served as Linux serves it. */
  deviate(condition: Condition): void;
  /** The system call waits: it answers when the time has come or a handler has interrupted it. */
  waitFor(wait: Partial<Wait> & Pick<Wait, 'deadline'>): Answer;
  /** Makes the system call again: registers and `pc` are those before it. */
  restarting(): () => void;
}

/**
 * The offset of a transfer, `size` bytes in memory; null: there is none, and the description's
 * position counts.
 */
export function offsetAt(context: CallContext, address: Address, size: number): number | null | Errno {
  if (address === 0n) return null;
  const value = context.loadNumber(address, size);
  if (value === null) return 'EFAULT';
  const offset = BigInt.asIntN(8 * size, value);
  return offset < 0n ? 'EINVAL' : Number(offset);
}
