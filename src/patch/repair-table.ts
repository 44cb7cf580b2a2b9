/**
 * `mcount --repair`: gives an object the site tables that it should have had from its compiler: for
 * each section of code one, which goes with it wherever a linker takes or drops it. Slots that are
 * in the right table stay there, others move, and functions without a slot get one. Owns what moves
 * where; what lacks a slot is said by `sites/complete.ts` and by the calls of the object.
 *
 *   before   table -> .text.f:  [ f ][ g ]
 *   after    table -> .text.f:  [ f ]        in the COMDAT group of .text.f, where it has one
 *            table -> .text.g:       [ g ]
 *
 * The arrow is SHF_LINK_ORDER. Rules M-LINK-1..4 of the specification.
 */
import { ByteView } from '../bytes.js';
import * as elf from '../elf/constants.js';
import type { ElfGroup, ElfImage, ElfSection } from '../elf/image.js';
import { readElf } from '../elf/read.js';
import { firstNewSection } from '../elf/image.js';
import { type Growth, type NewSection, writeElf } from '../elf/write.js';
import { ElftraceError, hex } from '../errors.js';
import { load, type Program } from '../program/program.js';
import { unlistedSites } from '../sites/complete.js';
import {
  type BaseSymbols,
  baseSymbols,
  type McountEntry,
  mcountSections,
  slotsOfEntries,
} from '../sites/mcount-slots.js';
import { findMcountCalls, isTracedSection } from '../sites/mcount-table.js';
import { callTest, findSites, mcountMachine, type Sites } from '../sites/sites.js';
import { isModule, lintTables } from '../sites/table-lint.js';
import type { SlotTable } from '../sites/tables.js';
import { verify } from '../sites/verdicts.js';
import { planShrinking, type SlotsToDrop } from './shrink-table.js';
import type { SectionIndex } from '../units.js';

export interface Repaired {
  readonly bytes: Uint8Array;
  /** Slots of the tables as they are now, empty ones aside. */
  readonly slots: number;
  /** Slots that have another section now. */
  readonly moved: number;
  /** Slots that were not there. */
  readonly added: number;
  /** Sections of tables that were made. */
  readonly sections: number;
}

/** A table to be made for one section of code. */
interface Wanted {
  readonly name: string;
  readonly flags: bigint;
  readonly code: ElfSection;
  readonly entries: McountEntry[];
}

const refused = (reason: string, section = ''): ElftraceError =>
  new ElftraceError('plan-refused', reason, section === '' ? {} : { section });

class Repair {
  private readonly image: ElfImage;
  private readonly wanted = new Map<string, Wanted>();
  private readonly drops: SlotsToDrop[] = [];
  private readonly bases = new Map<ElfSection, BaseSymbols>();
  moved = 0;
  added = 0;

  constructor(
    private readonly sites: Sites,
    /** Tables of padding among them: they are linked like others. */
    private readonly tables: readonly SlotTable[],
  ) {
    this.image = sites.program.image;
  }

  private get ofSites(): readonly SlotTable[] {
    return this.tables.filter(({ role }) => role === 'sites');
  }

  /** Whether nothing is to be done. */
  plan(): boolean {
    for (const table of this.tables) this.sort(table);
    this.addMissing();
    return this.wanted.size === 0;
  }

  /** @param like  a table whose name and flags the new one has */
  private want(like: ElfSection | undefined, entry: McountEntry): void {
    const { section: code } = entry;
    const name = like?.name ?? '__mcount_loc';
    const flags = (like?.flags ?? elf.SHF_ALLOC) & ~elf.SHF_GROUP;
    const key = `${name} ${code.index}`;
    const known = this.wanted.get(key);
    if (known) known.entries.push(entry);
    else this.wanted.set(key, { name, flags, code, entries: [entry] });
  }

  /** Slots of a table that are in the wrong one. */
  private sort(table: SlotTable): void {
    const own = this.image.sections[table.container]!;
    const rows = this.rowsOf(own);
    const drop = new Uint8Array(table.count);
    for (let slot = 0; slot < table.count; slot++) {
      const section = this.image.sections[table.section[slot]!];
      const row = rows.get(slot);
      if (section === undefined || row === undefined || this.isHome(own, section)) continue;
      drop[slot] = 1;
      this.moved++;
      this.want(own, { section, offset: Number(table.value[slot]!), ...row });
    }
    if (drop.includes(1)) this.drops.push({ section: own.index, drop });
  }

  private groupOf(section: SectionIndex): ElfGroup | undefined {
    return this.image.groups().find(({ members }) => members.includes(section));
  }

  /** True for a table that goes with a section of code. */
  private isHome(table: ElfSection, code: ElfSection): boolean {
    if ((table.flags & elf.SHF_LINK_ORDER) === 0n) return false;
    // lld refuses a table that stays where what it is linked to goes with its group.
    if (this.groupOf(table.index)?.section !== this.groupOf(code.index)?.section) return false;
    const linked = this.image.sections[table.link];
    // Descriptors of ELFv1 (.opd) go with no function.
    return table.link === code.index || linked === undefined || (linked.flags & elf.SHF_EXECINSTR) === 0n;
  }

  /** Symbol and addend of each slot. */
  private rowsOf(section: ElfSection): Map<number, Pick<McountEntry, 'baseSymbol' | 'addend'>> {
    const { image } = this;
    const word = image.wordBytes;
    const view = new ByteView(image.contents(section), image.header.endian, section.name);
    const rows = new Map<number, Pick<McountEntry, 'baseSymbol' | 'addend'>>();
    for (const table of image.relocationsOf(section)) {
      for (let row = 0; row < table.count; row++) {
        if (table.type[row] !== this.sites.program.arch.relocationRoles.word) continue;
        const at = Number(table.offset[row]!);
        const stored = table.addends === 'place' ? view.word(at, word) : table.addend[row]!;
        rows.set(at / word, { baseSymbol: table.symbol[row]!, addend: stored });
      }
    }
    return rows;
  }

  /** Functions that should have a slot, and calls that have none. */
  private addMissing(): void {
    const { program } = this.sites;
    const have = new Set<string>();
    for (const { count, section, value } of this.ofSites) {
      for (let i = 0; i < count; i++) have.add(`${section[i]!}:${value[i]!}`);
    }
    const add = (index: number, offset: number): void => {
      const key = `${index}:${offset}`;
      if (have.has(key)) return;
      have.add(key);
      this.addEntry(this.image.sections[index]!, offset);
    };
    for (const { range, anchor } of unlistedSites(this.sites)) add(range.section, Number(anchor));
    if (this.ofSites.some(({ source }) => source === 'patchable-table')) return;
    const { calls } = findMcountCalls(this.image, mcountMachine(program), callTest(program));
    const traced = calls.filter(({ section }) => isTracedSection(section.name));
    for (const { section, offset } of traced.sort((a, b) => a.offset - b.offset)) add(section.index, offset);
  }

  private addEntry(section: ElfSection, offset: number): void {
    const { program } = this.sites;
    let base = this.bases.get(section);
    if (base === undefined) this.bases.set(section, (base = baseSymbols(this.image, mcountMachine(program), section)));
    const symbol = base.at(offset);
    if (typeof symbol === 'string') {
      throw refused(`${section.name}+${hex(offset)} cannot get a slot: ${symbol}`, section.name);
    }
    this.added++;
    const [like] = this.ofSites;
    this.want(like && this.image.sections[like.container], {
      section,
      offset,
      baseSymbol: symbol,
      addend: BigInt(offset) - this.image.symbols.value[symbol]!,
    });
  }

  /** Sections and members of groups that the new tables need. */
  get newTables(): number {
    return this.wanted.size;
  }

  /** The file with the tables. Numbers of sections and symbols stay what they are. */
  write(): Uint8Array {
    const steps = planShrinking(this.image, this.drops);
    const patches = steps.map(({ fileOffset, after }) => ({ offset: fileOffset, bytes: after }));
    const shrunk = readElf(writeElf(this.image, { patches }).bytes);
    const appendSections: NewSection[] = [];
    const members = new Map<number, number[]>();
    let index = firstNewSection(shrunk);
    for (const { name, flags, code, entries } of this.wanted.values()) {
      const [table, rows] = mcountSections(shrunk, mcountMachine(this.sites.program), slotsOfEntries(entries));
      const group = this.groupOf(code.index);
      const inGroup = group === undefined ? 0n : elf.SHF_GROUP;
      const link = code.index;
      appendSections.push({ ...table, name, flags: flags | elf.SHF_LINK_ORDER | inGroup, link, entrySize: 0 });
      const prefix = rows.type === elf.SHT_RELA ? '.rela' : '.rel';
      appendSections.push({ ...rows, name: `${prefix}${name}`, flags: rows.flags | inGroup, info: index });
      if (group !== undefined) members.set(group.section, [...(members.get(group.section) ?? []), index, index + 1]);
      index += 2;
    }
    return writeElf(shrunk, { patches: [], appendSections, growSections: this.grown(members) }).bytes;
  }

  private grown(members: ReadonlyMap<number, readonly number[]>): Growth[] {
    return [...members].map(([group, added]) => {
      const view = new ByteView(new Uint8Array(4 * added.length), this.image.header.endian, 'group');
      added.forEach((each, i) => {
        view.insertU32(4 * i, each);
      });
      return { index: group, appended: view.bytes };
    });
  }
}

/**
 * The tables that an object should have.
 * @returns the object's own bytes where they are as they should be
 * @throws ElftraceError 'unsupported-form' for linked files and modules that lack slots, and where
 *   something else of the object names a place in a table; 'plan-refused' for functions that cannot
 *   get a slot
 */
export function repairTables(program: Program): Repaired {
  const { image } = program;
  if (!program.relocatable) {
    throw new ElftraceError(
      'unsupported-form',
      'what a linker dropped of the tables of a linked file cannot be brought back: repair the objects, and link them again',
      { what: 'e_type', value: image.header.type },
    );
  }
  const sites = findSites(program);
  const repair = new Repair(
    sites,
    sites.tables.filter(({ container }) => container >= 0),
  );
  const slots = slotsOf(sites);
  if (isModule(program)) {
    repair.plan();
    if (repair.added === 0) return { bytes: image.bytes.slice(), slots, moved: 0, added: 0, sections: 0 };
    const advice =
      slots === 0 ? 'it has no table: mcount without --repair makes it' : 'repair the objects, and link them again';
    throw new ElftraceError(
      'unsupported-form',
      `${repair.added} functions of the module have no slot, and its loader reads one table: ${advice}`,
      { value: repair.added },
    );
  }
  if (repair.plan()) return { bytes: image.bytes.slice(), slots, moved: 0, added: 0, sections: 0 };
  const bytes = repair.write();
  const { moved, added, newTables } = repair;
  check(program, bytes, slots + added);
  return { bytes, slots: slots + added, moved, added, sections: newTables };
}

/** Slots that name sites. */
function slotsOf({ tables }: Sites): number {
  return tables.reduce(
    (sum, { role, container, count, zero }) => (role === 'sites' && container >= 0 ? sum + count - zero : sum),
    0,
  );
}

/** Reads the result as any user would. */
function check(program: Program, bytes: Uint8Array, slots: number): void {
  const again = load(readElf(bytes), program.arch, { mcountNames: program.profilingNames });
  const sites = findSites(again);
  const found = slotsOf(sites);
  const lint = lintTables(again, sites.tables)[0];
  const lacking = verify(sites).verdicts['pad-without-slot'] ?? 0;
  if (found === slots && lint === undefined && lacking === 0) return;
  const problem = lint?.message ?? `${found} slots where ${slots} should be, ${lacking} functions without one`;
  throw new ElftraceError('internal', `the repaired tables are wrong: ${problem}`);
}
