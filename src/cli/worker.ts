/**
 * Worker of `verify --jobs`, which takes files and judges them until there are none, and of
 * `prove --jobs`, which proves a part of the sites.
 */
import { type MessagePort, parentPort, workerData } from 'node:worker_threads';
import { ElftraceError } from '../errors.js';
import type { Limits } from '../limits/index.js';
import type { SiteProof } from '../prove/index.js';
import { adoptLimits } from './limits.js';
import { BATCH, type PartMessage, type PartWork } from './prove-parts.js';
import type { VerifyArguments } from './verify-file.js';
import { Portions, type SharedWork } from './verify-portions.js';
import type { PathResults } from './verify-threads.js';

/** Results that follow each other sooner go in one message. */
const SILENT_MS = 20;

interface VerifyWork {
  readonly job: 'verify';
  readonly args: VerifyArguments;
  readonly shared: SharedWork;
}

async function judgeFiles(port: MessagePort, { args, shared }: VerifyWork): Promise<void> {
  const { judgePortions } = await import('./verify-tree.js');
  const portions = new Portions(shared);
  let unsaid: PathResults[] = [];
  let said = performance.now();
  const say = (): void => {
    if (unsaid.length > 0) port.postMessage(unsaid);
    unsaid = [];
    said = performance.now();
  };
  for await (const each of judgePortions(portions.taken(), args)) {
    unsaid.push(each);
    const isFar = portions.isFarAhead(each.index);
    if (isFar || performance.now() - said >= SILENT_MS) say();
    if (isFar) portions.waitFor(each.index);
  }
  say();
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
