/**
 * Sites of the bundled samples against what objdump and readelf counted (samples/expected), and
 * where nm puts the functions.
 */
import { join } from 'node:path';
import { describe, expect, test } from '@jest/globals';
import { readExpected } from '../scripts/build-samples.js';
import { verify } from '../src/sites/verdicts.js';
import { builtSamples, openBytes, readSample, sampleFiles, sampleNames } from './support/pipeline.js';
import { outputOf } from './support/spawn.js';
import { describeWith } from './support/tools.js';

const counts = readExpected('sites.txt');

function expectedOf(name: string): Record<'calls' | 'recorded' | 'patchable' | 'range', number> {
  const line = counts.get(name);
  if (line === undefined) throw new Error(`no line for ${name}`);
  const value = (key: string): number => Number(new RegExp(`${key}=(\\d+)`).exec(line)![1]);
  return { calls: value('calls'), recorded: value('recorded'), patchable: value('patchable'), range: value('range') };
}

/** Nops in a number or place that no kernel of the machine takes (S-SITE-5, L-SITE-4). */
const unsupported = /^s390x\/.*-patchable-3|^loongarch64\/.*-patchable-4-2/;

/** Call padding only: no table of ftrace and no call. */
const paddingOnly = /patchable-16-16$/;

describe('site counts of the samples', () => {
  const plain = sampleNames().filter((name) => !/\.(a|gz|xz|zst)$/.test(name));

  test.each(plain)('C-INIT-1 M-TAB-1 %s', (name) => {
    const { calls, recorded, patchable, range } = expectedOf(name);
    const { sites, arch } = openBytes(readSample(name));
    const both = arch.mcount.patchableIsPadding && recorded > 0;
    const tabled = range > 0 ? range : recorded > 0 ? recorded : patchable;
    const wanted = paddingOnly.test(name) ? 0 : tabled > 0 ? tabled : calls;
    expect(sites.totals().total).toBe(wanted);
    if (both && patchable > 0) expect(sites.tables.some((table) => table.role === 'padding')).toBe(true);
    // Every site is as the compiler left it; only bodies of overridden weak functions may be
    // unreadable.
    const { verdicts, findings } = verify(sites);
    for (const finding of findings) {
      const allowed = /bypassed/.test(name) ? ['bypassed-by-local-entry', 'weak-leftover'] : ['weak-leftover'];
      if (/arm64\/program-patchable-4-2/.test(name)) allowed.push('misaligned');
      if (unsupported.test(name)) allowed.push('unsupported-shape');
      expect([finding.function, allowed.includes(finding.verdict)]).toEqual([finding.function, true]);
    }
    // program.c has one weak function that override.c overrides; modules, hand-written sites and
    // direct.c have none.
    const weak =
      /program-patchable(-bti-mixed)?$|\/direct/.test(name) || /\.k?o$/.test(name) || /stripped/.test(name) ? 0 : 1;
    if (wanted > 0) expect(verdicts['weak-leftover'] ?? 0).toBe(weak);
  });

  test('the members of the archive are the two modules', () => {
    const members = sampleFiles().filter(({ name }) => name.includes('('));
    expect(members.map(({ bytes }) => openBytes(bytes).sites.totals())).toEqual([
      { total: 11, byState: { compiled: 11 }, byShape: { 'x86-64.call5': 11 } },
      { total: 11, byState: { nop: 11 }, byShape: { 'x86-64.call5': 11 } },
    ]);
  });

  test('A-SITE-1 a literal that is not 8-aligned is misaligned, whatever its nops look like', () => {
    for (const name of ['arm64/program-patchable-4-2', 'arm64/program-patchable-4-2-bti']) {
      const { sites, image } = openBytes(readSample(name));
      const odd = sites.tables[0]!.value.filter((value) => value % 8n !== 0n);
      const { findings } = verify(sites);
      const misaligned = findings.filter((finding) => finding.verdict === 'misaligned');
      const weak = findings.filter((finding) => finding.verdict === 'weak-leftover');
      expect(image.header.type).toBe(2);
      expect(weak).toHaveLength(1);
      // The leftover may be one of the unaligned: without a symbol nobody knows that it is a
      // literal.
      expect(misaligned.map((finding) => finding.address).sort()).toEqual(
        [...odd].filter((value) => value !== weak[0]!.address).sort(),
      );
      expect(misaligned.length).toBeGreaterThan(0);
      for (const finding of misaligned) expect([finding.severity, finding.rule]).toEqual(['error', 'A-SITE-1']);
    }
  });
});

describe('order and names', () => {
  test('C-REC-1 sites are sorted by place whatever the order of the table', () => {
    for (const { name, bytes } of sampleFiles()) {
      const { sites } = openBytes(bytes);
      for (let i = 1; i < sites.count; i++) {
        const here = sites.range[i]!;
        const before = sites.range[i - 1]!;
        if (here < 0) continue;
        const ordered = before < here || (before === here && sites.anchor[i - 1]! <= sites.anchor[i]!);
        expect([name, i, ordered]).toEqual([name, i, true]);
      }
      // Every slot once.
      const slots = new Set(
        Array.from(
          { length: sites.count },
          (_, i) => `${sites.table(i).name}:${sites.table(i).container}:${sites.slot(i)}`,
        ),
      );
      expect(slots.size).toBe(sites.count);
    }
  });

  test('iterating gives the columns', () => {
    const { sites } = openBytes(readSample('ppc64-elfv2-le/module-mprofile-recorded.ko'));
    const all = [...sites];
    expect(all).toHaveLength(11);
    for (const site of all) {
      expect(site.ip).toBe(sites.ip(site.index));
      expect([site.state, site.shape]).toEqual([sites.state(site.index), sites.shape(site.index)]);
    }
  });

  test('an AbortSignal stops the search', () => {
    const controller = new AbortController();
    controller.abort(new Error('enough'));
    expect(() => openBytes(readSample('x86-64/module-fentry.ko'), { signal: controller.signal })).toThrow('enough');
  });
});

describeWith(['nm'], 'functions of sites by nm', () => {
  const cases: [string, string][] = [
    ['x86-64/program-fentry', 'nm'],
    ['x86-64/module-fentry.ko', 'nm'],
  ];
  test.each(cases)('%s', (name, nm) => {
    const text = outputOf(nm, ['-n', join(builtSamples, name)]).toString();
    const starts = new Map<string, bigint>();
    for (const line of text.split('\n')) {
      const match = /^([0-9a-f]+) [tTwW] (\S+)$/.exec(line);
      if (match) starts.set(match[2]!, BigInt(`0x${match[1]!}`));
    }
    const { sites, program } = openBytes(readSample(name));
    for (const site of sites) {
      if (site.functionSymbol < 0) continue;
      // call __fentry__ is the first instruction (nested functions push first).
      const start = starts.get(program.symbolName(site.functionSymbol));
      expect(start).toBeDefined();
      expect(site.ip - start!).toBeLessThanOrEqual(2n);
    }
  });
});
