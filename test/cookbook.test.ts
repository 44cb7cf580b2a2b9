/** The recipes of docs/cookbook: their commands print what the pages show. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from '@jest/globals';
import { cookbook, cooked, recipes, toolsOf } from '../scripts/cookbook.js';
import { describeWith } from './support/tools.js';

const textOf = (name: string): string => readFileSync(join(cookbook, name), 'utf8');

describe.each(recipes())('%s', (name) => {
  const text = textOf(name);
  describeWith(['bash', ...toolsOf(text)], 'its commands', () => {
    test('print what it shows (node build/scripts/cookbook.js --write)', () => {
      expect(text.match(/^\$ elftrace /gm)!.length).toBeGreaterThan(2);
      expect(cooked(text)).toBe(text);
    }, 30_000);
  });
});

test('the list has each recipe; lines have at most 100 columns, apart from what commands print', () => {
  const list = textOf('README.md');
  expect(recipes().length).toBeGreaterThanOrEqual(8);
  for (const name of recipes()) expect([name, list.includes(`](${name})`)]).toEqual([name, true]);
  for (const name of ['README.md', ...recipes()]) {
    const words = textOf(name).replaceAll(/^```console\n[^]*?^```$/gm, '');
    expect([name, words.split('\n').filter((line) => line.length > 100)]).toEqual([name, []]);
  }
});
