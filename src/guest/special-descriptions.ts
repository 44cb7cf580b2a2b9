/**
 * Timers, signals and processes as descriptors: what is read from them, and when there is
 * something.
 *
 * Source: Linux, timerfd_create(2), signalfd(2), pidfd_open(2), uapi/linux/signalfd.h.
 */
import { Description, O, READABLE } from './descriptions.js';
import type { Errno } from './errno.js';
import { putNumber } from './files.js';
import type { Alarm } from './network.js';
import { nodeOf } from './pipes.js';
import type { Endian } from '../units.js';

const anonymous = (inode: number): ReturnType<typeof nodeOf> => nodeOf('anonymous', inode);

/** `timerfd_create`: how often a timer has expired. */
export class TimerDescription extends Description implements Alarm {
  readonly path = 'anon_inode:[timerfd]';
  /** The first time that was not read, and the time between those behind it; null: not set. */
  first: bigint | null = null;
  interval = 0n;
  private settings = 0;

  constructor(
    flags: number,
    inode: number,
    private readonly endian: Endian,
    private readonly clock: () => bigint,
    /** What its clock showed when that of the machine showed 0. */
    readonly origin: bigint,
    private readonly closes: (timer: TimerDescription) => void,
  ) {
    super(O.RDWR | flags, anonymous(inode));
  }

  get due(): bigint | null {
    return this.first !== null && this.first > this.clock() ? this.first : null;
  }

  set(first: bigint | null, interval: bigint): void {
    this.first = first;
    this.interval = interval;
    this.settings++;
  }

  /** Time until it expires next; 0: never. */
  get left(): bigint {
    if (this.first === null) return 0n;
    const now = this.clock();
    if (this.first > now) return this.first - now;
    return this.interval === 0n ? 0n : this.interval - ((now - this.first) % this.interval);
  }

  private get expirations(): bigint {
    if (this.first === null || this.first > this.clock()) return 0n;
    return this.interval === 0n ? 1n : 1n + (this.clock() - this.first) / this.interval;
  }

  override available(size: number): number {
    return Math.min(size, 8);
  }

  override read(size: number): Uint8Array | Errno | null {
    if (size < 8) return 'EINVAL';
    const count = this.expirations;
    if (count === 0n) return null;
    this.first = this.interval === 0n ? null : this.first! + count * this.interval;
    this.settings++;
    const bytes = new Uint8Array(8);
    putNumber(bytes, 0, 8, count, this.endian);
    return bytes;
  }

  override get changes(): number {
    return 2 * this.settings + Number(this.expirations > 0n);
  }

  override events(): number {
    return this.expirations > 0n ? READABLE : 0;
  }

  protected override closed(): void {
    this.closes(this);
  }

  override save(): () => void {
    const { first, interval, settings } = this;
    const putBack = super.save();
    return () => {
      Object.assign(this, { first, interval, settings });
      putBack();
    };
  }
}

/** Signals of a process, as far as a descriptor of them needs these. */
export interface SignalSource {
  /** Signals of the process that are pending; of one thread only where there is one alone. */
  readonly readableSet: bigint;
  take(set: bigint): { readonly signal: number; readonly info: Uint8Array } | null;
}

const INFO_BYTES = 128;
/** Fields of `signalfd_siginfo` behind signal, errno and code, and their offsets. */
const FIELD = { pid: 12, uid: 16, tid: 24, overrun: 32, status: 40, int: 44, ptr: 48, utime: 56, stime: 64, addr: 72 } as const; // prettier-ignore
const SI = { USER: 0, QUEUE: -1, TIMER: -2, TKILL: -6, KERNEL: 0x80 } as const;
const SIGCHLD = 17;
/** Signals that instructions raise. */
const FAULTS: ReadonlySet<number> = new Set([4, 5, 7, 8, 11]);

/** `signalfd`: takes pending signals of the process that reads. */
export class SignalDescription extends Description {
  readonly path = 'anon_inode:[signalfd]';

  constructor(
    flags: number,
    inode: number,
    public set: bigint,
    /** The signals of the process that made it, which `poll` asks about. */
    readonly owner: SignalSource,
    private readonly reader: () => SignalSource,
    private readonly machine: { readonly endian: Endian; readonly wordBytes: 4 | 8 },
  ) {
    super(O.RDWR | flags, anonymous(inode));
  }

  override read(size: number): Uint8Array | Errno | null {
    if (size < INFO_BYTES) return 'EINVAL';
    const out: number[] = [];
    while (out.length + INFO_BYTES <= Math.min(size, 64 * INFO_BYTES)) {
      const next = this.reader().take(this.set);
      if (!next) break;
      out.push(...this.shown(next.info));
    }
    return out.length > 0 ? Uint8Array.from(out) : null;
  }

  /** `struct signalfd_siginfo` of a `siginfo`. */
  private shown(info: Uint8Array): Uint8Array {
    const { endian, wordBytes } = this.machine;
    const little = endian === 'little';
    const bytes = new Uint8Array(INFO_BYTES);
    const [from, to] = [new DataView(info.buffer, info.byteOffset), new DataView(bytes.buffer)];
    const at = wordBytes === 8 ? 16 : 12;
    const signal = from.getInt32(0, little);
    const code = from.getInt32(8, little);
    const copy = (offset: number, field: number): void => {
      to.setUint32(field, from.getUint32(at + offset, little), little);
    };
    const word = (offset: number, field: number): void => {
      const value =
        wordBytes === 8 ? from.getBigUint64(at + offset, little) : BigInt(from.getUint32(at + offset, little));
      to.setBigUint64(field, value, little);
    };
    for (const each of [0, 4, 8]) to.setInt32(each, from.getInt32(each, little), little);
    if (FAULTS.has(signal) && code > 0) word(0, FIELD.addr);
    else if (code === SI.TIMER) {
      copy(0, FIELD.tid);
      copy(4, FIELD.overrun);
    } else {
      copy(0, FIELD.pid);
      copy(4, FIELD.uid);
      if (signal === SIGCHLD && code > 0 && code !== SI.KERNEL) copy(8, FIELD.status);
    }
    if (code === SI.TIMER || code === SI.QUEUE) {
      copy(8, FIELD.int);
      word(8, FIELD.ptr);
    }
    return bytes;
  }

  override get changes(): number {
    return Number(this.events() !== 0);
  }

  override events(): number {
    return (this.owner.readableSet & this.set) === 0n ? 0 : READABLE;
  }

  override save(): () => void {
    const { set } = this;
    const putBack = super.save();
    return () => {
      this.set = set;
      putBack();
    };
  }
}

/** `pidfd_open`: a process, which can be read from when it has ended. */
export class ProcessDescription extends Description {
  readonly path = 'anon_inode:[pidfd]';

  constructor(
    flags: number,
    inode: number,
    readonly id: number,
    readonly hasEnded: () => boolean,
  ) {
    super(O.RDWR | flags, anonymous(inode));
  }

  override get changes(): number {
    return Number(this.hasEnded());
  }

  override events(): number {
    return this.hasEnded() ? READABLE : 0;
  }
}
