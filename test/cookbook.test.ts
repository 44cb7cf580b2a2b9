/** Pages with commands: these print what the pages show. */
import { readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { describe, expect, test } from '@jest/globals';
import { cookbook, cooked, pages, recipes, toolsOf } from '../scripts/cookbook.js';
import { repeats } from './support/long.js';
import { describeWith } from './support/tools.js';

const textOf = (name: string): string => readFileSync(join(cookbook, name), 'utf8');

/** All in CI; else one: what commands do has tests of its own. */
describe.each(repeats(pages().toReversed()).map((path) => [basename(path), path]))('%s', (_, path) => {
  const text = readFileSync(path!, 'utf8');
  describeWith(['bash', ...toolsOf(text)], 'its commands', () => {
    test('print what it shows (node build/scripts/cookbook.js --write)', () => {
      expect(text.match(/^\$ elftrace /gm)!.length).toBeGreaterThanOrEqual(2);
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
