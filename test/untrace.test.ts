/**
 * `--untrace`: the tables of a file name the selected functions no more, nothing is called in them, and the rest of the file says what it said before.
 * What must hold is read from readelf, and from the relocations of the original.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from '@jest/globals';
import type { ElfImage } from '../src/elf/image.js';
import { readElf } from '../src/elf/read.js';
import { applyPlan, revert } from '../src/ftrace/apply.js';
import { planUntrace } from '../src/ftrace/untrace.js';
import { verify } from '../src/ftrace/verdicts.js';
import { openBytes, readSample, sameBytes } from './support/pipeline.js';
import { describeWith, run } from './support/tools.js';

const folder = mkdtempSync(join(tmpdir(), 'elftrace-untrace-'));
afterAll(() => {
  rmSync(folder, { recursive: true, force: true });
});

/** Modules with a table: calls and nops, one table and both kinds, of each target. */
const modules = [
  'x86-64/module-fentry.ko',
  'x86-64/module-fentry-signed.ko',
  'x86-64/module-fentry-ibt.ko',
  'x86-64/module-pic-record.ko',
  'x86-64/module-patchable-5.ko',
  'ppc32/module-mcount-recorded.ko',
  'ppc32/module-patchable-2.ko',
  'ppc64-elfv1/module-mcount-recorded.ko',
  'ppc64-elfv1/module-mprofile-recorded.ko',
  'ppc64-elfv1/module-patchable-2.ko',
  'ppc64-elfv2-be/module-mprofile-recorded.ko',
  'ppc64-elfv2-le/module-mprofile-recorded.ko',
  'ppc64-elfv2-le/module-mprofile-large-recorded.ko',
  'riscv64/module-mcount-recorded.ko',
  'riscv64/module-patchable-4.ko',
  'riscv64/module-patchable-8-4.ko',
  'riscv64/module-rv64g-patchable-2.ko',
  'arm64/module-mcount-recorded.ko',
  'arm64/module-patchable-2.ko',
  'arm64/module-patchable-4-2.ko',
  'arm64/module-patchable-4-2-bti.ko',
] as const;

/** What the slots of the site tables name, by the relocations alone: section and offset. Call padding is no such table. */
function slotsOf(image: ElfImage, name: string): string[] {
  const found: string[] = [];
  const padded = name === 'x86-64/module-fentry-ibt.ko';
  for (const section of image.sections) {
    if (section.name !== '__mcount_loc' && (padded || section.name !== '__patchable_function_entries')) continue;
    for (const { count, symbols, symbol, addend, offset } of image.relocationsOf(section)) {
      for (let row = 0; row < count; row++) {
        const home = image.sections[symbols!.sectionIndex[symbol[row]!]!]!.name;
        expect(offset[row]! < BigInt(section.size)).toBe(true);
        found.push(`${home}+${symbols!.value[symbol[row]!]! + addend[row]!}`);
      }
      expect(count).toBe(section.size / image.wordBytes);
    }
  }
  return found;
}

describe('C-INIT-1 untraced modules', () => {
  test.each(modules)('%s: every second function leaves the table, which shrinks; the others stay in it', (name) => {
    const bytes = readSample(name);
    const { image, sites } = openBytes(bytes);
    const selection = Uint8Array.from({ length: sites.count }, (_, i) => i % 2);
    const before = slotsOf(image, name);
    const plan = planUntrace(sites, { selection });
    expect(plan.refusals).toEqual([]);
    expect(plan.changed).toBe(Math.floor(sites.count / 2));
    const { bytes: out } = applyPlan(image, plan);
    const after = openBytes(out);
    const gone = new Set<string>();
    for (const each of sites) if (each.index % 2 === 1) gone.add(`${each.range!.name}+${each.anchor}`);
    expect(slotsOf(after.image, name)).toEqual(before.filter((slot) => !gone.has(slot)));
    expect(after.sites.count).toBe(sites.count - plan.changed);
    expect(verify(after.sites).findings.filter((finding) => finding.severity !== 'note')).toEqual([]);
    expect(sameBytes(revert(readElf(out)), bytes)).toBe(true);
  });

  test.each(modules)('%s: without a site there is no table, and no call', (name) => {
    const bytes = readSample(name);
    const { image, sites } = openBytes(bytes);
    const { bytes: out } = applyPlan(image, planUntrace(sites));
    const after = openBytes(out);
    expect(after.sites.count).toBe(0);
    expect(slotsOf(after.image, name)).toEqual([]);
    for (const gone of ['__mcount_loc', '.rela__mcount_loc']) expect(after.image.section(gone)).toBeUndefined();
    expect(sameBytes(revert(readElf(out)), bytes)).toBe(true);
  });
});

describeWith(['readelf'], 'C-INIT-1 untraced modules by readelf', () => {
  test.each(modules)('%s', (name) => {
    const { image, sites } = openBytes(readSample(name));
    const path = join(folder, 'object.ko');
    const read = (bytes: Uint8Array): string => {
      writeFileSync(path, bytes);
      return run('sh', ['-c', 'readelf -aW "$1" 2>&1 >/dev/null', 'sh', path]).toString();
    };
    const before = read(image.bytes);
    for (const selection of [undefined, Uint8Array.from({ length: sites.count }, (_, i) => i % 2)]) {
      const plan = planUntrace(sites, selection === undefined ? {} : { selection });
      expect(read(applyPlan(image, plan).bytes)).toBe(before);
    }
  });
});
