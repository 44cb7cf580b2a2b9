/** A command gives the same in the process that runs many as in one of its own. */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, test } from '@jest/globals';
import { elftrace, warmElftrace } from './support/cli.js';

const folder = mkdtempSync(join(tmpdir(), 'elftrace-server-'));
afterAll(() => {
  rmSync(folder, { recursive: true });
});
const core = 'samples/built/ppc64-elfv2-le/core-mprofile';
const output = join(folder, 'out');

test.each([
  [['--version']],
  [['frobnicate']],
  [['list', core]],
  [['verify', core, '--json']],
  [['verify', 'no-such-file']],
  [['patch', core, '--nop', '-o', output]],
  [['status', output, '--json']],
  [['run', '--max-instructions', '100', core]],
  [['run', 'samples/built/ppc64-elfv2-le/program-mprofile']],
  [['patch', '--help']],
])('%j', (args) => {
  const written = (): string => (args.includes(output) ? readFileSync(output).toString('base64') : '');
  const cold = { ...elftrace(args), written: written() };
  for (let i = 0; i < 2; i++) {
    if (args.includes('-o')) rmSync(output);
    expect({ ...warmElftrace(args), written: written() }).toEqual(cold);
  }
});

test('the directory, the environment and the order of many commands', () => {
  expect(warmElftrace(['list', 'core-mprofile'], { cwd: 'samples/built/ppc64-elfv2-le' }).status).toBe(0);
  for (let i = 0; i < 60; i++) expect(warmElftrace(['--version']).stdout).toBe('0.1.0\n');
  expect(warmElftrace(['list', 'core-mprofile']).status).toBe(2);
});
