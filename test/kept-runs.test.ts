/** What `run` has translated of a program, kept from one run to the next. */
import {
  chmodSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  readFileSync,
  statSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeEach, describe, expect, test } from '@jest/globals';
import { trimFolder } from '../src/output/own-files.js';
import type { CliResult } from './support/cli.js';
import { cacheDamages, OwnCache } from './support/own-cache.js';
import { builtSamples } from './support/pipeline.js';

const own = new OwnCache();
const program = join(builtSamples, 'riscv64/program-patchable-8');
const other = join(builtSamples, 'riscv64/program-patchable-4');
/** How long a command has taken does not depend on the machine. */
const hook = join(own.folder, 'hook.cjs');
writeFileSync(hook, 'process.uptime = () => Number(process.env.SECONDS ?? 0);');
const OFF = { NODE_DISABLE_COMPILE_CACHE: '1' };

afterAll(() => {
  own.remove();
});
beforeEach(() => {
  own.clear();
});

const command = (args: readonly string[], env: Readonly<Record<string, string>> = {}): CliResult =>
  own.run(args, env, ['-r', hook]);
const run = (path = program): CliResult => command(['run', path]);

function theFile(): string {
  const files = own.files('translations');
  expect(files).toHaveLength(1);
  return files[0]!;
}

/** The file after two runs, with translations in it. */
function filled(): string {
  run();
  run();
  return theFile();
}

describe('translations that are kept', () => {
  test('the first run leaves an empty file, the second fills it, the third leaves it as it is', () => {
    const without = command(['run', program], OFF);
    expect(own.files('translations')).toEqual([]);
    expect(run()).toEqual(without);
    expect(statSync(theFile()).size).toBe(0);
    expect(run()).toEqual(without);
    const { size, mtimeMs, mode, ino } = statSync(theFile());
    expect([size > 10_000, mode & 0o777]).toEqual([true, 0o600]);
    expect(run()).toEqual(without);
    // It would be written anew, were it not used: all that was translated would be new.
    expect(statSync(theFile())).toMatchObject({ mtimeMs, ino });
  });

  test('a long run fills it at once', () => {
    command(['run', program], { SECONDS: '2' });
    expect(statSync(theFile()).size).toBeGreaterThan(10_000);
  });

  test.each([
    ...cacheDamages,
    [
      'others may write',
      (file: string) => {
        chmodSync(file, 0o622);
      },
    ],
  ])('a file that %s is not used, but made anew', (_, damage) => {
    const without = command(['run', program], OFF);
    const file = filled();
    const whole = readFileSync(file);
    damage(file);
    expect([run(), run()]).toEqual([without, without]);
    expect(readFileSync(file).equals(whole)).toBe(true);
    expect(statSync(file).mode & 0o777).toBe(0o600);
  });

  test('another program at the same path is executed as it is', () => {
    const path = join(own.folder, 'program');
    for (const from of [program, other, program]) {
      copyFileSync(from, path);
      const without = command(['run', path], OFF);
      for (let i = 0; i < 3; i++) expect([from, run(path)]).toEqual([from, without]);
    }
    expect(own.files('translations')).toHaveLength(1);
  });

  test('processors and tiers have their own, or none', () => {
    for (const tier of ['0', '1']) command(['run', '--tier', tier, program]);
    expect(own.files('translations')).toEqual([]);
    const x86 = join(builtSamples, 'x86-64/program-fentry');
    for (const options of [[], ['--cpu', 'x86-64-v3']]) command(['run', ...options, x86]);
    expect(own.files('translations')).toHaveLength(2);
  });

  test('comparisons keep both programs, and say the same', () => {
    const compare = ['run', '--compare', other, program];
    const without = command(compare, OFF);
    for (let i = 0; i < 3; i++) expect(command(compare)).toEqual(without);
    expect(own.files('translations').map((each) => statSync(each).size > 10_000)).toEqual([true, true]);
  });

  test('what another version or a writer left goes', () => {
    const file = filled();
    const old = [join(file, '..', 'whole-00000000.cjs-riscv64-00000000'), `${file}.12345`];
    for (const each of old) writeFileSync(each, 'old');
    command(['run', other]);
    expect(old.map((each) => existsSync(each))).toEqual([false, false]);
    expect(own.files('translations')).toHaveLength(2);
  });

  test('nothing is said where nothing can be written', () => {
    const without = command(['run', program], OFF);
    mkdirSync(join(own.cache, 'elftrace'), { recursive: true });
    writeFileSync(join(own.cache, 'elftrace', 'translations'), 'no folder');
    for (let i = 0; i < 3; i++) expect(run()).toEqual(without);
  });

  test('of a folder that is too large or has too many files the oldest go', () => {
    const folder = join(own.folder, 'trimmed');
    mkdirSync(folder);
    const names = ['b', 'd', 'a', 'c'];
    names.forEach((name, age) => {
      writeFileSync(join(folder, name), Buffer.alloc(100));
      utimesSync(join(folder, name), 1000 + age, 1000 + age);
    });
    const left = (): readonly string[] => names.filter((name) => existsSync(join(folder, name)));
    trimFolder(folder, { files: 4, bytes: 400 });
    expect(left()).toEqual(names);
    trimFolder(folder, { files: 3, bytes: 400 });
    expect(left()).toEqual(['d', 'a', 'c']);
    trimFolder(folder, { files: 3, bytes: 250 });
    expect(left()).toEqual(['a', 'c']);
  });
});
