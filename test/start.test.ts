/**
 * What a start costs: files and bytes of JavaScript that Node has to read before a verb begins, by
 * the import lines of the bundle. V8 scans every byte, and Node looks for each file, so growth here
 * is growth of each start.
 */
import { readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from '@jest/globals';
import { elftrace } from './support/cli.js';
import { root } from './support/pipeline.js';
import { spawnSync } from './support/spawn.js';

const dist = join(root, 'dist');
const text = (name: string): string => readFileSync(join(dist, name), 'utf8');

/** Files that are read with one: those that its import lines name, and theirs. */
function loaded(name: string, seen = new Set<string>()): Set<string> {
  if (seen.has(name)) return seen;
  seen.add(name);
  for (const [, other] of text(name).matchAll(/\b(?:from|import)"\.\/([^"]+\.js)"/g)) loaded(other!, seen);
  return seen;
}

/** KiB that are read before a verb's function is called: what it imports, and the command line. */
function kibibytes(...names: string[]): number {
  const files = new Set(names.flatMap((name) => [...loaded(name)]));
  return [...files].reduce((sum, name) => sum + statSync(join(dist, name)).size, 0) / 1024;
}

/** The file of a verb: `import("./verify-XXXXXXXX.js")` in that of the command line. */
const fileOf = (verb: string): string =>
  new RegExp(`import\\("\\./(${verb}-[A-Z0-9]{8}\\.js)"\\)`).exec(text('main.js'))![1]!;

// Without the machine: its room is loaded when the file has said which one it is.
describe('JavaScript that is read', () => {
  test('for --version: the starter alone', () => {
    expect(kibibytes('cli.cjs')).toBeLessThan(6);
    expect(elftrace(['--version']).stdout).toMatch(/^\d+\.\d+\.\d+\n$/);
  });

  test.each([
    ['verify', 450, 8],
    ['list', 465, 9],
    ['revert', 640, 13],
    ['patch', 555, 11],
    ['prove', 1650, 32],
    ['run', 1245, 20],
  ] as const)('for %s: at most %i KiB in %i files', (verb, bytes, files) => {
    const names = ['cli.cjs', 'main.js', fileOf(verb)];
    expect(kibibytes(...names)).toBeLessThan(bytes);
    expect(new Set(names.flatMap((name) => [...loaded(name)])).size).toBeLessThanOrEqual(files);
  });

  test.each(['verify', 'list', 'revert', 'patch', 'prove', 'run'])('%s reads one machine, not all', (verb) => {
    const before = loaded(fileOf(verb));
    const machines = [...before].flatMap((name) => text(name).match(/(?<=import\("\.\/)arch-[^"]+/g) ?? []);
    expect(new Set(machines.map((name) => name.replace(/-[A-Z0-9]{8}\.js$/, '')))).toEqual(
      new Set(['arch-arm64', 'arch-loongarch', 'arch-ppc', 'arch-riscv', 'arch-s390x', 'arch-x86']),
    );
    // What a machine alone brings is not read before.
    expect(Math.min(...machines.map((name) => kibibytes(name, ...before) - kibibytes(...before)))).toBeGreaterThan(10);
  });

  test('verbs that execute nothing load machines without what runs code', () => {
    const before = loaded(fileOf('verify'));
    const added = (kind: string): number[] =>
      [...before]
        .flatMap((name) => text(name).match(new RegExp(`(?<=import\\("\\./)${kind}[^"]+`, 'g')) ?? [])
        .map((name) => kibibytes(name, ...before) - kibibytes(...before));
    const still = added('still-');
    expect(still.length).toBeGreaterThanOrEqual(4);
    expect(Math.max(...still)).toBeLessThan(200);
    expect(Math.max(...added('arch-'))).toBeGreaterThan(1.8 * Math.max(...still));
  });

  test('nothing that is read holds tables, machine code or objects as text', () => {
    for (const name of loaded(fileOf('run'))) {
      expect([name, /[A-Za-z0-9+/]{2000}/.exec(text(name))?.[0].slice(0, 40)]).toEqual([name, undefined]);
    }
  });

  test('each script gives what its module exports', () => {
    const script = join(root, 'build/scripts/compare-scripts.js');
    const { stdout, stderr } = spawnSync(process.execPath, [script, dist], { encoding: 'utf8' });
    expect([stdout, stderr]).toEqual([expect.stringMatching(/^\d{2,} scripts\n$/), '']);
  });
});
