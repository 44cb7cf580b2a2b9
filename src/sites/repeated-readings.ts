/**
 * Sites that read as one in front of them does, told without asking the shapes again. What a shape
 * says of a site follows from the answers of its view alone, so a witness notes what was asked and
 * answered at one site: bytes, relocations, where functions begin. A site at which the same
 * questions have the same answers reads the same. Nearly all sites of a file do, and they are told
 * in short loops over columns, without an object for each.
 *
 * Whatever else is asked (addresses, what a branch leads to, unwind information) is not compared:
 * sites where a shape wants to know it are read one by one.
 */
import type { CalleeKind, CodeReference, SiteReading, SiteRelocation, SiteView } from '../machine/sites.js';
import type { StubReading } from '../machine/stubs.js';
import type { SiteStub } from '../machine/out-of-line.js';
import type { SymbolTable } from '../elf/image.js';
import { halves, HIGH, LOW, lowerBoundFrom } from '../elf/lookup.js';
import type { CodeRange, PlacedRelocations, Program } from '../program/program.js';
import type { Address, SymbolIndex } from '../units.js';
import type { ProgramView, RelocationPlace } from './view.js';

/** A site that is asked for more bytes is read by itself. */
const MOST_BYTES = 64;
/** So many sites are compared at first, and twice as many after each time that all were alike. */
const FIRST_BLOCK = 16;
/** Sites that are noted in any case, and for each that was noted, sites that must be like one. */
const FREE_NOTES = 16;
const WORTH_A_NOTE = 4;

/** A row that stands alone at its place; its addend as halves. */
interface NotedRow {
  readonly symbols: SymbolTable | null;
  readonly type: number;
  readonly symbol: SymbolIndex;
  readonly low: number;
  readonly high: number;
}

/** What stands at a place; null: nothing. */
interface NotedRelocation {
  readonly delta: number;
  readonly row: NotedRow | null;
}

function noteRow({ table, row }: RelocationPlace): NotedRow {
  const { symbols, type, symbol, addend } = table;
  const words = halves(addend);
  return {
    symbols,
    type: type[row]!,
    symbol: symbol[row]!,
    low: words[2 * row + LOW]!,
    high: words[2 * row + HIGH]!,
  };
}

/** A view that notes what it is asked. */
class Witness implements SiteView {
  readonly relocatable: boolean;
  readonly positionIndependent: boolean;
  /** Something was asked that is not compared. */
  isOpen = false;
  /** Bytes that were asked for, from the anchor. */
  first = 0;
  end = 0;
  readonly functions = new Map<number, boolean>();
  readonly relocations = new Map<number, NotedRelocation>();

  constructor(private readonly view: ProgramView) {
    this.relocatable = view.relocatable;
    this.positionIndependent = view.positionIndependent;
  }

  private look(delta: number, size: number): void {
    this.first = Math.min(this.first, delta);
    this.end = Math.max(this.end, delta + size);
  }

  /** The view, for a question whose answer is not compared. */
  private get other(): ProgramView {
    this.isOpen = true;
    return this.view;
  }

  u8(delta: number): number {
    this.look(delta, 1);
    return this.view.u8(delta);
  }

  u16(delta: number): number {
    this.look(delta, 2);
    return this.view.u16(delta);
  }

  u32(delta: number): number {
    this.look(delta, 4);
    return this.view.u32(delta);
  }

  bytes(delta: number, size: number): Uint8Array {
    this.look(delta, size);
    return this.view.bytes(delta, size);
  }

  functionAt(delta: number): boolean {
    const answer = this.view.functionAt(delta);
    this.functions.set(delta, answer);
    return answer;
  }

  relocation(delta: number): SiteRelocation | null {
    const { view } = this;
    const answer = view.relocation(delta);
    if (view.relocatable) {
      const rank = view.firstRelocation(delta);
      // Several at one place, or one that says nothing: their rows would have to be judged.
      const isAlone = rank >= 0 && view.nextRelocation(rank) < 0 && answer !== null;
      if (isAlone) this.relocations.set(delta, { delta, row: noteRow(view.relocationAt(rank)) });
      else if (rank < 0) this.relocations.set(delta, { delta, row: null });
      else this.isOpen = true;
    }
    return answer;
  }

  /** The same for every site. */
  isMcountName(name: string): boolean {
    return this.view.isMcountName(name);
  }

  get address(): Address {
    return this.other.address;
  }
  unwindsFrom(delta: number): boolean {
    return this.other.unwindsFrom(delta);
  }
  calledFrom(delta: number): CodeReference | null {
    return this.other.calledFrom(delta);
  }
  entryAt(delta: number): boolean {
    return this.other.entryAt(delta);
  }
  covered(): boolean {
    return this.other.covered();
  }
  wordAt(address: Address): number {
    return this.other.wordAt(address);
  }
  bytesAt(address: Address, size: number): Uint8Array {
    return this.other.bytesAt(address, size);
  }
  ownStub(): SiteStub | null {
    return this.other.ownStub();
  }
  callee(address: Address): CalleeKind {
    return this.other.callee(address);
  }
  stub(address: Address): StubReading | null {
    return this.other.stub(address);
  }
  isDirectCaller(address: Address): boolean {
    return this.other.isDirectCaller(address);
  }
}

/** What reads a site through a view. */
interface Reader {
  /** Of the shape of the last reading. */
  readonly number: number;
  read(view: SiteView): SiteReading | null;
}

/** What was noted of one site. */
interface Note {
  readonly reader: Reader;
  readonly reading: SiteReading;
  readonly number: number;
  /** From the anchor. */
  readonly delta: number;
  readonly bytes: Uint8Array;
  readonly functions: readonly (readonly [delta: number, isThere: boolean])[];
  readonly relocations: readonly NotedRelocation[];
}

/** Readings of the sites of one program, and what the last one that was noted followed from. */
export class RepeatedReadings {
  private note: Note | null = null;
  private range: CodeRange | null = null;
  private notes = 0;
  private alike = 0;
  /** Where each search ended, of functions and of relocations. */
  private functionHints: number[] = [];
  private relocationHints: number[] = [];

  constructor(
    private readonly program: Program,
    private readonly view: ProgramView,
  ) {}

  /** Reads the site that the view was moved to, and notes what that follows from. */
  read(reader: Reader, range: CodeRange, offset: number): SiteReading | null {
    const { view } = this;
    if (this.notes > FREE_NOTES && this.alike < WORTH_A_NOTE * this.notes) return reader.read(view);
    this.notes++;
    const witness = new Witness(view);
    const reading = reader.read(witness);
    const { first, end, isOpen } = witness;
    const isInside = offset + first >= 0 && offset + end <= range.bytes.length;
    if (reading === null || isOpen || !isInside || end - first > MOST_BYTES) return reading;
    const bytes = range.bytes.slice(offset + first, offset + end);
    const functions = [...witness.functions];
    // A place outside the code is told of another list.
    if (functions.some(([delta]) => offset + delta < 0 || offset + delta >= range.bytes.length)) return reading;
    const relocations = [...witness.relocations.values()];
    this.note = { reader, reading, number: reader.number, delta: first, bytes, functions, relocations };
    this.range = null;
    return reading;
  }

  /** What the sites are that `behind` tells. */
  get noted(): Pick<Note, 'reading' | 'number'> {
    return this.note!;
  }

  /**
   * The first of some sites of a range that may read otherwise than the noted one.
   * @param offsets  of all sites in their range, ascending
   */
  behind(reader: Reader, range: CodeRange, offsets: Float64Array, from: number, to: number): number {
    const { note } = this;
    if (note?.reader !== reader) return from;
    if (range !== this.range) {
      this.range = range;
      this.functionHints = note.functions.map(() => 0);
      this.relocationHints = note.relocations.map(() => 0);
    }
    let site = from;
    for (let block = FIRST_BLOCK; site < to; block *= 2) {
      const end = Math.min(site + block, to);
      const next = this.behindIn(note, range, offsets, site, end);
      site = next;
      if (next < end) break;
    }
    this.alike += site - from;
    return site;
  }

  private behindIn(note: Note, range: CodeRange, offsets: Float64Array, from: number, to: number): number {
    const { program } = this;
    let end = sameBytes(range.bytes, offsets, from, to, note.delta, note.bytes);
    if (note.relocations.length > 0) {
      const placed = program.relocationsOf(range.section);
      note.relocations.forEach((each, i) => {
        const hint = this.relocationHints[i]!;
        [end, this.relocationHints[i]] = sameRelocation(placed, offsets, from, end, each, hint);
      });
    }
    if (note.functions.length > 0) {
      const starts = program.startsIn(range);
      note.functions.forEach(([delta, isThere], i) => {
        const hint = this.functionHints[i]!;
        [end, this.functionHints[i]] = sameStarts(starts, offsets, from, end, delta, isThere, range.bytes.length, hint);
      });
    }
    return end;
  }
}

/** The first of the sites whose code has other bytes. */
function sameBytes(
  code: Uint8Array,
  offsets: Float64Array,
  from: number,
  to: number,
  delta: number,
  bytes: Uint8Array,
): number {
  const { length } = bytes;
  const last = code.length - length;
  for (let site = from; site < to; site++) {
    const at = offsets[site]! + delta;
    if (at < 0 || at > last) return site;
    for (let i = 0; i < length; i++) if (code[at + i] !== bytes[i]) return site;
  }
  return to;
}

/** The first of the sites that has another relocation at a delta, and where the search ended. */
function sameRelocation(
  { offset: places, table: tableOf, row: rowOf, tables }: PlacedRelocations,
  offsets: Float64Array,
  from: number,
  to: number,
  { delta, row: noted }: NotedRelocation,
  hint: number,
): readonly [site: number, hint: number] {
  let rank = hint;
  if (noted === null) {
    for (let site = from; site < to; site++) {
      const place = offsets[site]! + delta;
      rank = lowerBoundFrom(places, place, rank);
      if (places[rank] === place) return [site, rank];
    }
    return [to, rank];
  }
  if (from === to) return [to, rank];
  // A section may have several tables; those of one are compared at a time.
  rank = lowerBoundFrom(places, offsets[from]! + delta, rank);
  const inTable = tableOf[rank];
  const table = inTable === undefined ? undefined : tables[inTable];
  if (table?.symbols !== noted.symbols) return [from, rank];
  const { type, symbol, addend } = table;
  const addends = halves(addend);
  for (let site = from; site < to; site++) {
    const place = offsets[site]! + delta;
    if (places[rank] !== place) rank = lowerBoundFrom(places, place, rank);
    if (places[rank] !== place || places[rank + 1] === place || tableOf[rank] !== inTable) return [site, rank];
    const row = rowOf[rank]!;
    if (type[row] !== noted.type || symbol[row] !== noted.symbol) return [site, rank];
    if (addends[2 * row + LOW] !== noted.low || addends[2 * row + HIGH] !== noted.high) return [site, rank];
    rank++;
  }
  return [to, rank];
}

/** The first of the sites about which it is not as said whether a function begins at a delta. */
function sameStarts(
  starts: Float64Array,
  offsets: Float64Array,
  from: number,
  to: number,
  delta: number,
  isThere: boolean,
  size: number,
  hint: number,
): readonly [site: number, hint: number] {
  let next = hint;
  for (let site = from; site < to; site++) {
    const place = offsets[site]! + delta;
    if (place < 0 || place >= size) return [site, next];
    next = lowerBoundFrom(starts, place, next);
    if ((starts[next] === place) !== isThere) return [site, next];
  }
  return [to, next];
}
