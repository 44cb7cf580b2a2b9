/**
 * Files with a site table, as bytes, of every machine: one text section filled with a pattern,
 * function symbols, a table section and its relocations, all placed by the test. For tables that no
 * compiler makes.
 */
import {
  type BuiltRelocation,
  type BuiltSection,
  buildElf,
  relocationRows,
  type Shape,
  stringTable,
  symbolRows,
  words,
} from './elf-builder.js';

export interface Machine {
  readonly name: string;
  readonly shape: Shape;
  readonly machine: number;
  readonly flags: number;
  /** Absolute word and RELATIVE relocation types, from the psABI documents. */
  readonly word: number;
  readonly relative: number;
}

const little64: Shape = { is64: true, endian: 'little' };
const big64: Shape = { is64: true, endian: 'big' };
const big32: Shape = { is64: false, endian: 'big' };

export const machines: readonly Machine[] = [
  { name: 'x86-64', shape: little64, machine: 62, flags: 0, word: 1, relative: 8 },
  { name: 'ppc32', shape: big32, machine: 20, flags: 0, word: 1, relative: 22 },
  { name: 'ppc64-elfv1', shape: big64, machine: 21, flags: 1, word: 38, relative: 22 },
  { name: 'ppc64-elfv2-be', shape: big64, machine: 21, flags: 2, word: 38, relative: 22 },
  { name: 'ppc64-elfv2-le', shape: little64, machine: 21, flags: 2, word: 38, relative: 22 },
  { name: 'riscv64', shape: little64, machine: 243, flags: 5, word: 2, relative: 3 },
  { name: 'arm64', shape: little64, machine: 183, flags: 0, word: 257, relative: 1027 },
];

const textSize = 64;
export const textAddress = 0x10000n;
export const tableAddress = 0x20000n;

export interface TableFile {
  readonly machine: Machine;
  /** e_type: 1 relocatable, 2 executable, 3 shared. */
  readonly type: 1 | 2 | 3;
  readonly name?: string;
  /** Words in the table section. */
  readonly contents: readonly bigint[];
  /** Bytes behind the last word. */
  readonly extraBytes?: number;
  /**
   * Rows over the table: symbol 1 is the section symbol of .text, 2 the function `first` at
   * .text+16, 3 undefined.
   */
  readonly rows?: readonly BuiltRelocation[];
  readonly form?: 'rel' | 'rela';
  /** Rows are the dynamic linker's: allocated section of a linked file. */
  readonly dynamic?: boolean;
  readonly relr?: readonly bigint[];
  readonly link?: number;
  /** Further sections in front of the symbol table. */
  readonly more?: readonly BuiltSection[];
  readonly text?: Uint8Array;
  /** Symbols behind the three of above: name and value in section 2 (the table) or 1 (text). */
  readonly symbols?: readonly { readonly name: string; readonly value: bigint; readonly section: number }[];
}

/**
 * Sections: 1 .text, 2 the table, 3 its relocations, 4 RELR words, 5… `more`, then .symtab and
 * .strtab.
 */
export function tableFile(file: TableFile): Uint8Array {
  const { machine, type } = file;
  const { shape } = machine;
  const linked = type !== 1;
  const word = shape.is64 ? 8 : 4;
  const names = stringTable(['first', 'elsewhere', ...(file.symbols ?? []).map((symbol) => symbol.name)]);
  const table = words(shape, file.contents);
  const contents = new Uint8Array(table.length + (file.extraBytes ?? 0));
  contents.set(table);
  const form = file.form ?? 'rela';
  const symtab = 5 + (file.more?.length ?? 0);
  const base = linked ? textAddress : 0n;
  return buildElf({
    ...shape,
    type,
    machine: machine.machine,
    flags: machine.flags,
    sections: [
      {
        name: '.text',
        type: 1,
        flags: 6,
        align: 16,
        address: linked ? textAddress : 0n,
        contents: file.text ?? new Uint8Array(textSize).fill(0x11),
      },
      {
        name: file.name ?? '__mcount_loc',
        type: 1,
        flags: 2,
        align: word,
        address: linked ? tableAddress : 0n,
        link: file.link ?? 0,
        contents,
      },
      {
        name: linked && file.dynamic ? `.${form}.dyn` : `.${form}${file.name ?? '__mcount_loc'}`,
        type: form === 'rela' ? 4 : 9,
        flags: file.dynamic ? 2 : 0x40,
        link: symtab,
        info: file.dynamic ? 0 : 2,
        entrySize: word * (form === 'rela' ? 3 : 2),
        contents: relocationRows(shape, form, file.rows ?? []),
      },
      { name: '.relr.dyn', type: 19, flags: 2, entrySize: word, contents: words(shape, file.relr ?? []) },
      ...(file.more ?? []),
      {
        name: '.symtab',
        type: 2,
        link: symtab + 1,
        info: 2,
        entrySize: shape.is64 ? 24 : 16,
        contents: symbolRows(shape, [
          { name: 0, value: base, info: 3, section: 1 },
          { name: names.offsets[0]!, value: base + 16n, size: 48n, info: 0x12, section: 1 },
          { name: names.offsets[1]!, info: 0x10, section: 0 },
          ...(file.symbols ?? []).map((symbol, i) => ({
            name: names.offsets[2 + i]!,
            value: symbol.value,
            info: 0x10,
            section: symbol.section,
          })),
        ]),
      },
      { name: '.strtab', type: 3, align: 1, contents: names.bytes },
    ],
    segments: linked
      ? [
          { type: 1, flags: 5, section: 1, address: textAddress },
          { type: 1, flags: 6, section: 2, address: tableAddress },
        ]
      : [],
  });
}
