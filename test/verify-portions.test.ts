/** Paths that threads of `verify --jobs` share: who takes which, and when one waits. */
import { Worker } from 'node:worker_threads';
import { expect, test } from '@jest/globals';
import { Portions, sharedWork } from '../src/cli/verify-portions.js';

const work = Array.from({ length: 40 }, (_, at) => Array.from({ length: 1 + (at % 3) }, (_, i) => `${at}.${i}`));
const paths = work.flat();

test('threads take each portion once, and know the places of its paths', () => {
  const shared = sharedWork(work, 2);
  const threads = [new Portions(shared).taken(), new Portions(shared).taken()];
  const found: string[] = [];
  for (let turn = 0; turn < work.length; turn++) {
    const { done, value } = threads[turn % 2]!.next();
    if (done !== true) value.paths.forEach((path, i) => (found[value.index + i] = path));
  }
  expect(found).toEqual(paths);
  expect(threads.map((each) => each.next().done)).toEqual([true, true]);
});

test('a thread gets portions while the one that began it does something else', async () => {
  const shared = sharedWork(work, 2);
  const taken = new Int32Array(new SharedArrayBuffer(4));
  const file = new URL('../src/cli/verify-portions.js', import.meta.url);
  const worker = new Worker(
    `import { workerData } from 'node:worker_threads';
     const { Portions } = await import(workerData.file);
     for (const { paths } of new Portions(workerData.shared).taken()) Atomics.add(workerData.taken, 0, paths.length);
     Atomics.notify(workerData.taken, 0);`,
    { eval: true, workerData: { shared, taken, file: file.href } } as never,
  );
  // This thread reads no message meanwhile.
  for (let looks = 0; looks < 300 && Atomics.load(taken, 0) < paths.length; looks++) {
    Atomics.wait(taken, 0, Atomics.load(taken, 0), 100);
  }
  expect(Atomics.load(taken, 0)).toBe(paths.length);
  await worker.terminate();
});

test('results that would pile up make their thread wait until others were printed', () => {
  const shared = sharedWork(work, 2);
  const [printer, other] = [new Portions(shared), new Portions(shared)];
  expect(other.isFarAhead(0)).toBe(false);
  expect(other.isFarAhead(shared.ahead)).toBe(true);
  // The thread that has the first path which is not printed goes on, however far the others are.
  printer.printed(1000);
  expect(other.isFarAhead(1000)).toBe(false);
  expect(other.isFarAhead(1000 + shared.ahead - 1)).toBe(false);
  expect(other.isFarAhead(1000 + shared.ahead)).toBe(true);
  other.waitFor(1000 + shared.ahead - 1);
});
