/** Worker of `verify --jobs`: judges the files that the main thread sends, one at a time. */
import { parentPort, workerData } from 'node:worker_threads';
import { type VerifyArguments, verifyPath } from './verify.js';

const { args } = workerData as { args: VerifyArguments };
parentPort?.on('message', ({ index, path }: { index: number; path: string }) => {
  void verifyPath(path, args).then((results) => parentPort?.postMessage({ index, results }));
});
