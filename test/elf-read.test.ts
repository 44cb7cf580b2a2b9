/**
 * The reader against GNU readelf on files of many machines, and on shapes that no compiler makes.
 */
import { describe, expect, test } from '@jest/globals';
import { readFileSync } from 'node:fs';
import * as C from '../src/elf/constants.js';
import type { ElfImage, SymbolTable } from '../src/elf/image.js';
import { readElf } from '../src/elf/read.js';
import {
  ALL_SHAPES,
  buildElf,
  note,
  relocationRows,
  shapeName,
  smallObject,
  stringTable,
  symbolRows,
  words,
  type Shape,
} from './support/elf-builder.js';
import { compiledFiles, make } from './support/elf-compile.js';
import {
  readelfHeader,
  readelfRelocations,
  readelfSections,
  readelfSymbols,
  type ReadelfSymbol,
} from './support/readelf.js';
import { describeWith, run } from './support/tools.js';
import { touchElf } from './support/touch-elf.js';
import { fastest } from './support/timing.js';

const LITTLE64: Shape = { is64: true, endian: 'little' };

const TYPES = ['NOTYPE', 'OBJECT', 'FUNC', 'SECTION', 'FILE', 'COMMON', 'TLS'];
const BINDINGS = ['LOCAL', 'GLOBAL', 'WEAK'];

function sectionText(index: number): string {
  if (index === 0) return 'UND';
  if (index === C.SHN_ABS_RESOLVED) return 'ABS';
  if (index === C.SHN_COMMON_RESOLVED) return 'COM';
  return String(index);
}

/**
 * Rows of a table in readelf's words. Section symbols have no name of their own; readelf shows the
 * section's.
 */
function symbolsAsReadelf(image: ElfImage, table: SymbolTable): readonly ReadelfSymbol[] {
  const rows: ReadelfSymbol[] = [];
  for (let i = 0; i < table.count; i++) {
    const type = table.info[i]! & 15;
    const binding = table.info[i]! >>> 4;
    const name = table.name(i);
    rows.push({
      value: table.value[i]!,
      size: table.size[i]!,
      type: TYPES[type] ?? (type === 10 ? 'IFUNC' : String(type)),
      binding: BINDINGS[binding] ?? String(binding),
      section: sectionText(table.sectionIndex[i]!),
      name: type === C.STT_SECTION && name === '' ? (image.sections[table.sectionIndex[i]!]?.name ?? '') : name,
    });
  }
  return rows;
}

function flagLetters(flags: bigint): string {
  const letters: readonly (readonly [bigint, string])[] = [
    [C.SHF_WRITE, 'W'],
    [C.SHF_ALLOC, 'A'],
    [C.SHF_EXECINSTR, 'X'],
    [C.SHF_MERGE, 'M'],
    [C.SHF_STRINGS, 'S'],
    [C.SHF_INFO_LINK, 'I'],
    [C.SHF_LINK_ORDER, 'L'],
    [C.SHF_GROUP, 'G'],
    [C.SHF_TLS, 'T'],
    [C.SHF_COMPRESSED, 'C'],
  ];
  return letters
    .filter(([bit]) => (flags & bit) !== 0n)
    .map(([, letter]) => letter)
    .join('');
}

describeWith(['readelf'], 'reader against readelf', () => {
  const files = compiledFiles();

  process.stdout.write(`elf-read: ${files.length} compiled files\n`);

  test.each(files.map((file) => [file.name, file] as const))('%s: header and sections', (_name, { path, bytes }) => {
    const image = readElf(bytes);
    const header = readelfHeader(path);
    expect(header.get('Class')).toBe(image.header.is64 ? 'ELF64' : 'ELF32');
    expect(header.get('Data')).toContain(`${image.header.endian} endian`);
    expect(BigInt(header.get('Entry point address')!)).toBe(image.header.entry);
    expect(parseInt(header.get('Flags')!, 16)).toBe(image.header.flags);
    expect(parseInt(header.get('Number of section headers')!)).toBe(image.sections.length);
    expect(parseInt(header.get('Number of program headers')!)).toBe(image.segments.length);
    const sections = image.sections.map((section) => ({
      index: section.index,
      name: section.name,
      address: section.address,
      offset: section.offset,
      size: section.size,
      entrySize: Number(section.entrySize),
      flags: flagLetters(section.flags),
      link: section.link,
      info: section.info,
      align: Number(section.alignBytes),
    }));
    // Letters that readelf adds for flags of a machine or of the system are not ours to compare.
    const expected = readelfSections(path).map((section) => ({
      ...section,
      flags: [...'WAXMSILGTC'].filter((letter) => section.flags.includes(letter)).join(''),
    }));
    expect(sections).toEqual(expected);
    expect(image.elfSize).toBe(bytes.length);
  });

  test.each(files.map((file) => [file.name, file] as const))('%s: symbols and relocations', (name, { path, bytes }) => {
    const image = readElf(bytes);
    const tables = name.includes('without sections') ? new Map<string, ReadelfSymbol[]>() : readelfSymbols(path);
    for (const [section, expected] of tables) {
      const table = section === '.dynsym' ? image.dynamicSymbols : image.symbols;
      expect(symbolsAsReadelf(image, table)).toEqual(expected);
    }
    if (image.sections.length === 0) return;
    const expected = readelfRelocations(path);
    expect(image.relocations.filter((table) => table.count > 0).length).toBe(expected.size);
    for (const table of image.relocations) {
      if (table.count === 0) continue;
      const rows = [];
      for (let row = 0; row < table.count; row++) {
        const info = image.header.is64
          ? (BigInt(table.symbol[row]!) << 32n) | BigInt(table.type[row]!)
          : BigInt(table.symbol[row]! * 256 + table.type[row]!);
        const packed = table.form === 'relr';
        rows.push({
          offset: table.offset[row]!,
          info: packed ? 0n : info,
          addend: table.form === 'rela' ? table.addend[row]! : null,
        });
      }
      expect(rows).toEqual(expected.get(image.sections[table.section]!.offset));
    }
  });

  test('without section headers: symbols and relocations come from the dynamic section', () => {
    const stripped = files.filter((file) => file.name.endsWith(' without sections'));
    for (const { name, bytes } of stripped) {
      const without = readElf(bytes);
      const whole = files.find((file) => file.name === name.replace(' without sections', ''))!;
      const withSections = readElf(whole.bytes);
      expect(without.sections).toEqual([]);
      expect(without.dynamicSymbols.section).toBe(-1);
      const [a, b] = [without.dynamicSymbols, withSections.dynamicSymbols];
      // A GNU hash table counts no undefined symbols; those that relocations use are there all the
      // same.
      expect(a.count).toBeLessThanOrEqual(b.count);
      for (let i = 0; i < a.count; i++) {
        expect([a.name(i), a.value[i], a.size[i], a.info[i], a.sectionIndex[i]]).toEqual([
          b.name(i),
          b.value[i],
          b.size[i],
          b.info[i],
          b.sectionIndex[i],
        ]);
      }
      if (!name.includes('gnu')) expect(without.symbols).toBe(without.dynamicSymbols);
      const rows = (image: ElfImage): string[] =>
        image.relocations
          .filter((table) => table.section < 0 || (image.sections[table.section]!.flags & C.SHF_ALLOC) !== 0n)
          .flatMap((table) =>
            Array.from(table.offset, (offset, i) => `${offset} ${table.type[i]} ${table.symbol[i]} ${table.addend[i]}`),
          )
          .sort();
      expect(rows(without)).toEqual(rows(withSections));
      expect(withSections.relocations.every((table) => table.section >= 0)).toBe(true);
      expect(without.notes().map((each) => [each.owner, each.type])).toEqual(
        withSections.notes().map((each) => [each.owner, each.type]),
      );
    }
  });

  test('sections, segments and addresses answer alike', () => {
    for (const { name, bytes } of files) {
      const image = readElf(bytes);
      if (image.header.type === C.ET_REL) {
        expect(image.fileOffsetOf(0n)).toBe(-1);
        expect(image.sectionAt(0n)).toBeUndefined();
        continue;
      }
      for (const section of image.sections) {
        const allocated = (section.flags & C.SHF_ALLOC) !== 0n && section.size > 0;
        if (!allocated || (section.flags & C.SHF_TLS) !== 0n) continue;
        const last = section.address + BigInt(section.size) - 1n;
        expect([name, image.sectionAt(section.address)?.name]).toEqual([name, section.name]);
        expect([name, image.sectionAt(last)?.name]).toEqual([name, section.name]);
        if (section.fileSize === 0) continue;
        expect(image.fileOffsetOf(section.address)).toBe(section.offset);
        expect(image.fileOffsetOf(last)).toBe(section.offset + section.size - 1);
        expect(image.addressOf(section.offset)).toBe(section.address);
      }
      expect(image.fileOffsetOf(0x7fff_ffff_0000n)).toBe(-1);
      expect(image.addressOf(-1)).toBeUndefined();
      expect(image.addressOf(bytes.length + 5)).toBeUndefined();
    }
  });

  test('C++ groups name their signature and members', () => {
    const groups = files.filter((file) => file.name.endsWith('groups'));
    for (const { path, bytes } of groups) {
      const text = run('readelf', ['-gW', path]).toString();
      const expected = [
        ...text.matchAll(/^COMDAT group section \[\s*(\d+)\] `\.group' \[(.*)\] contains (\d+) sections:/gm),
      ].map((match) => [Number(match[1]), match[2], Number(match[3])]);
      expect(expected.length).toBeGreaterThan(1);
      expect(
        readElf(bytes)
          .groups()
          .map((group) => [group.section, group.signature, group.members.length]),
      ).toEqual(expected);
      expect(
        readElf(bytes)
          .groups()
          .every((group) => group.comdat),
      ).toBe(true);
    }
  });

  test('notes: owner, type and build id', () => {
    for (const { path, bytes } of files.filter((file) => file.name.endsWith(' shared'))) {
      const id = /Build ID: ([0-9a-f]+)/.exec(run('readelf', ['-nW', path]).toString())?.[1];
      const found = readElf(bytes)
        .notes()
        .find((each) => each.owner === 'GNU' && each.type === 3);
      expect(Buffer.from(found!.descriptor).toString('hex')).toBe(id);
      expect(Buffer.from(bytes.subarray(found!.offset, found!.offset + 4)).toString('hex')).toBe(id!.slice(0, 8));
    }
  });
});

describeWith(['objcopy', 'strip'], 'files that were stripped', () => {
  const files = compiledFiles();
  const tools: readonly (readonly [string, readonly string[]])[] = [
    ['debug part by objcopy', ['objcopy', '--only-keep-debug', '{in}', '{out}']],
    ['debug part by llvm-objcopy', ['llvm-objcopy-14', '--only-keep-debug', '{in}', '{out}']],
    ['stripped', ['strip', '-s', '{in}', '-o', '{out}']],
    ['stripped by llvm', ['llvm-strip-14', '-s', '{in}', '-o', '{out}']],
    ['without some sections', ['objcopy', '-R', '.note.gnu.build-id', '-R', '.comment', '{in}', '{out}']],
  ];
  test.each(tools)('%s: read in full', (name, command) => {
    let made = 0;
    for (const { name: file, bytes } of files.filter((each) => each.name.startsWith('x86-64'))) {
      const path = make(`${name}-${file}`.replace(/\W+/g, '-'), command, bytes, '.elf');
      if (path === null) continue;
      made++;
      touchElf(new Uint8Array(readFileSync(path)));
    }
    process.stdout.write(`elf-read: ${made} files, ${name}\n`);
  });

  test('program headers of a debug file may name bytes that are gone; others may not', () => {
    const build = (type: number): Uint8Array =>
      buildElf({
        ...LITTLE64,
        type: C.ET_EXEC,
        sections: [
          { name: '.text', type, flags: 6, address: 0x1000n, size: 64n, contents: new Uint8Array(type === 8 ? 0 : 64) },
        ],
        segments: [{ type: C.PT_LOAD, offset: 0n, address: 0x1000n, fileSize: 0x1_0000n }],
      });
    const image = readElf(build(C.SHT_NOBITS));
    expect(image.remarks[0]).toBe('program header 0 names bytes that this debug file does not have');
    expect(image.segments[0]!.fileSize).toBe(image.bytes.length);
    expect(() => readElf(build(C.SHT_PROGBITS))).toThrow('program header 0: needs 65536 bytes at 0x0');
  });
});

describeWith(['readelf', 'as'], 'more sections than 16 bits count', () => {
  test('70,000 sections: extended numbers of sections and symbols', () => {
    const lines: string[] = [];
    for (let i = 0; i < 70_000; i++) lines.push(`.section .t.${i},"ax",@progbits`, `f${i}: .byte 0x90`, `.globl f${i}`);
    const path = make('many-sections', ['as', '{in}', '-o', '{out}'], lines.join('\n') + '\n', '.s');
    const image = readElf(new Uint8Array(readFileSync(path!)));
    const count = /Number of section headers:\s+0 \((\d+)\)/.exec(run('readelf', ['-hW', path!]).toString())?.[1];
    expect(image.sections.length).toBe(Number(count));
    expect(image.header.shstrndx).toBeGreaterThan(0xff00);
    for (const i of [
      0, 1, 65_270, 65_275, 65_276, 65_277, 65_278, 65_279, 65_280, 65_530, 65_534, 65_535, 65_536, 69_999,
    ]) {
      const symbol = image.symbols.find(`f${i}`);
      expect(image.sections[image.symbols.sectionIndex[symbol]!]!.name).toBe(`.t.${i}`);
    }
  });
});

describe('shapes built by the test', () => {
  test.each(ALL_SHAPES.map((shape) => [shapeName(shape), shape] as const))(
    '%s: every part of an object',
    (_name, shape) => {
      const bytes = smallObject(shape, 62, new Uint8Array([9, 9, 9]));
      const image = readElf(bytes);
      expect(image.elfSize).toBe(bytes.length - 3);
      expect(image.section('.bss')).toMatchObject({ size: 0x1_0000, fileSize: 0 });
      expect(image.contents(image.section('.bss')!).length).toBe(0);
      expect(image.symbols.find('second')).toBe(2);
      expect(image.symbols.find('secon')).toBe(-1);
      expect(image.symbols.find('')).toBe(0);
      expect(image.symbols.nameStartsWith(6, '__pfx_')).toBe(true);
      const [rela, rel] = image.relocations;
      expect(rela!.form).toBe('rela');
      expect([...rela!.addend]).toEqual([-4n, -4n]);
      expect(rela!.fileOffset(1) - rela!.fileOffset(0)).toBe(shape.is64 ? 24 : 12);
      expect(() => rela!.fileOffset(2)).toThrow('no row 2');
      expect(rel!.form).toBe('rel');
      expect([...rel!.addend]).toEqual([0n]);
      expect(image.relocationsOf(image.section('.text')!)).toEqual([rela]);
      expect(image.notes()).toMatchObject([
        { owner: 'elftrace', type: 7, descriptor: new Uint8Array([1, 2, 3, 4, 5]) },
      ]);
      expect(image.groups()).toEqual([{ section: 6, comdat: true, signature: 'first', members: [1, 2] }]);
    },
  );

  test('64-bit values stay exact', () => {
    const names = stringTable(['high']);
    const bytes = buildElf({
      ...LITTLE64,
      type: C.ET_EXEC,
      sections: [
        { name: '.text', type: 1, flags: 6, address: 0xffff_ffff_8100_0001n, contents: new Uint8Array(16) },
        {
          name: '.symtab',
          type: 2,
          link: 3,
          info: 1,
          entrySize: 24,
          contents: symbolRows(LITTLE64, [
            {
              name: names.offsets[0]!,
              value: 0xffff_ffff_8100_0001n,
              size: 0x20_0000_0000_0001n,
              info: 0x12,
              section: 1,
            },
          ]),
        },
        { name: '.strtab', type: 3, contents: names.bytes },
      ],
    });
    const image = readElf(bytes);
    expect(image.symbols.value[1]).toBe(0xffff_ffff_8100_0001n);
    expect(image.symbols.size[1]).toBe(0x20_0000_0000_0001n);
    // No program headers: addresses by the sections.
    expect(image.fileOffsetOf(0xffff_ffff_8100_0002n)).toBe(image.section('.text')!.offset + 1);
    expect(image.fileOffsetOf(0xffff_ffff_8100_0000n)).toBe(-1);
  });

  /** A file with one packed table of relative relocations, in front of data at 0x1000. */
  const relrFile = (shape: (typeof ALL_SHAPES)[number], contents: readonly bigint[]): Uint8Array =>
    buildElf({
      ...shape,
      type: C.ET_DYN,
      sections: [
        {
          ...{ name: '.relr.dyn', type: C.SHT_RELR, flags: 2, address: 0x100n },
          ...{ entrySize: shape.is64 ? 8 : 4, contents: words(shape, [...contents]) },
        },
        { name: '.data', type: 1, flags: 3, address: 0x1000n, contents: new Uint8Array(0x400) },
      ],
    });

  test('M-TAB-2 SHT_RELR: addresses and bitmaps, both word sizes', () => {
    for (const shape of ALL_SHAPES) {
      const bits = shape.is64 ? 64 : 32;
      const word = shape.is64 ? 8n : 4n;
      const high = 1n << BigInt(bits - 1);
      // 0x1000; the first and third word behind it; the last word of the second bitmap's reach; a
      // new address.
      const [table] = readElf(relrFile(shape, [0x1000n, 0b1011n, high | 1n, 0x8000n])).relocations;
      const span = word * BigInt(bits - 1);
      expect([...table!.offset]).toEqual([
        0x1000n,
        0x1000n + word,
        0x1000n + 3n * word,
        0x1000n + word + span + word * BigInt(bits - 2),
        0x8000n,
      ]);
      expect(new Set(table!.type)).toEqual(new Set([C.RELR_RELATIVE]));
      expect(table!.fileOffset(0)).toBe(-1);
    }
  });

  test('M-TAB-2 SHT_RELR: bitmaps without a bit may stand in front of the first address, others not', () => {
    for (const shape of ALL_SHAPES) {
      const offsets = (...contents: bigint[]): bigint[] => [
        ...readElf(relrFile(shape, contents)).relocations[0]!.offset,
      ];
      // What remains of a table whose places were all emptied; loaders relocate nothing for it.
      expect(offsets(1n, 1n)).toEqual([]);
      expect(offsets(1n, 0x1000n)).toEqual([0x1000n]);
      expect(() => offsets(3n, 0x1000n)).toThrow(/begins with a bitmap/);
    }
  });

  test('notes of a file without section headers come from PT_NOTE; 8-byte alignment', () => {
    const contents = note(LITTLE64, 'GNU', 5, new Uint8Array(16));
    const built = buildElf({
      ...LITTLE64,
      type: C.ET_EXEC,
      sections: [{ name: '.n', type: 7, align: 8, contents }],
      segments: [{ type: C.PT_NOTE, section: 1, align: 8n }],
    });
    built.fill(0, 40, 48);
    built.fill(0, 60, 64);
    const image = readElf(built);
    expect(image.sections).toEqual([]);
    expect(image.notes()).toMatchObject([{ owner: 'GNU', type: 5, section: 0 }]);
    expect(image.remarks).toContain('no section headers');
  });

  test('overlaps are remarks', () => {
    const built = buildElf({
      ...LITTLE64,
      type: C.ET_EXEC,
      sections: [{ name: '.a', type: 1, contents: new Uint8Array(16) }],
      segments: [
        { type: C.PT_LOAD, section: 1, address: 0x2000n, memorySize: 0x1000n },
        { type: C.PT_LOAD, section: 1, address: 0x2800n },
        { type: C.PT_LOAD, section: 1, address: 0x1000n },
      ],
    });
    const text = readElf(built).remarks.join('\n');
    expect(text).toContain('program headers 0 and 1: PT_LOAD segments overlap');
    expect(text).toContain('program header 2: PT_LOAD at 0x1000 is not in ascending order');
  });

  test('a million symbols and relocations in columns', () => {
    const rows = 1_000_000;
    const names = stringTable(['a', 'bb', 'ccc']);
    const symbols = new Uint8Array(24 * rows);
    const relocations = new Uint8Array(24 * rows);
    const symbolView = new DataView(symbols.buffer);
    const relocationView = new DataView(relocations.buffer);
    for (let i = 1; i < rows; i++) {
      symbolView.setUint32(24 * i, names.offsets[i % 3]!, true);
      symbols[24 * i + 4] = 0x12;
      symbols[24 * i + 6] = 1;
      symbolView.setBigUint64(24 * i + 8, BigInt(i), true);
      relocationView.setBigUint64(24 * i, BigInt(i * 3), true);
      relocationView.setUint32(24 * i + 12, i, true);
    }
    const bytes = buildElf({
      ...LITTLE64,
      type: C.ET_REL,
      sections: [
        { name: '.text', type: 1, flags: 6, contents: new Uint8Array(50 << 20) },
        { name: '.symtab', type: 2, link: 3, info: 1, entrySize: 24, contents: symbols },
        { name: '.strtab', type: 3, contents: names.bytes },
        { name: '.rela.text', type: 4, link: 2, info: 1, entrySize: 24, contents: relocations },
      ],
    });
    const memory = process.memoryUsage().arrayBuffers;
    const start = performance.now();
    const image = readElf(bytes);
    const value = image.symbols.value;
    const read = performance.now() - start;
    const table = image.relocations[0]!;
    expect(table.offset[rows - 1]).toBe(BigInt((rows - 1) * 3));
    expect(table.symbol[777_777]).toBe(777_777);
    expect(value[rows - 1]).toBe(BigInt(rows - 1));
    expect(image.symbols.find('ccc')).toBe(2);
    const all = performance.now() - start;
    const allocated = process.memoryUsage().arrayBuffers - memory;
    process.stdout.write(
      `elf-read: 1 M symbols ${read.toFixed(0)} ms, with relocations and names ${all.toFixed(0)} ms\n`,
    );
    expect(allocated).toBeLessThan(100 << 20);
    // The goal is 0.4 s; a loaded machine gets four times as much.
    const again = (): number => fastest(1600, () => readElf(bytes).symbols.value);
    expect(read < 1600 ? read : again()).toBeLessThan(1600);
  });

  test('DT_HASH counts the dynamic symbols of both byte orders', () => {
    for (const shape of ALL_SHAPES) {
      const names = stringTable(['one', 'two']);
      const symbolSize = shape.is64 ? 24 : 16;
      const data = Buffer.concat([
        symbolRows(shape, [
          { name: names.offsets[0]!, value: 0x10n, info: 0x12, section: 7 },
          { name: names.offsets[1]!, info: 0x10 },
        ]),
        words(shape, [1, 3, 1, 0, 2, 0], 4),
        relocationRows(shape, 'rel', [{ offset: 0x1000n, symbol: 2, type: 6 }]),
        names.bytes,
      ]);
      const hash = 3 * symbolSize;
      const rel = hash + 24;
      const strings = rel + (shape.is64 ? 16 : 8);
      const at = (offset: number): bigint => 0x1000n + BigInt(offset);
      const dynamic = words(shape, [
        C.DT_SYMTAB,
        at(0),
        C.DT_HASH,
        at(hash),
        C.DT_STRTAB,
        at(strings),
        C.DT_STRSZ,
        names.bytes.length,
        C.DT_REL,
        at(rel),
        C.DT_RELSZ,
        strings - rel,
        C.DT_NULL,
        0,
      ]);
      const bytes = buildElf({
        ...shape,
        type: C.ET_DYN,
        sections: [
          { name: '.d', type: 1, contents: data },
          { name: '.dynamic', type: 1, contents: dynamic },
        ],
        segments: [
          { type: C.PT_LOAD, section: 1, address: 0x1000n },
          { type: C.PT_DYNAMIC, section: 2 },
        ],
      });
      // Take the section headers away.
      bytes.fill(0, shape.is64 ? 40 : 32, shape.is64 ? 48 : 36);
      bytes.fill(0, shape.is64 ? 60 : 48, shape.is64 ? 64 : 52);
      const image = readElf(bytes);
      expect(image.symbols.count).toBe(3);
      expect(image.symbols.name(1)).toBe('one');
      expect(image.symbols.sectionIndex[1]).toBe(7);
      expect(image.relocations).toHaveLength(1);
      expect(image.relocations[0]).toMatchObject({ form: 'rel', section: -1, target: 0, count: 1 });
      expect(image.relocations[0]!.symbols!.name(image.relocations[0]!.symbol[0]!)).toBe('two');
    }
  });
});
