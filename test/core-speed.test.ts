/** How long the core and its filters take on an image of 60,000 functions. The figures are printed; the limits are the requirements. */
import { describe, expect, test } from '@jest/globals';
import { FtraceCore, profiles } from '../src/ftrace/core/index.js';
import { applyFilter, type FilterNames } from '../src/ftrace/filter.js';
import { FakeMachine } from './support/fake-ftrace.js';

const COUNT = 60_000;
const parts = [
  'sched',
  'mutex',
  'tcp',
  'vfs',
  'ext4',
  'net',
  'do',
  'sys',
  'lock',
  'read',
  'write',
  'page',
  'alloc',
  'timer',
];

/** Names of two to four parts and a number, the same in every run. */
const names = Array.from({ length: COUNT }, (_, index) => {
  let state = (index * 2_654_435_761) >>> 0;
  const words = Array.from({ length: 2 + (index % 3) }, () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return parts[(state >>> 16) % parts.length]!;
  });
  return `${words.join('_')}_${index}`;
});

const table: FilterNames = {
  count: COUNT,
  name: (index) => names[index]!,
  address: (index) => 0x1000n + 16n * BigInt(index),
  module: (index) => (index % 10 === 0 ? `m${index % 50}` : null),
  disabled: () => false,
  siteOffset: () => 4n,
  maxSiteOffset: 16n,
};

/** Milliseconds of the fastest of some runs: what the work takes when nothing else runs. */
function fastest(work: () => void, runs = 5): number {
  let best = Infinity;
  for (let run = 0; run < runs; run++) {
    const start = performance.now();
    work();
    best = Math.min(best, performance.now() - start);
  }
  return best;
}

describe('speed of the core', () => {
  test('C-FILT-1: every kind of pattern on 60,000 names within 30 ms', () => {
    const figures: string[] = [];
    const filters = [
      'sched*',
      '*lock*',
      '*_1',
      'sch*lock*9',
      '[st]*_read_*',
      '?cp_*',
      '*',
      '* !mutex_* !*lock*',
      '*:mod:m1*',
    ];
    for (const words of filters) {
      const spent = fastest(() => void applyFilter(words, table));
      figures.push(`${words} ${spent.toFixed(1)} ms`);
      expect([words, spent < 30]).toEqual([words, true]);
    }
    const list = names.filter((_, index) => index % 30 === 0).join(' ');
    const spent = fastest(() => void applyFilter(list, table));
    figures.push(`2,000 exact names ${spent.toFixed(1)} ms`);
    expect(spent).toBeLessThan(60);
    process.stdout.write(`core-speed: filters: ${figures.join(', ')}\n`);
  });

  test('A6.4: operations on 60,000 records: all functions on, one more ops, a filter, off, all out', () => {
    const machine = new FakeMachine(profiles['x86-64']);
    const start = performance.now();
    const core = new FtraceCore({
      backend: machine,
      sites: names.map((name, index) => ({ name, ip: table.address(index), siteOffset: 4n, symbolSize: 12n })),
      records: { siteBytes: 5 },
    });
    const figures = [`start ${(performance.now() - start).toFixed(0)} ms`];
    const timed = (what: string, work: () => ReturnType<FtraceCore['register']>, sites: number): void => {
      const begin = performance.now();
      const outcome = work();
      const spent = performance.now() - begin;
      if (outcome.kind !== 'done') throw new Error(outcome.reason);
      const written = outcome.steps.filter((step) => step.kind === 'site').length;
      expect([what, written]).toEqual([what, sites]);
      figures.push(`${what} ${spent.toFixed(0)} ms`);
      expect(spent).toBeLessThan(5_000);
    };
    const all = core.createOps({ name: 'all', func: 1n });
    const one = core.createOps({ name: 'one', func: 2n });
    timed('register all', () => core.register(all), COUNT);
    timed('filter of one', () => core.setFilter(one, 'filter', names[7]!), 0);
    timed('register one', () => core.register(one), 1);
    timed('unregister one', () => core.unregister(one), 1);
    timed(
      'filter of all',
      () => core.setFilter(all, 'filter', 'sched*'),
      names.filter((name) => !name.startsWith('sched')).length,
    );
    const sched = names.filter((name) => name.startsWith('sched')).length;
    timed('off', () => core.setEnabled(false), sched);
    timed('on', () => core.setEnabled(true), sched);
    timed('unregister all', () => core.unregister(all), sched);
    process.stdout.write(`core-speed: ${COUNT} records: ${figures.join(', ')}\n`);
  });
});
