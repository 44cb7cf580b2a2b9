/**
 * README.md says nothing that is not so: the library example runs, verbs and options are those of
 * the program.
 */
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { spawnSync } from './support/spawn.js';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from '@jest/globals';
import { elftrace } from './support/cli.js';
import { openBytes, readSample, root, sameBytes } from './support/pipeline.js';
import { libraryExample, readme } from './support/readme.js';

const folder = mkdtempSync(join(tmpdir(), 'readme-'));
afterAll(() => {
  rmSync(folder, { recursive: true, force: true });
});

describe('README.md', () => {
  test('the library example runs as it stands there', () => {
    mkdirSync(join(folder, 'node_modules'));
    symlinkSync(root, join(folder, 'node_modules', 'elftrace'));
    writeFileSync(join(folder, 'example.mjs'), libraryExample());
    const original = readSample('x86-64/module-fentry.ko');
    writeFileSync(join(folder, 'driver.ko'), original);
    const { status, stdout, stderr } = spawnSync(process.execPath, ['example.mjs'], {
      cwd: folder,
      encoding: 'utf8',
      env: { ...process.env, NODE_OPTIONS: '' },
    });
    expect([status, stderr]).toEqual([0, '']);
    expect(stdout).toBe(`11 sites fine, 11 calls are nops; undone: ${original.length} bytes\n`);
    const quiet = new Uint8Array(readFileSync(join(folder, 'quiet.ko')));
    expect(openBytes(quiet).sites.totals().byState).toEqual({ nop: 11 });
    expect(sameBytes(new Uint8Array(readFileSync(join(folder, 'driver.ko'))), original)).toBe(true);
  });

  test('commands and options are those of the program', () => {
    /** Options of single machines are listed where they are asked for. */
    const forms = (verb: string): string[] => (verb === 'patch' || verb === 'plan' ? ['--forms'] : []);
    const used = [...readme().matchAll(/^\$ elftrace (\w+) (.*?)(?: +#.*)?$/gm)];
    expect(used.length).toBeGreaterThan(5);
    for (const [line, verb, rest] of used) {
      const help = elftrace([verb!, '--help', ...forms(verb!)]);
      expect([line, help.status]).toEqual([line, 0]);
      for (const [option] of rest!.matchAll(/--[a-z-]+/g))
        expect([line, help.stdout.includes(option)]).toEqual([line, true]);
    }
    const help = ['patch', 'verify', 'mcount', 'list', 'revert', 'info', 'race']
      .map((verb) => elftrace([verb, '--help', ...forms(verb)]).stdout)
      .join('\n');
    for (const [, option] of readme().matchAll(/`(--[a-z-]+)[ `]/g)) {
      if (option === '--enable') continue;
      expect([option, help.includes(option!)]).toEqual([option, true]);
    }
  });

  test('files that it names are there, and so are the npm scripts', () => {
    const scripts = (
      JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { scripts: Record<string, string> }
    ).scripts;
    for (const [, script] of readme().matchAll(/npm (?:run )?(test|demo|bench|build)\b/g))
      expect(scripts).toHaveProperty(script!);
    for (const [, path] of readme().matchAll(/`((?:docs|samples|schemas)\/[\w./-]*|THIRD-PARTY\.md)`/g)) {
      expect(() => readFileSync(join(root, path!))).not.toThrow(/ENOENT/);
    }
  });
});
