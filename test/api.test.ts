/**
 * The public API: `docs/api.txt` is what the declaration files say, and what it lacks of the last
 * release's is listed in CHANGELOG.md. Compares declarations as text; `package.test.ts` compiles
 * them.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from '@jest/globals';
import * as library from '../src/index.js';
import { apiBreaks, apiReport, undocumented } from '../scripts/api-report.js';
import { elftrace } from './support/cli.js';
import { root } from './support/pipeline.js';

const page = (name: string): string => readFileSync(join(root, name), 'utf8');
/** Reports of releases, by version. */
const releases = readdirSync(join(root, 'docs')).flatMap((name) => {
  const [, version] = /^api-(\d+\.\d+\.\d+)\.txt$/.exec(name) ?? [];
  return version === undefined ? [] : [{ version, report: page(join('docs', name)) }];
});

test('docs/api.txt is the API (npm run build:api writes it)', () => {
  const report = apiReport(join(root, 'dist', 'types'));
  // Names first: the whole would be thousands of lines.
  expect(apiBreaks(page('docs/api.txt'), report)).toEqual([]);
  expect(apiBreaks(report, page('docs/api.txt'))).toEqual([]);
  expect(report === page('docs/api.txt')).toBe(true);
  expect(report.match(/^\/\/ \w/gm)!.length).toBeGreaterThan(300);
});

test('what the last release had and this one has not is listed as changed or removed', () => {
  expect(releases.map(({ version }) => version)).toEqual(['0.1.0']);
  const changelog = page('CHANGELOG.md');
  expect(changelog).toContain(`## ${releases[0]!.version} - `);
  const unreleased = /^## Unreleased$([^]*?)^## /m.exec(changelog)![1]!;
  const told = [...unreleased.matchAll(/^### (?:Changed|Removed)$([^]*?)(?=^### |(?![^]))/gm)].join('\n');
  const breaks = apiBreaks(releases[0]!.report, page('docs/api.txt'));
  expect(breaks.length).toBeGreaterThan(0);
  expect(breaks.filter(({ name }) => !told.includes(`\`${name}\``))).toEqual([]);
});

test('a break is a name that is gone, or a line of its declaration; what comes is none', () => {
  const before = '// a\nfunction a(x: number): void;\n\n// b\ninterface B {\n  readonly c: string;\n}\n';
  expect(apiBreaks(before, before)).toEqual([]);
  expect(apiBreaks(before, `${before.replace('{', '{\n  readonly d?: string;')}\n// e\ntype E = 1;\n`)).toEqual([]);
  expect(apiBreaks(before, before.replace('x: number', 'x: string'))).toEqual([
    { name: 'a', lines: ['function a(x: number): void;'] },
  ]);
  expect(apiBreaks(before, before.slice(before.indexOf('// b')))).toEqual([{ name: 'a', lines: null }]);
});

test('every function, class and value has a docstring', () => {
  expect(undocumented(join(root, 'dist', 'types'))).toEqual([]);
});

test('docs/library.md has each verb, and what it names is exported', () => {
  const table = page('docs/library.md')
    .match(/^\| `.*$/gm)!
    .map((row) => row.split(' | '));
  const { verbs } = JSON.parse(elftrace(['help', '--json']).stdout) as { verbs: { name: string; also: string[] }[] };
  const told = table.flatMap(([verb]) => [...verb!.matchAll(/`(\w+)`/g)].map(([, name]) => name!));
  expect(told.sort()).toEqual(verbs.flatMap(({ name, also }) => [name, ...also]).sort());
  const named = table.flatMap(([, what]) => [...what!.matchAll(/`(\w+)`/g)].map(([, name]) => name!));
  expect(named.length).toBeGreaterThan(40);
  expect(named.filter((name) => !(name in library))).toEqual([]);
});
