/**
 * `verify --expect kernel|user`: files of the other kind fail with a reason, in every format. What
 * a compiler, a linker and Linux's own build made is told apart by what only one of them has.
 */
import { copyFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { archOf } from '../src/arches.js';
import { readElf } from '../src/elf/read.js';
import { originOf } from '../src/program/origin.js';
import { load } from '../src/program/program.js';
import { warmElftrace, type CliResult } from './support/cli.js';
import { builtSamples, root } from './support/pipeline.js';
import { describeWith, run } from './support/tools.js';

const folder = mkdtempSync(join(tmpdir(), 'expect-'));
afterAll(() => {
  rmSync(folder, { recursive: true, force: true });
});
const at = (name: string): string => join(folder, name);
const verify = (...args: string[]): CliResult => warmElftrace(['verify', ...args], { cwd: folder });
const originOfFile = (path: string): readonly [string, string] | null => {
  const image = readElf(new Uint8Array(readFileSync(path)));
  const origin = originOf(load(image, archOf(image.header)));
  return origin && [origin.kind, origin.reason];
};
const sample = (name: string): string => join(builtSamples, name);
const tree = (name: string, ...files: string[]): string => {
  mkdirSync(at(name), { recursive: true });
  for (const file of files) copyFileSync(file, join(at(name), file.split('/').at(-1)!));
  return name;
};

describe('what the samples are of', () => {
  test.each(['x86-64', 'ppc32', 'ppc64-elfv1', 'ppc64-elfv2-le', 'riscv64', 'arm64'])('%s', (target) => {
    const plain = target === 'x86-64' ? 'fentry' : target === 'ppc64-elfv2-le' ? 'mprofile' : 'mcount';
    expect(originOfFile(sample(`${target}/module-${plain}.ko`))).toEqual(['kernel', 'is a kernel module']);
    const program = ['user', 'is linked to addresses of user space'];
    expect(originOfFile(sample(`${target}/program-${plain}`))).toEqual(program);
  });

  test('an image of load is of what it was loaded as', () => {
    const parts = ['core.o', 'far-one.ko'].map((each) => sample(`arm64/${each}`));
    for (const base of ['user', 'kernel']) {
      const loaded = at(`loaded-${base}`);
      expect(warmElftrace(['load', ...parts, '--base', base, '-o', loaded]).stderr).toBe('');
      expect(originOfFile(loaded)).toEqual([base, `was loaded as a ${base === 'user' ? 'program' : 'kernel'}`]);
    }
  });
});

describeWith(['gcc'], 'compiled', () => {
  const gcc = (name: string, text: string, ...flags: string[]): string => {
    writeFileSync(at('in.c'), text);
    run('gcc', ['-O1', ...flags, '-o', at(name), at('in.c')]);
    return at(name);
  };
  const main = 'int main(void) { return 0; }\n';
  const noLibrary = ['-nostdlib', '-static', '-Wl,--build-id=none'];
  beforeAll(() => {
    gcc('program', main);
    gcc('sites', 'int f(void) { return 1; }\n', '-c', '-pg', '-mfentry', '-mrecord-mcount', '-fno-pie');
    gcc('data', 'const int table[] = {1, 2};\n', '-c');
    gcc('plain.o', 'int f(void) { return 1; }\n', '-c');
    tree('kernel', sample('x86-64/module-fentry.ko'), sample('x86-64/module-nop.ko'));
    tree('mixed', sample('x86-64/module-fentry.ko'), at('program'));
    tree('objects', at('plain.o'), sample('x86-64/module-fentry.ko'));
    tree('users', sample('x86-64/program-fentry'), at('program'));
  });

  test('marks of either, one by one', () => {
    const note = '__asm__(".section .note.x,\\"a\\",@note; .long 6,4,256; .asciz \\"Linux\\"; .balign 4; .long 0; .text");';
    const section = (name: string): string => `__attribute__((section("${name}"))) int x = 1;\n`;
    const start = 'void _start(void) {}\n';
    const cases: readonly (readonly [string, string, string[], readonly [string, RegExp] | null])[] = [
      ['pie', main, [], ['user', /PT_INTERP/]],
      ['static', main, ['-static'], ['user', /ABI tag/]],
      ['shared', 'int f(void) { return 1; }', ['-shared', '-fPIC', '-nostdlib'], ['user', /PT_DYNAMIC/]],
      ['tls', '__thread int x; int f(void) { return x; }', ['-c'], ['user', /thread-local/]],
      ['bare', start, noLibrary, ['user', /addresses of user/]],
      ['high', start, [...noLibrary, '-no-pie', '-fno-pie', '-mcmodel=kernel', '-Wl,-Ttext-segment=0xffffffff81000000'], ['kernel', /addresses of the kernel/]],
      ['note', `${note}\n`, ['-c'], ['kernel', /note of the kernel/]],
      ['vdso', `${note}\n`, ['-shared', '-fPIC', '-nostdlib'], ['kernel', /note of the kernel/]],
      ['symtab', section('__ksymtab'), ['-c'], ['kernel', /__ksymtab/]],
      ['object', 'int f(void) { return 1; }', ['-c'], null],
    ];
    for (const [name, text, flags, wanted] of cases) {
      const found = originOfFile(gcc(name, text, ...flags));
      const expected = wanted && [wanted[0], expect.stringMatching(wanted[1])];
      expect([name, found]).toEqual([name, expected]);
    }
  }); // prettier-ignore

  test('a tree of the kind is good; without --expect a mixed one is, too', () => {
    expect(verify('--expect', 'kernel', 'kernel')).toMatchObject({ status: 0, stderr: '' });
    expect(verify('mixed').status).toBe(0);
  });

  test('a program among modules fails, with sites and without, named or in a tree', () => {
    for (const args of [['mixed'], ['mixed', '--jobs', '2'], ['program'], [sample('x86-64/program-fentry')]]) {
      const { status, stderr } = verify('--expect', 'kernel', ...args);
      expect([args, status]).toEqual([args, 1]);
      expect(stderr).toMatch(/: error: expected an image of the kernel: this one is of user space, for it (names a dynamic linker|is linked)/);
      expect(stderr.trim().split('\n')).toHaveLength(1);
    }
  }); // prettier-ignore

  test('a module among programs fails; the program without sites is usual in a tree', () => {
    expect(verify('--expect', 'user', 'users')).toMatchObject({ status: 0, stderr: '' });
    const { status, stderr } = verify('--expect', 'user', 'users', 'kernel');
    expect([status, stderr.match(/is a kernel module/g)?.length]).toEqual([1, 2]);
  });

  test('an object that may be either: taken with sites, and said; without it fails', () => {
    for (const kind of ['kernel', 'user']) {
      const good = verify('--expect', kind, 'sites');
      expect([good.status, good.stdout]).toEqual([0, expect.stringMatching(/nothing tells what this one is of; it may/)]);
      const bad = verify('--expect', kind, 'plain.o');
      expect([bad.status, bad.stderr]).toEqual([1, expect.stringMatching(/nothing tells .*its code has no patch site/)]);
      const data = verify('--expect', kind, 'data', 'sites');
      expect([data.status, data.stdout.match(/it may be either/g)?.length]).toEqual([0, 2]);
    }
    expect(verify('--expect', 'kernel', 'objects').status).toBe(1);
    expect(verify('objects').status).toBe(0);
  }); // prettier-ignore

  test('members of an archive are held against it, too', () => {
    run('ar', ['rcs', at('mixed.a'), sample('x86-64/module-fentry.ko'), at('program')]);
    const { status, stderr } = verify('--expect', 'kernel', 'mixed.a');
    expect([status, stderr]).toEqual([1, expect.stringMatching(/^mixed\.a\(program\): error: expected/)]);
  });

  test.each(['json', 'ndjson', 'sarif', 'junit', 'ktap', 'github'])('%s says it', (format) => {
    const { status, stdout } = verify('--expect', 'kernel', '--format', format, 'mixed');
    expect([status, stdout]).toEqual([1, expect.stringContaining('this one is of user space')]);
    expect(verify('--format', format, 'mixed').stdout.replace(/"id":"unexpected-kind".*/, '')).not.toContain('unexpected');
    if (format === 'sarif') {
      const { runs } = JSON.parse(stdout) as { runs: { results: { ruleId: string }[] }[] };
      expect(runs[0]!.results.map(({ ruleId }) => ruleId)).toEqual(['unexpected-kind']);
    }
    if (format === 'junit') expect(stdout.match(/<failure/g)).toHaveLength(1);
    if (format === 'ktap') expect(stdout).toMatch(/^ +not ok \d+ unexpected-kind$/m);
    if (format === 'github') expect(stdout).toMatch(/^::error file=mixed\/program,title=unexpected-kind::/m);
    if (!format.includes('json')) return;
    const schema = format === 'json' ? 'verify' : 'verify-ndjson';
    const validate = new Ajv2020({ strict: true, strictTypes: false, strictRequired: false }).compile(
      JSON.parse(readFileSync(join(root, `schemas/${schema}.schema.json`), 'utf8')) as object,
    );
    const lines = stdout.trim().split('\n').map((line) => JSON.parse(line) as { file?: string; unexpected?: object });
    for (const line of lines) expect([line, validate(line)]).toEqual([line, true]);
    const told = lines.flatMap(({ file, unexpected }) => (unexpected === undefined ? [] : [[file, unexpected]]));
    expect(told).toEqual([['mixed/program', expect.objectContaining({ expected: 'kernel', found: 'user' })]]);
  }); // prettier-ignore
});

test('another word is refused', () => {
  expect(verify('--expect', 'kernels', folder)).toMatchObject({ status: 2, stdout: '' });
});
