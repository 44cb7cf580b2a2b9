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
import type { AccessKind, Permission } from './memory.js';
import type { ProcessModel, StatLayout, SyscallName } from './model.js';
import type { Address } from '../units.js';

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
  const table = services(machine, options);
  return (): SyscallResult => {
    const name = model.syscalls.get(int(machine.register(convention.number)));
    const args = convention.arguments.map((register) => machine.register(register));
    const answer = name === undefined ? 'ENOSYS' : table[name](args);
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

/** A system call: argument registers in, answer out. */
type Service = (args: readonly bigint[]) => Answer;

function services(machine: Machine, options: SyscallOptions): Readonly<Record<SyscallName, Service>> {
  const { model, layout, wordBytes, output, files } = options;
  const { memory } = machine;
  const { endian } = machine.lifter;
  const descriptors = new Descriptors(files);
  const input = new ReplayedInput(options.input);
  let heapEnd = layout.heapStart;
  let mappingBottom = layout.mappingTop;
  let random = 0x9e37_79b9;

  // -------------------------------------------------------------------------------------------------- guest memory

  /** True when the guest may access the range; parts of the stack that were not touched yet are mapped. */
  const usable = (address: Address, size: number, access: AccessKind): boolean => {
    for (;;) {
      const bad = memory.check(address, size, access);
      if (bad === null) return true;
      if (!layout.growStack(bad)) return false;
    }
  };
  const load = (address: Address, size: number): Uint8Array | null =>
    usable(address, size, 'read') ? memory.read(address, size) : null;
  const store = (address: Address, bytes: Uint8Array): boolean =>
    usable(address, bytes.length, 'write') && memory.write(address, bytes);
  const loadNumber = (address: Address, size: number = wordBytes): bigint | null => {
    const bytes = load(address, size);
    if (!bytes) return null;
    if (endian === 'little') bytes.reverse();
    return bytes.reduce((value, byte) => (value << 8n) | BigInt(byte), 0n);
  };
  const storeNumbers = (address: Address, values: readonly bigint[], size: number = wordBytes): boolean => {
    const bytes = new Uint8Array(values.length * size);
    values.forEach((value, i) => {
      putNumber(bytes, i * size, size, value, endian);
    });
    return store(address, bytes);
  };
  const storeOr = (stored: boolean, result = 0n): bigint | Errno => (stored ? result : 'EFAULT');

  // ------------------------------------------------------------------------------------------------- address space

  const brk = (wanted: Address): bigint => {
    if (wanted < layout.heapStart) return heapEnd;
    const oldSize = Number(alignUpBig(heapEnd, PAGE) - layout.heapStart);
    const newSize = Number(alignUpBig(wanted, PAGE) - layout.heapStart);
    if (newSize > oldSize) {
      if (oldSize === 0) {
        if (memory.check(layout.heapStart, 1, 'read') === null) return heapEnd;
        const others = memory.windows.some(
          (each) => each.address >= layout.heapStart && each.address < layout.heapStart + BigInt(newSize),
        );
        if (others) return heapEnd;
        const heap = {
          address: layout.heapStart,
          size: newSize,
          permission: 'rw',
          name: 'heap',
          reserve: 0x10_0000,
        } as const;
        if (memory.tryMap(heap) !== null) return heapEnd;
      } else if (!memory.resize(layout.heapStart, newSize)) return heapEnd;
    } else if (newSize < oldSize) {
      memory.unmap(layout.heapStart + BigInt(newSize), oldSize - newSize);
    }
    heapEnd = wanted;
    return heapEnd;
  };

  const guards = (protection: bigint): boolean =>
    model.guard !== undefined && (protection & model.guard.protection) !== 0n;

  /** `offset` in bytes. Files are mapped privately: a copy. */
  const mmap = (args: readonly bigint[], offset: bigint): bigint | Errno => {
    const [hint, length, protection, flags] = [args[0]!, args[1]!, args[2]!, args[3]!];
    let contents: Uint8Array | null = null;
    if (length === 0n || length > 0x1_0000_0000n) return length === 0n ? 'EINVAL' : 'ENOMEM';
    if ((flags & MAP_ANONYMOUS) === 0n) {
      const descriptor = descriptors.get(int(args[4]!));
      if (!descriptor) return 'EBADF';
      if (descriptor.kind !== 'file') return 'EACCES';
      if (offset % PAGE !== 0n) return 'EINVAL';
      contents = descriptor.file.read(Number(offset), Number(length));
    }
    const size = alignUpBig(length, PAGE);
    let address = mappingBottom - size;
    if ((flags & MAP_FIXED) !== 0n) {
      if (hint % PAGE !== 0n) return 'EINVAL';
      address = hint;
      if (!memory.unmap(address, Number(size))) return 'ENOMEM';
    } else {
      while (memory.windows.some((w) => w.address < address + size && address < w.address + BigInt(w.size))) {
        address -= size;
      }
      if (address < PAGE) return 'ENOMEM';
      mappingBottom = address;
    }
    const permission = permissionOf(protection);
    const guarded = guards(protection);
    if (memory.tryMap({ address, size: Number(size), permission, guarded, name: 'mapping' }) !== null) return 'ENOMEM';
    if (contents) memory.write(address, contents);
    return address;
  };

  // --------------------------------------------------------------------------------------------------------- files

  const write = (number: number, address: Address, size: bigint): bigint | Errno => {
    const descriptor = descriptors.get(number);
    if (descriptor?.kind !== 'output') return 'EBADF';
    const length = Number(size > TRANSFER_MAX ? TRANSFER_MAX : size);
    const bytes = load(address, length);
    if (!bytes) return 'EFAULT';
    output(descriptor.number, bytes);
    return BigInt(length);
  };

  /** `at`: the position to read from, or null for the descriptor's own, which moves. */
  const read = (number: number, address: Address, size: bigint, at: bigint | null): bigint | Errno => {
    const descriptor = descriptors.get(number);
    const length = Number(size > BigInt(READ_MAX) ? BigInt(READ_MAX) : size);
    switch (descriptor?.kind) {
      case undefined:
      case 'output':
        return 'EBADF';
      case 'directory':
        return 'EISDIR';
      case 'input': {
        if (at !== null) return 'ESPIPE';
        if (!usable(address, length, 'write')) return 'EFAULT';
        const bytes = length === 0 ? new Uint8Array() : input.read(length);
        memory.write(address, bytes);
        return BigInt(bytes.length);
      }
      case 'file': {
        const bytes = descriptor.file.read(at === null ? descriptor.position : Number(at), length);
        if (!store(address, bytes)) return 'EFAULT';
        if (at === null) descriptor.position += bytes.length;
        return BigInt(bytes.length);
      }
      default:
        return descriptor satisfies never;
    }
  };

  /** Does `one` for the pieces of a vector, until one is short. */
  const vector = (
    address: Address,
    count: bigint,
    one: (base: Address, size: bigint) => bigint | Errno,
  ): bigint | Errno => {
    if (count > IOV_MAX) return 'EINVAL';
    let total = 0n;
    for (let i = 0n; i < count; i++) {
      const at = address + i * BigInt(2 * wordBytes);
      const base = loadNumber(at);
      const length = loadNumber(at + BigInt(wordBytes));
      if (base === null || length === null) return 'EFAULT';
      const done = one(base, length);
      if (typeof done === 'string') return total > 0n ? total : done;
      total += done;
      if (done < length) break;
    }
    return total;
  };

  const decoder = new TextDecoder();
  const encoder = new TextEncoder();

  /** The path at `address` as the guest means it from descriptor `from`; '' stays ''. */
  const pathAt = (from: number, address: Address): { readonly path: string } | Errno => {
    const bytes = memory.readCString(address, PATH_MAX);
    if (!bytes) return memory.check(address, 1, 'read') === null ? 'ENAMETOOLONG' : 'EFAULT';
    const text = decoder.decode(bytes);
    if (text === '' || text.startsWith('/') || from === AT_FDCWD) {
      return { path: text === '' ? '' : joinPath('/', text) };
    }
    const base = descriptors.get(from);
    if (!base) return 'EBADF';
    return base.kind === 'directory' ? { path: joinPath(base.path, text) } : 'ENOTDIR';
  };

  const open = (from: number, address: Address, flags: bigint): bigint | Errno => {
    const found = pathAt(from, address);
    if (typeof found === 'string') return found;
    const { path } = found;
    if (path === '') return 'ENOENT';
    const writing = (flags & (O_ACCMODE | O_CREAT | O_TRUNC)) !== 0n;
    const status = files.status(path, (flags & model.openFlags.noFollow) === 0n);
    if (typeof status === 'string')
      return status === 'ENOENT' && writing && files.status('/', true) !== 'ENOENT' ? 'EROFS' : status;
    if (status.kind === 'link') return 'ELOOP';
    if (writing) return 'EROFS';
    if (status.kind === 'file') {
      if ((flags & model.openFlags.directory) !== 0n) return 'ENOTDIR';
      const file = files.open(path);
      if (typeof file === 'string') return file;
      const number = descriptors.add({ kind: 'file', path, file, position: 0 });
      if (number < 0) file.close();
      return number < 0 ? 'EMFILE' : BigInt(number);
    }
    const number = descriptors.add({ kind: 'directory', path, status, position: 0 });
    return number < 0 ? 'EMFILE' : BigInt(number);
  };

  const statusOf = (number: number): FileStatus | 'stream' | Errno => {
    const descriptor = descriptors.get(number);
    if (!descriptor) return 'EBADF';
    if (descriptor.kind === 'file') return descriptor.file.status;
    return descriptor.kind === 'directory' ? descriptor.status : 'stream';
  };

  const statusAt = (from: number, address: Address, flags: bigint): FileStatus | 'stream' | Errno => {
    const found = pathAt(from, address);
    if (typeof found === 'string') return found;
    if (found.path !== '') return files.status(found.path, (flags & AT_SYMLINK_NOFOLLOW) === 0n);
    if ((flags & AT_EMPTY_PATH) === 0n) return 'ENOENT';
    return from === AT_FDCWD ? files.status('/', true) : statusOf(from);
  };

  const storeStatus = (status: FileStatus | 'stream' | Errno, layoutOf: StatLayout, to: Address): bigint | Errno => {
    if (typeof status === 'string' && status !== 'stream') return status;
    return storeOr(store(to, statBytes(status, layoutOf, endian)));
  };

  const seek = (number: number, offset: bigint, whence: bigint): bigint | Errno => {
    const descriptor = descriptors.get(number);
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
  };

  const access = (from: number, address: Address, mode: bigint): bigint | Errno => {
    const status = statusAt(from, address, 0n);
    if (typeof status === 'string') return status === 'stream' ? 0n : status;
    if ((mode & 2n) !== 0n) return 'EROFS';
    if ((mode & 1n) !== 0n && status.kind === 'file' && (status.permissions & 0o111) === 0) return 'EACCES';
    return 0n;
  };

  const readLink = (from: number, address: Address, to: Address, size: bigint): bigint | Errno => {
    const found = pathAt(from, address);
    if (typeof found === 'string') return found;
    if (BigInt.asIntN(32, size) <= 0n) return 'EINVAL';
    if (found.path === '') return 'ENOENT';
    const link = files.readLink(found.path);
    if (typeof link === 'string') return link;
    const bytes = encoder.encode(link.text).subarray(0, Number(BigInt.asUintN(31, size)));
    return storeOr(store(to, bytes), BigInt(bytes.length));
  };

  const list = (number: number, address: Address, size: bigint): bigint | Errno => {
    const descriptor = descriptors.get(number);
    if (!descriptor) return 'EBADF';
    if (descriptor.kind !== 'directory') return 'ENOTDIR';
    const names = files.list(descriptor.path);
    if (typeof names === 'string') return names;
    const all = ['.', '..', ...names];
    const pieces: number[] = [];
    const room = Number(BigInt.asUintN(32, size));
    let { position } = descriptor;
    for (; position < all.length; position++) {
      const name = all[position]!;
      const inside = position < 2 ? descriptor.path : joinPath(descriptor.path, name);
      const status = files.status(inside, false);
      if (typeof status === 'string') continue;
      const entry = directoryEntry(encoder.encode(name), status.kind, status.inode, position + 1, endian);
      if (pieces.length + entry.length > room) {
        if (pieces.length === 0) return 'EINVAL';
        break;
      }
      pieces.push(...entry);
    }
    if (!store(address, Uint8Array.from(pieces))) return 'EFAULT';
    descriptor.position = position;
    return BigInt(pieces.length);
  };

  // ---------------------------------------------------------------------------------------------------------- time

  /** Ticks of the machine are nanoseconds. */
  const now = (): bigint => machine.time;
  const storeTime = (address: Address, time: bigint, size: number): boolean =>
    address === 0n || storeNumbers(address, [time / NANOSECONDS, time % NANOSECONDS], size);
  /** Time passes at once. `absolute`: until then, not for so long. */
  const sleep = (address: Address, size: number, absolute: boolean): bigint | Errno => {
    const seconds = loadNumber(address, size);
    const rest = loadNumber(address + BigInt(size), size);
    if (seconds === null || rest === null) return 'EFAULT';
    const whole = BigInt.asIntN(8 * size, seconds);
    if (whole < 0n || rest >= NANOSECONDS) return 'EINVAL';
    const wanted = whole * NANOSECONDS + rest;
    const duration = absolute ? wanted - now() : wanted;
    if (duration > 0n) machine.skipTime(duration);
    return 0n;
  };

  const futex = (args: readonly bigint[], size: number): Answer => {
    const FUTEX_CLOCK_AND_PRIVATE = 0x180n;
    const command = BigInt.asUintN(32, args[1]!) & ~FUTEX_CLOCK_AND_PRIVATE;
    // WAKE, WAKE_BITSET: nobody sleeps. WAIT, WAIT_BITSET: nobody would wake us.
    if (command === 1n || command === 10n) return 0n;
    if (command !== 0n && command !== 9n) return 'ENOSYS';
    const value = loadNumber(args[0]!, 4);
    if (value === null) return 'EFAULT';
    if (value !== BigInt.asUintN(32, args[2]!)) return 'EAGAIN';
    if (args[3] === 0n) return { kind: 'unserved' };
    const waited = sleep(args[3]!, size, command === 9n);
    return waited === 0n ? 'ETIMEDOUT' : waited;
  };

  // ------------------------------------------------------------------------------------------------------- signals

  /** `struct sigaction` by signal: handler, flags, restorer, mask of 64 bits. */
  const actions = new Map<number, Uint8Array>();
  const actionBytes = (model.sigactionRestorer === false ? 2 : 3) * wordBytes + 8;
  let blocked = 0n;
  let pending = 0n;

  machine.addState(() => {
    const then = { heapEnd, mappingBottom, random, blocked, pending };
    const actionsThen = new Map(actions);
    const putDescriptorsBack = descriptors.save();
    const putInputBack = input.save();
    return () => {
      ({ heapEnd, mappingBottom, random, blocked, pending } = then);
      actions.clear();
      for (const [signal, bytes] of actionsThen) actions.set(signal, bytes);
      putDescriptorsBack();
      putInputBack();
    };
  });

  const bit = (signal: number): bigint => 1n << BigInt(signal - 1);
  const handlerOf = (signal: number): bigint => {
    const bytes = actions.get(signal)?.slice(0, wordBytes);
    if (!bytes) return 0n;
    if (endian === 'little') bytes.reverse();
    return bytes.reduce((value, byte) => (value << 8n) | BigInt(byte), 0n);
  };
  const raise = (signal: number): Answer => {
    if (signal < 0 || signal > SIGNALS) return 'EINVAL';
    if (signal === 0) return 0n;
    if ((blocked & bit(signal)) !== 0n) {
      pending |= bit(signal);
      return 0n;
    }
    const handler = handlerOf(signal);
    if (handler === SIG_IGN || (handler === 0n && HARMLESS.has(signal))) return 0n;
    return handler === 0n ? { kind: 'signal', signal } : { kind: 'unserved' };
  };
  const toSelf = (id: bigint, signal: bigint): Answer => {
    const target = int(id);
    // The process itself, its group, or everybody.
    return target === Number(PID) || target === 0 || target === -1 ? raise(int(signal)) : 'ESRCH';
  };

  const loadSet = (address: Address): bigint | null => {
    const low = loadNumber(address);
    if (low === null || wordBytes === 8) return low;
    const high = loadNumber(address + 4n);
    return high === null ? null : low | (high << 32n);
  };
  const storeSet = (address: Address, set: bigint): boolean =>
    wordBytes === 8 ? storeNumbers(address, [set]) : storeNumbers(address, [set & 0xffff_ffffn, set >> 32n]);

  const mask = (args: readonly bigint[]): Answer => {
    const [how, set, old, size] = [int(args[0]!), args[1]!, args[2]!, args[3]!];
    if (size !== 8n) return 'EINVAL';
    const before = blocked;
    if (set !== 0n) {
      const wanted = loadSet(set);
      if (wanted === null) return 'EFAULT';
      if (how < 0 || how > 2) return 'EINVAL';
      blocked = how === 0 ? blocked | wanted : how === 1 ? blocked & ~wanted : wanted;
      blocked &= ~(bit(SIGKILL) | bit(SIGSTOP));
    }
    if (old !== 0n && !storeSet(old, before)) return 'EFAULT';
    for (let signal = 1; signal <= SIGNALS; signal++) {
      if ((pending & bit(signal) & ~blocked) === 0n) continue;
      pending &= ~bit(signal);
      const answer = raise(signal);
      if (answer !== 0n) return answer;
    }
    return 0n;
  };

  const limit = (resource: bigint): readonly [bigint, bigint] => {
    const infinity = (1n << BigInt(8 * wordBytes)) - 1n;
    return [resource === RLIMIT_STACK ? BigInt(layout.stackBytes) : infinity, infinity];
  };
  const wide = (value: bigint): bigint => (value === (1n << BigInt(8 * wordBytes)) - 1n ? (1n << 64n) - 1n : value);

  // --------------------------------------------------------------------------------------------------------- table

  /** Argument `i`; calls have at most six. */
  const arg = (args: readonly bigint[], i: number): bigint => args[i] ?? 0n;
  /** A 64-bit argument from index `i` on: one register, or on 32 bits a pair, most significant word first if big-endian. */
  const long = (args: readonly bigint[], i: number): bigint => {
    if (wordBytes === 8) return arg(args, i);
    const pair = i + (i % 2);
    const [first, second] = [arg(args, pair), arg(args, pair + 1)];
    return endian === 'big' ? (first << 32n) | second : (second << 32n) | first;
  };
  const signed = (value: bigint): bigint => BigInt.asIntN(8 * wordBytes, value);

  return {
    exit: (args) => ({ kind: 'exit', code: Number(arg(args, 0) & 0xffn) }),
    exit_group: (args) => ({ kind: 'exit', code: Number(arg(args, 0) & 0xffn) }),

    read: (args) => read(int(arg(args, 0)), arg(args, 1), arg(args, 2), null),
    readv: (args) => vector(arg(args, 1), arg(args, 2), (base, size) => read(int(arg(args, 0)), base, size, null)),
    pread64: (args) => {
      const offset = BigInt.asIntN(64, long(args, 3));
      return offset < 0n || offset > BigInt(Number.MAX_SAFE_INTEGER)
        ? 'EINVAL'
        : read(int(arg(args, 0)), arg(args, 1), arg(args, 2), offset);
    },
    write: (args) => write(int(arg(args, 0)), arg(args, 1), arg(args, 2)),
    writev: (args) => vector(arg(args, 1), arg(args, 2), (base, size) => write(int(arg(args, 0)), base, size)),
    open: (args) => open(AT_FDCWD, arg(args, 0), arg(args, 1)),
    openat: (args) => open(int(arg(args, 0)), arg(args, 1), arg(args, 2)),
    close: (args) => (descriptors.close(int(arg(args, 0))) ? 0n : 'EBADF'),
    lseek: (args) => seek(int(arg(args, 0)), signed(arg(args, 1)), arg(args, 2)),
    _llseek: (args) => {
      const offset = BigInt.asIntN(64, (arg(args, 1) << 32n) | arg(args, 2));
      const position = seek(int(arg(args, 0)), offset, arg(args, 4));
      return typeof position === 'string' ? position : storeOr(storeNumbers(arg(args, 3), [position], 8));
    },
    stat: (args) => storeStatus(statusAt(AT_FDCWD, arg(args, 0), 0n), model.stat.plain, arg(args, 1)),
    lstat: (args) => storeStatus(statusAt(AT_FDCWD, arg(args, 0), AT_SYMLINK_NOFOLLOW), model.stat.plain, arg(args, 1)),
    fstat: (args) => storeStatus(statusOf(int(arg(args, 0))), model.stat.plain, arg(args, 1)),
    stat64: (args) => storeStatus(statusAt(AT_FDCWD, arg(args, 0), 0n), model.stat.large, arg(args, 1)),
    lstat64: (args) =>
      storeStatus(statusAt(AT_FDCWD, arg(args, 0), AT_SYMLINK_NOFOLLOW), model.stat.large, arg(args, 1)),
    fstat64: (args) => storeStatus(statusOf(int(arg(args, 0))), model.stat.large, arg(args, 1)),
    newfstatat: (args) =>
      storeStatus(statusAt(int(arg(args, 0)), arg(args, 1), arg(args, 3)), model.stat.large, arg(args, 2)),
    statx: (args) => {
      const status = statusAt(int(arg(args, 0)), arg(args, 1), arg(args, 2));
      if (typeof status === 'string' && status !== 'stream') return status;
      return storeOr(store(arg(args, 4), statxBytes(status, endian)));
    },
    access: (args) => access(AT_FDCWD, arg(args, 0), arg(args, 1)),
    faccessat: (args) => access(int(arg(args, 0)), arg(args, 1), arg(args, 2)),
    readlink: (args) => readLink(AT_FDCWD, arg(args, 0), arg(args, 1), arg(args, 2)),
    readlinkat: (args) => readLink(int(arg(args, 0)), arg(args, 1), arg(args, 2), arg(args, 3)),
    getdents64: (args) => list(int(arg(args, 0)), arg(args, 1), arg(args, 2)),
    getcwd: (args) => (arg(args, 1) < 2n ? 'ERANGE' : storeOr(store(arg(args, 0), encoder.encode('/\0')), 2n)),
    change_files: () => 'EROFS',
    fcntl: (args) => {
      const descriptor = descriptors.get(int(arg(args, 0)));
      if (!descriptor) return 'EBADF';
      // F_GETFD, F_SETFD, F_GETFL, F_SETFL
      const command = int(arg(args, 1));
      if (command === 3) return descriptor.kind === 'output' ? 1n : 0n;
      return command === 1 || command === 2 || command === 4 ? 0n : 'EINVAL';
    },
    ioctl: (args) => (descriptors.get(int(arg(args, 0))) ? 'ENOTTY' : 'EBADF'),

    brk: (args) => brk(arg(args, 0)),
    mmap: (args) => mmap(args, arg(args, 5)),
    mmap2: (args) => mmap(args, arg(args, 5) * PAGE),
    munmap: (args) => {
      const [address, size] = [arg(args, 0), arg(args, 1)];
      if (address % PAGE !== 0n || size === 0n) return 'EINVAL';
      return memory.unmap(address, Number(alignUpBig(size, PAGE))) ? 0n : 'ENOMEM';
    },
    mprotect: (args) => {
      const [address, size, protection] = [arg(args, 0), arg(args, 1), arg(args, 2)];
      if (address % PAGE !== 0n) return 'EINVAL';
      const permission = permissionOf(protection);
      return memory.protect(address, Number(alignUpBig(size, PAGE)), permission, guards(protection)) ? 0n : 'ENOMEM';
    },
    madvise: () => 0n,
    // A system call synchronises the CPU by itself.
    flush_icache: () => 0n,

    getpid: () => PID,
    getppid: () => 1n,
    gettid: () => PID,
    set_tid_address: () => PID,
    getuid: () => 1000n,
    uname: (args) => {
      const FIELD_BYTES = 65;
      const bytes = new Uint8Array(6 * FIELD_BYTES);
      ['Linux', 'elftrace', '6.1.0', '#1', model.machineName, '(none)'].forEach((text, i) => {
        bytes.set(encoder.encode(text), i * FIELD_BYTES);
      });
      return storeOr(store(arg(args, 0), bytes));
    },
    getrlimit: (args) => storeOr(storeNumbers(arg(args, 1), limit(arg(args, 0)))),
    prlimit64: (args) => {
      if (arg(args, 0) !== 0n && arg(args, 0) !== PID) return 'ESRCH';
      return arg(args, 3) === 0n ? 0n : storeOr(storeNumbers(arg(args, 3), limit(arg(args, 1)).map(wide), 8));
    },

    time: (args) => {
      const seconds = now() / NANOSECONDS;
      return arg(args, 0) === 0n ? seconds : storeOr(storeNumbers(arg(args, 0), [seconds]), seconds);
    },
    gettimeofday: (args) => {
      const time = now();
      if (arg(args, 1) !== 0n && !storeNumbers(arg(args, 1), [0n, 0n], 4)) return 'EFAULT';
      if (arg(args, 0) === 0n) return 0n;
      return storeOr(storeNumbers(arg(args, 0), [time / NANOSECONDS, (time % NANOSECONDS) / 1000n]));
    },
    clock_gettime: (args) => storeOr(storeTime(arg(args, 1), now(), wordBytes)),
    clock_gettime64: (args) => storeOr(storeTime(arg(args, 1), now(), 8)),
    clock_getres: (args) => storeOr(storeTime(arg(args, 1), 1n, wordBytes)),
    clock_getres_time64: (args) => storeOr(storeTime(arg(args, 1), 1n, 8)),
    nanosleep: (args) => sleep(arg(args, 0), wordBytes, false),
    clock_nanosleep: (args) => sleep(arg(args, 2), wordBytes, (arg(args, 1) & 1n) !== 0n),
    clock_nanosleep_time64: (args) => sleep(arg(args, 2), 8, (arg(args, 1) & 1n) !== 0n),
    sched_yield: () => 0n,
    sched_getaffinity: (args) => {
      if (arg(args, 1) < BigInt(wordBytes)) return 'EINVAL';
      return storeOr(storeNumbers(arg(args, 2), [1n]), BigInt(wordBytes));
    },

    getrandom: (args) => {
      const size = arg(args, 1);
      const bytes = new Uint8Array(Number(size > 256n ? 256n : size));
      for (let i = 0; i < bytes.length; i++) {
        random = (Math.imul(random, 1_664_525) + 1_013_904_223) >>> 0;
        bytes[i] = random >>> 24;
      }
      return storeOr(store(arg(args, 0), bytes), BigInt(bytes.length));
    },

    rt_sigaction: (args) => {
      const [signal, next, old, size] = [int(arg(args, 0)), arg(args, 1), arg(args, 2), arg(args, 3)];
      if (size !== 8n || signal < 1 || signal > SIGNALS) return 'EINVAL';
      const action = next === 0n ? null : load(next, actionBytes);
      if (next !== 0n) {
        if (!action) return 'EFAULT';
        if (signal === SIGKILL || signal === SIGSTOP) return 'EINVAL';
      }
      if (old !== 0n && !store(old, actions.get(signal) ?? new Uint8Array(actionBytes))) return 'EFAULT';
      if (action) actions.set(signal, action);
      return 0n;
    },
    rt_sigprocmask: mask,
    sigaltstack: () => 0n,
    kill: (args) => toSelf(arg(args, 0), arg(args, 1)),
    tkill: (args) => toSelf(arg(args, 0), arg(args, 1)),
    tgkill: (args) => (int(arg(args, 0)) === Number(PID) ? toSelf(arg(args, 1), arg(args, 2)) : 'ESRCH'),
    arch_prctl: (args) => {
      const names: Readonly<Record<number, 'gs_base' | 'fs_base'>> = {
        0x1001: 'gs_base',
        0x1002: 'fs_base',
        0x1003: 'fs_base',
        0x1004: 'gs_base',
      };
      const code = int(arg(args, 0));
      const name = names[code];
      if (name === undefined) return 'EINVAL';
      if (code >= 0x1003) return storeOr(storeNumbers(arg(args, 1), [machine.register(name)]));
      // TASK_SIZE_MAX
      if (arg(args, 1) >= 0x7fff_ffff_f000n) return 'EPERM';
      machine.setRegister(name, arg(args, 1));
      return 0n;
    },
    futex: (args) => futex(args, wordBytes),
    futex_time64: (args) => futex(args, 8),
  };
}
