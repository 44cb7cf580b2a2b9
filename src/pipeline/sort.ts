/**
 * The site table of a linked file in order, and on request without slots of overridden weak
 * functions.
 */
import type { ElfImage } from '../elf/image.js';
import { writeElf } from '../elf/write.js';
import { ElftraceError, hex } from '../errors.js';
import { skippedSlot } from '../patch/empty-slots.js';
import type { Sites } from '../sites/sites.js';
import { functionCover, planTableSort, type SortedTable } from '../sites/table-sort.js';
import { findTableRange } from '../sites/tables.js';
import type { Address } from '../units.js';
import type { OpenedImage } from './open.js';

export interface SortRequest {
  /** For messages. */
  readonly path: string;
  /** False: slots stay where they are. */
  readonly sort: boolean;
  /** Slots of overridden weak functions are emptied. */
  readonly zeroWeak: boolean;
}

export interface SortedFile {
  readonly bytes: Uint8Array;
  readonly plan: SortedTable;
  readonly isChanged: boolean;
  readonly notices: readonly string[];
}

/**
 * Plans and writes: the bytes are the result.
 * @throws ElftraceError 'unsupported-form' for a file without a table; 'plan-refused' for a table
 *   that cannot be sorted
 */
export function sortTable({ image, arch, program, sites }: OpenedImage, request: SortRequest): SortedFile {
  const range = findTableRange(image, program.symbols) ?? sectionRange(image, sites);
  if (!range) {
    throw new ElftraceError(
      'unsupported-form',
      'the file is linked and has no site table to sort; a table is made for the objects before they are linked',
      { file: request.path },
    );
  }
  // Entries of patchable functions may lie in front of the symbol (M-WEAK-2).
  const before = sites.sources.includes('patchable-table') ? 8n : 0n;
  const options = request.zeroWeak
    ? { inFunction: functionCover(image, before, (of, symbol) => arch.abi.codePlace(of, symbol)) }
    : {};
  const plan = planTableSort(image, arch, range, options);
  if (plan.kind === 'refused') {
    throw new ElftraceError('plan-refused', `the table cannot be sorted: ${plan.reason}; nothing was written`, {
      file: request.path,
    });
  }
  const changes = request.sort ? plan.patches : [];
  const isChanged = changes.length > 0;
  const { bytes } = writeElf(image, {
    patches: changes.map(({ offset, after }) => ({ offset, bytes: after })),
    dropTrailing: image.bytes.length > image.elfSize && isChanged,
  });
  const stops =
    'kernels before 6.15 add to slots of such sites before they ask for 0: on one of these function tracing stops';
  const repeated = plan.duplicates.map(({ value, slots }) => `${hex(value)} stands in ${slots} slots`);
  return { bytes, plan, isChanged, notices: [...(emptyingStops(sites, plan) ? [stops] : []), ...repeated] };
}

/** Slots were emptied in a table that had none, and older kernels would take 0 for a place. */
function emptyingStops(sites: Sites, { dropped }: SortedTable): boolean {
  if (dropped.length === 0) return false;
  return sites.tables.some(({ zero }, i) => zero === 0 && skippedSlot(sites, i).value !== 0n);
}

/** A table that is a section of its own. */
function sectionRange(image: ElfImage, sites: Sites): { readonly start: Address; readonly stop: Address } | null {
  for (const table of sites.tables) {
    const section = image.sections[table.container];
    if (table.role === 'sites' && section)
      return { start: section.address, stop: section.address + BigInt(section.size) };
  }
  return null;
}
