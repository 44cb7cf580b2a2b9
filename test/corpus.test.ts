/**
 * Real kernel objects: the folder that ELFTRACE_CORPUS names, with MANIFEST.tsv (set, file, kind,
 * kernel, sites, table, shapes) written by other tools. Skipped, with the reason, where the
 * variable is not set.
 */
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from '@jest/globals';
import { readElf } from '../src/elf/read.js';
import { applyPlan } from '../src/patch/apply.js';
import { revert } from '../src/patch/revert.js';
import { callPlaces } from '../src/patch/record-table.js';
import { verify } from '../src/sites/verdicts.js';
import { hash } from '../src/cli/hash.js';
import { differences, openBytes, planNop, sameBytes, type Opened } from './support/pipeline.js';

interface Row {
  readonly set: string;
  readonly file: string;
  readonly kind: string;
  readonly sites: number;
  readonly table: string;
}

const folder = process.env['ELFTRACE_CORPUS'] ?? '';
const manifest = folder === '' ? '' : join(folder, 'MANIFEST.tsv');

function readManifest(): Row[] {
  return readFileSync(manifest, 'utf8')
    .trim()
    .split('\n')
    .slice(1)
    .map((line) => {
      const [set, file, kind, , sites, table] = line.split('\t');
      return { set: set!, file: file!, kind: kind!, sites: Number(sites), table: table! };
    });
}

const counts = { files: 0, sites: 0, changed: 0, unchanged: 0, weak: 0, zero: 0, edits: 0 };
const recorded = { files: 0, slots: 0 };

/** Calls of the profiling entry as places, to compare with the slots of a table. */
function placesOfCalls({ program }: Opened): string[] {
  return callPlaces(program)
    .map(({ section, offset }) => `${section}+${offset}`)
    .sort();
}

function check(row: Row): void {
  const bytes = new Uint8Array(readFileSync(join(folder, row.file)));
  const opened = openBytes(bytes);
  const { image, sites } = opened;
  const { total } = sites.totals();
  expect([row.file, total]).toEqual([row.file, row.sites]);
  const { verdicts, findings } = verify(sites);
  expect(findings.filter(({ severity }) => severity === 'error' || severity === 'warning')).toEqual([]);
  counts.files++;
  counts.sites += total;
  counts.weak += verdicts['weak-leftover'] ?? 0;
  counts.zero += verdicts['zero-entry'] ?? 0;

  const plan = planNop(sites);
  expect(plan.refusals).toEqual([]);
  expect(plan.selected).toBe(total - (verdicts['weak-leftover'] ?? 0));
  counts.changed += plan.changed;
  counts.unchanged += plan.unchanged;
  counts.edits += plan.steps.length;
  const { bytes: patched, notices } = applyPlan(image, plan, { hash });
  const positions: number[] = [];
  for (const { fileOffset, before, after } of plan.steps) {
    for (let i = 0; i < after.length; i++) if (before[i] !== after[i]) positions.push(fileOffset + i);
  }
  const head = bytes[4] === 2 ? 64 : 52;
  const changed = differences(bytes, patched, image.elfSize).filter((at) => at >= head);
  expect(changed.length).toBe(positions.length);
  expect(changed.every((at, i) => at === positions[i])).toBe(true);
  if (plan.steps.length > 0) {
    const again = openBytes(patched);
    expect(again.sites.totals().total).toBe(total);
    expect(again.sites.totals().byState['nop'] ?? 0).toBeGreaterThanOrEqual(plan.changed);
    expect(sameBytes(revert(readElf(patched), null, hash), bytes)).toBe(true);
    // F-5: an identity that no longer holds is reported.
    expect(notices.some((notice) => notice.includes('build-id'))).toBe(
      image.section('.note.gnu.build-id') !== undefined,
    );
  } else expect(sameBytes(patched, bytes)).toBe(true);

  // Where the table was made from calls (recordmcount, objtool, the compiler): the calls that we
  // find are its slots.
  const tables = sites.tables.filter((table) => table.role === 'sites' && table.name === '__mcount_loc');
  if (image.header.type === 1 && tables.length === 1) {
    const table = tables[0]!;
    const slots = Array.from({ length: table.count }, (_, i) => `${table.section[i]!}+${table.value[i]!}`).sort();
    expect(placesOfCalls(opened)).toEqual(slots);
    recorded.files++;
    recorded.slots += slots.length;
  }
}

if (folder === '' || !existsSync(manifest)) {
  const reason = folder === '' ? 'ELFTRACE_CORPUS is not set' : `${manifest} is not there`;
  process.stderr.write(`skipped: kernel objects: ${reason}\n`);
  describe.skip(`kernel objects (${reason})`, () => {
    test('nothing to read', () => undefined);
  });
} else {
  const rows = readManifest();
  const sets = [...new Set(rows.map((row) => row.set))];
  describe('kernel objects', () => {
    test.each(sets)(
      'C-INIT-1 C-UPD-3 M-TAB-1 M-TAB-2 M-REC-4 RT-7 %s',
      (set) => {
        for (const row of rows.filter((each) => each.set === set)) check(row);
      },
      40_000,
    );

    test('all of them were read', () => {
      process.stdout.write(
        `corpus: ${counts.files} files, ${counts.sites} sites, ${counts.zero} empty slots, ${counts.weak} weak leftovers; ` +
          `${counts.changed} calls became nops with ${counts.edits} edits, ${counts.unchanged} were nops; ` +
          `calls found equal the slots of ${recorded.files} tables (${recorded.slots} slots)\n`,
      );
      expect(counts.files).toBe(rows.length);
      expect(counts.sites).toBe(rows.reduce((sum, row) => sum + row.sites, 0));
      expect(recorded.files).toBe(rows.filter((row) => row.table.startsWith('__mcount_loc')).length);
    });
  });
}
