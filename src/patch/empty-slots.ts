/**
 * Empties slots of the site tables of linked files, whose ends are fixed by symbols: a slot gets
 * the value that the kernels of the machine skip, and nothing relocates it. Plans changes of bytes
 * in place, writes nothing, and does not know why a slot goes.
 *
 * A table in ascending order stays in it, since kernels that were built with a sorted table do not
 * sort it:
 *
 *   [a][b][c][d]  drop b
 *   [0][a][c][d]          where 0 is skipped
 *   [a][c][d][-4]         where -4 is skipped, as unsigned word the greatest
 *
 * What relocates a slot goes elsewhere:
 *
 *   RELATIVE with addend (RELA)    a copy of the entry of a slot that stays: applied twice it
 *                                  stores the same. Not NONE: old start-up code of PowerPC
 *                                  ends at it, and dynamic linkers count entries that they do not
 *                                  look at (DT_RELACOUNT)
 *   RELR                           encoded again without the slot; bitmaps without a bit fill what
 *                                  is left
 *   kept by the linker             NONE: tools that make lists of what start-up relocates leave it
 *                                  out (x86 `relocs`)
 */
import { ByteView } from '../bytes.js';
import type { ElfImage, RelocationTable } from '../elf/image.js';
import { ElftraceError, hex } from '../errors.js';
import { keptTables } from '../program/kept-tables.js';
import type { Program } from '../program/program.js';
import { isDynamic } from '../relocs/read.js';
import type { TableStep } from './plan.js';
import type { Sites } from '../sites/sites.js';
import type { SlotTable } from '../sites/tables.js';
import type { SiteIndex } from '../units.js';

/** An entry that is about a slot. */
interface SlotRow {
  readonly table: RelocationTable;
  readonly row: number;
}

/** A table as it stands in the file. */
interface Slots {
  readonly name: string;
  readonly start: bigint;
  readonly position: number;
  /** The words of the file. */
  readonly words: BigUint64Array;
  /** What start-up has in the slot before addresses are randomised. */
  readonly raw: BigUint64Array;
  /** RELATIVE entries by slot. */
  readonly rows: ReadonlyMap<number, readonly SlotRow[]>;
  /** Slots that a RELR table relocates. */
  readonly packed: ReadonlySet<number>;
}

function unsupported(name: string, reason: string): ElftraceError {
  return new ElftraceError('unsupported-form', `slots of ${name} cannot be emptied: ${reason}`, { what: name });
}

/**
 * Plans the emptying of slots.
 * @param drop  by number of the table: one byte per slot, nonzero for a slot that goes
 * @throws ElftraceError 'unsupported-form' where no value is skipped by all kernels that could have
 *   such a table, and for relocations of slots that are
 *         not understood
 */
export function planEmptySlots(sites: Sites, drop: ReadonlyMap<number, Uint8Array>): TableStep[] {
  const steps: TableStep[] = [];
  for (const [index, slots] of drop) {
    if (!slots.some((each) => each !== 0)) continue;
    const found = readSlots(sites.program, sites.tables[index]!);
    const { value, shape } = found.raw.includes(0n) ? { value: 0n, shape: '' } : skippedSlot(sites, index);
    if (value === null) {
      throw unsupported(
        found.name,
        `kernels with sites of ${shape} add before they ask whether a slot is empty, so that no value is skipped in silence; ` +
          'those that skip 0 have slots of 0, and this table has none',
      );
    }
    const fill = BigInt.asUintN(8 * sites.program.image.wordBytes, value);
    for (const step of new Emptying(sites.program, found, slots, fill).steps()) steps.push(step);
  }
  return steps;
}

/**
 * What every kernel that could have a table skips, by the shape of its sites; null: there is no
 * such value. A kernel that has slots of 0 skips 0. Others may add what leads from a slot to the
 * instruction that is patched before they ask for 0: the negative of that, which kernels that ask
 * first skip too, since no code lies there.
 */
export function skippedSlot(sites: Sites, index: SiteIndex): { readonly value: bigint | null; readonly shape: string } {
  const table = sites.tables[index]!;
  if (table.name !== '__start_mcount_loc') return { value: 0n, shape: '' };
  // A kernel has sites of one generation; what is damaged may be read as another.
  const votes = new Map<string, { readonly value: bigint | null; readonly shape: string; count: number }>();
  for (let i = 0; i < sites.count; i++) {
    const reading = sites.table(i) === table ? sites.reading(i) : null;
    if (reading === null || reading.state === 'foreign') continue;
    const { name, emptySlot } = reading.shape;
    const value = emptySlot === undefined ? 0n : emptySlot;
    const known = votes.get(`${value}`);
    if (known) known.count++;
    else votes.set(`${value}`, { value, shape: name, count: 1 });
  }
  const [best] = [...votes.values()].sort((a, b) => b.count - a.count);
  return best ?? { value: 0n, shape: '' };
}

function readSlots(program: Program, { name, count, position, container }: SlotTable): Slots {
  const { image, arch } = program;
  const word = image.wordBytes;
  const first = position[0]!;
  const start = image.addressOf(first) ?? image.sections[container]?.address ?? 0n;
  const view = new ByteView(image.bytes, image.header.endian);
  const words = new BigUint64Array(count);
  for (let i = 0; i < count; i++) words[i] = view.word(first + i * word, word);
  const raw = words.slice();
  const rows = new Map<number, SlotRow[]>();
  const packed = new Set<number>();
  for (const [slot, each] of entriesOf(program, start, count, name)) {
    const { table, row } = each;
    if (table.form === 'relr') packed.add(slot);
    else {
      const { none, relative } = arch.relocationRoles;
      if (table.type[row] === none) continue;
      if (table.type[row] !== relative || table.symbol[row] !== 0 || table.form !== 'rela') {
        throw unsupported(
          name,
          `a relocation of type ${table.type[row]!} in the form ${table.form} is about slot ${slot}`,
        );
      }
      const addend = BigInt.asUintN(8 * word, table.addend[row]!);
      if (words[slot] !== 0n && words[slot] !== addend) {
        throw unsupported(
          name,
          `slot ${slot} holds ${hex(words[slot]!)}, its relocation has the addend ${hex(addend)}`,
        );
      }
      raw[slot] = addend;
      rows.set(slot, [...(rows.get(slot) ?? []), each]);
    }
  }
  return { name, start, position: first, words, raw, rows, packed };
}

/** What start-up applies to slots. */
function* entriesOf(program: Program, start: bigint, count: number, name: string): Generator<[number, SlotRow]> {
  const { image } = program;
  const word = BigInt(image.wordBytes);
  const stop = start + word * BigInt(count);
  for (const table of image.relocations) {
    if (!isDynamic(image, table)) continue;
    const { offset } = table;
    for (let row = 0; row < table.count; row++) {
      const place = offset[row]!;
      if (place + word <= start || place >= stop) continue;
      if ((place - start) % word !== 0n)
        throw unsupported(name, `a relocation lies between two slots, at ${hex(place)}`);
      yield [Number((place - start) / word), { table, row }];
    }
  }
}

class Emptying {
  private readonly image: ElfImage;
  private readonly word: 4 | 8;
  private readonly values: BigUint64Array;
  /**
   * Slots that get empty: those of the selection, or where these go in a table that stays sorted.
   */
  private readonly emptied: Uint8Array;

  constructor(
    private readonly program: Program,
    private readonly slots: Slots,
    drop: Uint8Array,
    private readonly fill: bigint,
  ) {
    this.image = program.image;
    this.word = this.image.wordBytes;
    const { raw } = slots;
    this.values = raw.map((value, i) => (drop[i] ? fill : value));
    if (this.staysSorted(drop)) this.values.sort();
    this.emptied = Uint8Array.from(raw, (value, i) => (this.values[i] === fill && value !== fill ? 1 : 0));
  }

  /**
   * Values may change places where the table is in order and all slots that have one keep it in the
   * same way.
   */
  private staysSorted(drop: Uint8Array): boolean {
    const { raw, words, rows, packed } = this.slots;
    let form = '';
    for (let i = 0; i < raw.length; i++) {
      if (i > 0 && raw[i]! < raw[i - 1]!) return false;
      if (raw[i] === this.fill && !drop[i]) continue;
      const own = `${words[i] !== 0n} ${rows.has(i)} ${packed.has(i)}`;
      if (form !== '' && own !== form) return false;
      form = own;
    }
    return true;
  }

  steps(): TableStep[] {
    return [...this.wordSteps(), ...this.rowSteps(), ...this.packedSteps(), ...this.keptSteps()];
  }

  private step(
    part: TableStep['part'],
    section: string,
    address: bigint,
    fileOffset: number,
    after: Uint8Array,
  ): TableStep[] {
    const before = this.image.bytes.subarray(fileOffset, fileOffset + after.length);
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
        address: address + BigInt(start),
        fileOffset: fileOffset + start,
        before: before.slice(start, end),
        after: after.slice(start, end),
        rule: 'C-INIT-1',
      },
    ];
  }

  private wordSteps(): TableStep[] {
    const { words, raw, start, position, name } = this.slots;
    const after = new ByteView(new Uint8Array(words.length * this.word), this.image.header.endian);
    for (let i = 0; i < words.length; i++) {
      const moved = this.values[i] !== raw[i] && (this.emptied[i] || words[i] !== 0n);
      after.insertWord(i * this.word, moved ? this.values[i]! : words[i]!, this.word);
    }
    const section = this.image.sectionAt(start)?.name ?? name;
    return this.step('slots', section, start, position, after.bytes);
  }

  /**
   * Entries of slots that are empty now become copies of the entry of the nearest slot in front of
   * or behind them that is not.
   */
  private rowSteps(): TableStep[] {
    const { rows, name, raw } = this.slots;
    if (rows.size === 0) return [];
    const places = [...rows.keys()].sort((a, b) => a - b);
    const donors = places.filter((slot) => this.values[slot] !== this.fill);
    if (donors.length === 0) throw unsupported(name, 'no slot stays whose relocation could take the place of theirs');
    const entries = new Map<number, { readonly section: string; readonly after: Uint8Array }>();
    let next = 0;
    for (const slot of places) {
      while (next < donors.length - 1 && donors[next]! < slot) next++;
      if (this.values[slot] === raw[slot]) continue;
      const donor = this.emptied[slot] ? donors[next]! : slot;
      for (const { table, row } of rows.get(slot)!) {
        entries.set(table.fileOffset(row), {
          section: this.image.sections[table.section]?.name ?? '',
          after: this.entry(donor),
        });
      }
    }
    return this.joined(entries);
  }

  /** The RELATIVE entry of a slot. */
  private entry(slot: number): Uint8Array {
    const { word } = this;
    const view = new ByteView(new Uint8Array(3 * word), this.image.header.endian);
    view.insertWord(0, this.slots.start + BigInt(slot * word), word);
    view.insertWord(word, BigInt(this.program.arch.relocationRoles.relative), word);
    view.insertWord(2 * word, this.values[slot]!, word);
    return view.bytes;
  }

  /** One step for entries that follow each other. */
  private joined(entries: ReadonlyMap<number, { readonly section: string; readonly after: Uint8Array }>): TableStep[] {
    const offsets = [...entries.keys()].sort((a, b) => a - b);
    const steps: TableStep[] = [];
    for (let i = 0; i < offsets.length;) {
      const first = offsets[i]!;
      const { section } = entries.get(first)!;
      const parts: Uint8Array[] = [];
      let end = first;
      for (; i < offsets.length && offsets[i] === end; i++) {
        const { after } = entries.get(end)!;
        parts.push(after);
        end += after.length;
      }
      const bytes = new Uint8Array(end - first);
      let at = 0;
      for (const part of parts) {
        bytes.set(part, at);
        at += part.length;
      }
      const address = this.image.addressOf(first) ?? BigInt(first);
      steps.push(...this.step('relocations', section, address, first, bytes));
    }
    return steps;
  }

  /** RELR tables without the slots that are empty now. */
  private packedSteps(): TableStep[] {
    const { packed, start, name } = this.slots;
    const gone = new Set<bigint>();
    for (const slot of packed) if (this.emptied[slot]) gone.add(start + BigInt(slot * this.word));
    if (gone.size === 0) return [];
    return this.image.relocations.flatMap((table) => {
      if (table.form !== 'relr' || !table.offset.some((place) => gone.has(place))) return [];
      const section = this.image.sections[table.section];
      if (section === undefined) throw unsupported(name, 'their RELR table has no section');
      const places = [...table.offset].filter((place) => !gone.has(place)).sort((a, b) => (a < b ? -1 : 1));
      const words = encodeRelr(places, this.word);
      const room = section.size / this.word;
      if (words.length > room) throw unsupported(name, 'their RELR table would grow');
      const after = new ByteView(new Uint8Array(section.size), this.image.header.endian);
      // A bitmap without a bit relocates nothing.
      for (let i = 0; i < room; i++) after.insertWord(i * this.word, words[i] ?? 1n, this.word);
      return this.step('relocations', section.name, section.address, section.offset, after.bytes);
    });
  }

  /** Entries that a linker kept: none for an empty slot, and those that were true stay true. */
  private keptSteps(): TableStep[] {
    const { start, words, raw } = this.slots;
    const { word } = this;
    const stop = start + BigInt(words.length * word);
    const entries = new Map<number, { readonly section: string; readonly after: Uint8Array }>();
    for (const table of keptTables(this.image)) {
      const { offset } = table;
      if (table.form !== 'rela' || this.image.sections[table.target]?.name !== this.image.sectionAt(start)?.name)
        continue;
      for (let row = 0; row < table.count; row++) {
        const place = offset[row]!;
        if (place < start || place >= stop) continue;
        const slot = Number((place - start) / BigInt(word));
        if (this.values[slot] === raw[slot]) continue;
        const after = this.keptEntry(table, row, slot);
        if (after === null) continue;
        entries.set(table.fileOffset(row) + word, { section: this.image.sections[table.section]!.name, after });
      }
    }
    return this.joined(entries);
  }

  /** r_info and r_addend; null where the entry was not true before. */
  private keptEntry({ type, symbol, symbols, addend }: RelocationTable, row: number, slot: number): Uint8Array | null {
    const { word } = this;
    const view = new ByteView(new Uint8Array(2 * word), this.image.header.endian);
    if (this.emptied[slot]) {
      view.insertWord(0, BigInt(this.program.arch.relocationRoles.none), word);
      return view.bytes;
    }
    const value = symbols?.value[symbol[row]!] ?? 0n;
    if (BigInt.asUintN(8 * word, value + addend[row]!) !== this.slots.words[slot]) return null;
    const [info, types] = word === 8 ? [BigInt(symbol[row]!) << 32n, 32] : [BigInt(symbol[row]!) << 8n, 8];
    view.insertWord(0, info | BigInt.asUintN(types, BigInt(type[row]!)), word);
    view.insertWord(word, BigInt.asUintN(8 * word, this.values[slot]! - value), word);
    return view.bytes;
  }
}

/**
 * Words of a RELR table for ascending, distinct places: an address, then bitmaps of the words
 * behind it.
 */
export function encodeRelr(places: readonly bigint[], word: 4 | 8): bigint[] {
  const step = BigInt(word);
  const bits = 8n * step - 1n;
  const words: bigint[] = [];
  for (let i = 0; i < places.length;) {
    words.push(places[i]!);
    let base = places[i]! + step;
    for (i++; ; base += bits * step) {
      let map = 0n;
      for (; i < places.length && places[i]! < base + bits * step; i++) {
        if ((places[i]! - base) % step !== 0n) break;
        map |= 1n << ((places[i]! - base) / step + 1n);
      }
      if (map === 0n) break;
      words.push(map | 1n);
    }
  }
  return words;
}
