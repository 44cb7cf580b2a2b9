/**
 * How much the core and its filters do on an image of 60,000 functions: each name is read once for
 * a word, each site is written once. `npm run bench` has the times.
 */
import { describe, expect, test } from '@jest/globals';
import { FtraceCore } from '../src/ftrace/index.js';
import { profiles } from './support/profiles.js';
import { applyFilter, type FilterNames } from '../src/sites/filter.js';
import { FakeMachine } from './support/fake-ftrace.js';
import { filterTable, kernelNames } from './support/kernel-names.js';

const COUNT = 60_000;
const names = kernelNames(COUNT);

let reads = 0;
const columns = filterTable(names);
const table: FilterNames = {
  ...columns,
  name: (index) => {
    reads++;
    return columns.name(index);
  },
};

describe('work of the core on 60,000 functions', () => {
  test.each<[string, RegExp]>([
    ['sched*', /^sched/],
    ['*lock*', /lock/],
    ['*_1', /_1$/],
    ['sch*lock*9', /^sch.*lock.*9$/],
    ['[st]*_read_*', /^[st].*_read_/],
    ['?cp_*', /^.cp_/],
    ['*', /^/],
    ['* !mutex_* !*lock*', /^(?!mutex_)(?!.*lock)/],
  ])(
    'C-FILT-1: %s reads each name at most once for each word, and selects what the same regular expression does',
    (words, same) => {
      reads = 0;
      const { selection } = applyFilter(words, table);
      expect(reads).toBeLessThanOrEqual(COUNT * words.split(' ').length);
      const wanted = names.map((name) => Number(same.test(name)));
      expect(wanted).toContain(1);
      expect(selection.every((value, index) => value === wanted[index])).toBe(true);
    },
  );

  test('C-FILT-5: *:mod:m1* selects by the module of the record and reads no name', () => {
    reads = 0;
    const { selection } = applyFilter('*:mod:m1*', table);
    expect(reads).toBe(0);
    expect(selection.every((value, index) => value === Number(/^m1/.test(table.module(index) ?? '')))).toBe(true);
  });

  test('C-FILT-1: 2,000 exact names read the table twice, not 2,000 times', () => {
    const list = names.filter((_, index) => index % 30 === 0);
    reads = 0;
    expect(applyFilter(list.join(' '), table).count).toBe(list.length);
    expect(reads).toBeLessThanOrEqual(2 * COUNT);
  });

  test('C-REG-1: operations on 60,000 records: all functions on, one more ops, a filter, off, all out', () => {
    const machine = new FakeMachine(profiles['x86-64']);
    const core = new FtraceCore({
      backend: machine,
      sites: names.map((name, index) => ({ name, ip: table.address(index), siteOffset: 4n, symbolSize: 12n })),
      records: { siteBytes: 5 },
    });
    const writes = (what: string, outcome: ReturnType<FtraceCore['register']>, sites: number): void => {
      if (outcome.kind !== 'done') throw new Error(outcome.reason);
      expect([what, outcome.steps.filter((step) => step.kind === 'site').length]).toEqual([what, sites]);
    };
    const all = core.createOps({ name: 'all', func: 1n });
    const one = core.createOps({ name: 'one', func: 2n });
    const sched = names.filter((name) => name.startsWith('sched')).length;
    writes('register all', core.register(all), COUNT);
    writes('filter of one', core.setFilter(one, 'filter', names[7]!), 0);
    writes('register one', core.register(one), 1);
    writes('unregister one', core.unregister(one), 1);
    writes('filter of all', core.setFilter(all, 'filter', 'sched*'), COUNT - sched);
    writes('off', core.setEnabled(false), sched);
    writes('on', core.setEnabled(true), sched);
    writes('unregister all', core.unregister(all), sched);
  });
});
