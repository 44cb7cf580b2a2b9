/**
 * Other patch ranges of a kernel object (F-6): places that jump labels, static calls, alternatives and exception tables name. A
 * site that holds such a place would be patched by two mechanisms, so it is refused.
 *
 * Relocatable files only: there every table names its places by relocations. In linked images these tables have formats of
 * their own per machine, and no site of a kernel that booted overlaps one.
 */
import type { Program } from '../program/program.js';

const tables: ReadonlyMap<string, string> = new Map([
  ['__jump_table', 'a jump label'],
  ['.static_call_sites', 'a static call'],
  ['.altinstructions', 'an alternative'],
  ['.alternative', 'an alternative'],
  ['.parainstructions', 'a paravirtual call'],
  ['__ex_table', 'an exception table entry'],
  ['__bug_table', 'a bug table entry'],
  ['__ftr_fixup', 'a feature fix-up'],
  ['__lwsync_fixup', 'a feature fix-up'],
]);

export interface OtherRange {
  readonly section: number;
  readonly offset: bigint;
  readonly what: string;
}

/** Places in code that other patching mechanisms name, sorted by section and offset. */
export function otherRanges(program: Program): readonly OtherRange[] {
  return program.derived('other-ranges', () => {
    const found: OtherRange[] = [];
    if (!program.relocatable) return found;
    const code = new Set(program.code.map((range) => range.section));
    for (const table of program.image.relocations) {
      const what = tables.get(program.image.sections[table.target]?.name ?? '');
      const symbols = table.symbols;
      if (what === undefined || !symbols) continue;
      for (let row = 0; row < table.count; row++) {
        const symbol = table.symbol[row]!;
        const section = symbols.sectionIndex[symbol]!;
        if (code.has(section)) found.push({ section, offset: symbols.value[symbol]! + table.addend[row]!, what });
      }
    }
    return found.sort((a, b) => a.section - b.section || (a.offset < b.offset ? -1 : a.offset > b.offset ? 1 : 0));
  });
}

/** What else is patched inside [start, end) of a section; null when nothing is. */
export function overlapping(ranges: readonly OtherRange[], section: number, start: bigint, end: bigint): string | null {
  let low = 0;
  let high = ranges.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    const each = ranges[middle]!;
    if (each.section < section || (each.section === section && each.offset < start)) low = middle + 1;
    else high = middle;
  }
  const hit = ranges[low];
  return hit && hit.section === section && hit.offset < end ? hit.what : null;
}
