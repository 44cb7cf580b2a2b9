/**
 * Relocations of a section in the order of their places, whatever tables they come from, and the
 * addends that REL and RELR keep in the place. The tables themselves are read by `elf/`; what a
 * type computes is in the rows.
 */
import { ByteView } from '../bytes.js';
import { ElftraceError, hex, truncated } from '../errors.js';
import { ET_REL, SHF_ALLOC } from '../elf/constants.js';
import type { ElfImage, ElfSection, RelocationTable } from '../elf/image.js';
import { halves, HIGH, inOrder, LOW, sortedOrder } from '../elf/lookup.js';

/**
 * Rows of one or more relocation tables, sorted by place; rows of one place keep file order (RISC-V
 * pairs and chains depend on it). Columns of equal length `count`.
 */
export interface SortedRelocations {
  readonly count: number;
  readonly tables: readonly RelocationTable[];
  /** Section offset (ET_REL) or address. */
  readonly offset: BigUint64Array;
  /** Which of `tables`, and which row of it. */
  readonly table: Uint8Array;
  readonly row: Uint32Array;
  /** Rank of the first row whose place is not in front of `place`; `count` when there is none. */
  from(place: bigint): number;
  /** Rank of the first row of exactly that place, or -1. */
  at(place: bigint): number;
}

/** Halves of the places of all rows, one table behind the other. */
function placesOf(tables: readonly RelocationTable[], count: number): readonly [low: Uint32Array, high: Uint32Array] {
  const low = new Uint32Array(count);
  const high = new Uint32Array(count);
  let at = 0;
  for (const table of tables) {
    const words = halves(table.offset);
    for (let row = 0; row < table.count; row++, at++) {
      low[at] = words[2 * row + LOW]!;
      high[at] = words[2 * row + HIGH]!;
    }
  }
  return [low, high];
}

/** The ranks' rows; null where the rows are sorted as they are. */
function orderOf(low: Uint32Array, high: Uint32Array): ReturnType<typeof sortedOrder> | null {
  const keys = [low, high];
  return inOrder(keys, low.length) ? null : sortedOrder(keys, low.length);
}

/** The numbers of the rows of a table whose places are in order; null where they are not. */
function rowsInOrder(offset: BigUint64Array): Uint32Array | null {
  const words = halves(offset);
  const rows = new Uint32Array(offset.length);
  for (let row = 1; row < rows.length; row++) {
    const above = words[2 * row + HIGH]! - words[2 * row - 2 + HIGH]!;
    if (above < 0 || (above === 0 && words[2 * row + LOW]! < words[2 * row - 2 + LOW]!)) return null;
    rows[row] = row;
  }
  return rows;
}

/** Sorted columns, and how places are found in them. */
function searchable(columns: Pick<SortedRelocations, 'tables' | 'offset' | 'table' | 'row'>): SortedRelocations {
  const { offset } = columns;
  const count = offset.length;
  const from = (place: bigint): number => {
    let below = 0;
    let above = count;
    while (below < above) {
      const middle = (below + above) >>> 1;
      if (offset[middle]! < place) below = middle + 1;
      else above = middle;
    }
    return below;
  };
  const at = (place: bigint): number => {
    const rank = from(place);
    return rank < count && offset[rank] === place ? rank : -1;
  };
  return { ...columns, count, from, at };
}

/**
 * Sorts the rows of `tables` (at most 255) by place: a million rows take about 0.05 s.
 * @throws what reading the tables' columns throws
 */
export function sortRelocations(tables: readonly RelocationTable[]): SortedRelocations {
  if (tables.length > 255) {
    throw new ElftraceError('unsupported-form', `${tables.length} relocation tables for one section, at most 255`, {
      value: tables.length,
      max: 255,
    });
  }
  const filled = tables.filter((table) => table.count > 0);
  const rowsAsTheyAre = filled.length === 1 ? rowsInOrder(filled[0]!.offset) : null;
  if (rowsAsTheyAre !== null) {
    const { offset, count } = filled[0]!;
    return searchable({
      tables,
      offset,
      row: rowsAsTheyAre,
      table: new Uint8Array(count).fill(tables.indexOf(filled[0]!)),
    });
  }
  let count = 0;
  for (const table of tables) count += table.count;
  const [low, high] = placesOf(tables, count);
  const order = orderOf(low, high);
  const firstOf: number[] = [];
  let first = 0;
  const tableOf = new Uint8Array(count);
  tables.forEach((table, index) => {
    firstOf.push(first);
    tableOf.fill(index, first, first + table.count);
    first += table.count;
  });
  const offset = new BigUint64Array(count);
  const offsets = halves(offset);
  const table = new Uint8Array(count);
  const rows = new Uint32Array(count);
  for (let rank = 0; rank < count; rank++) {
    const from = order === null ? rank : order[rank]!;
    const owner = tableOf[from]!;
    offsets[2 * rank + LOW] = low[from]!;
    offsets[2 * rank + HIGH] = high[from]!;
    table[rank] = owner;
    rows[rank] = from - firstOf[owner]!;
  }
  return searchable({ tables, offset, table, row: rows });
}

/** The relocations whose target is `section`, sorted by place. */
export function relocationsSorted(image: ElfImage, section: ElfSection): SortedRelocations {
  return sortRelocations(image.relocationsOf(section));
}

/** The dynamic relocations of a linked file (places are addresses of memory), sorted by place. */
export function dynamicRelocationsSorted(image: ElfImage): SortedRelocations {
  return sortRelocations(image.relocations.filter((table) => isDynamic(image, table)));
}

/**
 * True for a table that the dynamic linker (or the kernel's start-up) applies: found by DT_*, or in
 * an allocated section.
 */
export function isDynamic(image: ElfImage, table: RelocationTable): boolean {
  if (table.section < 0) return true;
  return (image.sections[table.section]!.flags & SHF_ALLOC) !== 0n;
}

/**
 * A note for each relocation table of a linked file that names symbols of a table which is not
 * there (sh_link 0: a linker script discarded `.dynsym`, as arm64 kernels link). Kernels apply the
 * relative rows of such a table alone.
 */
export function namelessRelocations(image: ElfImage): string[] {
  if (image.header.type === ET_REL) return [];
  return image.relocations.flatMap((table) => {
    if (table.symbols !== null || table.section < 0 || (table.form !== 'rela' && table.form !== 'rel')) return [];
    const named = table.symbol.reduce((count, symbol) => count + (symbol === 0 ? 0 : 1), 0);
    if (named === 0) return [];
    const name = image.sections[table.section]?.name ?? '';
    return [
      `${named} of ${table.count} relocations in ${name} name symbols, and the file has no table of them (sh_link 0)`,
    ];
  });
}

/**
 * File position of a row's place, by its target section where it has one and by the program headers
 * elsewhere.
 * @returns -1 where no byte of the file lies (NOBITS, unmapped)
 * @throws ElftraceError 'bad-reference' for a place outside its target section
 */
export function placeFileOffset(image: ElfImage, table: RelocationTable, row: number): number {
  const place = table.offset[row]!;
  if (image.header.type !== ET_REL) return image.fileOffsetOf(place);
  const section = image.sections[table.target]!;
  if (place >= BigInt(section.size)) {
    const what = `relocation section ${table.section}: row ${row}: r_offset`;
    throw new ElftraceError('bad-reference', `${what}: ${hex(place)} is outside section ${section.name}`, {
      what,
      section: section.name,
      offset: place,
      max: section.size,
    });
  }
  return section.fileSize === 0 ? -1 : section.offset + Number(place);
}

/**
 * The addend that a REL or RELR row keeps in its place, as `sizeBytes` little- or big-endian bytes,
 * sign-extended. Fields that are parts of instruction words are the relocation rows' business.
 * @throws ElftraceError 'elf-truncated' when the place has not that many bytes in the file
 */
export function inPlaceAddend(image: ElfImage, table: RelocationTable, row: number, sizeBytes: 1 | 2 | 4 | 8): bigint {
  const at = placeFileOffset(image, table, row);
  if (at < 0) throw truncated(`place of row ${row}`, table.offset[row]!, sizeBytes, image.bytes.length);
  const view = new ByteView(image.bytes, image.header.endian, 'place');
  if (sizeBytes === 8) return view.i64(at);
  const value = sizeBytes === 4 ? view.u32(at) : sizeBytes === 2 ? view.u16(at) : view.u8(at);
  return BigInt.asIntN(8 * sizeBytes, BigInt(value));
}
