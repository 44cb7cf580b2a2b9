/** Worker of `verify --jobs`: judges the files that the main thread sends, one at a time. */
import { parentPort, workerData } from 'node:worker_threads';
import type { Limits } from '../limits/index.js';
import { adoptLimits } from './limits.js';
import { type VerifyArguments, verifyPath } from './verify.js';

const { args, limits } = workerData as { args: VerifyArguments; limits: Limits };
adoptLimits(limits);
parentPort?.on('message', ({ index, path }: { index: number; path: string }) => {
  void verifyPath(path, args).then((results) => parentPort?.postMessage({ index, results }));
});
