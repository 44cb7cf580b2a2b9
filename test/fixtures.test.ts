/**
 * Records, journals, plans and sessions that version 0.1.0 wrote are read, verified and reverted to
 * the exact original.
 */
import { createHash } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from '@jest/globals';
import { warmElftrace as elftrace } from './support/cli.js';
import { sampled } from './support/long.js';
import { root } from './support/pipeline.js';

interface Fixture {
  readonly file: string;
  /** SHA-256 of the file before it was patched. */
  readonly original: string;
  readonly journal?: string;
  readonly plan?: string;
}

const fixtures = join(root, 'test', 'fixtures', '0.1.0');
const rows: readonly Fixture[] = JSON.parse(readFileSync(join(fixtures, 'fixtures.json'), 'utf8'));
const folder = mkdtempSync(join(tmpdir(), 'elftrace-fixtures-'));
afterAll(() => {
  rmSync(folder, { recursive: true });
});
const sumOf = (path: string): string => createHash('sha256').update(readFileSync(path)).digest('hex');
const beside = ({ journal }: Fixture): string[] =>
  journal === undefined ? [] : ['--journal', join(fixtures, journal)];

function reverted(row: Fixture): string {
  const output = join(folder, `${row.file}.original`);
  const { status, stderr } = elftrace(['revert', join(fixtures, row.file), ...beside(row), '-o', output]);
  expect([status, stderr]).toEqual([0, '']);
  return output;
}

describe.each(sampled(rows, 2).map((row) => [row.file, row] as const))('0.1.0 %s', (file, row) => {
  test('verify finds nothing wrong, and status names the original', () => {
    expect(elftrace(['verify', join(fixtures, file), ...beside(row)]).status).toBe(0);
    const { status, stdout } = elftrace(['status', join(fixtures, file), ...beside(row)]);
    expect([status, stdout]).toEqual([0, expect.stringContaining(row.original)]);
  });

  test('revert gives the original, byte for byte', () => {
    expect(sumOf(join(fixtures, file))).not.toBe(row.original);
    expect(sumOf(reverted(row))).toBe(row.original);
  });
});

test.each(rows.filter(({ plan }) => plan !== undefined).map((row) => [row.plan!, row] as const))(
  '0.1.0 %s is carried out as it was then',
  (plan, row) => {
    const output = join(folder, `${row.file}.applied`);
    const { status } = elftrace(['apply', reverted(row), join(fixtures, plan), '-o', output]);
    expect([status, sumOf(output)]).toEqual([0, sumOf(join(fixtures, row.file))]);
  },
);

test('0.1.0 session.yaml is performed as it was then', () => {
  const row = rows.find(({ file }) => file === 'x86-64-session')!;
  const output = join(folder, 'session');
  const { status } = elftrace(['patch', reverted(row), '--session', join(fixtures, 'session.yaml'), '-o', output]);
  expect(status).toBe(0);
  // Trampolines lie behind the runtime, which has grown since; neighbouring stores with reasons of
  // their own are places of their own since.
  const state = (path: string): string =>
    elftrace(['status', path])
      .stdout.replaceAll(path, '')
      .replace(/\d+ places/, 'PLACES')
      .replace(/(?<=tramp: )0x[0-9a-f]+/g, 'ADDRESS');
  expect(state(output)).toBe(state(join(fixtures, row.file)));
});
