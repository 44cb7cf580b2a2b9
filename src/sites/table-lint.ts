/**
 * What may become of the site tables of an object when it is linked: slots that a linker drops with
 * a function that is not theirs, or keeps for one that it drops. Owns that judgement of sections;
 * reads slots, not code.
 *
 *   .text.f  .text.g           one table for both, linked (SHF_LINK_ORDER) to .text.f:
 *      ^        .              where .text.f is discarded (--gc-sections, a second copy of an
 *      |        .              inline function), the slot of g goes with it
 *   [ f ][ g ]  table
 *
 * Modules are not linked again: nothing is said of them. Rules M-LINK-1..3 of the specification.
 */
import * as elf from '../elf/constants.js';
import type { ElfSection } from '../elf/image.js';
import type { Program } from '../program/program.js';
import { slotLoser } from './compilers.js';
import type { SlotTable } from './tables.js';
import type { SectionIndex } from '../units.js';

/** Something about the sections of a table that a link may turn into a loss of slots. */
export interface TableLint {
  readonly rule: 'M-LINK-1' | 'M-LINK-2' | 'M-LINK-3';
  /** Name and number of the table's section. */
  readonly section: string;
  readonly index: number;
  readonly message: string;
}

/** Sections that slots name, with how many do, in their order. */
function targetsOf(table: SlotTable): Map<number, number> {
  const targets = new Map<number, number>();
  const { section, count } = table;
  for (let slot = 0, end = 0; slot < count; slot = end) {
    // Slots of one section mostly stand together.
    while (end < count && section[end] === section[slot]) end++;
    if (section[slot]! >= 0) targets.set(section[slot]!, (targets.get(section[slot]!) ?? 0) + end - slot);
  }
  return targets;
}

const slotsAre = (count: number): string => `${count} ${count === 1 ? 'slot' : 'slots'}`;

class Linting {
  private readonly found: TableLint[] = [];
  /** Signatures of the COMDAT groups that sections are in. */
  private readonly comdats = new Map<number, string>();

  constructor(
    private readonly program: Program,
    private readonly tables: readonly SlotTable[],
  ) {
    for (const { comdat, members, signature } of program.image.groups()) {
      if (comdat) for (const member of members) this.comdats.set(member, signature);
    }
  }

  run(): TableLint[] {
    for (const table of this.tables) {
      const section = this.program.image.sections[table.container];
      if (section === undefined) continue;
      // clang links tables of ELFv1 to .opd, with which no function goes.
      const linked = this.program.image.sections[section.link];
      const ordered = (section.flags & elf.SHF_LINK_ORDER) !== 0n && ((linked?.flags ?? 0n) & elf.SHF_EXECINSTR) !== 0n;
      if (ordered) this.ordered(table, section);
      this.intoGroups(table, section, ordered ? section.link : -1);
    }
    this.mixed();
    return this.found;
  }

  private add(rule: TableLint['rule'], { name, index }: ElfSection, message: string): void {
    this.found.push({ rule, section: name, index, message: `${name} (section ${index}) ${message}` });
  }

  private nameOf(section: SectionIndex): string {
    return this.program.image.sections[section]?.name ?? `section ${section}`;
  }

  /** Slots of other functions than the one that the table is linked to. */
  private ordered(table: SlotTable, section: ElfSection): void {
    const { link } = section;
    const others = [...targetsOf(table)].filter(([target]) => target !== link);
    const [first] = others;
    if (first === undefined) return;
    const slots = others.reduce((sum, [, count]) => sum + count, 0);
    const comdat = this.comdats.get(link);
    const excluded = ((this.program.image.sections[link]?.flags ?? 0n) & elf.SHF_EXCLUDE) !== 0n;
    const fate =
      comdat !== undefined
        ? `of COMDAT group ${comdat}: where a linker keeps another copy of that`
        : excluded
          ? 'that no linker keeps: there'
          : 'where --gc-sections drops that';
    const what = `is linked to ${this.nameOf(link)}${comdat !== undefined || excluded ? ' ' : ': '}${fate}`;
    const loser = slotLoser(this.program.image);
    const because = loser === null ? '' : `; ${loser}`;
    this.add(
      'M-LINK-1',
      section,
      `${what}, ${slotsAre(slots)} of other sections (${this.nameOf(first[0])}) ${slots === 1 ? 'is' : 'are'} lost${because}`,
    );
  }

  /** Slots into a section that may be discarded, from a table that is no member of its group. */
  private intoGroups(table: SlotTable, section: ElfSection, linked: number): void {
    if (this.comdats.size === 0) return;
    const own = this.comdats.get(section.index);
    for (const [target, count] of targetsOf(table)) {
      const comdat = this.comdats.get(target);
      if (comdat === undefined || comdat === own) continue;
      const link = target === linked ? ' to which it is linked,' : '';
      this.add(
        'M-LINK-2',
        section,
        `has ${slotsAre(count)} into ${this.nameOf(target)},${link} and is no member of COMDAT group ${comdat}: where a linker keeps another copy, they name a discarded section, which lld refuses`,
      );
    }
  }

  /** Linkers join sections of one name: with an order, or without. */
  private mixed(): void {
    const { sections } = this.program.image;
    const names = new Map<string, { ordered: number; unordered: ElfSection | null }>();
    for (const { container } of this.tables) {
      const section = sections[container];
      if (section === undefined) continue;
      const known = names.get(section.name) ?? { ordered: 0, unordered: null };
      if ((section.flags & elf.SHF_LINK_ORDER) !== 0n) known.ordered++;
      else known.unordered ??= section;
      names.set(section.name, known);
    }
    for (const { ordered, unordered } of names.values()) {
      if (ordered === 0 || unordered === null) continue;
      this.add(
        'M-LINK-3',
        unordered,
        `has no order (SHF_LINK_ORDER) and ${ordered} of the same name have: linkers before binutils 2.36 and lld 13 refuse such, later ones sort apart`,
      );
    }
  }
}

/** Files that only a module loader takes. */
const moduleSections = ['.modinfo', '.gnu.linkonce.this_module'];

/** True for a file that a module loader takes as it is: it is not linked again. */
export function isModule({ image }: Program): boolean {
  return moduleSections.some((name) => image.section(name) !== undefined);
}

/**
 * Findings about the sections of the tables of an object that is still to be linked, in order of
 * the tables; none for modules and linked files.
 */
export function lintTables(program: Program, tables: readonly SlotTable[]): TableLint[] {
  if (!program.relocatable || isModule(program)) return [];
  return new Linting(program, tables).run();
}
