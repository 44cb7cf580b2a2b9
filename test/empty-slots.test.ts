/**
 * `--empty-slots`: sites that change leave the table, so that a kernel with dynamic ftrace neither expects the compiler's bytes at them nor
 * stops tracing when it loads the file. Slots of other sites stay; undoing restores everything.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from '@jest/globals';
import { readElf } from '../src/elf/read.js';
import { applyPlan, revert } from '../src/ftrace/apply.js';
import { planSites } from '../src/ftrace/plan.js';
import { verify } from '../src/ftrace/verdicts.js';
import { openBytes, readSample, sameBytes } from './support/pipeline.js';
import { cliPath } from './support/cli.js';
import { describeWith, run } from './support/tools.js';

const folder = mkdtempSync(join(tmpdir(), 'elftrace-slots-'));
afterAll(() => {
  rmSync(folder, { recursive: true, force: true });
});

/** Files with a table of calls: slots by relocation, by word, in .init.data. */
const tabled = [
  'x86-64/module-fentry.ko',
  'x86-64/module-pic-record.ko',
  'ppc32/module-mcount-recorded.ko',
  'ppc64-elfv1/module-mcount-recorded.ko',
  'ppc64-elfv2-le/module-mprofile-recorded.ko',
  'riscv64/module-mcount-recorded.ko',
  'arm64/module-mcount-recorded.ko',
  'x86-64/core-fentry',
  'ppc32/core-mcount',
] as const;

describe('C-INIT-1 emptied slots', () => {
  test.each(tabled)('%s: every second call becomes a nop and leaves the table; the others stay in it', (name) => {
    const bytes = readSample(name);
    const { image, sites } = openBytes(bytes);
    const selection = Uint8Array.from({ length: sites.count }, (_, i) => i % 2);
    const plan = planSites(sites, { to: { kind: 'nop' }, selection, emptySlots: true });
    expect(plan.refusals).toEqual([]);
    expect(plan.changed).toBeGreaterThan(3);
    const { bytes: out } = applyPlan(image, plan);
    const after = openBytes(out);
    const result = verify(after.sites);
    const before = verify(sites);
    expect(result.verdicts['zero-entry']).toBe((before.verdicts['zero-entry'] ?? 0) + plan.changed);
    // The record still knows them: they are sites that no table names.
    expect(result.sites).toBe(before.sites);
    expect(result.findings.filter((finding) => finding.severity !== 'note')).toEqual([]);
    const place = (range: number, anchor: bigint): string => `${range}:${anchor}`;
    const gone = new Set(plan.steps.map((step) => place(sites.range[step.site]!, sites.anchor[step.site]!)));
    for (const site of after.sites) {
      if (!site.range) continue;
      const changed = gone.has(place(site.range.index, site.anchor));
      expect([site.table.name === 'record', site.state === 'nop']).toEqual([changed, changed]);
    }
    expect(sameBytes(revert(readElf(out)), bytes)).toBe(true);
  });

  test('without it the table stays as it is', () => {
    const bytes = readSample('x86-64/module-fentry.ko');
    const { image, sites } = openBytes(bytes);
    const { bytes: out } = applyPlan(image, planSites(sites, { to: { kind: 'nop' } }));
    expect(verify(openBytes(out).sites).verdicts).toEqual({ ok: 11 });
  });

  test('relocatable words in a PIE: the addend goes with the word', () => {
    const bytes = readSample('arm64/pie-patchable-2');
    const { image, sites } = openBytes(bytes);
    const plan = planSites(sites, { to: { kind: 'init' }, emptySlots: true });
    expect(plan.changed).toBeGreaterThan(10);
    const { bytes: out } = applyPlan(image, plan);
    const result = verify(openBytes(out).sites);
    expect(result.verdicts['zero-entry']).toBe(plan.changed);
    expect(sameBytes(revert(readElf(out)), bytes)).toBe(true);
  });

  test('patch says what a kernel does with a table that names changed sites, and is quiet with --empty-slots', () => {
    const input = join(folder, 'module.ko');
    const output = join(folder, 'out.ko');
    writeFileSync(input, readSample('x86-64/module-fentry.ko'));
    const patch = (...args: readonly string[]): string =>
      run('sh', [
        '-c',
        '"$@" 2>&1',
        'sh',
        process.execPath,
        cliPath,
        'patch',
        '--nop',
        input,
        '-o',
        output,
        ...args,
      ]).toString();
    expect(patch()).toMatch(/notice: the site table still names the 11 changed sites.*--empty-slots/);
    expect(patch('--empty-slots')).not.toMatch(/site table/);
  });
});

describeWith(['readelf'], 'C-INIT-1 emptied slots by readelf', () => {
  test.each([
    ['x86-64/module-fentry.ko', 'R_X86_64_64'],
    ['ppc32/module-mcount-recorded.ko', 'R_PPC_ADDR32'],
    ['ppc64-elfv1/module-mcount-recorded.ko', 'R_PPC64_ADDR64'],
    ['riscv64/module-mcount-recorded.ko', 'R_RISCV_64'],
  ] as const)('%s: %s without symbol, addend 0', (name, type) => {
    const { image, sites } = openBytes(readSample(name));
    const { bytes: out } = applyPlan(image, planSites(sites, { to: { kind: 'nop' }, emptySlots: true }));
    const path = join(folder, 'object.ko');
    writeFileSync(path, out);
    const text = run('readelf', ['-rW', path]).toString();
    const table = text.slice(text.indexOf("'.rela__mcount_loc'")).split('\n\n')[0]!;
    const rows = table.split('\n').filter((line) => line.includes(type));
    expect(rows).toHaveLength(11);
    for (const row of rows) expect(row).toMatch(new RegExp(`${type} +0$`));
  });
});
