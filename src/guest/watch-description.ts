/**
 * `inotify` as a descriptor: which files it watches, and the events that wait to be read.
 *
 * Source: Linux, inotify(7), uapi/linux/inotify.h.
 */
import { Description, O, READABLE } from './descriptions.js';
import type { Errno } from './errno.js';
import { putNumber } from './files.js';
import { EVENT, type FileNews, type FileWatcher } from './file-events.js';
import { nodeOf } from './pipes.js';
import { alignUp } from '../bits.js';
import type { Endian } from '../units.js';
import { nameBytes } from '../bytes.js';

/** What a watch is asked for beside events. */
export const WATCH = {
  ONLYDIR: 0x0100_0000, DONT_FOLLOW: 0x0200_0000, EXCL_UNLINK: 0x0400_0000, MASK_CREATE: 0x1000_0000,
  MASK_ADD: 0x2000_0000, ONESHOT: 0x8000_0000, EVENTS: 0xfff,
} as const; // prettier-ignore
const Q_OVERFLOW = 0x4000;
const HEAD_BYTES = 16;
/** `fs.inotify.max_queued_events`, and watches as of a machine with little memory. */
const EVENTS_MOST = 16_384;
const WATCHES_MOST = 8192;

interface Watch {
  readonly number: number;
  readonly inode: number;
  /** Events and flags. */
  readonly mask: number;
}

interface Event {
  readonly watch: number;
  readonly mask: number;
  readonly cookie: number;
  readonly name: Uint8Array;
}

const NO_NAME = new Uint8Array();
const sameBytes = (a: Uint8Array, b: Uint8Array): boolean =>
  a.length === b.length && a.every((each, i) => each === b[i]);

export class WatchDescription extends Description implements FileWatcher {
  readonly path = 'anon_inode:inotify';
  private watchesByInode: ReadonlyMap<number, Watch> = new Map();
  private queue: readonly Event[] = [];
  private lastNumber = 0;
  private came = 0;

  constructor(
    flags: number,
    inode: number,
    private readonly endian: Endian,
    private readonly closes: (watcher: WatchDescription) => void,
  ) {
    super(O.RDONLY | flags, nodeOf('anonymous', inode));
  }

  // --------------------------------------------------------------------------------------- watches

  /** The number of the watch of a file. */
  add(inode: number, mask: number): number | Errno {
    const old = this.watchesByInode.get(inode);
    if (old && (mask & WATCH.MASK_CREATE) !== 0) return 'EEXIST';
    if (!old && this.watchesByInode.size >= WATCHES_MOST) return 'ENOSPC';
    const number = old?.number ?? ++this.lastNumber;
    const kept = mask & (WATCH.EVENTS | WATCH.EXCL_UNLINK | WATCH.ONESHOT);
    const whole = old && (mask & WATCH.MASK_ADD) !== 0 ? old.mask | kept : kept;
    this.watchesByInode = new Map([...this.watchesByInode, [inode, { number, inode, mask: whole }]]);
    return number;
  }

  remove(number: number): Errno | null {
    const watch = [...this.watchesByInode.values()].find((each) => each.number === number);
    if (!watch) return 'EINVAL';
    this.drop(watch);
    return null;
  }

  private drop(watch: Watch): void {
    this.watchesByInode = new Map([...this.watchesByInode].filter(([, each]) => each !== watch));
    this.put({ watch: watch.number, mask: EVENT.IGNORED, cookie: 0, name: NO_NAME });
  }

  watches(inode: number): boolean {
    return this.watchesByInode.has(inode);
  }

  // ---------------------------------------------------------------------------------------- events

  tell(inode: number, { event, name, cookie, isUnlinked }: FileNews): void {
    const watch = this.watchesByInode.get(inode);
    if (!watch || (watch.mask & event & WATCH.EVENTS) === 0) return;
    if (name !== null && isUnlinked && (watch.mask & WATCH.EXCL_UNLINK) !== 0) return;
    const bytes = name === null ? NO_NAME : nameBytes(name);
    this.put({ watch: watch.number, mask: event, cookie, name: bytes });
    if ((watch.mask & WATCH.ONESHOT) !== 0) this.drop(watch);
  }

  gone(inode: number): void {
    this.tell(inode, { event: EVENT.DELETE_SELF, name: null, cookie: 0, isUnlinked: false });
    const watch = this.watchesByInode.get(inode);
    if (watch) this.drop(watch);
  }

  private put(event: Event): void {
    const last = this.queue.at(-1);
    const isRepeated = last?.watch === event.watch && last.mask === event.mask && sameBytes(last.name, event.name);
    if (isRepeated) return;
    this.came++;
    if (this.queue.length < EVENTS_MOST) this.queue = [...this.queue, event];
    else if (last?.mask !== Q_OVERFLOW)
      this.queue = [...this.queue, { watch: -1, mask: Q_OVERFLOW, cookie: 0, name: NO_NAME }];
  }

  /** `struct inotify_event`: numbers of 4 bytes, and the name with zeros behind it. */
  private bytesOf({ watch, mask, cookie, name }: Event): Uint8Array {
    const room = name.length === 0 ? 0 : alignUp(name.length + 1, HEAD_BYTES);
    const bytes = new Uint8Array(HEAD_BYTES + room);
    [watch >>> 0, mask >>> 0, cookie, room].forEach((each, i) => {
      putNumber(bytes, 4 * i, 4, each, this.endian);
    });
    bytes.set(name, HEAD_BYTES);
    return bytes;
  }

  override available(size: number): number {
    let bytes = 0;
    for (const each of this.queue) bytes += this.bytesOf(each).length;
    return Math.min(size, bytes);
  }

  override read(size: number): Uint8Array | Errno | null {
    if (this.queue.length === 0) return null;
    const out: number[] = [];
    let count = 0;
    for (; count < this.queue.length; count++) {
      const bytes = this.bytesOf(this.queue[count]!);
      if (out.length + bytes.length > size) break;
      out.push(...bytes);
    }
    if (count === 0) return 'EINVAL';
    this.queue = this.queue.slice(count);
    return Uint8Array.from(out);
  }

  override get changes(): number {
    return this.came;
  }

  override events(): number {
    return this.queue.length === 0 ? 0 : READABLE;
  }

  protected override closed(): void {
    this.closes(this);
  }

  override save(): () => void {
    const { watchesByInode, queue, lastNumber, came } = this;
    const putBack = super.save();
    return () => {
      Object.assign(this, { watchesByInode, queue, lastNumber, came });
      putBack();
    };
  }
}
