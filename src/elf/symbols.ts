/**
 * Symbol tables as columns: checks every row once, when the first column is asked for, and decodes
 * names on demand. Where a table lies (section headers or DT_SYMTAB) is decided by the caller; gABI
 * 4.1 "Symbol Table".
 */
import type { ByteView } from '../bytes.js';
import { cString, nameBytes } from '../bytes.js';
import { ElftraceError, hex, malformed } from '../errors.js';
import { SHN_LORESERVE, SHN_XINDEX } from './constants.js';
import type { SymbolTable } from './image.js';
import { halves, HIGH, LOW, wordsOf } from './lookup.js';
import type { SectionIndex } from '../units.js';

/** A symbol table whose extents were checked against the file. */
export interface SymbolSource {
  readonly view: ByteView;
  readonly is64: boolean;
  /** Section that holds the table, -1 for DT_SYMTAB. */
  readonly section: SectionIndex;
  /** For messages: `section 5 (.symtab)`. */
  readonly what: string;
  readonly offset: number;
  readonly count: number;
  /** The string table of the names. */
  readonly strings: { readonly offset: number; readonly size: number };
  /** The SHT_SYMTAB_SHNDX table of this one: `count` words. */
  readonly extendedIndices: { readonly offset: number; readonly count: number } | null;
  /** Number of sections, to check st_shndx; null where the file has no section headers. */
  readonly sectionCount: number | null;
}

/** Bytes of one symbol: Elf32_Sym, Elf64_Sym. */
export function symbolBytes(is64: boolean): number {
  return is64 ? 24 : 16;
}

/**
 * A name longer than this is taken for damage: compilers stop far below, and a table without NULs
 * must not cost hours.
 */
const NAME_LIMIT = 1 << 20;
/**
 * The hash of the name index looks at so many bytes, which bounds its cost whatever the names are.
 */
const HASHED_BYTES = 256;

/** So many names are looked for in the string table before an index is worth its cost. */
const SEARCHES = 32;
/** Such a text is the same in the bytes of a name. */
const PRINTABLE = /^[\x20-\x7e]*$/;

interface Columns {
  readonly value: BigUint64Array;
  readonly size: BigUint64Array;
  readonly info: Uint8Array;
  readonly other: Uint8Array;
  readonly sectionIndex: Uint32Array;
  readonly nameOffset: Uint32Array;
}

interface NameIndex {
  readonly heads: Int32Array;
  readonly next: Int32Array;
}

/**
 * A `SymbolTable` over the file's bytes. Reading a column throws 'bad-reference' or 'elf-malformed'
 * for a bad row.
 */
export class LazySymbolTable implements SymbolTable {
  readonly #source: SymbolSource;
  #columns: Columns | null = null;
  /** Names that were asked for: mostly few of very many, so that there is no room for all. */
  readonly #names: (string | undefined)[] = [];
  #index: NameIndex | null = null;
  /** Names that were looked for without the index. */
  #searched = 0;
  #text: Buffer | null = null;

  constructor(source: SymbolSource) {
    this.#source = source;
  }

  get count(): number {
    return this.#source.count;
  }
  get section(): number {
    return this.#source.section;
  }
  get value(): BigUint64Array {
    return (this.#columns ??= readColumns(this.#source)).value;
  }
  get size(): BigUint64Array {
    return (this.#columns ??= readColumns(this.#source)).size;
  }
  get info(): Uint8Array {
    return (this.#columns ??= readColumns(this.#source)).info;
  }
  get other(): Uint8Array {
    return (this.#columns ??= readColumns(this.#source)).other;
  }
  get sectionIndex(): Uint32Array {
    return (this.#columns ??= readColumns(this.#source)).sectionIndex;
  }

  /** File position of the name's first byte; the row must exist. */
  #nameStart(index: number): number {
    const offset = (this.#columns ??= readColumns(this.#source)).nameOffset[index];
    if (offset === undefined) {
      throw new ElftraceError(
        'bad-reference',
        `${this.#source.what}: no symbol ${index}, the table has ${this.count}`,
        {
          what: this.#source.what,
          value: index,
          max: this.count - 1,
        },
      );
    }
    return this.#source.strings.offset + offset;
  }

  name(index: number): string {
    const start = this.#nameStart(index);
    const names = this.#names;
    const known = names[index];
    if (known !== undefined) return known;
    const { strings, view, what } = this.#source;
    const end = strings.offset + strings.size;
    const limit = Math.min(end, start + NAME_LIMIT);
    const name = cString(view.bytes, start, limit);
    if (limit < end && name.length >= NAME_LIMIT) {
      throw malformed(`${what}: symbol ${index}: st_name`, `the name has more than ${NAME_LIMIT} bytes`, {
        fileOffset: start,
      });
    }
    names[index] = name;
    return name;
  }

  nameStartsWith(index: number, prefix: string): boolean {
    const start = this.#nameStart(index);
    const { strings, view } = this.#source;
    if (start + prefix.length > strings.offset + strings.size) return false;
    for (let i = 0; i < prefix.length; i++) if (view.bytes[start + i] !== prefix.charCodeAt(i)) return false;
    return true;
  }

  find(name: string): number {
    if (this.count === 0) return -1;
    const { view, strings } = this.#source;
    this.#columns ??= readColumns(this.#source);
    if (this.#index === null && this.#searched++ < SEARCHES && !this.mayHave(name)) return -1;
    const wanted = nameBytes(name);
    const index = (this.#index ??= this.#buildIndex());
    const end = strings.offset + strings.size;
    const hash = hashName(wanted, 0, wanted.length);
    for (let row = index.heads[hash & (index.heads.length - 1)]!; row >= 0; row = index.next[row]!) {
      const start = this.#nameStart(row);
      if (start + wanted.length > end) continue;
      if (start + wanted.length < end && view.bytes[start + wanted.length] !== 0) continue;
      let i = 0;
      while (i < wanted.length && view.bytes[start + i] === wanted[i]) i++;
      if (i === wanted.length) return row;
    }
    return -1;
  }

  /**
   * False where the string table has no such string. Many files are asked for few names that they
   * do not have, and an index of all names costs fifty times as much as this search.
   */
  mayHave(wanted: string): boolean {
    const { view, strings } = this.#source;
    const { buffer, byteOffset } = view.bytes;
    if (typeof Buffer === 'undefined') return true;
    const text = (this.#text ??= Buffer.from(buffer, byteOffset + strings.offset, strings.size));
    return PRINTABLE.test(wanted) ? text.includes(wanted, 0, 'latin1') : text.includes(Buffer.from(nameBytes(wanted)));
  }

  #buildIndex(): NameIndex {
    const { view, strings } = this.#source;
    const { nameOffset } = (this.#columns ??= readColumns(this.#source));
    let buckets = 16;
    while (buckets < this.count) buckets *= 2;
    const heads = new Int32Array(buckets).fill(-1);
    const next = new Int32Array(this.count);
    const end = strings.offset + strings.size;
    // From the last row to the first, so that a chain begins with the first symbol of a name.
    for (let row = this.count - 1; row >= 0; row--) {
      const bucket = hashName(view.bytes, strings.offset + nameOffset[row]!, end) & (buckets - 1);
      next[row] = heads[bucket]!;
      heads[bucket] = row;
    }
    return { heads, next };
  }
}

/** False where no name of the table has a text (ASCII) in it: a search without an index. */
export function mayHaveName(table: SymbolTable, text: string): boolean {
  return !(table instanceof LazySymbolTable) || table.mayHave(text);
}

/** FNV-1a over the NUL-terminated bytes, at most HASHED_BYTES of them. */
function hashName(bytes: Uint8Array, start: number, end: number): number {
  let hash = 0x811c_9dc5;
  const stop = Math.min(end, start + HASHED_BYTES);
  for (let i = start; i < stop; i++) {
    const byte = bytes[i]!;
    if (byte === 0) break;
    hash = Math.imul(hash ^ byte, 0x0100_0193);
  }
  return (hash ^ (hash >>> 15)) >>> 0;
}

function readColumns(source: SymbolSource): Columns {
  const { view, is64, count, strings } = source;
  const value = new BigUint64Array(count);
  const size = new BigUint64Array(count);
  const info = new Uint8Array(count);
  const other = new Uint8Array(count);
  const sectionIndex = new Uint32Array(count);
  const nameOffset = new Uint32Array(count);
  const values = halves(value);
  const sizes = halves(size);
  const step = symbolBytes(is64) / 4;
  const words = wordsOf(view, source.offset, step * count);
  // Words of Elf32_Sym and Elf64_Sym; st_info, st_other and st_shndx share one.
  const aboutAt = is64 ? 1 : 3;
  const valueAt = is64 ? 2 : 1;
  const sizeAt = is64 ? 4 : 2;
  const [infoShift, otherShift, sectionShift] = view.littleEndian ? [0, 8, 16] : [24, 16, 0];
  // Of a 64-bit field in file order; a 32-bit field is its own low half.
  const low = is64 && !view.littleEndian ? 1 : 0;
  const high = 1 - low;
  const plainSections = Math.min(source.sectionCount ?? SHN_LORESERVE, SHN_LORESERVE);
  for (let row = 0, at = 0; row < count; row++, at += step) {
    const name = words[at]!;
    if (name >= strings.size && name !== 0) {
      throw badRow(source, row, 'st_name', `${hex(name)} is outside the string table of ${strings.size} bytes`, name);
    }
    nameOffset[row] = name;
    const about = words[at + aboutAt]!;
    info[row] = about >>> infoShift;
    other[row] = about >>> otherShift;
    values[2 * row + LOW] = words[at + valueAt + low]!;
    sizes[2 * row + LOW] = words[at + sizeAt + low]!;
    if (is64) {
      values[2 * row + HIGH] = words[at + valueAt + high]!;
      sizes[2 * row + HIGH] = words[at + sizeAt + high]!;
    }
    let index = (about >>> sectionShift) & 0xffff;
    if (index >= plainSections) index = sectionOf(source, row, index);
    sectionIndex[row] = index;
  }
  return { value, size, info, other, sectionIndex, nameOffset };
}

/**
 * The section of a row whose number is none of a plain section: reserved, resolved by the table of
 * extended numbers, or behind the last one.
 */
function sectionOf(source: SymbolSource, row: number, given: number): number {
  const { view, sectionCount, extendedIndices } = source;
  if (given >= SHN_LORESERVE && given !== SHN_XINDEX) return (0xffff_0000 | given) >>> 0;
  let index = given;
  if (given === SHN_XINDEX) {
    if (extendedIndices === null || row >= extendedIndices.count) {
      throw badRow(source, row, 'st_shndx', 'SHN_XINDEX without an entry of SHT_SYMTAB_SHNDX', index);
    }
    index = view.u32(extendedIndices.offset + 4 * row);
  }
  if (sectionCount !== null && index >= sectionCount) {
    throw badRow(source, row, 'st_shndx', `section ${index}, the file has ${sectionCount}`, index);
  }
  return index;
}

function badRow(source: SymbolSource, row: number, field: string, cause: string, value: number): ElftraceError {
  const what = `${source.what}: symbol ${row}: ${field}`;
  return new ElftraceError('bad-reference', `${what}: ${cause}`, {
    what,
    value,
    fileOffset: source.offset + row * symbolBytes(source.is64),
  });
}
