/**
 * The hazards H1 to H14 of docs/spec: every form of each is raced in all
 * orders. A form that is unsafe shows its symptom, one that is safe holds in every order; numbers
 * of orders are those of their formulas.
 *
 *   total      (n1 + n2 + ...)! / (n1! n2! ...) for n1, n2, … events of each actor
 *   explored + impossible = total, exactly: those in which somebody would have to go on who waits
 *   violated   where nobody waits, by the places at which the symptom shows
 */
import { afterAll, describe, expect, test } from '@jest/globals';
import { readFileSync } from 'node:fs';
import { hazards } from '../src/race/hazards.js';
import { type FailingSchedule, race, type RaceCounts } from '../src/race/index.js';
import * as programs from '../src/race/programs.js';
import { scratch } from './support/c-programs.js';
import { describeWith, run } from './support/tools.js';

const factorial = (n: number): bigint => (n < 2 ? 1n : BigInt(n) * factorial(n - 1));
/** (n1 + n2 + ...)! / (n1! n2! ...) */
const merges = (parts: readonly number[]): bigint =>
  factorial(parts.reduce((sum, part) => sum + part, 0)) /
  parts.reduce((product, part) => product * factorial(part), 1n);
const choose = (n: number, k: number): bigint => merges([n - k, k]);

interface Expected {
  /** Events of threads, patchers and fetching CPUs. */
  readonly slots: readonly number[];
  /** null: the form is safe. */
  readonly symptom: readonly [rule: string, message: RegExp] | null;
  /** Orders in which it shows. */
  readonly violated?: bigint;
  /** Events of the shortest schedule. */
  readonly shortest?: number;
}

/**
 * Lengths of threads are the instructions of the longest way, counted by hand in the listings of
 * programs.ts; lengths of patchers are their steps.
 */
const expected: Readonly<Record<string, Expected>> = {
  // The thread's first instruction is the site. Torn with one or two bytes stored: the other three
  // are alike or 0 already.
  'H1 bytes': {
    slots: [10, 5],
    symptom: ['torn-instruction', /^e8 1f 44 00 00 at 0x10000/],
    violated: choose(9 + 4, 4) + choose(9 + 3, 3),
    shortest: 2,
  },
  // publish, int3, sync, tail, sync, head, sync, retract, wait; the thread has one event more in
  // the handler.
  'H1 int3': { slots: [11, 9], symptom: null },
  // Between the two words when both are stored.
  'H2 pair': { slots: [6, 2], symptom: ['wrong-function', /0xbad0040 is reached/], violated: 1n, shortest: 5 },
  'H2 stopped': { slots: [6, 1], symptom: ['wrong-function', /0xbad0040 is reached/], violated: 1n, shortest: 4 },
  'H2 stopped-outside': { slots: [6, 1], symptom: null },
  'H2 fixed-auipc': { slots: [6, 2], symptom: null },
  // The call is the thread's 4th instruction, the word behind it its 18th: both stores while it is
  // between (14 places), or the first store before the call and the second behind the place of the
  // word (4 by 19).
  'H3 2008': { slots: [23, 2], symptom: ['stopped', /^read of 0x0/], violated: choose(15, 2) + 4n * 19n, shortest: 7 },
  'H3 2008-stopped': {
    slots: [23, 1],
    symptom: ['corrupted-register', /^r2 is 0x11040 after the call, not 0x11000/],
    violated: 14n,
    shortest: 24,
  },
  'H3 b8': { slots: [23, 1], symptom: null },
  'H4 no-wait': { slots: [14, 5], symptom: ['torn-instruction', /^7b 00 at 0x10001/], shortest: 7 },
  'H4 wait': { slots: [14, 6], symptom: null },
  'H4 wait-for-nothing': { slots: [14, 6], symptom: ['torn-instruction', /^7b 00 at 0x10001/], shortest: 8 },
  'H5 no-wait': { slots: [10, 10], symptom: ['freed-memory', /of the trampoline, which is freed/], shortest: 12 },
  'H5 wait': { slots: [10, 11], symptom: null },
  'H6 callee-first': { slots: [11, 10], symptom: ['wrong-ops', /the callback of ops_b got other ops/], shortest: 13 },
  'H6 interrupt-only': { slots: [11, 20], symptom: ['wrong-ops', /the callback of ops_b got other ops/], shortest: 24 },
  'H6 list-between': { slots: [11, 20], symptom: null },
  // The call is stored before the thread's 2nd instruction, the word after its 4th read it.
  'H7 call-first': { slots: [12, 2], symptom: ['stopped', /^read of 0xd503201fd503201f/], violated: 2n * 9n, shortest: 6 },
  'H7 halves': { slots: [12, 2], symptom: ['wrong-function', /0x0 is reached/], violated: 4n * 9n, shortest: 8 },
  'H7 word-first': { slots: [12, 2], symptom: null },
  'H7 off': { slots: [12, 2], symptom: null },
  'H8 handler-freed': { slots: [12, 10], symptom: ['freed-memory', /of the return handler, which is freed/], shortest: 19 },
  'H8 handler-stays': { slots: [12, 9], symptom: null },
  'H9 nop-between': { slots: [6, 18], symptom: ['missed-call', /^0 direct callers/], shortest: 6 },
  'H9 by-entry': { slots: [7, 19], symptom: null },
  'H10 no-sync': { slots: [11, 6, 4], symptom: ['stopped', /a breakpoint at 0x10000 that nobody serves/], shortest: 7 },
  'H10 sync': { slots: [11, 9, 7], symptom: null },
  'H11 no-wait': { slots: [13, 7], symptom: ['freed-memory', /of the detour slot, which is freed/], shortest: 9 },
  'H11 wait': { slots: [13, 8], symptom: null },
  // One place: between the load of the pointer and the load through it, all three steps at once.
  'H12 serialised': { slots: [11, 3], symptom: ['freed-memory', /accesses 0x11040 of the ops/], violated: 1n, shortest: 7 },
  'H12 wait': { slots: [11, 3], symptom: null },
  'H13 no-lock': { slots: [13, 2, 4], symptom: ['torn-instruction', /^7b 00 at 0x10001/], shortest: 7 },
  'H13 lock': { slots: [13, 4, 6], symptom: null },
  'H14 call': { slots: [7, 9], symptom: ['corrupted-register', /^rax is 0x1000a after the call, not 0x29/], shortest: 9 },
  'H14 jump': { slots: [11, 9], symptom: null },
}; // prettier-ignore

let orders = 0n;
let events = 0;
afterAll(() => {
  process.stdout.write(`${orders} orders in ${events} events\n`);
});

test('H1 to H14: all are there, each with a form that goes wrong and one that does not', () => {
  expect(hazards.map(({ id }) => id)).toEqual(Array.from({ length: 14 }, (_, i) => `H${i + 1}`));
  for (const { id, forms } of hazards) expect([id, forms.map(({ safe }) => safe)]).toEqual([id, expect.arrayContaining([true, false])]);
  expect(hazards.flatMap(({ id, forms }) => forms.map(({ name }) => `${id} ${name}`)).sort()).toEqual(Object.keys(expected).sort());
}); // prettier-ignore

describe.each(hazards)('$id: $title', ({ id, forms }) => {
  const note = (counts: RaceCounts): void => {
    orders += counts.explored;
    events += counts.events;
  };

  test.each(forms)(`${id}: $name (safe: $safe): $title`, ({ name, safe, build }) => {
    const want = expected[`${id} ${name}`]!;
    expect(want.symptom === null).toBe(safe);
    const one = build();
    const full = race(one.scene, one.sequence, { ...one.options, reduction: 'none' });
    note(full.counts);
    expect([full.verdict, full.bounds]).toEqual([safe ? 'holds' : 'violated', []]);
    expect(full.counts.slots.map(({ events: each }) => each)).toEqual(want.slots);
    expect(full.counts.total).toBe(merges(want.slots));
    expect(full.counts.explored + full.counts.impossible!).toBe(full.counts.total);
    // Sequences in which nobody waits have every order.
    const waits = one.sequence.patchers.some(({ steps }) =>
      steps.some(({ kind, stopped }) => kind === 'wait' || kind === 'lock' || kind === 'synchronise' || stopped),
    );
    if (!waits) expect(full.counts.explored).toBe(full.counts.total);
    if (want.violated !== undefined) expect(full.counts.violated).toBe(want.violated);
    if (safe) expect([full.counts.violated, full.failing, full.violations]).toEqual([0n, null, []]);
    else checkSymptom(full.failing!, want);

    // The reduced set is another way to the same verdict, and to the same shortest schedule.
    const two = build();
    const reduced = race(two.scene, two.sequence, two.options);
    note(reduced.counts);
    expect([reduced.verdict, reduced.bounds, reduced.failing]).toEqual([full.verdict, [], full.failing]);
    expect([...reduced.counts.outcomes.keys()].sort()).toEqual([...full.counts.outcomes.keys()].sort());
    expect(reduced.counts.explored <= full.counts.explored).toBe(true);
    expect(reduced.counts.events).toBeLessThan(full.counts.events + 150);
  });

  test(`${id}: two threads`, () => {
    for (const { name, safe, build } of forms) {
      const { scene, sequence, options } = build(2);
      const result = race(scene, sequence, { ...options, ...(safe ? {} : { first: true, shortest: false }) });
      note(result.counts);
      expect([name, result.verdict]).toEqual([name, safe ? 'holds' : 'violated']);
    }
  }); // prettier-ignore
});

function checkSymptom(failing: FailingSchedule, { symptom, shortest }: Expected): void {
  expect([failing.violation.rule, failing.violation.message]).toEqual([symptom![0], expect.stringMatching(symptom![1])]);
  expect([failing.shortest, failing.entries.length]).toEqual([true, shortest]);
} // prettier-ignore

describeWith(
  ['x86_64-linux-gnu', 'powerpc64-linux-gnu', 'riscv64-linux-gnu', 'aarch64-linux-gnu'].flatMap((each) => [
    `${each}-as`,
    `${each}-ld`,
    `${each}-objcopy`,
  ]),
  'F-7: programs of the hazards',
  () => {
    const tools: Readonly<Record<string, readonly [prefix: string, flags: readonly string[], linker: readonly string[]]>> = {
      'x86-64': ['x86_64-linux-gnu', [], []],
      'ppc64-elfv1': ['powerpc64-linux-gnu', ['-a64', '-mbig'], ['-m', 'elf64ppc', '--no-toc-optimize']],
      riscv64: ['riscv64-linux-gnu', ['-march=rv64g'], ['--no-relax']],
      arm64: ['aarch64-linux-gnu', [], []],
    }; // prettier-ignore
    const { BASE, ...rest } = programs;
    test.each(Object.entries(rest))('F-7: %s is what its source says', (name, { target, source, code }) => {
      const [prefix, flags, linker] = tools[target]!;
      const [object, linked, flat] = [scratch(`${name}.o`), scratch(`${name}.elf`), scratch(`${name}.bin`)];
      run(`${prefix}-as`, [...flags, '-o', object, '-'], source);
      run(`${prefix}-ld`, [...linker, `-Ttext=0x${BASE.toString(16)}`, '-o', linked, object]);
      run(`${prefix}-objcopy`, ['-O', 'binary', '-j', '.text', linked, flat]);
      const bytes = readFileSync(flat);
      const ours = new Uint8Array(bytes.length);
      for (const [offset, text] of Object.entries(code)) {
        const at = Number(offset);
        for (let i = 0; i < text.length; i += 2) ours[at + i / 2] = parseInt(text.slice(i, i + 2), 16);
      }
      const differing = [...bytes].flatMap((byte, i) => (byte === ours[i] ? [] : [`${i.toString(16)}: ${byte}`]));
      expect(differing).toEqual([]);
    });
  },
);
