/**
 * Other patch ranges of a kernel object (F-6): places that jump labels, static calls, alternatives,
 * feature fix-ups and exception tables name. A site that holds such a place would be patched by two
 * mechanisms, so it is refused.
 *
 * Which field of an entry names a place, what its distance counts from and how far the place
 * reaches are the machine's facts (`Arch.patchTables`). In relocatable files the relocations of a
 * field give its value, in linked ones its bytes do. A table in no format that is known is not
 * guessed at: there every relocation that names code is taken for a place.
 */
import type { PatchField, PatchTable } from '../machine/tables.js';
import { ByteView } from '../bytes.js';
import { SHN_UNDEF } from '../elf/constants.js';
import type { ElfSection, RelocationTable, SymbolTable } from '../elf/image.js';
import { lowerBoundFrom } from '../elf/lookup.js';
import type { CodeRange, PlacedRelocations, Program } from '../program/program.js';
import type { Address, SectionIndex } from '../units.js';

/**
 * Code that a table names: [offset, end) of a section of a relocatable file, or addresses
 * (`section` -1).
 */
export interface OtherRange {
  readonly section: SectionIndex;
  readonly offset: bigint;
  readonly end: bigint;
  readonly what: string;
  /** `target`: code goes there, nothing is written there. */
  readonly kind: 'patched' | 'target';
}

interface Place {
  readonly section: SectionIndex;
  readonly value: Address;
}

/** One table of a file, with what gives its fields their values. */
class TableReader {
  private readonly view: ByteView;
  private readonly placed: PlacedRelocations | null;
  /** Where the last search in `placed` ended: entries are read in order. */
  private hint = 0;

  constructor(
    private readonly program: Program,
    readonly section: ElfSection,
  ) {
    const { image } = program;
    this.view = new ByteView(image.contents(section), image.header.endian, section.name);
    this.placed = program.relocatable ? program.relocationsOf(section.index) : null;
  }

  /**
   * Where the field of the entry at `entry` leads; null: nowhere, or its relocations are none of
   * those that such a field has.
   */
  place(entry: number, field: PatchField): Place | null {
    const at = entry + field.at;
    const base = field.from === 'field' ? at : entry;
    return this.placed === null ? this.linkedPlace(at, base, field) : this.relocatedPlace(this.placed, at, base);
  }

  private linkedPlace(at: number, base: number, { bytes, from }: PatchField): Place | null {
    const value = BigInt.asIntN(bytes * 8, this.view.word(at, bytes));
    const bits = this.program.image.wordBytes * 8;
    const start = from === 'nothing' ? 0n : this.section.address + BigInt(base);
    return { section: -1, value: BigInt.asUintN(bits, start + value) };
  }

  private seek(placed: PlacedRelocations, at: number): number {
    this.hint = lowerBoundFrom(placed.offset, at, this.hint);
    return this.hint;
  }

  private relocatedPlace(placed: PlacedRelocations, at: number, base: number): Place | null {
    const { relocations } = this.program.arch;
    let found = null as Place | null;
    for (let rank = this.seek(placed, at); placed.offset[rank] === at; rank++) {
      const { table, row, symbols } = rowAt(placed, rank);
      const rule = relocations.get(table.type[row]!)?.rule;
      if (rule === undefined || rule === 'none' || symbols === null) continue;
      const symbol = table.symbol[row]!;
      const section = symbols.sectionIndex[symbol]!;
      const value = symbols.value[symbol]! + table.addend[row]!;
      if (rule === 'abs') found = { section, value };
      // S + A - P is added to the base: only the distance from the base to the field is left of P.
      else if (rule === 'pcrel') found = { section, value: at === base ? value : value - BigInt(at - base) };
      else if (rule === 'add') found = { section, value: (found?.value ?? 0n) + value };
      else if (rule === 'sub' && section === this.section.index && found) {
        found = { section: found.section, value: found.value - value + BigInt(base) };
      } else return null;
    }
    return found;
  }

  /** A length: of a pair of relocations their difference, else what stands in the file. */
  length(entry: number, { at, bytes }: { readonly at: number; readonly bytes: 1 | 2 | 8 }): bigint {
    const { view, placed } = this;
    const place = entry + at;
    let sum = 0n;
    for (let rank = placed ? this.seek(placed, place) : 0; placed?.offset[rank] === place; rank++) {
      const { table, row, symbols } = rowAt(placed, rank);
      const rule = this.program.arch.relocations.get(table.type[row]!)?.rule;
      if (symbols === null || (rule !== 'add' && rule !== 'sub')) continue;
      const value = symbols.value[table.symbol[row]!]! + table.addend[row]!;
      sum += rule === 'add' ? value : -value;
    }
    const stored =
      bytes === 1 ? BigInt(view.u8(place)) : bytes === 2 ? BigInt(view.u16(place)) : view.word(place, bytes);
    return BigInt.asUintN(bytes * 8, stored + sum);
  }

  /**
   * Where the entries lead, one for each, null for those that lead to no code. Null for a table
   * that is not of this format: whole entries, a place in each (in nearly each of a linked file),
   * nothing that names code elsewhere.
   */
  entries({ entryBytes, place, reach, targets, replacement }: PatchTable): readonly (Place | null)[] | null {
    const { section, placed, program } = this;
    if (section.size % entryBytes !== 0) return null;
    const places: (Place | null)[] = [];
    let missing = 0;
    for (let entry = 0; entry < section.size; entry += entryBytes) {
      const found = this.place(entry, place);
      const isCode = found !== null && rangeOf(program, found) !== undefined;
      // Of relocatable files all must be there.
      if (!isCode && placed !== null) return null;
      if (!isCode) missing++;
      places.push(isCode ? found : null);
    }
    // Entries about text that a kernel has no more lead anywhere.
    if (placed === null) return missing * 8 < section.size / entryBytes ? places : null;
    const fields = [place, ...(targets ?? []), ...(replacement ?? [])].map(({ at }) => at);
    if (typeof reach === 'object') fields.push('end' in reach ? reach.end.at : reach.at);
    for (let rank = 0; rank < placed.count; rank++) {
      if (fields.includes(placed.offset[rank]! % entryBytes)) continue;
      const { table, row, symbols } = rowAt(placed, rank);
      if (program.codeOfSection(symbols?.sectionIndex[table.symbol[row]!] ?? 0)) return null;
    }
    return places;
  }

  /**
   * Every place in code that some relocation of the table names, for tables whose format is not
   * known.
   */
  *named(): Generator<Place> {
    const { placed, program } = this;
    for (let rank = 0; placed !== null && rank < placed.count; rank++) {
      const { table, row, symbols } = rowAt(placed, rank);
      const symbol = table.symbol[row]!;
      const section = symbols?.sectionIndex[symbol] ?? 0;
      if (program.codeOfSection(section)) yield { section, value: symbols!.value[symbol]! + table.addend[row]! };
    }
  }
}

/** The relocation of a rank, and the table of the symbols that it names. */
function rowAt(
  placed: PlacedRelocations,
  rank: number,
): { readonly table: RelocationTable; readonly row: number; readonly symbols: SymbolTable | null } {
  const table = placed.tables[placed.table[rank]!]!;
  return { table, row: placed.row[rank]!, symbols: table.symbols };
}

function rangeOf(program: Program, { section, value }: Place): CodeRange | undefined {
  const range = program.relocatable ? program.codeOfSection(section) : program.codeAt(value);
  const inside = range && value >= range.address && value < range.address + BigInt(range.bytes.length);
  return inside ? range : undefined;
}

/**
 * Places in code that the tables of other patching mechanisms name, and whether one lies in the
 * way.
 */
class OtherRanges {
  /** By section and offset. */
  readonly list: readonly OtherRange[];
  /** Bytes of the longest: nothing that begins farther in front can reach a place. */
  private readonly longest: bigint = 0n;

  constructor(ranges: readonly OtherRange[]) {
    this.list = [...ranges].sort(
      (a, b) => a.section - b.section || (a.offset < b.offset ? -1 : a.offset > b.offset ? 1 : 0),
    );
    for (const { offset, end } of ranges) if (end - offset > this.longest) this.longest = end - offset;
  }

  /**
   * What else is patched inside [start, end) of a section (-1 in linked files); null when nothing
   * is.
   */
  overlapping(section: SectionIndex, start: bigint, end: bigint): string | null {
    const { list } = this;
    let low = 0;
    let high = list.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      const each = list[middle]!;
      if (each.section < section || (each.section === section && each.offset < end)) low = middle + 1;
      else high = middle;
    }
    for (let i = low - 1; i >= 0; i--) {
      const each = list[i]!;
      if (each.section !== section || each.offset + this.longest <= start) return null;
      if (each.kind === 'patched' && each.end > start) return each.what;
    }
    return null;
  }
}

/**
 * The tables of a name: sections, or the range of a linked kernel's data that symbols delimit
 * (`__start_NAME`, `__stop_NAME`), as if it were one.
 */
function tablesNamed(program: Program, name: string): readonly ElfSection[] {
  const { image, symbols } = program;
  const sections = image.sectionsNamed(name);
  if (sections.length > 0 || program.relocatable) return sections;
  const bound = (which: string): bigint | null => {
    const symbol = symbols.find(`__${which}_${name}`);
    return symbol > 0 && symbols.sectionIndex[symbol] !== SHN_UNDEF ? symbols.value[symbol]! : null;
  };
  const [start, stop] = [bound('start'), bound('stop')];
  const home = start === null ? undefined : image.sectionAt(start);
  if (start === null || stop === null || home === undefined) return [];
  const at = Number(start - home.address);
  const size = Number(stop - start);
  if (size <= 0 || at + size > home.fileSize) return [];
  return [{ ...home, name, address: start, offset: home.offset + at, size, fileSize: size }];
}

/** The other patch ranges of a program; made once. */
export function otherRanges(program: Program): OtherRanges {
  return program.derived('other-ranges', () => {
    const found: OtherRange[] = [];
    for (const name of new Set(program.arch.patchTables.map(({ section }) => section))) {
      for (const section of tablesNamed(program, name)) {
        if (section.fileSize > 0) for (const range of rangesOf(program, section)) found.push(range);
      }
    }
    return new OtherRanges(found);
  });
}

function rangesOf(program: Program, section: ElfSection): OtherRange[] {
  const reader = new TableReader(program, section);
  const formats = program.arch.patchTables.filter((each) => each.section === section.name);
  for (const format of formats) {
    const places = reader.entries(format);
    if (places !== null) return rangesOfFormat(program, reader, places, format);
  }
  const what = `${formats[0]!.what} of a form that is not known`;
  return [...reader.named()].map(({ section: home, value }) => ({
    section: home,
    offset: value,
    end: value + 1n,
    what,
    kind: 'patched',
  }));
}

function rangesOfFormat(
  program: Program,
  reader: TableReader,
  places: readonly (Place | null)[],
  format: PatchTable,
): OtherRange[] {
  const { what, entryBytes, targets = [] } = format;
  const found: OtherRange[] = [];
  places.forEach((start, index) => {
    if (start === null) return;
    const entry = index * entryBytes;
    const end = endOf(program, reader, entry, start, format);
    if (end > start.value) found.push({ section: start.section, offset: start.value, end, what, kind: 'patched' });
    for (const field of targets) {
      const to = reader.place(entry, field);
      if (to === null || rangeOf(program, to) === undefined) continue;
      found.push({ section: to.section, offset: to.value, end: to.value + 1n, what, kind: 'target' });
    }
  });
  return found;
}

function endOf(program: Program, reader: TableReader, entry: number, start: Place, { reach }: PatchTable): Address {
  if (reach === 'instruction') {
    const range = rangeOf(program, start)!;
    const { sizeBytes } = program.arch.isa.decode(range.bytes, Number(start.value - range.address), start.value);
    return start.value + BigInt(Math.max(1, sizeBytes));
  }
  if (!('end' in reach)) return start.value + reader.length(entry, reach);
  const end = reader.place(entry, reach.end);
  return end !== null && end.section === start.section ? end.value : start.value + 1n;
}
