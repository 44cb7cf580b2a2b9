/**
 * System calls on descriptors: reading, writing, copies and flags of descriptors, pipes, pairs of
 * sockets, event counters. What may wait attempts again when what it waits for has changed.
 *
 * Source: Linux, read(2), write(2), pipe(2), dup(2), fcntl(2), socketpair(2), eventfd(2).
 */
import {
  type Answer,
  arg,
  type Arguments,
  type CallContext,
  int,
  type Patience,
  type Service,
  storeOr,
} from './call-context.js';
import type { Errno } from './errno.js';
import { CHANGEABLE, type Description, FileDescription, InputDescription, O, POLL, READABLE } from './descriptions.js';
import type { LockCalls } from './lock-calls.js';
import { PIPE_BYTES } from './channels.js';
import { MemoryFile, SEAL } from './memory-file.js';
import { interfaceRequest } from './interface-requests.js';
import { EventCounter, makePipe, PipeEnd } from './pipes.js';
import { BUFFER_BYTES, Socket } from './sockets.js';
import { terminalRequest } from './terminal-requests.js';
import { Slave, TerminalSide } from './terminals.js';
import { WatchDescription } from './watch-description.js';
import type { Address } from '../units.js';

/** Most pieces of a `writev`. */
const IOV_MAX = 1024n;
/** Most bytes of one transfer (MAX_RW_COUNT). */
const TRANSFER_MAX = 0x7fff_f000n;
/** Bytes that one read of what is no file may bring at a time. */
const READ_MAX = 0x10_0000;
const SIGPIPE = 13;
const SI_USER = 0;

/**
 * FIONREAD, FIONBIO, FIONCLEX, FIOCLEX, FIOASYNC, FIOQSIZE of asm-generic/ioctls.h: all of type T.
 */
const ANY_DESCRIPTOR: ReadonlySet<number> = new Set([0x1b, 0x21, 0x50, 0x51, 0x52, 0x60]);

type PlainRequest = 'available' | 'non-blocking' | 'close-on-exec' | 'keep-on-exec' | 'clone' | 'extents';
/**
 * Requests of any descriptor, those of PowerPC behind the others'; FICLONE and FS_IOC_FIEMAP are
 * those of files.
 */
const PLAIN_REQUESTS: ReadonlyMap<number, PlainRequest> = new Map([
  [0xc020_660b, 'extents'], [0x541b, 'available'], [0x5421, 'non-blocking'], [0x5451, 'close-on-exec'], [0x5450, 'keep-on-exec'], [0x4004_9409, 'clone'],
  [0x4004_667f, 'available'], [0x8004_667e, 'non-blocking'], [0x2000_6601, 'close-on-exec'], [0x2000_6602, 'keep-on-exec'], [0x8004_9409, 'clone'],
]); // prettier-ignore

/** Commands of `fcntl`. Source: Linux asm-generic/fcntl.h, uapi/linux/fcntl.h. */
const F = {
  DUPFD: 0,
  GETFD: 1,
  SETFD: 2,
  GETFL: 3,
  SETFL: 4,
  DUPFD_CLOEXEC: 1030,
  SETPIPE_SZ: 1031,
  GETPIPE_SZ: 1032,
  ADD_SEALS: 1033,
  GET_SEALS: 1034,
} as const;

/** Those of them that serve what was opened as a place. */
const OF_PLACES: ReadonlySet<number> = new Set([F.DUPFD, F.DUPFD_CLOEXEC, F.GETFD, F.SETFD, F.GETFL]);

export type DescriptorCallName =
  | 'close' | 'close_range' | 'dup' | 'dup2' | 'dup3' | 'eventfd' | 'eventfd2' | 'fadvise' | 'fadvise_long'
  | 'fcntl' | 'fsync' | 'ioctl' | 'llseek' | 'lseek' | 'pipe' | 'pipe2' | 'pread64' | 'pwrite64' | 'read'
  | 'readv' | 'write' | 'writev'; // prettier-ignore

const SEEK = { DATA: 3, HOLE: 4 } as const;

type Tried = bigint | Errno | null;
/** A piece of a vector. */
export type Piece = readonly [base: Address, size: bigint];

/** How something is written. */
interface Writing {
  /** No SIGPIPE. */
  readonly isSilent?: boolean;
  /** It does not wait. Default: as the description says. */
  readonly isHasty?: boolean;
  /** Default: the description's `write`. */
  readonly write?: (bytes: Uint8Array) => number | Errno | null;
  /** True when another attempt would bring something. Default: the description says it. */
  readonly isReady?: () => boolean;
}

export class DescriptorCalls implements Readonly<Record<DescriptorCallName, Service>> {
  constructor(
    private readonly context: CallContext,
    private readonly locks: LockCalls,
  ) {}

  // --------------------------------------------------------------------------------------- reading

  /** One attempt to read; `at` null: from where the description is, which moves. */
  tryRead(description: Description, address: Address, size: bigint, at: bigint | null): Tried {
    const { context } = this;
    const { memory } = context.machine;
    const most = Number(size > TRANSFER_MAX ? TRANSFER_MAX : size);
    if (at !== null) {
      const bytes = description.readAt(Number(at), most);
      if (typeof bytes === 'string') return bytes;
      if (!context.usableBuffer(address, bytes.length, 'write')) return 'EFAULT';
      memory.write(address, bytes);
      return BigInt(bytes.length);
    }
    const isFile = 'file' in description;
    const room = description.available(isFile ? most : Math.min(most, READ_MAX));
    if (!context.usableBuffer(address, room, 'write')) return 'EFAULT';
    const bytes = description.read(room === 0 && most > 0 ? most : room);
    if (bytes === null || typeof bytes === 'string') return bytes;
    memory.write(address, bytes);
    return BigInt(bytes.length);
  }

  private readable(number: number): Description | Errno {
    const description = this.context.descriptors.get(number);
    return description?.isReadable === true ? description : 'EBADF';
  }

  private writable(number: number): Description | Errno {
    const description = this.context.descriptors.get(number);
    return description?.isWritable === true ? description : 'EBADF';
  }

  read(args: Arguments): Answer {
    const description = this.readable(int(arg(args, 0)));
    if (typeof description === 'string') return description;
    const [address, size] = [arg(args, 1), arg(args, 2)];
    const attempt = (): Tried => this.tryRead(description, address, size, null);
    return this.context.attempt(
      description,
      isReadable(description, Number(size)),
      attempt,
      readingPatience(this.context, description),
    );
  }

  /** Addresses and sizes of the pieces of a vector. */
  pieces(address: Address, count: bigint): readonly Piece[] | Errno {
    const { context } = this;
    const word = BigInt(context.wordBytes);
    if (count > IOV_MAX) return 'EINVAL';
    const out: Piece[] = [];
    for (let i = 0n; i < count; i++) {
      const base = context.loadNumber(address + i * 2n * word);
      const length = context.loadNumber(address + i * 2n * word + word);
      if (base === null || length === null) return 'EFAULT';
      if (BigInt.asIntN(8 * context.wordBytes, length) < 0n) return 'EINVAL';
      out.push([base, length]);
    }
    return out;
  }

  /** Descriptor, pieces and their count; `at`: where in the file, null: from where that is. */
  readPieces(args: Arguments, at: bigint | null, hasty: { readonly isHasty?: true } = {}): Answer {
    const description = this.readable(int(arg(args, 0)));
    if (typeof description === 'string') return description;
    const pieces = this.pieces(arg(args, 1), arg(args, 2));
    if (typeof pieces === 'string') return pieces;
    const attempt = (): Tried => {
      if (description instanceof Socket && description.hasMessages) return this.readMessage(description, pieces);
      let total = 0n;
      for (const [base, length] of pieces) {
        const done = this.tryRead(description, base, length, at === null ? null : at + total);
        if (done === null || typeof done === 'string') return total > 0n ? total : done;
        total += done;
        if (done < length) break;
      }
      return total;
    };
    return this.context.attempt(description, isReadable(description, sizeOf(pieces)), attempt, {
      ...readingPatience(this.context, description),
      ...hasty,
    });
  }

  private readMessage(socket: Socket, pieces: readonly Piece[]): Tried {
    const size = socket.available(sizeOf(pieces));
    if (!this.takesAll(pieces, size)) return 'EFAULT';
    const bytes = socket.read(sizeOf(pieces));
    if (bytes === null || typeof bytes === 'string') return bytes;
    this.scatter(pieces, bytes);
    return BigInt(bytes.length);
  }

  /** True when the first `size` bytes of pieces may be written. */
  takesAll(pieces: readonly Piece[], size: number): boolean {
    let left = size;
    for (const [base, length] of pieces) {
      const part = Math.min(left, Number(length));
      if (!this.context.usableBuffer(base, part, 'write')) return false;
      left -= part;
    }
    return true;
  }

  /** Stores bytes in pieces, which may be written. */
  scatter(pieces: readonly Piece[], bytes: Uint8Array): void {
    let at = 0;
    for (const [base, length] of pieces) {
      const part = bytes.subarray(at, at + Math.min(bytes.length - at, Number(length)));
      this.context.machine.memory.write(base, part);
      at += part.length;
    }
  }

  readv(args: Arguments): Answer {
    return this.readPieces(args, null);
  }

  /** The offset of a call with one, from argument `i` on. */
  private offset(args: Arguments, i: number): bigint | null {
    const offset = BigInt.asIntN(64, this.context.long(args, i));
    return offset < 0n || offset > BigInt(Number.MAX_SAFE_INTEGER) ? null : offset;
  }

  pread64(args: Arguments): Answer {
    const offset = this.offset(args, 3);
    if (offset === null) return 'EINVAL';
    const description = this.readable(int(arg(args, 0)));
    if (typeof description === 'string') return description;
    return this.tryRead(description, arg(args, 1), arg(args, 2), offset) ?? 'EAGAIN';
  }

  // --------------------------------------------------------------------------------------- writing

  /** All pieces in one, for what is sent as one message; an error where that cannot be. */
  private joined(pieces: readonly Piece[], most: number): Uint8Array | Errno {
    const size = pieces.reduce((sum, [, length]) => sum + length, 0n);
    if (size > BigInt(most)) return 'EMSGSIZE';
    const out = new Uint8Array(Number(size));
    let at = 0;
    for (const [base, length] of pieces) {
      const bytes = this.bytesAt(base, length);
      if (bytes === null) return 'EFAULT';
      out.set(bytes, at);
      at += bytes.length;
    }
    return out;
  }

  /** Writes pieces, one behind the other; what may wait goes on where it was. */
  writeAll(description: Description, pieces: readonly Piece[], how: Writing = {}): Answer {
    const { context } = this;
    const write = how.write ?? ((bytes: Uint8Array): number | Errno | null => description.write(bytes));
    const whole = description instanceof Socket && description.hasMessages ? this.joined(pieces, BUFFER_BYTES) : null;
    if (typeof whole === 'string') return whole;
    const isStream = [PipeEnd, Socket, TerminalSide].some((each) => description instanceof each);
    const isHasty = how.isHasty ?? description.isNonBlocking;
    let [piece, done, total] = [0, 0n, 0n];
    /** What could not be written yet. */
    let pending: Uint8Array | null = whole;
    const attempt = (): Tried => {
      for (;;) {
        if (piece === pieces.length && pending === null) return total;
        const [base, length] = pieces[piece] ?? [0n, 0n];
        const most = isStream && length - done > BigInt(PIPE_BYTES) ? BigInt(PIPE_BYTES) : length - done;
        pending ??= this.bytesAt(base + done, most > TRANSFER_MAX ? TRANSFER_MAX : most);
        const written = pending === null ? 'EFAULT' : write(pending);
        if (written === null) return isHasty && total > 0n ? total : null;
        pending = null;
        if (written === 'EPIPE' && how.isSilent !== true && !(description instanceof Socket && description.hasMessages)) raiseBroken(context); // prettier-ignore
        if (written === 'ENOBUFS') context.deviate('queues');
        if (typeof written === 'string') return total > 0n ? total : written;
        if (whole) return BigInt(written);
        done += BigInt(written);
        total += BigInt(written);
        if (!isStream && BigInt(written) < most) return total;
        if (done < length) continue;
        piece++;
        done = 0n;
      }
    };
    const isReady = how.isReady ?? ((): boolean => pending === null || description.accepts(pending));
    const patience = { done: (): bigint => total, isHasty, deadline: deadlineOf(context, description, 'send'), isBrittle: isTimed(description, 'send') }; // prettier-ignore
    return context.attempt(description, isReady, attempt, patience);
  }

  private bytesAt(address: Address, size: bigint): Uint8Array | null {
    const length = Number(size);
    return this.context.usableBuffer(address, length, 'read')
      ? this.context.machine.memory.read(address, length)
      : null;
  }

  write(args: Arguments): Answer {
    const description = this.writable(int(arg(args, 0)));
    return typeof description === 'string' ? description : this.writeAll(description, [[arg(args, 1), arg(args, 2)]]);
  }

  /** As `readPieces`. */
  writePieces(args: Arguments, at: bigint | null, hasty: { readonly isHasty?: true } = {}): Answer {
    const description = this.writable(int(arg(args, 0)));
    if (typeof description === 'string') return description;
    const pieces = this.pieces(arg(args, 1), arg(args, 2));
    if (typeof pieces === 'string') return pieces;
    if (at === null) return this.writeAll(description, pieces, hasty);
    let total = 0n;
    for (const [base, length] of pieces) {
      const written = this.writeAt(description, base, length, at + total);
      if (typeof written === 'string') return total > 0n ? total : written;
      total += written;
      if (written < length) break;
    }
    return total;
  }

  writev(args: Arguments): Answer {
    return this.writePieces(args, null);
  }

  private writeAt(description: Description, address: Address, size: bigint, at: bigint): bigint | Errno {
    const bytes = this.bytesAt(address, size > TRANSFER_MAX ? TRANSFER_MAX : size);
    if (bytes === null) return 'EFAULT';
    const written = description.writeAt(Number(at), bytes);
    return typeof written === 'number' ? BigInt(written) : written;
  }

  pwrite64(args: Arguments): Answer {
    const offset = this.offset(args, 3);
    if (offset === null) return 'EINVAL';
    const description = this.writable(int(arg(args, 0)));
    if (typeof description === 'string') return description;
    return this.writeAt(description, arg(args, 1), arg(args, 2), offset);
  }

  // ------------------------------------------------------------------------------------- positions

  private seek(number: number, offset: bigint, whence: bigint): bigint | Errno {
    const description = this.context.descriptors.get(number);
    if (!description) return 'EBADF';
    const from = Number(BigInt.asUintN(32, whence));
    const to = description.seek((position, size) => {
      if (description instanceof FileDescription && (from === SEEK.DATA || from === SEEK.HOLE)) {
        // All of a file is data, as where a file system knows of no holes.
        if (offset < 0n || offset >= BigInt(size)) return 'ENXIO';
        if (description.file instanceof MemoryFile) this.context.deviate('holes');
        return from === SEEK.DATA ? Number(offset) : size;
      }
      const base = [0, position, size][from];
      if (base === undefined) return 'EINVAL';
      const wanted = BigInt(base) + offset;
      return wanted < 0n || wanted > BigInt(Number.MAX_SAFE_INTEGER) ? 'EINVAL' : Number(wanted);
    });
    return typeof to === 'number' ? BigInt(to) : to;
  }

  lseek(args: Arguments): Answer {
    return this.seek(int(arg(args, 0)), BigInt.asIntN(8 * this.context.wordBytes, arg(args, 1)), arg(args, 2));
  }

  llseek(args: Arguments): Answer {
    const offset = BigInt.asIntN(64, (arg(args, 1) << 32n) | arg(args, 2));
    const position = this.seek(int(arg(args, 0)), offset, arg(args, 4));
    return typeof position === 'string' ? position : storeOr(this.context.storeNumbers(arg(args, 3), [position], 8));
  }

  /** Advice about what will be read changes nothing. */
  private advise(number: number, size: bigint, advice: number): Answer {
    const ADVICES = 6;
    const description = this.context.descriptors.used(number);
    if (!description) return 'EBADF';
    if (description instanceof PipeEnd) return 'ESPIPE';
    return size < 0n || advice < 0 || advice >= ADVICES ? 'EINVAL' : 0n;
  }

  /** On 32 bits the offset begins with an even register, and the size has one. */
  fadvise(args: Arguments): Answer {
    const [number, next] = [int(arg(args, 0)), this.context.wordBytes === 8 ? 2 : 4];
    const size = next === 2 ? BigInt.asIntN(64, arg(args, 2)) : arg(args, 4);
    return this.advise(number, size, int(arg(args, next + 1)));
  }

  /** The advice is in front: the offset and the size have two registers each. */
  fadvise_long(args: Arguments): Answer {
    return this.advise(int(arg(args, 0)), BigInt.asIntN(64, this.context.long(args, 4)), int(arg(args, 1)));
  }

  fsync(args: Arguments): Answer {
    const description = this.context.descriptors.used(int(arg(args, 0)));
    if (!description) return 'EBADF';
    return 'file' in description ? 0n : 'EINVAL';
  }

  // ----------------------------------------------------------------------------------- descriptors

  close(args: Arguments): Answer {
    return this.context.descriptors.close(int(arg(args, 0))) ? 0n : 'EBADF';
  }

  /** `close_range` without flags, and with CLOSE_RANGE_CLOEXEC. */
  close_range(args: Arguments): Answer {
    const { descriptors } = this.context;
    const [first, last, flags] = [0, 1, 2].map((i) => Number(BigInt.asUintN(32, arg(args, i)))) as [number, number, number]; // prettier-ignore
    const CLOEXEC = 4;
    if ((flags & ~(CLOEXEC | 2)) !== 0 || first > last) return 'EINVAL';
    for (const number of descriptors.numbers) {
      if (number < first || number > last) continue;
      if ((flags & CLOEXEC) !== 0) descriptors.setCloseOnExec(number, true);
      else descriptors.close(number);
    }
    return 0n;
  }

  /** Adds seals to memory; null: tells them. */
  private seal(description: Description, added: number | null): Answer {
    const file = description instanceof FileDescription ? description.file : null;
    if (!(file instanceof MemoryFile) || !(description instanceof FileDescription)) return 'EINVAL';
    if (added === null) return BigInt(file.seals);
    const ALL = 0x1f;
    if (!description.isWritable) return 'EPERM';
    if ((added & ~ALL) !== 0) return 'EINVAL';
    if ((file.seals & SEAL.SEAL) !== 0) return 'EPERM';
    if ((added & SEAL.WRITE) !== 0 && (file.seals & SEAL.WRITE) === 0 && this.locks.isMappedForWriting(file)) return 'EBUSY'; // prettier-ignore
    file.seals |= added;
    return 0n;
  }

  private copyOf(number: number, least: number, closeOnExec: boolean): bigint | Errno {
    const description = this.context.descriptors.get(number);
    if (!description) return 'EBADF';
    if (least < 0 || least >= this.context.descriptors.most) return 'EINVAL';
    const copy = this.context.descriptors.add(description, closeOnExec, least);
    return copy < 0 ? 'EMFILE' : BigInt(copy);
  }

  dup(args: Arguments): Answer {
    return this.copyOf(int(arg(args, 0)), 0, false);
  }

  private copyTo(from: number, to: number, closeOnExec: boolean): bigint | Errno {
    const description = this.context.descriptors.get(from);
    if (!description || to < 0 || to >= this.context.descriptors.most) return 'EBADF';
    this.context.descriptors.put(to, description, closeOnExec);
    return BigInt(to);
  }

  dup2(args: Arguments): Answer {
    const [from, to] = [int(arg(args, 0)), int(arg(args, 1))];
    if (from === to) return this.context.descriptors.get(from) ? BigInt(to) : 'EBADF';
    return this.copyTo(from, to, false);
  }

  dup3(args: Arguments): Answer {
    const [from, to, flags] = [int(arg(args, 0)), int(arg(args, 1)), int(arg(args, 2))];
    if ((flags & ~O.CLOEXEC) !== 0 || from === to) return 'EINVAL';
    return this.copyTo(from, to, flags !== 0);
  }

  fcntl(args: Arguments): Answer {
    const { context } = this;
    const { descriptors } = context;
    const number = int(arg(args, 0));
    const description = descriptors.get(number);
    if (!description) return 'EBADF';
    const command = int(arg(args, 1));
    if (!OF_PLACES.has(command) && !descriptors.used(number)) return 'EBADF';
    const value = int(arg(args, 2));
    switch (command) {
      case F.DUPFD:
        return this.copyOf(number, value, false);
      case F.DUPFD_CLOEXEC:
        return this.copyOf(number, value, true);
      case F.GETFD:
        return descriptors.closesOnExec(number) ? 1n : 0n;
      case F.SETFD:
        descriptors.setCloseOnExec(number, (value & 1) !== 0);
        return 0n;
      case F.GETFL:
        return BigInt(description.flags);
      case F.SETFL: {
        const mode = O.ACCMODE | Number(context.model.openFlags.largeFile);
        const isOther = (value & ~(mode | CHANGEABLE)) !== 0;
        const isInput = description instanceof InputDescription && (value & O.NONBLOCK) !== 0;
        if (isOther || isInput) context.deviate('non-blocking');
        description.flags = (description.flags & ~CHANGEABLE) | (value & CHANGEABLE);
        return 0n;
      }
      case F.GETPIPE_SZ:
        return description instanceof PipeEnd ? BigInt(description.capacity) : 'EBADF';
      case F.SETPIPE_SZ: {
        const size = description instanceof PipeEnd ? description.resize(value >>> 0) : 'EBADF';
        return typeof size === 'number' ? BigInt(size) : size;
      }
      case F.ADD_SEALS:
      case F.GET_SEALS:
        return this.seal(description, command === F.ADD_SEALS ? value : null);
      default: {
        const locked = this.locks.command(description, command, arg(args, 2));
        if (locked === null) context.deviate('descriptor-commands');
        return locked ?? 'EINVAL';
      }
    }
  }

  ioctl(args: Arguments): Answer {
    const { context } = this;
    const number = int(arg(args, 0));
    const description = context.descriptors.used(number);
    if (!description) return 'EBADF';
    const whole = Number(BigInt.asUintN(32, arg(args, 1)));
    if (description instanceof TerminalSide) {
      const answered = terminalRequest(context, description, whole, arg(args, 2));
      if (answered !== null) return answered;
    }
    const plain = PLAIN_REQUESTS.get(whole);
    if (plain !== undefined) return this.plainRequest(plain, number, description, arg(args, 2));
    if (description instanceof Socket) {
      const told = interfaceRequest(context, description, whole, arg(args, 2));
      if (told !== null) return told;
    }
    const request = whole & 0xffff;
    // Requests of consoles are of type K or V, those of terminals of T or t, but for those of any
    // descriptor that some machines number among them.
    const type = request >> 8;
    const isConsole = type === 0x4b || type === 0x56;
    const isTerminal = (type === 0x54 || type === 0x74) && !ANY_DESCRIPTOR.has(request & 0xff);
    if (!isConsole && (!isTerminal || description instanceof TerminalSide)) context.deviate('requests');
    return 'ENOTTY';
  }

  /** Requests that any descriptor serves. */
  private plainRequest(kind: PlainRequest, number: number, description: Description, place: Address): Answer {
    const { context } = this;
    switch (kind) {
      case 'close-on-exec':
      case 'keep-on-exec':
        context.descriptors.setCloseOnExec(number, kind === 'close-on-exec');
        return 0n;
      case 'non-blocking': {
        const value = context.loadNumber(place, 4);
        if (value === null) return 'EFAULT';
        if (description instanceof InputDescription && value !== 0n) context.deviate('non-blocking');
        description.flags = (description.flags & ~O.NONBLOCK) | (value === 0n ? 0 : O.NONBLOCK);
        return 0n;
      }
      case 'available': {
        const isKnown =
          'file' in description || [PipeEnd, Socket, WatchDescription].some((each) => description instanceof each);
        if (!isKnown) context.deviate('requests');
        if (!isKnown) return 'ENOTTY';
        if (description instanceof Socket && description.state === 'listening') return 'EINVAL';
        // Both ends of a pipe tell what it holds.
        const held = description instanceof PipeEnd ? description.size : description.available(READ_MAX);
        return storeOr(context.storeNumbers(place, [BigInt(held)], 4));
      }
      case 'clone':
        return 'file' in description ? 'EOPNOTSUPP' : 'EINVAL';
      case 'extents':
        // As of files that are in memory alone.
        return 'EOPNOTSUPP';
      default:
        return kind satisfies never;
    }
  }

  // ----------------------------------------------------------------------- pipes, sockets, events

  /** Two new descriptors, stored at an address; nothing stays open where that cannot be done. */
  pair(ends: readonly [Description, Description], address: Address, closeOnExec: boolean): bigint | Errno {
    const { context } = this;
    const { descriptors } = context;
    if (!descriptors.hasRoom(2)) return 'EMFILE';
    const numbers = ends.map((each) => descriptors.add(each, closeOnExec));
    if (context.storeNumbers(address, numbers.map(BigInt), 4)) return 0n;
    for (const each of numbers) descriptors.close(each);
    return 'EFAULT';
  }

  pipe(args: Arguments): Answer {
    return this.pair(makePipe(0, this.context.nextInode(), this.context.network.queues), arg(args, 0), false);
  }

  pipe2(args: Arguments): Answer {
    const flags = int(arg(args, 1));
    const O_DIRECT = 0o40000;
    if ((flags & ~(O.CLOEXEC | O.NONBLOCK)) !== 0) {
      if ((flags & ~(O.CLOEXEC | O.NONBLOCK)) === O_DIRECT) this.context.deviate('packets');
      return 'EINVAL';
    }
    const ends = makePipe(flags & O.NONBLOCK, this.context.nextInode(), this.context.network.queues);
    return this.pair(ends, arg(args, 0), (flags & O.CLOEXEC) !== 0);
  }

  private counter(value: bigint, flags: number): bigint | Errno {
    const SEMAPHORE = 1;
    if ((flags & ~(SEMAPHORE | O.CLOEXEC | O.NONBLOCK)) !== 0) return 'EINVAL';
    const { endian, descriptors } = this.context;
    const isSemaphore = (flags & SEMAPHORE) !== 0;
    const description = new EventCounter(flags & O.NONBLOCK, value, isSemaphore, endian, this.context.nextInode());
    const number = descriptors.add(description, (flags & O.CLOEXEC) !== 0);
    return number < 0 ? 'EMFILE' : BigInt(number);
  }

  eventfd(args: Arguments): Answer {
    return this.counter(BigInt.asUintN(32, arg(args, 0)), 0);
  }

  eventfd2(args: Arguments): Answer {
    return this.counter(BigInt.asUintN(32, arg(args, 0)), int(arg(args, 1)));
  }
}

/** A write found that what it writes to is read no more. */
export function raiseBroken({ signals }: CallContext): void {
  signals.post(SIGPIPE, signals.ownInfo(SIGPIPE, SI_USER));
}

/** Bytes of pieces, as many as one read may bring. */
export function sizeOf(pieces: readonly Piece[]): number {
  const size = pieces.reduce((sum, [, length]) => sum + length, 0n);
  return Number(size > BigInt(READ_MAX) ? BigInt(READ_MAX) : size);
}

/** The time at which a call gives up on a socket that has a limit; null: never. */
export function deadlineOf(
  { machine }: CallContext,
  description: Description,
  what: 'receive' | 'send',
): bigint | null {
  const limit = description instanceof Socket ? description.patience[what] : null;
  return limit === null ? null : machine.time + limit;
}

/** Calls that give up at some time are not made again behind a handler. */
export function isTimed(description: Description, what: 'receive' | 'send'): boolean {
  return description instanceof Socket && description.patience[what] !== null;
}

function readingPatience(context: CallContext, description: Description): Patience {
  return { deadline: deadlineOf(context, description, 'receive'), isBrittle: isTimed(description, 'receive') };
}

/** What says that a read may have something. */
export function isReadable(description: Description, size = 1): () => boolean {
  // A terminal may have to bring several bytes at once.
  if (description instanceof Slave) return () => description.isReady(size);
  return () => (description.events() & (READABLE | POLL.HUP | POLL.ERR)) !== 0;
}
