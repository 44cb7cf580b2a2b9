/**
 * Worker of `verify --jobs`, which judges the files that the main thread sends, some at a time, and
 * of `prove --jobs`, which proves a part of the sites.
 */
import { type MessagePort, parentPort, workerData } from 'node:worker_threads';
import { ElftraceError } from '../errors.js';
import type { Limits } from '../limits/index.js';
import type { SiteProof } from '../prove/index.js';
import { adoptLimits } from './limits.js';
import { BATCH, type PartMessage, type PartWork } from './prove-parts.js';
import type { VerifyArguments } from './verify.js';
import type { VerifyResults } from './verify-workers.js';

/** Results that follow each other sooner go in one message. */
const SILENT_MS = 20;

interface VerifyWork {
  readonly job: 'verify';
  readonly args: VerifyArguments;
}

async function judgeFiles(port: MessagePort, { args }: VerifyWork): Promise<void> {
  const { verifyPath } = await import('./verify.js');
  const { unpackedAhead } = await import('./system-unpack.js');
  const judge = async (first: number, paths: readonly string[]): Promise<void> => {
    for await (const portion of unpackedAhead([paths], (each) => each)) await judgePortion(first, portion);
  };
  const judgePortion = async (first: number, paths: readonly string[]): Promise<void> => {
    let waiting: VerifyResults['results'] = [];
    let index = first;
    let said = performance.now();
    for (const [at, path] of paths.entries()) {
      waiting.push(await verifyPath(path, args));
      const isLast = at === paths.length - 1;
      if (!isLast && performance.now() - said < SILENT_MS) continue;
      port.postMessage({ index, results: waiting, isLast } satisfies VerifyResults);
      index += waiting.length;
      waiting = [];
      said = performance.now();
    }
  };
  port.on('message', ({ index, paths }: { index: number; paths: readonly string[] }) => {
    void judge(index, paths);
  });
}

async function provePart(port: MessagePort, { args, part }: PartWork): Promise<void> {
  const say = (message: PartMessage): void => {
    port.postMessage(message);
  };
  try {
    const results = await (await import('./prove.js')).proofOfPart(args, part);
    let sites: SiteProof[] = [];
    for (;;) {
      const { done, value } = await results.next();
      if (done !== true) sites.push(value);
      if (sites.length === BATCH || (done === true && sites.length > 0)) {
        say({ kind: 'sites', sites });
        sites = [];
      }
      if (done === true) {
        say({ kind: 'done', summary: value });
        return;
      }
    }
  } catch (error) {
    if (!(error instanceof ElftraceError)) throw error;
    say({ kind: 'error', code: error.code, message: error.message, context: error.context });
  }
}

const work = workerData as (VerifyWork | PartWork) & { readonly limits: Limits };
adoptLimits(work.limits);
if (parentPort !== null) await (work.job === 'verify' ? judgeFiles(parentPort, work) : provePart(parentPort, work));
