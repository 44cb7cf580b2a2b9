/**
 * Tables of the RISC-V kernel's other patching mechanisms: the formats of Linux 5.x to 7.x.
 * Distances count from their own field; in modules they are pairs of relocations ADD and SUB, and
 * so are lengths.
 */
import type { PatchField, PatchTable } from '../machine/tables.js';

const first: PatchField = { at: 0, bytes: 4, from: 'field' };
const second: PatchField = { at: 4, bytes: 4, from: 'field' };

const alternative = { section: '.alternative', what: 'an alternative' } as const;
const bug = { section: '__bug_table', what: 'a bug table entry', place: first, reach: 'instruction' } as const;
const exception = {
  section: '__ex_table',
  what: 'an exception table entry',
  place: first,
  reach: 'instruction',
  targets: [second],
} as const;

export const riscvPatchTables: readonly PatchTable[] = [
  {
    section: '__jump_table',
    what: 'a jump label',
    entryBytes: 16,
    place: first,
    reach: 'instruction',
    targets: [second],
  },
  // Two distances, the vendor, the length, the patch. The length is that of the code and of what
  // replaces it.
  { ...alternative, entryBytes: 16, place: first, reach: { at: 10, bytes: 2 }, replacement: [second] },
  // To Linux 6.2: two addresses, the vendor, the length, the patch.
  {
    ...alternative,
    entryBytes: 36,
    place: { at: 0, bytes: 8, from: 'nothing' },
    reach: { at: 24, bytes: 8 },
    replacement: [{ at: 8, bytes: 8, from: 'nothing' }],
  },
  // Since Linux 5.16 a type and its data stand behind the distances.
  { ...exception, entryBytes: 12 },
  { ...exception, entryBytes: 8 },
  { ...bug, entryBytes: 12 },
  { ...bug, entryBytes: 8 },
];
