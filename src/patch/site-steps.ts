/**
 * The steps of a site's change: stores of its bytes, and relocations of the call that go, change
 * their type or are new (F-2).
 */
import type { SiteChange } from '../machine/sites.js';
import { ByteView, equalBytes } from '../bytes.js';
import type { ElfImage } from '../elf/image.js';
import { ElftraceError, hex } from '../errors.js';
import type { CodeRange } from '../program/program.js';
import type { Sites } from '../sites/sites.js';
import type { ProgramView, RelocationPlace } from '../sites/view.js';
import { type NewRelocation, relocationInfo } from './plan.js';
import { type StepColumns, StepWriter } from './step-columns.js';
import type { SiteIndex } from '../units.js';

/** Numbers of symbols by name: those of the file, and new ones behind them. */
class SymbolNumbers {
  readonly added: string[] = [];

  constructor(private readonly symbols: ElfImage['symbols']) {}

  of(name: string): number {
    const known = this.symbols.find(name);
    if (known > 0) return known;
    const again = this.added.indexOf(name);
    return this.symbols.count + (again >= 0 ? again : this.added.push(name) - 1);
  }
}

/** ELF header and header tables: nothing in them is ever a site. */
function protectedRanges(image: ElfImage): { start: number; end: number }[] {
  const { header } = image;
  const ranges = [{ start: 0, end: header.is64 ? 64 : 52 }];
  if (header.phnum > 0) ranges.push({ start: header.phoff, end: header.phoff + header.phnum * header.phentsize });
  if (header.shnum > 0) ranges.push({ start: header.shoff, end: header.shoff + header.shnum * header.shentsize });
  return ranges;
}

/** r_info and r_addend of an entry without a symbol; `addend` null leaves r_addend out. */
function neutralEntry(image: ElfImage, type: number, addend: bigint | null): Uint8Array {
  const word = image.wordBytes;
  const view = new ByteView(new Uint8Array(addend === null ? word : 2 * word), image.header.endian);
  view.insertWord(0, BigInt(type), word);
  if (addend !== null) view.insertWord(word, addend, word);
  return view.bytes;
}

/**
 * The word that the stores of a change put at a delta, in the file's byte order; null when they do
 * not cover it.
 */
function storedWord(image: ElfImage, change: SiteChange, delta: number): bigint | null {
  for (const store of change.stores) {
    const at = delta - store.delta;
    if (at >= 0 && at + 4 <= store.after.length) return BigInt(new ByteView(store.after, image.header.endian).u32(at));
  }
  return null;
}

const NONE: ReadonlyMap<number, Uint8Array> = new Map();

/** Makes the steps of sites, one site after the other. */
export class StepMaker {
  readonly numbers: SymbolNumbers;
  readonly added: NewRelocation[] = [];
  private readonly image: ElfImage;
  private readonly forbidden: readonly { readonly start: number; readonly end: number }[];
  readonly writer: StepWriter;
  /** Few addends, one entry each: null, or the word of a nop. */
  private readonly neutralEntries = new Map<bigint | null, Uint8Array>();
  /** Stores that are no part of a site, which several sites may ask for, by their place. */
  private readonly elsewhere = new Map<number, Uint8Array>();
  /** The relocation without a meaning, and what its addend is. */
  private readonly neutral: { readonly type: number; readonly addend: string };

  constructor(
    private readonly sites: Sites,
    readonlyRanges: readonly { readonly start: number; readonly end: number }[],
  ) {
    const { program } = sites;
    this.image = program.image;
    this.forbidden = [...protectedRanges(this.image), ...readonlyRanges];
    this.numbers = new SymbolNumbers(this.image.symbols);
    this.writer = new StepWriter(sites);
    const { neutralInModule, none } = program.arch.relocationRoles;
    this.neutral = program.isModule ? neutralInModule : { type: none, addend: 'kept' };
  }

  /**
   * Adds what one site changes.
   * @returns whether that is anything, or why nothing of it may be written
   */
  of(site: SiteIndex, change: SiteChange, view: ProgramView, range: CodeRange): boolean | string {
    const { writer, added } = this;
    writer.begin();
    const addedBefore = added.length;
    const elsewhere = this.addStores(site, change);
    const blocked = this.neutralise(site, change, view);
    for (const wanted of change.relocate ?? []) this.relocate(site, wanted, view, range);
    const why = this.forbids() ?? blocked;
    if (why === null) {
      for (const [offset, after] of elsewhere) this.elsewhere.set(offset, after);
      return writer.size > 0 || added.length > addedBefore;
    }
    writer.forget();
    added.length = addedBefore;
    return why;
  }

  /** Whether any place of a section's code, and of its relocations, may be written. */
  isFree({ section, fileOffset, bytes }: CodeRange): boolean {
    const spans = this.sites.program.relocationsOf(section).tables.flatMap((table) => {
      const first = table.count === 0 ? -1 : table.fileOffset(0);
      return first < 0 ? [] : [{ start: first, end: table.fileOffset(table.count - 1) + 3 * this.image.wordBytes }];
    });
    spans.push({ start: fileOffset, end: fileOffset + bytes.length });
    return spans.every((span) => !this.forbidden.some(({ start, end }) => span.start < end && start < span.end));
  }

  /** All that was added. */
  finish(): StepColumns {
    return this.writer.finish();
  }

  /** @returns the stores that are no part of the site, by their place */
  private addStores(site: SiteIndex, change: SiteChange): ReadonlyMap<number, Uint8Array> {
    const base = this.sites.fileOffset(site);
    let elsewhere: Map<number, Uint8Array> | undefined;
    for (const store of change.stores) {
      const { delta, at, before, after } = store;
      const fileOffset = at === undefined ? base + delta : this.image.fileOffsetOf(at);
      if (equalBytes(before, after)) continue;
      if (fileOffset < 0 || before.length !== after.length) {
        throw new ElftraceError('internal', `a store at ${hex(at ?? this.sites.anchor[site]!)} is not in the file`);
      }
      if (at === undefined) {
        this.writer.store(site, fileOffset, before, after, change.rule);
        continue;
      }
      elsewhere ??= new Map();
      const known = elsewhere.get(fileOffset) ?? this.elsewhere.get(fileOffset);
      if (known !== undefined && equalBytes(known, after)) continue;
      elsewhere.set(fileOffset, after);
      const section = this.image.sectionAt(at)?.name ?? '';
      const { rule } = change;
      this.writer.step({ kind: 'store', site, section, address: at, fileOffset, before, after, rule });
    }
    return elsewhere ?? NONE;
  }

  /**
   * Relocations of the call lose their meaning.
   * @returns why they cannot; null: they can
   */
  private neutralise(site: SiteIndex, change: SiteChange, view: ProgramView): string | null {
    let blocked: string | null = null;
    for (const delta of change.neutralise) {
      for (let rank = view.firstRelocation(delta); rank >= 0; rank = view.nextRelocation(rank)) {
        const { table, row } = view.relocationAt(rank);
        blocked = this.neutraliseRow(site, change, delta, table, row) ?? blocked;
      }
    }
    return blocked;
  }

  private neutraliseRow(
    site: SiteIndex,
    change: SiteChange,
    delta: number,
    table: RelocationPlace['table'],
    row: number,
  ): string | null {
    const { image, neutral } = this;
    const type = table.type[row]!;
    if (type === this.sites.program.arch.relocationRoles.none) return null;
    if (type === neutral.type && table.symbol[row] === 0) return null;
    // A marker that rides on another relocation of the module needs no value of its own.
    const wantsWord = neutral.addend === 'stored-word' && table.form === 'rela';
    const addend = wantsWord ? storedWord(image, change, delta) : null;
    if (wantsWord && addend === null) {
      return 'a relocation of the call lies on bytes that do not change: a module loader would apply it';
    }
    this.writer.row(site, table, row, neutral.type, this.neutralBytes(addend));
    return null;
  }

  private neutralBytes(addend: bigint | null): Uint8Array {
    let bytes = this.neutralEntries.get(addend);
    if (bytes === undefined) {
      bytes = neutralEntry(this.image, this.neutral.type, addend);
      this.neutralEntries.set(addend, bytes);
    }
    return bytes;
  }

  /** The site's relocation names another symbol: its own row does, or a new one. */
  private relocate(
    site: SiteIndex,
    { delta, type, symbol }: NonNullable<SiteChange['relocate']>[number],
    view: ProgramView,
    range: CodeRange,
  ): void {
    const { image, neutral } = this;
    const { program, anchor } = this.sites;
    const symbolIndex = this.numbers.of(symbol);
    const rows = view.relocationsAt(delta).filter(({ table }) => table.form === 'rela');
    // What rode on the old one (RELAX) would let a linker shorten a call that must keep its size.
    for (const found of rows) {
      const old = found.table.type[found.row]!;
      if (!program.isCompanion(old) || old === neutral.type) continue;
      this.writer.row(site, found.table, found.row, neutral.type, neutralEntry(image, neutral.type, null));
    }
    const own = rows.find(({ table, row }) => !program.isCompanion(table.type[row]!));
    if (own === undefined) {
      const offset = anchor[site]! + BigInt(delta);
      this.added.push({ site, section: range.section, offset, type, symbol, symbolIndex });
      return;
    }
    const after = new ByteView(new Uint8Array(2 * image.wordBytes), image.header.endian);
    after.insertWord(0, relocationInfo(image, symbolIndex, type), image.wordBytes);
    this.writer.row(site, own.table, own.row, type, after.bytes);
  }

  /** Why one of the site's steps may not be written; null: all may. */
  private forbids(): string | null {
    const hit = this.writer.within(this.forbidden);
    return hit === null ? null : `bytes ${hex(hit[0])}..${hex(hit[1])} of the file may not be written`;
  }
}
