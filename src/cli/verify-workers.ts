/**
 * Threads that judge files of one command beside each other, of which this one is the first: it has
 * loaded and compiled everything already. Owns who gets which paths next, and the results that wait
 * for those of the paths before them: results come in the order of the paths whatever thread made
 * them, and a large file does not make the others pile up.
 */
import type { Worker } from 'node:worker_threads';
import { commandDeadline, limitsLeft } from './limits.js';
import type { FileVerdict } from './verify-output.js';

/** What a worker says: results of paths that follow each other. */
export interface VerifyResults {
  /** Place of the first path among all. */
  readonly index: number;
  readonly results: FileVerdict[][];
  /** Whether its portion is done. */
  readonly isLast: boolean;
}

/** Results for each thread that may wait to be printed. */
const AHEAD = 16;
/** How long this thread judges before it listens to the others. */
const DEAF_MS = 10;

function rethrow(error: Error): never {
  throw error;
}

export class VerifyWorkers {
  private readonly waiting = new Map<number, FileVerdict[]>();
  private readonly workers: readonly Worker[];
  private readonly deadline = commandDeadline();
  /** A worker in the middle of a file is not waited for when the time is over. */
  private readonly alarm: NodeJS.Timeout;
  /** Workers that get work again when more is printed. */
  private readonly idle: Worker[] = [];
  private wake: () => void = () => undefined;
  private next = 0;
  private given = 0;
  private printed = 0;
  /** What this thread works on, and the place of its next path among all. */
  private own: { readonly results: AsyncGenerator<FileVerdict[], void, undefined>; index: number } | null = null;
  private listened = performance.now();

  /**
   * @param jobs  threads, this one with them
   * @param work  the paths, in portions that one worker gets at once
   * @param args  of the command, for `verifyPath`
   * @param judge  the same in this thread, path by path
   */
  constructor(
    private readonly jobs: number,
    private readonly work: readonly (readonly string[])[],
    args: object,
    private readonly judge: (paths: readonly string[]) => AsyncGenerator<FileVerdict[], void, undefined>,
  ) {
    // Not for one file: loading it takes 2 ms.
    const threads = process.getBuiltinModule('node:worker_threads');
    this.workers = Array.from({ length: jobs - 1 }, () => {
      const worker = new threads.Worker(new URL('./worker.js', import.meta.url), {
        workerData: { job: 'verify', args, limits: limitsLeft() },
      });
      worker.on('message', (message: VerifyResults) => {
        message.results.forEach((results, at) => this.waiting.set(message.index + at, results));
        this.wake();
        if (message.isLast) this.give(worker);
      });
      worker.on('error', rethrow);
      return worker;
    });
    for (const worker of this.workers) this.give(worker);
    this.alarm = setTimeout(
      () => {
        this.wake();
      },
      Math.min(this.deadline.remaining(), 2 ** 31 - 1),
    );
  }

  private give(worker: Worker): void {
    if (this.next >= this.work.length) void worker.terminate();
    else if (this.isFarAhead) this.idle.push(worker);
    else worker.postMessage(this.take());
  }

  private get isFarAhead(): boolean {
    return this.given - this.printed >= AHEAD * this.jobs;
  }

  /** The next portion; there must be one. */
  private take(): { readonly index: number; readonly paths: readonly string[] } {
    const paths = this.work[this.next++]!;
    const index = this.given;
    this.given += paths.length;
    return { index, paths };
  }

  /** Judges one path in this thread. False: there is none that may be judged now. */
  private async judgeOne(): Promise<boolean> {
    if (this.own === null) {
      if (this.next >= this.work.length || this.isFarAhead) return false;
      const { index, paths } = this.take();
      this.own = { index, results: this.judge(paths) };
    }
    const { done, value } = await this.own.results.next();
    if (done === true) this.own = null;
    else this.waiting.set(this.own.index++, value);
    if (performance.now() - this.listened > DEAF_MS) {
      await new Promise((resolve) => setImmediate(resolve));
      this.listened = performance.now();
    }
    return true;
  }

  /** Results of path number `index`, asked for in order; null where the time is over. */
  async results(index: number): Promise<FileVerdict[] | null> {
    this.printed = index;
    for (const worker of this.idle.splice(0)) this.give(worker);
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
    await this.own?.results.return();
    await Promise.all(this.workers.map((worker) => worker.terminate()));
  }
}
