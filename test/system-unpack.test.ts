/**
 * Compressed trees that `verify` lets gzip, xz and zstd of the system unpack: what is printed is
 * what the packages lead to, whatever the files and the programs are. The programs are called
 * through a script that says so.
 */
import { chmodSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { afterAll, expect, test } from '@jest/globals';
import { warmElftrace } from './support/cli.js';
import { edited, openBytes, readSample, root } from './support/pipeline.js';
import { describeWith, run, tool } from './support/tools.js';

const folder = mkdtempSync(join(tmpdir(), 'system-unpack-'));
afterAll(() => {
  rmSync(folder, { recursive: true, force: true });
});

const FORMS = [
  ['xz', 'xz', ['--check=crc32', '--lzma2=dict=2MiB']],
  ['zstd', 'zst', ['-q']],
  ['gzip', 'gz', ['-n']],
] as const;

/** Modules of different sizes and verdicts: a file that is cut at a wrong place shows. */
const fentry = readSample('x86-64/module-fentry.ko');
const { sites } = openBytes(fentry);
const modules = [
  fentry,
  ...[0, 3, 5].map((site) => edited(fentry, sites.fileOffset(site), [0xcc])),
  readSample('ppc32/module-mcount.ko'),
];

/** CRC-32 of ISO 3309, bit by bit. */
function crc32(bytes: Uint8Array): number {
  let crc = 0xffff_ffff;
  for (const byte of bytes) {
    crc ^= byte;
    for (let bit = 0; bit < 8; bit++) crc = (crc >>> 1) ^ (crc & 1 ? 0xedb8_8320 : 0);
  }
  return (crc ^ 0xffff_ffff) >>> 0;
}

const log = join(folder, 'called');

/** A program in a folder of its own that writes down how it was called, and does `what`. */
function program(name: string, what: (real: string) => string): string {
  const bin = mkdtempSync(join(folder, 'bin-'));
  const real = String(tool(name));
  const path = join(bin, name);
  writeFileSync(path, `#!/bin/sh\necho "$# $(/usr/bin/env | /bin/grep -c XZ_)" >>'${log}'\n${what(real)}\n`);
  chmodSync(path, 0o755);
  return bin;
}

interface Said {
  readonly status: number | null;
  readonly stdout: string;
  readonly stderr: string;
  /** How often the program was called, and with how many words and variables of its own. */
  readonly calls: readonly string[];
}

function verify(tree: string, path: string, ...given: readonly string[]): Said {
  return asked(path, 'verify', ...(given.includes('--jobs') ? given : ['--jobs', '1', ...given]), tree);
}

function asked(path: string, verb: string, ...words: readonly string[]): Said {
  rmSync(log, { force: true });
  const env = { PATH: path, XZ_OPT: '--no-such-option', XZ_DEFAULTS: '--no-such-option' };
  const { status, stdout, stderr } = warmElftrace([verb, '--json', ...words], { env });
  const calls = existsSync(log) ? readFileSync(log, 'utf8').trim().split('\n') : [];
  return { status, stdout, stderr, calls };
}

describeWith(['xz', 'zstd', 'gzip'], 'compressed trees', () => {
  const packed = new Map<string, readonly Buffer[]>();
  const packedBy = (suffix: string): readonly Buffer[] => {
    const [name, , options] = FORMS.find((form) => form[1] === suffix)!;
    const plain = join(folder, 'plain');
    const all = modules.map((module) => {
      writeFileSync(plain, module);
      return run(name, [...options, '-c', plain]);
    });
    packed.set(suffix, all);
    return all;
  };

  /** A tree of 12 files; `damage` may change one in the middle. */
  function treeOf(suffix: string, damage: (bytes: Buffer) => Uint8Array = (bytes) => bytes): string {
    const all = packed.get(suffix) ?? packedBy(suffix);
    const tree = mkdtempSync(join(folder, `${suffix}-`));
    for (let i = 0; i < 12; i++) {
      const bytes = all[i % all.length]!;
      const name = `m${String(i).padStart(2, '0')}.ko.${suffix}`;
      writeFileSync(join(tree, name), i === 5 ? damage(Buffer.from(bytes)) : bytes);
    }
    return tree;
  }
  const same = (a: Said, b: Said): void => {
    expect([a.status, a.stdout, a.stderr]).toEqual([b.status, b.stdout, b.stderr]);
  };

  test.each(FORMS)('%s: one process for many files, without variables of the caller', (name, suffix, _options) => {
    const tree = treeOf(suffix);
    const bin = program(name, (real) => `exec ${real} "$@"`);
    const system = verify(tree, bin);
    expect(system.calls).toEqual(['14 0']);
    expect(system.status).toBe(1);
    const own = verify(tree, bin, '--no-system-unpack');
    expect(own.calls).toEqual([]);
    same(system, own);
    same(verify(tree, '/nonexistent'), own);
    same(verify(tree, bin, '--jobs', '2'), own);
  });

  test('why and diff: one process for the files of a tree each time that they are read', () => {
    const [tree, other] = [treeOf('xz'), treeOf('xz', () => packed.get('xz')![0]!)];
    const bin = program('xz', (real) => `exec ${real} "$@"`);
    for (const [words, calls] of [
      [
        ['why', 'module_run', tree],
        ['14 0', '14 0'],
      ],
      [['diff', tree, other], ['26 0']],
    ] as const) {
      const [verb, ...rest] = words;
      const system = asked(bin, verb, ...rest);
      const own = asked(bin, verb, '--no-system-unpack', ...rest);
      expect([verb, system.calls, own.calls]).toEqual([verb, calls, []]);
      expect(own.stdout).toContain('.ko.xz');
      same(system, own);
    }
  });

  const flipped = (at: number) => (bytes: Buffer) => {
    bytes[at < 0 ? bytes.length + at : at]! ^= 0x40;
    return bytes;
  };
  /** The index says one byte more, under a sum that is right. */
  const lying = (bytes: Buffer): Buffer => {
    const end = bytes.length - 12;
    const start = end - 4 * (bytes.readUInt32LE(end + 4) + 1);
    let at = start + 2;
    while (bytes[at]! >= 0x80) at++;
    bytes[at + 1]!++;
    bytes.writeUInt32LE(crc32(bytes.subarray(start, end - 4)), end - 4);
    return bytes;
  };
  const filtered = (bytes: Buffer): Buffer => run('xz', ['--arm', '--lzma2', '-c'], run('xz', ['-dc'], bytes));
  const twice = (bytes: Buffer): Buffer => Buffer.concat([bytes, bytes]);
  const longer = (bytes: Buffer): Buffer => Buffer.concat([bytes, Buffer.alloc(4)]);

  test.each([
    ['xz', 'its data damaged', flipped(400), 2],
    ['xz', 'its end missing', (bytes: Buffer) => bytes.subarray(0, -30), 2],
    ['xz', 'an index that lies', lying, 2],
    ['xz', 'two streams', twice, 1],
    ['xz', 'padding behind it', longer, 1],
    ['xz', 'a filter that is not read', filtered, 4],
    ['xz', 'text instead', () => Buffer.from('no module'), 2],
    ['zst', 'its sum damaged', flipped(-2), 2],
    ['zst', 'two frames', twice, 1],
    ['gz', 'its size damaged', flipped(-1), 2],
    ['gz', 'its data damaged', flipped(400), 2],
    ['gz', 'two members', twice, 1],
    ['gz', 'bytes behind it', longer, 1],
  ] as const)('%s: a file in the middle has %s', (suffix, _what, damage, status) => {
    const tree = treeOf(suffix, damage);
    const own = verify(tree, process.env['PATH']!, '--no-system-unpack');
    expect(own.status).toBe(status);
    same(verify(tree, process.env['PATH']!), own);
  });

  test('more than is allowed is refused as before', () => {
    const tree = treeOf('xz');
    const path = process.env['PATH']!;
    for (const limit of [
      ['--max-unpacked', String(fentry.length - 1)],
      ['--max-file', '500'],
    ] as const) {
      const own = verify(tree, path, ...limit, '--no-system-unpack');
      expect(own.stdout).toMatch(/limit-exceeded/);
      same(verify(tree, path, ...limit), own);
    }
  });

  test.each([
    ['gives too little', (real: string) => `${real} "$@" | /usr/bin/head -c 5000`],
    ['leaves out the first file', (real: string) => `shift 3; exec ${real} -dc -- "$@"`],
    ['gives too much', (real: string) => `${real} "$@"; echo more`],
    ['ends with a failure', (real: string) => `${real} "$@"; exit 2`],
    ['dies', () => 'kill -9 $$'],
    ['cannot be run', () => 'exec /nonexistent'],
  ])('a program that %s is not believed', (_what, what) => {
    const tree = treeOf('xz');
    const said = verify(tree, program('xz', what));
    expect(said.calls).toEqual(['14 0']);
    same(said, verify(tree, '/nonexistent'));
  });

  test('a program is not taken from where the command stands, and few files need none', () => {
    const tree = treeOf('xz');
    const bin = program('xz', (real) => `exec ${real} "$@"`);
    expect(verify(tree, relative(root, bin)).calls).toEqual([]);
    for (let i = 0; i < 5; i++) rmSync(join(tree, `m0${i}.ko.xz`));
    expect(verify(tree, bin).calls).toEqual([]);
  });
});
