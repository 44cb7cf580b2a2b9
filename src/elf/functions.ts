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
import { mayHaveName } from './symbols.js';
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
  /**
   * The same of many places of one section (or image), which mostly ascend: `into` has one element
   * for each of `places`.
   */
  atEach(section: SectionIndex, places: BigUint64Array, into: Column<Int32Array, SymbolIndex>): void;
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

/** How names of the padding in front of functions begin. */
const PREFIX = '__pfx_';

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
    const { functions, labels, prefixes } = listKinds(image, symbols);
    const rows = (list: Uint32Array): Rows => new Rows(image, symbols, list, this.relocatable, place);
    this.functions = rows(functions);
    this.labels = rows(labels);
    this.#prefixes = rows(prefixes);
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

  atEach(section: SectionIndex, places: BigUint64Array, into: Column<Int32Array, SymbolIndex>): void {
    const { functions, labels } = this;
    functions.coveringEach(section, places, into);
    if (labels.count === 0) return;
    for (let i = 0; i < into.length; i++) if (into[i]! < 0) into[i] = this.at(section, places[i]!);
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

/** The symbols of each kind, in the order of their table. */
interface Kinds {
  readonly functions: Uint32Array;
  readonly labels: Uint32Array;
  readonly prefixes: Uint32Array;
}

function listKinds(image: ElfImage, symbols: SymbolTable): Kinds {
  const { count, info, sectionIndex } = symbols;
  const executable = new Uint8Array(image.sections.length);
  for (const section of image.sections) executable[section.index] = (section.flags & SHF_EXECINSTR) !== 0n ? 1 : 0;
  const withoutSections = image.sections.length === 0;
  const hasPrefixes = mayHaveName(symbols, PREFIX);
  const functions = new Uint32Array(count);
  const labels: number[] = [];
  const prefixes: number[] = [];
  let found = 0;
  for (let i = 1; i < count; i++) {
    const section = sectionIndex[i]!;
    if (section === SHN_UNDEF || section >= SHN_LORESERVE_RESOLVED) continue;
    const type = info[i]! & 15;
    const isFunction = type === STT_FUNC || type === STT_GNU_IFUNC;
    if (!isFunction && (type !== STT_NOTYPE || (!withoutSections && executable[section] !== 1))) continue;
    if (hasPrefixes && symbols.nameStartsWith(i, PREFIX)) prefixes.push(i);
    else if (isFunction) functions[found++] = i;
    else if (info[i]! >>> 4 === STB_LOCAL) continue;
    else if (!symbols.nameStartsWith(i, '$') && !symbols.nameStartsWith(i, '.L')) labels.push(i);
  }
  return {
    functions: functions.subarray(0, found),
    labels: Uint32Array.from(labels),
    prefixes: Uint32Array.from(prefixes),
  };
}

/** Places of one kind in the order of the symbol table. */
interface Candidates {
  readonly count: number;
  readonly symbol: Column<Uint32Array, SymbolIndex>;
  readonly section: Column<Uint32Array, SectionIndex>;
  readonly start: BigUint64Array;
  /** Each lies behind the one in front of it, so that no place has two names. */
  readonly isAscending: boolean;
}

const NO_CANDIDATES: Candidates = {
  count: 0,
  symbol: new Uint32Array(0),
  section: new Uint32Array(0),
  start: new BigUint64Array(0),
  isAscending: true,
};

function candidatesOf(
  { sectionIndex, value }: SymbolTable,
  list: Uint32Array,
  relocatable: boolean,
  place: FunctionOptions['place'],
): Candidates {
  const values = halves(value);
  const first = list[0]!;
  // Without descriptors each symbol has a place, and symbols in a row have theirs in the table.
  const isPart = place === undefined && list[list.length - 1]! - first === list.length - 1;
  const symbol = place === undefined ? list : new Uint32Array(list.length);
  const section = isPart ? sectionIndex.subarray(first, first + list.length) : new Uint32Array(list.length);
  const start = isPart ? value.subarray(first, first + list.length) : new BigUint64Array(list.length);
  const starts = halves(start);
  let isAscending = true;
  let count = 0;
  for (let k = 0; k < list.length; k++) {
    const i = list[k]!;
    const translated = place?.(i);
    if (translated === null) continue;
    if (!isPart) {
      section[count] = translated?.section ?? sectionIndex[i]!;
      if (translated !== undefined) start[count] = translated.value;
      else {
        starts[2 * count + LOW] = values[2 * i + LOW]!;
        starts[2 * count + HIGH] = values[2 * i + HIGH]!;
      }
    }
    symbol[count] = i;
    if (isAscending && count > 0) {
      const low = 2 * count + LOW;
      const high = 2 * count + HIGH;
      const here = relocatable ? section[count]! - section[count - 1]! : 0;
      const above = here === 0 ? starts[high]! - starts[high - 2]! : here;
      isAscending = above > 0 || (above === 0 && starts[low]! > starts[low - 2]!);
    }
    count++;
  }
  return { count, symbol, section, start, isAscending };
}

/** The order of candidates by their places; those of one place by how good a name each gives. */
function orderOf({ count, symbol, section, start }: Candidates, symbols: SymbolTable, relocatable: boolean) {
  const { info } = symbols;
  const sizes = halves(symbols.size);
  const starts = halves(start);
  const low = new Uint32Array(count);
  const high = new Uint32Array(count);
  const rank = new Uint32Array(count);
  for (let row = 0; row < count; row++) {
    const i = symbol[row]!;
    low[row] = starts[2 * row + LOW]!;
    high[row] = starts[2 * row + HIGH]!;
    const binding = info[i]! >>> 4;
    // STB_GNU_UNIQUE and other bindings behave as global ones.
    const weak = binding === STB_GLOBAL ? 0 : binding === STB_WEAK ? 1 : binding === STB_LOCAL ? 2 : 0;
    rank[row] = weak * 2 + (sizes[2 * i + LOW] === 0 && sizes[2 * i + HIGH] === 0 ? 1 : 0);
  }
  return sortedOrder(relocatable ? [rank, low, high, section] : [rank, low, high], count);
}

/** Whether an element of a column, by its halves, is greater than a value. */
function isAbove(words: Uint32Array, row: number, high: number, low: number): boolean {
  const upper = words[2 * row + HIGH]!;
  return upper > high || (upper === high && words[2 * row + LOW]! > low);
}

/** Sorted places of one kind, and the aliases behind them. */
class Rows implements FunctionColumns {
  readonly count: number;
  readonly symbol: Column<Uint32Array, SymbolIndex>;
  readonly section: Column<Uint32Array, SectionIndex>;
  readonly start: BigUint64Array;
  readonly end: BigUint64Array;
  /**
   * Every symbol in sorted order; row r has the aliases [#first[r], #first[r + 1]). Null: each row
   * has one.
   */
  readonly #sorted: Uint32Array;
  readonly #first: Uint32Array | null;
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
    list: Uint32Array,
    relocatable: boolean,
    place: FunctionOptions['place'],
  ) {
    this.#relocatable = relocatable;
    this.#symbolCount = symbols.count;
    const candidates = list.length === 0 ? NO_CANDIDATES : candidatesOf(symbols, list, relocatable, place);
    const { count, symbol, section, start } = candidates;
    if (candidates.isAscending) {
      this.#sorted = symbol.subarray(0, count);
      this.#first = null;
      this.count = count;
      this.symbol = this.#sorted;
      this.section = section.subarray(0, count);
      this.start = start.subarray(0, count);
    } else {
      const order = orderOf(candidates, symbols, relocatable);
      this.#sorted = new Uint32Array(count);
      const first = new Uint32Array(count + 1);
      let rows = 0;
      let previous = -1;
      for (let i = 0; i < count; i++) {
        const row = order[i]!;
        this.#sorted[i] = symbol[row]!;
        const isOther = previous < 0 || start[row] !== start[previous];
        if (isOther || (relocatable && section[row] !== section[previous])) first[rows++] = i;
        previous = row;
      }
      first[rows] = count;
      this.#first = first.subarray(0, rows + 1);
      this.count = rows;
      this.symbol = new Uint32Array(rows);
      this.section = new Uint32Array(rows);
      this.start = new BigUint64Array(rows);
      for (let row = 0; row < rows; row++) {
        const from = order[first[row]!]!;
        this.symbol[row] = symbol[from]!;
        this.section[row] = section[from]!;
        this.start[row] = start[from]!;
      }
    }
    this.end = new BigUint64Array(this.count);
    this.#outer = new Int32Array(this.count);
    if (this.count > 0) this.#fillEnds(image, symbols);
  }

  /** Where the aliases of a row begin in `#sorted`. */
  #aliases(row: number): number {
    return this.#first === null ? row : this.#first[row]!;
  }

  /**
   * Ends, by the size of the largest alias, and what is nested in what. Of halves: a million rows
   * make no bigint.
   */
  #fillEnds(image: ElfImage, symbols: SymbolTable): void {
    const { section, symbol, count } = this;
    const relocatable = this.#relocatable;
    const first = this.#first;
    const outer = this.#outer;
    const sizes = halves(symbols.size);
    const starts = halves(this.start);
    const ends = halves(this.end);
    let top = -1;
    for (let row = 0; row < count; row++) {
      const low = 2 * row + LOW;
      const high = 2 * row + HIGH;
      let of = symbol[row]!;
      if (first !== null && first[row + 1]! - first[row]! > 1) of = this.#largest(row, symbols);
      if (sizes[2 * of + LOW] === 0 && sizes[2 * of + HIGH] === 0) this.end[row] = this.#openEnd(row, image);
      else {
        const sum = starts[low]! + sizes[2 * of + LOW]!;
        const upper = starts[high]! + sizes[2 * of + HIGH]! + (sum > 0xffff_ffff ? 1 : 0);
        ends[low] = upper > 0xffff_ffff ? 0xffff_ffff : sum;
        ends[high] = upper > 0xffff_ffff ? 0xffff_ffff : upper;
      }
      while (top >= 0) {
        const above = ends[2 * top + HIGH]! - starts[high]!;
        const reaches = above > 0 || (above === 0 && ends[2 * top + LOW]! > starts[low]!);
        if (reaches && (!relocatable || section[top] === section[row])) break;
        top = outer[top]!;
      }
      outer[row] = top;
      top = row;
    }
  }

  /** The alias of the largest size. */
  #largest(row: number, { size }: SymbolTable): SymbolIndex {
    const aliases = this.#sorted.subarray(this.#aliases(row), this.#aliases(row + 1));
    return aliases.reduce((largest, each) => (size[each]! > size[largest]! ? each : largest));
  }

  /** Without a size: up to the next place or the section's end, whichever comes first. */
  #openEnd(row: number, image: ElfImage): bigint {
    const limit = 0xffff_ffff_ffff_ffffn;
    const start = this.start[row]!;
    const section = image.sections[this.section[row]!];
    const sectionEnd =
      section === undefined ? limit : (this.#relocatable ? 0n : section.address) + BigInt(section.size);
    const hasNext = row + 1 < this.count && (!this.#relocatable || this.section[row + 1] === this.section[row]);
    const next = hasNext ? this.start[row + 1]! : limit;
    const end = next < sectionEnd ? next : sectionEnd;
    return end > limit ? limit : end < start ? start : end;
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

  /**
   * The symbols of the rows that cover places of one section, -1 where none does. One loop, which
   * goes on from the row of the place before: places come in order, mostly.
   */
  coveringEach(section: SectionIndex, places: BigUint64Array, into: Int32Array): void {
    const { symbol, count } = this;
    const home = this.section;
    const relocatable = this.#relocatable;
    const outer = this.#outer;
    const starts = halves(this.start);
    const ends = halves(this.end);
    const words = halves(places);
    // The last row that is not behind the place.
    let row = -1;
    for (let i = 0; i < into.length; i++) {
      const low = words[2 * i + LOW]!;
      const high = words[2 * i + HIGH]!;
      for (let step = 0; ; step++) {
        const isHere = row >= 0 && (!relocatable || home[row] === section) && !isAbove(starts, row, high, low);
        const next = row + 1;
        const isLast = next >= count || (relocatable && home[next] !== section) || isAbove(starts, next, high, low);
        if (isHere && isLast) break;
        if (!isHere || step === 16) {
          row = this.lastFrom(section, places[i]!);
          break;
        }
        row = next;
      }
      let found = row;
      while (found >= 0 && !isAbove(ends, found, high, low)) found = outer[found]!;
      into[i] = found < 0 ? -1 : symbol[found]!;
    }
  }

  allAt(section: SectionIndex, address: bigint): readonly number[] {
    const row = this.exactly(section, address);
    return row < 0 ? [] : [...this.#sorted.subarray(this.#aliases(row), this.#aliases(row + 1))];
  }

  rowOf(symbolIndex: SymbolIndex): number {
    if (this.#rowOf === null) {
      this.#rowOf = new Int32Array(this.#symbolCount).fill(-1);
      for (let row = 0; row < this.count; row++) {
        const end = this.#aliases(row + 1);
        for (let i = this.#aliases(row); i < end; i++) this.#rowOf[this.#sorted[i]!] = row;
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
