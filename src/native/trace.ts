/** A whole trace: the files of its threads with the functions that they name, in order of time. */
import { ElftraceError } from '../errors.js';
import type { NativeFunction, TracedObject } from './objects.js';
import { type Clock, clockOf, type ThreadHeader, ThreadReader, type TraceSource } from './reader.js';

/** How sure a trace is. */
export interface TraceDoubts {
  /** Events that the program could not record, by its own count. */
  readonly dropped: number;
  /** Words of files that are no records. */
  readonly damaged: number;
  /** Records that name no site of their object. */
  readonly unknown: number;
}

/** One file of a trace: a thread's calls of functions of one object. */
export interface TraceThread {
  /** Position in `NativeTrace.threads`. */
  readonly index: number;
  /** Number of the thread, which has a file for each object. */
  readonly task: number;
  readonly header: ThreadHeader;
  readonly source: TraceSource;
}

/** Takes the events of all threads: calls, and (null) the return of the call that began there. */
export type EventTaker = (thread: TraceThread, called: NativeFunction | null, stack: number, time: number) => void;

/** What is read ahead of all files together, bytes; of one at least a page. */
const READ_BYTES = 1 << 26;

interface Running {
  readonly thread: TraceThread;
  readonly reader: ThreadReader;
  readonly find: (low: number) => NativeFunction | null;
  called: NativeFunction | null;
}

/**
 * A trace directory that a patched program wrote: its threads, the functions of its files, and the
 * calls in order of time. Files are read as they are asked for, a piece at a time.
 */
export class NativeTrace {
  readonly threads: readonly TraceThread[];
  /** The files by thread. */
  readonly tasks: readonly (readonly TraceThread[])[];
  readonly clock: Clock;
  private damaged = 0;
  private unknown = 0;

  /**
   * @param objects  the traced objects by their id
   * @throws ElftraceError 'bad-reference' where the object of a file is not among them
   */
  constructor(
    files: readonly { readonly source: TraceSource; readonly header: ThreadHeader }[],
    private readonly objects: ReadonlyMap<string, TracedObject>,
  ) {
    for (const { source, header } of files) {
      if (objects.has(header.id)) continue;
      throw new ElftraceError(
        'bad-reference',
        `${source.name} is a trace of ${header.object} (sha256 ${header.id}), which is not there: name it with --object FILE`,
        { reason: 'object-missing', expected: header.id },
      );
    }
    const numbers = new Map<string, number>();
    this.threads = files.map(({ source, header }, index) => {
      const key = `${header.process}.${header.thread}`;
      const task = numbers.get(key) ?? numbers.size;
      numbers.set(key, task);
      return { index, task, header, source };
    });
    this.tasks = [...numbers.values()].map((task) => this.threads.filter((each) => each.task === task));
    this.clock = clockOf(files.map(({ header }) => header));
  }

  /** What is known of it so far: damage is counted while events are read. */
  get doubts(): TraceDoubts {
    // What a process lost without a file stands, so far, in the files of some of its threads.
    const elsewhere = new Map<number, number>();
    let dropped = 0;
    for (const { header } of this.threads) {
      dropped += header.dropped;
      elsewhere.set(header.process, Math.max(elsewhere.get(header.process) ?? 0, header.droppedElsewhere));
    }
    for (const each of elsewhere.values()) dropped += each;
    return { dropped, damaged: this.damaged, unknown: this.unknown };
  }

  /** The object of a file. */
  objectOf({ header }: TraceThread): TracedObject {
    return this.objects.get(header.id)!;
  }

  /** The events of all threads in order of time; those of one file in its order. */
  merged(take: EventTaker): void {
    this.begin();
    this.merge(this.threads, take);
  }

  /** The events of one thread after the other. */
  byTask(take: EventTaker): void {
    this.begin();
    for (const files of this.tasks) this.merge(files, take);
  }

  private merge(files: readonly TraceThread[], take: EventTaker): void {
    const heap: Running[] = [];
    for (const thread of files) {
      const running = this.start(thread);
      if (this.advance(running)) {
        heap.push(running);
        rise(heap, heap.length - 1);
      }
    }
    while (heap.length > 0) {
      const first = heap[0]!;
      take(first.thread, first.called, first.reader.stack, first.reader.time);
      if (!this.advance(first)) {
        const last = heap.pop()!;
        if (heap.length === 0) break;
        heap[0] = last;
      }
      if (heap.length > 1) sink(heap);
    }
  }

  private begin(): void {
    this.damaged = 0;
    this.unknown = 0;
  }

  private start(thread: TraceThread): Running {
    const { header, source } = thread;
    const share = 2 ** Math.floor(Math.log2(READ_BYTES / this.threads.length));
    const pieceBytes = Math.min(1 << 20, Math.max(1 << 12, share));
    return {
      thread,
      reader: new ThreadReader(source, header, this.clock, pieceBytes),
      find: this.objectOf(thread).finder(header.bias),
      called: null,
    };
  }

  private advance(running: Running): boolean {
    const { reader } = running;
    while (reader.next()) {
      if (reader.isReturn) {
        running.called = null;
        return true;
      }
      const called = running.find(reader.site);
      if (called !== null) {
        running.called = called;
        return true;
      }
      this.unknown++;
    }
    this.damaged += reader.damaged;
    return false;
  }
}

const isBefore = (a: Running, b: Running): boolean =>
  a.reader.time < b.reader.time || (a.reader.time === b.reader.time && a.thread.index < b.thread.index);

function rise(heap: Running[], from: number): void {
  let at = from;
  while (at > 0) {
    const parent = (at - 1) >> 1;
    if (!isBefore(heap[at]!, heap[parent]!)) return;
    [heap[at], heap[parent]] = [heap[parent]!, heap[at]!];
    at = parent;
  }
}

function sink(heap: Running[]): void {
  let at = 0;
  for (;;) {
    let least = at;
    for (const child of [2 * at + 1, 2 * at + 2]) {
      if (child < heap.length && isBefore(heap[child]!, heap[least]!)) least = child;
    }
    if (least === at) return;
    [heap[at], heap[least]] = [heap[least]!, heap[at]!];
    at = least;
  }
}
