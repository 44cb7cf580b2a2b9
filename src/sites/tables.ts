/**
 * Site tables: where a file says its patch sites are. Owns: which sections and ranges are ftrace's,
 * reading their slots (words in place, relocations, RELATIVE addends, RELR), zero slots. Does not
 * look at the code that slots name.
 *
 * The three places a slot's value can be in (M-TAB-2, measured on kernels and on
 * both linkers):
 *   relocatable files    the relocation's symbol + addend; the word itself is zero and means
 *                        nothing
 *   linked, word != 0    the word; relocations that a linker kept may be stale after a build-time
 *                        sort
 *   linked, word == 0    the addend of the RELATIVE relocation at the slot, if there is one; else
 *                        an empty slot
 */
import type { Arch } from '../machine/arch.js';
import type { SiteSource } from '../machine/sites.js';
import * as elf from '../elf/constants.js';
import type { ElfImage, ElfSection, RelocationTable, SymbolTable } from '../elf/image.js';
import { ByteView } from '../bytes.js';
import { halves, HIGH, LOW, numberAt, wordsOf } from '../elf/lookup.js';
import { LazyRelocationTable } from '../elf/relocation-tables.js';
import { ElftraceError, hex, malformed } from '../errors.js';
import type { Program } from '../program/program.js';
import { isDynamic } from '../relocs/read.js';
import type { Address, Column, SectionIndex } from '../units.js';

/**
 * Slots of one table as columns; `section` and `value` name the anchor, see
 * `SlotTable.relocatable`.
 */
export interface SlotTable {
  /**
   * `__mcount_loc`, `__patchable_function_entries`, `__start_mcount_loc`, or `calls` and `record`
   * for sites found without a table.
   */
  readonly name: string;
  /**
   * What the slots name. A kernel's range does not say: `unknown` is decided by the bytes at the
   * sites.
   */
  readonly source: SiteSource | 'unknown';
  /** `padding`: listed, and no table of ftrace (nops in front of functions only). */
  readonly role: 'sites' | 'padding';
  readonly count: number;
  readonly zero: number;
  /**
   * Section index the slot's value is an offset in (relocatable files); -1 in linked files and for
   * empty slots.
   */
  readonly section: Column<Int32Array, SectionIndex>;
  /** Address, or offset in `section`; 0 for an empty slot. */
  readonly value: BigUint64Array;
  /** Its slots are places of the file; else it stands for what has no table. */
  readonly isInFile: boolean;
  /** File position of the slot; -1 where it has none. */
  readonly position: Float64Array;
  /** Section that holds the slots, -1 for calls. */
  readonly container: SectionIndex;
  readonly sorted: boolean;
  /** Where the values came from, for `info`. */
  readonly origin: 'relocations' | 'contents' | 'relative' | 'contents and relative' | 'code' | 'record';
  readonly remarks: readonly string[];
  /** Places that may belong to it, of which nothing tells that functions begin there (RT-56). */
  readonly leftOff?: number;
}

const mcountSection = '__mcount_loc';
const patchableSection = '__patchable_function_entries';

export interface TableOptions {
  /**
   * Sections to read instead of the well-known ones (-mfentry-section=NAME): their slots name
   * calls.
   */
  readonly tableSections?: readonly string[];
  /**
   * The file had a table of calls, and untracing left none: a table of pads is still one of pads.
   */
  readonly hadCalls?: boolean;
}

function wordOf(bytes: Uint8Array, offset: number, size: 4 | 8, little: boolean): bigint {
  let value = 0n;
  for (let i = 0; i < size; i += 4) {
    const at = offset + (little ? size - 4 - i : i);
    const word = little
      ? (bytes[at]! | (bytes[at + 1]! << 8) | (bytes[at + 2]! << 16) | (bytes[at + 3]! << 24)) >>> 0
      : ((bytes[at]! << 24) | (bytes[at + 1]! << 16) | (bytes[at + 2]! << 8) | bytes[at + 3]!) >>> 0;
    value = size === 4 ? BigInt(word) : (value << 32n) | BigInt(word);
  }
  return value;
}

/**
 * Why a row of a table gives no slot a value.
 * @param at  its offset
 * @throws what reading the columns of the table throws: a row that names no symbol is worse
 */
function badSlot(
  type: number,
  at: number,
  section: ElfSection,
  { relocationRoles, target }: Arch,
  table: RelocationTable,
): ElftraceError {
  void table.symbol;
  const place = { section: section.name, offset: BigInt(at) };
  if (type !== relocationRoles.word) {
    const cause = `slot at ${hex(at)} carries relocation type ${type}, not the absolute word`;
    return new ElftraceError('elf-malformed', `section ${section.name}: ${cause}`, { ...place, value: type });
  }
  const isNone = at % target.wordBytes !== 0 || at >= section.size;
  const cause = isNone
    ? `relocation at ${hex(at)} is on no slot`
    : `two relocations give the slot at ${hex(at)} a value`;
  return malformed(`section ${section.name}`, cause, place);
}

/** The slots of a section of a relocatable file, while rows of its tables fill them. */
interface RelocatedSlots {
  readonly section: ElfSection;
  readonly contents: Uint8Array;
  readonly values: BigUint64Array;
  readonly sections: Int32Array;
  /** Nonzero where a row gave a slot its value. */
  readonly filled: Uint8Array;
}

/** Fields of rows: where each begins in an array of words, and from one row to the next. */
interface RowFields {
  readonly count: number;
  readonly offsets: Uint32Array;
  readonly addends: Uint32Array;
  readonly types: Uint32Array;
  readonly symbols: Uint32Array;
  /** Halves of offsets and addends. */
  readonly low: number;
  readonly high: number;
  /** Words from row to row: of offsets and addends, and of types and symbols. */
  readonly wide: number;
  readonly step: number;
}

/** The fields of a table, out of the file where they are words of it: they are read once. */
function fieldsOf(table: RelocationTable, addendsOf: () => BigInt64Array): RowFields {
  const { count } = table;
  const rows = table instanceof LazyRelocationTable ? table.words : null;
  if (rows !== null) {
    const { words, low, high, step } = rows;
    const at = (field: number): Uint32Array => words.subarray(2 * field);
    const [types, symbols] = [words.subarray(2 + low), words.subarray(2 + high)];
    return { count, offsets: words, addends: at(2), types, symbols, low, high, wide: step, step };
  }
  const addends = halves(table.addends === 'place' ? addendsOf() : table.addend);
  const { type: types, symbol: symbols } = table;
  return { count, offsets: halves(table.offset), addends, types, symbols, low: LOW, high: HIGH, wide: 2, step: 1 };
}

/**
 * Slots by the rows of one table. A loop of its own, and of halves: V8 compiles it while it runs,
 * and a million slots make no bigint.
 * @returns how many rows filled one
 */
function fillSlots({ image, arch }: Program, table: RelocationTable, slots: RelocatedSlots): number {
  const { section, contents, sections, filled } = slots;
  const { none, word: wanted } = arch.relocationRoles;
  const word = arch.target.wordBytes;
  const little = image.header.endian === 'little';
  const isWide = word === 8;
  const values = halves(slots.values);
  const { count, offsets, addends, types, symbols, low, high, wide, step } = fieldsOf(table, () =>
    addendsInPlace(table, contents, word, little),
  );
  const homes = table.symbols?.sectionIndex ?? NO_SYMBOL;
  const starts = table.symbols === null ? NO_WORDS : halves(table.symbols.value);
  const symbolCount = Math.max(1, table.symbols?.count ?? 0);
  const sectionCount = image.sections.length;
  let found = 0;
  for (let row = 0; row < count; row++) {
    const type = types[step * row]!;
    const named = symbols[step * row]!;
    // Columns refuse numbers that are none of the table, unless no row of it names a symbol.
    if (named >= symbolCount) void table.symbol;
    if (type === none) continue;
    const upper = offsets[wide * row + high]!;
    const lower = offsets[wide * row + low]!;
    const at = upper === 0 ? lower : upper * 0x1_0000_0000 + lower;
    const slot = at / word;
    // Of what is behind the last slot, or between two, there is no element.
    if (type !== wanted || filled[slot] !== 0) throw badSlot(type, at, section, arch, table);
    const symbol = named < symbolCount ? named : 0;
    const addend = addends[wide * row + low]!;
    const above = addends[wide * row + high]!;
    // No symbol and no addend: the loader writes 0, which kernels skip. What a slot becomes when
    // its site is taken out.
    if (named === 0 && addend === 0 && above === 0) continue;
    const sum = addend + starts[2 * symbol + LOW]!;
    values[2 * slot + LOW] = sum;
    if (isWide) values[2 * slot + HIGH] = above + starts[2 * symbol + HIGH]! + (sum > 0xffff_ffff ? 1 : 0);
    const home = homes[symbol]!;
    sections[slot] = home > 0 && home < sectionCount ? home : -2;
    filled[slot] = 1;
    found++;
  }
  return found;
}

/**
 * Slots of a section of a relocatable file: symbol + addend of the relocation at each slot
 * (M-TAB-1).
 */
function readRelocatable(
  program: Program,
  section: ElfSection,
  source: SiteSource,
  role: 'sites' | 'padding',
): SlotTable {
  const { image, arch } = program;
  const word = arch.target.wordBytes;
  const little = image.header.endian === 'little';
  if (section.size % word !== 0) {
    throw malformed(`section ${section.name}`, `its size ${section.size} is no multiple of the word size ${word}`, {
      section: section.name,
    });
  }
  const count = section.size / word;
  const contents = image.contents(section);
  const values = new BigUint64Array(count);
  const sections = new Int32Array(count).fill(-1);
  const filled = new Uint8Array(count);
  const slots = { section, contents, values, sections, filled };
  let zero = count;
  for (const table of image.relocationsOf(section)) if (table.count > 0) zero -= fillSlots(program, table, slots);
  let position: Float64Array | undefined;
  return {
    name: section.name,
    source,
    role,
    count,
    zero,
    section: sections,
    value: values,
    isInFile: true,
    // Few ask for it.
    get position() {
      return (position ??= positionsOf(section.offset, word, count));
    },
    container: section.index,
    sorted: isSorted(values, sections),
    origin: 'relocations',
    remarks: zero === 0 ? [] : slotsWithoutRelocation(section, contents, filled, word, little),
  };
}

/** Where slots lie in the file. */
function positionsOf(start: number, word: number, count: number): Float64Array {
  const positions = new Float64Array(count);
  for (let i = 0; i < count; i++) positions[i] = start + i * word;
  return positions;
}

/** Sections and values of symbols where a table has none: 0 for the only number that there is. */
const NO_SYMBOL = new Uint32Array(1);
const NO_WORDS = new Uint32Array(2);

/** The addends that rows of a table without a column of them have in the slots. */
function addendsInPlace(
  { offset, count }: RelocationTable,
  contents: Uint8Array,
  word: 4 | 8,
  little: boolean,
): BigInt64Array {
  const places = halves(offset);
  const addends = new BigInt64Array(count);
  for (let row = 0; row < count; row++) {
    const at = numberAt(places, row);
    if (at + word <= contents.length) addends[row] = wordOf(contents, at, word, little);
  }
  return addends;
}

function slotsWithoutRelocation(
  { name }: ElfSection,
  contents: Uint8Array,
  filled: Uint8Array,
  word: 4 | 8,
  little: boolean,
): string[] {
  const remarks: string[] = [];
  for (let i = 0; i < filled.length; i++) {
    if (filled[i] || wordOf(contents, i * word, word, little) === 0n) continue;
    remarks.push(`slot ${i} of ${name} holds a word and no relocation: it names nothing before linking`);
  }
  return remarks;
}

/** Slots of an address range of a linked file. */
function readLinked(
  program: Program,
  name: string,
  start: bigint,
  size: number,
  fileOffset: number,
  container: SectionIndex,
  source: SiteSource | 'unknown',
  role: 'sites' | 'padding',
  relative: ReadonlyMap<bigint, bigint>,
): SlotTable {
  const { image, arch } = program;
  const word = arch.target.wordBytes;
  if (size % word !== 0) {
    throw malformed(`table ${name}`, `its size ${size} is no multiple of the word size ${word}`, { section: name });
  }
  const count = size / word;
  const raw = wordsAt(image, fileOffset, count);
  const fromContents = countFilled(raw);
  let fromRelative = 0;
  for (let i = 0; i < count && relative.size > 0; i++) {
    if (raw[i] !== 0n) continue;
    raw[i] = relative.get(start + BigInt(i * word)) ?? 0n;
    if (raw[i] !== 0n) fromRelative++;
  }
  const values = raw.slice();
  for (const value of arch.mcount.emptySlots) clearEach(values, BigInt.asUintN(8 * word, value));
  const zero = count - countFilled(values);
  return {
    name,
    source,
    role,
    count,
    zero,
    section: new Int32Array(count).fill(-1),
    value: values,
    isInFile: true,
    position: positionsOf(fileOffset, word, count),
    container,
    sorted: isSorted(raw, null),
    origin: fromRelative === 0 ? 'contents' : fromContents === 0 ? 'relative' : 'contents and relative',
    remarks: [],
  };
}

/** Words of the file as unsigned numbers of 64 bits. */
function wordsAt({ bytes, header, wordBytes }: ElfImage, fileOffset: number, count: number): BigUint64Array {
  const values = new BigUint64Array(count);
  const into = halves(values);
  const words = wordsOf(new ByteView(bytes, header.endian), fileOffset, (count * wordBytes) / 4);
  if (wordBytes === 4) for (let i = 0; i < count; i++) into[2 * i + LOW] = words[i]!;
  else {
    const low = header.endian === 'little' ? 0 : 1;
    for (let i = 0; i < words.length; i += 2) {
      into[i + LOW] = words[i + low]!;
      into[i + HIGH] = words[i + 1 - low]!;
    }
  }
  return values;
}

function countFilled(values: BigUint64Array): number {
  const words = halves(values);
  let filled = 0;
  for (let i = 0; i < words.length; i += 2) if (words[i] !== 0 || words[i + 1] !== 0) filled++;
  return filled;
}

/** Zeros in place of a value. */
function clearEach(values: BigUint64Array, value: bigint): void {
  const words = halves(values);
  const [first, second] = halves(BigUint64Array.of(value));
  for (let i = 0; i < words.length; i += 2) {
    if (words[i] !== first || words[i + 1] !== second) continue;
    words[i] = 0;
    words[i + 1] = 0;
  }
}

function isSorted(values: BigUint64Array, sections: Int32Array | null): boolean {
  const words = halves(values);
  for (let i = 1; i < values.length; i++) {
    const above = words[2 * i + HIGH]! - words[2 * i - 2 + HIGH]!;
    if (above > 0 || (above === 0 && words[2 * i + LOW]! >= words[2 * i - 2 + LOW]!)) continue;
    if (sections === null || sections[i] === sections[i - 1]) return false;
  }
  return true;
}

/**
 * RELATIVE addends by slot address in [start, start + size). RELR slots keep their value in place
 * and need none.
 */
function relativeAddends(program: Program, start: bigint, size: number): Map<bigint, bigint> {
  const { image, arch } = program;
  const addends = new Map<bigint, bigint>();
  const end = start + BigInt(size);
  const mask = arch.target.wordBytes === 4 ? 0xffff_ffffn : 0xffff_ffff_ffff_ffffn;
  for (const table of image.relocations) {
    if (table.addends !== 'row' || !isDynamic(image, table)) continue;
    const { offset, type, addend, count } = table;
    for (let row = 0; row < count; row++) {
      if (type[row] !== arch.relocationRoles.relative) continue;
      const at = offset[row]!;
      if (at >= start && at < end) addends.set(at, addend[row]! & mask);
    }
  }
  return addends;
}

/**
 * Address range of a table that symbols delimit, end excluded; null without them. Kernels have
 * `__start_mcount_loc` inside `.init.data`, other programs the section bounds that a linker makes.
 * @param symbols  the image's own, or those of a file that goes with a stripped image
 * @throws ElftraceError 'elf-malformed' when the range is none or longer than the file
 * Source: M-SORT-1, M-TAB-1
 */
export function findTableRange(
  image: ElfImage,
  symbols: SymbolTable = image.symbols,
): { readonly start: Address; readonly stop: Address } | null {
  for (const [from, to] of [
    ['__start_mcount_loc', '__stop_mcount_loc'],
    ['__start___mcount_loc', '__stop___mcount_loc'],
    ['__start___patchable_function_entries', '__stop___patchable_function_entries'],
  ] as const) {
    const first = symbols.find(from);
    const last = symbols.find(to);
    if (first <= 0 || last <= 0 || symbols.sectionIndex[first] === elf.SHN_UNDEF) continue;
    const start = symbols.value[first]!;
    const stop = symbols.value[last]!;
    if (stop < start || stop - start > BigInt(image.bytes.length)) {
      throw malformed(`symbols ${from} and ${to}`, `the range ${hex(start)}..${hex(stop)} is no table`, {
        symbol: to,
        address: start,
      });
    }
    if (stop > start) return { start, stop };
  }
  return null;
}

/**
 * The range that symbols delimit, where it is no section with a name of its own: a loaded kernel
 * has both kinds of tables.
 */
function kernelRange(program: Program): { readonly start: Address; readonly stop: Address } | null {
  const range = findTableRange(program.image, program.symbols);
  if (range === null || program.loadMap === null) return range;
  const home = program.image.sectionAt(range.start)?.name;
  return home === mcountSection || home === patchableSection ? null : range;
}

/** False: no section of the file is one of slots by its name. */
export function mayHaveTable(image: ElfImage): boolean {
  const names = [mcountSection, patchableSection];
  return image.sections.length === 0 || names.some((name) => image.sectionsNamed(name).length > 0);
}

interface WantedTable {
  readonly section: ElfSection;
  readonly source: SiteSource;
}

/**
 * Sections with slots: those that are asked for, else those of compilers.
 * @throws ElftraceError 'no-match' when none of those asked for is there
 */
function tableSections(image: ElfImage, asked: readonly string[]): readonly WantedTable[] {
  const wanted: WantedTable[] = [];
  for (const name of asked) {
    for (const section of image.sectionsNamed(name)) wanted.push({ section, source: 'mcount-table' });
  }
  if (asked.length > 0 && wanted.length === 0) {
    // Another table than the one that was asked for would give verdicts on other sites.
    throw new ElftraceError('no-match', `no section is named ${asked.join(' or ')}`, {
      section: asked[0]!,
    });
  }
  if (wanted.length === 0) {
    for (const section of image.sectionsNamed(mcountSection)) wanted.push({ section, source: 'mcount-table' });
    for (const section of image.sectionsNamed(patchableSection)) wanted.push({ section, source: 'patchable-table' });
  }
  return wanted;
}

/** The table of a linked kernel, between its two symbols. */
function readKernelTable(program: Program, range: { readonly start: Address; readonly size: number }): SlotTable {
  const { image } = program;
  const offset = image.fileOffsetOf(range.start);
  if (offset < 0 || offset + range.size > image.bytes.length) {
    throw malformed('__start_mcount_loc', `no bytes of the file lie at ${hex(range.start)}`, {
      address: range.start,
    });
  }
  const container = image.sectionAt(range.start)?.index ?? -1;
  const addends = relativeAddends(program, range.start, range.size);
  return readLinked(
    program,
    '__start_mcount_loc',
    range.start,
    range.size,
    offset,
    container,
    'unknown',
    'sites',
    addends,
  );
}

/**
 * All site tables of a file. Empty when it has none: sites are then found by their calls.
 * @throws ElftraceError 'elf-malformed' for tables whose size or relocations cannot be slots;
 *   'no-match' when none of
 *         `tableSections` is there
 */
export function readTables(program: Program, options: TableOptions = {}): SlotTable[] {
  const { image, arch } = program;
  const wanted = tableSections(image, options.tableSections ?? []);
  const tables: SlotTable[] = [];
  const bounds = program.relocatable || (wanted.length > 0 && program.loadMap === null) ? null : kernelRange(program);
  const range = bounds && { start: bounds.start, size: Number(bounds.stop - bounds.start) };
  const hasMcount = range !== null || wanted.some((each) => each.source === 'mcount-table' && each.section.size > 0);
  // Without a table of calls the pads themselves say what they are: see findSites.
  const padding = arch.mcount.patchableIsPadding && (hasMcount || options.hadCalls === true);
  for (const { section, source } of wanted) {
    if (section.type === elf.SHT_NOBITS || section.size === 0) continue;
    const role = source === 'patchable-table' && padding ? 'padding' : 'sites';
    if (program.relocatable) {
      tables.push(readRelocatable(program, section, source, role));
    } else {
      const addends = relativeAddends(program, section.address, section.size);
      tables.push(
        readLinked(
          program,
          section.name,
          section.address,
          section.size,
          section.offset,
          section.index,
          source,
          role,
          addends,
        ),
      );
    }
  }
  if (range) tables.push(readKernelTable(program, range));
  return tables;
}
