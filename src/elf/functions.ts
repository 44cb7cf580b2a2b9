/**
 * Which function is at an address: the function symbols of a table, sorted once. In a relocatable
 * file places are (section, offset), elsewhere addresses. Owns the choice among aliases; how a
 * descriptor (`.opd`) becomes a place is the machine's business and comes in as `place`.
 *
 * Rows, and which symbol speaks for a place that has several:
 * 1. STT_FUNC and STT_GNU_IFUNC before labels; global before weak before local; with a size before
 *    without; then table order.
 * 2. Labels are global or weak STT_NOTYPE symbols of executable sections (functions of hand-written
 *    assembly). They only speak where no function with a size covers the place.
 * 3. Never: mapping symbols (`$x`, `$d`, …), `.L` labels, undefined, absolute and common symbols.
 *    `__pfx_` symbols, which name the padding in front of x86-64 kernel functions, are kept apart.
 */
import {
  ET_REL,
  SHF_EXECINSTR,
  SHN_LORESERVE_RESOLVED,
  SHN_UNDEF,
  STB_GLOBAL,
  STB_LOCAL,
  STB_WEAK,
  STT_FUNC,
  STT_GNU_IFUNC,
  STT_NOTYPE,
} from './constants.js';
import type { ElfImage, SymbolTable } from './image.js';
import { halves, HIGH, LOW, sortedOrder } from './lookup.js';
import type { Column, SectionIndex, SymbolIndex } from '../units.js';

/**
 * Where a symbol's code lies: an offset in a section (relocatable files), or an address (its
 * section then, or 0).
 */
export interface SymbolPlace {
  readonly section: SectionIndex;
  readonly value: bigint;
}

export interface FunctionOptions {
  /** The table to index; `image.symbols` when absent. */
  readonly symbols?: SymbolTable;
  /**
   * Place of a symbol's code where it is not st_value (PPC64 ELFv1: the entry of the descriptor).
   * Null leaves the symbol out; undefined means that st_shndx and st_value hold.
   */
  readonly place?: (symbolIndex: SymbolIndex) => SymbolPlace | null | undefined;
}

/**
 * One list of places in ascending order: one row for each distinct place, with the symbol that
 * speaks for it.
 */
export interface FunctionColumns {
  readonly count: number;
  readonly symbol: Column<Uint32Array, SymbolIndex>;
  /** Section of the place; in a linked file the symbol's section, by which nothing is sorted. */
  readonly section: Column<Uint32Array, SectionIndex>;
  readonly start: BigUint64Array;
  /** First byte behind the function: by st_size, or where the next function or the section ends. */
  readonly end: BigUint64Array;
  /** The row of a symbol's place, whichever symbol speaks for it; -1 for other symbols. */
  rowOf(symbolIndex: SymbolIndex): number;
}

export interface FunctionIndex {
  readonly symbols: SymbolTable;
  /** True when places are (section, offset). */
  readonly relocatable: boolean;
  /** STT_FUNC and STT_GNU_IFUNC. */
  readonly functions: FunctionColumns;
  /** STT_NOTYPE labels of executable sections. */
  readonly labels: FunctionColumns;
  /**
   * The symbol of the function (or else label) that covers the place, or -1. `section` matters in
   * relocatable files only.
   */
  at(section: SectionIndex, address: bigint): SymbolIndex;
  /** The symbol that speaks for a function or label that begins exactly there, or -1. */
  starting(section: SectionIndex, address: bigint): SymbolIndex;
  /**
   * The first function or label that begins behind `address` in its section (relocatable) or image,
   * or -1.
   */
  next(section: SectionIndex, address: bigint): SymbolIndex;
  /** The last one that begins in front of `address`, or -1. */
  previous(section: SectionIndex, address: bigint): SymbolIndex;
  /** All function and label symbols of that place, the one that speaks first. */
  aliases(section: SectionIndex, address: bigint): readonly SymbolIndex[];
  /** Place of an indexed symbol; undefined for others. */
  placeOf(symbolIndex: SymbolIndex): SymbolPlace | undefined;
  /** First byte behind an indexed function; undefined for others. */
  endOf(symbolIndex: SymbolIndex): bigint | undefined;
  /** True when the symbol is a label, the second choice. */
  isLabel(symbolIndex: SymbolIndex): boolean;
  /** The `__pfx_` symbol that begins exactly there, or -1. */
  prefixStarting(section: SectionIndex, address: bigint): SymbolIndex;
}

const KIND_FUNCTION = 1;
const KIND_LABEL = 2;
const KIND_PREFIX = 3;

/**
 * Builds the index; a million symbols take about 0.2 s. Symbols of damaged rows are refused by the
 * table itself. Lookups cost a binary search.
 */
export function indexFunctions(image: ElfImage, options: FunctionOptions = {}): FunctionIndex {
  return new Index(image, options.symbols ?? image.symbols, options.place);
}

class Index implements FunctionIndex {
  readonly relocatable: boolean;
  readonly functions: Rows;
  readonly labels: Rows;
  readonly #prefixes: Rows;

  constructor(
    image: ElfImage,
    readonly symbols: SymbolTable,
    place: FunctionOptions['place'],
  ) {
    this.relocatable = image.header.type === ET_REL;
    const { count, info, sectionIndex } = symbols;
    const executable = new Uint8Array(image.sections.length);
    for (const section of image.sections) executable[section.index] = (section.flags & SHF_EXECINSTR) !== 0n ? 1 : 0;
    const withoutSections = image.sections.length === 0;
    const kinds = new Uint8Array(count);
    const counts = [0, 0, 0, 0];
    for (let i = 1; i < count; i++) {
      const section = sectionIndex[i]!;
      if (section === SHN_UNDEF || section >= SHN_LORESERVE_RESOLVED) continue;
      const type = info[i]! & 15;
      let kind: number;
      if (type === STT_FUNC || type === STT_GNU_IFUNC) {
        kind = symbols.nameStartsWith(i, '__pfx_') ? KIND_PREFIX : KIND_FUNCTION;
      } else if (type === STT_NOTYPE) {
        if (!withoutSections && executable[section] !== 1) continue;
        if (symbols.nameStartsWith(i, '__pfx_')) kind = KIND_PREFIX;
        else if (info[i]! >>> 4 === STB_LOCAL) continue;
        else if (symbols.nameStartsWith(i, '$') || symbols.nameStartsWith(i, '.L')) continue;
        else kind = KIND_LABEL;
      } else continue;
      kinds[i] = kind;
      counts[kind]!++;
    }
    const rows = (kind: number): Rows => new Rows(image, symbols, kinds, kind, counts[kind]!, this.relocatable, place);
    this.functions = rows(KIND_FUNCTION);
    this.labels = rows(KIND_LABEL);
    this.#prefixes = rows(KIND_PREFIX);
  }

  at(section: SectionIndex, address: bigint): SymbolIndex {
    const row = this.functions.covering(section, address);
    if (row >= 0) return this.functions.symbol[row]!;
    // A label reaches to the next label or function, not into one.
    const label = this.labels.covering(section, address);
    if (label < 0) return -1;
    const before = this.functions.lastFrom(section, address);
    if (before >= 0 && this.functions.start[before]! > this.labels.start[label]!) return -1;
    return this.labels.symbol[label]!;
  }

  starting(section: SectionIndex, address: bigint): SymbolIndex {
    const row = this.functions.exactly(section, address);
    if (row >= 0) return this.functions.symbol[row]!;
    const label = this.labels.exactly(section, address);
    return label >= 0 ? this.labels.symbol[label]! : -1;
  }

  next(section: SectionIndex, address: bigint): SymbolIndex {
    const row = this.functions.after(section, address);
    const label = this.labels.after(section, address);
    if (row < 0) return label < 0 ? -1 : this.labels.symbol[label]!;
    if (label < 0 || this.functions.start[row]! <= this.labels.start[label]!) return this.functions.symbol[row]!;
    return this.labels.symbol[label]!;
  }

  previous(section: SectionIndex, address: bigint): SymbolIndex {
    const before = address - 1n;
    const row = this.functions.lastFrom(section, before);
    const label = this.labels.lastFrom(section, before);
    if (row < 0) return label < 0 ? -1 : this.labels.symbol[label]!;
    if (label < 0 || this.functions.start[row]! >= this.labels.start[label]!) return this.functions.symbol[row]!;
    return this.labels.symbol[label]!;
  }

  aliases(section: SectionIndex, address: bigint): readonly SymbolIndex[] {
    return [...this.functions.allAt(section, address), ...this.labels.allAt(section, address)];
  }

  placeOf(symbolIndex: SymbolIndex): SymbolPlace | undefined {
    return this.functions.placeOf(symbolIndex) ?? this.labels.placeOf(symbolIndex);
  }

  endOf(symbolIndex: SymbolIndex): bigint | undefined {
    return this.functions.endOf(symbolIndex) ?? this.labels.endOf(symbolIndex);
  }

  isLabel(symbolIndex: SymbolIndex): boolean {
    return this.labels.placeOf(symbolIndex) !== undefined;
  }

  prefixStarting(section: SectionIndex, address: bigint): SymbolIndex {
    const row = this.#prefixes.exactly(section, address);
    return row >= 0 ? this.#prefixes.symbol[row]! : -1;
  }
}

/** Places of one kind in the order of the symbol table, and how good a name each gives. */
interface Candidates {
  readonly count: number;
  readonly symbol: Column<Uint32Array, SymbolIndex>;
  readonly section: Column<Uint32Array, SectionIndex>;
  /** Halves of the place. */
  readonly low: Uint32Array;
  readonly high: Uint32Array;
  readonly rank: Uint32Array;
}

/** @param candidates  how many there are at most */
function candidatesOf(
  symbols: SymbolTable,
  kinds: Uint8Array,
  kind: number,
  candidates: number,
  place: FunctionOptions['place'],
): Candidates {
  const { info } = symbols;
  const values = halves(symbols.value);
  const sizes = halves(symbols.size);
  const symbol = new Uint32Array(candidates);
  const section = new Uint32Array(candidates);
  const low = new Uint32Array(candidates);
  const high = new Uint32Array(candidates);
  const rank = new Uint32Array(candidates);
  let count = 0;
  for (let i = 0; i < kinds.length; i++) {
    if (kinds[i] !== kind) continue;
    const translated = place?.(i);
    if (translated === null) continue;
    if (translated === undefined) {
      section[count] = symbols.sectionIndex[i]!;
      low[count] = values[2 * i + LOW]!;
      high[count] = values[2 * i + HIGH]!;
    } else {
      section[count] = translated.section;
      low[count] = Number(translated.value & 0xffff_ffffn);
      high[count] = Number((translated.value >> 32n) & 0xffff_ffffn);
    }
    const binding = info[i]! >>> 4;
    // STB_GNU_UNIQUE and other bindings behave as global ones.
    const weak = binding === STB_GLOBAL ? 0 : binding === STB_WEAK ? 1 : binding === STB_LOCAL ? 2 : 0;
    rank[count] = weak * 2 + (sizes[2 * i + LOW] === 0 && sizes[2 * i + HIGH] === 0 ? 1 : 0);
    symbol[count++] = i;
  }
  return { count, symbol, section, low, high, rank };
}

/** Sorted places of one kind, and the aliases behind them. */
class Rows implements FunctionColumns {
  readonly count: number;
  readonly symbol: Column<Uint32Array, SymbolIndex>;
  readonly section: Column<Uint32Array, SectionIndex>;
  readonly start: BigUint64Array;
  readonly end: BigUint64Array;
  /** Every symbol in sorted order; row r has the aliases [#first[r], #first[r + 1]). */
  readonly #sorted: Uint32Array;
  readonly #first: Uint32Array;
  /** The nearest earlier row whose range reaches beyond this row's start, or -1. */
  readonly #outer: Int32Array;
  readonly #relocatable: boolean;
  #rowOf: Int32Array | null = null;
  /** Where the last search ended. */
  #last = 0;
  readonly #symbolCount: number;

  constructor(
    image: ElfImage,
    symbols: SymbolTable,
    kinds: Uint8Array,
    kind: number,
    candidates: number,
    relocatable: boolean,
    place: FunctionOptions['place'],
  ) {
    this.#relocatable = relocatable;
    this.#symbolCount = symbols.count;
    const { count, symbol, section, low, high, rank } = candidatesOf(symbols, kinds, kind, candidates, place);
    const order = sortedOrder(relocatable ? [rank, low, high, section] : [rank, low, high], count);

    this.#sorted = new Uint32Array(count);
    const first = new Uint32Array(count + 1);
    let rows = 0;
    let previous = -1;
    for (let i = 0; i < count; i++) {
      const row = order[i]!;
      this.#sorted[i] = symbol[row]!;
      if (
        previous < 0 ||
        low[row] !== low[previous] ||
        high[row] !== high[previous] ||
        (relocatable && section[row] !== section[previous])
      ) {
        first[rows++] = i;
      }
      previous = row;
    }
    first[rows] = count;
    this.#first = first.subarray(0, rows + 1);
    this.count = rows;
    this.symbol = new Uint32Array(rows);
    this.section = new Uint32Array(rows);
    this.start = new BigUint64Array(rows);
    this.end = new BigUint64Array(rows);
    const starts = halves(this.start);
    for (let row = 0; row < rows; row++) {
      const from = order[first[row]!]!;
      this.symbol[row] = symbol[from]!;
      this.section[row] = section[from]!;
      starts[2 * row + LOW] = low[from]!;
      starts[2 * row + HIGH] = high[from]!;
    }
    this.#fillEnds(image, symbols);
    this.#outer = this.#nest();
  }

  /**
   * Size of the largest alias; 0 means up to the next place or the section's end, whichever comes
   * first.
   */
  #fillEnds(image: ElfImage, symbols: SymbolTable): void {
    const limit = 0xffff_ffff_ffff_ffffn;
    for (let row = 0; row < this.count; row++) {
      const start = this.start[row]!;
      let size = symbols.size[this.symbol[row]!]!;
      for (let i = this.#first[row]! + 1; i < this.#first[row + 1]!; i++) {
        const other = symbols.size[this.#sorted[i]!]!;
        if (other > size) size = other;
      }
      let end: bigint;
      if (size !== 0n) end = start + size;
      else {
        const section = image.sections[this.section[row]!];
        const sectionEnd =
          section === undefined ? limit : (this.#relocatable ? 0n : section.address) + BigInt(section.size);
        const next =
          row + 1 < this.count && (!this.#relocatable || this.section[row + 1] === this.section[row])
            ? this.start[row + 1]!
            : limit;
        end = next < sectionEnd ? next : sectionEnd;
      }
      this.end[row] = end > limit ? limit : end < start ? start : end;
    }
  }

  #nest(): Int32Array {
    const outer = new Int32Array(this.count);
    let top = -1;
    for (let row = 0; row < this.count; row++) {
      const start = this.start[row]!;
      while (top >= 0 && ((this.#relocatable && this.section[top] !== this.section[row]) || this.end[top]! <= start)) {
        top = outer[top]!;
      }
      outer[row] = top;
      top = row;
    }
    return outer;
  }

  /** -1, 0 or 1: the row's place against the given one. */
  #compare(row: number, section: SectionIndex, address: bigint): number {
    if (this.#relocatable) {
      const here = this.section[row]!;
      if (here !== section) return here < section ? -1 : 1;
    }
    const start = this.start[row]!;
    return start < address ? -1 : start > address ? 1 : 0;
  }

  /** Rows whose place is not behind the given one. Places are asked for in order, mostly. */
  #upTo(section: SectionIndex, address: bigint): number {
    const last = this.#last;
    if (last < this.count && this.#compare(last, section, address) <= 0) {
      for (let next = last + 1; next <= last + 2; next++) {
        if (next < this.count && this.#compare(next, section, address) <= 0) continue;
        this.#last = next - 1;
        return next;
      }
    }
    let low = 0;
    let high = this.count;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (this.#compare(middle, section, address) <= 0) low = middle + 1;
      else high = middle;
    }
    this.#last = Math.max(0, low - 1);
    return low;
  }

  /** The last row that starts at or in front of the place, in the same section; or -1. */
  lastFrom(section: SectionIndex, address: bigint): number {
    const row = this.#upTo(section, address) - 1;
    return row >= 0 && (!this.#relocatable || this.section[row] === section) ? row : -1;
  }

  after(section: SectionIndex, address: bigint): number {
    const row = this.#upTo(section, address);
    return row < this.count && (!this.#relocatable || this.section[row] === section) ? row : -1;
  }

  exactly(section: SectionIndex, address: bigint): number {
    const row = this.lastFrom(section, address);
    return row >= 0 && this.start[row] === address ? row : -1;
  }

  covering(section: SectionIndex, address: bigint): number {
    let row = this.lastFrom(section, address);
    while (row >= 0 && this.end[row]! <= address) row = this.#outer[row]!;
    return row;
  }

  allAt(section: SectionIndex, address: bigint): readonly number[] {
    const row = this.exactly(section, address);
    return row < 0 ? [] : [...this.#sorted.subarray(this.#first[row]!, this.#first[row + 1]!)];
  }

  rowOf(symbolIndex: SymbolIndex): number {
    if (this.#rowOf === null) {
      this.#rowOf = new Int32Array(this.#symbolCount).fill(-1);
      for (let row = 0; row < this.count; row++) {
        for (let i = this.#first[row]!; i < this.#first[row + 1]!; i++) this.#rowOf[this.#sorted[i]!] = row;
      }
    }
    return this.#rowOf[symbolIndex] ?? -1;
  }

  placeOf(symbolIndex: SymbolIndex): SymbolPlace | undefined {
    const row = this.rowOf(symbolIndex);
    return row < 0 ? undefined : { section: this.section[row]!, value: this.start[row]! };
  }

  endOf(symbolIndex: SymbolIndex): bigint | undefined {
    const row = this.rowOf(symbolIndex);
    return row < 0 ? undefined : this.end[row]!;
  }
}
