/**
 * A name that does not exist is named, with the exit status of bad input or of a refusal, by every
 * option that takes one; nothing is written.
 */
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from '@jest/globals';
import { warmElftrace as elftrace } from './support/cli.js';
import { builtSamples } from './support/pipeline.js';

const folder = mkdtempSync(join(tmpdir(), 'elftrace-names-'));
afterAll(() => {
  rmSync(folder, { recursive: true, force: true });
});
const out = join(folder, 'out');
let sessions = 0;
const session = (step: string): readonly string[] => {
  const path = join(folder, `${sessions++}.yaml`);
  writeFileSync(path, `version: 1\nsteps:\n  - ${step}\n`);
  return ['--session', path];
};
const ops = (more: string): readonly string[] => session(`ops: { name: m, ${more} }\n  - register: m`);

/** The request, and its exit status. */
const patches: readonly (readonly [status: number, ...args: string[]])[] = [
  [2, '--enable', '--tracer', 'nosuch'],
  [1, '--livepatch', 'nosuch=bump'],
  [2, '--livepatch', 'leaf=nosuch'],
  [1, '--probe', 'p:x nosuch'],
  [1, '--probe', 'p:x nosuch+4'],
  [1, '--probe', 'r:x nosuch'],
  [2, '--probe', 'p:x leaf n=@nosuch'],
  [1, ...ops("call: elftrace_counter, filter: 'leaf nosuch'")],
  [1, ...ops("call: elftrace_counter, notrace: 'leaf nosuch'")],
  [2, ...ops('call: nosuch, filter: leaf')],
  [1, ...session("graph: { name: g, filter: 'leaf nosuch' }")],
  [2, ...session('unregister: nosuch')],
  [2, ...session('filter: { ops: nosuch, words: leaf }')],
  [1, ...session('unload: nosuch')],
  [2, ...session('load: nosuch')],
  [2, ...session('livepatch: { function: leaf, new: nosuch }')],
  [1, ...session('no-probe: nosuch')],
];
const directs: typeof patches = [
  [1, '--direct', 'nosuch=hook'],
  [2, '--direct', 'leaf=nosuch'],
  [2, ...session('direct: { function: leaf, caller: nosuch }')],
];
const others: readonly (readonly [status: number, verb: string, ...args: string[]])[] = [
  [125, 'run', '--call', 'nosuch(1)'],
  [2, 'explain', 'nosuch'],
  [2, 'disasm', 'leaf', 'nosuch'],
  [2, 'race', '--site', 'nosuch'],
  [1, 'race', '--probe', 'nosuch'],
  [2, 'race', '--site', 'leaf', '--call', 'nosuch(1)'],
  [2, 'load', '--entry', 'nosuch', '-o', out],
];

describe.each([
  ['x86-64/program-fentry', true],
  ['ppc64-elfv1/program-mprofile', false],
])('%s', (name, hasDirect) => {
  const program = join(builtSamples, name);
  test.each([...patches, ...(hasDirect ? directs : [])])('patch: exit %i: %s %s', (status, ...args) => {
    const result = elftrace(['patch', program, ...args, '-o', out]);
    expect([result.status, result.stdout, result.stderr]).toEqual([status, '', expect.stringContaining('nosuch')]);
    expect(existsSync(out)).toBe(false);
  });
  test.each(others)('exit %i: %s %s', (status, verb, ...args) => {
    // What stands behind the program of `run` is the program's.
    const result = elftrace(verb === 'run' ? [verb, ...args, program] : [verb, program, ...args]);
    expect([result.status, result.stderr]).toEqual([status, expect.stringContaining('nosuch')]);
    expect(existsSync(out)).toBe(false);
  });
});

test('--entry and --ops: symbols that the file does not have become undefined ones of it, and are named', () => {
  const path = join(folder, 'enabled.o');
  const entry = ['--entry', 'nosuch', '--ops', 'neither'];
  const { status, stderr } = elftrace(['patch', join(builtSamples, 'arm64/core.o'), '--enable', ...entry, '-o', path]);
  expect([status, stderr]).toEqual([
    0,
    expect.stringContaining(
      'notice: the file defines no neither, no nosuch: undefined symbols of it now, for a linker or loader to find\n',
    ),
  ]);
});
