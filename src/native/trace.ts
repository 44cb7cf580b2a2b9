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

/** One thread of a trace. */
export interface TraceThread {
  /** Position in `NativeTrace.threads`. */
  readonly index: number;
  readonly header: ThreadHeader;
  readonly source: TraceSource;
}

/** Takes the events of all threads. */
export type EventTaker = (thread: TraceThread, called: NativeFunction, stack: number, time: number) => void;

interface Running {
  readonly thread: TraceThread;
  readonly reader: ThreadReader;
  readonly find: (low: number) => NativeFunction | null;
  called: NativeFunction;
}

export class NativeTrace {
  readonly threads: readonly TraceThread[];
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
    this.threads = files.map(({ source, header }, index) => ({ index, header, source }));
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

  /** The events of all threads in order of time; of one thread in the order of its file. */
  merged(take: EventTaker): void {
    this.begin();
    const heap: Running[] = [];
    for (const thread of this.threads) {
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
      sink(heap);
    }
  }

  /** The events of one thread after the other. */
  byThread(take: EventTaker): void {
    this.begin();
    for (const thread of this.threads) {
      const running = this.start(thread);
      const { reader } = running;
      while (this.advance(running)) take(thread, running.called, reader.stack, reader.time);
    }
  }

  private begin(): void {
    this.damaged = 0;
    this.unknown = 0;
  }

  private start(thread: TraceThread): Running {
    const { header, source } = thread;
    const pieceBytes = this.threads.length > 64 ? 1 << 16 : 1 << 20;
    return {
      thread,
      reader: new ThreadReader(source, header, this.clock, pieceBytes),
      find: this.objects.get(header.id)!.finder(header.bias),
      called: NOTHING,
    };
  }

  private advance(running: Running): boolean {
    const { reader } = running;
    while (reader.next()) {
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

const NOTHING: NativeFunction = { index: -1, name: '', address: 0n, site: 0n, object: '' };

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
