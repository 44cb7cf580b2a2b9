/** What V8 has compiled of the command line, kept from one start to the next. */
import { chmodSync, existsSync, mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeEach, describe, expect, test } from '@jest/globals';
import type { CliResult } from './support/cli.js';
import { cacheDamages, OwnCache } from './support/own-cache.js';
import { builtSamples } from './support/pipeline.js';

const own = new OwnCache();
const { folder, cache } = own;
const log = join(folder, 'log');
const hook = join(folder, 'hook.cjs');
const sample = join(builtSamples, 'x86-64/core.o');

// Says of each script whether V8 was given code for it, and whether it took it; and what of Node
// was loaded at the end.
writeFileSync(
  hook,
  `const vm = require('node:vm');
  const { Script } = vm;
  if (process.env.LOADED) {
    const { writeFileSync } = require('node:fs');
    process.on('exit', () => writeFileSync(process.env.LOADED, process.moduleLoadList.join()));
  }
  if (process.env.SECONDS) process.uptime = () => Number(process.env.SECONDS);
  vm.Script = class extends Script {
    constructor(text, options) {
      super(text, options);
      const how = options.cachedData === undefined ? 'parsed' : this.cachedDataRejected ? 'refused' : 'used';
      require('node:fs').appendFileSync(${JSON.stringify(log)}, how + ' ');
    }
  };`,
);

afterAll(() => {
  own.remove();
});
beforeEach(() => {
  own.clear();
});

interface Start extends CliResult {
  /** What became of the scripts, each word once; empty: modules were loaded. */
  readonly how: string;
}

function start(args: readonly string[], env: Readonly<Record<string, string>> = {}): Start {
  rmSync(log, { force: true });
  const result = own.run(args, env, ['-r', hook]);
  const words = existsSync(log) ? readFileSync(log, 'utf8').trim().split(' ') : [];
  return { ...result, how: [...new Set(words)].join(' ') };
}

const kept = (): readonly string[] => own.files('code');
const theFile = (): string => {
  const files = kept();
  expect(files).toHaveLength(1);
  return files[0]!;
};

/** The file after two starts, with code in it. */
function filled(): string {
  start(['verify', sample]);
  start(['verify', sample]);
  return theFile();
}

describe('code that is kept', () => {
  test('the first start leaves an empty file, the second fills it, the third uses it', () => {
    const first = start(['verify', sample]);
    expect([first.how, statSync(theFile()).size]).toEqual(['', 0]);
    const second = start(['verify', sample]);
    const { size, mtimeMs, mode } = statSync(theFile());
    expect([second.how, size > 100_000, mode & 0o777]).toEqual(['parsed', true, 0o600]);
    const third = start(['verify', sample]);
    expect([third.how, statSync(theFile()).mtimeMs]).toEqual(['used', mtimeMs]);
    for (const each of [first, second, third]) {
      expect([each.status, each.stdout, each.stderr]).toEqual([0, expect.stringMatching(/: 9 sites: 9 ok\n$/), '']);
    }
  });

  test('errors, help, workers and other files are as without it', () => {
    filled();
    const bare = { NODE_DISABLE_COMPILE_CACHE: '1' };
    const riscv = join(builtSamples, 'riscv64/core.o');
    for (const args of [
      ['verify', sample, riscv, '-j', '2'],
      ['verify', '--help'],
      ['verify', hook],
      ['verify', '--no'],
      ...['gz', 'xz', 'zst'].map((how) => ['verify', join(builtSamples, `x86-64/module-fentry.ko.${how}`)]),
    ]) {
      // The scripts of what was not asked for before are parsed once.
      const { how: first, ...with_ } = start(args);
      const { how, ...again } = start(args);
      const { how: none, ...without } = start(args, bare);
      expect([args, first.split(' ')[0], how, none, with_, again]).toEqual([
        args,
        'used',
        'used',
        '',
        without,
        without,
      ]);
    }
  });

  test('a machine that was not seen before is added to the code, once', () => {
    const file = filled();
    const before = statSync(file).size;
    const riscv = join(builtSamples, 'riscv64/core.o');
    expect(start(['verify', riscv])).toMatchObject({ how: 'used parsed', status: 0 });
    const { size, mtimeMs } = statSync(file);
    expect(size).toBeGreaterThan(before);
    for (const each of [riscv, sample]) expect(start(['verify', each])).toMatchObject({ how: 'used', status: 0 });
    expect(statSync(file).mtimeMs).toBe(mtimeMs);
  });

  test('a long command adds what it has executed, once', () => {
    const file = filled();
    const times = [0, 2, 2, 0].map((seconds) => {
      expect(start(['verify', sample], { SECONDS: String(seconds) })).toMatchObject({ how: 'used', status: 0 });
      return statSync(file).mtimeMs;
    });
    expect([times[1]! > times[0]!, times[2], times[3]]).toEqual([true, times[1], times[1]]);
  });

  test('packages that are loaded late are found', () => {
    const results = ['', 'parsed', 'used'].map((how) => ({ expected: how, ...start(['disasm', sample, 'core_leaf']) }));
    for (const { how, expected, status, stdout } of results) {
      expect([how, status, stdout]).toEqual([expected, 0, expect.stringMatching(/\bcall\b/)]);
    }
  });

  test.each(cacheDamages)('a file that %s is made anew', (_, damage) => {
    const file = filled();
    damage(file);
    expect(start(['verify', sample])).toMatchObject({ how: expect.stringMatching(/parsed/), status: 0 });
    expect(start(['verify', sample])).toMatchObject({ how: 'used', status: 0 });
  });

  test('what was loaded when V8 had other options is used by those who have none, and by these', () => {
    const riscv = join(builtSamples, 'riscv64/core.o');
    const many = [sample, riscv, sample];
    for (const how of ['', 'parsed', 'used']) expect(start(['verify', ...many])).toMatchObject({ how, status: 0 });
    for (const each of many) expect(start(['verify', each])).toMatchObject({ how: 'used', status: 0 });
  });

  test('nothing that small files do without is loaded of Node', () => {
    filled();
    const loaded = join(folder, 'loaded');
    expect(start(['verify', sample], { LOADED: loaded })).toMatchObject({ how: 'used', status: 0 });
    const list = readFileSync(loaded, 'utf8').split(',');
    expect(list).toEqual(expect.arrayContaining(['NativeModule fs', 'NativeModule vm']));
    for (const name of ['zlib', 'perf_hooks', 'stream', 'os', 'crypto', 'v8', 'tty', 'net', 'module']) {
      expect(list).not.toContain(`NativeModule ${name}`);
    }
  });

  test('a file that others may write is not used: an empty one takes its place', () => {
    const file = filled();
    chmodSync(file, 0o622);
    expect(start(['verify', sample])).toMatchObject({ how: '', status: 0 });
    expect([statSync(file).size, statSync(file).mode & 0o777]).toEqual([0, 0o600]);
  });

  test('options of V8 have a file of their own, and what another version or writer left goes', () => {
    const file = filled();
    const old = [join(file, '..', 'scripts-00000000-verify-00000000'), `${file}.12345`];
    for (const each of old) writeFileSync(each, 'old');
    expect(start(['verify', sample], { NODE_OPTIONS: '--max-old-space-size=2000' }).how).toBe('');
    expect(kept()).toHaveLength(2);
    expect(old.map((each) => existsSync(each))).toEqual([false, false]);
  });

  test('nothing is written where it is turned off, for words that are no verb, and where nothing can be', () => {
    start(['verify', sample], { NODE_DISABLE_COMPILE_CACHE: '1' });
    expect(start(['verifi', sample]).status).toBe(2);
    start(['--version']);
    expect(kept()).toEqual([]);
    mkdirSync(join(cache, 'elftrace'), { recursive: true });
    writeFileSync(join(cache, 'elftrace', 'code'), 'no folder');
    for (let i = 0; i < 3; i++) expect(start(['verify', sample])).toMatchObject({ how: '', status: 0, stderr: '' });
  });

  test('a program runs in it as without', () => {
    const program = join(builtSamples, 'riscv64/program-patchable-8');
    const results = ['', 'parsed', 'used'].map((how) => ({ expected: how, ...start(['run', program]) }));
    for (const { how, expected, status, stdout } of results) {
      expect([how, status, stdout]).toEqual([expected, results[0]!.status, results[0]!.stdout]);
    }
  });
});
