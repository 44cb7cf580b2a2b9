import { expect, test, describe } from '@jest/globals';
import { race } from '../src/race/index.js';
import { hasty, ProbeLife, probeMachines } from './support/probe-races.js';

describe.each(probeMachines)('$name', (each) => {
  test.each(['2009', 'modern'] as const)('try %s', (version) => {
    for (const stale of [true]) {
    const life = new ProbeLife(each, { version, stale }).begin().arm().settle().remove().settle();
    const {scene, sequence, options} = life.race();
    const t = Date.now();
    const r = race(scene, sequence, options);
    console.log(each.name, version, stale, r.verdict, r.failing?.violation, r.counts.states,r.counts.outcomes, Date.now()-t);
    const life2 = new ProbeLife(each, { version, stale }).begin().arm().settle().remove().settle();
    const two = life2.race(hasty);
    const r2 = race(two.scene, two.sequence, two.options);
    console.log('hasty', r2.verdict, r2.violations.map(v=>v.rule+' '+v.message), r2.counts.violated, Date.now()-t);
    }
    expect(1).toBe(1);
  });
});
