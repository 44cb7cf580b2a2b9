/**
 * Tables of the s390x kernel's other patching mechanisms: the formats of Linux 5.x to 7.x, measured
 * on modules of 6.1 and 7.2 (S-TAB-1). Distances count from their own field.
 */
import type { PatchField, PatchTable } from '../machine/tables.js';

const first: PatchField = { at: 0, bytes: 4, from: 'field' };
const second: PatchField = { at: 4, bytes: 4, from: 'field' };

const alternative = {
  section: '.altinstructions',
  what: 'an alternative',
  place: first,
  replacement: [second],
} as const;
const bug = { section: '__bug_table', what: 'a bug table entry', place: first, reach: 'instruction' } as const;
const exception = {
  section: '__ex_table',
  what: 'an exception table entry',
  place: first,
  reach: 'instruction',
  targets: [second],
} as const;

export const s390xPatchTables: readonly PatchTable[] = [
  {
    section: '__jump_table',
    what: 'a jump label',
    entryBytes: 16,
    place: first,
    reach: 'instruction',
    targets: [second],
  },
  // Two distances, a word of what the machine must have, the length (7.2); a facility of 16 bits
  // and one length (6.1) or two (before 5.16).
  { ...alternative, entryBytes: 13, reach: { at: 12, bytes: 1 } },
  { ...alternative, entryBytes: 11, reach: { at: 10, bytes: 1 } },
  { ...alternative, entryBytes: 12, reach: { at: 10, bytes: 1 } },
  // Since Linux 5.16 a type and its data stand behind the distances.
  { ...exception, entryBytes: 12 },
  { ...exception, entryBytes: 8 },
  // With a distance to the text of the message (7.x), the file's name, or neither.
  { ...bug, entryBytes: 16 },
  { ...bug, entryBytes: 12 },
  { ...bug, entryBytes: 8 },
];
