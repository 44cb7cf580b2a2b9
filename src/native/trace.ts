/** A whole trace: the files of its threads with the functions that they name, in order of time. */
import { ElftraceError, malformed } from '../errors.js';
import { countsOf } from './counter.js';
import type { NativeFunction, TracedObject } from './objects.js';
import { type Clock, clockOf, type ThreadHeader, ThreadReader, type TraceSource } from './reader.js';
import { type CallListener, CallTree } from './tree.js';

/** How sure a trace is. */
export interface TraceDoubts {
  /** Events that the program could not record, by its own count. */
  readonly dropped: number;
  /** Of these: before the C library knew its thread, as resolvers of static programs run. */
  readonly droppedEarly: number;
  /** Of these: of processes that had no file; at least so many, at most a 1024th more. */
  readonly droppedUnfiled: number;
  /** Returns that it could not, of calls that it did record. */
  readonly droppedReturns: number;
  /** Calls that made room for later ones, by its own count. */
  readonly overwritten: number;
  /** Words of files that are no records. */
  readonly damaged: number;
  /** Records that name no site of their object. */
  readonly unknown: number;
}

/** One file of a trace: a thread's calls of functions of one object. */
export interface TraceThread {
  /** Position in `NativeTrace.threads`. */
  readonly index: number;
  /**
   * Number of the thread, which has a file for each object; where calls have no times each file has
   * its own, for the order of calls of two objects is not known.
   */
  readonly task: number;
  /** Number of its program: a process that executes another one has several. */
  readonly session: number;
  readonly header: ThreadHeader;
  readonly source: TraceSource;
}

/** A process from its start, or from the execution of a program, on. */
export interface TraceSession {
  readonly process: number;
  readonly files: readonly TraceThread[];
}

/** Gives what hears of the calls of one thread, when its first one comes. */
export type Listeners = (thread: TraceThread) => CallListener;

/** What is read ahead of all files together, bytes; of one at least a page. */
const READ_BYTES = 1 << 26;

type TraceFile = Pick<TraceThread, 'source' | 'header'>;

interface Running {
  readonly thread: TraceThread;
  readonly reader: ThreadReader;
  readonly find: (low: number) => NativeFunction | null;
  readonly tree: CallTree;
  /** null: it is at a return. */
  called: NativeFunction | null;
  isOver: boolean;
}

/** Whose calls a tree holds at present. */
interface Task {
  readonly thread: TraceThread;
  readonly tree: CallTree;
  readonly listener: CallListener;
  session: number;
}

/**
 * A trace directory that a patched program wrote: its threads, the functions of its files, and the
 * calls in order of time. Files are read as they are asked for, a piece at a time.
 */
export class NativeTrace {
  readonly threads: readonly TraceThread[];
  /** The files by thread. */
  readonly tasks: readonly (readonly TraceThread[])[];
  readonly sessions: readonly TraceSession[];
  readonly clock: Clock;
  /** Whether all calls have times. */
  readonly isTimed: boolean;
  private damaged = 0;
  private unknown = 0;

  /**
   * @param objects  the traced objects by their id
   * @param unfiled  calls that were dropped by processes without a file
   * @throws ElftraceError 'bad-reference' where the object of a file is not among them
   */
  constructor(
    files: readonly TraceFile[],
    private readonly objects: ReadonlyMap<string, TracedObject>,
    private readonly unfiled = 0,
  ) {
    for (const { source, header } of files) {
      if (objects.has(header.id)) continue;
      throw new ElftraceError(
        'bad-reference',
        `${source.name} is a trace of ${header.object} (sha256 ${header.id}), which is not there: name it with --object FILE`,
        { reason: 'object-missing', expected: header.id },
      );
    }
    for (const { source, header } of files) checkCounters(source, header, objects.get(header.id)!);
    this.isTimed = files.every(({ header }) => header.clock !== 'none');
    const numbers = new Map<string, number>();
    const sessions = sessionsOf(files, objects);
    this.threads = files.map((file, index) => {
      const { process, thread, id } = file.header;
      const key = `${process}.${thread}${this.isTimed ? '' : `.${id}`}`;
      const task = numbers.get(key) ?? numbers.size;
      numbers.set(key, task);
      const session = sessions.findIndex((each) => each.includes(file));
      return { ...file, index, task, session };
    });
    this.tasks = [...numbers.values()].map((task) => this.threads.filter((each) => each.task === task));
    this.sessions = sessions.map((each, i) => ({
      process: each[0]!.header.process,
      files: this.threads.filter(({ session }) => session === i),
    }));
    this.clock = clockOf(files.map(({ header }) => header));
  }

  /** What is known of it so far: damage is counted while events are read. */
  get doubts(): TraceDoubts {
    // What resolvers lost stands in each file of an object in a process.
    const early = new Map<string, number>();
    let [dropped, droppedReturns, overwritten] = [this.unfiled, 0, 0];
    for (const { header } of this.threads) {
      dropped += header.dropped + header.droppedElsewhere;
      droppedReturns += header.droppedReturns;
      overwritten += header.overwritten;
      const key = `${header.process}.${header.id}`;
      early.set(key, Math.max(early.get(key) ?? 0, header.droppedEarly));
    }
    return {
      dropped,
      droppedEarly: [...early.values()].reduce((a, b) => a + b, 0),
      droppedUnfiled: this.unfiled,
      droppedReturns,
      overwritten,
      damaged: this.damaged,
      unknown: this.unknown,
    };
  }

  /** Whether the ends of all calls were recorded. */
  get returns(): boolean {
    return this.threads.every(({ header }) => header.tracer === 'function_graph');
  }

  /** Whether some files have numbers of calls in the place of calls. */
  get counts(): boolean {
    return this.threads.some(isCounting);
  }

  /** How many threads have a file. */
  get threadCount(): number {
    return new Set(this.threads.map(({ header: { process, thread } }) => `${process}.${thread}`)).size;
  }

  /** Functions that were counted, with the thread and how often it called them. */
  *counted(): Generator<readonly [NativeFunction, TraceThread, number]> {
    for (const thread of this.threads.filter(isCounting)) {
      const { functions } = this.objectOf(thread);
      let at = 0;
      for (const calls of countsOf(thread.source, thread.header)) {
        if (calls > 0) yield [functions[at]!, thread, calls];
        at++;
      }
      if (at < thread.header.counters) this.damaged += functions.length - at;
    }
  }

  /** The object of a file. */
  objectOf({ header }: TraceThread): TracedObject {
    return this.objects.get(header.id)!;
  }

  /** Calls of all threads in order of time, where that is known; those of one file in its order. */
  inOrder(listeners: Listeners): void {
    if (!this.isTimed) {
      this.byTask(listeners);
      return;
    }
    this.begin();
    this.merge(this.threads, listeners);
  }

  /** The calls of one thread after the other. */
  byTask(listeners: Listeners): void {
    this.begin();
    for (const files of this.tasks) {
      const recorded = files.filter((each) => !isCounting(each));
      if (recorded.length > 0) this.merge(recorded, listeners);
    }
  }

  private merge(files: readonly TraceThread[], listeners: Listeners): void {
    const heap: Running[] = [];
    const tasks = new Map<number, Task>();
    for (const thread of files) {
      let task = tasks.get(thread.task);
      if (task === undefined) {
        const listener = listeners(thread);
        task = { thread, tree: new CallTree(listener), listener, session: thread.session };
        tasks.set(thread.task, task);
      }
      const running = this.start(thread, task.tree);
      if (this.advance(running)) {
        heap.push(running);
        rise(heap, heap.length - 1);
      }
    }
    while (heap.length > 0) {
      const first = heap[0]!;
      const task = tasks.get(first.thread.task)!;
      if (task.session !== first.thread.session) {
        // Another program was executed: what was open ends with the old one.
        task.tree.end(this.endOf(task.thread, task.session));
        task.session = first.thread.session;
        task.listener.executed?.(task.session);
      }
      // While it is the first, which is for long where threads take turns.
      const limit = nextTime(heap);
      do first.tree.event(first.called, first.reader.stack, first.reader.time, first.reader.values);
      while (this.advance(first) && first.reader.time < limit);
      if (first.isOver) {
        const last = heap.pop()!;
        if (heap.length === 0) break;
        heap[0] = last;
      }
      if (heap.length > 1) sink(heap);
    }
    for (const { tree, thread, session } of tasks.values()) tree.end(this.endOf(thread, session));
  }

  /**
   * Until when a thread is known to have run (RT-35): its own files were renewed until then, and a
   * program runs on while its first thread does.
   */
  private endOf({ header: { process, thread } }: TraceThread, session: number): number {
    const files = this.sessions[session]!.files.filter(({ header }) => thread === process || header.thread === thread);
    return files.reduce((most, { header }) => Math.max(most, this.timeOf(header.last.counter)), 0);
  }

  /**
   * When a counter stood so, ns since the origin, not rounded up. The clock beside a counter in a
   * header may be later: a thread may wait for the processor in between.
   */
  timeOf(counter: bigint): number {
    const { origin, nanosecondsPerTick } = this.clock;
    return Math.floor(Number(counter - origin.counter) * nanosecondsPerTick);
  }

  private begin(): void {
    this.damaged = 0;
    this.unknown = 0;
  }

  private start(thread: TraceThread, tree: CallTree): Running {
    const { header, source } = thread;
    const share = 2 ** Math.floor(Math.log2(READ_BYTES / this.threads.length));
    const pieceBytes = Math.min(1 << 20, Math.max(1 << 12, share));
    return {
      thread,
      reader: new ThreadReader(source, header, this.clock, pieceBytes),
      find: this.objectOf(thread).finder(header.bias),
      tree,
      called: null,
      isOver: false,
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
    running.isOver = true;
    return false;
  }
}

const isCounting = ({ header }: TraceThread): boolean => header.tracer === 'counter';

/** @throws ElftraceError 'elf-malformed' for a file with numbers of another object's sites */
function checkCounters({ name }: TraceSource, { tracer, counters }: ThreadHeader, { count }: TracedObject): void {
  // None where there was room for the header alone: all calls are counted as dropped.
  if (tracer !== 'counter' || counters === count || counters === 0) return;
  throw malformed(name, `it has ${counters} numbers of calls, its object has ${count} sites`);
}

/** The time of the first event of the other files. */
function nextTime(heap: readonly Running[]): number {
  const [, left, right] = heap;
  return Math.min(left?.reader.time ?? Infinity, right?.reader.time ?? Infinity);
}

/**
 * Files by program. An executed program is a process of the same number: its own file is another
 * object, or a further one of the same name.
 */
function sessionsOf(files: readonly TraceFile[], objects: ReadonlyMap<string, TracedObject>): TraceFile[][] {
  const sessions: TraceFile[][] = [];
  const latest = new Map<number, { readonly files: TraceFile[]; sequence: number; program: string | null }>();
  for (const file of [...files].sort((a, b) => Number(a.header.first.counter - b.header.first.counter))) {
    const { process, sequence, id } = file.header;
    const program = objects.get(id)?.isProgram === true ? id : null;
    const current = latest.get(process);
    const former = current?.program ?? null;
    const isOther = program !== null && former !== null && former !== program;
    if (current === undefined || sequence > current.sequence || isOther) {
      const begun = [file];
      sessions.push(begun);
      latest.set(process, { files: begun, sequence, program });
    } else {
      current.files.push(file);
      current.program ??= program;
    }
  }
  return sessions;
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
