/**
 * The steps of a site's change: stores of its bytes, and relocations of the call that go, change
 * their type or are new (F-2).
 */
import type { SiteChange } from '../machine/sites.js';
import { ByteView, equalBytes, holdsAt } from '../bytes.js';
import type { ElfImage } from '../elf/image.js';
import { ElftraceError, hex } from '../errors.js';
import type { CodeRange } from '../program/program.js';
import type { Sites } from '../sites/sites.js';
import type { ProgramView } from '../sites/view.js';
import { type NewRelocation, relocationInfo, type Step } from './plan.js';
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

/**
 * Sites of one kind change the same bytes into the same: equal arrays are kept once. 60,000 sites
 * would otherwise keep 240,000 small arrays alive, and collecting those takes longer than planning.
 */
class Shared {
  private readonly recent: Uint8Array[] = [];

  /** The kept array that equals `size` bytes at `offset`. */
  at(bytes: Uint8Array, offset: number, size: number): Uint8Array {
    for (const known of this.recent) if (known.length === size && holdsAt(bytes, offset, known)) return known;
    const kept = bytes.slice(offset, offset + size);
    this.recent.unshift(kept);
    if (this.recent.length > 8) this.recent.pop();
    return kept;
  }

  of(bytes: Uint8Array): Uint8Array {
    return this.at(bytes, 0, bytes.length);
  }
}

/** What one site adds to a plan. */
export interface SiteSteps {
  readonly steps: readonly Step[];
  readonly added: readonly NewRelocation[];
  /** Why nothing of it may be written; empty: it may. */
  readonly blocked: string;
}

/** A relocation of a call, in its table. */
type Row = ReturnType<ProgramView['relocationsAt']>[number];

/** Makes the steps of sites; what several sites share is kept once. */
export class StepMaker {
  readonly numbers: SymbolNumbers;
  private readonly image: ElfImage;
  private readonly forbidden: readonly { readonly start: number; readonly end: number }[];
  private readonly shared = new Shared();
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
    const { neutralInModule, none } = program.arch.relocationRoles;
    this.neutral = program.isModule ? neutralInModule : { type: none, addend: 'kept' };
  }

  of(site: SiteIndex, change: SiteChange, view: ProgramView, range: CodeRange): SiteSteps {
    const steps: Step[] = [];
    const added: NewRelocation[] = [];
    this.addStores(steps, site, change, range);
    const blocked = this.neutralise(steps, site, change, view);
    for (const wanted of change.relocate ?? []) this.relocate(steps, added, site, wanted, view, range);
    return { steps, added, blocked: this.forbids(steps) ?? blocked };
  }

  private addStores(steps: Step[], site: SiteIndex, change: SiteChange, range: CodeRange): void {
    const { image, shared } = this;
    const anchor = this.sites.anchor[site]!;
    const base = range.fileOffset + Number(anchor - range.address);
    for (const store of change.stores) {
      const fileOffset = store.at === undefined ? base + store.delta : image.fileOffsetOf(store.at);
      if (equalBytes(store.before, store.after)) continue;
      if (fileOffset < 0 || store.before.length !== store.after.length) {
        throw new ElftraceError('internal', `a store at ${hex(store.at ?? anchor)} is not in the file`);
      }
      if (store.at !== undefined) {
        const known = this.elsewhere.get(fileOffset);
        if (known !== undefined && equalBytes(known, store.after)) continue;
        this.elsewhere.set(fileOffset, store.after);
      }
      steps.push({
        kind: 'store',
        site,
        section: store.at === undefined ? range.name : (image.sectionAt(store.at)?.name ?? ''),
        address: store.at ?? anchor + BigInt(store.delta),
        fileOffset,
        before: shared.of(store.before),
        after: shared.of(store.after),
        rule: change.rule,
      });
    }
  }

  /**
   * Relocations of the call lose their meaning.
   * @returns why they cannot; empty: they can
   */
  private neutralise(steps: Step[], site: SiteIndex, change: SiteChange, view: ProgramView): string {
    const { image, neutral } = this;
    const { none } = this.sites.program.arch.relocationRoles;
    let blocked = '';
    for (const delta of change.neutralise) {
      for (const found of view.relocationsAt(delta)) {
        const { table, row } = found;
        const type = table.type[row]!;
        if (type === none || (type === neutral.type && table.symbol[row] === 0)) continue;
        // A marker that rides on another relocation of the module needs no value of its own.
        const wantsWord = neutral.addend === 'stored-word' && table.form === 'rela';
        const addend = wantsWord ? storedWord(image, change, delta) : null;
        if (wantsWord && addend === null) {
          blocked = 'a relocation of the call lies on bytes that do not change: a module loader would apply it';
          continue;
        }
        steps.push(this.rowStep(site, delta, found, neutral.type, this.neutralBytes(addend)));
      }
    }
    return blocked;
  }

  private neutralBytes(addend: bigint | null): Uint8Array {
    let bytes = this.neutralEntries.get(addend);
    if (bytes === undefined) {
      bytes = neutralEntry(this.image, this.neutral.type, addend);
      this.neutralEntries.set(addend, bytes);
    }
    return bytes;
  }

  /** A row of a table that becomes another one. */
  private rowStep(site: SiteIndex, delta: number, { table, row }: Row, becomes: number, after: Uint8Array): Step {
    const { image } = this;
    const { program, anchor } = this.sites;
    const fileOffset = table.fileOffset(row) + image.wordBytes;
    return {
      kind: 'reloc',
      site,
      section: image.sections[table.section]?.name ?? '',
      row,
      type: table.type[row]!,
      becomes,
      symbol: program.labelOf(table.symbols, table.symbol[row]!),
      address: anchor[site]! + BigInt(delta),
      fileOffset,
      before: this.shared.at(image.bytes, fileOffset, after.length),
      after,
      rule: 'F-2',
    };
  }

  /** The site's relocation names another symbol: its own row does, or a new one. */
  private relocate(
    steps: Step[],
    added: NewRelocation[],
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
      const step = this.rowStep(site, delta, found, neutral.type, neutralEntry(image, neutral.type, null));
      steps.push(step.kind === 'reloc' ? { ...step, symbol: '' } : step);
    }
    const own = rows.find(({ table, row }) => !program.isCompanion(table.type[row]!));
    if (own === undefined) {
      const offset = anchor[site]! + BigInt(delta);
      added.push({ site, section: range.section, offset, type, symbol, symbolIndex });
      return;
    }
    const after = new ByteView(new Uint8Array(2 * image.wordBytes), image.header.endian);
    after.insertWord(0, relocationInfo(image, symbolIndex, type), image.wordBytes);
    steps.push(this.rowStep(site, delta, own, type, after.bytes));
  }

  /** Why one of the steps may not be written; null: all may. */
  private forbids(steps: readonly Step[]): string | null {
    let why: string | null = null;
    for (const { fileOffset, before } of steps) {
      const end = fileOffset + before.length;
      for (const each of this.forbidden) {
        if (fileOffset >= each.end || end <= each.start) continue;
        why = `bytes ${hex(fileOffset)}..${hex(end)} of the file may not be written`;
      }
    }
    return why;
  }
}
