/** The committed table of proofs of kernels, docs/proofs.md: how its rows come from records. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from '@jest/globals';
import { type ProofRecord, proofRows, readRecords, rowLines } from './support/proofs-page.js';
import { root } from './support/pipeline.js';

const record = (file: string, more: Partial<ProofRecord>): ProofRecord => ({
  ...{ tool: '1', target: 'arm64', release: '6.12', kind: 'modules', file, way: '--init' },
  ...{ sites: { proved: 2, unchanged: 1, different: 0, inconclusive: 0 }, reasons: {}, left: {} },
  ...{ refused: null, seconds: 1 },
  ...more,
});

test('PV-4: a row of docs/proofs.md counts files, sites and reasons of its records, and nothing that was not tried', () => {
  const nothing = { proved: 0, unchanged: 0, different: 0, inconclusive: 0 };
  const records = [
    record('a.ko', {}),
    record('b.ko', { sites: { ...nothing, different: 1, inconclusive: 3 }, reasons: { budget: 3 } }),
    record('c.ko', { sites: nothing, refused: 'no sites' }),
    record('a.ko', { way: '--untrace', left: { 'plan-refused': 4 } }),
    record('vmlinux', { kind: 'vmlinux' }),
  ];
  expect(readRecords(records.map((each) => `${JSON.stringify(each)}\n`).join(''))).toEqual(records);
  const lines = rowLines(proofRows(records));
  expect(lines[0]).toBe('## arm64, Linux 6.12, elftrace 1');
  expect(lines.filter((line) => /^\| (?:vmlinux|modules)/.test(line))).toEqual([
    '| vmlinux | --init | 1 | 2 | 1 | 0 | 0 |',
    '| modules | --init | 2 | 2 | 1 | 1 | 3 (budget: 3) |',
    '| modules | --untrace | 1 | 2 | 1 | 0 | 0 |',
    '| modules | --init | no sites: 1 | none |',
    '| modules | --untrace | none | plan-refused: 4 |',
  ]);
});

test('PV-4: docs/proofs.md has no site that is different, and of each row at most a hundredth is inconclusive', () => {
  const text = readFileSync(join(root, 'docs', 'proofs.md'), 'utf8');
  const rows = text.split('\n').flatMap((line) => {
    const cells = line.split('|').map((cell) => cell.trim());
    return cells.length === 9 && /^\d/.test(cells[3]!) ? [cells.slice(3, 8).map((cell) => Number.parseInt(cell))] : [];
  });
  expect(rows.length).toBeGreaterThanOrEqual(24);
  for (const [files, proved, unchanged, different, inconclusive] of rows as [
    number,
    number,
    number,
    number,
    number,
  ][]) {
    expect(files).toBeGreaterThan(0);
    expect(different).toBe(0);
    expect(inconclusive).toBeLessThanOrEqual((proved + unchanged + inconclusive) / 100);
  }
});
