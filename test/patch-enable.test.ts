/**
 * `patch --enable` on linked programs: the runtime is laid in, the program does what it did, its
 * own trace is what the machine sees, and revert gives the program back byte for byte. And what
 * cannot be enabled, with the reason.
 */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from '@jest/globals';
import type { ConventionName } from '../src/machine/conventions.js';
import { readElf } from '../src/elf/read.js';
import { ElftraceError } from '../src/errors.js';
import { applyPlan } from '../src/patch/apply.js';
import { revert } from '../src/patch/revert.js';
import { withRuntime } from '../src/tracing/inject.js';
import { planTracing } from '../src/tracing/tracing.js';
import { warmElftrace as elftrace } from './support/cli.js';
import { runWithBoth, traceDifferences } from './support/compare-traces.js';
import { loadedCases, loadSamples, runImage } from './support/loaded.js';
import { covering, isLong } from './support/long.js';
import { builtSamples, differences, openBytes, readSample, sampleNames } from './support/pipeline.js';

const folder = mkdtempSync(join(tmpdir(), 'elftrace-enable-'));
afterAll(() => {
  rmSync(folder, { recursive: true });
});

/** Conventions whose entries serve a program's sites; undefined: the one that its sites tell. */
function conventionsFor(name: string): readonly (ConventionName | undefined)[] {
  if (name.startsWith('arm64')) {
    if (name.includes('mcount')) return ['pg'];
    return /4-2|mixed/.test(name) ? ['callops', 'regs', 'args'] : ['regs', 'args'];
  }
  if (!name.startsWith('riscv64')) return [undefined];
  // Generations that the areas of a sample have room for, and alignment.
  if (/mcount/.test(name)) return ['g0'];
  if (/aligned$/.test(name)) return ['g2', 'g2-plain', 'g2-merged', 'g3', 'g3c'];
  const both = ['g2', 'g2-plain', 'g2-merged'] as const;
  return /patchable-8$/.test(name) ? [...both, 'g1'] : /rv64g/.test(name) ? [...both, 'g3'] : both;
}

/**
 * Programs whose sites an entry serves; clang's late calls of 32 bits and GCC 12's nops in front of
 * the TOC set-up have none.
 */
const programs = sampleNames().filter(
  (name) =>
    (/^ppc[^/]*\/program-/.test(name) && !/ppc32\/program-clang|bypassed/.test(name)) ||
    /^riscv64\/(?:program-|core-patchable)/.test(name) ||
    /^arm64\/(?:program-|core-patchable-4-2$)/.test(name),
);

/** What a program prints, but for the last line: its own count of calls of the profiling entry. */
const lines = (output: string): string[] => output.split('\n').filter((line) => !line.startsWith('trace='));

test('programs of every machine and kind of site are here', () => {
  const count = (target: RegExp): number => programs.filter((name) => target.test(name)).length;
  expect(new Set(programs.map((name) => name.split('/')[0])).size).toBe(6);
  expect(count(/^ppc/)).toBeGreaterThanOrEqual(10);
  expect(count(/^riscv/)).toBeGreaterThanOrEqual(10);
  expect(count(/^arm64/)).toBe(10);
  const riscv = programs.filter((name) => name.startsWith('riscv')).flatMap(conventionsFor);
  expect(new Set(riscv)).toEqual(new Set(['g0', 'g1', 'g2', 'g2-plain', 'g2-merged', 'g3', 'g3c']));
});

const targetOf = (name: string): string => name.slice(0, name.indexOf('/'));
const cases = programs.flatMap((name) =>
  conventionsFor(name).flatMap((convention) =>
    (['function', 'function_graph'] as const).map((kind) => ({ name, kind, convention })),
  ),
);
/** Each tracer through each convention; each program, in CI. */
const taken = covering(
  cases,
  ({ name, kind, convention }) => [targetOf(name), convention, kind].join(' '),
  ({ name }) => (isLong ? name : ''),
);

describe.each(programs.filter((each) => taken.some(({ name }) => name === each)))('%s', (name) => {
  const bytes = readSample(name);
  const opened = openBytes(bytes);
  const before = runImage(bytes);
  const own = taken.filter((each) => each.name === name);

  test.each(own.map(({ kind, convention }) => [convention ?? 'its own entries', kind, convention] as const))(
    'P-OOL-8, RT-2, RT-13, R-SITE-1..4, R-ENC-1: %s, %s',
    (_title, kind, convention) => {
      const image = withRuntime(opened.sites, undefined, undefined, convention);
      const { sites } = openBytes(image.bytes);
      const plan = planTracing(sites, { tracer: { kind }, others: 'untouched' });
      // A-SITE-1: the pointer must be one aligned store; other sites are dropped, and say why.
      // Behind a -pg prologue the return address is signed already: such functions are refused.
      const signed = name.endsWith('mcount-bti') && kind === 'function_graph';
      const expected = signed ? ['signed-return'] : name.startsWith('arm64') ? ['misaligned'] : [];
      expect(plan.refusals.filter(({ code }) => !expected.includes(code))).toEqual([]);
      expect(signed && plan.enabled > 0).toBe(false);
      expect(plan.enabled + plan.refusals.length).toBe(plan.selected);
      const { bytes: on } = applyPlan(image, plan, { injected: true });
      const both = runWithBoth(on);
      expect(both.stop.kind).toBe('exit');
      expect(lines(both.output)).toEqual(lines(before.output));
      if (signed) expect(both.guest).toEqual([]);
      else {
        expect(traceDifferences(both)).toEqual([]);
        expect(both.guest.length).toBeGreaterThan(10);
      }
      // The program's own bytes keep their places: headers, sites and nothing else.
      const changed = differences(bytes, on, bytes.length).filter((at) => at >= 64);
      const stores = plan.steps.filter(({ fileOffset }) => fileOffset < bytes.length);
      const inSites = (at: number): boolean =>
        stores.some(({ fileOffset, after }) => at >= fileOffset && at < fileOffset + after.length);
      expect(changed.filter((at) => !inSites(at))).toEqual([]);
      expect(revert(readElf(on))).toEqual(bytes);
      // Off again: nops, no events.
      const again = openBytes(on);
      const off = planTracing(again.sites, { tracer: null, others: 'nop' });
      if (name.startsWith('riscv')) expect(off.refusals).toEqual([]);
      const silent = runWithBoth(applyPlan(again.image, off).bytes);
      expect([lines(silent.output), silent.guest]).toEqual([lines(before.output), []]);
    },
  );
});

describe.each(
  covering(
    programs.filter((name) => name.startsWith('ppc')),
    targetOf,
  ),
)('%s', (name) => {
  const bytes = readSample(name);
  const opened = openBytes(bytes);
  const before = runImage(bytes);

  test('sites that are not selected stay as they are', () => {
    const selection = new Uint8Array(opened.sites.count);
    const first = Array.from(selection.keys()).find((site) => opened.sites.reading(site)?.shape.entries.length);
    selection[first!] = 1;
    const image = withRuntime(opened.sites, selection);
    const { sites } = openBytes(image.bytes);
    const plan = planTracing(sites, { tracer: { kind: 'function' }, others: 'untouched', selection });
    const on = openBytes(applyPlan(image, plan, { injected: true }).bytes);
    const changed = Array.from({ length: sites.count }, (_, i) => i).filter(
      (i) => on.sites.state(i) !== opened.sites.state(i),
    );
    expect(changed).toEqual([first]);
    expect(lines(runImage(on.image.bytes).output)).toEqual(lines(before.output));
  });
});

describe('what has no entry', () => {
  const code = (make: () => unknown): string => {
    try {
      make();
      return '';
    } catch (error) {
      return error instanceof ElftraceError ? error.code : String(error);
    }
  };

  test.each([
    ['ppc64-elfv1/module-mcount-recorded.ko', 'no-runtime'],
    ['ppc32/program-clang-mcount', 'no-runtime'],
  ])('%s: %s', (name, expected) => {
    expect(code(() => withRuntime(openBytes(readSample(name)).sites, undefined))).toBe(expected);
  });

  test('P-SITE-2: nops in front of the TOC set-up are refused, the functions without one are enabled', () => {
    const { sites } = openBytes(readSample('ppc64-elfv2-le/program-patchable-2-bypassed'));
    const image = openBytes(withRuntime(sites, undefined).bytes);
    const plan = planTracing(image.sites, { tracer: { kind: 'function' }, others: 'untouched' });
    expect(plan.enabled).toBe(9);
    expect(plan.refusals.map(({ code, errno }) => `${code} ${errno}`)).toEqual(
      new Array(9).fill('bypassed-by-local-entry EINVAL'),
    );
  });

  test('a lone module is loaded first, and the message says so', () => {
    const output = join(folder, 'out.ko');
    const path = join(builtSamples, 'ppc64-elfv1/far-one.ko');
    const { status, stderr } = elftrace(['patch', path, '--enable', '-o', output]);
    expect(status).toBe(2);
    expect(stderr).toMatch(/elftrace load/);
    expect(() => readFileSync(output)).toThrow();
  });
});

describe('the command line', () => {
  const sample = join(builtSamples, 'ppc64-elfv2-le/program-mprofile');

  test('enable, run with its trace, status, nop, revert', () => {
    const [on, off, back, trace] = ['on', 'off', 'back', 'trace'].map((name) => join(folder, name));
    const enabled = elftrace(['patch', sample, '--enable', '--tracer', 'function_graph', '-o', on!, '--json']);
    expect(enabled.status).toBe(0);
    expect(JSON.parse(enabled.stdout)).toMatchObject({ refusals: [], additions: [{ section: '.note.elftrace' }] });
    const run = elftrace(['run', '--trace', trace!, '--format', 'graph', on!]);
    expect(run.status).toBe(0);
    expect(readFileSync(trace!, 'utf8')).toMatch(/\|\s+\} \/\* /);
    expect(elftrace(['status', on!]).stdout).toMatch(/->ftrace_caller/);
    expect(elftrace(['patch', on!, '--nop', '-o', off!]).status).toBe(0);
    expect(elftrace(['status', off!]).stdout).not.toMatch(/->/);
    expect(elftrace(['revert', off!, '-o', back!]).status).toBe(0);
    expect(new Uint8Array(readFileSync(back!))).toEqual(new Uint8Array(readFileSync(sample)));
  });

  test('one bad site: exit status 1, the place, expected and actual bytes, and no output', () => {
    const { bytes } = loadSamples(loadedCases.find(({ name }) => name === 'ppc64-elfv2-le')!);
    const { sites, image } = openBytes(bytes);
    bytes.set([0x01, 0, 0x60, 0x38], image.fileOffsetOf(sites.ip(3)));
    const broken = join(folder, 'broken');
    writeFileSync(broken, bytes);
    const output = join(folder, 'never');
    const { status, stderr } = elftrace(['patch', broken, '--enable', '-o', output]);
    expect(status).toBe(1);
    expect(stderr).toMatch(
      /\.text\+0x\w+ \(\w+\+0x\w+\): error: wrong-bytes: .*\[EINVAL\]\n {2}expected: .*\n {2}actual: /,
    );
    expect(() => readFileSync(output)).toThrow();
    expect(elftrace(['patch', broken, '--enable', '--partial', '-o', output]).status).toBe(0);
  });

  test('wrong use', () => {
    const output = join(folder, 'x');
    expect(elftrace(['patch', sample, '--enable', '--nop', '-o', output]).status).toBe(2);
    const unknown = elftrace(['patch', sample, '--enable', '--tracer', 'nobody', '-o', output]);
    expect([unknown.status, unknown.stderr]).toEqual([2, expect.stringMatching(/no function nobody/)]);
    expect(elftrace(['patch', sample, '--nop', '--ppc-nop', '2009', '-o', output]).status).toBe(2);
  });
});
