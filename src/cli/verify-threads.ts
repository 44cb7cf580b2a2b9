/**
 * Threads that judge files of one command beside each other, of which this one is the first: it has
 * loaded and compiled everything already. Owns the results that wait for those of the paths before
 * them: results come in the order of the paths whatever thread made them.
 */
import type { Worker } from 'node:worker_threads';
import { commandDeadline, limitsLeft } from './limits.js';
import type { FileVerdict } from './verify-output.js';
import { type Portion, Portions, type SharedWork, sharedWork } from './verify-portions.js';

/** Results of one path, and its place among all. */
export interface PathResults {
  readonly index: number;
  readonly results: FileVerdict[];
  /** Without the time that programs took which unpacked it. */
  readonly spentMs: number;
}

/** Judges the paths of portions, path by path. */
export type JudgePortions = (portions: Iterable<Portion>) => AsyncGenerator<PathResults, void, undefined>;

/** How long this thread judges before it listens to the others. */
const DEAF_MS = 10;

function rethrow(error: Error): never {
  throw error;
}

export class VerifyThreads {
  private readonly waiting = new Map<number, FileVerdict[]>();
  private workers: readonly Worker[] = [];
  private readonly deadline = commandDeadline();
  /** A worker in the middle of a file is not waited for when the time is over. */
  private readonly alarm: NodeJS.Timeout;
  private wake: () => void = () => undefined;
  private readonly shared: SharedWork;
  private readonly portions: Portions;
  /** What this thread judges; null when it has taken and done all that it could get. */
  private own: ReturnType<JudgePortions> | null;
  /** Of the last path that this thread judged. */
  private ownIndex = 0;
  private listened = performance.now();
  /** That this thread has judged for. */
  spentMs = 0;

  /**
   * @param jobs  threads, this one with them
   * @param work  the paths, in portions that one thread gets at once
   * @param args  of the command, for the other threads
   * @param judge  what they do, in this thread
   */
  constructor(
    private readonly jobs: number,
    work: SharedWork['work'],
    private readonly args: object,
    judge: JudgePortions,
  ) {
    this.shared = sharedWork(work, jobs);
    this.portions = new Portions(this.shared);
    this.own = judge(this.portions.taken());
    this.alarm = setTimeout(
      () => {
        this.wake();
      },
      Math.min(this.deadline.remaining(), 2 ** 31 - 1),
    );
  }

  /** The other threads go on with what is left. */
  beginOthers(): void {
    const { args, shared } = this;
    // Not for one file: loading it takes 2 ms.
    const threads = process.getBuiltinModule('node:worker_threads');
    this.workers = Array.from({ length: this.jobs - 1 }, () => {
      const worker = new threads.Worker(new URL('./worker.js', import.meta.url), {
        workerData: { job: 'verify', args, shared, limits: limitsLeft() },
      });
      worker.on('message', (all: readonly PathResults[]) => {
        for (const { index, results } of all) this.waiting.set(index, results);
        this.wake();
      });
      worker.on('error', rethrow);
      return worker;
    });
  }

  /** Judges one path in this thread. False: there is none that may be judged now. */
  private async judgeOne(): Promise<boolean> {
    if (this.own === null || this.portions.isFarAhead(this.ownIndex)) return false;
    const { done, value } = await this.own.next();
    if (done === true) this.own = null;
    else {
      this.ownIndex = value.index;
      this.spentMs += value.spentMs;
      this.waiting.set(value.index, value.results);
    }
    if (this.workers.length > 0 && performance.now() - this.listened > DEAF_MS) {
      await new Promise((resolve) => setImmediate(resolve));
      this.listened = performance.now();
    }
    return true;
  }

  /** Results of path number `index`, asked for in order; null where the time is over. */
  async results(index: number): Promise<FileVerdict[] | null> {
    this.portions.printed(index);
    while (!this.waiting.has(index) && !this.deadline.expired()) {
      if (await this.judgeOne()) continue;
      await new Promise<void>((resolve) => (this.wake = resolve));
    }
    const results = this.waiting.get(index) ?? null;
    this.waiting.delete(index);
    return results;
  }

  async end(): Promise<void> {
    clearTimeout(this.alarm);
    await this.own?.return();
    await Promise.all(this.workers.map((worker) => worker.terminate()));
  }
}
