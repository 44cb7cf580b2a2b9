/** CPU time of whole processes, as the parts of the bench that compare programs measure it. */
import { spawnSync } from 'node:child_process';

/**
 * CPU seconds, user and system, of a child and its children until it ends, to the millisecond (by
 * bash's `time`), and what it wrote, a character a byte.
 * @throws where it ends with another status than 0
 */
export function childSeconds(
  command: string,
  args: readonly string[],
  environment: Readonly<Record<string, string>> = {},
): { readonly seconds: number; readonly output: string } {
  const script = 'TIMEFORMAT="CPU %3U %3S"; time "$@"';
  const result = spawnSync('bash', ['-c', script, 'bash', command, ...args], {
    encoding: 'latin1',
    env: { PATH: process.env['PATH'], LC_ALL: 'C', ...environment },
    maxBuffer: 1 << 28,
  });
  const match = /CPU ([\d.]+) ([\d.]+)\s*$/.exec(result.stderr);
  if (result.status !== 0 || !match) throw new Error(`${[command, ...args].join(' ')}: ${result.stderr}`);
  return { seconds: Number(match[1]) + Number(match[2]), output: result.stdout };
}

/** Geometric mean. */
export function geometricMean(values: readonly number[]): number {
  return Math.exp(values.reduce((sum, each) => sum + Math.log(each), 0) / values.length);
}
