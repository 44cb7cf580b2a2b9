/**
 * The unified view of an ELF file: what `read.ts` makes and every other room asks. Symbols and
 * relocations are columns of typed arrays (a million of them cost no objects); `section`, `segment`
 * objects are few and plain.
 *
 * Invariant: in an `ElfImage` every offset and size was checked against the file length, and every
 * sh_link and symbol section index against the tables they index. No later step checks again.
 */
import type { Column, Endian, SectionIndex, SymbolIndex } from '../units.js';

export interface ElfHeader {
  readonly is64: boolean;
  readonly endian: Endian;
  readonly osAbi: number;
  readonly abiVersion: number;
  /** ET_REL, ET_EXEC, ET_DYN, … */
  readonly type: number;
  /** EM_… */
  readonly machine: number;
  readonly entry: bigint;
  /** File positions of the two header tables; 0 when absent. */
  readonly phoff: number;
  readonly shoff: number;
  readonly flags: number;
  readonly ehsize: number;
  readonly phentsize: number;
  readonly phnum: number;
  readonly shentsize: number;
  /** True counts, extended numbering already resolved. */
  readonly shnum: number;
  readonly shstrndx: number;
}

export interface ElfSection {
  readonly index: SectionIndex;
  readonly name: string;
  readonly type: number;
  readonly flags: bigint;
  readonly address: bigint;
  /** Position in the file. For SHT_NOBITS nothing lies there. */
  readonly offset: number;
  /** Size in memory, bytes. For SHT_NOBITS this may exceed the file. */
  readonly size: number;
  /** Bytes of it that lie in the file: `size`, or 0 for SHT_NOBITS and SHT_NULL. */
  readonly fileSize: number;
  readonly link: SectionIndex;
  readonly info: number;
  readonly alignBytes: bigint;
  readonly entrySize: bigint;
}

export interface ElfSegment {
  readonly index: number;
  readonly type: number;
  readonly flags: number;
  readonly offset: number;
  readonly address: bigint;
  readonly physicalAddress: bigint;
  readonly fileSize: number;
  readonly memorySize: bigint;
  readonly alignBytes: bigint;
}

/** Symbols of one table, as columns of equal length `count`; row 0 is the null symbol. */
export interface SymbolTable {
  readonly count: number;
  /** The section that holds the table, or -1 when it was found through DT_SYMTAB. */
  readonly section: SectionIndex;
  readonly value: BigUint64Array;
  readonly size: BigUint64Array;
  /** st_info: binding in the upper, type in the lower four bits. */
  readonly info: Uint8Array;
  readonly other: Uint8Array;
  /**
   * Section index with SHN_XINDEX resolved. The reserved indices keep their place at the top:
   * SHN_ABS is 0xffff_fff1, SHN_COMMON 0xffff_fff2 (0xffff_0000 | st_shndx), so that they cannot be
   * mistaken for section 65,521. Every other value is an index of `sections`, except in a file
   * without section headers.
   */
  readonly sectionIndex: Column<Uint32Array, SectionIndex>;
  /** Decoded on demand and remembered. */
  name(index: SymbolIndex): string;
  /**
   * True when the name begins with `prefix` (ASCII); decodes nothing, so it is cheap over a million
   * rows.
   */
  nameStartsWith(index: SymbolIndex, prefix: string): boolean;
  /** First symbol of that name, or -1. Builds an index once. */
  find(name: string): SymbolIndex;
}

/**
 * One relocation section or dynamic relocation table, as columns of equal length `count`, in file
 * order.
 */
/** How the rows of a relocation table are stored: SHT_REL, SHT_RELA, SHT_RELR, SHT_CREL. */
export type RelocationForm = 'rel' | 'rela' | 'relr' | 'crel';

export interface RelocationTable {
  readonly count: number;
  /** Index of the relocation section, -1 for one found only through the dynamic section. */
  readonly section: SectionIndex;
  /** sh_info: the section the offsets are in (ET_REL) or 0 when the offsets are addresses. */
  readonly target: SectionIndex;
  readonly form: RelocationForm;
  /**
   * Where addends are: in the rows (RELA, CREL that carries them) or in the bytes that the rows
   * relocate (REL, RELR, other CREL).
   */
  readonly addends: 'row' | 'place';
  /** The table that `symbol` indexes; null where no symbol is used. */
  readonly symbols: SymbolTable | null;
  /** Section offset (ET_REL) or address. */
  readonly offset: BigUint64Array;
  /**
   * Relocation type; `RELR_RELATIVE` of constants.ts in a RELR table, whose machine's RELATIVE only
   * the caller knows.
   */
  readonly type: Uint32Array;
  readonly symbol: Column<Uint32Array, SymbolIndex>;
  /** r_addend; 0 where the addend is in the place. */
  readonly addend: BigInt64Array;
  /** File position of entry `row`; -1 where rows have no bytes of their own (RELR, CREL). */
  fileOffset(row: number): number;
}

export interface ElfNote {
  readonly owner: string;
  readonly type: number;
  readonly descriptor: Uint8Array;
  /** File position of the descriptor. */
  readonly offset: number;
  /** Section or segment that holds it. */
  readonly section: SectionIndex;
}

export interface ElfGroup {
  readonly section: SectionIndex;
  readonly comdat: boolean;
  readonly signature: string;
  readonly members: readonly SectionIndex[];
}

export interface ElfImage {
  /** The whole input, trailing data included. Never changed. */
  readonly bytes: Uint8Array;
  readonly header: ElfHeader;
  readonly wordBytes: 4 | 8;
  readonly sections: readonly ElfSection[];
  readonly segments: readonly ElfSegment[];
  /**
   * End of what the ELF structures claim; `bytes` from here on are trailing data (a module
   * signature, an appended file). Equal to `bytes.length` when there is none.
   */
  readonly elfSize: number;
  /**
   * `.symtab`, or the dynamic symbols when the file has no other, or an empty table. Read on first
   * use.
   */
  readonly symbols: SymbolTable;
  readonly dynamicSymbols: SymbolTable;
  /** All relocation tables, each read on first use of its columns; RELR decoded. */
  readonly relocations: readonly RelocationTable[];
  /** Every symbol table by the section that holds it; the one of DT_SYMTAB under -1. */
  symbolTable(section: SectionIndex): SymbolTable | undefined;
  /**
   * Oddities that are legal but worth telling, for `info`: overlapping sections, unsorted PT_LOAD,
   * …
   */
  readonly remarks: readonly string[];

  section(name: string): ElfSection | undefined;
  sectionsNamed(name: string): readonly ElfSection[];
  /** Bytes of a section, a view; empty for SHT_NOBITS. */
  contents(section: ElfSection): Uint8Array;
  /** Relocation tables whose target is `section` (ET_REL, or --emit-relocs). */
  relocationsOf(section: ElfSection): readonly RelocationTable[];
  notes(): readonly ElfNote[];
  groups(): readonly ElfGroup[];
  /**
   * Section that holds `address` in a linked file; prefers sections with bytes. TLS NOBITS holds
   * nothing.
   */
  sectionAt(address: bigint): ElfSection | undefined;
  /**
   * File position of `address` by program headers (sections where there are none); -1 when no byte
   * lies there.
   */
  fileOffsetOf(address: bigint): number;
  /** The inverse; undefined for positions that are not mapped. */
  addressOf(fileOffset: number): bigint | undefined;
}

/** Number that the first appended section will have. */
export function firstNewSection(image: ElfImage): number {
  return image.header.shnum;
}
