/**
 * Relocation tables as columns: REL, RELA and the packed RELR and CREL, read when the first column
 * is asked for. What a type means is `relocs/`' and the machines' business. gABI 4.1 "Relocation";
 * for RELR the gABI proposal "Relative relocations" (SHT_RELR, 2018); for CREL the one of "Compact
 * relocations" (SHT_CREL, 2024), whose rows hold what differs from the row before (`crel.ts`).
 */
import { ElftraceError, hex, malformed } from '../errors.js';
import { RELR_RELATIVE } from './constants.js';
import { readCrel, readCrelHeader } from './crel.js';
import type { Columns, RelocationSource } from './relocation-columns.js';
import type { RelocationForm, RelocationTable, SymbolTable } from './image.js';
import { halves, HIGH, LOW, wordsOf } from './lookup.js';

/**
 * Bytes of one entry of forms that have such: Elf32_Rel 8, Elf32_Rela 12, Elf64_Rel 16, Elf64_Rela
 * 24, Relr one word.
 */
export function relocationBytes(form: 'rel' | 'rela' | 'relr', is64: boolean): number {
  const words = form === 'rela' ? 3 : form === 'rel' ? 2 : 1;
  return words * (is64 ? 8 : 4);
}

/** Rows of Elf64_Rela: offset, type and symbol, addend, of two words each. */
export interface RelocationWords {
  /** Words of a row. */
  readonly step: number;
  /** Where the lower and the upper half of a field are in it. */
  readonly low: number;
  readonly high: number;
  readonly words: Uint32Array;
}

/**
 * A `RelocationTable` over the file's bytes. Reading a column throws 'bad-reference' or
 * 'elf-malformed' for a bad row.
 */
export class LazyRelocationTable implements RelocationTable {
  readonly #source: RelocationSource;
  #columns: Columns | null = null;
  #count: number;

  constructor(source: RelocationSource) {
    this.#source = source;
    const { form, is64, sizeBytes } = source;
    this.#count = form === 'relr' || form === 'crel' ? -1 : sizeBytes / relocationBytes(form, is64);
  }

  /** Packed rows are counted on first use: those of RELR are the bits of bitmaps. */
  get count(): number {
    if (this.#count < 0) {
      this.#count = this.#source.form === 'crel' ? readCrelHeader(this.#source).count : countRelr(this.#source);
    }
    return this.#count;
  }
  get section(): number {
    return this.#source.section;
  }
  get target(): number {
    return this.#source.target;
  }
  get form(): RelocationForm {
    return this.#source.form;
  }
  get addends(): 'row' | 'place' {
    const { form } = this.#source;
    return form === 'rela' || (form === 'crel' && readCrelHeader(this.#source).addends) ? 'row' : 'place';
  }
  get symbols(): SymbolTable | null {
    return this.#source.symbols;
  }
  get offset(): BigUint64Array {
    return this.#read().offset;
  }
  get type(): Uint32Array {
    return this.#read().type;
  }
  get symbol(): Uint32Array {
    return this.#read().symbol;
  }
  get addend(): BigInt64Array {
    return this.#read().addend;
  }

  /**
   * The rows as words of the file, for who reads a table once: columns would stay. Null for forms
   * and classes whose fields are no words of their own, and once there are columns.
   */
  get words(): RelocationWords | null {
    const { form, is64, view, offset } = this.#source;
    if (form !== 'rela' || !is64 || this.#columns !== null) return null;
    const low = view.littleEndian ? 0 : 1;
    const step = relocationBytes('rela', true) / 4;
    return { step, low, high: 1 - low, words: wordsOf(view, offset, step * this.count) };
  }

  fileOffset(row: number): number {
    if (!(row >= 0 && row < this.count)) {
      throw new ElftraceError('bad-reference', `${this.#source.what}: no row ${row}, the table has ${this.count}`, {
        what: this.#source.what,
        value: row,
      });
    }
    const { form, is64, offset } = this.#source;
    return form === 'relr' || form === 'crel' ? -1 : offset + row * relocationBytes(form, is64);
  }

  #read(): Columns {
    return (this.#columns ??= readColumns(this.#source, this.count));
  }
}

function readColumns(source: RelocationSource, count: number): Columns {
  switch (source.form) {
    case 'relr':
      return readRelr(source, count);
    case 'crel': {
      const columns = readCrel(source);
      columns.symbol.forEach((index, row) => {
        requireSymbol(source, index, row, source.offset);
      });
      return columns;
    }
    case 'rel':
    case 'rela':
      return readRows(source, source.form);
    default:
      return source.form satisfies never;
  }
}

/**
 * @throws ElftraceError 'bad-reference' for a row that names a symbol behind the end of the table
 */
function requireSymbol(
  { symbols, namesNobody, what: table }: RelocationSource,
  index: number,
  row: number,
  at: number,
): void {
  const count = symbols === null ? 1 : Math.max(1, symbols.count);
  if (index < count || namesNobody === true) return;
  const what = `${table}: row ${row}: symbol`;
  const cause = symbols === null ? 'the table has no symbol table' : `the symbol table has ${symbols.count}`;
  throw new ElftraceError('bad-reference', `${what}: number ${index}, ${cause}`, {
    what,
    value: index,
    max: count - 1,
    fileOffset: at,
  });
}

function readRows(source: RelocationSource, form: 'rel' | 'rela'): Columns {
  const { view, is64, symbols, namesNobody } = source;
  const step = relocationBytes(form, is64);
  const count = source.sizeBytes / step;
  const offset = new BigUint64Array(count);
  const type = new Uint32Array(count);
  const symbol = new Uint32Array(count);
  const addend = new BigInt64Array(count);
  const offsets = halves(offset);
  const addends = halves(addend);
  const symbolCount = symbols === null ? 1 : Math.max(1, symbols.count);
  const words = wordsOf(view, source.offset, (step / 4) * count);
  // Halves of a 64-bit field in file order.
  const low = view.littleEndian ? 0 : 1;
  const high = 1 - low;
  const isRela = form === 'rela';
  for (let row = 0, at = 0; row < count; row++, at += step / 4) {
    let index: number;
    if (is64) {
      offsets[2 * row + LOW] = words[at + low]!;
      offsets[2 * row + HIGH] = words[at + high]!;
      type[row] = words[at + 2 + low]!;
      index = words[at + 2 + high]!;
      if (isRela) {
        addends[2 * row + LOW] = words[at + 4 + low]!;
        addends[2 * row + HIGH] = words[at + 4 + high]!;
      }
    } else {
      offsets[2 * row + LOW] = words[at]!;
      const info = words[at + 1]!;
      type[row] = info & 0xff;
      index = info >>> 8;
      if (isRela) {
        const value = words[at + 2]!;
        addends[2 * row + LOW] = value;
        addends[2 * row + HIGH] = (value | 0) >> 31;
      }
    }
    if (index >= symbolCount && namesNobody !== true) requireSymbol(source, index, row, source.offset + 4 * at);
    symbol[row] = index;
  }
  return { offset, type, symbol, addend };
}

function bitCount(word: number): number {
  let bits = word - ((word >>> 1) & 0x5555_5555);
  bits = (bits & 0x3333_3333) + ((bits >>> 2) & 0x3333_3333);
  return Math.imul((bits + (bits >>> 4)) & 0x0f0f_0f0f, 0x0101_0101) >>> 24;
}

/**
 * Rows of a RELR table. An even word is an address, one row; an odd word is a bitmap, one row for
 * each bit but the lowest. Each row names one word with its addend in place, so that there cannot
 * be more rows than words in the file; without that check 100 MB of ones would ask for 19 GB of
 * columns.
 */
function countRelr(source: RelocationSource): number {
  const { view, is64, offset, sizeBytes } = source;
  const wordBytes = is64 ? 8 : 4;
  const low = is64 && !view.littleEndian ? 4 : 0;
  let rows = 0;
  let based = false;
  for (let at = offset; at < offset + sizeBytes; at += wordBytes) {
    const word = view.u32(at + low);
    if ((word & 1) === 0) {
      based = true;
      rows++;
    } else {
      const bits = bitCount(word) - 1 + (is64 ? bitCount(view.u32(at + 4 - low)) : 0);
      // One without a bit is what remains of a table whose places were all emptied.
      if (!based && bits > 0) throw malformed(source.what, 'begins with a bitmap', { fileOffset: at });
      rows += bits;
    }
  }
  const limit = Math.floor(view.size / wordBytes);
  if (rows > limit) {
    throw malformed(source.what, `${rows} relative relocations in a file of ${limit} words`, {
      value: rows,
      max: limit,
      fileOffset: offset,
    });
  }
  return rows;
}

function readRelr(source: RelocationSource, count: number): Columns {
  const { view, is64, sizeBytes } = source;
  const wordBytes = is64 ? 8 : 4;
  const mask = is64 ? 0xffff_ffff_ffff_ffffn : 0xffff_ffffn;
  const offset = new BigUint64Array(count);
  const step = BigInt(wordBytes);
  const span = BigInt(wordBytes * (wordBytes * 8 - 1));
  let row = 0;
  let base = 0n;
  for (let at = source.offset; at < source.offset + sizeBytes; at += wordBytes) {
    const word = view.word(at, is64 ? 8 : 4);
    if ((word & 1n) === 0n) {
      offset[row++] = word;
      base = word + step;
    } else {
      let place = base;
      for (let bits = word >> 1n; bits !== 0n; bits >>= 1n, place += step) {
        if ((bits & 1n) !== 0n) offset[row++] = place & mask;
      }
      base += span;
    }
    if (base > mask + 1n)
      throw malformed(source.what, `address ${hex(base)} is outside the address space`, { fileOffset: at });
  }
  return {
    offset,
    type: new Uint32Array(count).fill(RELR_RELATIVE),
    symbol: new Uint32Array(count),
    addend: new BigInt64Array(count),
  };
}
