/**
 * Tables of the PowerPC kernel's other patching mechanisms: the formats of Linux 5.x to 7.x.
 * Distances of feature fix-ups count from the start of their entry, whatever field they stand in;
 * all others from their own field.
 */
import type { PatchField, PatchTable } from '../machine/tables.js';

const first: PatchField = { at: 0, bytes: 4, from: 'field' };
const second: PatchField = { at: 4, bytes: 4, from: 'field' };

/**
 * Mask and value of the features, start and end of the code, start and end of what replaces it: six
 * words.
 */
function featureFixups(wordBytes: 4 | 8): PatchTable[] {
  const word = (index: number): PatchField => ({ at: index * wordBytes, bytes: wordBytes, from: 'entry' });
  return ['__ftr_fixup', '__mmu_ftr_fixup', '__fw_ftr_fixup'].map((section) => ({
    section,
    what: 'a feature fix-up',
    entryBytes: 6 * wordBytes,
    place: word(2),
    reach: { end: word(3) },
    replacement: [word(4), word(5)],
  }));
}

/** Tables of one distance for each instruction. */
function instructionFixups(wordBytes: 4 | 8): PatchTable[] {
  return ['__lwsync_fixup', '__spec_barrier_fixup', '__barrier_nospec_fixup'].map((section) => ({
    section,
    what: 'a feature fix-up',
    entryBytes: wordBytes,
    place: { at: 0, bytes: wordBytes, from: 'entry' },
    reach: 'instruction',
  }));
}

export function ppcPatchTables(wordBytes: 4 | 8): readonly PatchTable[] {
  const bug = { section: '__bug_table', what: 'a bug table entry', place: first, reach: 'instruction' } as const;
  return [
    {
      section: '__jump_table',
      what: 'a jump label',
      entryBytes: 8 + wordBytes,
      place: first,
      reach: 'instruction',
      targets: [second],
    },
    {
      section: '__ex_table',
      what: 'an exception table entry',
      entryBytes: 8,
      place: first,
      reach: 'instruction',
      targets: [second],
    },
    { ...bug, entryBytes: 12 },
    { ...bug, entryBytes: 8 },
    ...featureFixups(wordBytes),
    ...instructionFixups(wordBytes),
  ];
}
