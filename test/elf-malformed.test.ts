/**
 * Files that no tool makes: cut at every header, counts around every limit, offsets and sizes near
 * the ends of their types.
 */
import { describe, expect, test } from '@jest/globals';
import { ByteView } from '../src/bytes.js';
import { ElftraceError, type ErrorCode } from '../src/errors.js';
import * as C from '../src/elf/constants.js';
import { readElf } from '../src/elf/read.js';
import {
  ALL_SHAPES,
  buildElf,
  relocationRows,
  shapeName,
  smallObject,
  stringTable,
  symbolRows,
  words,
  type Shape,
} from './support/elf-builder.js';
import { touchElf } from './support/touch-elf.js';
import { fastest } from './support/timing.js';

const LITTLE64: Shape = { is64: true, endian: 'little' };
const SHAPES = ALL_SHAPES.map((shape) => [shapeName(shape), shape] as const);

/** The error of reading everything, or null. */
function refusal(bytes: Uint8Array): ElftraceError | null {
  try {
    touchElf(bytes);
    return null;
  } catch (error) {
    if (error instanceof ElftraceError) return error;
    throw error;
  }
}

function code(bytes: Uint8Array): ErrorCode | 'read' {
  return refusal(bytes)?.code ?? 'read';
}

/** Positions of header fields. */
function fields(shape: Shape) {
  const word = shape.is64 ? 8 : 4;
  const tail = 24 + 3 * word;
  return {
    phoff: 24 + word,
    shoff: 24 + 2 * word,
    phentsize: tail + 6,
    phnum: tail + 8,
    shentsize: tail + 10,
    shnum: tail + 12,
    shstrndx: tail + 14,
  };
}

/** Writes one field of a section header. */
function setSection(
  shape: Shape,
  bytes: Uint8Array,
  index: number,
  field: 'name' | 'type' | 'flags' | 'addr' | 'offset' | 'size' | 'link' | 'info' | 'align' | 'entsize',
  value: bigint,
): Uint8Array {
  const view = new ByteView(bytes, shape.endian, 'test');
  const word = shape.is64 ? 8 : 4;
  const at = Number(view.word(fields(shape).shoff, word)) + index * (shape.is64 ? 64 : 40);
  const after = at + 8 + 4 * word;
  if (field === 'name') view.insertU32(at, Number(value));
  else if (field === 'type') view.insertU32(at + 4, Number(value));
  else if (field === 'link') view.insertU32(after, Number(value));
  else if (field === 'info') view.insertU32(after + 4, Number(value));
  else if (field === 'align') view.insertWord(after + 8, value, word);
  else if (field === 'entsize') view.insertWord(after + 8 + word, value, word);
  else view.insertWord(at + 8 + ['flags', 'addr', 'offset', 'size'].indexOf(field) * word, value, word);
  return bytes;
}

function setHeader(shape: Shape, bytes: Uint8Array, field: keyof ReturnType<typeof fields>, value: bigint): Uint8Array {
  const view = new ByteView(bytes, shape.endian, 'test');
  const at = fields(shape)[field];
  if (field === 'phoff' || field === 'shoff') view.insertWord(at, value, shape.is64 ? 8 : 4);
  else view.insertU16(at, Number(value));
  return bytes;
}

describe('identification', () => {
  const good = smallObject(LITTLE64);
  const changed = (offset: number, value: number): Uint8Array => {
    const bytes = good.slice();
    bytes[offset] = value;
    return bytes;
  };

  test.each([
    ['empty', new Uint8Array(0), 'not-elf'],
    ['three bytes', good.slice(0, 3), 'not-elf'],
    ['magic only', good.slice(0, 4), 'elf-truncated'],
    ['15 bytes', good.slice(0, 15), 'elf-truncated'],
    ['no magic', changed(1, 0x65), 'not-elf'],
    ['class 0', changed(4, 0), 'elf-malformed'],
    ['class 3', changed(4, 3), 'elf-malformed'],
    ['data 0', changed(5, 0), 'elf-malformed'],
    ['data 3', changed(5, 3), 'elf-malformed'],
    ['ident version 0', changed(6, 0), 'elf-malformed'],
    ['version 2', changed(20, 2), 'elf-malformed'],
  ] as const)('%s', (_name, bytes, expected) => {
    expect(code(bytes)).toBe(expected);
  });

  test('kinds and machines that the project does not serve are read all the same', () => {
    const view = new ByteView(good.slice(), 'little', 'test');
    view.insertU16(16, C.ET_CORE);
    view.insertU16(18, 0x1234);
    expect(readElf(view.bytes).header).toMatchObject({ type: C.ET_CORE, machine: 0x1234 });
  });

  test('an error says where and why', () => {
    const error = refusal(setSection(LITTLE64, smallObject(LITTLE64), 2, 'link', 99n))!;
    expect(error.code).toBe('bad-reference');
    expect(error.message).toBe('section header 2 (.rela.text): sh_link: section 99 of 11');
    expect(error.context).toMatchObject({ what: 'section header 2 (.rela.text): sh_link', value: 99 });
  });
});

describe.each(SHAPES)('%s', (_name, shape) => {
  const good = smallObject(shape);
  const size = BigInt(good.length);

  test('cut at every length', () => {
    for (let length = 0; length < good.length; length++) {
      const expected = length < 4 ? 'not-elf' : 'elf-truncated';
      expect([length, code(good.slice(0, length))]).toEqual([length, expected]);
    }
    expect(code(good)).toBe('read');
  });

  test('a section ends one before, at and one behind the end of the file', () => {
    const place = readElf(good).section('.data')!;
    const room = size - BigInt(place.offset);
    for (const [value, expected] of [
      [room - 1n, 'read'],
      [room, 'read'],
      [room + 1n, 'elf-truncated'],
    ] as const) {
      expect(code(setSection(shape, smallObject(shape), 4, 'size', value))).toBe(expected);
    }
  });

  test('offsets and sizes near the ends of their types', () => {
    const top = shape.is64 ? 1n << 64n : 1n << 32n;
    const values = [
      top - 1n,
      top - 8n,
      top - size,
      top / 2n,
      top / 2n - 1n,
      ...(shape.is64 ? [1n << 53n, (1n << 53n) - 1n] : []),
    ];
    for (const value of values) {
      for (const field of ['offset', 'size'] as const) {
        expect(code(setSection(shape, smallObject(shape), 1, field, value))).toBe('elf-truncated');
      }
      expect(code(setHeader(shape, smallObject(shape), 'shoff', value))).toBe('elf-truncated');
      const withSegments = setHeader(shape, smallObject(shape), 'phnum', 1n);
      setHeader(shape, withSegments, 'phentsize', shape.is64 ? 56n : 32n);
      expect(code(setHeader(shape, withSegments, 'phoff', value))).toBe('elf-truncated');
    }
  });

  test('NOBITS may be larger than the file, not than the address space', () => {
    const image = readElf(setSection(shape, smallObject(shape), 5, 'size', 0xffff_fff0n));
    expect(image.section('.bss')).toMatchObject({ size: 0xffff_fff0, fileSize: 0 });
    const outside = setSection(shape, smallObject(shape), 5, 'size', 0xffff_fff0n);
    setSection(shape, outside, 5, 'addr', shape.is64 ? (1n << 64n) - 16n : 0xffff_fff0n);
    expect(code(outside)).toBe('elf-malformed');
    if (shape.is64) expect(code(setSection(shape, smallObject(shape), 5, 'size', 1n << 53n))).toBe('elf-truncated');
  });

  test('counts of headers around what the file holds', () => {
    const { shnum } = readElf(good).header;
    // One fewer loses .shstrtab, which e_shstrndx names.
    expect(code(setHeader(shape, smallObject(shape), 'shnum', BigInt(shnum - 1)))).toBe('bad-reference');
    expect(code(setHeader(shape, smallObject(shape), 'shnum', BigInt(shnum)))).toBe('read');
    expect(code(setHeader(shape, smallObject(shape), 'shnum', BigInt(shnum + 1)))).toBe('elf-truncated');
    expect(code(setHeader(shape, smallObject(shape), 'shstrndx', BigInt(shnum)))).toBe('bad-reference');
    expect(code(setHeader(shape, smallObject(shape), 'shstrndx', 1n))).toBe('elf-malformed');
    expect(code(setHeader(shape, smallObject(shape), 'shentsize', shape.is64 ? 63n : 39n))).toBe('elf-malformed');
    expect(code(setHeader(shape, smallObject(shape), 'phnum', 1n))).toBe('elf-malformed');
    expect(code(setHeader(shape, smallObject(shape), 'shoff', 0n))).toBe('elf-malformed');
  });

  test('extended counts in section header 0', () => {
    const { shnum, shstrndx } = readElf(good).header;
    const extended = (count: bigint, names: bigint): Uint8Array => {
      const bytes = setSection(shape, setSection(shape, smallObject(shape), 0, 'size', count), 0, 'link', names);
      return setHeader(shape, setHeader(shape, bytes, 'shnum', 0n), 'shstrndx', 0xffffn);
    };
    expect(code(extended(BigInt(shnum), BigInt(shstrndx)))).toBe('read');
    expect(readElf(extended(BigInt(shnum), BigInt(shstrndx))).sections.length).toBe(shnum);
    expect(code(extended(BigInt(shnum + 1), BigInt(shstrndx)))).toBe('elf-truncated');
    expect(code(extended(BigInt(shnum), BigInt(shnum)))).toBe('bad-reference');
    // 4 G headers must be refused before room for them is made.
    expect(code(extended(0xffff_ffffn, BigInt(shstrndx)))).toBe('elf-truncated');
    if (shape.is64) expect(code(extended((1n << 58n) + BigInt(shnum), BigInt(shstrndx)))).toBe('elf-truncated');
    const many = setHeader(shape, setSection(shape, smallObject(shape), 0, 'info', 3n), 'phnum', 0xffffn);
    setHeader(shape, setHeader(shape, many, 'phoff', size - 8n), 'phentsize', shape.is64 ? 56n : 32n);
    expect(code(many)).toBe('elf-truncated');
  });

  test.each([
    ['a section 0 that is one', 0, 'type', 1n, 'elf-malformed'],
    ['name outside the table', 1, 'name', 0x1_0000n, 'bad-reference'],
    ['link outside the table', 4, 'link', 11n, 'bad-reference'],
    ['symbols without strings', 8, 'link', 1n, 'bad-reference'],
    ['symbols linked to section 0', 8, 'link', 0n, 'bad-reference'],
    ['symbol entry size', 8, 'entsize', 17n, 'elf-malformed'],
    ['symbol entry size 0', 8, 'entsize', 0n, 'elf-malformed'],
    ['half a symbol', 8, 'size', 25n, 'elf-malformed'],
    ['relocations of a section that is none', 2, 'info', 11n, 'bad-reference'],
    ['relocations with the text as symbol table', 2, 'link', 1n, 'bad-reference'],
    ['relocations without their symbol table', 2, 'link', 0n, 'bad-reference'],
    ['relocation entry size', 2, 'entsize', 8n, 'elf-malformed'],
    ['half a relocation', 3, 'size', 5n, 'elf-malformed'],
    ['a group without symbols', 6, 'link', 9n, 'bad-reference'],
    ['a group without a signature', 6, 'info', 700n, 'bad-reference'],
    ['an empty group', 6, 'size', 0n, 'elf-malformed'],
    ['half a note', 7, 'size', 15n, 'elf-truncated'],
    ['text as extended indices', 1, 'type', 18n, 'elf-malformed'],
  ] as const)('%s', (_what, index, field, value, expected) => {
    expect(code(setSection(shape, smallObject(shape), index, field, value))).toBe(expected);
  });

  test('rows that name what is not there are refused when the columns are read', () => {
    const build = (section: number, name: number, symbol: number, member: number): Uint8Array => {
      const names = stringTable(['f']);
      return buildElf({
        ...shape,
        type: 1,
        sections: [
          { name: '.text', type: 1, flags: 6, contents: new Uint8Array(16) },
          {
            name: '.symtab',
            type: 2,
            link: 3,
            info: 1,
            entrySize: shape.is64 ? 24 : 16,
            contents: symbolRows(shape, [{ name, section, info: 0x12 }]),
          },
          { name: '.strtab', type: 3, contents: names.bytes },
          {
            name: '.rela.text',
            type: 4,
            link: 2,
            info: 1,
            entrySize: shape.is64 ? 24 : 12,
            contents: relocationRows(shape, 'rela', [{ offset: 0n, symbol, type: 1 }]),
          },
          { name: '.group', type: 17, link: 2, info: 1, entrySize: 4, contents: words(shape, [1, member], 4) },
        ],
      });
    };
    // Seven sections, two symbols, three bytes of names.
    expect(code(build(6, 1, 1, 6))).toBe('read');
    expect(code(build(7, 1, 1, 6))).toBe('bad-reference');
    expect(code(build(0xfeff, 1, 1, 6))).toBe('bad-reference');
    expect(code(build(0xfff1, 1, 1, 6))).toBe('read');
    expect(code(build(0xffff, 1, 1, 6))).toBe('bad-reference');
    expect(code(build(1, 2, 1, 6))).toBe('read');
    expect(code(build(1, 3, 1, 6))).toBe('bad-reference');
    expect(code(build(1, 1, 2, 6))).toBe('bad-reference');
    expect(code(build(1, 1, 1, 7))).toBe('bad-reference');
    expect(code(build(1, 1, 1, 0))).toBe('bad-reference');
  });

  test('segments: sizes and ends', () => {
    const top = shape.is64 ? 1n << 64n : 1n << 32n;
    const build = (offset: bigint, fileSize: bigint, memorySize: bigint, address = 0x1000n): Uint8Array =>
      buildElf({
        ...shape,
        type: C.ET_EXEC,
        sections: [{ name: '.text', type: 1, flags: 6, address: 0x1000n, contents: new Uint8Array(64) }],
        segments: [{ type: C.PT_LOAD, offset, fileSize, memorySize, address }],
      });
    const length = BigInt(build(0n, 1n, 1n).length);
    expect(code(build(0n, length, length))).toBe('read');
    expect(code(build(1n, length, length))).toBe('elf-truncated');
    expect(code(build(top - 1n, 1n, 1n))).toBe('elf-truncated');
    expect(code(build(0n, top - 1n, top - 1n, 0n))).toBe('elf-truncated');
    expect(code(build(0n, 8n, 7n))).toBe('elf-malformed');
    expect(code(build(0n, 8n, 8n, top - 8n))).toBe('read');
    expect(code(build(0n, 8n, 8n, top - 7n))).toBe('elf-malformed');
  });

  test('RELR: a bitmap without an address, and more rows than the file has words', () => {
    const build = (contents: Uint8Array): Uint8Array =>
      buildElf({
        ...shape,
        type: C.ET_DYN,
        sections: [{ name: '.relr.dyn', type: C.SHT_RELR, flags: 2, entrySize: shape.is64 ? 8 : 4, contents }],
      });
    expect(code(build(words(shape, [3n])))).toBe('elf-malformed');
    // One that says nothing of any word: what is left of a table whose places were all emptied.
    expect(code(build(words(shape, [1n])))).toBe('read');
    const ones = shape.is64 ? (1n << 64n) - 1n : (1n << 32n) - 1n;
    const hostile = build(words(shape, [0x1000n, ...new Array<bigint>(5000).fill(ones)]));
    const memory = process.memoryUsage().arrayBuffers;
    expect(code(hostile)).toBe('elf-malformed');
    expect(process.memoryUsage().arrayBuffers - memory).toBeLessThan(10 << 20);
  });
});

describe('hostile sizes', () => {
  test('a hundred thousand section names that overlap in one long string', () => {
    const count = 100_000;
    const long = new Uint8Array(4 << 20).fill(0x41);
    const bytes = buildElf({ ...LITTLE64, type: 1, sections: [{ name: '', type: 3, contents: long }] });
    const view = new ByteView(new Uint8Array(bytes.length + 64 * count), 'little', 'test');
    view.bytes.set(bytes);
    const shoff = Number(view.u64(40));
    for (let i = 3; i < count; i++) {
      view.insertU32(shoff + 64 * i, i);
      view.insertU32(shoff + 64 * i + 4, 8);
    }
    view.insertU16(60, 0);
    view.insertU64(shoff + 32, BigInt(count));
    view.insertU16(62, 1);
    const spent = fastest(1000, () => {
      expect(code(view.bytes)).toBe('elf-malformed');
    });
    expect(spent).toBeLessThan(1000);
  });

  test('symbol names without an end', () => {
    const strings = new Uint8Array(4 << 20).fill(0x41);
    const rows = 20_000;
    const symbols = symbolRows(
      LITTLE64,
      Array.from({ length: rows }, (_, i) => ({ name: i })),
    );
    const bytes = buildElf({
      ...LITTLE64,
      type: 1,
      sections: [
        { name: '.symtab', type: 2, link: 2, entrySize: 24, contents: symbols },
        { name: '.strtab', type: 3, contents: strings },
      ],
    });
    const spent = fastest(1000, () => {
      const image = readElf(bytes);
      expect(image.symbols.find('nothing')).toBe(-1);
      expect(() => image.symbols.name(5)).toThrow('more than 1048576 bytes');
    });
    expect(spent).toBeLessThan(1000);
  });

  test('a dynamic hash table that claims four billion symbols', () => {
    for (const tag of [C.DT_HASH, C.DT_GNU_HASH]) {
      const contents = words(LITTLE64, [0xffff_ffff, 0xffff_ffff, 0xffff_ffff, 0, 0, 0, 0, 0], 4);
      const dynamic = words(LITTLE64, [tag, 0x1000, C.DT_SYMTAB, 0x1000, C.DT_STRTAB, 0x1000, C.DT_STRSZ, 8, 0, 0]);
      const bytes = buildElf({
        ...LITTLE64,
        type: C.ET_DYN,
        sections: [
          { name: '.d', type: 1, contents },
          { name: '.dynamic', type: 1, contents: dynamic },
        ],
        segments: [
          { type: C.PT_LOAD, section: 1, address: 0x1000n },
          { type: C.PT_DYNAMIC, section: 2 },
        ],
      });
      bytes.fill(0, 40, 48);
      bytes.fill(0, 60, 64);
      expect(code(bytes)).toBe('elf-truncated');
    }
  });
});
