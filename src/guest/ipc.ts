/**
 * Memory, semaphores and queues of messages of System V, which all processes of a run know by keys
 * and numbers: they stay until they are removed.
 *
 * A segment is a file in memory that no path leads to: what attaches it maps that, and how often it
 * is attached is how often it is mapped.
 *
 * Source: Linux, shmget(2), semget(2), msgget(2), ipc/util.c, ipc/sem.c, ipc/msg.c.
 */
import type { FileDescription } from './descriptions.js';
import { NamedQueues } from './message-queues.js';
import type { Remembered } from './network.js';

/** Numbers are an index and how often one was given, times this. */
export const INDEX_MOST = 32_768;

/** Limits, as settings of a kernel are that was told no others: they are told, and kept. */
export const IPC_MOST = {
  segments: 4096,
  /** Semaphores of one set, sets; operations of one call; the largest value. */
  set: 32_000,
  sets: 32_000,
  operations: 500,
  value: 32_767,
  queues: 32_000,
  /** Bytes of a message, and of what waits in a queue. */
  message: 8192,
  queue: 16_384,
} as const;

/** What all kinds have. */
export interface IpcObject {
  readonly id: number;
  /** 0: it is found by its number alone. */
  key: number;
  /** Permissions of its file mode. */
  mode: number;
  owner: number;
  group: number;
  changed: bigint;
  /** Marked: it goes when nothing has it attached. */
  isGone: boolean;
}

export interface Segment extends IpcObject {
  readonly file: FileDescription;
  readonly size: number;
  readonly maker: number;
  attached: bigint;
  detached: bigint;
  last: number;
}

/** A process that waits for a semaphore to grow, or to be 0. */
export interface Waiter {
  readonly number: number;
  readonly isForZero: boolean;
}

export interface Semaphores extends IpcObject {
  values: number[];
  /** The process that changed each last. */
  processes: number[];
  operated: bigint;
  readonly waiters: Set<Waiter>;
  /** What is taken back when a process ends, by its id. */
  readonly undo: Map<number, number[]>;
}

export interface Message {
  readonly type: bigint;
  readonly bytes: Uint8Array;
}

export interface Queue extends IpcObject {
  messages: readonly Message[];
  /** Most bytes that wait. */
  most: number;
  sent: bigint;
  received: bigint;
  sender: number;
  receiver: number;
}

export const bytesOf = ({ messages }: Queue): number => messages.reduce((sum, each) => sum + each.bytes.length, 0);

/** Objects of one kind. */
export class IpcTable<Kind extends IpcObject> {
  private objects: ReadonlyMap<number, Kind> = new Map();
  /** How often a number was given, in the part above its index. */
  private sequence = 0;
  private lastIndex = -1;

  constructor(private readonly copy: (object: Kind) => () => void) {}

  get all(): readonly Kind[] {
    return [...this.objects.values()];
  }

  byId(id: number): Kind | null {
    return this.objects.get(id) ?? null;
  }

  byKey(key: number): Kind | null {
    return this.all.find((each) => each.key === key && !each.isGone) ?? null;
  }

  add(make: (id: number) => Kind): Kind {
    const used = new Set(this.all.map(({ id }) => id % INDEX_MOST));
    let index = 0;
    while (used.has(index)) index++;
    if (index <= this.lastIndex) this.sequence = (this.sequence + 1) % 0xffff;
    this.lastIndex = index;
    const object = make(this.sequence * INDEX_MOST + index);
    this.objects = new Map([...this.objects, [object.id, object]]);
    return object;
  }

  remove(object: Kind): void {
    object.isGone = true;
    this.objects = new Map([...this.objects].filter(([, each]) => each !== object));
  }

  save(): () => void {
    const { objects, sequence, lastIndex } = this;
    const copies = this.all.map((each) => {
      const fields = { ...each };
      const putBack = this.copy(each);
      return (): void => {
        Object.assign(each, fields);
        putBack();
      };
    });
    return () => {
      Object.assign(this, { objects, sequence, lastIndex });
      for (const each of copies) each();
    };
  }
}

/** All objects of a run. */
export class Ipc implements Remembered {
  readonly segments = new IpcTable<Segment>(() => () => undefined);
  /** Queues of POSIX. */
  readonly named = new NamedQueues();
  readonly queues = new IpcTable<Queue>(() => () => undefined);
  readonly semaphores = new IpcTable<Semaphores>((each) => {
    const { values, processes } = each;
    const [copied, changed] = [[...values], [...processes]];
    const undo = [...each.undo].map(([id, amounts]) => [id, [...amounts]] as const);
    const waiters = [...each.waiters];
    return () => {
      each.values = copied;
      each.processes = changed;
      each.undo.clear();
      for (const [id, amounts] of undo) each.undo.set(id, [...amounts]);
      each.waiters.clear();
      for (const waiter of waiters) each.waiters.add(waiter);
    };
  });

  /** A process has ended: what it took from semaphores so that it comes back does so. */
  ended(process: number): void {
    for (const each of this.semaphores.all) {
      each.undo.get(process)?.forEach((amount, i) => {
        if (amount === 0) return;
        each.values[i] = Math.min(Math.max(each.values[i]! + amount, 0), 32_767);
        each.processes[i] = process;
      });
      each.undo.delete(process);
    }
  }

  save(): () => void {
    const parts = [this.segments, this.queues, this.semaphores, this.named].map((each) => each.save());
    return () => {
      for (const each of parts) each();
    };
  }
}
