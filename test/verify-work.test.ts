/**
 * What `verify` does for each file of a tree, counted instead of timed: opens, bytes that are read,
 * calls of functions. `npm run bench -- tree` has the times.
 */
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, test } from '@jest/globals';
import { x86Object } from '../bench/inputs.js';
import { elftrace } from './support/cli.js';

const folder = mkdtempSync(join(tmpdir(), 'verify-work-'));
afterAll(() => {
  rmSync(folder, { recursive: true, force: true });
});

/** Loaded before elftrace; V8 counts the calls. */
const COUNTER = `
import fs from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';
import { Session } from 'node:inspector';
const session = new Session();
session.connect();
session.post('Profiler.enable');
session.post('Profiler.startPreciseCoverage', { callCount: true, detailed: false });
const { openSync, readSync, closeSync, writeFileSync } = fs;
const modules = new Set();
const found = { opens: 0, bytes: 0, calls: 0 };
fs.openSync = (path, ...rest) => {
  const descriptor = openSync(path, ...rest);
  if (String(path).endsWith('.ko')) found.opens++, modules.add(descriptor);
  return descriptor;
};
fs.closeSync = (descriptor) => (modules.delete(descriptor), closeSync(descriptor));
fs.readSync = (descriptor, ...rest) => {
  const size = readSync(descriptor, ...rest);
  if (modules.has(descriptor)) found.bytes += size;
  return size;
};
syncBuiltinESMExports();
process.on('exit', () => {
  session.post('Profiler.takePreciseCoverage', (_, { result }) => {
    for (const { url, functions } of result)
      if (url.startsWith('file:') && url.includes('/dist/'))
        for (const { ranges } of functions) found.calls += ranges[0].count;
  });
  writeFileSync(process.env.COUNTS, JSON.stringify(found));
});
`;

const SITES = 40;
const module = x86Object(SITES);

function counted(files: number): { readonly opens: number; readonly bytes: number; readonly calls: number } {
  const tree = join(folder, String(files));
  mkdirSync(tree);
  for (let at = 0; at < files; at++) writeFileSync(join(tree, `module${String(at)}.ko`), module);
  writeFileSync(join(folder, 'counter.mjs'), COUNTER);
  const env = { NODE_OPTIONS: `--import=${join(folder, 'counter.mjs')}`, COUNTS: join(folder, 'counts') };
  const { status, stderr } = elftrace(['verify', '--quiet', '--jobs', '1', tree], { env });
  expect([status, stderr]).toEqual([0, '']);
  return JSON.parse(readFileSync(env.COUNTS, 'utf8')) as ReturnType<typeof counted>;
}

test('verify opens and reads each file once, and a further file costs its sites, not the tree', () => {
  const [few, many] = [counted(5), counted(20)];
  expect(few).toMatchObject({ opens: 5, bytes: 5 * module.length });
  expect(many).toMatchObject({ opens: 20, bytes: 20 * module.length });
  const perFile = (many.calls - few.calls) / 15;
  // 215 for each site in November 2026: what reads a file twice, or a table for each site, is over.
  expect(perFile).toBeGreaterThan(20 * SITES);
  expect(perFile).toBeLessThan(300 * SITES);
});
