/**
 * Dotted names of ELFv1 and the table of calls on PowerPC, on what GCC makes: a function name
 * refers to a descriptor, the code has the dot (T-PPC-4, T-PPC-5), and the table producer takes
 * `.?_mcount` (T-PPC-24).
 */
import { spawnSync } from './support/spawn.js';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, test } from '@jest/globals';
import { warmElftrace as elftrace } from './support/cli.js';
import { openBytes } from './support/pipeline.js';
import { describeWith } from './support/tools.js';

const folder = mkdtempSync(join(tmpdir(), 'elftrace-names-'));
afterAll(() => {
  rmSync(folder, { recursive: true });
});

const C =
  'int foo(int x) { return x * 3; } int bar(int x) { return foo(x) + 1; } static int baz(int x) { return bar(x) - 2; } int (*p)(int) = baz;';

function compile(gcc: string, name: string, flags: readonly string[]): string {
  const source = join(folder, 'names.c');
  writeFileSync(source, C);
  const path = join(folder, name);
  const args = ['-O2', '-fno-inline', '-ffreestanding', '-pg', ...flags, '-c', source, '-o', path];
  const { status, stderr } = spawnSync(gcc, args, { encoding: 'utf8' });
  expect([status, stderr]).toEqual([0, '']);
  return path;
}

describeWith(['powerpc64-linux-gnu-gcc', 'powerpc64-linux-gnu-nm'], 'dotted names', () => {
  // The compiler of 2008 wrote both symbols; today's does with this option.
  const dotted = (): string => compile('powerpc64-linux-gnu-gcc', 'dotted.o', ['-mcall-aixdesc']);

  test('T-PPC-4 foo is a descriptor in .opd, .foo the code', () => {
    const path = dotted();
    const { stdout } = spawnSync('powerpc64-linux-gnu-nm', [path], { encoding: 'utf8' });
    const kinds = new Map(
      stdout
        .trim()
        .split('\n')
        .map((line) => [line.slice(19), line[17]]),
    );
    expect([kinds.get('foo'), kinds.get('.foo')]).toEqual(['D', 'T']);
    const { program } = openBytes(new Uint8Array(readFileSync(path)));
    const { symbols, image, arch } = program;
    const section = (name: string): string => image.sections[symbols.sectionIndex[symbols.find(name)]!]!.name;
    expect([section('foo'), section('.foo')]).toEqual(['.opd', '.text']);
    expect(arch.abi.codePlace(image, symbols.find('foo'))?.value).toBe(symbols.value[symbols.find('.foo')]);
  });

  test('T-PPC-5 the list shows dotted names, and filters match with and without the dot', () => {
    const path = dotted();
    expect(elftrace(['list', path]).stdout.trim().split('\n').sort()).toEqual(['.bar', '.baz', '.foo']);
    for (const word of ['foo', '.foo', 'f*', '.f*']) expect(elftrace(['list', path, '-l', word]).stdout).toBe('.foo\n');
    expect(elftrace(['list', path, '-l', '.nobody']).status).toBe(2);
    // Today's compiler leaves the dot out, and so does the list.
    const plain = compile('powerpc64-linux-gnu-gcc', 'plain.o', []);
    expect(elftrace(['list', plain]).stdout.trim().split('\n').sort()).toEqual(['bar', 'baz', 'foo']);
    expect(elftrace(['list', plain, '-l', '.foo']).status).toBe(2);
  });
});

const makers: readonly [name: string, gcc: string, flags: readonly string[], wordBytes: number][] = [
  ['32 bits', 'powerpc-linux-gnu-gcc', [], 4],
  ['ELFv1 with dots', 'powerpc64-linux-gnu-gcc', ['-mcall-aixdesc'], 8],
  ['ELFv1', 'powerpc64-linux-gnu-gcc', [], 8],
  ['ELFv2, little-endian', 'powerpc64le-linux-gnu-gcc', ['-mprofile-kernel'], 8],
];

describeWith([...new Set(makers.map(([, gcc]) => gcc)), 'readelf'], 'the table', () => {
  test.each(makers)(
    'T-PPC-24 %s: calls of .?_mcount are recorded in words of the class',
    (name, gcc, flags, wordBytes) => {
      const path = compile(gcc, `${name.replaceAll(/\W/g, '')}.o`, flags);
      const out = `${path}.recorded`;
      expect(elftrace(['mcount', path, '-o', out]).status).toBe(0);
      const { stdout } = spawnSync('readelf', ['-SW', out], { encoding: 'utf8' });
      const line = stdout.split('\n').find((each) => / __mcount_loc /.test(each)) ?? '';
      const size = /PROGBITS\s+\S+\s+\S+\s+(\S+)/.exec(line)?.[1] ?? '0';
      expect(Number.parseInt(size, 16)).toBe(3 * wordBytes);
      const relocations = spawnSync('readelf', ['-rW', out], { encoding: 'utf8' }).stdout;
      const rows = relocations.split(/^Relocation section '\.rela__mcount_loc'/m)[1]!.split(/^Relocation section/m)[0]!;
      const type = wordBytes === 4 ? 'R_PPC_ADDR32' : 'R_PPC64_ADDR64';
      expect(rows.split('\n').filter((each) => each.includes(type))).toHaveLength(3);
    },
  );
});
