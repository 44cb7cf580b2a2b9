/**
 * The view through which site shapes see a program: one object that is moved from site to site.
 * Positions that shapes use are deltas from the anchor; this file turns them into positions in the
 * code range and relocation rows.
 */
import type { SiteStub } from '../machine/out-of-line.js';
import type { CalleeKind, CodeReference, SiteRelocation, SiteView } from '../machine/sites.js';
import type { StubReading } from '../machine/stubs.js';
import { holdsAt } from '../bytes.js';
import { halves, lowerBoundFrom } from '../elf/lookup.js';
import type { CodeRange, PlacedRelocations, Program } from '../program/program.js';
import { readTable } from './direct-table.js';
import type { Address } from '../units.js';
import type { SiteStubs } from './site-stubs.js';

/** A relocation of a relocatable file by table and row. */
export interface RelocationPlace {
  readonly table: PlacedRelocations['tables'][number];
  readonly row: number;
}

/** A relocation that was read, and where. */
interface KnownRelocation {
  readonly table: RelocationPlace['table'];
  readonly symbol: number;
  /** The addends of the table, as halves, and the row. */
  readonly addends: Uint32Array;
  readonly row: number;
  readonly value: SiteRelocation;
}

/** From so many questions on a list of all answers is worth its cost. */
const MANY = 32;

export class ProgramView implements SiteView {
  readonly relocatable: boolean;
  readonly positionIndependent: boolean;
  private range: CodeRange | undefined;
  private known: Address | undefined;
  private code: Uint8Array = new Uint8Array(0);
  private at = 0;
  private placed: PlacedRelocations | undefined;
  /**
   * Where the last look-up in `placed` ended: sites come in ascending order, so the next is usually
   * just behind.
   */
  private hint = 0;
  /** The same of where functions begin, once many places of the range were asked for. */
  private starts: Float64Array | undefined;
  private startHint = 0;
  private asked = 0;
  private readonly little: boolean;
  /** What was given last: most sites of a file have the same bytes, and the same relocation. */
  private lastBytes: Uint8Array = new Uint8Array(0);
  private lastRelocation: KnownRelocation | null = null;
  private lastName = '';
  private isLastMcount = false;

  /** Stubs out of line of the sites that the view is moved over. */
  stubs: () => SiteStubs | null = () => null;

  constructor(readonly program: Program) {
    this.relocatable = program.relocatable;
    this.positionIndependent = program.positionIndependent;
    this.little = program.arch.target.codeEndian === 'little';
  }

  /** Moves the anchor to `offset` in `range`. */
  move(range: CodeRange, offset: number): void {
    if (range !== this.range) {
      this.range = range;
      this.code = range.bytes;
      this.placed = this.relocatable ? this.program.relocationsOf(range.section) : undefined;
      this.hasPackedRelocations = this.placed?.tables.some(({ form }) => form === 'crel') === true;
      this.hint = 0;
      this.starts = undefined;
      this.startHint = 0;
      this.asked = 0;
    }
    this.at = offset;
    this.known = undefined;
  }

  /** Of the anchor. Made when it is asked for: in relocatable files hardly a shape does. */
  get address(): Address {
    this.known ??= this.range === undefined ? 0n : this.range.address + BigInt(this.at);
    return this.known;
  }

  u8(delta: number): number {
    return this.code[this.at + delta] ?? -1;
  }

  u16(delta: number): number {
    const { code } = this;
    const i = this.at + delta;
    if (i < 0 || i + 2 > code.length) return -1;
    return this.little ? code[i]! | (code[i + 1]! << 8) : (code[i]! << 8) | code[i + 1]!;
  }

  u32(delta: number): number {
    const { code } = this;
    const i = this.at + delta;
    if (i < 0 || i + 4 > code.length) return -1;
    return this.little
      ? (code[i]! | (code[i + 1]! << 8) | (code[i + 2]! << 16) | (code[i + 3]! << 24)) >>> 0
      : ((code[i]! << 24) | (code[i + 1]! << 16) | (code[i + 2]! << 8) | code[i + 3]!) >>> 0;
  }

  bytes(delta: number, size: number): Uint8Array {
    const { code, lastBytes } = this;
    const start = Math.max(0, this.at + delta);
    const end = Math.min(code.length, Math.max(start, this.at + delta + size));
    const isLast = lastBytes.length === end - start && holdsAt(code, start, lastBytes);
    if (!isLast) this.lastBytes = code.slice(start, end);
    return this.lastBytes;
  }

  /** Rank of the first relocation at exactly anchor + delta, companions included; -1: none. */
  firstRelocation(delta: number): number {
    const { placed } = this;
    if (!placed) return -1;
    const rank = this.seek(placed, this.at + delta);
    return rank < placed.offset.length && placed.offset[rank] === this.at + delta ? rank : -1;
  }

  /** Rank of the next relocation at the place of one; -1: none. */
  nextRelocation(rank: number): number {
    const { offset } = this.placed!;
    return rank + 1 < offset.length && offset[rank + 1] === offset[rank] ? rank + 1 : -1;
  }

  relocationAt(rank: number): RelocationPlace {
    const { tables, table, row } = this.placed!;
    return { table: tables[table[rank]!]!, row: row[rank]! };
  }

  /** All of them. */
  relocationsAt(delta: number): RelocationPlace[] {
    const found: RelocationPlace[] = [];
    for (let rank = this.firstRelocation(delta); rank >= 0; rank = this.nextRelocation(rank)) {
      found.push(this.relocationAt(rank));
    }
    return found;
  }

  /** Whether a table of the section's relocations has compact rows (SHT_CREL). */
  hasPackedRelocations = false;

  private seek(placed: PlacedRelocations, offset: number): number {
    this.hint = lowerBoundFrom(placed.offset, offset, this.hint);
    return this.hint;
  }

  relocation(delta: number): SiteRelocation | null {
    const { placed } = this;
    if (!placed) return null;
    const offset = this.at + delta;
    for (let i = this.seek(placed, offset); i < placed.offset.length && placed.offset[i] === offset; i++) {
      const table = placed.tables[placed.table[i]!]!;
      const row = placed.row[i]!;
      const type = table.type[row]!;
      if (this.program.isNeutral(type, table.symbol[row]!) || this.program.isCompanion(type)) continue;
      return this.relocationOf(table, row, type);
    }
    return null;
  }

  private relocationOf(table: RelocationPlace['table'], row: number, type: number): SiteRelocation {
    const last = this.lastRelocation;
    const symbol = table.symbol[row]!;
    if (last !== null && last.table === table && last.symbol === symbol && last.value.type === type) {
      const { addends, row: known } = last;
      if (addends[2 * row] === addends[2 * known] && addends[2 * row + 1] === addends[2 * known + 1]) return last.value;
    }
    const value = { type, symbolName: table.symbols ? table.symbols.name(symbol) : '', addend: table.addend[row]! };
    this.lastRelocation = { table, symbol, addends: halves(table.addend), row, value };
    return value;
  }

  functionAt(delta: number): boolean {
    const { range, program } = this;
    if (range === undefined) return false;
    const place = this.at + delta;
    this.asked++;
    if (this.asked <= MANY || place < 0 || place >= this.code.length) {
      return program.functionStarting(range, this.address + BigInt(delta)) >= 0;
    }
    this.starts ??= program.startsIn(range);
    this.startHint = lowerBoundFrom(this.starts, place, this.startHint);
    return this.starts[this.startHint] === place;
  }

  unwindsFrom(delta: number): boolean {
    return this.program.unwindsFrom(this.address + BigInt(delta));
  }

  calledFrom(delta: number): CodeReference | null {
    // A word of the table names the anchor itself.
    return this.program.calledFrom(this.address + BigInt(delta), delta === 0 ? 2 : 1);
  }

  entryAt(delta: number): boolean {
    const { range, program } = this;
    if (range === undefined) return false;
    const value = this.address + BigInt(delta);
    const symbol = program.functionAt(range, value);
    const start = symbol < 0 ? undefined : program.functions.placeOf(symbol)?.value;
    if (start === undefined) return false;
    return value === start + BigInt(program.arch.abi.localEntryOffset(program.symbols.other[symbol]!));
  }

  covered(): boolean {
    const { range, program } = this;
    const symbol = range === undefined ? -1 : program.functionAt(range, this.address);
    return symbol >= 0 && !program.functions.isLabel(symbol) && program.symbols.size[symbol] !== 0n;
  }

  wordAt(address: Address): number {
    return this.program.wordAt(address);
  }

  bytesAt(address: Address, size: number): Uint8Array {
    const { image } = this.program;
    const offset = image.fileOffsetOf(address);
    return offset < 0 ? new Uint8Array(0) : image.bytes.slice(offset, offset + size);
  }

  ownStub(): SiteStub | null {
    return this.stubs()?.of(this.address) ?? null;
  }

  callee(address: Address): CalleeKind {
    return this.program.callee(address);
  }

  stub(address: Address): StubReading | null {
    return this.program.stub(address);
  }

  isDirectCaller(address: Address): boolean {
    const target = this.program.finalTarget(address);
    return readTable(this.program).some(({ caller }) => caller === address || caller === target);
  }

  isMcountName(name: string): boolean {
    if (name !== this.lastName) {
      this.lastName = name;
      this.isLastMcount = this.program.isMcountName(name);
    }
    return this.isLastMcount;
  }
}
