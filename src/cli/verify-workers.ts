/**
 * Threads that judge files of one command beside each other. Owns who gets which paths next, and
 * the results that wait for those of the paths before them: results come in the order of the paths
 * whatever worker made them, and a large file does not make the others pile up.
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

/** Results for each worker that may wait to be printed. */
const AHEAD = 16;

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

  /**
   * @param work  the paths, in portions that one worker gets at once
   * @param args  of the command, for `verifyPath`
   */
  constructor(
    jobs: number,
    private readonly work: readonly (readonly string[])[],
    args: object,
  ) {
    // Not for one file: loading it takes 2 ms.
    const threads = process.getBuiltinModule('node:worker_threads');
    this.workers = Array.from({ length: jobs }, () => {
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
    const portion = this.work[this.next];
    if (portion === undefined) void worker.terminate();
    else if (this.given - this.printed >= AHEAD * this.workers.length) this.idle.push(worker);
    else {
      worker.postMessage({ index: this.given, paths: portion });
      this.given += portion.length;
      this.next++;
    }
  }

  /** Results of path number `index`, asked for in order; null where the time is over. */
  async results(index: number): Promise<FileVerdict[] | null> {
    this.printed = index;
    for (const worker of this.idle.splice(0)) this.give(worker);
    while (!this.waiting.has(index) && !this.deadline.expired()) {
      await new Promise<void>((resolve) => (this.wake = resolve));
    }
    const results = this.waiting.get(index) ?? null;
    this.waiting.delete(index);
    return results;
  }

  async end(): Promise<void> {
    clearTimeout(this.alarm);
    await Promise.all(this.workers.map((worker) => worker.terminate()));
  }
}
