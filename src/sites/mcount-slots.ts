/**
 * Plans the `__mcount_loc` table that a compiler did not make: one absolute word for each call that
 * `mcount-table.ts` finds, which symbol each is relocated against, and the two sections. Writes
 * nothing, and does not read tables.
 *
 * Rules M-TAB-1, M-REC-1 and M-REC-6 to M-REC-10 of the specification.
 */
import { ByteView } from '../bytes.js';
import * as elf from '../elf/constants.js';
import { firstNewSection } from '../elf/image.js';
import type { ElfImage, ElfSection } from '../elf/image.js';
import { halves, HIGH, LOW } from '../elf/lookup.js';
import type { NewSection } from '../elf/write.js';
import { ElftraceError, hex } from '../errors.js';
import type { Column, SymbolIndex } from '../units.js';
import {
  type CallList,
  callsOf,
  type CallTest,
  findMcountCalls,
  isTracedSection,
  type McountCall,
  type McountMachine,
} from './mcount-table.js';

/** The table that is made, and that GCC makes on x86. */
const mcountSectionName = '__mcount_loc';

/**
 * A slot to be: `symbol` (by index in the file's symbol table) + `addend` is the call's address.
 */
export interface McountEntry {
  readonly section: ElfSection;
  readonly offset: number;
  readonly baseSymbol: number;
  readonly addend: bigint;
}

/** A call that cannot get a slot, and why. */
export interface McountRefusal {
  readonly section: ElfSection;
  readonly offset: number;
  readonly reason: string;
}

/** Slots to be as columns, in their order. */
export interface McountSlots {
  readonly count: number;
  /** The section of the first one, whose relocations have the form that those of the slots get. */
  readonly text: ElfSection | undefined;
  readonly baseSymbol: Column<Uint32Array, SymbolIndex>;
  readonly addend: BigInt64Array;
}

export interface McountPlan {
  readonly slots: McountSlots;
  /** The same as objects, made when they are asked for. */
  readonly entries: readonly McountEntry[];
  /**
   * Why there is nothing to do: the file has a table, makes no calls, or is the tracer itself
   * (M-REC-1).
   */
  readonly skipped: 'has-table' | 'no-calls' | 'tracer' | null;
  /**
   * Calls in executable sections that are not traced: to be turned into nops by the machine's
   * shapes (M-REC-10).
   */
  readonly untraced: readonly McountCall[];
  readonly refusals: readonly McountRefusal[];
  readonly remarks: readonly string[];
}

export interface McountOptions {
  readonly isCall: CallTest;
  /** Path of the file, for M-REC-1. */
  readonly path?: string;
  /**
   * True (the default): sections in relocation-section order, in each the slots by ascending
   * offset. False: relocation order inside a section too, as recordmcount leaves it (M-REC-9);
   * compilers emit ascending relocations nearly always.
   */
  readonly sort?: boolean;
}

/**
 * Plans the table of a relocatable file; decides everything, writes nothing.
 * @throws ElftraceError 'unsupported-form' for a linked file and for a section with calls that has
 *   no symbol a slot could
 *         be relocated against (M-REC-6), 'elf-malformed' for a relocation outside its section
 * Source: M-REC-1..10
 */
export function planMcountTable(image: ElfImage, machine: McountMachine, options: McountOptions): McountPlan {
  const nothing = { slots: slotColumns([]), entries: [], untraced: [], refusals: [] };
  const { lists, others } = findMcountCalls(image, machine, options.isCall);
  if (options.path?.endsWith('/ftrace.o') === true) {
    return { ...nothing, skipped: 'tracer', remarks: ['the tracer itself (ftrace.o) gets no table'] };
  }
  const traced = lists.filter(({ section }) => isTracedSection(section.name));
  const slots = existingSlots(image);
  if (slots !== null) {
    return { ...nothing, skipped: 'has-table', remarks: compareCounts(traced, slots) };
  }
  const remarks = remarksOn(others, machine);
  const elsewhere = lists.filter(({ section }) => !isTracedSection(section.name));
  const untraced = elsewhere.flatMap(callsOf);
  for (const [section, count] of countBySection(elsewhere)) {
    remarks.push(`${count} calls in ${section.name}, a section that is not traced, get no slot`);
  }
  if (traced.length === 0) return { ...nothing, untraced, skipped: 'no-calls', remarks };
  const groups = image.groups();
  for (const [section, count] of countBySection(traced)) {
    const group = groups.find((each) => each.comdat && each.members.includes(section.index));
    if (group !== undefined) {
      remarks.push(
        `${count} slots lead into ${section.name} of COMDAT group ${group.signature}: where a linker drops this copy, their relocations name a discarded section`,
      );
    }
  }

  const bases = new Map<ElfSection, BaseSymbols>();
  const refusals: McountRefusal[] = [];
  const planned = (options.sort === false ? traced : sortedBySection(traced)).map((list) => {
    const { section } = list;
    let base = bases.get(section);
    if (base === undefined) bases.set(section, (base = baseSymbols(image, machine, section)));
    return planSlots(image, list, base, refusals);
  });
  return {
    slots: slotColumns(planned),
    get entries() {
      return planned.flatMap(entriesOf);
    },
    skipped: null,
    untraced,
    refusals,
    remarks,
  };
}

/** Places of one section. */
type Places = Pick<CallList, 'section' | 'count' | 'offset'>;

/** Slots of one section. */
interface PlannedSlots extends Places {
  readonly baseSymbol: Uint32Array;
  readonly addend: BigInt64Array;
}

function entriesOf({ section, count, offset, baseSymbol, addend }: PlannedSlots): McountEntry[] {
  return Array.from({ length: count }, (_, i) => ({
    section,
    offset: offset[i]!,
    baseSymbol: baseSymbol[i]!,
    addend: addend[i]!,
  }));
}

function planSlots(
  { symbols: { value } }: ElfImage,
  { section, offset: places, count: most }: Places,
  base: BaseSymbols,
  refusals: McountRefusal[],
): PlannedSlots {
  const offset = new Float64Array(most);
  const baseSymbol = new Uint32Array(most);
  const addend = new BigInt64Array(most);
  let count = 0;
  for (let i = 0; i < most; i++) {
    const place = places[i]!;
    const found = base.at(place);
    if (typeof found === 'string') {
      refusals.push({ section, offset: place, reason: found });
      continue;
    }
    offset[count] = place;
    baseSymbol[count] = found;
    addend[count++] = BigInt(place) - value[found]!;
  }
  return { section, count, offset, baseSymbol, addend };
}

/** Slots of several sections, one behind the other. */
function slotColumns(planned: readonly PlannedSlots[]): McountSlots {
  const count = planned.reduce((sum, each) => sum + each.count, 0);
  const baseSymbol = new Uint32Array(count);
  const addend = new BigInt64Array(count);
  let at = 0;
  for (const each of planned) {
    baseSymbol.set(each.baseSymbol.subarray(0, each.count), at);
    addend.set(each.addend.subarray(0, each.count), at);
    at += each.count;
  }
  return { count, text: planned.find((each) => each.count > 0)?.section, baseSymbol, addend };
}

/** Slots that were put together one by one, in their order; of one form. */
export function slotsOfEntries(entries: readonly McountEntry[]): McountSlots {
  return {
    count: entries.length,
    text: entries[0]?.section,
    baseSymbol: Uint32Array.from(entries, ({ baseSymbol }) => baseSymbol),
    addend: BigInt64Array.from(entries, ({ addend }) => addend),
  };
}

/**
 * Slots of the table that the file has: relocations that target it (M-REC-1), or words; null
 * without a table.
 */
function existingSlots(image: ElfImage): number | null {
  const sections = image.sectionsNamed(mcountSectionName);
  let slots = 0;
  for (const section of sections) {
    const relocations = image.relocationsOf(section).reduce((sum, table) => sum + table.count, 0);
    slots += relocations > 0 ? relocations : section.size / image.wordBytes;
  }
  return slots > 0 ? slots : null;
}

function compareCounts(lists: readonly CallList[], slots: number): string[] {
  const traced = lists.reduce((sum, { count }) => sum + count, 0);
  const remarks = [`the file has a ${mcountSectionName} of ${slots} slots, nothing is done`];
  if (traced > slots) remarks.push(`it makes ${traced} calls: ${traced - slots} of them have no slot`);
  return remarks;
}

function countBySection(lists: readonly CallList[]): Map<ElfSection, number> {
  const counts = new Map<ElfSection, number>();
  for (const { section, count } of lists) counts.set(section, (counts.get(section) ?? 0) + count);
  return counts;
}

/** One remark for each section and relocation type, with the first place. */
function remarksOn(others: readonly McountCall[], machine: McountMachine): string[] {
  const groups = new Map<string, { first: McountCall; count: number; type: number }>();
  for (const other of others) {
    const type = other.table.type[other.row]!;
    const key = `${other.section.index} ${type}`;
    const group = groups.get(key);
    if (group === undefined) groups.set(key, { first: other, count: 1, type });
    else group.count++;
  }
  return [...groups.values()].map(({ first, count, type }) => {
    const relocation = machine.relocations.get(type)?.name ?? `relocation type ${type}`;
    const symbol = first.table.symbols?.name(first.table.symbol[first.row]!) ?? '';
    const more = count > 1 ? ` (and ${count - 1} more)` : '';
    return `${first.section.name}+${hex(first.offset)}${more}: ${relocation} names ${symbol} and is no direct call of it: no slot`;
  });
}

/** By offsets, section by section in the order of their first call. */
function sortedBySection(lists: readonly CallList[]): Places[] {
  return [...new Set(lists.map(({ section }) => section))].map((section) => {
    const own = lists.filter((each) => each.section === section);
    const offset = new Float64Array(own.reduce((sum, { count }) => sum + count, 0));
    let at = 0;
    for (const each of own) {
      offset.set(each.offset, at);
      at += each.count;
    }
    return { section, count: offset.length, offset: offset.sort() };
  });
}

// ------------------------------------------------------------------------------------ base symbols

export interface BaseSymbols {
  /** Index of the symbol for a slot that names `offset`, or why there is none. */
  at(offset: number): number | string;
}

/**
 * M-REC-6: the first local or global symbol of the section, usually the section symbol. Never a
 * weak one: its name may end up with another definition (M-WEAK-4). Not an indirect function
 * either, whose address is that of a PLT entry.
 *
 * Linkers that relax (RISC-V) delete bytes of code and move symbols with it, but not the distance
 * that an addend holds: the addend must not span a place where bytes can go. So there the base is
 * the nearest symbol in front of the call, and the call is refused when a relaxable place lies in
 * between.
 *
 *   f:  addi …            f + 10 stays true
 *       call _mcount      <- f+10; the call itself may shrink, its start stays
 *       call g            relaxable
 *   x:  call _mcount      <- f+26 goes stale, x+0 does not
 */
export function baseSymbols(image: ElfImage, machine: McountMachine, section: ElfSection): BaseSymbols {
  const { symbols } = image;
  const candidates: number[] = [];
  for (let i = 1; i < symbols.count; i++) {
    if (symbols.sectionIndex[i] !== section.index) continue;
    const binding = symbols.info[i]! >>> 4;
    const type = symbols.info[i]! & 15;
    if (binding !== elf.STB_LOCAL && binding !== elf.STB_GLOBAL) continue;
    if (type === elf.STT_GNU_IFUNC || type === elf.STT_TLS || type === elf.STT_FILE) continue;
    candidates.push(i);
  }
  const first = candidates[0];
  if (first === undefined) {
    throw new ElftraceError(
      'unsupported-form',
      `section ${section.name} has calls and no local or global symbol that slots could be relocated against`,
      { section: section.name },
    );
  }
  const moving = movingPlaces(image, machine, section);
  if (moving.length === 0) return { at: () => first };

  const { value } = symbols;
  const ordered = candidates.sort((a, b) => (value[a]! < value[b]! ? -1 : value[a]! > value[b]! ? 1 : a - b));
  const starts = ordered.map((index) => Number(value[index]!));
  return {
    at: (offset) => {
      let base = countUpTo(starts, offset) - 1;
      const start = starts[base];
      if (start === undefined) {
        return 'no local or global symbol lies in front of the call, and the linker may move it (relaxation)';
      }
      // Of several symbols at one place the first in table order.
      while (base > 0 && starts[base - 1] === start) base--;
      const place = moving[countUpTo(moving, start - 1)];
      if (place !== undefined && place < offset) {
        const name = symbols.name(ordered[base]!) || section.name;
        return `the linker may delete bytes at ${section.name}+${hex(place)} (relaxation), between the call and ${name}, the nearest symbol in front of it that is not weak; compile without relaxation (-mno-relax)`;
      }
      return ordered[base]!;
    },
  };
}

/** How many of the ascending `values` are at most `limit`. */
function countUpTo(values: readonly number[], limit: number): number {
  let low = 0;
  let high = values.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (values[middle]! <= limit) low = middle + 1;
    else high = middle;
  }
  return low;
}

/**
 * Offsets at which a linker may delete bytes, ascending. A machine whose linkers move code has
 * alignment relocations (they must be able to restore what relaxation breaks); there the companions
 * are the permissions to relax.
 */
function movingPlaces(image: ElfImage, machine: McountMachine, section: ElfSection): number[] {
  const types = new Set<number>();
  for (const [type, row] of machine.relocations) if (row.rule === 'align') types.add(type);
  if (types.size === 0) return [];
  for (const type of machine.relocationRoles.companions) types.add(type);
  const places: number[] = [];
  for (const table of image.relocationsOf(section)) {
    for (let row = 0; row < table.count; row++) {
      if (types.has(table.type[row]!)) places.push(Number(table.offset[row]!));
    }
  }
  return places.sort((a, b) => a - b);
}

// ---------------------------------------------------------------------------------------- sections

/**
 * The table and its relocations as sections to append, in the form (REL or RELA) that the file's
 * text has.
 * @param slots  of `planMcountTable`; not empty
 * Source: M-TAB-1, M-REC-7, M-REC-8
 */
export function mcountSections(
  image: ElfImage,
  machine: McountMachine,
  { count, text, baseSymbol, addend }: McountSlots,
): readonly [table: NewSection, relocations: NewSection] {
  const { is64, endian } = image.header;
  const word = image.wordBytes;
  const rela = text === undefined || image.relocationsOf(text)[0]?.addends !== 'place';
  const step = (rela ? 3 : 2) * word;
  const contents = new ByteView(new Uint8Array(count * word), endian, mcountSectionName);
  const rows = new ByteView(new Uint8Array(count * step), endian, `.rel__mcount_loc`);
  const type = machine.relocationRoles.word;
  const addends = halves(addend);
  for (let i = 0; i < count; i++) {
    const at = i * step;
    const symbol = baseSymbol[i]!;
    const [low, high] = [addends[2 * i + LOW]!, addends[2 * i + HIGH]!];
    if (is64) {
      insertHalves(rows, at, i * word, 0);
      insertHalves(rows, at + 8, type, symbol);
      insertHalves(rela ? rows : contents, rela ? at + 16 : i * word, low, high);
      continue;
    }
    if (symbol > 0xff_ffff) {
      throw new ElftraceError('unsupported-form', `symbol ${symbol} does not fit a 32-bit relocation`, {
        value: symbol,
        max: 0xff_ffff,
      });
    }
    rows.insertU32(at, i * word);
    rows.insertU32(at + 4, ((symbol << 8) | type) >>> 0);
    (rela ? rows : contents).insertU32(rela ? at + 8 : i * word, low);
  }
  return [
    {
      name: mcountSectionName,
      type: elf.SHT_PROGBITS,
      flags: elf.SHF_ALLOC,
      link: 0,
      info: 0,
      alignBytes: word,
      entrySize: word,
      contents: contents.bytes,
    },
    {
      name: `${rela ? '.rela' : '.rel'}${mcountSectionName}`,
      type: rela ? elf.SHT_RELA : elf.SHT_REL,
      flags: elf.SHF_INFO_LINK,
      link: image.symbols.section,
      info: firstNewSection(image),
      alignBytes: word,
      entrySize: step,
      contents: rows.bytes,
    },
  ];
}

/** A 64-bit word by its halves, in the byte order of the view. */
function insertHalves(view: ByteView, at: number, low: number, high: number): void {
  view.insertU32(at, view.littleEndian ? low : high);
  view.insertU32(at + 4, view.littleEndian ? high : low);
}
