/**
 * `elftrace run` on the bundled programs of every machine: they print what they print elsewhere
 * (`samples/expected`, which `test/samples.test.ts` holds against qemu-user and this processor);
 * traces and profiles account for every instruction. What single machines have is in
 * `run-*.test.ts`.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from '@jest/globals';
import {
  builtFolder,
  expectedFile,
  isExecutable,
  readExpected,
  readRecipes,
  targetOf,
} from '../scripts/build-samples.js';
import { archOf } from '../src/arches.js';
import { readElf } from '../src/elf/read.js';
import { scratch } from './support/c-programs.js';
import { sampled } from './support/long.js';
import { run } from './support/run.js';

const recipes = readRecipes();
const traces = readExpected('trace.txt');
const pathOf = (name: string): string => join(builtFolder, name);
const isServed = (name: string): boolean =>
  archOf(readElf(new Uint8Array(readFileSync(pathOf(name)))).header).emulation.kind === 'ir';
const names = recipes.samples.filter((recipe) => isExecutable(recipes, recipe) && isServed(recipe.name));

/** Numbers at the ends of the lines behind a head. */
const sumOfEnds = (text: string): number =>
  text
    .trimEnd()
    .split('\n')
    .reduce((total, line) => total + Number(line.slice(line.lastIndexOf(' '))), 0);

for (const [id, target] of sampled(Object.entries(recipes.targets), 2)) {
  const own = names.filter((recipe) => targetOf(recipes, recipe) === target).map(({ name }) => name);
  if (own.length === 0) continue;

  describe(`samples of ${id}`, () => {
    test.each(own)('%s prints and ends as elsewhere', (name) => {
      const recipe = names.find((each) => each.name === name)!;
      const elsewhere = `${readFileSync(expectedFile(recipe), 'utf8')}${traces.get(name)!}\n`;
      const { status, stderr, stdout } = run([pathOf(name)]);
      expect([status, stderr, stdout]).toEqual([0, '', elsewhere]);
    });
  });

  describe(`a sample of ${id}`, () => {
    const path = pathOf(own.find((name) => name.includes('program-'))!);

    test('--trace: the 49 calls of the source; each entry has its return; the output stays', () => {
      const file = scratch('trace');
      const traced = run(['--trace', file, '--trace-source=oracle', '--format', 'ndjson', path]);
      expect([traced.status, traced.stderr, traced.stdout]).toEqual([0, '', run([path]).stdout]);
      const events = readFileSync(file, 'utf8').trimEnd().split('\n').slice(1);
      const entries = events.filter((line) => line.includes('"kind":"entry"'));
      expect(events.length).toBe(2 * entries.length);
      const sites = entries.filter((line) => !line.includes('"site":null'));
      // `quiet` has nops at no place that -pg would call from.
      expect(sites.filter((line) => !line.includes('"function":"quiet"')).length).toBe(49);
    });

    test('folded stacks and profiles have all instructions', () => {
      const file = scratch('folded');
      const { json } = run(['--trace', file, '--trace-source=oracle', '--format', 'folded', path]);
      expect(sumOfEnds(readFileSync(file, 'utf8'))).toBe(json['instructions']);
      expect(run(['--profile-file', file, path]).stderr).toBe('');
      const rows = readFileSync(file, 'utf8').trimEnd().split('\n').slice(1);
      expect(rows.reduce((sum, row) => sum + Number(row.slice(0, 14)), 0)).toBe(json['instructions']);
      expect(rows.some((row) => row.endsWith(' 14  recurse'))).toBe(true);
    });
  });
}
