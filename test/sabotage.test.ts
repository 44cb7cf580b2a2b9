/**
 * The list of `npm run test:sabotage` against the built code: a pattern that has lost its place
 * would break nothing and prove nothing, and that run is too long for every change.
 */
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from '@jest/globals';
import { breakages, broken, places } from '../scripts/breakages.js';
import { root } from './support/pipeline.js';

const built = (file: string): string => join(root, 'build', 'src', file);

test('each breakage applies to exactly one place of the built code, and changes it', () => {
  const wrong = breakages.flatMap((each) => {
    if (!existsSync(built(each.file))) return [`${each.name}: there is no ${each.file}`];
    const text = readFileSync(built(each.file), 'utf8');
    const count = places(each, text);
    if (count !== 1) return [`${each.name}: ${String(count)} places in ${each.file}`];
    return broken(each, text) === text ? [`${each.name}: leaves ${each.file} as it is`] : [];
  });
  expect(wrong).toEqual([]);
});

test('each breakage has a name of its own, and a test file that there is', () => {
  const names = breakages.map(({ name }) => name);
  expect(names.filter((name, i) => names.indexOf(name) !== i)).toEqual([]);
  const lost = breakages.filter(({ test }) => !existsSync(join(root, 'test', `${test}.test.ts`)));
  expect(lost.map(({ name, test }) => `${name}: ${test}`)).toEqual([]);
});

test('a pattern that is not there, and one that is there twice, are seen', () => {
  const pattern = { name: '', file: '', replace: 'x', test: '' };
  expect(places({ ...pattern, find: 'b' }, 'a')).toBe(0);
  expect(places({ ...pattern, find: 'a(' }, 'a( a(')).toBe(2);
  expect(places({ ...pattern, find: /a\d/ }, 'a1 a2 a')).toBe(2);
});
