/**
 * T-KP-31, H4, H11, H13 on every machine: probes are armed, optimised, undone and removed while
 * threads call the function, in every order of the stores, waits and frees of the state machines
 * (2009 and today) and the events of threads: every instruction of the window, of copies and detour
 * buffers, the trap and its handler, and CPUs that execute what they fetched before it was changed.
 *
 *   with quiescence      every order holds: registers, results, one hit of the handler for a call
 *                        of an armed probe, text
 *   without              windows of several instructions are torn; those of one are not, but what
 *                        is freed is executed
 */
import { readFileSync } from 'node:fs';
import { afterAll, describe, expect, test } from '@jest/globals';
import { readElf } from '../src/elf/read.js';
import { multinomial, race, type RaceOptions, type RaceStep } from '../src/race/index.js';
import { FLAGS_2009 } from '../src/kprobes/objects.js';
import { Kprobes2009 } from '../src/kprobes/state-2009.js';
import type { DetourPart } from '../src/kprobes/text-machine.js';
import {
  F,
  G,
  hasty,
  type LifeOptions,
  ProbeLife,
  type ProbeMachineCase,
  probeMachines,
} from './support/probe-races.js';
import { scratch } from './support/c-programs.js';
import { few, firstOf, isLong, isWhole, sampled } from './support/long.js';
import { describeWith, run } from './support/tools.js';

let orders = 0n;
let states = 0;
let races = 0;
afterAll(() => {
  process.stdout.write(`probes: ${races} races, ${orders} orders in ${states} states\n`);
});

interface Raced {
  readonly verdict: string;
  /** Rules that were violated, or nothing. */
  readonly rules: readonly string[];
  /** What calls came to that were not violated. */
  readonly outcomes: readonly string[];
}

function raced(
  each: ProbeMachineCase,
  options: LifeOptions,
  script: (life: ProbeLife) => ProbeLife,
  change?: (steps: readonly RaceStep[]) => readonly RaceStep[],
  more: RaceOptions = {},
): Raced {
  const { scene, sequence, options: own } = script(new ProbeLife(each, options)).race(change);
  const { verdict, counts, violations, bounds } = race(scene, sequence, { ...own, shortest: false, ...more });
  expect(bounds).toEqual([]);
  orders += counts.explored;
  states += counts.states;
  races++;
  return {
    verdict,
    rules: violations.map(({ rule }) => rule).sort(),
    outcomes: [...counts.outcomes.keys()].filter((name) => !name.startsWith('violated')).sort(),
  };
}

const BOTH = ['modern', '2009'] as const;
/** The state machines differ above the text: both race on one machine of each kind of window. */
const ONE_OF_EACH = firstOf(probeMachines, ({ inside }) => String(inside === null));
const versionsOf = (each: ProbeMachineCase): readonly (typeof BOTH)[number][] =>
  isWhole || (isLong && ONE_OF_EACH.has(each)) ? BOTH : ['modern'];
const holds = (...outcomes: readonly string[]): Raced => ({ verdict: 'holds', rules: [], outcomes });
/** Stores only: nothing is given back. */
const keeping = (steps: readonly RaceStep[]): readonly RaceStep[] => hasty(steps).filter(({ kind }) => kind !== 'free');

/** Arming, optimising, undoing and removing, from a probe that is there or is not. */
const armed = (life: ProbeLife): ProbeLife => life.arm();
const jumps = (life: ProbeLife): ProbeLife => life.arm().settle();
const wholeLife = (life: ProbeLife): ProbeLife => life.begin().arm().settle().remove().settle();

describe.each(sampled(probeMachines, 2))('$name', (each) => {
  const several = each.inside !== null;
  const versions = versionsOf(each);

  test.each(versions)('T-KP-31, H4, %s: each step of a life, in every order: hits are neither missed nor doubled', (version) => {
    const options = { version } as const;
    expect(raced(each, options, (life) => armed(life.begin()))).toEqual(holds('-', 'probe'));
    // Queued, with time for the jump: every call is seen, at the breakpoint or in the buffer.
    expect(raced(each, options, (life) => armed(life).begin().settle())).toEqual(holds('probe'));
    // K-OPT-5, T-7: undone, and still armed.
    if (version === 'modern') {
      const undone = raced(each, options, (life) =>
        jumps(life).begin().do((core) => { if (!(core instanceof Kprobes2009)) core.forbidOptimization(); }).settle(),
      );
      expect(undone).toEqual(holds('probe'));
    }
    if (several) {
      // T-KP-21: by a probe in the window; both see the call.
      const forced = raced(each, options, (life) => jumps(life).begin().arm(F + each.second, 0).settle());
      expect(forced).toEqual(holds('probe', 'probe+probe'));
    }
    expect(raced(each, options, (life) => jumps(life).begin().remove().settle())).toEqual(holds('-', 'probe'));
    // T-KP-19: dequeued.
    expect(raced(each, options, (life) => armed(life).begin().remove().settle())).toEqual(holds('-', 'probe'));
  });

  // Here the orders are the most: on one machine of each kind of window.
  if (isWhole || ONE_OF_EACH.has(each))
  test.each(versions)('T-KP-31, H10, %s: a whole life, on CPUs that keep what they fetched', (version) => {
    expect(raced(each, { version, stale: true }, wholeLife)).toEqual(holds('-', 'probe'));
  });

  test.each(versions)('T-KP-31, T-KP-28, %s: without quiescence windows of several instructions are torn, and what is freed is executed', (version) => {
    const twin = raced(each, { version }, wholeLife, hasty);
    expect([twin.verdict, twin.rules]).toEqual([
      'violated',
      each.inside === null ? ['freed-memory'] : expect.arrayContaining(['freed-memory', each.inside]),
    ]);
    // The change of text by itself, with nothing given back, needs no quiescence where the window
    // is one instruction.
    const text = raced(each, { version }, wholeLife, keeping);
    if (each.inside === null) expect(text).toEqual(holds('-', 'probe'));
    else expect([text.verdict, text.rules]).toEqual(['violated', expect.arrayContaining([each.inside])]);
  });

  if (isWhole || ONE_OF_EACH.has(each))
  test('H11, T-KP-28: the slot is used again by the probe of another function while a thread is in it', () => {
    const again = (life: ProbeLife): ProbeLife => jumps(life).begin().remove().settle().arm(G).settle();
    for (const version of versions) {
      expect(raced(each, { version }, again)).toEqual(holds('-', 'probe'));
      const twin = raced(each, { version }, again, keeping);
      // It gets to the other function, or calls back with the other's object.
      expect([twin.verdict, twin.rules]).toEqual(['violated', expect.arrayContaining(['wrong-ops'])]);
    }
  });

  test.each(versions)('T-KP-31, %s: two threads', (version) => {
    const two = { version, threads: 2 } as const;
    expect(raced(each, two, (life) => armed(life).begin().settle())).toEqual(holds('probe probe'));
  });
}); // prettier-ignore

/**
 * The gaps of the patch of 2009 (T-KP-35 to 38): the same operations as it was written, and with
 * the gap closed.
 */
describe.each(sampled(probeMachines, 2))('$name: the gaps of 2009, open and closed', (each) => {
  const { DISABLED, OPTIMIZE } = FLAGS_2009;
  const several = each.inside !== null;
  const optimizer = (life: ProbeLife): Kprobes2009<DetourPart> => {
    if (!(life.core instanceof Kprobes2009)) throw new Error('2009');
    return life.core;
  };
  /** The text in the end, and what a thread comes to that calls the function meanwhile. */
  const gap = (version: 'literal' | '2009', script: (life: ProbeLife) => ProbeLife): readonly [text: string, rule: string] => {
    const life = script(new ProbeLife(each, { version }));
    const text = life.bytes() === each.code ? 'original' : 'damaged';
    const { scene, sequence, options } = life.race();
    const { verdict, counts } = race(scene, sequence, { ...options, shortest: false });
    orders += counts.explored;
    states += counts.states;
    races++;
    return [text, verdict];
  };
  const both = (script: (life: ProbeLife) => ProbeLife): unknown => ({
    literal: gap('literal', script),
    closed: gap('2009', script),
  });
  const fine = ['original', 'holds'];

  test('T-KP-35, H13: undo between the jump and its entry leaving the queue', () => {
    const between = (life: ProbeLife): ProbeLife => {
      life.arm().begin().do((core) => { core.tick(10); });
      life.recorder.waited();
      life.do(() => { optimizer(life).quiescence({ stepwise: true }); }).do(() => optimizer(life).step());
      life.remove().do(() => { while (optimizer(life).step()) continue; });
      return life.settle();
    };
    // Over a jump of one instruction the original puts all of it right.
    expect(both(between)).toEqual({ literal: several ? ['damaged', 'violated'] : fine, closed: fine });
  });

  test('T-KP-41: the probe is a member of the object before the object is in the table: every hit finds one of them', () => {
    // From the breakpoint on, to the end of the registration: a call that hits it is seen.
    const registered = (publish: 'member' | 'table'): Raced =>
      raced(each, { version: '2009', publish, beginArmed: true }, (life) => life.arm());
    expect(registered('member')).toEqual(holds('probe'));
    expect(registered('table')).toEqual(holds('-', 'probe'));
  });

  test('T-KP-36: undo of an object that fell back writes over the other probe', () => {
    const hits = (version: 'literal' | '2009'): Raced =>
      raced(each, { version }, (life) => jumps(life).arm(F + each.second, 0).remove().settle().begin().settle());
    // The other probe is registered, and never hit again. In a window of one instruction there is
    // no other.
    expect(hits('literal')).toEqual(holds(several ? '-' : 'probe'));
    expect(hits('2009')).toEqual(holds('probe'));
  });

  test('T-KP-37: a disabled object is given back with its jump', () => {
    const removed = (life: ProbeLife): ProbeLife => life.arm(F, DISABLED | OPTIMIZE).begin().settle().remove().settle();
    expect(both(removed)).toEqual({ literal: ['damaged', 'violated'], closed: fine });
  });

  test.each(['disable', 'all'] as const)('T-KP-38: %s puts the original over the jump', (how) => {
    const off = (life: ProbeLife): ProbeLife =>
      jumps(life).begin().do((core) => (how === 'all' ? core.disarmAll() : core.disable(life.probe()))).settle();
    expect(both(off)).toEqual({ literal: several ? ['damaged', 'violated'] : fine, closed: fine });
  });
}); // prettier-ignore

/** Everything that can be done to a probe, at every moment of the optimizer's work. */
describe('T-KP-12, T-KP-35, H13: user and optimizer in every order', () => {
  const wanted = probeMachines.filter(({ name }) => ['x86-64', 'riscv64, parcels under a pair', 'arm64', 'ppc32'].includes(name));
  const STEPS = 6;

  test.each(few(wanted))('$name', (each) => {
    const users: Readonly<Record<string, (life: ProbeLife) => unknown>> = {
      unregister: (life) => life.remove(),
      disable: (life) => life.do((core) => core.disable(life.probe())),
      disarmAll: (life) => life.do((core) => core.disarmAll()),
    };
    for (const [name, use] of Object.entries(users)) {
      for (let moment = 0; moment <= STEPS; moment++) {
        const life = new ProbeLife(each, { version: '2009' }).arm().begin();
        const { core } = life;
        if (!(core instanceof Kprobes2009)) throw new Error('2009');
        const optimizer: readonly (() => unknown)[] = [
          () => life.do(() => { core.tick(10); }),
          () => { life.recorder.waited(); },
          () => life.do(() => { core.quiescence({ stepwise: true }); }),
          ...Array.from({ length: STEPS - 3 }, () => () => life.do(() => core.step())),
        ];
        optimizer.forEach((step, i) => {
          if (i === moment) use(life);
          step();
        });
        if (moment === STEPS) use(life);
        life.do(() => { while (core.step()) continue; }).settle();
        expect([name, moment, life.bytes()]).toEqual([name, moment, each.code]);
        if (name === 'unregister') expect(life.pool.count).toBe(0);
        const { scene, sequence, options } = life.race();
        const { verdict, counts } = race(scene, sequence, { ...options, shortest: false });
        expect([name, moment, verdict]).toEqual([name, moment, 'holds']);
        orders += counts.explored;
        states += counts.states;
        races++;
      }
    }
  });
}); // prettier-ignore

test('T-KP-31: of the full set, without reduction: explored and impossible orders are all there are', () => {
  for (const name of few(['riscv64, parcels under jal', 'x86-64', 'riscv64, words under a pair'])) {
    const each = probeMachines.find((other) => other.name === name)!;
    for (const change of [undefined, hasty]) {
      const { scene, sequence, options } = new ProbeLife(each, { version: '2009' }).begin().arm().settle().race(change);
      const reduced = race(scene, sequence, { ...options, shortest: false });
      const full = race(scene, sequence, { ...options, shortest: false, reduction: 'none' });
      expect(full.counts.total).toBe(multinomial(full.counts.slots.map(({ events }) => events)));
      expect(full.counts.explored + full.counts.impossible!).toBe(full.counts.total);
      expect(full.verdict).toBe(change === undefined ? 'holds' : 'violated');
      expect([...full.counts.outcomes.keys()].sort()).toEqual([...reduced.counts.outcomes.keys()].sort());
    }
  }
});

const assemblers: Readonly<Record<string, readonly [prefix: string, flags: readonly string[]]>> = {
  'x86-64': ['x86_64-linux-gnu', []],
  ppc32: ['powerpc-linux-gnu', []],
  'ppc64-elfv1': ['powerpc64-linux-gnu', []],
  'ppc64-elfv2-be': ['powerpc64-linux-gnu', []],
  'ppc64-elfv2-le': ['powerpc64le-linux-gnu', []],
  riscv64: ['riscv64-linux-gnu', ['-march=rv64gc', '-mno-relax']],
  arm64: ['aarch64-linux-gnu', []],
};
const prefixes = [...new Set(Object.values(assemblers).map(([prefix]) => `${prefix}-as`))];

describeWith(prefixes, 'the programs', () => {
  test.each(sampled(probeMachines, 2))('$name: what the source says', ({ name, target, source, code }) => {
    const [prefix, flags] = assemblers[target]!;
    const object = scratch(`${name}.o`);
    run(`${prefix}-as`, [...flags, '-o', object, '-'], `${source}\n`);
    const image = readElf(new Uint8Array(readFileSync(object)));
    const text = Buffer.from(image.contents(image.section('.text')!)).toString('hex');
    expect(text.slice(0, code.length)).toBe(code);
    expect(text.slice(code.length)).toMatch(/^(0000|90|00000013|1f2003d5|13000000|0100)*$/);
  });
});
