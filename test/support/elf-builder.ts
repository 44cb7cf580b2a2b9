/**
 * Small ELF files as bytes, of both classes and byte orders, for tests that need shapes no compiler
 * makes.
 */
import { ByteView } from '../../src/bytes.js';

export interface BuiltSection {
  readonly name: string;
  readonly type: number;
  readonly flags?: number;
  readonly address?: bigint;
  readonly contents?: Uint8Array;
  /** sh_size where it is not the length of the contents. */
  readonly size?: bigint;
  readonly link?: number;
  readonly info?: number;
  readonly align?: number;
  readonly entrySize?: number;
}

export interface BuiltSegment {
  readonly type: number;
  readonly flags?: number;
  /** Section number whose contents it covers; else offset and size. */
  readonly section?: number;
  readonly offset?: bigint;
  readonly address?: bigint;
  readonly fileSize?: bigint;
  readonly memorySize?: bigint;
  readonly align?: bigint;
}

export interface Shape {
  readonly is64: boolean;
  readonly endian: 'little' | 'big';
}

export interface BuildOptions extends Shape {
  readonly type: number;
  readonly machine?: number;
  readonly flags?: number;
  /** Section 0 and `.shstrtab` (the last) are added. */
  readonly sections: readonly BuiltSection[];
  readonly segments?: readonly BuiltSegment[];
  readonly trailing?: Uint8Array;
}

export const ALL_SHAPES: readonly Shape[] = [
  { is64: true, endian: 'little' },
  { is64: true, endian: 'big' },
  { is64: false, endian: 'little' },
  { is64: false, endian: 'big' },
];

export function shapeName(shape: Shape): string {
  return `${shape.is64 ? '64' : '32'}-bit ${shape.endian}-endian`;
}

/**
 * Sections' positions follow from the options alone, so a test may build twice: once to learn where
 * things are.
 */
export function buildElf(options: BuildOptions): Uint8Array {
  const { is64, endian } = options;
  const wordBytes = is64 ? 8 : 4;
  const headerBytes = is64 ? 64 : 40;
  const segments = options.segments ?? [];
  const names = ['', ...options.sections.map((section) => section.name), '.shstrtab'];
  const nameOffsets: number[] = [];
  let nameText = '\0';
  for (const name of names) {
    nameOffsets.push(name === '' ? 0 : nameText.length);
    if (name !== '') nameText += `${name}\0`;
  }
  const all: BuiltSection[] = [
    { name: '', type: 0 },
    ...options.sections,
    { name: '.shstrtab', type: 3, contents: new TextEncoder().encode(nameText), align: 1 },
  ];
  let at = (is64 ? 64 : 52) + segments.length * (is64 ? 56 : 32);
  const offsets = all.map((section, index) => {
    if (index === 0) return 0;
    const align = section.align ?? 8;
    at = Math.ceil(at / align) * align;
    const offset = at;
    at += section.contents?.length ?? 0;
    return offset;
  });
  const shoff = Math.ceil(at / 8) * 8;
  const trailing = options.trailing ?? new Uint8Array(0);
  const bytes = new Uint8Array(shoff + all.length * headerBytes + trailing.length);
  const view = new ByteView(bytes, endian, 'built file');
  bytes.set([0x7f, 0x45, 0x4c, 0x46, is64 ? 2 : 1, endian === 'little' ? 1 : 2, 1]);
  view.insertU16(16, options.type);
  view.insertU16(18, options.machine ?? 62);
  view.insertU32(20, 1);
  view.insertWord(24 + wordBytes, segments.length === 0 ? 0n : BigInt(is64 ? 64 : 52), wordBytes);
  view.insertWord(24 + 2 * wordBytes, BigInt(shoff), wordBytes);
  const tail = 24 + 3 * wordBytes;
  view.insertU32(tail, options.flags ?? 0);
  view.insertU16(tail + 4, is64 ? 64 : 52);
  view.insertU16(tail + 6, is64 ? 56 : 32);
  view.insertU16(tail + 8, segments.length);
  view.insertU16(tail + 10, headerBytes);
  view.insertU16(tail + 12, all.length < 0xff00 ? all.length : 0);
  view.insertU16(tail + 14, all.length - 1 < 0xff00 ? all.length - 1 : 0xffff);
  all.forEach((section, index) => {
    const contents = section.contents ?? new Uint8Array(0);
    bytes.set(contents, offsets[index]);
    const header = shoff + index * headerBytes;
    view.insertU32(header, nameOffsets[index]!);
    view.insertU32(header + 4, section.type);
    const words = [
      BigInt(section.flags ?? 0),
      section.address ?? 0n,
      BigInt(offsets[index]!),
      index === 0 && all.length >= 0xff00 ? BigInt(all.length) : (section.size ?? BigInt(contents.length)),
    ];
    words.forEach((word, i) => view.insertWord(header + 8 + i * wordBytes, word, wordBytes));
    const afterWords = header + 8 + 4 * wordBytes;
    view.insertU32(afterWords, index === 0 && all.length - 1 >= 0xff00 ? all.length - 1 : (section.link ?? 0));
    view.insertU32(afterWords + 4, section.info ?? 0);
    view.insertWord(afterWords + 8, BigInt(index === 0 ? 0 : (section.align ?? 8)), wordBytes);
    view.insertWord(afterWords + 8 + wordBytes, BigInt(section.entrySize ?? 0), wordBytes);
  });
  segments.forEach((segment, index) => {
    const header = (is64 ? 64 : 52) + index * (is64 ? 56 : 32);
    const covered = segment.section === undefined ? undefined : all[segment.section];
    const offset = segment.offset ?? (segment.section === undefined ? 0n : BigInt(offsets[segment.section]!));
    const fileSize = segment.fileSize ?? BigInt(covered?.contents?.length ?? 0);
    view.insertU32(header, segment.type);
    view.insertU32(is64 ? header + 4 : header + 24, segment.flags ?? 4);
    const address = segment.address ?? covered?.address ?? 0n;
    const words = [offset, address, address, fileSize, segment.memorySize ?? fileSize];
    words.forEach((word, i) => view.insertWord((is64 ? header + 8 : header + 4) + i * wordBytes, word, wordBytes));
    view.insertWord(is64 ? header + 48 : header + 28, segment.align ?? 1n, wordBytes);
  });
  bytes.set(trailing, shoff + all.length * headerBytes);
  return bytes;
}

/** Bytes of words in the shape's order. */
export function words(shape: Shape, values: readonly (bigint | number)[], sizeBytes?: 1 | 2 | 4 | 8): Uint8Array {
  const size = sizeBytes ?? (shape.is64 ? 8 : 4);
  const view = new ByteView(new Uint8Array(values.length * size), shape.endian, 'words');
  values.forEach((value, i) => {
    if (size === 8) view.insertU64(i * 8, BigInt(value));
    else if (size === 4) view.insertU32(i * 4, Number(BigInt.asUintN(32, BigInt(value))));
    else if (size === 2) view.insertU16(i * 2, Number(value));
    else view.insertU8(i, Number(value));
  });
  return view.bytes;
}

export interface BuiltSymbol {
  readonly name: number;
  readonly value?: bigint;
  readonly size?: bigint;
  readonly info?: number;
  readonly other?: number;
  readonly section?: number;
}

/** A symbol table; row 0 is added. */
export function symbolRows(shape: Shape, symbols: readonly BuiltSymbol[]): Uint8Array {
  const step = shape.is64 ? 24 : 16;
  const view = new ByteView(new Uint8Array(step * (symbols.length + 1)), shape.endian, 'symbols');
  symbols.forEach((symbol, i) => {
    const at = (i + 1) * step;
    const tail = shape.is64 ? at + 4 : at + 12;
    view.insertU32(at, symbol.name);
    view.insertU8(tail, symbol.info ?? 0);
    view.insertU8(tail + 1, symbol.other ?? 0);
    view.insertU16(tail + 2, symbol.section ?? 0);
    view.insertWord(shape.is64 ? at + 8 : at + 4, symbol.value ?? 0n, shape.is64 ? 8 : 4);
    view.insertWord(shape.is64 ? at + 16 : at + 8, symbol.size ?? 0n, shape.is64 ? 8 : 4);
  });
  return view.bytes;
}

export interface BuiltRelocation {
  readonly offset: bigint;
  readonly symbol: number;
  readonly type: number;
  readonly addend?: bigint;
}

export function relocationRows(shape: Shape, form: 'rel' | 'rela', rows: readonly BuiltRelocation[]): Uint8Array {
  return words(
    shape,
    rows.flatMap(({ offset, symbol, type, addend }) => {
      const info = shape.is64 ? (BigInt(symbol) << 32n) | BigInt(type) : BigInt((symbol << 8) | type);
      return form === 'rela' ? [offset, info, addend ?? 0n] : [offset, info];
    }),
  );
}

/** NUL-terminated names, and the offset of each. */
export function stringTable(names: readonly string[]): { readonly bytes: Uint8Array; readonly offsets: number[] } {
  const offsets: number[] = [];
  let text = '\0';
  for (const name of names) {
    offsets.push(text.length);
    text += `${name}\0`;
  }
  return { bytes: new TextEncoder().encode(text), offsets };
}

/** One note; words of 4 bytes, padded to 4. */
export function note(shape: Shape, owner: string, type: number, descriptor: Uint8Array): Uint8Array {
  const name = new TextEncoder().encode(`${owner}\0`);
  const up = (size: number): number => Math.ceil(size / 4) * 4;
  const out = new Uint8Array(12 + up(name.length) + up(descriptor.length));
  out.set(words(shape, [name.length, descriptor.length, type], 4));
  out.set(name, 12);
  out.set(descriptor, 12 + up(name.length));
  return out;
}

/**
 * A relocatable object with everything a reader looks at: text, symbols, relocations in both forms,
 * a group, a note, NOBITS. Sections: 1 .text, 2 .rela.text, 3 .rel.data, 4 .data, 5 .bss, 6 .group,
 * 7 .note.x, 8 .symtab, 9 .strtab.
 */
export function smallObject(shape: Shape, machine = 62, trailing?: Uint8Array): Uint8Array {
  const names = stringTable(['first', 'second', 'mcount', '.Llocal', '$x', '__pfx_first']);
  const name = (index: number): number => names.offsets[index]!;
  return buildElf({
    ...shape,
    type: 1,
    machine,
    ...(trailing ? { trailing } : {}),
    sections: [
      { name: '.text', type: 1, flags: 0x6, contents: new Uint8Array(64).fill(0x90), align: 16 },
      {
        name: '.rela.text',
        type: 4,
        flags: 0x40,
        link: 8,
        info: 1,
        entrySize: shape.is64 ? 24 : 12,
        contents: relocationRows(shape, 'rela', [
          { offset: 4n, symbol: 3, type: 4, addend: -4n },
          { offset: 0x24n, symbol: 3, type: 4, addend: -4n },
        ]),
      },
      {
        name: '.rel.data',
        type: 9,
        flags: 0x40,
        link: 8,
        info: 4,
        entrySize: shape.is64 ? 16 : 8,
        contents: relocationRows(shape, 'rel', [{ offset: 0n, symbol: 1, type: 1 }]),
      },
      { name: '.data', type: 1, flags: 0x3, contents: new Uint8Array(16) },
      { name: '.bss', type: 8, flags: 0x3, size: 0x1_0000n },
      { name: '.group', type: 17, link: 8, info: 1, entrySize: 4, align: 4, contents: words(shape, [1, 1, 2], 4) },
      { name: '.note.x', type: 7, align: 4, contents: note(shape, 'elftrace', 7, new Uint8Array([1, 2, 3, 4, 5])) },
      {
        name: '.symtab',
        type: 2,
        link: 9,
        info: 1,
        entrySize: shape.is64 ? 24 : 16,
        contents: symbolRows(shape, [
          { name: name(0), value: 0n, size: 0x20n, info: 0x12, section: 1 },
          { name: name(1), value: 0x20n, size: 0x20n, info: 0x12, section: 1 },
          { name: name(2), info: 0x10 },
          { name: name(3), value: 8n, info: 0, section: 1 },
          { name: name(4), value: 0n, info: 0, section: 1 },
          { name: name(5), value: 0n, info: 2, section: 1 },
        ]),
      },
      { name: '.strtab', type: 3, align: 1, contents: names.bytes },
    ],
  });
}
