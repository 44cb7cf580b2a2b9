/** `prove --jobs`: several threads, each with a part of the sites; answers by address. */
import type { Worker } from 'node:worker_threads';
import { ElftraceError, type ErrorCode, type ErrorContext } from '../errors.js';
import type { ProofSummary, SiteProof } from '../prove/index.js';
import { limitsLeft } from './limits.js';
import type { Part, ProveArguments } from './prove-arguments.js';

/** What a thread is told. */
export interface PartWork {
  readonly job: 'prove';
  readonly args: ProveArguments;
  readonly part: Part;
}

/** What a thread says. */
export type PartMessage =
  | { readonly kind: 'sites'; readonly sites: readonly SiteProof[] }
  | { readonly kind: 'done'; readonly summary: ProofSummary }
  | {
      readonly kind: 'error';
      readonly code: ErrorCode;
      readonly message: string;
      readonly context: ErrorContext;
    };

/** Sites in one message. */
export const BATCH = 256;

/** Messages of one thread, in order. */
class Thread {
  readonly messages: PartMessage[] = [];
  private wake: () => void = () => undefined;
  private failure: Error | null = null;

  constructor(private readonly worker: Worker) {
    worker.on('message', (message: PartMessage) => {
      this.messages.push(message);
      this.wake();
    });
    worker.on('error', (error) => {
      this.failure = error;
      this.wake();
    });
  }

  async next(): Promise<PartMessage> {
    while (this.messages.length === 0) {
      if (this.failure !== null) throw this.failure;
      await new Promise<void>((resolve) => (this.wake = resolve));
    }
    return this.messages.shift()!;
  }

  async end(): Promise<void> {
    await this.worker.terminate();
  }
}

/**
 * Proves in several threads. Sites come by address, as from one.
 * @throws as `prove`
 */
export async function* proofInParts(args: ProveArguments, jobs: number): AsyncGenerator<SiteProof, ProofSummary> {
  const workers = process.getBuiltinModule('node:worker_threads');
  const threads = Array.from({ length: jobs }, (_, index) => {
    const work: PartWork = { job: 'prove', args, part: { index, of: jobs } };
    return new Thread(
      new workers.Worker(new URL('./worker.js', import.meta.url), { workerData: { ...work, limits: limitsLeft() } }),
    );
  });
  try {
    const summaries: ProofSummary[] = [];
    for (const thread of threads) {
      for (;;) {
        const message = await thread.next();
        if (message.kind === 'error') throw new ElftraceError(message.code, message.message, message.context);
        if (message.kind === 'done') {
          summaries.push(message.summary);
          break;
        }
        yield* message.sites;
      }
    }
    return summaries.reduce(together);
  } finally {
    await Promise.all(threads.map(async (thread) => thread.end()));
  }
}

/** Two parts as one. What changed beside sites is the same in all of them. */
function together(a: ProofSummary, b: ProofSummary): ProofSummary {
  const reasons = { ...a.reasons };
  for (const [reason, count] of Object.entries(b.reasons)) reasons[reason] = (reasons[reason] ?? 0) + count;
  return {
    ...a,
    sites: a.sites + b.sites,
    unchanged: a.unchanged + b.unchanged,
    proved: a.proved + b.proved,
    different: a.different + b.different,
    inconclusive: a.inconclusive + b.inconclusive,
    skipped: a.skipped + b.skipped,
    reasons,
  };
}
