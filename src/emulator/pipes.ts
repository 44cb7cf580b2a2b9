/**
 * Pipes, pairs of sockets and event counters: what processes and threads send each other through
 * descriptors.
 *
 * Source: Linux, pipe(7), unix(7), eventfd(2).
 */
import type { Errno } from './errno.js';
import { Description, O, POLL, READABLE, WRITABLE } from './descriptions.js';
import type { NodeStatus } from './files.js';

/** Bytes that a pipe holds. */
export const PIPE_BYTES = 0x1_0000;
/** Writes of so many bytes or fewer are not torn. */
const PIPE_ATOMIC = 4096;

function nodeOf(kind: 'pipe' | 'socket' | 'anonymous', inode: number): NodeStatus {
  return { kind, permissions: kind === 'socket' ? 0o777 : 0o600, inode, device: 0 };
}

/** Pages of a pipe: a write begins a new one where its end does not fit the last. */
const PIPE_PAGES = PIPE_BYTES / PIPE_ATOMIC;

/** Bytes that were written together, or to one page; `at`: those that were read. */
interface Piece {
  readonly bytes: Uint8Array;
  readonly at: number;
}

/**
 * Bytes on their way in one direction. `pages`: as a pipe keeps them; `bytes`: as a stream does;
 * `messages`: those of a write are read together.
 */
class Channel {
  private pieces: readonly Piece[] = [];
  size = 0;
  readers = 0;
  writers = 0;
  changes = 0;

  constructor(readonly kind: 'pages' | 'bytes' | 'messages') {}

  get messages(): boolean {
    return this.kind === 'messages';
  }

  get isEmpty(): boolean {
    return this.pieces.length === 0;
  }

  /** True when a `poll` says that a write can begin. */
  get isOpen(): boolean {
    return this.kind === 'pages' ? this.pieces.length < PIPE_PAGES : this.size <= PIPE_BYTES - PIPE_ATOMIC;
  }

  /** Bytes of a write that go to the page that is there. */
  private merged(size: number): number {
    const last = this.pieces.at(-1);
    const rest = size % PIPE_ATOMIC;
    return last && last.bytes.length + rest <= PIPE_ATOMIC ? rest : 0;
  }

  /** True when a write of so many bytes can begin, or be done where it may not be torn. */
  hasRoom(size: number): boolean {
    if (this.kind === 'pages') return this.pieces.length < PIPE_PAGES || this.merged(size) > 0;
    const left = PIPE_BYTES - this.size;
    return this.messages ? left >= size : left > 0;
  }

  private add(bytes: Uint8Array): void {
    this.pieces = [...this.pieces, { bytes: bytes.slice(), at: 0 }];
    this.size += bytes.length;
  }

  /** How many bytes were taken. */
  put(bytes: Uint8Array): number {
    this.changes++;
    if (this.kind !== 'pages') {
      const taken = bytes.subarray(0, PIPE_BYTES - this.size);
      this.add(taken);
      return taken.length;
    }
    let done = this.merged(bytes.length);
    if (done > 0) {
      const last = this.pieces.at(-1)!;
      const page = { bytes: Uint8Array.from([...last.bytes, ...bytes.subarray(0, done)]), at: last.at };
      this.pieces = [...this.pieces.slice(0, -1), page];
      this.size += done;
    }
    for (; done < bytes.length && this.pieces.length < PIPE_PAGES; done += PIPE_ATOMIC) {
      this.add(bytes.subarray(done, done + PIPE_ATOMIC));
    }
    return Math.min(done, bytes.length);
  }

  take(size: number): Uint8Array {
    this.changes++;
    if (this.messages) {
      const [message, ...rest] = this.pieces;
      this.pieces = rest;
      this.size -= message!.bytes.length;
      return message!.bytes.slice(0, size);
    }
    const out = new Uint8Array(Math.min(size, this.size));
    let [done, gone] = [0, 0];
    let head: readonly Piece[] = [];
    while (done < out.length) {
      const { bytes, at } = this.pieces[gone]!;
      const part = bytes.subarray(at, at + out.length - done);
      out.set(part, done);
      done += part.length;
      gone++;
      if (at + part.length < bytes.length) head = [{ bytes, at: at + part.length }];
    }
    this.pieces = [...head, ...this.pieces.slice(gone)];
    this.size -= out.length;
    return out;
  }

  save(): () => void {
    const { pieces, size, readers, writers, changes } = this;
    return () => {
      Object.assign(this, { pieces, size, readers, writers, changes });
    };
  }
}

/** One or two ends of channels; `from` is read, `to` is written. */
abstract class End extends Description {
  readonly path: string;

  constructor(
    flags: number,
    status: NodeStatus,
    private readonly from: Channel | null,
    private readonly to: Channel | null,
  ) {
    super(flags, status);
    if (from) from.readers++;
    if (to) to.writers++;
    this.path = `${status.kind}:[${status.inode}]`;
  }

  override available(size: number): number {
    return this.from?.messages === true ? size : Math.min(size, this.from?.size ?? 0);
  }

  override read(size: number): Uint8Array | Errno | null {
    const { from } = this;
    if (!from) return 'EBADF';
    if (size === 0 && !from.messages) return new Uint8Array();
    if (!from.isEmpty) return from.take(size);
    return from.writers === 0 ? new Uint8Array() : null;
  }

  override write(bytes: Uint8Array): number | Errno | null {
    const { to } = this;
    if (!to) return 'EBADF';
    if (bytes.length === 0 && !to.messages) return 0;
    if (to.readers === 0) return 'EPIPE';
    if (to.messages && bytes.length > PIPE_BYTES) return 'EMSGSIZE';
    return to.hasRoom(bytes.length) ? to.put(bytes) : null;
  }

  override accepts(bytes: Uint8Array): boolean {
    const { to } = this;
    return !to || to.readers === 0 || bytes.length > PIPE_BYTES || to.hasRoom(bytes.length);
  }

  override get changes(): number {
    return (this.from?.changes ?? 0) + (this.to?.changes ?? 0);
  }

  /** What is written together is read together. */
  get hasMessages(): boolean {
    return this.to?.messages === true;
  }

  override events(): number {
    const { from, to } = this;
    let out = 0;
    if (from) {
      const isEnd = from.writers === 0;
      if (!from.isEmpty) out |= READABLE;
      if (isEnd) out |= to ? POLL.HUP | POLL.RDHUP | READABLE : POLL.HUP;
    }
    if (to) {
      if (to.isOpen) out |= WRITABLE;
      if (to.readers === 0 && !from) out |= POLL.ERR;
    }
    return out;
  }

  /** One direction ends; `SHUT_RD`, `SHUT_WR`, `SHUT_RDWR`. */
  shutdown(how: number): void {
    if (how !== 1 && this.from) this.from.writers = 0;
    if (how !== 0 && this.to) this.to.writers = 0;
    this.touch();
  }

  private touch(): void {
    if (this.from) this.from.changes++;
    if (this.to) this.to.changes++;
  }

  protected override closed(): void {
    if (this.from) this.from.readers = 0;
    if (this.to) this.to.writers = 0;
    this.touch();
  }

  override save(): () => void {
    const putBack = [super.save(), this.from?.save(), this.to?.save()];
    return () => {
      for (const each of putBack) each?.();
    };
  }
}

export class PipeEnd extends End {}

export class SocketEnd extends End {}

/** A socket that is connected to nothing. */
export class LooseSocket extends Description {
  readonly path: string;
  readonly hasMessages = false;

  constructor(flags: number, inode: number) {
    super(O.RDWR | flags, nodeOf('socket', inode));
    this.path = `socket:[${inode}]`;
  }

  override write(): Errno {
    return 'ENOTCONN';
  }

  override events(): number {
    return POLL.HUP | WRITABLE;
  }
}

/** Both ends of a pipe: the one that is read first. */
export function makePipe(flags: number, inode: number): readonly [PipeEnd, PipeEnd] {
  const channel = new Channel('pages');
  const status = nodeOf('pipe', inode);
  return [new PipeEnd(O.RDONLY | flags, status, channel, null), new PipeEnd(O.WRONLY | flags, status, null, channel)];
}

/** Two sockets that are connected. */
export function makeSocketPair(
  flags: number,
  messages: boolean,
  inodes: readonly [number, number],
): readonly [SocketEnd, SocketEnd] {
  const kind = messages ? 'messages' : 'bytes';
  const [there, back] = [new Channel(kind), new Channel(kind)];
  return [
    new SocketEnd(O.RDWR | flags, nodeOf('socket', inodes[0]), back, there),
    new SocketEnd(O.RDWR | flags, nodeOf('socket', inodes[1]), there, back),
  ];
}

const MOST_COUNT = (1n << 64n) - 1n;

/** `eventfd`: a counter. */
export class EventCounter extends Description {
  readonly path = 'anon_inode:[eventfd]';
  private changed = 0;

  constructor(
    flags: number,
    private count: bigint,
    private readonly isSemaphore: boolean,
    private readonly endian: 'little' | 'big',
    inode: number,
  ) {
    super(O.RDWR | flags, nodeOf('anonymous', inode));
  }

  override available(): number {
    return 8;
  }

  override read(size: number): Uint8Array | Errno | null {
    if (size < 8) return 'EINVAL';
    if (this.count === 0n) return null;
    const value = this.isSemaphore ? 1n : this.count;
    this.count -= value;
    this.changed++;
    const bytes = new Uint8Array(8);
    new DataView(bytes.buffer).setBigUint64(0, value, this.endian === 'little');
    return bytes;
  }

  override write(bytes: Uint8Array): number | Errno | null {
    if (bytes.length < 8) return 'EINVAL';
    const added = new DataView(bytes.buffer, bytes.byteOffset).getBigUint64(0, this.endian === 'little');
    if (added === MOST_COUNT) return 'EINVAL';
    if (this.count + added >= MOST_COUNT) return null;
    this.count += added;
    this.changed++;
    return 8;
  }

  override accepts(bytes: Uint8Array): boolean {
    if (bytes.length < 8) return true;
    const added = new DataView(bytes.buffer, bytes.byteOffset).getBigUint64(0, this.endian === 'little');
    return added === MOST_COUNT || this.count + added < MOST_COUNT;
  }

  override get changes(): number {
    return this.changed;
  }

  override events(): number {
    return (this.count > 0n ? POLL.IN : 0) | (this.count < MOST_COUNT - 1n ? POLL.OUT : 0);
  }

  override save(): () => void {
    const { count, changed } = this;
    const putBack = super.save();
    return () => {
      Object.assign(this, { count, changed });
      putBack();
    };
  }
}
