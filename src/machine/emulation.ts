/**
 * What the emulator needs from a machine. Types only: the front end (`Lifter` of `ir.ts`) and what
 * a Linux process of the target finds when it starts. Built in the `arch-*` folders.
 */
import type { Lifter } from './ir.js';
import type { ProofModel } from './proof.js';
import type { SignalModel } from './signals.js';
import type { TerminalModel } from './terminals.js';
import type { RegisterName } from '../units.js';

/** `none` says why programs of the target cannot be executed yet. */
export type EmulationModel = { readonly kind: 'none'; readonly reason: string } | IrEmulation;

export interface IrEmulation {
  readonly kind: 'ir';
  readonly lifter: Lifter;
  readonly process: ProcessModel;
  readonly proof: ProofModel;
  /** Processors that processes can be told of; the first is this one. None: there is no choice. */
  readonly cpus?: readonly Cpu[];
}

/** What a process is told that the processor has: what is executed, or a part of it. */
export interface Cpu {
  /** As on the command line. */
  readonly name: string;
  /** What it has that the first has not. */
  readonly title: string;
  readonly emulation: () => IrEmulation;
}

/** What `stat` reports of a file. */
export type StatField =
  | 'dev'
  | 'ino'
  | 'mode'
  | 'nlink'
  | 'uid'
  | 'gid'
  | 'rdev'
  | 'size'
  | 'blksize'
  | 'blocks'
  | 'atime'
  | 'mtime'
  | 'ctime';

/** A `struct stat` as the kernel writes it; bytes between the fields are zero. */
export interface StatLayout {
  readonly sizeBytes: number;
  /** Offset and size in bytes of each field. */
  readonly fields: Readonly<Record<StatField, readonly [offset: number, sizeBytes: number]>>;
}

/**
 * What holds at a place in a function; offsets in bytes. CFA: the stack pointer as it was at the
 * function's entry.
 */
export interface FrameRule {
  /** CFA = stack or frame pointer + offset. */
  readonly cfa: { readonly register: 'stack' | 'frame'; readonly offset: number };
  /** Where the return address is saved, from the CFA; null: it is in the link register. */
  readonly link: number | null;
  /** Where the caller's frame pointer is saved, from the CFA; null: it is in its register. */
  readonly framePointer: number | null;
}

/** Numbers of options of sockets: PASSCRED, PEERCRED, RCVLOWAT, RCVTIMEO, SNDTIMEO. */
export interface SocketOptions {
  readonly passCredentials: number;
  readonly peerCredentials: number;
  readonly receiveLeast: number;
  readonly receiveTime: number;
  readonly sendTime: number;
}

/**
 * Structures of System V's calls: places of fields, and bytes of the whole. They begin with
 * `struct ipc64_perm`, which is the same but for its last field.
 */
export interface IpcLayout {
  /** Bytes of the sequence number at 24. */
  readonly sequenceBytes: 2 | 4;
  readonly shm: Readonly<
    Record<'size' | 'attached' | 'detached' | 'changed' | 'maker' | 'last' | 'count' | 'bytes', number>
  >;
  readonly sem: Readonly<Record<'operated' | 'changed' | 'count' | 'bytes', number>>;
  readonly msg: Readonly<
    Record<'sent' | 'received' | 'changed' | 'size' | 'count' | 'most' | 'sender' | 'receiver' | 'bytes', number>
  >;
}

/** The state in which a process starts. Register values not named are 0. */
export interface ProcessModel {
  /**
   * `code`: e_entry is the first instruction, and `register`, if not null, holds it too.
   * `descriptor`: e_entry is the address of a function descriptor whose second word goes to `toc`.
   */
  readonly entry:
    | { readonly kind: 'code'; readonly register: RegisterName | null }
    | { readonly kind: 'descriptor'; readonly toc: RegisterName };
  /**
   * AT_HWCAP and AT_HWCAP2: the least that compiled code needs, so that libraries choose plain
   * code.
   */
  readonly hwcap: bigint;
  readonly hwcap2: bigint;
  /** AT_PLATFORM, by which loaders name folders of libraries; default: not announced. */
  readonly platform?: string | undefined;
  /** AT_BASE_PLATFORM is announced, too: of the processor itself, which is the same. */
  readonly hasBasePlatform?: boolean;
  /** AT_DCACHEBSIZE, AT_ICACHEBSIZE; 0: not announced. */
  readonly cacheLineBytes: number;
  /** End of what a process may map, exclusive: TASK_SIZE of Linux. */
  readonly userEnd: bigint;
  /** End of the stack, exclusive. Mappings without an address go below the stack. */
  readonly stackTop: bigint;
  /**
   * The system calls of the target by number, those that are not served too, under their names in
   * Linux; `calls.ts` says what is served.
   */
  readonly syscalls: ReadonlyMap<number, string>;
  /** `machine` of uname. */
  readonly machineName: string;
  /** Structures of `stat`, `lstat`, `fstat`, and of their `64` forms and `newfstatat`. */
  readonly stat: { readonly plain: StatLayout; readonly large: StatLayout };
  /**
   * Where Linux has code of its own in every process, which is not here: [first, end). null:
   * nowhere.
   */
  readonly kernelCode: readonly [from: bigint, to: bigint] | null;
  /**
   * False where `struct sigaction` of the kernel has no `sa_restorer` in front of the mask.
   */
  readonly sigactionRestorer: boolean;
  /**
   * The register that a thread finds its own storage by, and which argument of `clone` it comes
   * from: the fourth (3) or the fifth; the other is the place of the thread's id.
   */
  readonly threads: { readonly pointer: RegisterName; readonly cloneTls: 3 | 4 };
  /** `struct termios`; default: that of asm-generic. */
  readonly terminal?: TerminalModel;
  /** Frames of signal handlers. */
  readonly signals: SignalModel;
  /** AT_MINSIGSTKSZ: bytes of the largest of them. Absent: not announced. */
  readonly signalFrameBytes?: bigint;
  /** O_DIRECTORY, O_NOFOLLOW and O_LARGEFILE. */
  readonly openFlags: { readonly directory: bigint; readonly noFollow: bigint; readonly largeFile: bigint };
  /** Options of sockets whose numbers are not the same on all machines. */
  readonly socketOptions: SocketOptions;
  readonly ipc: IpcLayout;
  /** `struct epoll_event` has no padding in front of its data. */
  readonly packedEvents: boolean;
  /**
   * How return addresses are found from the stack pointer. `back-chain`: it points to the address
   * of the caller's frame, and so on up to 0; each caller's frame holds the address to which its
   * callee returns at `linkOffset` bytes. `frame-record`: a register points to a record of two
   * words, the caller's value of that register (0: none) and the address to which the function
   * returns. `scan`: calls push the return address and nothing links the frames: words of the stack
   * are return addresses where a call ends in front of them that leads to the function of the frame
   * below. `callBefore` gets the bytes in front of an address: the call's target, `indirect`, or
   * null.
   */
  readonly frames:
    | { readonly kind: 'none' }
    | { readonly kind: 'back-chain'; readonly linkOffset: number }
    | {
        readonly kind: 'scan';
        readonly callBefore: (before: Uint8Array, address: bigint) => bigint | 'indirect' | null;
      }
    | {
        /**
         * The code of each function says it: `rule` reads the bytes from a function's entry up to a
         * place in it.
         */
        readonly kind: 'code';
        readonly framePointer: RegisterName;
        readonly rule: (code: Uint8Array) => FrameRule | null;
      }
    | { readonly kind: 'frame-record'; readonly register: RegisterName };
  /**
   * Guarded memory, where the machine has it: the protection bit of `mmap` and `mprotect` (0: there
   * is none), and the property of an executable (type and bits of a property in .note.gnu.property)
   * that guards its own code. null: nothing is guarded.
   */
  readonly guard: { readonly protection: bigint; readonly propertyType: number; readonly propertyBit: number } | null;
  /**
   * Registers that hold the same in all functions, by the symbol whose value they hold (small data
   * anchors).
   */
  readonly anchors: ReadonlyMap<RegisterName, string>;
}
