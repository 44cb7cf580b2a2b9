/**
 * Pipes and event counters: what processes and threads send each other through descriptors.
 *
 * Source: Linux, pipe(7), eventfd(2).
 */
import { Channel, PIPE_BYTES, PIPE_PAGE, type Queues } from './channels.js';
import type { Errno } from './errno.js';
import { Description, O, POLL, READABLE, WRITABLE } from './descriptions.js';
import type { SpecialStatus } from './files.js';

/** What `fstat` tells of what has no place in the tree. */
export function nodeOf(kind: 'socket' | 'anonymous', inode: number): SpecialStatus {
  return { kind, permissions: kind === 'socket' ? 0o777 : 0o600, inode, device: 0 };
}

/** Most bytes that a pipe may be given (`fs.pipe-max-size`), and that can be asked for. */
const [PIPE_MOST, PIPE_ASKED_MOST] = [0x10_0000, 0x8000_0000] as const;

/** One end of a pipe; of `from` and `to` one is there: that which is read, or written. */
export class PipeEnd extends Description {
  readonly path: string;
  private readonly channel: Channel;
  /** How often it had been opened for writing. */
  private readonly opensBefore: number;

  constructor(
    flags: number,
    inode: number,
    private readonly from: Channel | null,
    private readonly to: Channel | null,
    path = `pipe:[${inode}]`,
  ) {
    super(flags, { kind: 'pipe', permissions: 0o600, inode, device: 0, made: (from ?? to)!.made });
    if (from) from.readers++;
    if (to) to.writers++;
    this.channel = (from ?? to)!;
    if (from) from.opensToRead++;
    if (to) to.opensToWrite++;
    this.opensBefore = this.channel.opensToWrite;
    this.path = path;
  }

  /** True of both ends of one pipe. */
  isOf(other: PipeEnd): boolean {
    return this.channel === other.channel;
  }

  /** An end for what `flags` say, whichever this one is; null: no reader is there. */
  again(flags: number): PipeEnd | null {
    const { channel, path } = this;
    const mode = flags & O.ACCMODE;
    if (mode === O.WRONLY && (flags & O.NONBLOCK) !== 0 && channel.readers === 0) return null;
    const [reads, writes] = [mode !== O.WRONLY, mode !== O.RDONLY];
    return new PipeEnd(flags, this.status.inode, reads ? channel : null, writes ? channel : null, path);
  }

  override available(size: number): number {
    return Math.min(size, this.from?.size ?? 0);
  }

  override read(size: number): Uint8Array | Errno | null {
    const { from } = this;
    if (!from) return 'EBADF';
    if (size === 0) return new Uint8Array();
    if (!from.isEmpty) return from.take(size).bytes;
    return from.writers === 0 ? new Uint8Array() : null;
  }

  /** What can be read, without reading it. */
  peek(size: number): Uint8Array {
    return this.from?.take(size, true).bytes ?? new Uint8Array();
  }

  override write(bytes: Uint8Array): number | Errno | null {
    const { to } = this;
    if (!to) return 'EBADF';
    if (bytes.length === 0) return 0;
    if (to.readers === 0) return 'EPIPE';
    return to.hasRoom(bytes.length) ? to.put(bytes) : null;
  }

  override accepts(bytes: Uint8Array): boolean {
    const { to } = this;
    return (
      !to || to.readers === 0 || bytes.length > PIPE_BYTES || bytes.length > to.pageBytes || to.hasRoom(bytes.length)
    );
  }

  /** Bytes for which there are free pages. */
  get room(): number {
    return this.to?.readers === 0 ? PIPE_BYTES : (this.to?.freeBytes ?? 0);
  }

  /** Bytes that are in the pipe. */
  get size(): number {
    return this.channel.size;
  }

  /** Bytes that the pipe holds. */
  get capacity(): number {
    return this.channel.pageBytes;
  }

  /** F_SETPIPE_SZ, as a user without rights may ask for it. */
  resize(size: number): number | Errno {
    if (size > PIPE_ASKED_MOST) return 'EINVAL';
    const bytes = Math.max(PIPE_PAGE, 2 ** Math.ceil(Math.log2(size)));
    if (bytes > this.capacity && bytes > PIPE_MOST) return 'EPERM';
    return this.channel.resize(bytes) ? bytes : 'EBUSY';
  }

  /** True when every writer is gone, or every reader. */
  get isBroken(): boolean {
    return this.from?.writers === 0 || this.to?.readers === 0;
  }

  override get changes(): number {
    return (this.from?.puts ?? 0) + (this.to?.takes ?? 0) + Number(this.isBroken);
  }

  override events(): number {
    const { from, to } = this;
    let out = 0;
    if (from) {
      if (!from.isEmpty) out |= READABLE;
      if (from.writers === 0 && this.opensBefore !== from.opensToWrite) out |= POLL.HUP;
    }
    if (to) {
      if (to.isOpen) out |= WRITABLE;
      if (to.readers === 0) out |= POLL.ERR;
    }
    return out;
  }

  /** No descriptor will lead to it. */
  abandon(): void {
    this.closed();
  }

  protected override closed(): void {
    const { channel } = this;
    if (this.from) channel.readers--;
    if (this.to) channel.writers--;
    if (channel.readers === 0 && channel.writers === 0) channel.drain();
  }

  override save(): () => void {
    const putBack = [super.save(), this.from?.save(), this.to?.save()];
    return () => {
      for (const each of putBack) each?.();
    };
  }
}

/** Both ends of a pipe: the one that is read first. */
export function makePipe(flags: number, inode: number, queues: Queues): readonly [PipeEnd, PipeEnd] {
  const channel = new Channel('pages', queues);
  return [new PipeEnd(O.RDONLY | flags, inode, channel, null), new PipeEnd(O.WRONLY | flags, inode, null, channel)];
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

  override available(size: number): number {
    return Math.min(size, 8);
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
