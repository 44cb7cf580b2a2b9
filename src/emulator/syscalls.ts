/**
 * The Linux system calls of a process with one thread. Numbers, registers and structures come from the target; semantics are
 * here. What is not served returns ENOSYS. Nothing depends on the host: time is the instruction count, random bytes repeat,
 * files are those of the tree that was given.
 *
 * Signals are not delivered: handlers are remembered, and a signal that the process sends itself is ignored or ends it. One
 * that has a handler stops the run as not served.
 */
import type { Abi } from '../arch.js';
import { alignUpBig } from '../bits.js';
import {
  Descriptors,
  directoryEntry,
  type FileStatus,
  type FileSystem,
  joinPath,
  putNumber,
  ReplayedInput,
  statBytes,
  statxBytes,
} from './files.js';
import type { Machine, SyscallHandler, SyscallResult } from './machine.js';
import type { AccessKind, GuestMemory, Permission } from './memory.js';
import type { ProcessModel, StatLayout, SyscallName } from './model.js';
import type { Address, Endian } from '../units.js';

/** Bytes that the guest wrote to a file descriptor. The array is the receiver's. */
export type GuestOutput = (descriptor: number, bytes: Uint8Array) => void;

/** At most `size` bytes of the guest's standard input; none at its end. */
export type GuestInput = (size: number) => Uint8Array;

/** Error numbers; equal on all targets that are served. Source: Linux asm-generic/errno-base.h, errno.h. */
const ERRNO = {
  EPERM: 1, ENOENT: 2, ESRCH: 3, EIO: 5, EBADF: 9, EAGAIN: 11, ENOMEM: 12, EACCES: 13, EFAULT: 14, ENOTDIR: 20, EISDIR: 21, EINVAL: 22,
  EMFILE: 24, ENOTTY: 25, ESPIPE: 29, EROFS: 30, ERANGE: 34, ENAMETOOLONG: 36, ENOSYS: 38, ELOOP: 40, ETIMEDOUT: 110,
} as const; // prettier-ignore
type Errno = keyof typeof ERRNO;

/** A value for the result register, an error, or what happens to the process instead. */
type Answer = bigint | Errno | SyscallResult;

/** Most pieces of a `writev`. */
const IOV_MAX = 1024n;
/** Most bytes of one transfer (MAX_RW_COUNT). */
const TRANSFER_MAX = 0x7fff_f000n;
/** Bytes that one read may bring from the host at a time. */
const READ_MAX = 0x10_0000;
const PATH_MAX = 4096;

const PROT_WRITE = 2n;
const PROT_EXEC = 4n;
const MAP_FIXED = 0x10n;
const MAP_ANONYMOUS = 0x20n;
const PAGE = 4096n;
const CR0_SO = 0x1000_0000n;

/** Open flags that are equal on all targets. Source: Linux asm-generic/fcntl.h. */
const O_ACCMODE = 3n;
const O_CREAT = 0o100n;
const O_TRUNC = 0o1000n;
const AT_FDCWD = -100;
const AT_SYMLINK_NOFOLLOW = 0x100n;
const AT_EMPTY_PATH = 0x1000n;

/** Process id of every program, and thread id of its only thread. */
export const PID = 1000n;
const SIGNALS = 64;
const SIG_IGN = 1n;
/** Signals that do nothing unless they are caught: SIGCHLD, SIGCONT, SIGURG, SIGWINCH. */
const HARMLESS: ReadonlySet<number> = new Set([17, 18, 23, 28]);
const SIGKILL = 9;
const SIGSTOP = 19;

const RLIMIT_STACK = 3n;

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
  readonly model: ProcessModel;
  readonly layout: ProcessLayout;
  readonly wordBytes: 4 | 8;
  readonly output: GuestOutput;
  readonly input: GuestInput;
  readonly files: FileSystem;
}

/** 1 GHz: one instruction a nanosecond. */
const NANOSECONDS = 1_000_000_000n;

function permissionOf(protection: bigint): Permission {
  if (protection === 0n) return 'none';
  const write = (protection & PROT_WRITE) !== 0n;
  const execute = (protection & PROT_EXEC) !== 0n;
  return write ? (execute ? 'rwx' : 'rw') : execute ? 'rx' : 'r';
}

const int = (value: bigint): number => Number(BigInt.asIntN(32, value));

/**
 * The handler for the process in `machine`. What it keeps (the heap's end, mappings, open files, signals, the clock) is part of the
 * machine's snapshots.
 */
export function createSyscalls(machine: Machine, options: SyscallOptions): SyscallHandler {
  const { convention, model } = options;
  const services = new Services(machine, options);
  machine.addState(() => services.save());
  return (): SyscallResult => {
    const name = model.syscalls.get(int(machine.register(convention.number)));
    const args = convention.arguments.map((register) => machine.register(register));
    const answer = name === undefined ? 'ENOSYS' : services[name](args);
    if (typeof answer === 'object') return answer;
    const failed = typeof answer === 'string';
    switch (convention.failure) {
      case 'negative-result':
        machine.setRegister(
          convention.result,
          failed ? BigInt.asUintN(8 * options.wordBytes, BigInt(-ERRNO[answer])) : answer,
        );
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
    return { kind: 'next' };
  };
}

/** Argument registers; calls have at most six. */
type Arguments = readonly bigint[];

/** A system call: argument registers in, answer out. */
type Service = (args: Arguments) => Answer;

/** Argument `i`. */
const arg = (args: Arguments, i: number): bigint => args[i] ?? 0n;

const storeOr = (stored: boolean, result = 0n): bigint | Errno => (stored ? result : 'EFAULT');

/** The bit of `signal` in a set of signals. */
const bit = (signal: number): bigint => 1n << BigInt(signal - 1);

/**
 * The system calls by their names, and what the process keeps from one to the next. Methods rather than closures in one function:
 * V8 compiles each when it is called first, but that function whole, with all that is in it read once more, when a process starts.
 */
class Services implements Readonly<Record<SyscallName, Service>> {
  private readonly model: ProcessModel;
  private readonly layout: ProcessLayout;
  private readonly wordBytes: 4 | 8;
  private readonly output: GuestOutput;
  private readonly files: FileSystem;
  private readonly memory: GuestMemory;
  private readonly endian: Endian;
  private readonly descriptors: Descriptors;
  private readonly input: ReplayedInput;
  private readonly decoder = new TextDecoder();
  private readonly encoder = new TextEncoder();
  /** Bytes of a `struct sigaction`. */
  private readonly actionBytes: number;

  private heapEnd: Address;
  private mappingBottom: Address;
  private random = 0x9e37_79b9;
  /** `struct sigaction` by signal: handler, flags, restorer, mask of 64 bits. */
  private readonly actions = new Map<number, Uint8Array>();
  /** Sets of signals. */
  private blocked = 0n;
  private pending = 0n;

  constructor(
    private readonly machine: Machine,
    options: SyscallOptions,
  ) {
    const { model, layout, wordBytes, output, files } = options;
    this.model = model;
    this.layout = layout;
    this.wordBytes = wordBytes;
    this.output = output;
    this.files = files;
    this.memory = machine.memory;
    this.endian = machine.lifter.endian;
    this.descriptors = new Descriptors(files);
    this.input = new ReplayedInput(options.input);
    this.actionBytes = (model.sigactionRestorer === false ? 2 : 3) * wordBytes + 8;
    this.heapEnd = layout.heapStart;
    this.mappingBottom = layout.mappingTop;
  }

  /** Remembers the state of the process; the function that it returns puts that back. */
  save(): () => void {
    const { heapEnd, mappingBottom, random, blocked, pending } = this;
    const actions = new Map(this.actions);
    const putDescriptorsBack = this.descriptors.save();
    const putInputBack = this.input.save();
    return () => {
      this.heapEnd = heapEnd;
      this.mappingBottom = mappingBottom;
      this.random = random;
      this.blocked = blocked;
      this.pending = pending;
      this.actions.clear();
      for (const [signal, bytes] of actions) this.actions.set(signal, bytes);
      putDescriptorsBack();
      putInputBack();
    };
  }

  // ---------------------------------------------------------------------------------------- arguments, guest memory

  /** A 64-bit argument from index `i` on: one register, or on 32 bits a pair, most significant word first if big-endian. */
  private long(args: Arguments, i: number): bigint {
    if (this.wordBytes === 8) return arg(args, i);
    const pair = i + (i % 2);
    const [first, second] = [arg(args, pair), arg(args, pair + 1)];
    return this.endian === 'big' ? (first << 32n) | second : (second << 32n) | first;
  }

  /** True when the guest may access the range; parts of the stack that were not touched yet are mapped. */
  private usable(address: Address, size: number, access: AccessKind): boolean {
    for (;;) {
      const bad = this.memory.check(address, size, access);
      if (bad === null) return true;
      if (!this.layout.growStack(bad)) return false;
    }
  }

  private load(address: Address, size: number): Uint8Array | null {
    return this.usable(address, size, 'read') ? this.memory.read(address, size) : null;
  }

  private store(address: Address, bytes: Uint8Array): boolean {
    return this.usable(address, bytes.length, 'write') && this.memory.write(address, bytes);
  }

  private loadNumber(address: Address, size: number = this.wordBytes): bigint | null {
    const bytes = this.load(address, size);
    return bytes && this.numberOf(bytes);
  }

  /** The number in `bytes`, which may be reversed. */
  private numberOf(bytes: Uint8Array): bigint {
    if (this.endian === 'little') bytes.reverse();
    return bytes.reduce((value, byte) => (value << 8n) | BigInt(byte), 0n);
  }

  private storeNumbers(address: Address, values: readonly bigint[], size: number = this.wordBytes): boolean {
    const bytes = new Uint8Array(values.length * size);
    values.forEach((value, i) => {
      putNumber(bytes, i * size, size, value, this.endian);
    });
    return this.store(address, bytes);
  }

  // ------------------------------------------------------------------------------------------------- address space

  brk(args: Arguments): Answer {
    const wanted = arg(args, 0);
    const { memory } = this;
    const { heapStart } = this.layout;
    if (wanted < heapStart) return this.heapEnd;
    const oldSize = Number(alignUpBig(this.heapEnd, PAGE) - heapStart);
    const newSize = Number(alignUpBig(wanted, PAGE) - heapStart);
    if (newSize > oldSize) {
      if (oldSize === 0) {
        if (memory.check(heapStart, 1, 'read') === null) return this.heapEnd;
        const others = memory.windows.some(
          (each) => each.address >= heapStart && each.address < heapStart + BigInt(newSize),
        );
        if (others) return this.heapEnd;
        const heap = {
          address: heapStart,
          size: newSize,
          permission: 'rw',
          name: 'heap',
          reserve: 0x10_0000,
        } as const;
        if (memory.tryMap(heap) !== null) return this.heapEnd;
      } else if (!memory.resize(heapStart, newSize)) return this.heapEnd;
    } else if (newSize < oldSize) {
      memory.unmap(heapStart + BigInt(newSize), oldSize - newSize);
    }
    this.heapEnd = wanted;
    return wanted;
  }

  private guards(protection: bigint): boolean {
    const { guard } = this.model;
    return guard !== undefined && (protection & guard.protection) !== 0n;
  }

  /** `offset` in bytes. Files are mapped privately: a copy. */
  private map(args: Arguments, offset: bigint): bigint | Errno {
    const { memory } = this;
    const [hint, length, protection, flags] = [args[0]!, args[1]!, args[2]!, args[3]!];
    let contents: Uint8Array | null = null;
    if (length === 0n || length > 0x1_0000_0000n) return length === 0n ? 'EINVAL' : 'ENOMEM';
    if ((flags & MAP_ANONYMOUS) === 0n) {
      const descriptor = this.descriptors.get(int(args[4]!));
      if (!descriptor) return 'EBADF';
      if (descriptor.kind !== 'file') return 'EACCES';
      if (offset % PAGE !== 0n) return 'EINVAL';
      contents = descriptor.file.read(Number(offset), Number(length));
    }
    const size = alignUpBig(length, PAGE);
    let address = this.mappingBottom - size;
    if ((flags & MAP_FIXED) !== 0n) {
      if (hint % PAGE !== 0n) return 'EINVAL';
      address = hint;
      if (!memory.unmap(address, Number(size))) return 'ENOMEM';
    } else {
      while (memory.windows.some((w) => w.address < address + size && address < w.address + BigInt(w.size))) {
        address -= size;
      }
      if (address < PAGE) return 'ENOMEM';
      this.mappingBottom = address;
    }
    const permission = permissionOf(protection);
    const guarded = this.guards(protection);
    if (memory.tryMap({ address, size: Number(size), permission, guarded, name: 'mapping' }) !== null) return 'ENOMEM';
    if (contents) memory.write(address, contents);
    return address;
  }

  mmap(args: Arguments): Answer {
    return this.map(args, arg(args, 5));
  }

  mmap2(args: Arguments): Answer {
    return this.map(args, arg(args, 5) * PAGE);
  }

  munmap(args: Arguments): Answer {
    const [address, size] = [arg(args, 0), arg(args, 1)];
    if (address % PAGE !== 0n || size === 0n) return 'EINVAL';
    return this.memory.unmap(address, Number(alignUpBig(size, PAGE))) ? 0n : 'ENOMEM';
  }

  mprotect(args: Arguments): Answer {
    const [address, size, protection] = [arg(args, 0), arg(args, 1), arg(args, 2)];
    if (address % PAGE !== 0n) return 'EINVAL';
    const permission = permissionOf(protection);
    const bytes = Number(alignUpBig(size, PAGE));
    return this.memory.protect(address, bytes, permission, this.guards(protection)) ? 0n : 'ENOMEM';
  }

  madvise(): Answer {
    return 0n;
  }

  /** A system call synchronises the CPU by itself. */
  flush_icache(): Answer {
    return 0n;
  }

  // ---------------------------------------------------------------------------------------------- reading, writing

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
        if (!this.usable(address, length, 'write')) return 'EFAULT';
        const bytes = length === 0 ? new Uint8Array() : this.input.read(length);
        this.memory.write(address, bytes);
        return BigInt(bytes.length);
      }
      case 'file': {
        const bytes = descriptor.file.read(at === null ? descriptor.position : Number(at), length);
        if (!this.store(address, bytes)) return 'EFAULT';
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
    const bytes = this.load(address, length);
    if (!bytes) return 'EFAULT';
    this.output(descriptor.number, bytes);
    return BigInt(length);
  }

  /** Does `one` for the pieces of a vector, until one is short. */
  private vector(
    address: Address,
    count: bigint,
    one: (base: Address, size: bigint) => bigint | Errno,
  ): bigint | Errno {
    if (count > IOV_MAX) return 'EINVAL';
    let total = 0n;
    for (let i = 0n; i < count; i++) {
      const at = address + i * BigInt(2 * this.wordBytes);
      const base = this.loadNumber(at);
      const length = this.loadNumber(at + BigInt(this.wordBytes));
      if (base === null || length === null) return 'EFAULT';
      const done = one(base, length);
      if (typeof done === 'string') return total > 0n ? total : done;
      total += done;
      if (done < length) break;
    }
    return total;
  }

  read(args: Arguments): Answer {
    return this.readFrom(int(arg(args, 0)), arg(args, 1), arg(args, 2), null);
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
    const base = bases[Number(BigInt.asUintN(32, whence))];
    if (base === undefined) return 'EINVAL';
    const position = BigInt(base) + offset;
    if (position < 0n || position > BigInt(Number.MAX_SAFE_INTEGER)) return 'EINVAL';
    descriptor.position = Number(position);
    return position;
  }

  lseek(args: Arguments): Answer {
    return this.seek(int(arg(args, 0)), BigInt.asIntN(8 * this.wordBytes, arg(args, 1)), arg(args, 2));
  }

  _llseek(args: Arguments): Answer {
    const offset = BigInt.asIntN(64, (arg(args, 1) << 32n) | arg(args, 2));
    const position = this.seek(int(arg(args, 0)), offset, arg(args, 4));
    return typeof position === 'string' ? position : storeOr(this.storeNumbers(arg(args, 3), [position], 8));
  }

  // --------------------------------------------------------------------------------------------------------- files

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
    const writing = (flags & (O_ACCMODE | O_CREAT | O_TRUNC)) !== 0n;
    const status = files.status(path, (flags & openFlags.noFollow) === 0n);
    if (typeof status === 'string')
      return status === 'ENOENT' && writing && files.status('/', true) !== 'ENOENT' ? 'EROFS' : status;
    if (status.kind === 'link') return 'ELOOP';
    if (writing) return 'EROFS';
    if (status.kind === 'file') {
      if ((flags & openFlags.directory) !== 0n) return 'ENOTDIR';
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
    if ((mode & 2n) !== 0n) return 'EROFS';
    if ((mode & 1n) !== 0n && status.kind === 'file' && (status.permissions & 0o111) === 0) return 'EACCES';
    return 0n;
  }

  access(args: Arguments): Answer {
    return this.accessAt(AT_FDCWD, arg(args, 0), arg(args, 1));
  }

  faccessat(args: Arguments): Answer {
    return this.accessAt(int(arg(args, 0)), arg(args, 1), arg(args, 2));
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
    return 'EROFS';
  }

  fcntl(args: Arguments): Answer {
    const descriptor = this.descriptors.get(int(arg(args, 0)));
    if (!descriptor) return 'EBADF';
    // F_GETFD, F_SETFD, F_GETFL, F_SETFL
    const command = int(arg(args, 1));
    if (command === 3) return descriptor.kind === 'output' ? 1n : 0n;
    return command === 1 || command === 2 || command === 4 ? 0n : 'EINVAL';
  }

  ioctl(args: Arguments): Answer {
    return this.descriptors.get(int(arg(args, 0))) ? 'ENOTTY' : 'EBADF';
  }

  // ------------------------------------------------------------------------------------------- the process, limits

  exit(args: Arguments): Answer {
    return { kind: 'exit', code: Number(arg(args, 0) & 0xffn) };
  }

  exit_group(args: Arguments): Answer {
    return this.exit(args);
  }

  getpid(): Answer {
    return PID;
  }

  getppid(): Answer {
    return 1n;
  }

  gettid(): Answer {
    return PID;
  }

  set_tid_address(): Answer {
    return PID;
  }

  getuid(): Answer {
    return 1000n;
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
    return [resource === RLIMIT_STACK ? BigInt(this.layout.stackBytes) : this.infinity, this.infinity];
  }

  getrlimit(args: Arguments): Answer {
    return storeOr(this.storeNumbers(arg(args, 1), this.limit(arg(args, 0))));
  }

  prlimit64(args: Arguments): Answer {
    if (arg(args, 0) !== 0n && arg(args, 0) !== PID) return 'ESRCH';
    if (arg(args, 3) === 0n) return 0n;
    const wide = this.limit(arg(args, 1)).map((value) => (value === this.infinity ? (1n << 64n) - 1n : value));
    return storeOr(this.storeNumbers(arg(args, 3), wide, 8));
  }

  sched_yield(): Answer {
    return 0n;
  }

  sched_getaffinity(args: Arguments): Answer {
    const size = BigInt(this.wordBytes);
    if (arg(args, 1) < size) return 'EINVAL';
    return storeOr(this.storeNumbers(arg(args, 2), [1n]), size);
  }

  getrandom(args: Arguments): Answer {
    const size = arg(args, 1);
    const bytes = new Uint8Array(Number(size > 256n ? 256n : size));
    for (let i = 0; i < bytes.length; i++) {
      this.random = (Math.imul(this.random, 1_664_525) + 1_013_904_223) >>> 0;
      bytes[i] = this.random >>> 24;
    }
    return storeOr(this.store(arg(args, 0), bytes), BigInt(bytes.length));
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
    if (name === undefined) return 'EINVAL';
    if (code >= 0x1003) return storeOr(this.storeNumbers(arg(args, 1), [this.machine.register(name)]));
    // TASK_SIZE_MAX
    if (arg(args, 1) >= 0x7fff_ffff_f000n) return 'EPERM';
    this.machine.setRegister(name, arg(args, 1));
    return 0n;
  }

  // ---------------------------------------------------------------------------------------------------------- time

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

  clock_gettime(args: Arguments): Answer {
    return storeOr(this.storeTime(arg(args, 1), this.now(), this.wordBytes));
  }

  clock_gettime64(args: Arguments): Answer {
    return storeOr(this.storeTime(arg(args, 1), this.now(), 8));
  }

  clock_getres(args: Arguments): Answer {
    return storeOr(this.storeTime(arg(args, 1), 1n, this.wordBytes));
  }

  clock_getres_time64(args: Arguments): Answer {
    return storeOr(this.storeTime(arg(args, 1), 1n, 8));
  }

  /** Time passes at once. `absolute`: until then, not for so long. */
  private sleep(address: Address, size: number, absolute: boolean): bigint | Errno {
    const seconds = this.loadNumber(address, size);
    const rest = this.loadNumber(address + BigInt(size), size);
    if (seconds === null || rest === null) return 'EFAULT';
    const whole = BigInt.asIntN(8 * size, seconds);
    if (whole < 0n || rest >= NANOSECONDS) return 'EINVAL';
    const wanted = whole * NANOSECONDS + rest;
    const duration = absolute ? wanted - this.now() : wanted;
    if (duration > 0n) this.machine.skipTime(duration);
    return 0n;
  }

  nanosleep(args: Arguments): Answer {
    return this.sleep(arg(args, 0), this.wordBytes, false);
  }

  clock_nanosleep(args: Arguments): Answer {
    return this.sleep(arg(args, 2), this.wordBytes, (arg(args, 1) & 1n) !== 0n);
  }

  clock_nanosleep_time64(args: Arguments): Answer {
    return this.sleep(arg(args, 2), 8, (arg(args, 1) & 1n) !== 0n);
  }

  /** `size`: bytes of the words of the time at which waiting ends. */
  private wait(args: Arguments, size: number): Answer {
    const FUTEX_CLOCK_AND_PRIVATE = 0x180n;
    const command = BigInt.asUintN(32, args[1]!) & ~FUTEX_CLOCK_AND_PRIVATE;
    // WAKE, WAKE_BITSET: nobody sleeps. WAIT, WAIT_BITSET: nobody would wake us.
    if (command === 1n || command === 10n) return 0n;
    if (command !== 0n && command !== 9n) return 'ENOSYS';
    const value = this.loadNumber(args[0]!, 4);
    if (value === null) return 'EFAULT';
    if (value !== BigInt.asUintN(32, args[2]!)) return 'EAGAIN';
    if (args[3] === 0n) return { kind: 'unserved' };
    const waited = this.sleep(args[3]!, size, command === 9n);
    return waited === 0n ? 'ETIMEDOUT' : waited;
  }

  futex(args: Arguments): Answer {
    return this.wait(args, this.wordBytes);
  }

  futex_time64(args: Arguments): Answer {
    return this.wait(args, 8);
  }

  // ------------------------------------------------------------------------------------------------------- signals

  private handlerOf(signal: number): bigint {
    const bytes = this.actions.get(signal)?.slice(0, this.wordBytes);
    return bytes ? this.numberOf(bytes) : 0n;
  }

  private raise(signal: number): Answer {
    if (signal < 0 || signal > SIGNALS) return 'EINVAL';
    if (signal === 0) return 0n;
    if ((this.blocked & bit(signal)) !== 0n) {
      this.pending |= bit(signal);
      return 0n;
    }
    const handler = this.handlerOf(signal);
    if (handler === SIG_IGN || (handler === 0n && HARMLESS.has(signal))) return 0n;
    return handler === 0n ? { kind: 'signal', signal } : { kind: 'unserved' };
  }

  private toSelf(id: bigint, signal: bigint): Answer {
    const target = int(id);
    // The process itself, its group, or everybody.
    return target === Number(PID) || target === 0 || target === -1 ? this.raise(int(signal)) : 'ESRCH';
  }

  kill(args: Arguments): Answer {
    return this.toSelf(arg(args, 0), arg(args, 1));
  }

  tkill(args: Arguments): Answer {
    return this.toSelf(arg(args, 0), arg(args, 1));
  }

  tgkill(args: Arguments): Answer {
    return int(arg(args, 0)) === Number(PID) ? this.toSelf(arg(args, 1), arg(args, 2)) : 'ESRCH';
  }

  rt_sigaction(args: Arguments): Answer {
    const [signal, next, old, size] = [int(arg(args, 0)), arg(args, 1), arg(args, 2), arg(args, 3)];
    if (size !== 8n || signal < 1 || signal > SIGNALS) return 'EINVAL';
    const action = next === 0n ? null : this.load(next, this.actionBytes);
    if (next !== 0n) {
      if (!action) return 'EFAULT';
      if (signal === SIGKILL || signal === SIGSTOP) return 'EINVAL';
    }
    if (old !== 0n && !this.store(old, this.actions.get(signal) ?? new Uint8Array(this.actionBytes))) return 'EFAULT';
    if (action) this.actions.set(signal, action);
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
    const before = this.blocked;
    if (set !== 0n) {
      const wanted = this.loadSet(set);
      if (wanted === null) return 'EFAULT';
      if (how < 0 || how > 2) return 'EINVAL';
      this.blocked = how === 0 ? before | wanted : how === 1 ? before & ~wanted : wanted;
      this.blocked &= ~(bit(SIGKILL) | bit(SIGSTOP));
    }
    if (old !== 0n && !this.storeSet(old, before)) return 'EFAULT';
    for (let signal = 1; signal <= SIGNALS; signal++) {
      if ((this.pending & bit(signal) & ~this.blocked) === 0n) continue;
      this.pending &= ~bit(signal);
      const answer = this.raise(signal);
      if (answer !== 0n) return answer;
    }
    return 0n;
  }

  sigaltstack(): Answer {
    return 0n;
  }
}
