/** Many files of one `verify`: in how many threads they are judged, and when others help. */
import { availableParallelism } from 'node:os';
import { compileAsUsual, compileLate, compileLateForFiles, LATE_FOR_MANY } from './compile-late.js';
import { isUnpackedBySystem, portions, unpackedAhead } from './system-unpack.js';
import { type JudgeArguments, type VerifyArguments, verifyPath } from './verify-file.js';
import type { FileVerdict } from './verify-output.js';
import type { Portion } from './verify-portions.js';
import { type PathResults, VerifyThreads } from './verify-threads.js';

/** One thread judges for so long before others may help. */
const ALONE_MS = 400;

/**
 * Work of one thread that must be left for another one to help: each loads and compiles once more
 * what the first has loaded and compiled, which takes a fifth of a second where V8 compiles late.
 */
const WORTH_MS = 1000;

/**
 * Whether others shall help one thread that has judged so many files in so many milliseconds.
 * @param others  threads that could
 */
function needsHelp(spent: number, done: number, all: number, others: number): boolean {
  return spent > ALONE_MS && (spent / done) * (all - done) * others > WORTH_MS;
}

/**
 * Results in the order of the paths; fewer than there are paths where the time was over before.
 * @param isSlow  `--jobs 0`: what decides that others help; see `needsHelp`
 */
export async function* verifyAll(
  paths: readonly string[],
  args: VerifyArguments,
  isSlow = needsHelp,
): AsyncGenerator<FileVerdict[]> {
  const { systemUnpack } = args;
  // A program that unpacks takes a processor, too.
  const free = availableParallelism() - (isUnpackedBySystem(paths, systemUnpack) ? 1 : 0);
  const jobs = Math.max(1, Math.min(args.jobs > 0 ? args.jobs : free, paths.length));
  const threads = new VerifyThreads(jobs, portions(paths, jobs, systemUnpack), { ...args, files: [] }, (some) =>
    judgePortions(some, args),
  );
  let isAlone = args.jobs === 0;
  const judged = isAlone || jobs === 1 ? compileLateForFiles(paths.length) : () => undefined;
  const help = (): void => {
    compileLate(LATE_FOR_MANY);
    threads.beginOthers();
  };
  if (jobs > 1 && !isAlone) help();
  try {
    for (let i = 0; i < paths.length; i++) {
      const results = await threads.results(i);
      if (results === null) return;
      yield results;
      judged();
      if (isAlone && isSlow(threads.spentMs, i + 1, paths.length, jobs - 1)) {
        isAlone = false;
        help();
      }
    }
  } finally {
    await threads.end();
    compileAsUsual();
  }
}

/** Results of the paths of portions, while those of the next one are unpacked. */
export async function* judgePortions(
  portions: Iterable<Portion>,
  args: JudgeArguments,
): AsyncGenerator<PathResults, void, undefined> {
  for await (const { index, paths } of unpackedAhead(portions, (portion) => portion.paths)) {
    for (const [i, path] of paths.entries()) {
      const begin = performance.now();
      const results = await verifyPath(path, args);
      yield { index: index + i, results, spentMs: performance.now() - begin };
    }
  }
}
