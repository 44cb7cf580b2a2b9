/**
 * Tables of the arm64 kernel's other patching mechanisms: the formats of Linux 5.x to 7.x.
 * Distances count from their own field.
 */
import type { PatchField, PatchTable } from '../machine/tables.js';

const first: PatchField = { at: 0, bytes: 4, from: 'field' };
const second: PatchField = { at: 4, bytes: 4, from: 'field' };

const bug = { section: '__bug_table', what: 'a bug table entry', place: first, reach: 'instruction' } as const;
const exception = {
  section: '__ex_table',
  what: 'an exception table entry',
  place: first,
  reach: 'instruction',
  targets: [second],
} as const;

export const arm64PatchTables: readonly PatchTable[] = [
  {
    section: '__jump_table',
    what: 'a jump label',
    entryBytes: 16,
    place: first,
    reach: 'instruction',
    targets: [second],
  },
  // Two distances, the capability, the lengths of the code and of what replaces it.
  {
    section: '.altinstructions',
    what: 'an alternative',
    entryBytes: 12,
    place: first,
    reach: { at: 10, bytes: 1 },
    replacement: [second],
  },
  // Since Linux 5.16 a type and its data stand behind the distances.
  { ...exception, entryBytes: 12 },
  { ...exception, entryBytes: 8 },
  { ...bug, entryBytes: 12 },
  { ...bug, entryBytes: 8 },
];
