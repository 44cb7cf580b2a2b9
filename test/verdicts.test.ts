/**
 * Every verdict of the table on a file that deserves exactly it: samples with a few bytes changed
 * by hand.
 */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, test } from '@jest/globals';
import { applyPlan } from '../src/patch/apply.js';
import { readRecord, recordedState } from '../src/record/journal.js';
import { type Finding, siteMismatch, verdictSeverity, verify } from '../src/sites/verdicts.js';
import { badVerdicts, edited, openBytes, planNop, readSample, verdictsOf } from './support/pipeline.js';
import { describeWith, run } from './support/tools.js';
import { words } from './support/elf-builder.js';

/** File offset of the anchor of a function's site. */
function siteOf(bytes: Uint8Array, name: string): { offset: number; address: bigint; index: number } {
  const { sites, program } = openBytes(bytes);
  for (const site of sites) {
    if (site.functionSymbol >= 0 && program.symbolName(site.functionSymbol) === name) {
      return { offset: sites.fileOffset(site.index), address: site.anchor, index: site.index };
    }
  }
  throw new Error(`no site of ${name}`);
}

/** The one finding of a verdict; the others of the file must be weak leftovers. */
function findingOf(bytes: Uint8Array, verdict: string): Finding {
  const { findings } = verdictsOf(bytes);
  const others = findings.filter((finding) => finding.verdict !== 'weak-leftover' || verdict === 'weak-leftover');
  expect(others.map((finding) => finding.verdict)).toEqual([verdict]);
  return others[0]!;
}

/** File offset of a slot of a linked table. */
const slotOf = (bytes: Uint8Array, slot: number): number => openBytes(bytes).sites.tables[0]!.position[slot]!;

/** File offset of the relocation that fills a slot of a relocatable file. */
function slotRow(bytes: Uint8Array, slot: number): { info: number; addend: number; value: bigint } {
  const { image, sites } = openBytes(bytes);
  const table = sites.tables[0]!;
  const section = image.sections[table.container]!;
  const word = BigInt(image.wordBytes);
  for (const rows of image.relocationsOf(section)) {
    for (let row = 0; row < rows.count; row++) {
      if (rows.offset[row] !== BigInt(slot) * word) continue;
      const at = rows.fileOffset(row);
      return { info: at + image.wordBytes, addend: at + 2 * image.wordBytes, value: rows.addend[row]! };
    }
  }
  throw new Error('no such slot');
}

const little64 = { is64: true, endian: 'little' } as const;
const big64 = { is64: true, endian: 'big' } as const;
const linked = readSample('x86-64/program-fentry');
const module = readSample('x86-64/module-fentry.ko');

describe('slots', () => {
  test('C-INIT-1 zero-entry', () => {
    for (const bytes of [
      edited(linked, slotOf(linked, 3), new Uint8Array(8)),
      edited(module, slotRow(module, 3).info, new Uint8Array(8)),
    ]) {
      const finding = findingOf(bytes, 'zero-entry');
      expect([finding.severity, finding.rule]).toEqual(['note', 'C-INIT-1']);
      const { sites } = openBytes(bytes);
      // Empty slots are no sites.
      expect(verify(sites).sites).toBe(sites.count - 1);
    }
  });

  test('M-VAL-1 outside-text', () => {
    for (const value of [0x10n, 0x7fff_ffff_ffff_fff0n, openBytes(linked).image.section('.data')!.address]) {
      const finding = findingOf(edited(linked, slotOf(linked, 0), words(little64, [value])), 'outside-text');
      expect([finding.severity, finding.address, finding.message.includes('no code')]).toEqual(['error', value, true]);
    }
    // Behind the end of the section, and exactly at it.
    const size = BigInt(openBytes(module).image.section('.text')!.size);
    for (const value of [size, 0x10_0000n]) {
      const finding = findingOf(edited(module, slotRow(module, 0).addend, words(little64, [value])), 'outside-text');
      expect([finding.section, finding.offset]).toEqual(['.text', value]);
    }
  });

  test('M-SORT-3 duplicate: the second of two is the duplicate', () => {
    const value = openBytes(linked).sites.tables[0]!.value[1]!;
    const finding = findingOf(edited(linked, slotOf(linked, 0), words(little64, [value])), 'duplicate');
    expect([finding.severity, finding.address]).toEqual(['error', value]);
    expect(finding.message).toContain('slots 0 and 1');
    const again = slotRow(module, 1);
    findingOf(edited(module, slotRow(module, 0).addend, words(little64, [again.value])), 'duplicate');
  });

  test.each([
    ['ppc64-elfv2-le/module-mprofile-recorded.ko', little64, 2n],
    ['ppc64-elfv1/module-mcount-recorded.ko', big64, 1n],
    ['riscv64/module-patchable-4.ko', little64, 1n],
    ['arm64/module-mcount-recorded.ko', little64, 2n],
  ] as const)('M-VAL-1 misaligned: %s', (name, shape, delta) => {
    const bytes = readSample(name);
    const row = slotRow(bytes, 2);
    const { image, sites } = openBytes(bytes);
    const old = sites.tables[0]!.value[2]!;
    const bad = edited(bytes, row.addend, words(shape, [BigInt.asUintN(64, row.value + delta)]));
    expect(image.header.type).toBe(1);
    const finding = findingOf(bad, 'misaligned');
    expect([finding.severity, finding.address]).toEqual(['error', old + delta]);
  });
});

describeWith(['aarch64-linux-gnu-gcc'], 'misaligned literals of arm64', () => {
  test('A-CO-8 A-SITE-1: GCC 12 does not align cold functions', () => {
    const folder = mkdtempSync(join(tmpdir(), 'verdicts-'));
    try {
      const source = join(folder, 'cold.c');
      const object = join(folder, 'cold.o');
      writeFileSync(
        source,
        '__attribute__((cold,noinline)) void a(void){}\n__attribute__((cold,noinline)) void b(void){}\n',
      );
      run('aarch64-linux-gnu-gcc', [
        '-O2',
        '-fpatchable-function-entry=4,2',
        '-falign-functions=8',
        '-mbranch-protection=none',
        '-c',
        source,
        '-o',
        object,
      ]);
      const bytes = new Uint8Array(readFileSync(object));
      const { sites } = openBytes(bytes);
      const places = sites.tables.flatMap((table) => [...table.value]);
      const misaligned = places.filter((value) => value % 8n !== 0n);
      const result = verify(sites);
      // A compiler that aligns them has nothing to show here.
      expect(result.verdicts.misaligned ?? 0).toBe(misaligned.length);
      expect(result.verdicts.ok ?? 0).toBe(places.length - misaligned.length);
      const version = run('aarch64-linux-gnu-gcc', ['-dumpversion']).toString().trim();
      if (version.startsWith('12')) expect(misaligned).toEqual([0x14n]);
      const plan = planNop(sites, { to: { kind: 'init' } });
      expect(plan.refusals.map((refusal) => refusal.code)).toEqual(misaligned.map(() => 'misaligned'));
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  });
});

describe.each(['x86_64', 'riscv64'])('pads of %s that are too small', (machine) => {
  const compiler = `${machine}-linux-gnu-gcc`;
  describeWith([compiler], 'compiled', () => {
    test('M-VAL-1 unsupported-shape: -fpatchable-function-entry=1', () => {
      const folder = mkdtempSync(join(tmpdir(), 'verdicts-'));
      try {
        writeFileSync(join(folder, 'small.c'), 'int f(int x) { return x + 1; }\n');
        run(compiler, [
          '-O2',
          '-fpatchable-function-entry=1',
          '-c',
          join(folder, 'small.c'),
          '-o',
          join(folder, 'small.o'),
        ]);
        const bytes = new Uint8Array(readFileSync(join(folder, 'small.o')));
        const finding = findingOf(bytes, 'unsupported-shape');
        expect([finding.severity, finding.function, finding.address]).toEqual(['error', 'f', 0n]);
        expect(finding.expected.length).toBeGreaterThan(1);
        const { sites } = openBytes(bytes);
        const init = planNop(sites, { to: { kind: 'init' } });
        expect(init.refusals.map(({ code, errno }) => [code, errno])).toEqual([['unsupported-shape', 'EINVAL']]);
        // They are nops, which is all that --nop asks for.
        expect(planNop(sites)).toMatchObject({ refusals: [], changed: 0, unchanged: 1 });
      } finally {
        rmSync(folder, { recursive: true, force: true });
      }
    });
  });
});

describe('symbols', () => {
  test('M-WEAK-1 weak-leftover: real bytes without a symbol', () => {
    const finding = findingOf(linked, 'weak-leftover');
    expect([finding.severity, finding.rule, finding.function]).toEqual(['note', 'M-WEAK-1', '']);
  });

  test('M-VAL-1 no-symbol: no function and no site', () => {
    const leftover = findingOf(linked, 'weak-leftover');
    const { sites } = openBytes(linked);
    const finding = findingOf(
      edited(linked, sites.fileOffset(leftover.site), [0xcc, 0xcc, 0xcc, 0xcc, 0xcc]),
      'no-symbol',
    );
    expect([finding.severity, finding.address]).toEqual(['warning', leftover.address]);
    expect([...finding.actual].slice(0, 5)).toEqual([0xcc, 0xcc, 0xcc, 0xcc, 0xcc]);
  });

  test('M-VAL-1 a stripped file has neither: its bytes are judged', () => {
    const stripped = readSample('x86-64/program-fentry-stripped');
    expect(verdictsOf(stripped).verdicts).toEqual({ ok: 18 });
    const { sites } = openBytes(stripped);
    findingOf(edited(stripped, sites.fileOffset(0), [0xcc, 0xcc, 0xcc, 0xcc, 0xcc]), 'wrong-bytes');
  });

  test.each(['ppc64-elfv2-be', 'ppc64-elfv2-le'])('P-SITE-2 bypassed-by-local-entry on %s', (target) => {
    for (const kind of ['program-patchable-2-bypassed', 'module-patchable-2-bypassed.ko']) {
      const { findings } = verdictsOf(readSample(`${target}/${kind}`));
      const bypassed = findings.filter((finding) => finding.verdict === 'bypassed-by-local-entry');
      expect(bypassed).toHaveLength(9);
      expect(new Set(bypassed.map((finding) => `${finding.severity} ${finding.rule}`))).toEqual(
        new Set(['error P-SITE-2']),
      );
    }
  });
});

describe('bytes', () => {
  test('C-UPD-2 wrong-bytes: expected and actual as they are', () => {
    const { offset, address } = siteOf(module, 'module_run');
    const finding = findingOf(edited(module, offset, [0x90, 0xcc]), 'wrong-bytes');
    expect([finding.severity, finding.address, finding.section, finding.function]).toEqual([
      'error',
      address,
      '.text',
      'module_run',
    ]);
    expect([...finding.expected]).toEqual([0xe8, 0, 0, 0, 0]);
    expect([...finding.actual]).toEqual([0x90, 0xcc, 0, 0, 0]);
    const error = siteMismatch(finding);
    expect([error.code, error.context.expected, error.context.actual]).toEqual([
      'site-mismatch',
      'e8 00 00 00 00',
      '90 cc 00 00 00',
    ]);
  });

  test('F-2 wrong-bytes: a call whose relocation is gone, and a nop that has one', () => {
    for (const [name, offset, bytes] of [
      ['module_run', 0, null],
      ['module_stop', 0, [0x0f, 0x1f, 0x44, 0, 0]],
    ] as const) {
      const site = siteOf(module, name);
      let bad = module;
      if (bytes) bad = edited(bad, site.offset + offset, bytes);
      else {
        const { image } = openBytes(module);
        const rows = image.relocationsOf(image.section('.text')!)[0]!;
        const row = rows.offset.indexOf(site.address + 1n);
        bad = edited(bad, rows.fileOffset(row) + 8, new Uint8Array(8));
      }
      expect(findingOf(bad, 'wrong-bytes').function).toBe(name);
    }
  });

  test.each([
    ['ppc32/module-mcount-recorded.ko', [0, 0, 0, 0], '7c 08 02 a6 90 01 00 04 48 00 00 01'],
    ['ppc64-elfv1/module-mcount-recorded.ko', [0, 0, 0, 0], '48 00 00 01'],
    ['arm64/module-mcount-recorded.ko', [0, 0, 0, 0], '00 00 00 94'],
  ] as const)('C-UPD-2 wrong-bytes: %s', (name, bytes, expected) => {
    const original = readSample(name);
    const finding = findingOf(edited(original, siteOf(original, 'module_run').offset, bytes), 'wrong-bytes');
    expect([...finding.expected].map((byte) => byte.toString(16).padStart(2, '0')).join(' ')).toBe(expected);
    // Neighbours that the shape owns stand in front.
    expect([...finding.actual].slice(-4)).toEqual(bytes);
    expect(finding.actual.length).toBe(finding.expected.length);
  });

  test('C-UPD-2 toc-restore-missing: b .+8 with nothing to skip', () => {
    const original = readSample('ppc64-elfv1/core-mcount');
    const { offset } = siteOf(original, 'leaf');
    const finding = findingOf(edited(original, offset, [0x48, 0, 0, 8]), 'toc-restore-missing');
    expect([...finding.expected]).toEqual([0x48, 0, 0, 8, 0xe8, 0x41, 0, 0x28]);
    expect([...finding.actual].slice(0, 4)).toEqual([0x48, 0, 0, 8]);
    expect(finding.severity).toBe('error');
  });
});

describe('targets', () => {
  /** A call at a site of the linked sample to `target`. */
  function calling(bytes: Uint8Array, name: string, target: bigint): Uint8Array {
    const { offset, address } = siteOf(bytes, name);
    const displacement = new Uint8Array(new Int32Array([Number(target - address - 5n)]).buffer);
    return edited(bytes, offset + 1, displacement);
  }
  const placeOf = (name: string): bigint => {
    const { program } = openBytes(linked);
    return program.symbols.value[program.symbols.find(name)]!;
  };

  test('C-TGT-2 wrong-target: a call of an ordinary function', () => {
    const finding = findingOf(calling(linked, 'sum', placeOf('leaf')), 'wrong-target');
    expect([finding.severity, finding.function, finding.message.includes('leaf')]).toEqual(['error', 'sum', true]);
  });

  test('F-2 wrong-target: a relocation that names an ordinary function', () => {
    const { image, program } = openBytes(module);
    const { address } = siteOf(module, 'module_run');
    const rows = image.relocationsOf(image.section('.text')!)[0]!;
    const row = rows.offset.indexOf(address + 1n);
    const other = program.symbols.find('module_leaf');
    const info = words(little64, [(BigInt(other) << 32n) | BigInt(rows.type[row]!)]);
    const finding = findingOf(edited(module, rows.fileOffset(row) + 8, info), 'wrong-target');
    expect([finding.function, finding.message.includes('module_leaf')]).toEqual(['module_run', true]);
    // With the name given it is a profiling entry.
    const named = openBytes(edited(module, rows.fileOffset(row) + 8, info), { mcountNames: ['module_leaf'] });
    expect(verify(named.sites).findings).toEqual([]);
  });

  test('P-STUB-1 stub-wrong-target: a stub that leads elsewhere; one that leads to the entry is fine', () => {
    // `jmp rel32` over the body of a function that has no site.
    const { image } = openBytes(linked);
    const quiet = placeOf('quiet');
    const stub = (target: bigint): Uint8Array => {
      const jump = new Uint8Array([0xe9, ...new Uint8Array(new Int32Array([Number(target - quiet - 5n)]).buffer)]);
      return calling(edited(linked, image.fileOffsetOf(quiet), jump), 'sum', quiet);
    };
    const finding = findingOf(stub(placeOf('leaf')), 'stub-wrong-target');
    expect([finding.severity, finding.rule, finding.function]).toEqual(['error', 'P-STUB-1', 'sum']);
    expect(badVerdicts(stub(placeOf('__fentry__')))).toEqual({ 'weak-leftover': 1 });
  });
});

describe('the record', () => {
  test('RT-6 state-mismatch: the bytes are a good site and not what was written', () => {
    const { image, sites } = openBytes(linked);
    const patched = applyPlan(image, planNop(sites)).bytes;
    const { offset } = siteOf(linked, 'sum');
    const bad = edited(patched, offset, linked.subarray(offset, offset + 5));
    const again = openBytes(bad);
    const recorded = recordedState(readRecord(again.image)!, bad);
    const wrong = verify(again.sites, { recorded }).findings.filter((finding) => finding.severity === 'error');
    expect(wrong.map((finding) => [finding.verdict, finding.rule, finding.function])).toEqual([
      ['state-mismatch', 'RT-6', 'sum'],
    ]);
    expect([...wrong[0]!.expected]).toEqual([0x0f, 0x1f, 0x44, 0, 0]);
    expect([...wrong[0]!.actual]).toEqual([...linked.subarray(offset, offset + 5)]);
    // Without the record the bytes are fine; with it the site is refused.
    expect(badVerdicts(bad)).toEqual({ 'weak-leftover': 1 });
    expect(planNop(again.sites, { recorded }).refusals.map((refusal) => refusal.code)).toEqual(['state-mismatch']);
  });
});

describe('the first that applies', () => {
  test('M-VAL-1 duplicate before misaligned, misaligned before wrong bytes', () => {
    const bytes = readSample('ppc64-elfv2-le/module-mprofile-recorded.ko');
    const first = slotRow(bytes, 0);
    const second = slotRow(bytes, 1);
    const odd = words(little64, [first.value + 2n]);
    const bad = edited(edited(bytes, first.addend, odd), second.addend, odd);
    expect(badVerdicts(bad)).toEqual({ misaligned: 1, duplicate: 1 });
  });

  test('outside-text before duplicate and misaligned', () => {
    const bytes = readSample('ppc64-elfv2-le/module-mprofile-recorded.ko');
    const first = slotRow(bytes, 0);
    const second = slotRow(bytes, 1);
    const far = words(little64, [0x10_0001n]);
    expect(badVerdicts(edited(edited(bytes, first.addend, far), second.addend, far))).toEqual({ 'outside-text': 2 });
  });

  test('bypassed before wrong bytes', () => {
    const bytes = readSample('ppc64-elfv2-le/module-patchable-2-bypassed.ko');
    const bypassed = verdictsOf(bytes).findings[0]!;
    const { sites } = openBytes(bytes);
    const bad = edited(bytes, sites.fileOffset(bypassed.site), [0, 0, 0, 0]);
    expect(badVerdicts(bad)).toEqual({ 'bypassed-by-local-entry': 9 });
  });

  test('severities', () => {
    expect(Object.entries(verdictSeverity).filter(([, severity]) => severity !== 'error')).toEqual([
      ['ok', 'none'],
      ['zero-entry', 'note'],
      ['weak-leftover', 'note'],
      ['no-symbol', 'warning'],
      ['klp-stubs', 'warning'],
    ]);
  });
});
