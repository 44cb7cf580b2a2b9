/**
 * Takes slots out of the site tables of a relocatable file: rows that stay move together, the table
 * and its relocations shrink, and a table without a slot goes. Plans changes of bytes in place,
 * writes nothing, and does not know what a slot names.
 *
 *   slots            [a][b][c]      drop b      [a][c]          sh_size less by one word
 *   .rela rows       0:a 8:b 16:c               0:a 8:c         sh_size less by one row; offsets
 *                                                               follow the slots
 *   nothing left     the section headers of table and relocations become SHT_NULL (gABI: inactive),
 *                    a section group loses them
 *
 * Numbers of sections and symbols stay what they are, so nothing else of the file has to follow:
 * where a section was there is an inactive header, where its symbols were there are nameless
 * STT_FILE symbols, as linkers leave them. Bytes behind the shrunk end are part of no section.
 */
import * as elf from '../elf/constants.js';
import type { ElfImage, ElfSection, RelocationTable, SymbolTable } from '../elf/image.js';
import { symbolBytes } from '../elf/symbols.js';
import { ElftraceError } from '../errors.js';
import { ChangedPages } from './changed-pages.js';
import type { TableStep } from './plan.js';
import type { SectionIndex } from '../units.js';

/** A table and its slots that go. */
export interface SlotsToDrop {
  /** Index of the section. */
  readonly section: SectionIndex;
  /** One byte per slot, nonzero for a slot that goes. */
  readonly drop: Uint8Array;
}

type Part = TableStep['part'];

/** Fields of a section header by class. */
const headerFields = (is64: boolean): { readonly step: number; readonly size: number } =>
  is64 ? { step: 64, size: 32 } : { step: 40, size: 20 };

function refused(section: ElfSection, reason: string): ElftraceError {
  return new ElftraceError('unsupported-form', `${section.name} cannot shrink: ${reason}`, { section: section.name });
}

/**
 * Plans the shrinking of tables. All of it is about places that the file has now; the result is
 * sorted by file position.
 * @param image  a relocatable file that carries nothing of ours: positions are those of the
 *               original
 * @throws ElftraceError 'unsupported-form' when something else of the file depends on the slots
 */
export function planShrinking(image: ElfImage, wanted: readonly SlotsToDrop[]): TableStep[] {
  const tables = wanted.filter(({ drop }) => drop.some((each) => each !== 0));
  return tables.length === 0 ? [] : new Shrinking(image, tables).steps();
}

class Shrinking {
  /** The file as it will be. */
  private readonly after: ChangedPages;
  private readonly touched: {
    readonly part: Part;
    readonly section: string;
    readonly start: number;
    readonly end: number;
  }[] = [];
  /** Sections that go, tables and their relocations. */
  private readonly gone = new Set<number>();

  constructor(
    private readonly image: ElfImage,
    private readonly tables: readonly SlotsToDrop[],
  ) {
    this.after = new ChangedPages(image.bytes, image.header.endian);
  }

  steps(): TableStep[] {
    for (const table of this.tables) {
      this.checkReferences(table);
      this.shrink(table);
    }
    this.shrinkGroups();
    return this.touched
      .sort((a, b) => a.start - b.start)
      .flatMap(({ part, section, start, end }) => this.changes(part, section, start, end));
  }

  /** One step from the first byte of a touched range that differs to the last. */
  private changes(part: Part, section: string, first: number, behind: number): TableStep[] {
    const before = this.image.bytes.subarray(first, behind);
    const after = this.after.slice(first, behind);
    let start = 0;
    let end = after.length;
    while (start < end && before[start] === after[start]) start++;
    while (end > start && before[end - 1] === after[end - 1]) end--;
    if (start === end) return [];
    return [
      {
        kind: 'table',
        part,
        site: -1,
        section,
        address: BigInt(start),
        fileOffset: first + start,
        before: before.slice(start, end),
        after: after.slice(start, end),
        rule: 'C-INIT-1',
      },
    ];
  }

  private touch(part: Part, section: string, start: number, size: number): void {
    this.touched.push({ part, section, start, end: start + size });
  }

  /** Symbols of the symbol table that relocations and sections use, by the section they are in. */
  private symbolsIn(section: SectionIndex): number[] {
    const { symbols } = this.image;
    const found: number[] = [];
    for (let i = 1; i < symbols.count; i++) if (symbols.sectionIndex[i] === section) found.push(i);
    return found;
  }

  /** Nothing but its own relocations may know where a slot is. */
  private checkReferences({ section: index }: SlotsToDrop): void {
    const { image } = this;
    const table = image.sections[index]!;
    const own = new Set(image.relocationsOf(table).map((each) => each.section));
    for (const each of image.sections) {
      if (own.has(each.index)) continue;
      const inInfo = (each.flags & elf.SHF_INFO_LINK) !== 0n || each.type === elf.SHT_RELA || each.type === elf.SHT_REL;
      if (each.link === index || (inInfo && each.info === index)) throw refused(table, `section ${each.name} names it`);
    }
    const inside = new Set(this.symbolsIn(index));
    if (inside.size === 0) return;
    for (const rows of image.relocations) {
      if (rows.symbols !== image.symbols || own.has(rows.section)) continue;
      for (let row = 0; row < rows.count; row++) {
        if (inside.has(rows.symbol[row]!)) {
          throw refused(table, `relocation ${row} of ${image.sections[rows.section]?.name ?? ''} names a place in it`);
        }
      }
    }
  }

  private shrink({ section: index, drop }: SlotsToDrop): void {
    const { image } = this;
    const table = image.sections[index]!;
    const word = image.wordBytes;
    /** New number of each slot that stays; of the next one that does where it goes. */
    const moved = new Uint32Array(drop.length + 1);
    for (let i = 0; i < drop.length; i++) moved[i + 1] = moved[i]! + (drop[i] ? 0 : 1);
    const left = moved[drop.length]!;
    if (left === 0) {
      this.remove(table);
      for (const rows of image.relocationsOf(table)) this.remove(image.sections[rows.section]!);
    } else {
      for (let i = 0; i < drop.length; i++) {
        if (!drop[i]) this.move(table.offset + i * word, table.offset + moved[i]! * word, word);
      }
      this.touch('slots', table.name, table.offset, left * word);
      this.resize(table, left * word);
      for (const rows of image.relocationsOf(table)) this.shrinkRows(table, rows, drop, moved);
    }
    this.moveSymbols(table, moved, left === 0);
  }

  private move(from: number, to: number, size: number): void {
    if (from !== to) this.after.set(this.image.bytes.subarray(from, from + size), to);
  }

  /** Rows of slots that stay, one behind the other, in their order. */
  private shrinkRows(table: ElfSection, rows: RelocationTable, drop: Uint8Array, moved: Uint32Array): void {
    const { image } = this;
    const section = image.sections[rows.section]!;
    if (section.type !== elf.SHT_RELA && section.type !== elf.SHT_REL) {
      throw refused(table, `its relocations are of a form that is not written (section type ${section.type})`);
    }
    const word = image.wordBytes;
    const size = (rows.form === 'rela' ? 3 : 2) * word;
    let to = section.offset;
    for (let row = 0; row < rows.count; row++) {
      const place = Number(rows.offset[row]!);
      const slot = Math.floor(place / word);
      // One without effect gives no slot a value, and the reader of the table has left it out.
      if (slot >= drop.length) throw refused(table, `relocation ${row} of ${section.name} lies behind it`);
      if (drop[slot]) continue;
      this.move(rows.fileOffset(row), to, size);
      this.after.insertWord(to, BigInt(moved[slot]! * word + (place % word)), word);
      to += size;
    }
    this.touch('relocations', section.name, section.offset, to - section.offset);
    if (to === section.offset) this.remove(section);
    else this.resize(section, to - section.offset);
  }

  private headerOf(section: ElfSection): number {
    return this.image.header.shoff + section.index * headerFields(this.image.header.is64).step;
  }

  private resize(section: ElfSection, size: number): void {
    const at = this.headerOf(section) + headerFields(this.image.header.is64).size;
    this.after.insertWord(at, BigInt(size), this.image.wordBytes);
    this.touch('header', section.name, at, this.image.wordBytes);
  }

  /** The header says that there is no section. */
  private remove(section: ElfSection): void {
    const at = this.headerOf(section);
    const { step } = headerFields(this.image.header.is64);
    this.after.clear(at, at + step);
    this.touch('header', section.name, at, step);
    this.gone.add(section.index);
  }

  /**
   * Symbols in the table follow its slots; those of a table that goes become nameless STT_FILE
   * symbols.
   */
  private moveSymbols(table: ElfSection, moved: Uint32Array, all: boolean): void {
    const { image } = this;
    const { symbols } = image;
    const word = image.wordBytes;
    for (const index of this.symbolsIn(table.index)) {
      const type = symbols.info[index]! & 15;
      const isMark =
        type === elf.STT_SECTION || (symbols.info[index] === elf.STT_NOTYPE && /^\$[a-z]/.test(symbols.name(index)));
      const value = symbols.value[index]!;
      const slot = Number(value) / word;
      const at = this.symbolAt(symbols, index);
      if (all) {
        if (!isMark) throw refused(table, `the symbol ${symbols.name(index)} is in it`);
        this.forget(at, index);
        continue;
      }
      if (!isMark && symbols.size[index] !== 0n)
        throw refused(table, `the symbol ${symbols.name(index)} has a size in it`);
      if (!Number.isInteger(slot) || slot >= moved.length)
        throw refused(table, `the symbol ${symbols.name(index)} is on no slot`);
      const valueAt = at + (image.header.is64 ? 8 : 4);
      this.after.insertWord(valueAt, BigInt(moved[slot]! * word), word);
      this.touch('symbol', table.name, valueAt, word);
    }
  }

  private symbolAt(symbols: SymbolTable, index: number): number {
    return this.image.sections[symbols.section]!.offset + index * symbolBytes(this.image.header.is64);
  }

  /**
   * A symbol becomes what linkers leave where a file's symbols end: STT_FILE, local, without a
   * name, absolute.
   */
  private forget(at: number, index: number): void {
    const { image } = this;
    const { is64 } = image.header;
    const size = symbolBytes(is64);
    this.after.clear(at, at + size);
    this.after.insertU8(at + (is64 ? 4 : 12), elf.STT_FILE);
    this.after.insertU16(at + (is64 ? 6 : 14), elf.SHN_ABS);
    this.touch('symbol', '.symtab', at, size);
    const far = image.sections.find(
      (each) => each.type === elf.SHT_SYMTAB_SHNDX && each.link === image.symbols.section,
    );
    if (far === undefined) return;
    this.after.insertWord(far.offset + 4 * index, 0n, 4);
    this.touch('symbol', far.name, far.offset + 4 * index, 4);
  }

  /**
   * Groups lose the sections that go; a section that is no member of its group any more would be
   * kept without it.
   */
  private shrinkGroups(): void {
    const { image } = this;
    for (const { section: index, members } of image.groups()) {
      const left = members.filter((each) => !this.gone.has(each));
      if (left.length === members.length) continue;
      const group = image.sections[index]!;
      left.forEach((each, i) => this.after.insertWord(group.offset + 4 + 4 * i, BigInt(each), 4));
      this.touch('group', group.name, group.offset + 4, 4 * left.length);
      this.resize(group, 4 + 4 * left.length);
    }
  }
}
