/**
 * POSIX queues of messages: found by names that are no files' (`/dev/mqueue` is not mounted), kept
 * until they are unlinked and closed. A message goes before those of lower priority, and behind
 * those of its own.
 *
 * Source: Linux, mq_overview(7), ipc/mqueue.c.
 */
import { O, READABLE, Seekable, WRITABLE } from './descriptions.js';
import type { NodeStatus } from './files.js';

/** Limits, as settings of a kernel are that was told no others (`fs.mqueue`). */
export const QUEUE_MOST = { messages: 10, bytes: 8192, queues: 256, priority: 32_768 } as const;
/** RLIMIT_MSGQUEUE of a new process: bytes in all queues. */
export const QUEUE_BYTES = 819_200n;
/** What a message costs beside its bytes: its head, and a node of the tree of priorities. */
const MESSAGE_WORDS = 12n;
/** Bytes that `fstat` tells of each queue. */
const STATUS_BYTES = 80;

interface QueuedMessage {
  readonly priority: number;
  readonly bytes: Uint8Array;
}

/** Who is told when a message comes to an empty queue; without `tell` it is registered alone. */
export interface Notice {
  readonly process: number;
  readonly how: 'signal' | 'none';
  readonly signal: number;
  readonly tell: (sender: number) => void;
}

export interface QueueShape {
  readonly messages: number;
  readonly bytes: number;
}

/** What a queue of this shape counts for: as much as it may ever hold. */
export function costOf({ messages, bytes }: QueueShape, wordBytes: 4 | 8): bigint {
  return BigInt(messages) * (BigInt(bytes) + MESSAGE_WORDS * BigInt(wordBytes));
}

export class NamedQueue {
  private messages: readonly QueuedMessage[] = [];
  notice: Notice | null = null;
  /** How often a message came or went. */
  moves = 0;
  /** Calls that wait for a message. */
  receivers: ReadonlySet<object> = new Set();
  /** Descriptions that lead here. */
  opened = 0;
  isUnlinked = false;

  constructor(
    readonly shape: QueueShape,
    readonly permissions: number,
    readonly inode: number,
    private changed: bigint,
  ) {}

  get count(): number {
    return this.messages.length;
  }

  get isFull(): boolean {
    return this.messages.length >= this.shape.messages;
  }

  get status(): NodeStatus {
    const { permissions, inode, changed, isUnlinked } = this;
    return { kind: 'file', permissions, sizeBytes: STATUS_BYTES, modified: changed, inode, links: isUnlinked ? 0 : 1 };
  }

  /** Puts a message in its place; who asked is told, unless one waits for it already. */
  put(message: QueuedMessage, sender: number, now: bigint): void {
    const behind = this.messages.findIndex(({ priority }) => priority < message.priority);
    const at = behind < 0 ? this.messages.length : behind;
    this.messages = this.messages.toSpliced(at, 0, message);
    this.changed = now;
    this.moves++;
    if (this.messages.length > 1 || this.receivers.size > 0 || !this.notice) return;
    const { tell } = this.notice;
    this.notice = null;
    tell(sender);
  }

  take(now: bigint): QueuedMessage | null {
    const [first, ...rest] = this.messages;
    if (!first) return null;
    this.messages = rest;
    this.changed = now;
    this.moves++;
    return first;
  }

  /** A process closes a descriptor of the queue, whichever: it is not told any more. */
  flushed(process: number): void {
    if (this.notice?.process === process) this.notice = null;
  }

  /** What is read from a descriptor. */
  get text(): string {
    const bytes = this.messages.reduce((sum, each) => sum + each.bytes.length, 0);
    const { notice } = this;
    const notify = notice?.how === 'none' ? 1 : 0;
    const field = (value: number, width: number): string => String(value).padEnd(width);
    const who = `SIGNO:${field(notice?.signal ?? 0, 5)} NOTIFY_PID:${field(notice?.process ?? 0, 6)}`;
    return `QSIZE:${field(bytes, 10)} NOTIFY:${field(notify, 5)} ${who}\n`;
  }

  save(): () => void {
    const { messages, notice, receivers, opened, isUnlinked, changed, moves } = this;
    return () => {
      Object.assign(this, { messages, notice, receivers, opened, isUnlinked, changed, moves });
    };
  }
}

/** A descriptor's way to a queue. */
export class QueueDescription extends Seekable {
  protected readonly sizeBytes = STATUS_BYTES;

  constructor(
    flags: number,
    readonly path: string,
    readonly queue: NamedQueue,
    private readonly left: (queue: NamedQueue) => void,
  ) {
    super(flags, queue.status);
    queue.opened++;
  }

  override get status(): NodeStatus {
    return this.queue.status;
  }

  override read(size: number): Uint8Array {
    const bytes = this.readAt(this.position, size);
    this.position += bytes.length;
    return bytes;
  }

  override readAt(offset: number, size: number): Uint8Array {
    return new TextEncoder().encode(this.queue.text).slice(offset, offset + size);
  }

  override get isPolled(): boolean {
    return true;
  }

  override get changes(): number {
    return this.queue.moves;
  }

  override events(): number {
    const { queue } = this;
    return (queue.count > 0 ? READABLE : 0) | (queue.isFull ? 0 : WRITABLE);
  }

  protected override closed(): void {
    this.left(this.queue);
  }
}

/** All queues of a run. */
export class NamedQueues {
  /** Those with a name. */
  private names: ReadonlyMap<string, NamedQueue> = new Map();
  /** Those that are there, with a name or open. */
  private all: readonly NamedQueue[] = [];

  get(name: string): NamedQueue | null {
    return this.names.get(name) ?? null;
  }

  get count(): number {
    return this.all.length;
  }

  /** What all count for. */
  cost(wordBytes: 4 | 8): bigint {
    return this.all.reduce((sum, { shape }) => sum + costOf(shape, wordBytes), 0n);
  }

  add(name: string, queue: NamedQueue): void {
    this.names = new Map([...this.names, [name, queue]]);
    this.all = [...this.all, queue];
  }

  open(name: string, queue: NamedQueue, flags: number): QueueDescription {
    const kept = flags & (O.ACCMODE | O.NONBLOCK);
    return new QueueDescription(kept, `/${name}`, queue, (each) => {
      each.opened--;
      this.drop(each);
    });
  }

  unlink(name: string, queue: NamedQueue): void {
    this.names = new Map([...this.names].filter(([each]) => each !== name));
    queue.isUnlinked = true;
    this.drop(queue);
  }

  private drop(queue: NamedQueue): void {
    if (queue.isUnlinked && queue.opened === 0) this.all = this.all.filter((each) => each !== queue);
  }

  save(): () => void {
    const { names, all } = this;
    const queues = all.map((each) => each.save());
    return () => {
      Object.assign(this, { names, all });
      for (const putBack of queues) putBack();
    };
  }
}
