/**
 * Tables of the x86-64 kernel's other patching mechanisms: the formats of Linux 5.x to 7.x.
 * Distances count from their own field.
 */
import type { PatchField, PatchTable } from '../machine/tables.js';

const first: PatchField = { at: 0, bytes: 4, from: 'field' };
const second: PatchField = { at: 4, bytes: 4, from: 'field' };

const bug = { section: '__bug_table', what: 'a bug table entry', place: first, reach: 'instruction' } as const;
const alternative = {
  section: '.altinstructions',
  what: 'an alternative',
  place: first,
  replacement: [second],
} as const;

export const x86PatchTables: readonly PatchTable[] = [
  {
    section: '__jump_table',
    what: 'a jump label',
    entryBytes: 16,
    place: first,
    reach: 'instruction',
    targets: [second],
  },
  { section: '.static_call_sites', what: 'a static call', entryBytes: 8, place: first, reach: 'instruction' },
  // Since Linux 6.3 the feature word has 32 bits, before that 16; to 5.12 a third length stood
  // behind the two.
  { ...alternative, entryBytes: 14, reach: { at: 12, bytes: 1 } },
  { ...alternative, entryBytes: 12, reach: { at: 10, bytes: 1 } },
  { ...alternative, entryBytes: 13, reach: { at: 10, bytes: 1 } },
  {
    section: '.parainstructions',
    what: 'a paravirtual call',
    entryBytes: 16,
    place: { at: 0, bytes: 8, from: 'nothing' },
    reach: { at: 9, bytes: 1 },
  },
  {
    section: '__ex_table',
    what: 'an exception table entry',
    entryBytes: 12,
    place: first,
    reach: 'instruction',
    targets: [second],
  },
  // With a format string (7.x), with a file name, with neither.
  { ...bug, entryBytes: 16 },
  { ...bug, entryBytes: 12 },
  { ...bug, entryBytes: 8 },
];
