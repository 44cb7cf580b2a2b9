/**
 * Sorting the tables of linked images: what linkers of the targets make (words, addends, both,
 * packed relocations), read back with readelf and objdump, and synthetic images of both classes and
 * byte orders.
 */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { ByteView } from '../src/bytes.js';
import type { ElfImage } from '../src/elf/image.js';
import { readElf } from '../src/elf/read.js';
import { writeElf } from '../src/elf/write.js';
import { ElftraceError } from '../src/errors.js';
import { functionCover, planTableSort } from '../src/sites/table-sort.js';
import { findTableRange } from '../src/sites/tables.js';
import type { SortedTable, SortOptions } from '../src/sites/table-sort.js';
import type { Endian } from '../src/units.js';
import { sampled } from './support/long.js';
import { describeWith, run, tool } from './support/tools.js';

const SEED = 20_240_612;
const folder = mkdtempSync(join(tmpdir(), 'table-sort-'));
afterAll(() => {
  rmSync(folder, { recursive: true, force: true });
});
let fileNumber = 0;
function fresh(suffix: string): string {
  fileNumber++;
  return join(folder, `${fileNumber}${suffix}`);
}

interface Range {
  readonly start: bigint;
  readonly stop: bigint;
}

function sorted(image: ElfImage, relative: number, range: Range, options: SortOptions = {}): SortedTable {
  const result = planTableSort(image, { relocationRoles: { relative } }, range, options);
  if (result.kind === 'refused') throw new Error(result.reason);
  return result;
}

function refusal(image: ElfImage, relative: number, range: Range, options: SortOptions = {}): string {
  const result = planTableSort(image, { relocationRoles: { relative } }, range, options);
  return result.kind === 'refused' ? result.reason : '';
}

function patched(image: ElfImage, plan: SortedTable): Uint8Array {
  for (const { offset, before } of plan.patches) {
    expect(image.bytes.slice(offset, offset + before.length)).toEqual(before);
  }
  return writeElf(image, { patches: plan.patches.map(({ offset, after }) => ({ offset, bytes: after })) }).bytes;
}

// --------------------------------------------------------------------------------- synthetic files

const BASE = 0x1_0000n;

/** An ET_EXEC of one segment that is the whole file; the words come last. */
function executable(is64: boolean, endian: Endian, words: readonly bigint[]): { image: ElfImage; range: Range } {
  const word = is64 ? 8 : 4;
  const header = is64 ? 64 : 52;
  const start = header + (is64 ? 56 : 32);
  const view = new ByteView(new Uint8Array(start + words.length * word), endian);
  const { bytes } = view;
  bytes.set([0x7f, 0x45, 0x4c, 0x46, is64 ? 2 : 1, endian === 'little' ? 1 : 2, 1]);
  view.insertU16(16, 2);
  view.insertU16(18, is64 ? 21 : 20);
  view.insertU32(20, 1);
  view.insertWord(24 + word, BigInt(header), word);
  const rest = 24 + 3 * word + 4;
  view.insertU16(rest, header);
  view.insertU16(rest + 2, is64 ? 56 : 32);
  view.insertU16(rest + 4, 1);
  const size = BigInt(bytes.length);
  view.insertU32(header, 1);
  if (is64) {
    view.insertU32(header + 4, 5);
    view.insertU64(header + 16, BASE);
    view.insertU64(header + 32, size);
    view.insertU64(header + 40, size);
  } else {
    view.insertU32(header + 8, Number(BASE));
    view.insertU32(header + 16, Number(size));
    view.insertU32(header + 20, Number(size));
    view.insertU32(header + 24, 5);
  }
  words.forEach((value, i) => {
    view.insertWord(start + i * word, value, word);
  });
  return { image: readElf(bytes), range: { start: BASE + BigInt(start), stop: BASE + BigInt(bytes.length) } };
}

function wordsOf(bytes: Uint8Array, endian: Endian, word: 4 | 8, position: number, count: number): bigint[] {
  const view = new ByteView(bytes, endian);
  return Array.from({ length: count }, (_, i) => view.word(position + i * word, word));
}

const byValue = (a: bigint, b: bigint): number => (a < b ? -1 : a > b ? 1 : 0);

describe('words in place', () => {
  for (const is64 of [true, false]) {
    for (const endian of ['little', 'big'] as const) {
      const word = is64 ? 8 : 4;
      test(`M-SORT-1: M-SORT-2: ${word * 8} bits, ${endian}-endian: unsigned ascending, only the table changes (property)`, () => {
        const top = (1n << BigInt(word * 8)) - 1n;
        const value = fc.oneof(fc.bigInt({ min: 0n, max: top }), fc.constant(0n), fc.bigInt({ min: 1n, max: 9n }));
        fc.assert(
          fc.property(fc.array(value, { maxLength: 40 }), (words) => {
            const { image, range } = executable(is64, endian, words);
            const plan = sorted(image, 22, range);
            const bytes = patched(image, plan);
            const position = image.bytes.length - words.length * word;
            const expected = [...words].sort(byValue);
            expect(wordsOf(bytes, endian, word, position, words.length)).toEqual(expected);
            expect(bytes.subarray(0, position)).toEqual(image.bytes.subarray(0, position));
            expect(plan.zeros).toBe(words.filter((each) => each === 0n).length);
            // sorting again changes nothing
            expect(sorted(readElf(bytes), 22, range).patches).toEqual([]);
          }),
          { seed: SEED, numRuns: 200 },
        );
      });
    }
  }

  test('M-SORT-3: duplicates are kept and reported, zeros are none', () => {
    const { image, range } = executable(true, 'little', [5n, 0n, 7n, 5n, 0n, 5n, 7n, 1n]);
    const plan = sorted(image, 22, range);
    expect(plan.duplicates).toEqual([
      { value: 5n, slots: 3 },
      { value: 7n, slots: 2 },
    ]);
    expect([plan.slots, plan.zeros]).toEqual([8, 2]);
  });

  test('M-SORT-4: zeros anywhere sort first', () => {
    const { image, range } = executable(false, 'big', [9n, 0n, 8n, 0n, 0n, 7n]);
    const bytes = patched(image, sorted(image, 22, range));
    expect(wordsOf(bytes, 'big', 4, bytes.length - 24, 6)).toEqual([0n, 0n, 0n, 7n, 8n, 9n]);
  });

  test('the patch is minimal at both ends, and a sorted table needs none', () => {
    const { image, range } = executable(true, 'little', [1n, 2n, 4n, 3n, 5n]);
    const [patch, ...others] = sorted(image, 22, range).patches;
    expect(others).toEqual([]);
    expect(patch).toMatchObject({ offset: image.bytes.length - 24 });
    expect(patch!.after.length).toBe(16);
    const empty = executable(true, 'little', []);
    expect(sorted(empty.image, 22, empty.range)).toMatchObject({ slots: 0, patches: [] });
  });

  test('M-WEAK-2: slots outside functions become 0 and sort first; a cover of nothing is refused', () => {
    const { image, range } = executable(true, 'big', [50n, 10n, 40n, 20n]);
    const plan = sorted(image, 22, range, { inFunction: (address) => address >= 20n && address < 50n });
    expect(plan).toMatchObject({ dropped: [10n, 50n], zeros: 2 });
    const bytes = patched(image, plan);
    expect(wordsOf(bytes, 'big', 8, bytes.length - 32, 4)).toEqual([0n, 0n, 20n, 40n]);
    expect(refusal(image, 22, range, { inFunction: () => false })).toContain('no slot lies in any function');
  });

  test('M-SORT-2: a size that is no multiple of the word, or bytes that are not in the file, are refused', () => {
    const { image, range } = executable(true, 'little', [2n, 1n]);
    expect(refusal(image, 22, { start: range.start, stop: range.stop - 4n })).toContain('no multiple');
    expect(refusal(image, 22, { start: range.start, stop: range.stop + 8n })).toContain('does not hold');
    expect(refusal(image, 22, { start: 0n, stop: 16n })).toContain('does not hold');
  });

  test('M-SORT-1: relocatable files are refused', () => {
    const bytes = executable(true, 'little', [2n, 1n]).image.bytes.slice();
    bytes[16] = 1;
    expect(() => planTableSort(readElf(bytes), { relocationRoles: { relative: 8 } }, { start: 0n, stop: 8n })).toThrow(
      ElftraceError,
    );
  });
});

// -------------------------------------------------------------------------------------- real files

/**
 * Functions whose sections linkers put in another order than the table has: start-up and cold code
 * comes first.
 */
function tableSource(word: string): string {
  const functions = Array.from({ length: 12 }, (_, i) => {
    const section = i % 3 === 0 ? '.text.unlikely' : i % 3 === 1 ? '.text' : '.text.startup';
    return `.section ${section},"ax"\n.globl f${i}\n.type f${i},%function\n.balign 16\nf${i}: ${'.long 0\n'.repeat(2 + (i % 4))}.size f${i},.-f${i}`;
  });
  const slots = Array.from({ length: 12 }, (_, i) => `${word} f${(i * 7) % 12}`);
  return `${functions.join('\n')}\n.section __mcount_loc,"aw"\n.balign 8\n.globl first\nfirst:\n${slots.join('\n')}\n.data\n${word} f3\n${word} __start___mcount_loc, __stop___mcount_loc\n`;
}

function link(compiler: string, source: string, flags: readonly string[]): string {
  const input = fresh('.s');
  writeFileSync(input, source);
  const output = fresh('');
  run(compiler, ['-nostdlib', '-Wl,-e,f0', ...flags, input, '-o', output]);
  return output;
}

/** `offset type value` of all dynamic relocations by readelf, in the order of the file. */
function relocationsByReadelf(path: string): { offset: bigint; type: string; value: bigint }[] {
  const rows: { offset: bigint; type: string; value: bigint }[] = [];
  for (const line of run('readelf', ['-rW', path]).toString().split('\n')) {
    const row = /^([0-9a-f]+)\s+[0-9a-f]+\s+(R_\w+)\s+([0-9a-f]+)$/.exec(line.trim());
    if (row) rows.push({ offset: BigInt(`0x${row[1]!}`), type: row[2]!, value: BigInt(`0x${row[3]!}`) });
  }
  return rows;
}

/** Words of a section as objdump -s prints its bytes. */
function wordsByObjdump(path: string, section: string, word: 4 | 8, endian: Endian): bigint[] {
  let text = '';
  for (const line of run('objdump', ['-s', '-j', section, path]).toString().split('\n')) {
    const row = /^ [0-9a-f]+ ((?:[0-9a-f]{2,8} ){1,4})/.exec(line);
    if (row) text += row[1]!.replace(/ /g, '');
  }
  const words: bigint[] = [];
  for (let at = 0; at < text.length; at += 2 * word) {
    const bytes = text.slice(at, at + 2 * word).match(/../g)!;
    words.push(BigInt(`0x${(endian === 'little' ? bytes.reverse() : bytes).join('')}`));
  }
  return words;
}

function symbolsByNm(path: string): Map<string, bigint> {
  const symbols = new Map<string, bigint>();
  for (const line of run('nm', [path]).toString().split('\n')) {
    const row = /^([0-9a-f]+) \w (\S+)$/.exec(line);
    if (row) symbols.set(row[2]!, BigInt(`0x${row[1]!}`));
  }
  return symbols;
}

interface Case {
  readonly name: string;
  readonly compiler: string;
  readonly flags: readonly string[];
  readonly relative: number;
  readonly word: 4 | 8;
  readonly endian: Endian;
  readonly values: 'words' | 'addends' | 'both';
}

const pie = ['-pie', '-fPIE', '-Wl,-z,notext'];
/**
 * So that the dynamic symbol table has more than its null symbol. (On RISC-V GNU ld relocates
 * against such symbols.)
 */
const exported = '-Wl,--export-dynamic';
const CASES: readonly Case[] = [
  ...(
    [
      ['x86-64', 'x86_64-linux-gnu-gcc', 8, 8, 'little'],
      ['ppc32', 'powerpc-linux-gnu-gcc', 22, 4, 'big'],
      ['ppc64-elfv2-be', 'powerpc64-linux-gnu-gcc', 22, 8, 'big'],
      ['ppc64-elfv2-le', 'powerpc64le-linux-gnu-gcc', 22, 8, 'little'],
      ['riscv64', 'riscv64-linux-gnu-gcc', 3, 8, 'little'],
      ['arm64', 'aarch64-linux-gnu-gcc', 1027, 8, 'little'],
    ] as const
  ).flatMap(([name, compiler, relative, word, endian]): Case[] => {
    const abi = name === 'ppc64-elfv2-be' ? ['-mabi=elfv2'] : [];
    return [
      { name, compiler, flags: [...abi, '-static', '-no-pie'], relative, word, endian, values: 'words' },
      {
        name: `${name} PIE`,
        compiler,
        flags: name === 'x86-64' ? [exported, ...pie] : [...abi, ...pie],
        relative,
        word,
        endian,
        values: 'addends',
      },
    ];
  }),
];
const lldCases: Case[] = [];
const clang = tool('clang') === null ? 'clang-14' : 'clang';
for (const [triple, relative] of [
  ['x86_64-linux-gnu', 8],
  ['aarch64-linux-gnu', 1027],
  ['powerpc64le-linux-gnu', 22],
] as const) {
  const flags = [`--target=${triple}`, '-fuse-ld=lld', exported, ...pie];
  const common = { compiler: clang, relative, word: 8, endian: 'little' } as const;
  lldCases.push(
    { ...common, name: `${triple} lld PIE`, flags, values: 'addends' },
    { ...common, name: `${triple} lld PIE, both`, flags: [...flags, '-Wl,--apply-dynamic-relocs'], values: 'both' },
    { ...common, name: `${triple} lld PIE, RELR`, flags: [...flags, '-Wl,--pack-dyn-relocs=relr'], values: 'words' },
  );
}
for (const each of sampled([...CASES, ...lldCases], 2)) {
  const { name, compiler, flags, relative, word, endian, values } = each;
  const tools = [compiler, 'readelf', 'objdump', 'nm', ...(compiler === clang ? ['ld.lld'] : [])];
  describeWith(tools, name, () => {
    test(`M-SORT-1: ${name}: slots ascend, by offset, and nothing else changes`, () => {
      const path = link(compiler, tableSource(word === 8 ? '.quad' : '.long'), flags);
      const image = readElf(new Uint8Array(readFileSync(path)));
      const range = findTableRange(image)!;
      const plan = sorted(image, relative, range);
      expect(image.relocations.some(({ form }) => form === 'relr')).toBe(name.endsWith('RELR'));
      const output = fresh('');
      writeFileSync(output, patched(image, plan));
      const symbols = symbolsByNm(path);
      const wanted = Array.from({ length: 12 }, (_, i) => symbols.get(`f${i}`)!).sort(byValue);
      const slots = {
        before: wordsByObjdump(path, '__mcount_loc', word, endian),
        after: wordsByObjdump(output, '__mcount_loc', word, endian),
      };
      const inTable = (row: { offset: bigint }): boolean => row.offset >= range.start && row.offset < range.stop;
      const before = relocationsByReadelf(path);
      const after = relocationsByReadelf(output);
      expect(plan).toMatchObject({ slots: 12, zeros: 0, dropped: [], duplicates: [] });
      if (values === 'words') expect(after).toEqual(before);
      else {
        const rows = after.filter(inTable).sort((a, b) => byValue(a.offset, b.offset));
        expect(rows.map((row) => row.value)).toEqual(wanted);
        expect(rows.map((row) => row.offset)).toEqual(wanted.map((_, i) => range.start + BigInt(i * word)));
        expect(after.filter((row) => !inTable(row))).toEqual(before.filter((row) => !inTable(row)));
        expect(after.map(({ offset, type }) => ({ offset, type }))).toEqual(
          before.map(({ offset, type }) => ({ offset, type })),
        );
      }
      const wordsAreThere = slots.before.some((value) => value !== 0n);
      if (values !== 'addends') expect(wordsAreThere).toBe(true);
      expect(slots.after).toEqual(wordsAreThere ? wanted : slots.before);
      // it was not sorted before
      expect(plan.patches.length).toBeGreaterThan(0);
      expect(sorted(readElf(new Uint8Array(readFileSync(output))), relative, range).patches).toEqual([]);
    });

    if (values !== 'words') {
      test(`M-SORT-2: ${name}: a wrong type, a symbol, a missing relocation, a word that disagrees: no change`, () => {
        const path = link(compiler, tableSource(word === 8 ? '.quad' : '.long'), flags);
        const original = readElf(new Uint8Array(readFileSync(path)));
        const range = findTableRange(original)!;
        const table = original.relocations.find((candidate) => [...candidate.offset].includes(range.start))!;
        const rowAt = (address: bigint): number => [...table.offset].indexOf(address);
        const change = (row: number, field: number, value: bigint): ElfImage => {
          const view = new ByteView(original.bytes.slice(), endian);
          view.insertWord(table.fileOffset(row) + field * word, value, word);
          return readElf(view.bytes);
        };
        const row = rowAt(range.start + BigInt(word));
        expect(refusal(change(row, 1, BigInt(relative + 1)), relative, range)).toContain('has type');
        const withSymbol = word === 8 ? (1n << 32n) | BigInt(relative) : BigInt((1 << 8) | relative);
        expect(refusal(change(row, 1, withSymbol), relative, range)).toMatch(/has symbol 1/);
        expect(refusal(change(row, 0, range.stop + 0x1000n), relative, range)).toContain('12 slots and 11 relocations');
        expect(refusal(change(row, 0, range.start), relative, range)).toContain('two relocations');
        expect(refusal(change(row, 0, range.start + 1n), relative, range)).toContain('between two slots');
        const view = new ByteView(original.bytes.slice(), endian);
        view.insertWord(original.fileOffsetOf(range.start), 0x1234n, word);
        expect(refusal(readElf(view.bytes), relative, range)).toContain('the addend');
      });

      test(`M-SORT-1: ${name}: relocations in any order: each addend goes to the slot of its offset`, () => {
        const path = link(compiler, tableSource(word === 8 ? '.quad' : '.long'), flags);
        const original = readElf(new Uint8Array(readFileSync(path)));
        const range = findTableRange(original)!;
        const table = original.relocations.find((candidate) => [...candidate.offset].includes(range.start))!;
        const rows = [...table.offset.keys()].filter(
          (r) => table.offset[r]! >= range.start && table.offset[r]! < range.stop,
        );
        const bytes = original.bytes.slice();
        // rotate the entries by five places
        rows.forEach((row, i) => {
          const from = table.fileOffset(rows[(i + 5) % rows.length]!);
          bytes.set(original.bytes.subarray(from, from + 3 * word), table.fileOffset(row));
        });
        const image = readElf(bytes);
        const output = fresh('');
        writeFileSync(output, patched(image, sorted(image, relative, range)));
        const after = relocationsByReadelf(output).filter((r) => r.offset >= range.start && r.offset < range.stop);
        const ascending = [...after].sort((a, b) => byValue(a.offset, b.offset)).map((r) => r.value);
        expect(ascending).toEqual([...ascending].sort(byValue));
        expect(new Set(ascending).size).toBe(12);
        expect(after[0]!.offset).not.toBe(range.start);
      });
    }
  });
}

describeWith(['x86_64-linux-gnu-gcc', 'nm', 'objdump'], 'weak functions', () => {
  const compile = (source: string): string => {
    const input = fresh('.c');
    const output = fresh('.o');
    writeFileSync(input, source);
    run('x86_64-linux-gnu-gcc', ['-O2', '-pg', '-mfentry', '-mrecord-mcount', '-fno-pie', '-c', input, '-o', output]);
    return output;
  };

  test('M-WEAK-2: the slot of an overridden weak function becomes 0, all others stay', () => {
    const weak = compile(
      '__attribute__((weak)) int choice(int x) { return x; } int a(int x) { return x + choice(1); } ' +
        '__attribute__((weak)) int kept(int x) { return x * 7; } static __attribute__((noinline,used)) int hidden(int x) { return x ^ 5; }',
    );
    const strong = compile(
      'int choice(int x) { return x * 3; } void __fentry__(void); int _start(void) { return 0; } ' +
        'extern char __start___mcount_loc[], __stop___mcount_loc[]; char *ends[] = { __start___mcount_loc, __stop___mcount_loc };',
    );
    const hook = fresh('.s');
    writeFileSync(hook, '.globl __fentry__\n__fentry__: ret\n');
    const output = fresh('');
    run('x86_64-linux-gnu-gcc', ['-nostdlib', '-static', '-no-pie', weak, strong, hook, '-o', output]);
    const image = readElf(new Uint8Array(readFileSync(output)));
    const plan = sorted(image, 8, findTableRange(image)!, { inFunction: functionCover(image) });
    const nm = run('nm', ['-S', output]).toString().split('\n');
    const functions = nm.flatMap((line) => {
      const row = /^([0-9a-f]+) ([0-9a-f]+) [tTW] \S+$/.exec(line);
      return row ? [{ start: BigInt(`0x${row[1]!}`), size: BigInt(`0x${row[2]!}`) }] : [];
    });
    const covered = (address: bigint): boolean =>
      functions.some(({ start, size }) => address >= start && address < start + size);
    const before = wordsByObjdump(output, '__mcount_loc', 8, 'little');
    const expected = before.map((value) => (covered(value) ? value : 0n)).sort(byValue);
    expect(expected.filter((value) => value === 0n).length).toBe(1);
    const written = fresh('');
    writeFileSync(written, patched(image, plan));
    expect(wordsByObjdump(written, '__mcount_loc', 8, 'little')).toEqual(expected);
    expect(plan.dropped).toEqual(before.filter((value) => !covered(value)));
  });

  test('M-WEAK-3: containment is half open; functions of size 0, weak data and indirect functions cover nothing', () => {
    const path = link(
      'x86_64-linux-gnu-gcc',
      [
        '.text',
        '.globl f0, zero, wobj, ifn, wfun, plain',
        '.weak wobj, wfun',
        '.type f0,@function',
        'f0: .zero 16',
        '.size f0,16',
        '.zero 16',
        '.type zero,@function',
        'zero: .zero 16',
        '.type wobj,@object',
        'wobj: .zero 16',
        '.size wobj,16',
        '.type ifn,@gnu_indirect_function',
        'ifn: .zero 16',
        '.size ifn,16',
        '.type wfun,@function',
        'wfun: .zero 16',
        '.size wfun,16',
        'plain: .zero 16',
        '.size plain,16',
        '',
      ].join('\n'),
      ['-static', '-no-pie'],
    );
    const image = readElf(new Uint8Array(readFileSync(path)));
    const f0 = symbolsByNm(path).get('f0')!;
    const cover = functionCover(image);
    const at = (delta: number): boolean => cover(f0 + BigInt(delta));
    expect([-1, 0, 15, 16, 31].map(at)).toEqual([false, true, true, false, false]);
    // zero, wobj, ifn; then wfun and plain
    expect([32, 48, 64].map(at)).toEqual([false, false, false]);
    expect([80, 95, 96, 111, 112].map(at)).toEqual([true, true, true, true, false]);
    // slots in front of functions (arm64 literals)
    const before = functionCover(image, 8n);
    expect([-9, -8, -1, 72, 71].map((delta) => before(f0 + BigInt(delta)))).toEqual([false, true, true, true, false]);
  });

  test('M-SORT-1: without delimiting symbols there is no range', () => {
    const path = link('x86_64-linux-gnu-gcc', '.globl f0\nf0: ret\n', ['-static', '-no-pie']);
    expect(findTableRange(readElf(new Uint8Array(readFileSync(path))))).toBeNull();
  });
});
