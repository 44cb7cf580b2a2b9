/**
 * Plans, their execution and the way back, on every sample: exactly the plan's edits change, and
 * revert gives the input. The comparison is a plain byte loop, and `cmp -l` once, so that nothing
 * of ours judges itself.
 */
import { sampled } from './support/long.js';
import { spawnSync } from './support/spawn.js';
import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterAll, describe, expect, test } from '@jest/globals';
import {
  isExecutable,
  readExpected,
  readRecipes,
  runSample,
  runsNatively,
  targetOf,
  expectedFile,
} from '../scripts/build-samples.js';
import { readFileSync } from 'node:fs';
import { readElf } from '../src/elf/read.js';
import { applyPlan } from '../src/patch/apply.js';
import { revert } from '../src/patch/revert.js';
import { decodeRecord, readRecord } from '../src/record/journal.js';
import { checkAcceptance, type Plan } from '../src/patch/plan.js';
import { planSites } from '../src/patch/plan-sites.js';
import type { Sites } from '../src/sites/sites.js';
import { verify } from '../src/sites/verdicts.js';
import {
  codeOf,
  differences,
  edited,
  errorOf,
  openBytes,
  planNop,
  readSample,
  sameBytes,
  sampleFiles,
} from './support/pipeline.js';
import { describeWith, run } from './support/tools.js';

const folder = mkdtempSync(join(tmpdir(), 'plan-apply-'));
afterAll(() => {
  rmSync(folder, { recursive: true, force: true });
});

/** Positions at which a plan's net edits differ from what was there. */
function positionsOf(plan: Plan): number[] {
  const found: number[] = [];
  for (const { fileOffset, before, after } of plan.steps) {
    for (let i = 0; i < after.length; i++) if (before[i] !== after[i]) found.push(fileOffset + i);
  }
  return found;
}

/**
 * Length of what identifies the file itself: the ELF header changes when a section is added behind
 * it.
 */
const headerSize = (bytes: Uint8Array): number => (bytes[4] === 2 ? 64 : 52);

const refusing = /bypassed|program-patchable-4-2/;

function patched(bytes: Uint8Array, record: 'note' | 'beside' = 'note') {
  const opened = openBytes(bytes);
  const plan = planNop(opened.sites);
  return { ...opened, plan, applied: applyPlan(opened.image, plan, { record }) };
}

const selectionOf = (sites: Sites, wanted: (index: number) => boolean): Uint8Array =>
  Uint8Array.from({ length: sites.count }, (_, i) => (wanted(i) ? 1 : 0));

describe('every sample', () => {
  const files = sampleFiles();

  test.each(sampled(files, 3).map(({ name, bytes }) => [name, bytes] as const))(
    'C-UPD-2 C-UPD-3 F-1 RT-7 %s',
    (name, bytes) => {
      const input = bytes.slice();
      const { image, plan, applied, sites } = patched(bytes);
      if (!refusing.test(name)) {
        checkAcceptance(plan, {});
        expect(plan.refusals).toEqual([]);
      }
      expect(plan.changed + plan.unchanged + plan.refusals.length).toBe(plan.selected);
      // The input is never written to.
      expect(sameBytes(bytes, input)).toBe(true);
      const signed = bytes.length - image.elfSize;
      const old = bytes.length - signed;
      // The program headers too where a segment carries the note.
      const allowed = headerSize(bytes);
      const changed = differences(bytes, applied.bytes, old).filter((at) => at >= allowed);
      expect(changed).toEqual(positionsOf(plan));
      if (plan.steps.length === 0) {
        expect(sameBytes(applied.bytes, bytes)).toBe(true);
        return;
      }
      // In the header only e_shoff, e_shnum and e_shstrndx.
      const is64 = bytes[4] === 2;
      const fields = is64 ? [40, 41, 42, 43, 44, 45, 46, 47, 60, 61, 62, 63] : [32, 33, 34, 35, 48, 49, 50, 51];
      for (const at of differences(bytes, applied.bytes, allowed)) expect(fields).toContain(at);

      const again = openBytes(applied.bytes);
      const before = verify(sites).verdicts;
      expect(verify(again.sites).verdicts).toEqual(before);
      expect(again.sites.count).toBe(sites.count);
      // What was selected is a nop now, and asking again changes nothing.
      const replan = planNop(again.sites);
      expect([replan.steps.length, replan.changed, replan.unchanged]).toEqual([0, 0, plan.changed + plan.unchanged]);
      expect(sameBytes(applyPlan(again.image, replan).bytes, applied.bytes)).toBe(true);

      expect(sameBytes(revert(again.image), bytes)).toBe(true);
      // The same input gives the same output.
      expect(sameBytes(patched(bytes).applied.bytes, applied.bytes)).toBe(true);
    },
  );

  test('RT-7 the record beside the file: same size, only the edits differ, and back', () => {
    let count = 0;
    for (const { name, bytes } of files) {
      const { image, plan, applied } = patched(bytes, 'beside');
      if (plan.steps.length === 0) continue;
      count++;
      const old = image.elfSize;
      expect([name, applied.bytes.length]).toEqual([name, old]);
      expect(differences(bytes, applied.bytes)).toEqual(positionsOf(plan));
      expect(readRecord(readElf(applied.bytes))).toBeNull();
      expect(sameBytes(revert(readElf(applied.bytes), applied.recordBytes), bytes)).toBe(true);
      expect(codeOf(() => revert(readElf(applied.bytes)))).toBe('no-record');
    }
    expect(count).toBeGreaterThan(50);
  });

  test('RT-7 two patches and one revert: the original', () => {
    let count = 0;
    for (const { name, bytes } of files) {
      const first = openBytes(bytes);
      const a = planNop(first.sites, { selection: selectionOf(first.sites, (i) => i % 2 === 0) });
      const b = planNop(first.sites, { selection: selectionOf(first.sites, (i) => i % 2 === 1) });
      if (a.steps.length === 0 || b.steps.length === 0) continue;
      count++;
      const one = applyPlan(first.image, a).bytes;
      const second = openBytes(one);
      const two = applyPlan(
        second.image,
        planNop(second.sites, { selection: selectionOf(second.sites, (i) => i % 2 === 1) }),
      );
      expect(two.record!.requests).toEqual(['nop', 'nop']);
      expect([name, sameBytes(revert(readElf(two.bytes)), bytes)]).toEqual([name, true]);
      // Both halves together are the whole: the same edits as at once.
      const whole = applyPlan(first.image, planNop(first.sites));
      const size = first.image.elfSize;
      expect(differences(whole.bytes, two.bytes, size).filter((at) => at >= headerSize(bytes))).toEqual([]);
      // The same with records beside the file.
      const x = applyPlan(first.image, a, { record: 'beside' });
      const besideOpened = openBytes(x.bytes);
      const y = applyPlan(
        besideOpened.image,
        planNop(besideOpened.sites, { selection: selectionOf(besideOpened.sites, (i) => i % 2 === 1) }),
        { record: 'beside', earlier: decodeRecord(x.recordBytes!) },
      );
      expect([name, sameBytes(revert(readElf(y.bytes), y.recordBytes), bytes)]).toEqual([name, true]);
    }
    expect(count).toBeGreaterThan(50);
  });

  test('C-INIT-2 init: patchable entries get their initialised form, and revert undoes it', () => {
    const states = new Map<string, number>();
    for (const { name, bytes } of files) {
      const { image, sites } = openBytes(bytes);
      const plan = planSites(sites, { to: { kind: 'init' } });
      const applied = applyPlan(image, plan);
      const changed = differences(bytes, applied.bytes, image.elfSize).filter((at) => at >= headerSize(bytes));
      expect([name, changed]).toEqual([name, positionsOf(plan)]);
      if (plan.steps.length > 0) expect([name, sameBytes(revert(readElf(applied.bytes)), bytes)]).toEqual([name, true]);
      const after = openBytes(applied.bytes).sites.totals().byState;
      for (const [state, count] of Object.entries(after)) states.set(state, (states.get(state) ?? 0) + count);
    }
    expect(states.get('nop')).toBeGreaterThan(500);
  });
});

describeWith(['cmp'], 'cmp -l', () => {
  test.each([
    'x86-64/module-fentry.ko',
    'ppc32/module-mcount-recorded.ko',
    'riscv64/module-mcount.ko',
    'arm64/program-mcount',
  ])('C-UPD-3 %s: the bytes that differ are those of the plan', (name) => {
    const bytes = readSample(name);
    const { plan, applied } = patched(bytes, 'beside');
    const files = ['old', 'new'].map((part) => join(folder, part));
    writeFileSync(files[0]!, bytes);
    writeFileSync(files[1]!, applied.bytes);
    const { stdout } = spawnSync('cmp', ['-l', ...files], { encoding: 'utf8' });
    const positions = stdout
      .trim()
      .split('\n')
      .map((line) => Number(/^\s*(\d+)/.exec(line)![1]) - 1);
    expect(positions).toEqual(positionsOf(plan));
  });
});

/** The file with its `.modinfo` renamed. */
function withoutModuleInfo(bytes: Uint8Array): Uint8Array {
  const out = bytes.slice();
  const text = Buffer.from(out.buffer);
  for (let at = text.indexOf('.modinfo\0'); at >= 0; at = text.indexOf('.modinfo\0', at + 1)) out[at + 1] = 0x78;
  expect(readElf(out).section('.modinfo')).toBeUndefined();
  return out;
}

describeWith(['readelf'], 'neutralised relocations by readelf', () => {
  test.each([
    ['x86-64/module-fentry.ko', 'object', /__fentry__/, /R_X86_64_NONE/],
    ['x86-64/module-pic.ko', 'object', /__fentry__/, /R_X86_64_NONE/],
    ['x86-64/module-large.ko', 'object', /__fentry__/, /R_X86_64_NONE/],
    ['ppc32/module-mcount-recorded.ko', 'object', /_mcount/, /R_PPC_NONE/],
    ['ppc64-elfv1/module-mcount-recorded.ko', 'object', /_mcount/, /R_PPC64_NONE/],
    ['ppc64-elfv2-le/module-mprofile-recorded.ko', 'object', /_mcount/, /R_PPC64_NONE/],
    ['riscv64/module-mcount.ko', 'object', /_mcount/, /R_RISCV_NONE/],
    ['arm64/module-mcount-recorded.ko', 'object', /_mcount/, /R_AARCH64_NONE/],
    // The module loaders of these kernels know no NONE: an absolute word that writes the nop again,
    // a marker they ignore.
    ['x86-64/module-fentry.ko', 'module', /__fentry__/, /R_X86_64_NONE/],
    ['arm64/module-mcount-recorded.ko', 'module', /_mcount/, /R_AARCH64_NONE/],
    ['ppc32/module-mcount-recorded.ko', 'module', /_mcount/, /R_PPC_ADDR32 +60000000$/],
    ['ppc64-elfv1/module-mcount-recorded.ko', 'module', /_mcount/, /R_PPC64_ADDR32 +60000000$/],
    ['ppc64-elfv2-le/module-mprofile-recorded.ko', 'module', /_mcount/, /R_PPC64_ADDR32 +60000000$/],
    ['riscv64/module-mcount.ko', 'module', /_mcount/, /R_RISCV_RELAX/],
  ] as const)('F-2 F-5 %s as %s', (name, kind, entry, neutral) => {
    // Without module information the same file is an object for a linker.
    const bytes = kind === 'module' ? readSample(name) : withoutModuleInfo(readSample(name));
    const { applied, plan } = patched(bytes);
    const rows = (file: Uint8Array): string[] => {
      const path = join(folder, 'object');
      writeFileSync(path, file);
      return run('readelf', ['-rW', path])
        .toString()
        .split('\n')
        .filter((line) => /^[0-9a-f]{8,16} /.test(line));
    };
    const before = rows(bytes);
    const after = rows(applied.bytes);
    expect(after).toHaveLength(before.length);
    const relocations = plan.steps.filter((step) => step.kind === 'reloc').length;
    let gone = 0;
    before.forEach((line, i) => {
      if (after[i] === line) return;
      gone++;
      // The same place, a type that does nothing.
      expect(after[i]!.slice(0, 8)).toBe(line.slice(0, 8));
      expect(after[i]).toMatch(neutral);
    });
    expect(gone).toBe(relocations);
    expect(before.some((line) => entry.test(line))).toBe(true);
    // Table slots name .text, not the entry: nothing refers to the entry any more.
    expect(after.filter((line) => entry.test(line) && !/mcount_loc/.test(line))).toEqual([]);
    // Companions went with their relocation: no RELAX marker without one at the same place.
    if (name.startsWith('riscv64') && kind === 'object') {
      const at = (line: string): string => line.slice(0, 16);
      const kept = new Set(after.filter((line) => !/R_RISCV_(RELAX|NONE)/.test(line)).map(at));
      expect(before.some((line) => line.includes('R_RISCV_RELAX'))).toBe(true);
      for (const line of after) if (line.includes('R_RISCV_RELAX')) expect(kept.has(at(line))).toBe(true);
    }
    const sections = (file: Uint8Array): string[] => {
      const path = join(folder, 'object');
      writeFileSync(path, file);
      return [
        ...run('readelf', ['-SW', path])
          .toString()
          .matchAll(/\] (\S+) +[A-Z]/g),
      ].map((match) => match[1]!);
    };
    // F-5: one section more, the others and their order as before; readelf finds nothing to warn
    // about.
    const shown = sections(applied.bytes);
    expect(shown.filter((each) => each !== '.note.elftrace')).toEqual(sections(bytes));
    expect(shown).toContain('.note.elftrace');
    const warnings = spawnSync('readelf', ['-aW', join(folder, 'object')], { encoding: 'utf8' }).stderr;
    expect(warnings).toBe('');
  });
});

describe('refusals', () => {
  const module = readSample('x86-64/module-fentry.ko');

  test('C-UPD-3 one bad site of many: plan-refused, nothing is written', () => {
    const { sites } = openBytes(module);
    const bad = edited(module, sites.fileOffset(5), [0x90]);
    const opened = openBytes(bad);
    const plan = planNop(opened.sites);
    expect([plan.changed, plan.refusals.length]).toEqual([10, 1]);
    expect(plan.refusals[0]!.code).toBe('wrong-bytes');
    const error = errorOf(() => {
      checkAcceptance(plan, {});
    });
    expect([error.code, error.context.value]).toEqual(['plan-refused', 1]);
    expect(error.message).toContain('wrong-bytes');
    checkAcceptance(plan, { partial: true });
    checkAcceptance(plan, { requirePercent: 90 });
    expect(codeOf(() => checkAcceptance(plan, { requirePercent: 95 }))).toBe('plan-refused');
    // --require is a gate: it is not lifted by --partial.
    expect(codeOf(() => checkAcceptance(plan, { requirePercent: 95, partial: true }))).toBe('plan-refused');
  });

  test('C-UPD-2 EINVAL: a plan for other bytes writes nothing', () => {
    const { image, sites } = openBytes(module);
    const plan = planNop(sites);
    const other = readElf(edited(module, plan.steps.at(-1)!.fileOffset, [0xaa]));
    const copy = other.bytes.slice();
    const error = errorOf(() => applyPlan(other, plan));
    expect([error.code, error.context.fileOffset]).toEqual(['site-mismatch', plan.steps.at(-1)!.fileOffset]);
    expect(error.message).toContain('nothing was written');
    expect(sameBytes(other.bytes, copy)).toBe(true);
    expect(sameBytes(image.bytes, module)).toBe(true);
  });

  test('C-UPD-2 EPERM: the store hook refuses one store of many', () => {
    const { image, sites } = openBytes(module);
    const plan = planNop(sites);
    const seen: number[] = [];
    const error = errorOf(() =>
      applyPlan(image, plan, {
        mayStore: (offset) => {
          seen.push(offset);
          return offset !== plan.steps[7]!.fileOffset;
        },
      }),
    );
    expect(error.message).toContain('EPERM');
    expect(seen).toEqual(plan.steps.slice(0, 8).map((step) => step.fileOffset));
    expect(sameBytes(image.bytes, module)).toBe(true);
    // Every store goes through the hook.
    const all: number[] = [];
    applyPlan(image, plan, { mayStore: (offset) => all.push(offset) > 0 });
    expect(all).toEqual(plan.steps.map((step) => step.fileOffset));
  });

  test('C-UPD-2 EPERM: read-only ranges, to the byte', () => {
    const { sites } = openBytes(module);
    const at = sites.fileOffset(4);
    const refusals = (start: number, end: number): string[] =>
      planNop(sites, { readonlyRanges: [{ start, end }] }).refusals.map(
        ({ code, errno, site }) => `${code} ${errno} ${site}`,
      );
    expect(refusals(at + 4, at + 5)).toEqual(['not-writable EPERM 4']);
    expect(refusals(at - 8, at + 1)).toEqual(['not-writable EPERM 4']);
    expect(refusals(at - 2, at)).toEqual([]);
    expect(refusals(at + 5, at + 6)).toEqual([]);
    // The relocation that must go is protected: the bytes stay as well.
    const plan = planNop(sites);
    const row = plan.steps.find((step) => step.kind === 'reloc' && step.site === 4)!;
    const blocked = planNop(sites, { readonlyRanges: [{ start: row.fileOffset, end: row.fileOffset + 1 }] });
    expect(blocked.refusals.map((refusal) => refusal.site)).toEqual([4]);
    expect(blocked.steps.some((step) => step.site === 4)).toBe(false);
  });

  test('C-UPD-2 EPERM: --strict-perm refuses text that is not writable', () => {
    const { sites } = openBytes(readSample('x86-64/program-fentry'));
    const plan = planNop(sites, { strictPermissions: true });
    expect(new Set(plan.refusals.map(({ code, errno }) => `${code} ${errno}`))).toEqual(
      new Set(['read-only-section EPERM']),
    );
    expect(plan.changed).toBe(0);
  });

  test('EFAULT: a slot that names no code', () => {
    const bytes = readSample('x86-64/program-fentry');
    const { sites } = openBytes(bytes);
    const bad = edited(bytes, sites.tables[0]!.position[0]!, [0x10, 0, 0, 0, 0, 0, 0, 0]);
    const plan = planNop(openBytes(bad).sites);
    expect(plan.refusals.map(({ code, errno }) => [code, errno])).toEqual([['outside-text', 'EFAULT']]);
  });

  test('C-REC-2 empty slots and weak leftovers are never selected', () => {
    const bytes = readSample('x86-64/program-fentry');
    const { sites } = openBytes(bytes);
    const zeroed = edited(bytes, sites.tables[0]!.position[0]!, new Uint8Array(8));
    expect(planNop(openBytes(zeroed).sites).selected).toBe(16);
    const all = new Uint8Array(18).fill(1);
    expect(planNop(sites, { selection: all }).selected).toBe(17);
    expect(planNop(sites, { selection: new Uint8Array(18) })).toMatchObject({ selected: 0, changed: 0, steps: [] });
  });

  test('F-6 a place of another patching mechanism inside the site', () => {
    const { image, program } = openBytes(module);
    // The slots of __mcount_loc itself under the name of a table of jump labels: each names the
    // first byte of a site.
    const names = image.section('.shstrtab')!;
    const table = image.section('__mcount_loc')!;
    const at = Buffer.from(image.bytes.subarray(names.offset, names.offset + names.size)).indexOf('__mcount_loc\0');
    const renamed = edited(module, names.offset + at, Buffer.from('__jump_table'));
    expect(table.size / 8).toBe(11);
    expect(program.relocatable).toBe(true);
    const opened = openBytes(renamed);
    const plan = planNop(opened.sites);
    expect(plan.refusals.map(({ code }) => code)).toEqual(Array(11).fill('overlaps-patch-range'));
    expect(plan.refusals[0]!.reason).toContain('jump label');
    expect(plan.steps).toEqual([]);
  });

  test('two sites that claim the same bytes: the second is refused, the first and all others are planned', () => {
    // Eight c.nops: a slot four bytes behind another names bytes that both would write.
    const bytes = readSample('riscv64/program-patchable-8');
    const { sites } = openBytes(bytes);
    const table = sites.tables[0]!;
    const first = sites.anchor[6]!;
    const slot = edited(bytes, table.position[sites.slot(7)]!, new Uint8Array(new BigUint64Array([first + 4n]).buffer));
    const opened = openBytes(slot);
    const plan = planSites(opened.sites, { to: { kind: 'init' } });
    expect(plan.refusals.map(({ code, errno, address }) => [code, errno, address])).toEqual([
      ['overlap', 'EINVAL', first + 4n],
    ]);
    expect(plan.steps.filter((step) => step.address === first).length).toBe(1);
    expect(plan.steps.some((step) => step.address === first + 4n)).toBe(false);
    expect(plan.changed + plan.unchanged + plan.refusals.length).toBe(plan.selected);
    for (let i = 1; i < plan.steps.length; i++) {
      const before = plan.steps[i - 1]!;
      expect(before.fileOffset + before.before.length).toBeLessThanOrEqual(plan.steps[i]!.fileOffset);
    }
  });

  test('an AbortSignal stops planning', () => {
    const controller = new AbortController();
    controller.abort(new Error('enough'));
    const { sites } = openBytes(module);
    expect(() => planNop(sites, { signal: controller.signal })).toThrow('enough');
  });
});

describe('what stands behind the ELF image', () => {
  test('F-5 a module signature is cut with a notice, and comes back', () => {
    const signed = readSample('x86-64/module-fentry-signed.ko');
    const plain = readSample('x86-64/module-fentry.ko');
    const { applied } = patched(signed);
    expect(applied.notices.join()).toContain('signature');
    expect(Buffer.from(applied.bytes).subarray(-28).toString()).not.toContain('signature');
    expect(applied.record!.cut.length).toBe(signed.length - plain.length);
    expect(sameBytes(revert(readElf(applied.bytes)), signed)).toBe(true);
    // Beside: the size is that without the signature.
    const beside = patched(signed, 'beside').applied;
    expect(beside.bytes.length).toBe(plain.length);
    expect(sameBytes(revert(readElf(beside.bytes), beside.recordBytes), signed)).toBe(true);
    // Nothing to do: the signature still holds, so it stays.
    const { image, sites } = openBytes(signed);
    const none = applyPlan(image, planNop(sites, { selection: new Uint8Array(sites.count) }));
    expect(sameBytes(none.bytes, signed)).toBe(true);
  });

  test('RT-7 other trailing data stays and comes back', () => {
    const trailing = new TextEncoder().encode('somebody put this here');
    const plain = readSample('x86-64/module-fentry.ko');
    const bytes = new Uint8Array([...plain, ...trailing]);
    const { applied } = patched(bytes);
    expect(sameBytes(revert(readElf(applied.bytes)), bytes)).toBe(true);
    const beside = patched(bytes, 'beside').applied;
    expect(beside.bytes.length).toBe(bytes.length);
    expect(sameBytes(revert(readElf(beside.bytes), beside.recordBytes), bytes)).toBe(true);
  });

  test('RT-7 a signature over a patched file: revert gives the original all the same', () => {
    const plain = readSample('x86-64/module-fentry.ko');
    const signature = readSample('x86-64/module-fentry-signed.ko').subarray(plain.length);
    const first = openBytes(plain);
    const one = applyPlan(
      first.image,
      planNop(first.sites, { selection: selectionOf(first.sites, (i) => i < 3) }),
    ).bytes;
    const signed = new Uint8Array([...one, ...signature]);
    expect(sameBytes(revert(readElf(signed)), plain)).toBe(true);
    const second = openBytes(signed);
    const two = applyPlan(second.image, planNop(second.sites));
    expect(two.notices.join()).toContain('signature');
    expect(sameBytes(revert(readElf(two.bytes)), plain)).toBe(true);
  });

  test('RT-7 the same with the record beside the file', () => {
    const plain = readSample('x86-64/module-fentry.ko');
    const signature = readSample('x86-64/module-fentry-signed.ko').subarray(plain.length);
    const first = openBytes(plain);
    const one = applyPlan(first.image, planNop(first.sites, { selection: selectionOf(first.sites, (i) => i < 3) }), {
      record: 'beside',
    });
    const second = openBytes(new Uint8Array([...one.bytes, ...signature]));
    const two = applyPlan(second.image, planNop(second.sites), {
      record: 'beside',
      earlier: decodeRecord(one.recordBytes!),
    });
    expect(two.notices.join()).toContain('signature');
    expect(sameBytes(revert(readElf(two.bytes), two.recordBytes), plain)).toBe(true);
  });
});

describe('headers that are odd', () => {
  test('RT-7 an e_ehsize of 0 or 65535 does not cost the way back, nor protection of the header', () => {
    const plain = readSample('x86-64/program-fentry');
    for (const size of [
      [0, 0],
      [0xff, 0xff],
    ]) {
      const bytes = edited(plain, 52, size);
      const { applied, sites } = patched(bytes);
      expect(sameBytes(revert(readElf(applied.bytes)), bytes)).toBe(true);
      expect(planNop(sites).refusals).toEqual([]);
    }
  });
});

// --------------------------------------------------------------------------------------- execution

const recipes = readRecipes();
for (const [name, target] of Object.entries(recipes.targets)) {
  const here = recipes.samples.filter((each) => isExecutable(recipes, each) && targetOf(recipes, each) === target);
  describeWith(runsNatively(target) ? [] : [target.emulator], `patched samples of ${name} run`, () => {
    const traces = readExpected('trace.txt');
    test.each(here.map((recipe) => [recipe.name, recipe] as const))('C-INIT-2 %s', async (_, recipe) => {
      const bytes = readSample(recipe.name);
      const { image, sites } = openBytes(bytes);
      const plan = planNop(sites);
      const { bytes: output } = applyPlan(image, plan);
      const path = join(folder, recipe.name);
      mkdirSync(dirname(path), { recursive: true });
      writeFileSync(path, output);
      chmodSync(path, 0o755);
      const printed = await runSample(recipes, recipe, folder);
      // Weak leftovers are never called: with all sites nops nothing is counted.
      expect(printed).toBe(`${readFileSync(expectedFile(recipe), 'utf8')}trace=0\n`);
      if (traces.get(recipe.name) !== 'trace=0') expect(plan.changed).toBe(recipe.step === 'strip' ? 18 : 17);
      // Half of the sites: some calls are counted, not all.
      if (plan.changed > 0) {
        const half = applyPlan(image, planNop(sites, { selection: selectionOf(sites, (i) => i % 2 === 0) }));
        writeFileSync(path, half.bytes);
        const trace = Number(/trace=(\d+)/.exec(await runSample(recipes, recipe, folder))![1]);
        expect(trace).toBeGreaterThan(0);
        expect(trace).toBeLessThan(49);
      }
    });
  });
}
