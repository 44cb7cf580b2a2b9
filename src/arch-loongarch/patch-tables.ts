/**
 * Tables of the LoongArch kernel's other patching mechanisms: the formats of Linux 5.19 to 7.x,
 * measured on 7.2. Distances count from their own field.
 */
import type { PatchField, PatchTable } from '../machine/tables.js';

const first: PatchField = { at: 0, bytes: 4, from: 'field' };
const second: PatchField = { at: 4, bytes: 4, from: 'field' };

const bug = { section: '__bug_table', what: 'a bug table entry', place: first, reach: 'instruction' } as const;

export const loongarchPatchTables: readonly PatchTable[] = [
  {
    section: '__jump_table',
    what: 'a jump label',
    entryBytes: 16,
    place: first,
    reach: 'instruction',
    targets: [second],
  },
  // Two distances, the feature, the length of the code and of what replaces it.
  {
    section: '.altinstructions',
    what: 'an alternative',
    entryBytes: 12,
    place: first,
    reach: { at: 10, bytes: 1 },
    replacement: [second],
  },
  {
    section: '__ex_table',
    what: 'an exception table entry',
    entryBytes: 12,
    place: first,
    reach: 'instruction',
    targets: [second],
  },
  { ...bug, entryBytes: 12 },
  { ...bug, entryBytes: 8 },
];
