/**
 * Probes of real images against threads of the program: `elftrace race --probe`. The sequence is
 * what a session's probes store, the buffer calls the program's own callback. One image of every
 * target; where a jump is several instructions, where it is one.
 */
import { afterAll, describe, expect, test } from '@jest/globals';
import { ElftraceError } from '../src/errors.js';
import { parseProbeStates, probeRace, type ProbeRaceRequest, race, type RaceOptions } from '../src/race/index.js';
import { covering, longTest, sampled } from './support/long.js';
import { readSample } from './support/pipeline.js';

let orders = 0n;
let states = 0;
afterAll(() => {
  process.stdout.write(`probes of images: ${orders} orders in ${states} states\n`);
});

type Request = Partial<Omit<ProbeRaceRequest, 'from' | 'to'>> & { readonly from?: string; readonly to?: string };

function raced(image: string, probe: string, { from = 'none', to = 'jump', ...more }: Request = {}, options: RaceOptions = {}) {
  const each = probeRace({
    image: readSample(image), probe, from: parseProbeStates(from), to: parseProbeStates(to), staleFetch: false, ...more,
  });
  const { verdict, violations, bounds, counts } = race(each.scene, each.sequence, { ...each.options, shortest: false, ...options });
  orders += counts.explored;
  states += counts.states;
  expect(bounds).toEqual([]);
  const outcomes = [...counts.outcomes.keys()].filter((name) => !name.startsWith('violated')).sort();
  return { verdict, rules: violations.map(({ rule }) => rule).sort(), outcomes, sequence: each.sequence };
} // prettier-ignore

/** An instruction behind the site, and whether a jump there replaces more than it. */
const places: readonly (readonly [image: string, probe: string, several: boolean])[] = [
  ['x86-64/program-fentry', 'leaf+5', true],
  ['ppc32/program-mcount', 'leaf+16', false],
  ['ppc64-elfv1/program-mprofile', 'leaf+12', false],
  ['ppc64-elfv2-le/program-mprofile', 'leaf+12', false],
  ['riscv64/program-patchable-4', 'leaf+12', true],
  ['riscv64/program-rv64g-patchable-2', 'leaf+8', false],
  ['arm64/program-patchable-4-2', 'leaf+12', false],
];

/** One of each instruction set: sequences of steps know no ABI. */
const taken = covering(places, ([image]) => image.replace(/[-/].*/, ''));

describe.each(sampled(taken, 2))('%s %s', (image, probe, several) => {
  test('T-KP-31: it comes, becomes a jump, and goes: in every order', () => {
    const life = raced(image, probe, { to: 'jump,none' });
    expect([life.verdict, life.rules, life.outcomes]).toEqual(['holds', [], ['-', 'probe']]);
    const kinds = life.sequence.patchers[0]!.steps.map(({ kind }) => kind);
    expect(kinds.filter((kind) => kind === 'wait').length).toBeGreaterThanOrEqual(2);
    expect(kinds.lastIndexOf('wait')).toBeLessThan(kinds.indexOf('free'));
  });

  test('H4 H11: nobody waits', () => {
    const twin = raced(image, probe, { to: 'jump,none', variants: ['no-wait'] });
    const rules = several ? ['freed-memory', 'torn-instruction'] : ['freed-memory'];
    expect([twin.verdict, twin.rules]).toEqual(['violated', rules]);
  });

  test('T-KP-33 X-8: a probe that is there sees every call, breakpoint or jump', () => {
    for (const [from, to] of [['probe', 'jump'], ['jump', 'probe']] as const) {
      const change = raced(image, probe, { from, to });
      expect([from, change.verdict, change.outcomes]).toEqual([from, 'holds', ['probe']]);
    }
  });
}); // prettier-ignore

test('H10: code that CPUs keep, with and without making them fetch anew', () => {
  const request = { to: 'jump', staleFetch: true } as const;
  expect(raced('x86-64/program-fentry', 'leaf+5', request).verdict).toBe('holds');
  expect(raced('x86-64/program-fentry', 'leaf+5', { ...request, variants: ['no-sync'] }).verdict).toBe('violated');
});

test('T-KP-2: 2009, on kernels without preemption', () => {
  const request = { version: '2009', preempt: 'none' } as const;
  const life = raced('x86-64/program-fentry', 'leaf+5', { ...request, to: 'jump,none' });
  expect([life.verdict, life.outcomes]).toEqual(['holds', ['-', 'probe']]);
});

longTest('two threads', () => {
  const { verdict, outcomes } = raced('x86-64/program-fentry', 'leaf+5', { from: 'probe', cpus: 2 });
  expect([verdict, outcomes]).toEqual(['holds', ['probe probe']]);
});

test('the hits of a call are counted', () => {
  // A handler that is left out is found: what the handler serves is taken out of the sequence.
  const { scene, sequence, options } = probeRace({
    image: readSample('x86-64/program-fentry'), probe: 'leaf+5', from: ['probe'], to: ['jump'], staleFetch: false,
  });
  const silent = (sequence.serves ?? []).map((entry) => ({ ...entry, mark: null }));
  const result = race(scene, { ...sequence, serves: silent }, options);
  expect(result.failing?.violation).toMatchObject({ rule: 'hits', message: expect.stringMatching(/ran 0 times, and .* 1 times/) });
}); // prettier-ignore

describe('refusals', () => {
  const refused = (probe: string, request: Request = {}): string => {
    try {
      raced('x86-64/program-fentry', probe, request);
    } catch (error) {
      if (error instanceof ElftraceError) return `${error.code}: ${error.message}`;
      throw error;
    }
    return 'raced';
  };

  test('what is no probe of text, no way from state to state, no definition', () => {
    expect(refused('leaf')).toMatch(/^usage: a probe on an ftrace site/);
    expect(refused('r leaf')).toMatch(/^usage: a return probe/);
    expect(refused('leaf+6')).toMatch(/^probe-refused: .*EILSEQ/);
    expect(refused('nobody')).toMatch(/^probe-refused: .*ENOENT/);
    expect(refused('leaf+5', { from: 'jump', to: 'jump' })).toMatch(/^usage: the probe is in the state jump/);
    expect(refused('leaf+5', { to: 'there' })).toMatch(/^usage: 'there' is no state/);
    // ret: a jump would not fit.
    expect(refused('leaf+10')).toMatch(/^probe-refused: /);
  });

  test('T-10 T-7: of 2009', () => {
    expect(refused('leaf+5', { version: '2009' })).toMatch(/^probe-refused: .*T-10/);
    const undo = { version: '2009', preempt: 'none', from: 'jump', to: 'probe' } as const;
    expect(refused('leaf+5', undo)).toMatch(/^plan-refused: in 2009/);
  });
});
