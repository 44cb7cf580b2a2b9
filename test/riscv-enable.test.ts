/**
 * `patch --enable` on linked programs of RISC-V: the runtime of each generation of sites is laid in, the program does what it did, its own trace
 * is what the machine sees, and revert gives the program back byte for byte.
 */
import { describe, expect, test } from '@jest/globals';
import { readElf } from '../src/elf/read.js';
import { applyPlan, revert } from '../src/ftrace/apply.js';
import { withRuntime } from '../src/ftrace/inject.js';
import { planTracing } from '../src/ftrace/tracing.js';
import type { EntryFlavour } from '../src/runtime/index.js';
import { runWithBoth, traceDifferences } from './support/compare-traces.js';
import { runImage } from './support/loaded.js';
import { differences, openBytes, readSample, sampleNames } from './support/pipeline.js';

const programs = sampleNames().filter((name) => /^riscv64\/(program-|core-patchable)/.test(name));

/** What a program prints, but for the last line: its own count of calls of the profiling entry. */
const lines = (output: string): string[] => output.split('\n').filter((line) => !line.startsWith('trace='));

/** Generations that the areas of a sample have room for, and alignment. */
function flavoursOf(name: string): readonly EntryFlavour[] {
  if (/mcount/.test(name)) return ['g0'];
  const sixteen = /patchable-8$/.test(name);
  return sixteen ? ['g2', 'g2-merged', 'g1'] : /rv64g/.test(name) ? ['g2', 'g2-merged', 'g3'] : ['g2', 'g2-merged'];
}

const cases = programs.flatMap((name) => flavoursOf(name).map((flavour) => [name, flavour] as const));

test('programs with every generation of sites are here', () => {
  expect(new Set(cases.map(([, flavour]) => flavour))).toEqual(new Set(['g0', 'g1', 'g2', 'g2-merged', 'g3']));
  expect(programs.length).toBeGreaterThanOrEqual(10);
});

describe.each(cases)('%s as %s', (name, flavour) => {
  const bytes = readSample(name);
  const opened = openBytes(bytes);
  const before = runImage(bytes);

  test.each(['function', 'function_graph'] as const)('RT-2, R-SITE-1..4, R-ENC-1: %s', (kind) => {
    const image = withRuntime(opened.sites, undefined, undefined, flavour);
    const { sites } = openBytes(image.bytes);
    const plan = planTracing(sites, { tracer: { kind }, others: 'untouched' });
    expect([plan.refusals, plan.enabled]).toEqual([[], plan.selected]);
    const { bytes: on } = applyPlan(image, plan, { injected: true });
    const both = runWithBoth(on);
    expect(both.stop.kind).toBe('exit');
    expect(lines(both.output)).toEqual(lines(before.output));
    expect(traceDifferences(both)).toEqual([]);
    expect(both.guest.length).toBeGreaterThan(10);
    // The program's own bytes keep their places: headers, sites and nothing else.
    const changed = differences(bytes, on, bytes.length).filter((at) => at >= 64);
    const stores = plan.steps.filter(({ fileOffset }) => fileOffset < bytes.length);
    const inSites = (at: number): boolean =>
      stores.some(({ fileOffset, after }) => at >= fileOffset && at < fileOffset + after.length);
    expect(changed.filter((at) => !inSites(at))).toEqual([]);
    expect(revert(readElf(on))).toEqual(bytes);
    // Off again: nops of the generation, no events.
    const again = openBytes(on);
    const off = planTracing(again.sites, { tracer: null, others: 'nop' });
    expect(off.refusals).toEqual([]);
    const silent = runWithBoth(applyPlan(again.image, off).bytes);
    expect([lines(silent.output), silent.guest]).toEqual([lines(before.output), []]);
  });
});
