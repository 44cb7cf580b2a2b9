/**
 * The explorer itself: its reduced set against the full one on random sequences, both against an
 * enumeration that knows nothing of either and against the emulator's own schedules, bounds, order,
 * interruption, and what users add.
 */
import { afterAll, describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { ElftraceError } from '../src/errors.js';
import { runSchedule } from '../src/emulator/index.js';
import { hazards, type RaceCase } from '../src/race/hazards.js';
import {
  broken,
  type Patcher,
  type Property,
  race,
  type RaceOptions,
  type RaceResult,
  type RaceStep,
  type Scene,
  type Sequence,
  startRace,
  tell,
} from '../src/race/index.js';
import { World } from '../src/race/world.js';
import { smallScene as small } from './support/small-races.js';
import { interleavings, type PatcherStep } from './support/interleavings.js';
import { times } from './support/long.js';

const build = (id: string, form: string, threads?: number): RaceCase =>
  hazards
    .find((each) => each.id === id)!
    .forms.find(({ name }) => name === form)!
    .build(threads);

/** Random sequences; scripts/soak-race.ts asks for more. */
const runs = Number(process.env['ELFTRACE_RACES'] ?? times(60, 60, 16));
const seed = Number(process.env['ELFTRACE_SEED'] ?? 10);

let orders = 0n;
afterAll(() => {
  process.stdout.write(`${orders} orders\n`);
});

/** What came of orders, by name. */
const outcomesOf = ({ counts }: RaceResult): Record<string, number> =>
  Object.fromEntries([...counts.outcomes].map(([name, ways]) => [name, Number(ways)]));

/**
 * Every order one by one, each from the start: no states are compared, nothing is shared between
 * orders, events that nobody notices are events.
 */
function oneByOne({ scene, sequence, options }: RaceCase): Record<string, number> {
  const found: Record<string, number> = {};
  const end = (name: string): void => {
    found[name] = (found[name] ?? 0) + 1;
  };
  const replay = (prefix: readonly number[]): void => {
    const world = new World(scene, sequence, options.properties ?? []);
    const start = world.save();
    try {
      for (const [i, index] of prefix.entries()) {
        const { violation } = world.perform(world.actors[index]!);
        if (violation !== null && i === prefix.length - 1) {
          end(`violated: ${violation.rule}`);
          return;
        }
      }
      const next = world.actors.flatMap((actor, i) => (world.enabled(actor) ? [i] : []));
      if (next.length === 0) {
        const wrong = world.atEnd();
        const marks = world.marks.map((rounds) => rounds.map((each) => (each.length > 0 ? each.join('+') : '-')).join('/'));
        end(wrong ? `violated: ${wrong.rule}` : marks.join(' '));
        return;
      }
      world.load(start);
      world.close();
      for (const i of next) replay([...prefix, i]);
    } finally {
      world.load(start);
      world.close();
    }
  };
  replay([]);
  return found;
} // prettier-ignore

describe('F-8: the numbers of orders', () => {
  test.each([
    ['H2', 'pair'],
    ['H2', 'stopped'],
    ['H2', 'stopped-outside'],
    ['H2', 'fixed-auipc'],
    ['H7', 'halves'],
    ['H12', 'wait'],
  ])('%s %s: as enumerated one by one', (id, form) => {
    const found = oneByOne(build(id, form));
    const { scene, sequence, options } = build(id, form);
    // Orders that end early are one of these each; in the full set they count as often as what is
    // left could be ordered.
    const result = race(scene, sequence, { ...options, reduction: 'none' });
    expect(Object.keys(found).sort()).toEqual(Object.keys(outcomesOf(result)).sort());
    const count = Object.values(found).reduce((sum, each) => sum + each, 0);
    expect(BigInt(count) <= result.counts.explored).toBe(true);
    orders += BigInt(count);
    // Where all orders have the same events the numbers are the same.
    const same = result.counts.violated === 0n && form !== 'fixed-auipc' && form !== 'stopped-outside' && form !== 'wait';
    if (same) expect(found).toEqual(outcomesOf(result));
  }); // prettier-ignore

  test('H7 word-first, off: the outcomes of the schedules that the emulator executes', () => {
    for (const form of ['word-first', 'off']) {
      const { scene, sequence, options } = build('H7', form);
      const result = race(scene, sequence, { ...options, reduction: 'none' });
      const { machine, stop } = scene;
      const patcher = sequence.patchers[0]!.steps.flatMap((step): PatcherStep[] => {
        if (step.kind !== 'store') throw new Error(step.kind);
        const value = step.bytes.reduceRight((sum, byte) => (sum << 8n) | BigInt(byte), 0n);
        return [{ kind: 'store', address: step.address, width: step.bytes.length === 8 ? 8 : 4, value }];
      });
      const [n] = result.counts.slots.map(({ events }) => events);
      const start = machine.snapshot();
      const found: Record<string, number> = {};
      for (const steps of interleavings({ cpu: 0, instructions: n!, patcher, after: 100 })) {
        machine.restore(start);
        machine.switchTo(0);
        const seen: string[] = [];
        const off = [...scene.marks].map(([address, name]) =>
          machine.hook(address, () => {
            seen.push(name);
            return 'continue';
          }),
        );
        runSchedule(machine, steps);
        off.forEach((each) => {
          each();
        });
        expect(machine.register('pc')).toBe(stop);
        const name = seen.length === 0 ? '-' : seen.join('+');
        found[name] = (found[name] ?? 0) + 1;
        orders++;
      }
      machine.restore(start);
      expect(outcomesOf(result)).toEqual(found);
    }
  });
});

/** Steps that make sense on the program of a hazard. */
function stepsOf({ sequence }: RaceCase): readonly RaceStep[] {
  return sequence.patchers.flatMap(({ steps }) => steps);
}

describe('the reduced set', () => {
  const kinds = [
    ['H2', 'pair'],
    ['H2', 'fixed-auipc'],
    ['H3', '2008'],
    ['H6', 'callee-first'],
    ['H7', 'halves'],
    ['H7', 'off'],
    ['H12', 'wait'],
    ['H5', 'wait'],
  ] as const;

  test(
    'finds what the full one finds: random sequences of the steps of all hazards, one and two threads',
    () => {
      let violated = 0;
      const everybody: RaceStep = { kind: 'synchronise', thread: 'all' };
      const outside: RaceStep = { kind: 'wait', until: 'outside' };
      fc.assert(
        fc.property(
          fc.constantFrom(...kinds),
          fc.array(fc.nat(40), { minLength: 1, maxLength: 4 }),
          fc.array(fc.nat(40), { maxLength: 2 }),
          fc.constantFrom(1, 1, 1, 2),
          ([id, form], first, second, threads) => {
            const result = (reduction: NonNullable<RaceOptions['reduction']>): RaceResult => {
              const from = build(id, form, threads);
              // Breakpoints need their order; here it is about any order of stores of any size.
              const pool = [...stepsOf(from), ...stepsOf(from), everybody, outside].filter(
                ({ kind }) => kind === 'store' || kind === 'wait' || kind === 'synchronise' || kind === 'free',
              );
              const patcher = (name: string, chosen: readonly number[]): Patcher => ({
                name,
                steps: chosen.map((each) => pool[each % pool.length]!),
              });
              // Two threads have many orders: fewer steps.
              const patchers =
                threads === 2
                  ? [patcher('one', first.slice(0, 2))]
                  : [patcher('one', first), ...(second.length > 0 ? [patcher('two', second)] : [])];
              return race(from.scene, { name: 'random', patchers }, { ...from.options, reduction, shortest: false });
            };
            const full = result('none');
            const reduced = result('partial-order');
            orders += full.counts.explored;
            if (full.verdict === 'violated') violated++;
            expect(reduced.verdict).toBe(full.verdict);
            expect([...reduced.counts.outcomes.keys()].sort()).toEqual([...full.counts.outcomes.keys()].sort());
            expect(reduced.counts.explored <= full.counts.explored).toBe(true);
            expect(full.counts.explored + full.counts.impossible!).toBe(full.counts.total);
          },
        ),
        { seed, numRuns: runs },
      );
      // Both verdicts are there.
      expect(violated).toBeGreaterThan(runs / 6);
      expect(violated).toBeLessThan(0.95 * runs);
    },
    30_000 + 1000 * runs,
  );

  test(
    'H10: the same with CPUs that keep what they have fetched, and fetch at any time',
    () => {
      let violated = 0;
      fc.assert(
        fc.property(fc.array(fc.nat(40), { minLength: 1, maxLength: 4 }), (chosen) => {
          const result = (reduction: NonNullable<RaceOptions['reduction']>): RaceResult => {
            const { scene, options, ...from } = build('H10', 'sync');
            const pool = stepsOf({ scene, options, ...from }).filter(
              ({ kind }) => kind === 'store' || kind === 'synchronise',
            );
            const steps = chosen.map((each) => pool[each % pool.length]!);
            // Without a handler a breakpoint is an end.
            return race(
              scene,
              { name: 'random', patchers: [{ name: 'one', steps }] },
              { ...options, reduction, shortest: false },
            );
          };
          const full = result('none');
          const reduced = result('partial-order');
          if (full.verdict === 'violated') violated++;
          expect(reduced.verdict).toBe(full.verdict);
          expect([...reduced.counts.outcomes.keys()].sort()).toEqual([...full.counts.outcomes.keys()].sort());
          expect(full.counts.explored + full.counts.impossible!).toBe(full.counts.total);
        }),
        { seed, numRuns: Math.ceil(runs / 4) },
      );
      expect(violated).toBeGreaterThan(runs / 20);
    },
    30_000 + 1000 * runs,
  );

  test('counts: fewer schedules, all of them possible', () => {
    const { scene, sequence, options } = build('H1', 'int3');
    const { counts } = race(scene, sequence, options);
    expect([counts.explored, counts.total, counts.pruned]).toEqual([11n, 167_960n, 167_949n]);
  });
});

describe('the shortest schedule', () => {
  test('is the first that a search in order of length finds', () => {
    const { scene, sequence } = build('H2', 'pair');
    const { failing } = race(scene, sequence);
    // The thread executes the first word, both are stored, it executes the second and arrives.
    expect(failing!.entries.map(({ name }) => name)).toEqual([
      'thread 0',
      'patcher',
      'patcher',
      'thread 0',
      'thread 0',
    ]);
    expect(failing!.violation).toMatchObject({ rule: 'wrong-function', thread: 0 });
  });

  test('has as few threads as will do', () => {
    const { scene, sequence } = build('H2', 'pair', 3);
    const { failing } = race(scene, sequence);
    expect(new Set(failing!.entries.map(({ name }) => name))).toEqual(new Set(['thread 0', 'patcher']));
  });
});

describe('bounds', () => {
  const long = (): RaceCase => build('H6', 'interrupt-only');

  test('are stated when they cut the search, and only then', () => {
    const { scene, sequence, options } = build('H6', 'list-between');
    const cut = race(scene, sequence, { ...options, maxSchedules: 20 });
    expect([cut.verdict, cut.bounds]).toEqual(['undecided', [{ kind: 'max-schedules', limit: 20 }]]);
    const enough = race(scene, sequence, { ...options, maxSchedules: 1_000_000 });
    expect([enough.verdict, enough.bounds]).toEqual(['holds', []]);
    const steps = race(scene, sequence, { ...options, maxSteps: 4 });
    expect([steps.verdict, steps.bounds]).toEqual(['undecided', [{ kind: 'max-steps', limit: 4 }]]);
    const switches = race(scene, sequence, { ...options, switches: 1 });
    expect([switches.verdict, switches.bounds]).toEqual(['undecided', [{ kind: 'switches', limit: 1 }]]);
  });

  test('first: the search ends at a violation', () => {
    const { scene, sequence, options } = long();
    const all = race(scene, sequence, options);
    const first = race(scene, sequence, { ...options, first: true, shortest: false });
    expect([all.verdict, all.bounds, first.verdict]).toEqual(['violated', [], 'violated']);
    expect(first.bounds).toEqual([{ kind: 'first', limit: 1 }]);
    expect(first.counts.events).toBeLessThan(all.counts.events);
  });

  test('interrupt: what was found so far, and that it was cut', () => {
    const { scene, sequence, options } = build('H10', 'sync', 2);
    const search = startRace(scene, sequence, { ...options, reduction: 'none', window: 30 });
    let last = search.next();
    let reports = 0;
    while (last.done !== true) {
      reports++;
      expect(last.value.events).toBeGreaterThan(0);
      if (reports === 3) search.interrupt();
      last = search.next();
    }
    expect(reports).toBeGreaterThanOrEqual(3);
    expect(last.value.verdict).toBe('undecided');
    expect(last.value.bounds).toEqual([{ kind: 'interrupted', limit: 0 }]);
  });

  test('the machine is as it was, whatever the search found', () => {
    for (const [id, form] of [['H1', 'bytes'], ['H5', 'wait']] as const) {
      const { scene, sequence, options } = build(id, form);
      const text = (): string => Buffer.from(scene.machine.memory.read(0x1_0000n, 0x2000)!).toString('hex');
      const before = text();
      race(scene, sequence, { ...options, maxSchedules: 50 });
      expect(text()).toBe(before);
      scene.machine.switchTo(0);
      expect(scene.machine.register('pc')).toBe(0x1_0000n);
    }
  }); // prettier-ignore
});

test('the same request gives the same result', () => {
  const once = (): string => {
    const { scene, sequence, options } = build('H9', 'nop-between', 2);
    const result = race(scene, sequence, options);
    return JSON.stringify({ ...result, counts: { ...result.counts, outcomes: [...result.counts.outcomes] } }, (_, value: unknown) =>
      typeof value === 'bigint' ? value.toString() : value,
    );
  };
  expect(once()).toBe(once());
}); // prettier-ignore

describe('rules that always hold', () => {
  const sequence = (...patchers: readonly (readonly RaceStep[])[]): Sequence => ({
    name: 'given',
    patchers: patchers.map((steps, i) => ({ name: `patcher ${i}`, steps })),
  });

  test('deadlock: two patchers and two locks', () => {
    const { scene } = build('H2', 'pair');
    const take = (...locks: readonly string[]): RaceStep[] => [
      ...locks.map((lock): RaceStep => ({ kind: 'lock', lock })),
      ...locks.map((lock): RaceStep => ({ kind: 'unlock', lock })),
    ];
    const bad = race(scene, sequence(take('a', 'b'), take('b', 'a')));
    expect(bad.failing?.violation).toMatchObject({ rule: 'deadlock', message: 'nobody can go on: patcher 0, patcher 1 wait' });
    expect(race(scene, sequence(take('a', 'b'), take('a', 'b'))).verdict).toBe('holds');
  }); // prettier-ignore

  test('endless loop: a word becomes a branch to itself', () => {
    const { scene } = build('H2', 'pair');
    // jal zero, 0
    const result = race(scene, sequence([{ kind: 'store', address: 0x1_0004n, bytes: Uint8Array.of(0x6f, 0, 0, 0) }]));
    expect(result.failing?.violation).toMatchObject({ rule: 'endless-loop', thread: 0 });
  });

  test('caller lost: the stack pointer is another one', () => {
    const { scene } = build('H2', 'pair');
    // addi sp, sp, -16
    const steps: RaceStep[] = [{ kind: 'store', address: 0x1_0000n, bytes: Uint8Array.of(0x13, 0x01, 0x01, 0xff) }];
    expect(race(scene, sequence(steps)).failing?.violation).toMatchObject({ rule: 'caller-lost', thread: 0 });
  });

  test('a store to nowhere, threads without a CPU: wrong use', () => {
    const { scene } = build('H2', 'pair');
    const wrong = (body: () => unknown): unknown => {
      try {
        body();
      } catch (error) {
        return error instanceof ElftraceError ? error.code : error;
      }
      return null;
    };
    expect(wrong(() => race(scene, sequence([{ kind: 'store', address: 0n, bytes: Uint8Array.of(1) }])))).toBe('usage');
    const more: Scene = { ...scene, threads: [...scene.threads, ...scene.threads] };
    expect(wrong(() => race(more, sequence([])))).toBe('usage');
    expect(wrong(() => race(scene, sequence([]), { maxSteps: 0 }))).toBe('usage');
    expect(wrong(() => race(scene, sequence([]), { prefetch: true }))).toBe('usage');
  });
});

test('H2 H10: a CPU in the middle of a pair fetches anew, though nobody makes it', () => {
  const [nop, ret] = [0x13n, 0x0000_8067n];
  // auipc t0,0; jalr t0,256(t0), stored at once and without a synchronisation.
  const bytes = Uint8Array.of(0x97, 0x02, 0, 0, 0xe7, 0x82, 0x02, 0x10);
  const sequence: Sequence = {
    name: 'pair',
    patchers: [{ name: 'p', steps: [{ kind: 'store', address: 0x1000n, bytes }] }],
  };
  const found = [true, false].flatMap((prefetch) => {
    const scene = small([nop, nop, ret], 1, 64);
    scene.machine.writeWord(0x1100n, 4, 0x0002_8067n);
    return (['partial-order', 'none'] as const).map((reduction) => {
      const { failing } = race(scene, sequence, { prefetch, reduction });
      return failing?.violation.rule ?? null;
    });
  });
  // t0 is 0: jalr leads to 256, where nothing is. Without fetching anew the CPU has its two nops.
  expect(found).toEqual(['wrong-function', 'wrong-function', null, null]);
});

/** A line may be older than one that was fetched before it. */
test('H10: of two lines a CPU may hold the old one and fetch the new one, unless it is made to fetch', () => {
  const [nop, ret] = [0x13n, 0x0000_8067n];
  // The second line has no instruction until it gets one; then the first one jumps there.
  const [second, first] = [Uint8Array.of(0x67, 0x80, 0, 0), Uint8Array.of(0x6f, 0, 0, 0x04)];
  const rules = [false, true].map((isSynchronised) => {
    const steps: RaceStep[] = [
      { kind: 'store', address: 0x1040n, bytes: second },
      ...(isSynchronised ? [{ kind: 'synchronise', thread: 'all' } as const] : []),
      { kind: 'store', address: 0x1000n, bytes: first },
    ];
    const sequence: Sequence = { name: 'two lines', patchers: [{ name: 'p', steps }] };
    return (['partial-order', 'none'] as const).map((reduction) => {
      const { failing } = race(small([nop, ret], 1, 64), sequence, { prefetch: true, reduction });
      return failing?.violation.rule ?? null;
    });
  });
  expect(rules).toEqual([
    ['stopped', 'stopped'],
    [null, null],
  ]);
});

/**
 * lw a2,0(a1); nop; nop; nop | nop; nop; ret, in lines of 16 bytes. The patcher stores to both
 * lines, and sets the word that is loaded: what comes of a call tells what was executed since.
 */
test('H10: random stores to two lines: what threads choose to have fetched is what fetching at any time gives', () => {
  const word = (address: bigint, value: number): RaceStep => {
    return { kind: 'store', address, bytes: new Uint8Array(Uint32Array.of(value).buffer) };
  };
  const [nop, add, addFour, jump] = [0x13, 0x0015_0513, 0x0045_0513, 0x0100_006f];
  const flag = word(0x2000n, 1);
  const everybody: RaceStep = { kind: 'synchronise', thread: 'all' };
  const pool: readonly RaceStep[] = [
    word(0x1004n, add), flag, everybody, word(0x1014n, add), flag, everybody,
    word(0x1004n, jump), word(0x1004n, nop), word(0x1008n, addFour),
  ]; // prettier-ignore
  const properties: Property[] = Array.from({ length: 31 }, (_, i) => BigInt(i + 1)).map((sum) => ({
    name: `sum ${sum}`,
    atReturn: ({ register }) => (register('a0') + 16n * register('a2') === sum ? 'so it is' : null),
  }));
  let violated = 0;
  fc.assert(
    fc.property(fc.array(fc.nat(80), { minLength: 2, maxLength: 3 }), (chosen) => {
      const steps = chosen.map((each) => pool[each % pool.length]!);
      const sequence: Sequence = { name: 'random', patchers: [{ name: 'p', steps }] };
      const of = (reduction: NonNullable<RaceOptions['reduction']>): { scene: Scene; result: RaceResult } => {
        const scene = small([0x0005_a603n, 0x13n, 0x13n, 0x13n, 0x13n, 0x13n, 0x0000_8067n], 1, 16);
        return { scene, result: race(scene, sequence, { prefetch: true, properties, reduction, shortest: false }) };
      };
      const { result: full } = of('none');
      const { scene, result: reduced } = of('partial-order');
      expect([...reduced.counts.outcomes.keys()].sort()).toEqual([...full.counts.outcomes.keys()].sort());
      expect(full.counts.explored + full.counts.impossible!).toBe(full.counts.total);
      if (reduced.failing === null) return;
      violated++;
      // Fetching is put back to where it can have been.
      const { entries, violation } = reduced.failing;
      expect(tell(scene, sequence, entries, { prefetch: true, properties }).violation).toEqual(violation);
    }),
    // Made to forget in between; and two places of a line, of which the second one changed first.
    { seed, numRuns: Math.ceil(runs / 2), examples: [[[0, 2, 1]], [[8, 0]]] },
  );
  expect(violated).toBeGreaterThan(runs / 8);
});

describe('memory that threads share', () => {
  /** Each adds 1 to a word: lw a0,0(a1); addi a0,a0,1; sw a0,0(a1); ret. */
  const counting = (threads: number): Scene => small([0x0005_a503n, 0x0015_0513n, 0x00a5_a023n, 0x0000_8067n], threads);

  test('a lost update: found, in as many orders as a count by hand says', () => {
    const sum: Property = {
      name: 'sum',
      atEnd: ({ machine }) => (machine.readWord(0x2000n, 4) === 2n ? null : 'an update is lost'),
    };
    const none: Sequence = { name: 'nothing', patchers: [] };
    const full = race(counting(2), none, { properties: [sum], reduction: 'none' });
    // Fine where one has stored before the other loads. Of C(8,4) orders: one's third event stands
    // before the other's first one, so that the other's 4 come behind 3 of the one's, in 1 + 4 ways
    // (where its return goes); twice.
    expect([full.counts.total, full.counts.violated]).toEqual([70n, 70n - 2n * 5n]);
    const reduced = race(counting(2), none, { properties: [sum] });
    expect([reduced.verdict, reduced.failing?.violation.rule]).toEqual(['violated', 'sum']);
    expect([...reduced.counts.outcomes.keys()].sort()).toEqual([...full.counts.outcomes.keys()].sort());
    // The load of the one between the load and the store of the other: 4 events, and all of them to
    // the end.
    expect(reduced.failing!.entries).toHaveLength(8);
  });
});

describe('what users add', () => {
  test('a property, at returns and at the end', () => {
    const { scene, sequence } = build('H2', 'fixed-auipc');
    const traced: Property = {
      name: 'traced-once',
      atReturn: ({ marks }) => (marks.length <= 1 ? null : 'twice'),
      atEnd: ({ machine }) => (machine.readWord(0x1_0004n, 4) === 0x13n ? null : 'the tracer is still there'),
    };
    expect(race(scene, sequence, { properties: [traced] }).verdict).toBe('holds');
    const half: Sequence = { ...sequence, patchers: [{ name: 'on', steps: sequence.patchers[0]!.steps.slice(0, 1) }] };
    expect(race(scene, half, { properties: [traced] }).failing?.violation).toMatchObject({
      rule: 'traced-once',
      message: 'the tracer is still there',
      thread: -1,
    });
  });

  test('H1 H10: a sequence without a part of it', () => {
    const found: Record<string, string> = {};
    for (const how of ['no-breakpoint', 'bytes', 'reversed', 'no-wait'] as const) {
      const { scene, sequence, options } = build('H1', 'int3');
      const { verdict, failing } = race(scene, broken(sequence, how), options);
      found[how] = failing === null ? verdict : failing.violation.rule;
    }
    expect(found).toEqual({
      'no-breakpoint': 'torn-instruction',
      // Bytes behind the breakpoint may come one by one.
      bytes: 'holds',
      reversed: 'torn-instruction',
      'no-wait': 'holds',
    });
  });
});
