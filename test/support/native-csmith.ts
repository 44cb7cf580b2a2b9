/** Programs of csmith that end, and whether their traces are the calls of an independent log. */
import { mkdirSync } from 'node:fs';
import { expect } from '@jest/globals';
import { scratch } from './c-programs.js';
import { compile, countsOf, type NativeMachine, patched, report, traced, truth } from './native-run.js';
import { spawnSync } from './spawn.js';

/** Seeds whose programs run on and on. */
const ENDLESS = [11, 15, 22, 38, 43, 45, 53, 59, 60, 61, 73];

/** The first seeds of programs that end. */
export const csmithSeeds = (count: number): readonly number[] =>
  Array.from({ length: count + ENDLESS.length }, (_, i) => i + 1)
    .filter((seed) => !ENDLESS.includes(seed))
    .slice(0, count);

/** Without optimisation: a call that the compiler may leave out is none of a program's own. */
const PLAIN = ['-O0', '-g0', '-w', '-I/usr/include/csmith'];

export function checkCsmith(
  seed: number,
  form: readonly string[],
  options: readonly string[] = [],
  machine?: NativeMachine,
  env: Readonly<Record<string, string>> = {},
): void {
  // It leaves a file where it runs.
  const folder = scratch('csmith');
  mkdirSync(folder);
  const source = spawnSync('csmith', ['--seed', String(seed), '--max-funcs', '12'], {
    encoding: 'utf8',
    cwd: folder,
  }).stdout;
  const expected = truth({ name: '', source, flags: PLAIN }, [], machine);
  const ran = traced(patched(compile(source, [...PLAIN, ...form], 'c', [], machine), ...options), [], env, machine);
  expect([seed, ran.status, ran.stdout]).toEqual([seed, expected.status, expected.stdout]);
  const found = report(ran.dir);
  expect([seed, found.dropped, found.damaged, found.unknown]).toEqual([seed, 0, 0, 0]);
  expect([seed, countsOf(found)]).toEqual([seed, expected.counts]);
}
