/**
 * `patch --enable` on linked programs of RISC-V, beside what `patch-enable` shows on all machines:
 * what the sites of each generation become.
 */
import { spawnSync } from './support/spawn.js';
import { chmodSync, readFileSync, writeFileSync } from 'node:fs';
import { describe, expect, test } from '@jest/globals';
import type { WritableState } from '../src/machine/sites.js';
import { readElf } from '../src/elf/read.js';
import { applyPlan } from '../src/patch/apply.js';
import { revert } from '../src/patch/revert.js';
import { withRuntime } from '../src/tracing/inject.js';
import { checkAcceptance } from '../src/patch/plan.js';
import { planSites } from '../src/patch/plan-sites.js';
import { planSession } from '../src/tracing/session-plan.js';
import { planTracing } from '../src/tracing/tracing.js';
import { runWithBoth, traceDifferences } from './support/compare-traces.js';
import { scratch } from './support/c-programs.js';
import { openBytes, readSample } from './support/pipeline.js';
import { run } from './support/riscv-runtime.js';
import { describeWith } from './support/tools.js';

/** One program of each generation. */
const generations = [
  ['g0', 'riscv64/program-mcount'],
  ['g1', 'riscv64/program-patchable-8'],
  ['g2', 'riscv64/program-patchable-4'],
  ['g2-plain', 'riscv64/program-patchable-4'],
  ['g2-merged', 'riscv64/program-patchable-4'],
  ['g3', 'riscv64/program-rv64g-patchable-2'],
  ['g3c', 'riscv64/program-patchable-8-4-aligned'],
] as const;

test.each(generations)(
  'C-FG-5, C-TGT-2: %s: the graph tracer of a session hears what it hears alone',
  (flavour, name) => {
    const opened = openBytes(readSample(name));
    const image = withRuntime(opened.sites, undefined, undefined, flavour);
    const { sites } = openBytes(image.bytes);
    const alone = planTracing(sites, { tracer: { kind: 'function_graph' }, others: 'untouched' });
    const text = 'version: 1\nsteps:\n  - graph: { name: g }\n';
    const { plan } = planSession(image, sites.program.arch, [{ name: 's', text }]);
    const [first, second] = [alone, plan].map((each) => runWithBoth(applyPlan(image, each, { injected: true }).bytes));
    expect(traceDifferences(second!)).toEqual([]);
    expect(second!.guest.length).toBe(first!.guest.length);
    expect(second!.guest.length).toBeGreaterThan(10);
  },
);

describe('what a site becomes', () => {
  /** Bytes of a sample's first site and what they would be after a write, or why not. */
  function written(name: string, to: WritableState): { bytes: string; refused: string } {
    const { sites } = openBytes(readSample(name));
    const index = Array.from({ length: sites.count }, (_, i) => i).find(
      (i) => sites.state(i) === 'compiled' || sites.state(i) === 'nop',
    )!;
    const reading = sites.reading(index)!;
    const view = sites.viewOf(index);
    const change = reading.shape.write(reading, to, view);
    if ('refused' in change) return { bytes: '', refused: `${change.refused}: ${change.reason}` };
    const bytes = view.bytes(0, reading.ipDelta + 24);
    for (const { delta, before, after } of change.stores) {
      expect(view.bytes(delta, before.length)).toEqual(before);
      bytes.set(after, delta);
    }
    const text = Buffer.from(bytes.subarray(reading.ipDelta)).toString('hex');
    return { bytes: text, refused: '' };
  }
  const near = (name: string): bigint => {
    const { sites } = openBytes(readSample(name));
    const index = Array.from({ length: sites.count }, (_, i) => i).find(
      (i) => sites.state(i) === 'compiled' || sites.state(i) === 'nop',
    )!;
    return sites.ip(index);
  };
  const nop = '13000000';
  const cNops = '0100';

  test('T-RV-21, R-SITE-1: of sixteen bytes of nops G2 takes the first eight, G1 all; the option decides, not the number', () => {
    const name = 'riscv64/program-patchable-8';
    const target = near(name) + 0x1234_5678n;
    const g2 = written(name, { kind: 'call', target });
    expect(g2.bytes.slice(0, 32)).toBe(`97523412e7828267${cNops.repeat(4)}`);
    const g1 = written(name, { kind: 'call', target: target + 4n, form: 'g1' });
    expect(g1.bytes.slice(0, 32)).toBe('233c11fe97503412e7808067833081ff');
    expect(written(name, { kind: 'init' }).bytes.slice(0, 32)).toBe(nop + nop + cNops.repeat(4));
    expect(written(name, { kind: 'init', form: 'g1' }).bytes.slice(0, 32)).toBe(nop.repeat(4));
  });

  test('G1 needs sixteen bytes, G3 a word that is aligned, G3c a word in front of the function', () => {
    const four = 'riscv64/program-patchable-4';
    expect(written(four, { kind: 'call', target: near(four), form: 'g1' }).refused).toMatch(/sixteen bytes of nops/);
    const g = 'riscv64/program-rv64g-patchable-2';
    expect(written(g, { kind: 'call', target: near(g) + 0x1700n, form: 'g3' }).bytes.slice(0, 16)).toBe(
      '97120000e7820270',
    );
    expect(written(g, { kind: 'init', target: near(g) + 0x1900n, form: 'g3' }).bytes.slice(0, 16)).toBe(
      `97220000${nop}`,
    );
    const literal = { kind: 'call', target: near(g), form: 'g3c', literal: 0x1234n } as const;
    expect(written(g, literal).refused).toMatch(/no eight bytes of nops/);
    // Functions of the samples with C are 2-aligned: some site is not 4-aligned.
    const { sites } = openBytes(readSample(four));
    const refusals = planSites(sites, { to: { kind: 'init', form: 'g3', target: near(four) } }).refusals;
    expect(refusals.length).toBeGreaterThan(0);
    expect(new Set(refusals.map(({ reason }) => /not 4-aligned/.test(reason)))).toEqual(new Set([true]));
  });

  test.each([
    ['riscv64/program-patchable-4', undefined, 8],
    ['riscv64/program-patchable-8', 'g1', 16],
    ['riscv64/program-rv64g-patchable-2', undefined, 8],
    ['riscv64/program-rv64g-patchable-2', 'g3', 8],
  ] as const)(
    'C-UPD-5, R-SITE-1: %s as %p: every parcel of the compiler is compared, of %i bytes none may differ',
    (name, form, size) => {
      const bytes = readSample(name);
      const { sites } = openBytes(bytes);
      const index = Array.from({ length: sites.count }, (_, i) => i).find((i) => sites.reading(i) !== null)!;
      const at = sites.fileOffset(index) + sites.reading(index)!.ipDelta;
      const to: WritableState = { kind: 'init', ...(form === undefined ? {} : { form, target: sites.ip(index) }) };
      expect(planSites(sites, { to }).refusals).toEqual([]);
      for (let offset = 0; offset < size; offset += 2) {
        // c.nop becomes c.addi zero,1 (a hint), nop addi zero,zero,…: they do nothing either, and
        // are nobody's nops.
        const broken = bytes.slice();
        broken[at + offset] = broken[at + offset]! ^ 4;
        const again = openBytes(broken);
        const { refusals, steps } = planSites(again.sites, { to });
        expect([offset, refusals.map(({ site, errno }) => [site, errno])]).toEqual([offset, [[index, 'EINVAL']]]);
        expect(steps.some(({ site }) => site === index)).toBe(false);
        const image = openBytes(withRuntime(again.sites, undefined, undefined, form).bytes);
        const plan = planTracing(image.sites, { tracer: { kind: 'function' }, others: 'untouched' });
        expect(plan.refusals.map(({ site }) => site)).toEqual([index]);
        expect(() => checkAcceptance(plan, {})).toThrow(/1 of \d+ sites refused/);
      }
    },
  );

  test('R-MOD-1: what cannot be read is EFAULT, what is not as expected EINVAL, what may not be written EPERM; nothing is planned', () => {
    const bytes = readSample('riscv64/program-patchable-4');
    const opened = openBytes(bytes);
    const index = Array.from({ length: opened.sites.count }, (_, i) => i).find(
      (i) => opened.sites.reading(i) !== null,
    )!;
    const at = opened.sites.fileOffset(index);
    const ip = opened.sites.ip(index);
    const slot = opened.image
      .sectionsNamed('__patchable_function_entries')
      .flatMap(({ offset, size }) => Array.from({ length: size / 8 }, (_, i) => offset + 8 * i))
      .find((place) => new DataView(bytes.buffer, bytes.byteOffset).getBigUint64(place, true) === ip)!;
    const unmapped = bytes.slice();
    new DataView(unmapped.buffer).setBigUint64(slot, 0x7000_0000n, true);
    const wrong = bytes.slice();
    wrong[at] = wrong[at]! ^ 0x40;
    for (const [each, ranges, errno] of [
      [unmapped, [], 'EFAULT'],
      [wrong, [], 'EINVAL'],
      [bytes, [{ start: at + 6, end: at + 7 }], 'EPERM'],
    ] as const) {
      const { sites } = openBytes(each);
      const plan = planSites(sites, { to: { kind: 'init' }, readonlyRanges: ranges });
      expect(plan.refusals.map((refusal) => refusal.errno)).toEqual([errno]);
      expect(plan.steps.some(({ site }) => site === plan.refusals[0]!.site)).toBe(false);
      expect(() => checkAcceptance(plan, {})).toThrow(/1 of \d+ sites refused/);
    }
  });

  test.each(['g1', 'g2', 'g3', 'g3c'])('F-2: a relocatable file: a call needs a relocation: %s', (form) => {
    const refused = written('riscv64/module-patchable-8-4.ko', { kind: 'call', target: 0x1000n, form }).refused;
    expect(refused).toMatch(/relocation|sixteen|2-aligned/);
  });
});

describeWith(['riscv64-linux-gnu-gcc', 'qemu-riscv64'], 'where sites may lie', () => {
  /**
   * Functions whose site begins `before` bytes in front of a page's end, so that a word of it, or
   * the pair, lies on both sides. Behind each site stands a nop of the body's own, as a disabled
   * static branch leaves it: it is no part of the site.
   */
  function program(march: string, befores: readonly number[], nops: number): Uint8Array {
    const compressed = march.includes('c');
    const functions = befores.map(
      (before, i) => `
	.balign 4096
	.space 4096 - ${before}
	.globl f${before}
	.type f${before}, @function
f${before}:
1:	.rept ${nops}
	${compressed ? 'c.nop' : 'nop'}
	.endr
	.option push
	.option norvc
	nop
	.option pop
	addi a0, a0, ${2 ** i}
	ret
	.size f${before}, .-f${before}
	.section __patchable_function_entries, "ao", @progbits, .text
	.balign 8
	.quad 1b
	.text`,
    );
    const path = scratch('placed.S');
    const output = scratch('placed');
    const text = `	.option norelax
	.text
	.globl _start
	.type _start, @function
_start:	li a0, 0
${befores.map((before) => `	call f${before}\n`).join('')}	li a7, 93
	ecall
	.size _start, .-_start
${functions.join('')}
`;
    writeFileSync(path, text);
    run('riscv64-linux-gnu-gcc', [
      `-march=${march}`, '-mabi=lp64d', '-nostdlib', '-static', '-Wl,--build-id=none', path, '-o', output,
    ]); // prettier-ignore
    return new Uint8Array(readFileSync(output));
  }
  const qemu = (bytes: Uint8Array): number | null => {
    const path = scratch('run');
    writeFileSync(path, bytes);
    chmodSync(path, 0o755);
    return spawnSync('qemu-riscv64', [path]).status;
  };

  test.each([
    ['rv64gc', 'g2', [2, 4, 6], 4],
    ['rv64gc', 'g2-plain', [2, 4, 6], 4],
    ['rv64gc', 'g2-merged', [2, 4, 6], 4],
    ['rv64gc', 'g1', [2, 4, 6, 8, 10, 12, 14], 8],
    ['rv64g', 'g2', [4], 2],
    ['rv64g', 'g3', [4], 2],
    ['rv64g', 'g1', [4, 8, 12], 4],
  ] as const)('R-ENC-3: %s, %s: across pages at %p, a nop of the body behind', (march, flavour, befores, nops) => {
    const bytes = program(march, befores, nops);
    const status = 2 ** befores.length - 1;
    expect(qemu(bytes)).toBe(status);
    const opened = openBytes(bytes);
    const image = withRuntime(opened.sites, undefined, undefined, flavour);
    const { sites } = openBytes(image.bytes);
    expect(sites.count).toBe(befores.length);
    const plan = planTracing(sites, { tracer: { kind: 'function' }, others: 'untouched' });
    expect([plan.refusals, plan.changed]).toEqual([[], befores.length]);
    const { bytes: on } = applyPlan(image, plan, { injected: true });
    expect(qemu(on)).toBe(status);
    const both = runWithBoth(on);
    expect(both.stop).toMatchObject({ kind: 'exit', code: status });
    expect([traceDifferences(both), both.guest.length]).toEqual([[], befores.length]);
    // The nop behind the site is the body's: nothing there changed.
    const size = march === 'rv64gc' ? 2 * nops : 4 * nops;
    for (let i = 0; i < sites.count; i++) {
      const end = sites.fileOffset(i) + size;
      expect(Buffer.from(on.subarray(end, end + 4)).toString('hex')).toBe('13000000');
      expect(on.subarray(end, end + 10)).toEqual(bytes.subarray(end, end + 10));
    }
    expect(revert(readElf(on))).toEqual(bytes);
  });

  test('G3 across a page in 2-aligned code: refused, its word could not be exchanged at once', () => {
    const { sites } = openBytes(program('rv64gc', [2, 6], 4));
    const plan = planSites(sites, { to: { kind: 'init', form: 'g3', target: sites.ip(0) } });
    expect(plan.refusals.map(({ errno, reason }) => [errno, /not 4-aligned/.test(reason)])).toEqual([
      ['EINVAL', true],
      ['EINVAL', true],
    ]);
  });
});
