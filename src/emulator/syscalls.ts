/**
 * The Linux system calls of a process. Numbers, registers and structures come from the target, what
 * is served of each from `calls.ts`; semantics are here, those of threads in `thread-calls.ts` and
 * `futex.ts`. What is not served returns ENOSYS. Nothing depends on the host: time is the
 * instruction count, random bytes repeat, files are those of the tree that was given.
 *
 * Whatever is not done as Linux does it is noted with the machine (`deviate`), under the condition
 * of `calls.ts` that the handler met.
 *
 * What signals do is in `signals.ts`, what waits and who runs next in `scheduler.ts`.
 */
import type { Abi } from '../machine/abi.js';
import { alignUpBig } from '../bits.js';
import {
  Descriptors,
  directoryEntry,
  type FileStatus,
  type FileSystem,
  joinPath,
  OPEN_MAX,
  type OpenFile,
  putNumber,
  ReplayedInput,
  statBytes,
  statxBytes,
} from './files.js';
import type { Machine, SyscallHandler, SyscallResult } from './machine.js';
import type { AccessKind, GuestMemory } from './memory.js';
import type { Permission } from './windows.js';
import {
  type Answer,
  arg,
  type Arguments,
  type CallContext,
  ERRNO,
  type Errno,
  int,
  type Service,
  storeOr,
} from './call-context.js';
import { Scheduler, type Slices } from './scheduler.js';
import { bit, newTimer, type Sent, Signals, SIGNALS } from './signals.js';
import { ThreadCalls, type ThreadCallName } from './thread-calls.js';
import type { Thread, Timer, Wait } from './thread.js';
import { SIGNAL } from '../machine/signals.js';
import type { Cause, Raised } from '../machine/signals.js';
import type { StopReason } from './stops.js';
import { type Condition, CONDITIONS, SERVED_CALLS, type ServiceName } from '../machine/calls.js';
import type { ProcessModel, StatLayout } from '../machine/emulation.js';
import type { Address, Endian } from '../units.js';

/** Bytes that the guest wrote to a file descriptor. The array is the receiver's. */
export type GuestOutput = (descriptor: number, bytes: Uint8Array) => void;

/**
 * At most `size` bytes of the guest's standard input; none at its end; null: there are none yet,
 * and the run stops, `waiting`.
 */
export type GuestInput = (size: number) => Uint8Array | null;

/** Most pieces of a `writev`. */
const IOV_MAX = 1024n;
/** Most bytes of one transfer (MAX_RW_COUNT). */
const TRANSFER_MAX = 0x7fff_f000n;
/** Bytes that one read may bring from the host at a time. */
const READ_MAX = 0x10_0000;
const PATH_MAX = 4096;

const PROT_WRITE = 2n;
const PROT_EXEC = 4n;
/** Read, write, execute, and PROT_SEM, which means nothing today. */
const PROT_KNOWN = 0xfn;
const MAP_SHARED = 1n;
const MAP_PRIVATE = 2n;
const MAP_SHARED_VALIDATE = 3n;
const MAP_TYPE = 0xfn;
const MAP_FIXED = 0x10n;
const MAP_ANONYMOUS = 0x20n;
const MAP_FIXED_NOREPLACE = 0x10_0000n;
/**
 * MAP_GROWSDOWN, MAP_HUGETLB, MAP_SYNC. Other flags say how and when memory is provided, which a
 * program does not see.
 */
const MAP_OTHER_KINDS = 0x100n | 0x4_0000n | 0x8_0000n;
/**
 * Kinds of advice that change nothing but speed; MADV_DONTNEED is 4. Source: Linux
 * asm-generic/mman-common.h.
 */
const ADVICE_WITHOUT_EFFECT: ReadonlySet<number> = new Set([
  0, 1, 2, 3, 8, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 25,
]);
const MADV_DONTNEED = 4;
const PAGE = 4096n;
const CR0_SO = 0x1000_0000n;

/** Open flags that are equal on all targets. Source: Linux asm-generic/fcntl.h. */
const O_ACCMODE = 3n;
const O_CREAT = 0o100n;
const O_EXCL = 0o200n;
const O_TRUNC = 0o1000n;
const O_PATH = 0o10000000n;
const AT_FDCWD = -100;
const AT_SYMLINK_NOFOLLOW = 0x100n;
const AT_EMPTY_PATH = 0x1000n;

/** Process id of every program, and thread id of its first thread. */
export const PID = 1000n;
const USER = 1000n;
/** Codes of `siginfo` of signals that the process sends. */
const SI_USER = 0;
const SI_TKILL = -6;
/** Most timers of a process. */
const TIMERS_MOST = 1024;

/**
 * ARCH_GET_CPUID, ARCH_SET_CPUID, permissions of extended state, mapping of the vDSO. Source: Linux
 * asm/prctl.h of x86.
 */
const OTHER_CODES: ReadonlySet<number> = new Set([
  0x1011, 0x1012, 0x1021, 0x1022, 0x1023, 0x1024, 0x1025, 0x2001, 0x2002, 0x2003,
]); // prettier-ignore

/**
 * FIONREAD, FIONBIO, FIONCLEX, FIOCLEX, FIOASYNC, FIOQSIZE of asm-generic/ioctls.h: all of type T.
 */
const ANY_DESCRIPTOR: ReadonlySet<number> = new Set([0x1b, 0x21, 0x50, 0x51, 0x52, 0x60]);

/**
 * Lowest address that a process may map. Source: Linux, `vm.mmap_min_addr` of Debian and others.
 */
const LOWEST_MAPPING = 0x1_0000n;
const ZEROS_AT_ONCE = 0x10_0000n;
const RLIMIT_STACK = 3n;
const RLIMIT_NOFILE = 7n;
const RLIMITS = 16n;
/** Bytes of memory that the machine says it has. */
const MEMORY_BYTES = 0x4000_0000n;
/** Longest piece that `getrandom` gives at once. */
const RANDOM_MAX = 0x1ff_ffffn;

/** Address space of a process as `brk` and `mmap` change it. */
export interface ProcessLayout {
  /** Where the heap begins; page-aligned. */
  readonly heapStart: Address;
  /** Mappings grow down from here. */
  readonly mappingTop: Address;
  /** Most bytes of the stack. */
  readonly stackBytes: number;
  /** Maps more of the stack if `address` is in it; false when it is not. */
  readonly growStack: (address: Address) => boolean;
}

export interface SyscallOptions {
  readonly convention: Abi['syscall'];
  readonly stackPointer: Abi['stackPointer'];
  readonly model: ProcessModel;
  readonly layout: ProcessLayout;
  readonly wordBytes: 4 | 8;
  readonly output: GuestOutput;
  readonly input: GuestInput;
  readonly files: FileSystem;
  /** How threads share the CPU. */
  readonly slices: Slices;
}

/**
 * Clocks that `clock_gettime` knows; those of the CPU's time, and those that move by ticks. Source:
 * Linux uapi/linux/time.h.
 */
const CLOCKS: ReadonlySet<number> = new Set([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 11]);
const CPU_CLOCKS: ReadonlySet<number> = new Set([2, 3]);
const COARSE_CLOCKS: ReadonlySet<number> = new Set([5, 6]);
/** Nanoseconds of a tick: 250 a second. */
const COARSE_TICK = 4_000_000n;

/** 1 GHz: one instruction a nanosecond. */
const NANOSECONDS = 1_000_000_000n;
const MICROSECOND = 1000n;

function permissionOf(protection: bigint): Permission {
  if (protection === 0n) return 'none';
  const write = (protection & PROT_WRITE) !== 0n;
  const execute = (protection & PROT_EXEC) !== 0n;
  return write ? (execute ? 'rwx' : 'rw') : execute ? 'rx' : 'r';
}

export interface SyscallServer {
  readonly handler: SyscallHandler;
  /** Brings the process to where it can go on; a stop: it cannot. */
  readonly prepare: () => StopReason | null;
  /** Instructions until something interrupts the process; null: nothing will. */
  readonly ticks: () => bigint | null;
  /** A system call found no input; true: other threads go on meanwhile. */
  readonly lacksInput: () => boolean;
  /** Enters the handler of what an instruction raised; false: none runs. */
  readonly raised: (raised: Raised) => boolean;
  /** Notes what Linux would have done otherwise with a signal that ends the process. */
  readonly faulted: (signal: number, address: Address | null) => void;
}

/**
 * Serves the process in `machine`. What it keeps (the heap's end, mappings, open files, signals,
 * the clock) is part of the machine's snapshots.
 */
export function createSyscalls(machine: Machine, options: SyscallOptions): SyscallServer {
  const { convention } = options;
  const services = new Services(machine, options);
  const { scheduler } = services;
  machine.addState(() => services.save());
  const handler = (): SyscallResult => {
    const answer = services.call(
      int(machine.register(convention.number)),
      convention.arguments.map((register) => machine.register(register)),
    );
    if (typeof answer !== 'object') services.answer(answer);
    else if (answer.kind !== 'waits') return answer;
    return services.hasWork ? { kind: 'next', yields: true } : { kind: 'next' };
  };
  return {
    handler,
    prepare: () => scheduler.prepare(),
    ticks: () => scheduler.ticks(),
    lacksInput: () => scheduler.lacksInput(),
    raised: (raised) => services.raised(raised),
    faulted: (signal, address) => {
      services.faulted(signal, address);
    },
  };
}

/** Standard input has nothing yet. Nothing of the call was done. */
class InputPending extends Error {}

/**
 * The system calls by their names, and what the process keeps from one to the next. Methods rather
 * than closures in one function: V8 compiles each when it is called first, but that function whole,
 * with all that is in it read once more, when a process starts.
 */
class Services implements CallContext, Readonly<Record<Exclude<ServiceName, ThreadCallName>, Service>> {
  readonly model: ProcessModel;
  readonly convention: Abi['syscall'];
  readonly stackPointer: Abi['stackPointer'];
  private readonly layout: ProcessLayout;
  readonly wordBytes: 4 | 8;
  private readonly output: GuestOutput;
  private readonly files: FileSystem;
  private readonly memory: GuestMemory;
  readonly endian: Endian;
  private readonly descriptors: Descriptors;
  private readonly input: ReplayedInput;
  readonly signals: Signals;
  private readonly threads: ThreadCalls;
  readonly scheduler: Scheduler;
  private readonly decoder = new TextDecoder();
  private readonly encoder = new TextEncoder();

  private heapEnd: Address;
  /** Nothing is free from here to the top of mappings: a search for room begins here. */
  private mappingBottom: Address;
  private random = 0x9e37_79b9;
  /** Number of the next timer of `timer_create`. */
  private timerCount = 0;
  /** Pages of mapped files that lie behind their ends: begin and end. */
  private behindFiles: readonly (readonly [Address, Address])[] = [];
  /** The system call that is being served. */
  private what = '';

  constructor(
    readonly machine: Machine,
    options: SyscallOptions,
  ) {
    const { model, layout, wordBytes, output, files } = options;
    this.model = model;
    this.convention = options.convention;
    this.stackPointer = options.stackPointer;
    this.layout = layout;
    this.wordBytes = wordBytes;
    this.output = output;
    this.files = files;
    this.memory = machine.memory;
    this.endian = machine.lifter.endian;
    this.descriptors = new Descriptors(files);
    this.input = new ReplayedInput(options.input);
    this.heapEnd = layout.heapStart;
    this.mappingBottom = layout.mappingTop;
    this.signals = new Signals({
      machine,
      model: model.signals,
      wordBytes,
      hasRestorer: model.sigactionRestorer,
      stackPointer: options.stackPointer,
      load: (address, size) => this.load(address, size),
      store: (address, bytes) => this.store(address, bytes),
      mapCode: (code) => this.mapCode(code),
      stops: () => {
        this.deviate('stop-signal');
      },
      user: USER,
      process: PID,
    });
    this.threads = new ThreadCalls({
      context: this,
      id: Number(PID),
      giveWay: () => {
        this.scheduler.giveWay();
      },
    });
    const task = {
      machine,
      signals: this.signals,
      begin: () => {
        this.threads.begin();
      },
      leave: () => {
        this.threads.leave();
      },
    };
    this.scheduler = new Scheduler(task, options.slices);
  }

  /** True when something is to be done before the program goes on. */
  get hasWork(): boolean {
    const { signals, threads } = this;
    return signals.threads.length > 1 || signals.thread.isGone || threads.hasBirths || signals.hasWork;
  }

  /** Puts the answer of a system call where the program finds it. */
  answer(answer: bigint | Errno): void {
    const { machine, wordBytes, convention } = this;
    const failed = typeof answer === 'string';
    switch (convention.failure) {
      case 'negative-result':
        machine.setRegister(convention.result, failed ? BigInt.asUintN(8 * wordBytes, BigInt(-ERRNO[answer])) : answer);
        break;
      case 'cr0-so': {
        machine.setRegister(convention.result, failed ? BigInt(ERRNO[answer]) : answer);
        const cr = machine.register('cr');
        machine.setRegister('cr', failed ? cr | CR0_SO : cr & ~CR0_SO);
        break;
      }
      default:
        convention.failure satisfies never;
    }
  }

  /** Code of the kernel in the process, such as its vDSO holds; null: there is no room. */
  private mapCode(code: Uint8Array): Address | null {
    const address = this.placeFor(0n, PAGE, 0n);
    if (typeof address === 'string') return null;
    const request = { address, size: Number(PAGE), permission: 'rx', name: 'vdso' } as const;
    if (this.memory.tryMap(request) !== null) return null;
    this.memory.write(address, code);
    return address;
  }

  /** Remembers the state of the process; the function that it returns puts that back. */
  save(): () => void {
    const { heapEnd, mappingBottom, random, timerCount, behindFiles } = this;
    const putThreadsBack = this.threads.save();
    const putTurnsBack = this.scheduler.save();
    const putSignalsBack = this.signals.save();
    const putDescriptorsBack = this.descriptors.save();
    const putInputBack = this.input.save();
    return () => {
      this.heapEnd = heapEnd;
      this.mappingBottom = mappingBottom;
      this.random = random;
      this.timerCount = timerCount;
      this.behindFiles = behindFiles;
      putThreadsBack();
      putTurnsBack();
      putSignalsBack();
      putDescriptorsBack();
      putInputBack();
    };
  }

  /** Serves the call with this number. */
  call(number: number, args: Arguments): Answer {
    const name = this.model.syscalls.get(number);
    // Linux has no such call either.
    if (name === undefined) return 'ENOSYS';
    this.what = `system call ${name} (${number})`;
    const served = SERVED_CALLS[name];
    if (!served) {
      this.machine.deviate({ kind: 'refused', what: this.what, why: 'not served: ENOSYS' });
      return 'ENOSYS';
    }
    try {
      const { by } = served;
      const words = served.wide ? 8 : this.wordBytes;
      return isThreadCall(by) ? this.threads[by](args, words) : this[by](args, words);
    } catch (error) {
      if (error instanceof InputPending) return { kind: 'waiting' };
      throw error;
    }
  }

  /** Notes that the call is not served as Linux serves it. */
  deviate(condition: Condition): void {
    this.machine.deviate({ kind: 'half', what: this.what, why: CONDITIONS[condition] });
  }

  private isBehindFile(address: Address): boolean {
    return this.behindFiles.some(([from, to]) => address >= from && address < to);
  }

  private isKernelCode(address: Address): boolean {
    const [from, to] = this.model.kernelCode ?? [0n, 0n];
    return address >= from && address < to;
  }

  /** An instruction raised a signal: enters its handler; false: none runs. */
  raised(raised: Raised): boolean {
    const cause = this.causeOf(raised);
    if (raised.kind === 'access' && this.isKernelCode(raised.address)) return false;
    if (!this.signals.raised(cause)) return false;
    if (raised.kind === 'trap' && raised.trap === 'alignment') {
      const why = 'si_addr is the address of the instruction, where Linux gives that of the access';
      this.machine.deviate({ kind: 'signal', what: `signal ${cause.signal}`, why });
    }
    return true;
  }

  private causeOf(raised: Raised): Cause {
    const cause = this.signals.causeOf(raised);
    if (raised.kind !== 'access' || !this.isBehindFile(raised.address)) return cause;
    return { ...cause, signal: SIGNAL.BUS, code: 2 };
  }

  /** What an instruction that raised `signal` at `address` meets in Linux. */
  faulted(signal: number, address: Address | null): void {
    if (address === null) return;
    if (this.isKernelCode(address)) {
      const why = 'nothing is there, where Linux has code of its own';
      this.machine.deviate({ kind: 'signal', what: `signal ${signal}`, why });
    }
    if (this.isBehindFile(address)) {
      this.machine.deviate({ kind: 'signal', what: `signal ${signal}`, why: CONDITIONS['behind-file'] });
    }
  }

  // ----------------------------------------------------------------------- arguments, guest memory

  /**
   * A 64-bit argument from index `i` on: one register, or on 32 bits a pair, most significant word
   * first if big-endian.
   */
  private long(args: Arguments, i: number): bigint {
    if (this.wordBytes === 8) return arg(args, i);
    const pair = i + (i % 2);
    const [first, second] = [arg(args, pair), arg(args, pair + 1)];
    return this.endian === 'big' ? (first << 32n) | second : (second << 32n) | first;
  }

  /**
   * True when the guest may access the range; parts of the stack that were not touched yet are
   * mapped.
   */
  private usable(address: Address, size: number, access: AccessKind): boolean {
    for (;;) {
      const bad = this.memory.check(address, size, access);
      if (bad === null) return true;
      if (!this.layout.growStack(bad)) return false;
    }
  }

  /** The same for a buffer, of which Linux transfers what it can. */
  private usableBuffer(address: Address, size: number, access: AccessKind): boolean {
    if (this.usable(address, size, access)) return true;
    if (size > 0 && this.usable(address, 1, access)) this.deviate('partial');
    return false;
  }

  load(address: Address, size: number): Uint8Array | null {
    return this.usable(address, size, 'read') ? this.memory.read(address, size) : null;
  }

  store(address: Address, bytes: Uint8Array): boolean {
    return this.usable(address, bytes.length, 'write') && this.memory.write(address, bytes);
  }

  loadNumber(address: Address, size: number = this.wordBytes): bigint | null {
    const bytes = this.load(address, size);
    return bytes && this.numberOf(bytes);
  }

  /** The number in `bytes`, which may be reversed. */
  private numberOf(bytes: Uint8Array): bigint {
    if (this.endian === 'little') bytes.reverse();
    return bytes.reduce((value, byte) => (value << 8n) | BigInt(byte), 0n);
  }

  storeNumbers(address: Address, values: readonly bigint[], size: number = this.wordBytes): boolean {
    const bytes = new Uint8Array(values.length * size);
    values.forEach((value, i) => {
      putNumber(bytes, i * size, size, value, this.endian);
    });
    return this.store(address, bytes);
  }

  // --------------------------------------------------------------------------------- address space

  brk(args: Arguments): Answer {
    const wanted = arg(args, 0);
    const { memory } = this;
    const { heapStart, mappingTop } = this.layout;
    if (wanted < heapStart || wanted > mappingTop) return this.heapEnd;
    const refused = (): bigint => {
      this.deviate('limits');
      return this.heapEnd;
    };
    const oldSize = Number(alignUpBig(this.heapEnd, PAGE) - heapStart);
    const newSize = Number(alignUpBig(wanted, PAGE) - heapStart);
    if (newSize > oldSize) {
      if (oldSize === 0) {
        if (memory.check(heapStart, 1, 'read') === null) return this.heapEnd;
        if (memory.isMapped(heapStart, newSize)) return this.heapEnd;
        const heap = {
          address: heapStart,
          size: newSize,
          permission: 'rw',
          name: 'heap',
          reserve: 0x10_0000,
        } as const;
        if (memory.tryMap(heap) !== null) return refused();
      } else if (memory.isMapped(heapStart + BigInt(oldSize), newSize - oldSize)) return this.heapEnd;
      else if (!memory.resize(heapStart, newSize)) return refused();
    } else if (newSize < oldSize && !memory.unmap(heapStart + BigInt(newSize), oldSize - newSize)) return refused();
    this.heapEnd = wanted;
    return wanted;
  }

  private guards(protection: bigint): boolean {
    const { guard } = this.model;
    return guard !== null && (protection & guard.protection) !== 0n;
  }

  private isMapped(address: Address, size: bigint): boolean {
    return this.memory.isMapped(address, Number(size));
  }

  private outOfMemory(): Errno {
    this.deviate('limits');
    return 'ENOMEM';
  }

  /** Bits of protection that mean something here. */
  private checkProtection(protection: bigint): void {
    const known = PROT_KNOWN | (this.model.guard?.protection ?? 0n);
    if ((protection & ~known) !== 0n) this.deviate('protection');
  }

  /** What is mapped of an open file; an error where it cannot be. */
  private mappedFile(number: number, protection: bigint, type: bigint): OpenFile | Errno {
    const descriptor = this.descriptors.get(number);
    if (!descriptor) return 'EBADF';
    if (descriptor.kind !== 'file') return 'EACCES';
    // Files are open for reading only.
    return type !== MAP_PRIVATE && (protection & PROT_WRITE) !== 0n ? 'EACCES' : descriptor.file;
  }

  /**
   * Where `size` bytes, a multiple of pages, are mapped; an error where they cannot be. The order
   * of the checks is that of Linux, `get_unmapped_area` and `do_mmap`.
   */
  private placeFor(hint: Address, size: bigint, flags: bigint): Address | Errno {
    const { userEnd } = this.model;
    if (size > userEnd) return 'ENOMEM';
    if ((flags & (MAP_FIXED | MAP_FIXED_NOREPLACE)) !== 0n) {
      if (hint > userEnd - size) return 'ENOMEM';
      if (hint % PAGE !== 0n) return 'EINVAL';
      if (hint < LOWEST_MAPPING) return 'EPERM';
      if ((flags & MAP_FIXED_NOREPLACE) !== 0n && this.isMapped(hint, size)) return 'EEXIST';
      return hint;
    }
    const wanted = hint & -PAGE;
    if (wanted >= LOWEST_MAPPING && wanted <= userEnd - size && !this.isMapped(wanted, size)) return wanted;
    // From the top down, into the first gap that is large enough.
    let top = this.mappingBottom;
    for (let first = true; top - size >= LOWEST_MAPPING; first = false) {
      const below = this.memory.lastBelow(top);
      if (below === null || top - below.end >= size) {
        if (first) this.mappingBottom = top - size;
        return top - size;
      }
      if (first && below.end === top) this.mappingBottom = below.address;
      top = below.address;
    }
    return 'ENOMEM';
  }

  /** The least mapping of a length; 0 where rounding it up to pages leaves the address space. */
  private pagesOf(length: bigint): bigint {
    return BigInt.asUintN(8 * this.wordBytes, alignUpBig(length, PAGE));
  }

  /**
   * `offset` in bytes. Files are copied and never written to, so that shared and private mappings
   * are the same.
   */
  private map(args: Arguments, offset: bigint): bigint | Errno {
    const { memory } = this;
    const [hint, length, protection, flags] = [args[0]!, args[1]!, args[2]!, args[3]!];
    const type = flags & MAP_TYPE;
    if (offset % PAGE !== 0n) return 'EINVAL';
    const isAnonymous = (flags & MAP_ANONYMOUS) !== 0n;
    const file = isAnonymous ? null : this.mappedFile(int(args[4]!), protection, type);
    if (file === 'EBADF') return file;
    if (length === 0n) return 'EINVAL';
    const size = this.pagesOf(length);
    if (size === 0n) return 'ENOMEM';
    if (offset / PAGE + size / PAGE >= 1n << BigInt(8 * this.wordBytes)) return 'EOVERFLOW';
    if (memory.hasMostAreas) return 'ENOMEM';
    const address = this.placeFor(hint, size, flags);
    if (typeof address === 'string') return address;
    if (type !== MAP_SHARED && type !== MAP_PRIVATE && type !== MAP_SHARED_VALIDATE) return 'EINVAL';
    if (typeof file === 'string') return file;
    if ((flags & MAP_OTHER_KINDS) !== 0n) this.deviate('mapping-kind');
    this.checkProtection(protection);
    const permission = permissionOf(protection);
    if (permission !== 'none' && !memory.hasRoom(Number(size))) return this.outOfMemory();
    // What a fixed mapping lies on is gone.
    if (!memory.unmap(address, Number(size))) return 'ENOMEM';
    const guarded = this.guards(protection);
    const name = isAnonymous ? 'mapping' : 'file';
    const refusal = memory.tryMap({ address, size: Number(size), permission, guarded, name });
    if (refusal !== null) return refusal.code === 'areas' ? 'ENOMEM' : this.outOfMemory();
    if (file) {
      const contents = file.read(Number(offset), Number(length));
      memory.write(address, contents);
      const end = alignUpBig(BigInt(contents.length), PAGE);
      if (end < size) this.hide(address + end, address + size);
    }
    return address;
  }

  /** Nothing of the range can be accessed: it lies behind the end of the file that is mapped. */
  private hide(from: Address, to: Address): void {
    if (!this.memory.protect(from, Number(to - from), 'none')) this.deviate('limits');
    this.behindFiles = [...this.behindFiles, [from, to]];
  }

  mmap(args: Arguments): Answer {
    return this.map(args, arg(args, 5));
  }

  mmap2(args: Arguments): Answer {
    return this.map(args, arg(args, 5) * PAGE);
  }

  munmap(args: Arguments): Answer {
    const [address, length] = [arg(args, 0), arg(args, 1)];
    const { userEnd } = this.model;
    if (address % PAGE !== 0n || address > userEnd || length > userEnd - address) return 'EINVAL';
    const size = alignUpBig(length, PAGE);
    if (size === 0n) return 'EINVAL';
    if (!this.memory.unmap(address, Number(size))) return 'ENOMEM';
    const end = address + size;
    if (end > this.mappingBottom && address < this.layout.mappingTop) {
      this.mappingBottom = end < this.layout.mappingTop ? end : this.layout.mappingTop;
    }
    return 0n;
  }

  /** What is mapped in front of the first gap changes, as in Linux, before that gap is an error. */
  mprotect(args: Arguments): Answer {
    const [address, length, protection] = [arg(args, 0), arg(args, 1), arg(args, 2)];
    if (address % PAGE !== 0n) return 'EINVAL';
    if (length === 0n) return 0n;
    const size = this.pagesOf(length);
    const end = BigInt.asUintN(8 * this.wordBytes, address + size);
    if (end <= address) return 'ENOMEM';
    this.checkProtection(protection);
    const mapped = this.memory.mappedFrom(address, Number(size));
    const refusal =
      mapped > 0 ? this.memory.tryProtect(address, mapped, permissionOf(protection), this.guards(protection)) : null;
    if (refusal !== null) return refusal.code === 'areas' ? 'ENOMEM' : this.outOfMemory();
    return BigInt(mapped) === size ? 0n : 'ENOMEM';
  }

  madvise(args: Arguments): Answer {
    const [address, length, advice] = [arg(args, 0), arg(args, 1), int(arg(args, 2))];
    if (!ADVICE_WITHOUT_EFFECT.has(advice) && advice !== MADV_DONTNEED) {
      if (advice !== 9 && advice < 100) return 'EINVAL';
      this.deviate('keeps-contents');
      return 'EINVAL';
    }
    if (address % PAGE !== 0n) return 'EINVAL';
    const size = this.pagesOf(length);
    if (length !== 0n && size === 0n) return 'EINVAL';
    const end = BigInt.asUintN(8 * this.wordBytes, address + size);
    if (end < address) return 'EINVAL';
    let at = address;
    for (const window of this.memory.windowsIn(address, Number(end - address))) {
      const from = window.address > at ? window.address : at;
      if (from > at) at = -1n;
      const windowEnd = window.address + BigInt(window.size);
      const to = windowEnd < end ? windowEnd : end;
      if (advice === MADV_DONTNEED) {
        if (window.name === 'file' || window.name === 'segment') this.deviate('keeps-contents');
        else this.clear(from < address ? address : from, to);
      }
      if (at >= 0n) at = to;
    }
    // Holes are left out, and said at the end.
    return at === end ? 0n : 'ENOMEM';
  }

  /** Stores zeros in a range of one window. */
  private clear(from: Address, to: Address): void {
    const zeros = new Uint8Array(Number(to - from < ZEROS_AT_ONCE ? to - from : ZEROS_AT_ONCE));
    for (let at = from; at < to; at += ZEROS_AT_ONCE) {
      this.memory.write(at, to - at < ZEROS_AT_ONCE ? zeros.subarray(0, Number(to - at)) : zeros);
    }
  }

  /** A system call synchronises the CPU by itself. */
  flush_icache(): Answer {
    return 0n;
  }

  // ------------------------------------------------------------------------------ reading, writing

  /** `at`: the position to read from, or null for the descriptor's own, which moves. */
  private readFrom(number: number, address: Address, size: bigint, at: bigint | null): bigint | Errno {
    const descriptor = this.descriptors.get(number);
    const length = Number(size > BigInt(READ_MAX) ? BigInt(READ_MAX) : size);
    switch (descriptor?.kind) {
      case undefined:
      case 'output':
        return 'EBADF';
      case 'directory':
        return 'EISDIR';
      case 'input': {
        if (at !== null) return 'ESPIPE';
        if (!this.usableBuffer(address, length, 'write')) return 'EFAULT';
        const bytes = length === 0 ? new Uint8Array() : this.input.read(length);
        if (bytes === null) throw new InputPending();
        this.memory.write(address, bytes);
        return BigInt(bytes.length);
      }
      case 'file': {
        const most = Number(size > TRANSFER_MAX ? TRANSFER_MAX : size);
        const bytes = descriptor.file.read(at === null ? descriptor.position : Number(at), most);
        if (!this.usableBuffer(address, bytes.length, 'write')) return 'EFAULT';
        this.memory.write(address, bytes);
        if (at === null) descriptor.position += bytes.length;
        return BigInt(bytes.length);
      }
      default:
        return descriptor satisfies never;
    }
  }

  private writeTo(number: number, address: Address, size: bigint): bigint | Errno {
    const descriptor = this.descriptors.get(number);
    if (descriptor?.kind !== 'output') return 'EBADF';
    const length = Number(size > TRANSFER_MAX ? TRANSFER_MAX : size);
    if (!this.usableBuffer(address, length, 'read')) return 'EFAULT';
    this.output(descriptor.number, this.memory.read(address, length)!);
    return BigInt(length);
  }

  /** Does `one` for the pieces of a vector, until one is short. */
  private vector(
    address: Address,
    count: bigint,
    one: (base: Address, size: bigint) => bigint | Errno,
  ): bigint | Errno {
    if (count > IOV_MAX) return 'EINVAL';
    const pieces: (readonly [base: Address, size: bigint])[] = [];
    for (let i = 0n; i < count; i++) {
      const at = address + i * BigInt(2 * this.wordBytes);
      const base = this.loadNumber(at);
      const length = this.loadNumber(at + BigInt(this.wordBytes));
      if (base === null || length === null) return 'EFAULT';
      if (BigInt.asIntN(8 * this.wordBytes, length) < 0n) return 'EINVAL';
      pieces.push([base, length]);
    }
    let total = 0n;
    for (const [base, length] of pieces) {
      const done = this.transfer(() => one(base, length), total > 0n);
      if (done === null) break;
      if (typeof done === 'string') return total > 0n ? total : done;
      total += done;
      if (done < length) break;
    }
    return total;
  }

  read(args: Arguments): Answer {
    return this.readFrom(int(arg(args, 0)), arg(args, 1), arg(args, 2), null);
  }

  /** A piece of a transfer; null where it would wait and pieces before it are done. */
  private transfer(one: () => bigint | Errno, isBegun: boolean): bigint | Errno | null {
    try {
      return one();
    } catch (error) {
      if (isBegun && error instanceof InputPending) return null;
      throw error;
    }
  }

  readv(args: Arguments): Answer {
    const number = int(arg(args, 0));
    return this.vector(arg(args, 1), arg(args, 2), (base, size) => this.readFrom(number, base, size, null));
  }

  pread64(args: Arguments): Answer {
    const offset = BigInt.asIntN(64, this.long(args, 3));
    return offset < 0n || offset > BigInt(Number.MAX_SAFE_INTEGER)
      ? 'EINVAL'
      : this.readFrom(int(arg(args, 0)), arg(args, 1), arg(args, 2), offset);
  }

  write(args: Arguments): Answer {
    return this.writeTo(int(arg(args, 0)), arg(args, 1), arg(args, 2));
  }

  writev(args: Arguments): Answer {
    const number = int(arg(args, 0));
    return this.vector(arg(args, 1), arg(args, 2), (base, size) => this.writeTo(number, base, size));
  }

  private seek(number: number, offset: bigint, whence: bigint): bigint | Errno {
    const descriptor = this.descriptors.get(number);
    if (!descriptor) return 'EBADF';
    if (descriptor.kind !== 'file' && descriptor.kind !== 'directory') return 'ESPIPE';
    const size = descriptor.kind === 'file' ? descriptor.file.status.sizeBytes : 0;
    const bases = [0, descriptor.position, size];
    const from = Number(BigInt.asUintN(32, whence));
    const base = bases[from];
    if (base === undefined) {
      if (from === 3 || from === 4) this.deviate('holes');
      return 'EINVAL';
    }
    const position = BigInt(base) + offset;
    if (position < 0n || position > BigInt(Number.MAX_SAFE_INTEGER)) return 'EINVAL';
    descriptor.position = Number(position);
    return position;
  }

  lseek(args: Arguments): Answer {
    return this.seek(int(arg(args, 0)), BigInt.asIntN(8 * this.wordBytes, arg(args, 1)), arg(args, 2));
  }

  llseek(args: Arguments): Answer {
    const offset = BigInt.asIntN(64, (arg(args, 1) << 32n) | arg(args, 2));
    const position = this.seek(int(arg(args, 0)), offset, arg(args, 4));
    return typeof position === 'string' ? position : storeOr(this.storeNumbers(arg(args, 3), [position], 8));
  }

  // ----------------------------------------------------------------------------------------- files

  /** The path at `address` as the guest means it from descriptor `from`; '' stays ''. */
  private pathAt(from: number, address: Address): { readonly path: string } | Errno {
    const bytes = this.memory.readCString(address, PATH_MAX);
    if (!bytes) return this.memory.check(address, 1, 'read') === null ? 'ENAMETOOLONG' : 'EFAULT';
    const text = this.decoder.decode(bytes);
    if (text === '' || text.startsWith('/') || from === AT_FDCWD) {
      return { path: text === '' ? '' : joinPath('/', text) };
    }
    const base = this.descriptors.get(from);
    if (!base) return 'EBADF';
    return base.kind === 'directory' ? { path: joinPath(base.path, text) } : 'ENOTDIR';
  }

  private openAt(from: number, address: Address, flags: bigint): bigint | Errno {
    const { files, descriptors } = this;
    const { openFlags } = this.model;
    const found = this.pathAt(from, address);
    if (typeof found === 'string') return found;
    const { path } = found;
    if (path === '') return 'ENOENT';
    if ((flags & O_PATH) !== 0n) this.deviate('path-descriptor');
    const creating = (flags & O_CREAT) !== 0n;
    const writing = (flags & (O_ACCMODE | O_TRUNC)) !== 0n;
    const status = files.status(path, (flags & openFlags.noFollow) === 0n);
    if (typeof status === 'string') {
      if (status !== 'ENOENT' || !creating) return status;
      this.deviate('read-only');
      return files.status('/', true) === 'ENOENT' ? status : 'EROFS';
    }
    if (creating && (flags & O_EXCL) !== 0n) return 'EEXIST';
    if (status.kind === 'link') return 'ELOOP';
    if (status.kind === 'directory' && (creating || writing)) return 'EISDIR';
    if (writing) {
      this.deviate('read-only');
      return 'EROFS';
    }
    if (status.kind === 'file') {
      if ((flags & openFlags.directory) !== 0n) return 'ENOTDIR';
      if ((status.permissions & 0o400) === 0) return 'EACCES';
      const file = files.open(path);
      if (typeof file === 'string') return file;
      const number = descriptors.add({ kind: 'file', path, file, position: 0 });
      if (number < 0) file.close();
      return number < 0 ? 'EMFILE' : BigInt(number);
    }
    const number = descriptors.add({ kind: 'directory', path, status, position: 0 });
    return number < 0 ? 'EMFILE' : BigInt(number);
  }

  open(args: Arguments): Answer {
    return this.openAt(AT_FDCWD, arg(args, 0), arg(args, 1));
  }

  openat(args: Arguments): Answer {
    return this.openAt(int(arg(args, 0)), arg(args, 1), arg(args, 2));
  }

  close(args: Arguments): Answer {
    return this.descriptors.close(int(arg(args, 0))) ? 0n : 'EBADF';
  }

  private statusOf(number: number): FileStatus | 'stream' | Errno {
    const descriptor = this.descriptors.get(number);
    if (!descriptor) return 'EBADF';
    if (descriptor.kind === 'file') return descriptor.file.status;
    return descriptor.kind === 'directory' ? descriptor.status : 'stream';
  }

  private statusAt(from: number, address: Address, flags: bigint): FileStatus | 'stream' | Errno {
    const found = this.pathAt(from, address);
    if (typeof found === 'string') return found;
    if (found.path !== '') return this.files.status(found.path, (flags & AT_SYMLINK_NOFOLLOW) === 0n);
    if ((flags & AT_EMPTY_PATH) === 0n) return 'ENOENT';
    return from === AT_FDCWD ? this.files.status('/', true) : this.statusOf(from);
  }

  private storeStatus(status: FileStatus | 'stream' | Errno, layout: StatLayout, to: Address): bigint | Errno {
    if (typeof status === 'string' && status !== 'stream') return status;
    return storeOr(this.store(to, statBytes(status, layout, this.endian)));
  }

  stat(args: Arguments): Answer {
    return this.storeStatus(this.statusAt(AT_FDCWD, arg(args, 0), 0n), this.model.stat.plain, arg(args, 1));
  }

  lstat(args: Arguments): Answer {
    const status = this.statusAt(AT_FDCWD, arg(args, 0), AT_SYMLINK_NOFOLLOW);
    return this.storeStatus(status, this.model.stat.plain, arg(args, 1));
  }

  fstat(args: Arguments): Answer {
    return this.storeStatus(this.statusOf(int(arg(args, 0))), this.model.stat.plain, arg(args, 1));
  }

  stat64(args: Arguments): Answer {
    return this.storeStatus(this.statusAt(AT_FDCWD, arg(args, 0), 0n), this.model.stat.large, arg(args, 1));
  }

  lstat64(args: Arguments): Answer {
    const status = this.statusAt(AT_FDCWD, arg(args, 0), AT_SYMLINK_NOFOLLOW);
    return this.storeStatus(status, this.model.stat.large, arg(args, 1));
  }

  fstat64(args: Arguments): Answer {
    return this.storeStatus(this.statusOf(int(arg(args, 0))), this.model.stat.large, arg(args, 1));
  }

  newfstatat(args: Arguments): Answer {
    const status = this.statusAt(int(arg(args, 0)), arg(args, 1), arg(args, 3));
    return this.storeStatus(status, this.model.stat.large, arg(args, 2));
  }

  statx(args: Arguments): Answer {
    const status = this.statusAt(int(arg(args, 0)), arg(args, 1), arg(args, 2));
    if (typeof status === 'string' && status !== 'stream') return status;
    return storeOr(this.store(arg(args, 4), statxBytes(status, this.endian)));
  }

  private accessAt(from: number, address: Address, mode: bigint): bigint | Errno {
    const status = this.statusAt(from, address, 0n);
    if (typeof status === 'string') return status === 'stream' ? 0n : status;
    if ((mode & 2n) !== 0n) {
      this.deviate('read-only');
      return 'EROFS';
    }
    if ((mode & 1n) !== 0n && status.kind === 'file' && (status.permissions & 0o111) === 0) return 'EACCES';
    return 0n;
  }

  access(args: Arguments): Answer {
    return this.accessAt(AT_FDCWD, arg(args, 0), arg(args, 1));
  }

  faccessat(args: Arguments): Answer {
    return this.accessAt(int(arg(args, 0)), arg(args, 1), arg(args, 2));
  }

  faccessat2(args: Arguments): Answer {
    if (arg(args, 3) !== 0n) this.deviate('access-flags');
    return this.faccessat(args);
  }

  private readLink(from: number, address: Address, to: Address, size: bigint): bigint | Errno {
    const found = this.pathAt(from, address);
    if (typeof found === 'string') return found;
    if (BigInt.asIntN(32, size) <= 0n) return 'EINVAL';
    if (found.path === '') return 'ENOENT';
    const link = this.files.readLink(found.path);
    if (typeof link === 'string') return link;
    const bytes = this.encoder.encode(link.text).subarray(0, Number(BigInt.asUintN(31, size)));
    return storeOr(this.store(to, bytes), BigInt(bytes.length));
  }

  readlink(args: Arguments): Answer {
    return this.readLink(AT_FDCWD, arg(args, 0), arg(args, 1), arg(args, 2));
  }

  readlinkat(args: Arguments): Answer {
    return this.readLink(int(arg(args, 0)), arg(args, 1), arg(args, 2), arg(args, 3));
  }

  getdents64(args: Arguments): Answer {
    const descriptor = this.descriptors.get(int(arg(args, 0)));
    if (!descriptor) return 'EBADF';
    if (descriptor.kind !== 'directory') return 'ENOTDIR';
    const names = this.files.list(descriptor.path);
    if (typeof names === 'string') return names;
    const all = ['.', '..', ...names];
    const pieces: number[] = [];
    const room = Number(BigInt.asUintN(32, arg(args, 2)));
    let { position } = descriptor;
    for (; position < all.length; position++) {
      const name = all[position]!;
      const inside = position < 2 ? descriptor.path : joinPath(descriptor.path, name);
      const status = this.files.status(inside, false);
      if (typeof status === 'string') continue;
      const entry = directoryEntry(this.encoder.encode(name), status.kind, status.inode, position + 1, this.endian);
      if (pieces.length + entry.length > room) {
        if (pieces.length === 0) return 'EINVAL';
        break;
      }
      pieces.push(...entry);
    }
    if (!this.store(arg(args, 1), Uint8Array.from(pieces))) return 'EFAULT';
    descriptor.position = position;
    return BigInt(pieces.length);
  }

  getcwd(args: Arguments): Answer {
    return arg(args, 1) < 2n ? 'ERANGE' : storeOr(this.store(arg(args, 0), this.encoder.encode('/\0')), 2n);
  }

  change_files(): Answer {
    this.deviate('read-only');
    return 'EROFS';
  }

  fcntl(args: Arguments): Answer {
    const descriptor = this.descriptors.get(int(arg(args, 0)));
    if (!descriptor) return 'EBADF';
    const [F_GETFD, F_SETFD, F_GETFL, F_SETFL] = [1, 2, 3, 4];
    const isStream = descriptor.kind === 'input' || descriptor.kind === 'output';
    switch (int(arg(args, 1))) {
      case F_GETFD:
        return descriptor.closeOnExec === true ? 1n : 0n;
      case F_SETFD:
        descriptor.closeOnExec = (arg(args, 2) & 1n) !== 0n;
        return 0n;
      case F_GETFL:
        if (!isStream) this.deviate('descriptor-commands');
        return descriptor.kind === 'output' ? 1n : 0n;
      case F_SETFL:
        // The access mode is no flag that could be set.
        if ((arg(args, 2) & ~O_ACCMODE) !== 0n) this.deviate('non-blocking');
        return 0n;
      default:
        this.deviate('descriptor-commands');
        return 'EINVAL';
    }
  }

  ioctl(args: Arguments): Answer {
    if (!this.descriptors.get(int(arg(args, 0)))) return 'EBADF';
    const request = Number(arg(args, 1) & 0xffffn);
    // Requests of terminals are of type T or t; those of any descriptor that some machines number
    // among them are not theirs.
    const isTerminal = (request >> 8 === 0x54 || request >> 8 === 0x74) && !ANY_DESCRIPTOR.has(request & 0xff);
    if (!isTerminal) this.deviate('requests');
    return 'ENOTTY';
  }

  // --------------------------------------------------------------------------- the process, limits

  exit_group(args: Arguments): Answer {
    return { kind: 'exit', code: Number(arg(args, 0) & 0xffn) };
  }

  getpid(): Answer {
    return PID;
  }

  getppid(): Answer {
    return 1n;
  }

  /** Source: Linux uapi/linux/sysinfo.h. */
  sysinfo(args: Arguments): Answer {
    const word = this.wordBytes;
    const seconds = this.now() / NANOSECONDS;
    const memory = [MEMORY_BYTES, MEMORY_BYTES / 2n, 0n, 0n, 0n, 0n];
    const bytes = new Uint8Array(word === 8 ? 112 : 64);
    [seconds, 0n, 0n, 0n, ...memory].forEach((value, i) => {
      putNumber(bytes, i * word, word, value, this.endian);
    });
    putNumber(bytes, 10 * word, 2, 1, this.endian);
    // Behind the number of processes, padding, and two words for high memory.
    putNumber(bytes, word === 8 ? 104 : 52, 4, 1, this.endian);
    return storeOr(this.store(arg(args, 0), bytes));
  }

  getuid(): Answer {
    return USER;
  }

  uname(args: Arguments): Answer {
    const FIELD_BYTES = 65;
    const bytes = new Uint8Array(6 * FIELD_BYTES);
    ['Linux', 'elftrace', '6.1.0', '#1', this.model.machineName, '(none)'].forEach((text, i) => {
      bytes.set(this.encoder.encode(text), i * FIELD_BYTES);
    });
    return storeOr(this.store(arg(args, 0), bytes));
  }

  /** What stands for no limit, in a word. */
  private get infinity(): bigint {
    return (1n << BigInt(8 * this.wordBytes)) - 1n;
  }

  private limit(resource: bigint): readonly [bigint, bigint] {
    if (resource === RLIMIT_NOFILE) return [BigInt(OPEN_MAX), BigInt(OPEN_MAX)];
    return [resource === RLIMIT_STACK ? BigInt(this.layout.stackBytes) : this.infinity, this.infinity];
  }

  getrlimit(args: Arguments): Answer {
    const resource = BigInt.asUintN(32, arg(args, 0));
    return resource >= RLIMITS ? 'EINVAL' : storeOr(this.storeNumbers(arg(args, 1), this.limit(resource)));
  }

  prlimit64(args: Arguments): Answer {
    const [id, resource, next, old] = [int(arg(args, 0)), BigInt.asUintN(32, arg(args, 1)), arg(args, 2), arg(args, 3)];
    if (resource >= RLIMITS) return 'EINVAL';
    if (next !== 0n && this.load(next, 16) === null) return 'EFAULT';
    if (id !== 0 && !this.signals.find(id)) return 'ESRCH';
    if (next !== 0n) this.deviate('set-limit');
    if (old === 0n) return 0n;
    const words = this.limit(resource).map((value) => (value === this.infinity ? (1n << 64n) - 1n : value));
    return storeOr(this.storeNumbers(old, words, 8));
  }

  getrandom(args: Arguments): Answer {
    const [address, size, flags] = [arg(args, 0), arg(args, 1), BigInt.asUintN(32, arg(args, 2))];
    // GRND_NONBLOCK, GRND_RANDOM, GRND_INSECURE; the last two exclude each other.
    if (flags > 7n || (flags & 6n) === 6n) return 'EINVAL';
    const length = Number(size > RANDOM_MAX ? RANDOM_MAX : size);
    if (!this.usableBuffer(address, length, 'write')) return 'EFAULT';
    const bytes = new Uint8Array(length);
    for (let i = 0; i < bytes.length; i++) {
      this.random = (Math.imul(this.random, 1_664_525) + 1_013_904_223) >>> 0;
      bytes[i] = this.random >>> 24;
    }
    this.memory.write(address, bytes);
    return BigInt(length);
  }

  arch_prctl(args: Arguments): Answer {
    const names: Readonly<Record<number, 'gs_base' | 'fs_base'>> = {
      0x1001: 'gs_base',
      0x1002: 'fs_base',
      0x1003: 'fs_base',
      0x1004: 'gs_base',
    };
    const code = int(arg(args, 0));
    const name = names[code];
    if (name === undefined) {
      if (OTHER_CODES.has(code)) this.deviate('codes');
      return 'EINVAL';
    }
    if (code >= 0x1003) return storeOr(this.storeNumbers(arg(args, 1), [this.machine.register(name)]));
    // TASK_SIZE_MAX
    if (arg(args, 1) >= 0x7fff_ffff_f000n) return 'EPERM';
    this.machine.setRegister(name, arg(args, 1));
    return 0n;
  }

  // ------------------------------------------------------------------------------------------ time

  /** Ticks of the machine are nanoseconds. */
  private now(): bigint {
    return this.machine.time;
  }

  private storeTime(address: Address, time: bigint, size: number): boolean {
    return address === 0n || this.storeNumbers(address, [time / NANOSECONDS, time % NANOSECONDS], size);
  }

  time(args: Arguments): Answer {
    const seconds = this.now() / NANOSECONDS;
    return arg(args, 0) === 0n ? seconds : storeOr(this.storeNumbers(arg(args, 0), [seconds]), seconds);
  }

  gettimeofday(args: Arguments): Answer {
    const time = this.now();
    if (arg(args, 1) !== 0n && !this.storeNumbers(arg(args, 1), [0n, 0n], 4)) return 'EFAULT';
    if (arg(args, 0) === 0n) return 0n;
    return storeOr(this.storeNumbers(arg(args, 0), [time / NANOSECONDS, (time % NANOSECONDS) / 1000n]));
  }

  /** What the clock shows; null: there is no such clock. */
  private clock(id: number): bigint | null {
    if (id < 0) {
      // Of a process, a thread or a device.
      this.deviate('other-clocks');
      return null;
    }
    if (!CLOCKS.has(id)) return null;
    if (CPU_CLOCKS.has(id)) return BigInt(this.machine.totalInstructions);
    const now = this.now();
    return COARSE_CLOCKS.has(id) ? now - (now % COARSE_TICK) : now;
  }

  clock_gettime(args: Arguments, words: 4 | 8): Answer {
    const time = this.clock(int(arg(args, 0)));
    if (time === null) return 'EINVAL';
    return arg(args, 1) === 0n ? 'EFAULT' : storeOr(this.storeTime(arg(args, 1), time, words));
  }

  clock_getres(args: Arguments, words: 4 | 8): Answer {
    const id = int(arg(args, 0));
    if (this.clock(id) === null) return 'EINVAL';
    return storeOr(this.storeTime(arg(args, 1), COARSE_CLOCKS.has(id) ? COARSE_TICK : 1n, words));
  }

  /**
   * Time passes at once, unless a timer expires before. `absolute`: until then, not for so long.
   * `rest`: where what is left is stored.
   */
  private sleep(address: Address, size: number, absolute: boolean, rest: Address): Answer {
    const deadline = this.deadlineOf(address, size, absolute);
    if (typeof deadline === 'string') return deadline;
    if (deadline <= this.now()) return 0n;
    return this.waitFor({
      deadline,
      expired: () => {
        this.answer(0n);
      },
      interrupted: () => {
        const left = deadline - this.now();
        const stored = absolute || rest === 0n || this.storeTime(rest, left > 0n ? left : 0n, size);
        this.answer(stored ? 'EINTR' : 'EFAULT');
      },
    });
  }

  /** The time of the machine that the time at `address` stands for. */
  deadlineOf(address: Address, size: number, absolute: boolean): bigint | Errno {
    const wrong = this.checkTime(address, size);
    if (wrong !== null) return wrong;
    const [seconds, rest] = this.loadTime(address, size)!;
    const wanted = seconds * NANOSECONDS + rest;
    return absolute ? wanted : this.now() + wanted;
  }

  /** The system call waits: it answers when the time has come or a handler has interrupted it. */
  waitFor(wait: Partial<Wait> & Pick<Wait, 'deadline'>): Answer {
    const { machine, signals } = this;
    const instruction = machine.pc;
    if (wait.deadline !== null && !this.hasWork) {
      machine.skipTime(wait.deadline - this.now());
      if (wait.mask) signals.setMask(wait.mask);
      wait.over?.();
      wait.expired?.();
      return { kind: 'waits' };
    }
    signals.thread.waiting = {
      ready: null,
      woken: () => undefined,
      over: null,
      expired: () => undefined,
      interrupted: () => {
        this.answer('EINTR');
      },
      restart: null,
      accepts: 0n,
      accepted: () => undefined,
      mask: null,
      instruction,
      ...wait,
    };
    return { kind: 'waits' };
  }

  /** What is wrong with the time at `address`; null: nothing. */
  checkTime(address: Address, size: number): Errno | null {
    const time = this.loadTime(address, size);
    if (time === null) return 'EFAULT';
    const [seconds, rest] = time;
    return seconds < 0n || rest < 0n || rest >= NANOSECONDS ? 'EINVAL' : null;
  }

  /** Seconds and the rest, signed. On 32 bits the upper half of a wide rest is padding. */
  private loadTime(address: Address, size: number): readonly [bigint, bigint] | null {
    const seconds = this.loadNumber(address, size);
    const rest = this.loadNumber(address + BigInt(size), size);
    if (seconds === null || rest === null) return null;
    return [BigInt.asIntN(8 * size, seconds), BigInt.asIntN(8 * this.wordBytes, rest)];
  }

  nanosleep(args: Arguments): Answer {
    return this.sleep(arg(args, 0), this.wordBytes, false, arg(args, 1));
  }

  clock_nanosleep(args: Arguments, words: 4 | 8): Answer {
    const id = int(arg(args, 0));
    if (this.clock(id) === null || COARSE_CLOCKS.has(id) || id === 3 || id === 4) return 'EINVAL';
    if (CPU_CLOCKS.has(id)) {
      this.deviate('other-clocks');
      return 'EINVAL';
    }
    return this.sleep(arg(args, 2), words, (arg(args, 1) & 1n) !== 0n, arg(args, 3));
  }

  /** Makes the system call again: registers and `pc` are those before it. */
  restarting(): () => void {
    const { machine } = this;
    const { number, arguments: [first], failure } = this.convention; // prettier-ignore
    const registers = [number, first!].map((name) => [name, machine.register(name)] as const);
    const cr = failure === 'cr0-so' ? machine.register('cr') : null;
    const instruction = machine.pc;
    return () => {
      for (const [name, value] of registers) machine.setRegister(name, value);
      if (cr !== null) machine.setRegister('cr', cr);
      machine.setRegister('pc', instruction);
    };
  }

  // --------------------------------------------------------------------------------------- signals

  /** What a system call answers that sent a signal. */
  private sent(sent: Sent, signal: number): Answer {
    switch (sent) {
      case 'done':
        return 0n;
      case 'full':
        return 'EAGAIN';
      case 'kills':
        return { kind: 'signal', signal };
      case 'stops':
        this.deviate('stop-signal');
        return { kind: 'unserved' };
      default:
        return sent satisfies never;
    }
  }

  /** `to` null: the process, whichever of its threads. */
  private raise(signal: number, info: Uint8Array, to: Thread | null): Answer {
    if (signal < 0 || signal > SIGNALS) return 'EINVAL';
    return signal === 0 ? 0n : this.sent(this.signals.send(signal, info, to), signal);
  }

  /** There is no other process, as far as this process can know. */
  private toOthers(signal: number): Errno {
    if (signal < 0 || signal > SIGNALS) return 'EINVAL';
    this.deviate('other-processes');
    return 'ESRCH';
  }

  kill(args: Arguments): Answer {
    const [id, signal] = [int(arg(args, 0)), int(arg(args, 1))];
    // The process itself, or its group, of which it is the only member.
    const isOwn = id === Number(PID) || id === 0;
    return isOwn ? this.raise(signal, this.signals.ownInfo(signal, SI_USER), null) : this.toOthers(signal);
  }

  tkill(args: Arguments): Answer {
    const [id, signal] = [int(arg(args, 0)), int(arg(args, 1))];
    if (id <= 0) return 'EINVAL';
    return this.toThread(id, signal, this.signals.ownInfo(signal, SI_TKILL));
  }

  tgkill(args: Arguments): Answer {
    const [group, id, signal] = [int(arg(args, 0)), int(arg(args, 1)), int(arg(args, 2))];
    if (group <= 0 || id <= 0) return 'EINVAL';
    if (group !== Number(PID)) return this.toOthers(signal);
    return this.toThread(id, signal, this.signals.ownInfo(signal, SI_TKILL));
  }

  /** A signal for one thread. */
  private toThread(id: number, signal: number, info: Uint8Array): Answer {
    const to = this.signals.find(id);
    if (to) return this.raise(signal, info, to);
    return signal < 0 || signal > SIGNALS ? 'EINVAL' : 'ESRCH';
  }

  /** `siginfo` that a program gives. */
  private infoAt(signal: number, address: Address): Uint8Array | null {
    const info = this.load(address, 128);
    if (info) putNumber(info, 0, 4, BigInt(Math.max(0, signal)), this.endian);
    return info;
  }

  rt_sigqueueinfo(args: Arguments): Answer {
    const [id, signal] = [int(arg(args, 0)), int(arg(args, 1))];
    const info = this.infoAt(signal, arg(args, 2));
    if (!info) return 'EFAULT';
    return id === Number(PID) ? this.raise(signal, info, null) : this.toOthers(signal);
  }

  rt_tgsigqueueinfo(args: Arguments): Answer {
    const [group, id, signal] = [int(arg(args, 0)), int(arg(args, 1)), int(arg(args, 2))];
    if (group <= 0 || id <= 0) return 'EINVAL';
    const info = this.infoAt(signal, arg(args, 3));
    if (!info) return 'EFAULT';
    return group === Number(PID) ? this.toThread(id, signal, info) : this.toOthers(signal);
  }

  rt_sigaction(args: Arguments): Answer {
    const [signal, next, old, size] = [int(arg(args, 0)), arg(args, 1), arg(args, 2), arg(args, 3)];
    if (size !== 8n || signal < 1 || signal > SIGNALS) return 'EINVAL';
    const action = next === 0n ? null : this.load(next, this.signals.actionBytes);
    if (next !== 0n) {
      if (!action) return 'EFAULT';
      if (signal === SIGNAL.KILL || signal === SIGNAL.STOP) return 'EINVAL';
    }
    if (old !== 0n && !this.store(old, this.signals.actionOf(signal))) return 'EFAULT';
    if (action) this.signals.setAction(signal, action);
    return 0n;
  }

  private loadSet(address: Address): bigint | null {
    const low = this.loadNumber(address);
    if (low === null || this.wordBytes === 8) return low;
    const high = this.loadNumber(address + 4n);
    return high === null ? null : low | (high << 32n);
  }

  private storeSet(address: Address, set: bigint): boolean {
    return this.storeNumbers(address, this.wordBytes === 8 ? [set] : [set & 0xffff_ffffn, set >> 32n]);
  }

  rt_sigprocmask(args: Arguments): Answer {
    const [how, set, old, size] = [int(args[0]!), args[1]!, args[2]!, args[3]!];
    if (size !== 8n) return 'EINVAL';
    const before = this.signals.blocked;
    if (set !== 0n) {
      const wanted = this.loadSet(set);
      if (wanted === null) return 'EFAULT';
      if (how < 0 || how > 2) return 'EINVAL';
      this.signals.setMask(how === 0 ? before | wanted : how === 1 ? before & ~wanted : wanted);
    }
    if (old !== 0n && !this.storeSet(old, before)) return 'EFAULT';
    const { fatal } = this.signals;
    return fatal === null ? 0n : this.sent(fatal.kind, fatal.signal);
  }

  rt_sigpending(args: Arguments): Answer {
    // Linux takes smaller sets, too.
    if (arg(args, 1) !== 8n) return 'EINVAL';
    return storeOr(this.storeSet(arg(args, 0), this.signals.pendingSet & this.signals.blocked));
  }

  rt_sigsuspend(args: Arguments): Answer {
    if (arg(args, 1) !== 8n) return 'EINVAL';
    const set = this.loadSet(arg(args, 0));
    if (set === null) return 'EFAULT';
    const mask = this.signals.blocked;
    this.signals.setMask(set);
    return this.waitFor({ deadline: null, mask });
  }

  /** What of `events` a descriptor is ready for. */
  private readiness(number: number, events: bigint): bigint {
    const [IN, OUT, NVAL] = [1n | 0x40n, 4n | 0x100n, 0x20n];
    switch (this.descriptors.get(number)?.kind) {
      case undefined:
        return NVAL;
      case 'input':
        if ((events & IN) !== 0n) this.deviate('input-ready');
        return events & IN;
      case 'output':
        return events & OUT;
      default:
        return events & (IN | OUT);
    }
  }

  /** `struct pollfd`: descriptor of 4 bytes, events and what came of 2 each. */
  private pollFor(args: Arguments, deadline: bigint | null, mask: bigint | null): Answer {
    const [address, count] = [arg(args, 0), BigInt.asUintN(32, arg(args, 1))];
    if (count > BigInt(OPEN_MAX)) return 'EINVAL';
    let ready = 0n;
    for (let at = address; at < address + 8n * count; at += 8n) {
      const descriptor = this.loadNumber(at, 4);
      const events = this.loadNumber(at + 4n, 2);
      if (descriptor === null || events === null) return 'EFAULT';
      const came = int(descriptor) < 0 ? 0n : this.readiness(int(descriptor), events);
      if (!this.storeNumbers(at + 6n, [came], 2)) return 'EFAULT';
      if (came !== 0n) ready++;
    }
    if (ready > 0n || (deadline !== null && deadline <= this.now())) return ready;
    const before = this.signals.blocked;
    if (mask !== null) this.signals.setMask(mask);
    return this.waitFor({
      deadline,
      mask: mask === null ? null : before,
      expired: () => {
        this.answer(0n);
      },
    });
  }

  poll(args: Arguments): Answer {
    const milliseconds = int(arg(args, 2));
    return this.pollFor(args, milliseconds < 0 ? null : this.now() + BigInt(milliseconds) * 1_000_000n, null);
  }

  ppoll(args: Arguments, words: 4 | 8): Answer {
    const [time, set] = [arg(args, 2), arg(args, 3)];
    const deadline = time === 0n ? null : this.deadlineOf(time, words, false);
    if (typeof deadline === 'string') return deadline;
    if (set !== 0n && arg(args, 4) !== 8n) return 'EINVAL';
    const mask = set === 0n ? null : this.loadSet(set);
    if (set !== 0n && mask === null) return 'EFAULT';
    return this.pollFor(args, deadline, mask);
  }

  pause(): Answer {
    return this.waitFor({ deadline: null });
  }

  rt_sigtimedwait(args: Arguments, words: 4 | 8): Answer {
    const [wanted, info, time, size] = [arg(args, 0), arg(args, 1), arg(args, 2), arg(args, 3)];
    if (size !== 8n) return 'EINVAL';
    const set = this.loadSet(wanted);
    if (set === null) return 'EFAULT';
    const deadline = time === 0n ? null : this.deadlineOf(time, words, false);
    if (typeof deadline === 'string') return deadline;
    const accepted = (signal: number, found: Uint8Array): bigint | Errno =>
      storeOr(info === 0n || this.store(info, found), BigInt(signal));
    const accepts = set & ~(bit(SIGNAL.KILL) | bit(SIGNAL.STOP));
    const here = this.signals.take(accepts);
    if (here) return accepted(here.signal, here.info);
    if (deadline !== null && deadline <= this.now()) return 'EAGAIN';
    return this.waitFor({
      deadline,
      accepts,
      expired: () => {
        this.answer('EAGAIN');
      },
      accepted: (signal, found) => {
        this.answer(accepted(signal, found));
      },
    });
  }

  rt_sigreturn(): Answer {
    return this.signals.leave(false) ? { kind: 'resumed' } : { kind: 'signal', signal: SIGNAL.SEGV };
  }

  sigreturn(): Answer {
    if (this.model.signals.leaveOld === undefined) return 'ENOSYS';
    return this.signals.leave(true) ? { kind: 'resumed' } : { kind: 'signal', signal: SIGNAL.SEGV };
  }

  sigaltstack(args: Arguments): Answer {
    const [next, old] = [arg(args, 0), arg(args, 1)];
    const word = this.wordBytes;
    const before = this.signals.shownStack;
    if (next !== 0n) {
      const pointer = this.loadNumber(next);
      const flags = this.loadNumber(next + BigInt(word), 4);
      const size = this.loadNumber(next + BigInt(2 * word));
      if (pointer === null || flags === null || size === null) return 'EFAULT';
      const done = this.signals.setStack({ pointer, flags, size });
      if (done === 'small') this.deviate('small-stack');
      else if (done !== 'done') return done;
    }
    if (old === 0n) return 0n;
    const bytes = new Uint8Array(3 * word);
    putNumber(bytes, 0, word, before.pointer, this.endian);
    putNumber(bytes, word, 4, before.flags, this.endian);
    putNumber(bytes, 2 * word, word, before.size, this.endian);
    return storeOr(this.store(old, bytes));
  }

  // ---------------------------------------------------------------------------------------- timers

  /** Interval and time that is left, in units of `unit` nanoseconds. */
  private timeLeft(timer: Timer, unit: bigint): readonly bigint[] {
    const { expiry, interval } = timer;
    const left = expiry === null ? 0n : expiry - this.signals.clock(timer);
    // A timer that is set and has nothing left expires at once.
    const shown = expiry !== null && left <= 0n ? 1n : left;
    return [interval, shown].flatMap((each) => [each / NANOSECONDS, (each % NANOSECONDS) / unit]);
  }

  /** Interval and first time of a timer at an address; an error where they are none. */
  private timesOf(address: Address, size: number, unit: bigint): readonly [bigint, bigint] | Errno {
    const times = [0n, 1n].map((i) => this.loadTime(address + i * BigInt(2 * size), size));
    const out: bigint[] = [];
    for (const time of times) {
      if (time === null) return 'EFAULT';
      const [seconds, rest] = time;
      if (seconds < 0n || rest < 0n || rest >= NANOSECONDS / unit) return 'EINVAL';
      out.push(seconds * NANOSECONDS + rest * unit);
    }
    return [out[0]!, out[1]!];
  }

  getitimer(args: Arguments): Answer {
    const timer = this.signals.intervalTimers[int(arg(args, 0))];
    return timer ? storeOr(this.storeNumbers(arg(args, 1), this.timeLeft(timer, MICROSECOND))) : 'EINVAL';
  }

  setitimer(args: Arguments): Answer {
    const timer = this.signals.intervalTimers[int(arg(args, 0))];
    const [next, old] = [arg(args, 1), arg(args, 2)];
    const times = next === 0n ? ([0n, 0n] as const) : this.timesOf(next, this.wordBytes, MICROSECOND);
    if (typeof times === 'string') return times;
    if (!timer) return 'EINVAL';
    const before = this.timeLeft(timer, MICROSECOND);
    const [interval, first] = times;
    timer.interval = interval;
    timer.expiry = first === 0n ? null : this.signals.clock(timer) + first;
    return old === 0n ? 0n : storeOr(this.storeNumbers(old, before));
  }

  alarm(args: Arguments): Answer {
    const timer = this.signals.intervalTimers[0]!;
    const [, , seconds, rest] = this.timeLeft(timer, MICROSECOND);
    const wanted = BigInt.asUintN(32, arg(args, 0)) * NANOSECONDS;
    timer.interval = 0n;
    timer.expiry = wanted === 0n ? null : this.now() + wanted;
    // Rounded as Linux does: never to no time at all.
    const isUp = (seconds === 0n && rest! > 0n) || rest! >= 500_000n;
    return seconds! + (isUp ? 1n : 0n);
  }

  timer_create(args: Arguments): Answer {
    const [id, event, place] = [int(arg(args, 0)), arg(args, 1), arg(args, 2)];
    const word = this.wordBytes;
    if (!CLOCKS.has(id) || COARSE_CLOCKS.has(id) || id === 4) {
      if (id < 0) this.deviate('other-clocks');
      return 'EINVAL';
    }
    const { timers } = this.signals;
    if (timers.size >= TIMERS_MOST) return 'EAGAIN';
    const number = this.timerCount;
    let [value, signal, notify] = [BigInt(number), 14, 0];
    let thread: number | null = null;
    if (event !== 0n) {
      const loaded = this.loadNumber(event);
      const numbers = [0n, 4n, 8n].map((at) => this.loadNumber(event + BigInt(word) + at, 4));
      if (loaded === null || numbers.includes(null)) return 'EFAULT';
      [value, signal, notify] = [loaded, int(numbers[0]!), int(numbers[1]!)];
      if (notify === 4) thread = int(numbers[2]!);
      // SIGEV_SIGNAL, SIGEV_NONE, SIGEV_THREAD_ID.
      const isKnown = notify === 0 || notify === 1 || (thread !== null && this.signals.find(thread) !== null);
      if (!isKnown || (notify !== 1 && (signal < 1 || signal > SIGNALS))) return 'EINVAL';
    }
    if (!this.storeNumbers(place, [BigInt(number)], 4)) return 'EFAULT';
    const sends = notify === 1 ? 0 : signal;
    const info = sends === 0 ? null : this.signals.timerInfo(sends, number, value);
    timers.set(number, newTimer(CPU_CLOCKS.has(id) ? 'cpu' : 'real', sends, info, thread));
    this.timerCount++;
    return 0n;
  }

  private timer(args: Arguments): Timer | undefined {
    return this.signals.timers.get(int(arg(args, 0)));
  }

  timer_settime(args: Arguments, words: 4 | 8): Answer {
    const [flags, next, old] = [arg(args, 1), arg(args, 2), arg(args, 3)];
    if (next === 0n) return 'EINVAL';
    const times = this.timesOf(next, words, 1n);
    if (typeof times === 'string') return times;
    const timer = this.timer(args);
    if (!timer) return 'EINVAL';
    const before = this.timeLeft(timer, 1n);
    const [interval, first] = times;
    const TIMER_ABSTIME = 1n;
    const isAbsolute = (flags & TIMER_ABSTIME) !== 0n;
    timer.interval = interval;
    timer.overrun = 0n;
    timer.expiry = first === 0n ? null : isAbsolute ? first : this.signals.clock(timer) + first;
    return old === 0n ? 0n : storeOr(this.storeNumbers(old, before, words));
  }

  timer_gettime(args: Arguments, words: 4 | 8): Answer {
    const timer = this.timer(args);
    return timer ? storeOr(this.storeNumbers(arg(args, 1), this.timeLeft(timer, 1n), words)) : 'EINVAL';
  }

  timer_getoverrun(args: Arguments): Answer {
    const timer = this.timer(args);
    if (!timer) return 'EINVAL';
    return timer.overrun > 0x7fff_ffffn ? 0x7fff_ffffn : timer.overrun;
  }

  timer_delete(args: Arguments): Answer {
    return this.signals.timers.delete(int(arg(args, 0))) ? 0n : 'EINVAL';
  }
}

const THREAD_CALLS: ReadonlySet<string> = new Set<ThreadCallName>([
  'clone', 'clone3', 'exit', 'futex', 'get_robust_list', 'gettid', 'rseq', 'sched_getaffinity', 'sched_yield', 'set_robust_list', 'set_tid_address',
]); // prettier-ignore

function isThreadCall(name: ServiceName): name is ThreadCallName {
  return THREAD_CALLS.has(name);
}
