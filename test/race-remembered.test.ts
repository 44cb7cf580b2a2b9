/**
 * What a search remembers of events, takes for dead and does at once: the reduced set against the
 * full one, which executes every event of every order, on random programs of threads that share
 * memory and registers.
 */
import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { arches } from '../src/arches.js';
import { Machine } from '../src/emulator/index.js';
import {
  type Property,
  race,
  type RaceOptions,
  type RaceResult,
  type RaceStep,
  type Scene,
  type Sequence,
} from '../src/race/index.js';
import { times } from './support/long.js';
import { smallScene } from './support/small-races.js';

const runs = Number(process.env['ELFTRACE_RACES'] ?? times(80, 80, 25));
const seed = Number(process.env['ELFTRACE_SEED'] ?? 33);

const CODE = 0x1000n;
const DATA = 0x2000n;
const STOP = 0x8000n;
const RET = 0x0000_8067;

const le32 = (value: number): Uint8Array => new Uint8Array(Uint32Array.of(value).buffer);

/** The word beside the first one that threads share holds 3. */
function sceneOf(
  words: readonly number[],
  threads: number,
  marks: readonly number[] = [],
  fetchLineBytes?: number,
): Scene {
  const scene = smallScene(words.map(BigInt), threads, fetchLineBytes, marks);
  scene.machine.writeWord(DATA + 4n, 4, 3n);
  return scene;
}

const sequenceOf = (steps: readonly RaceStep[]): Sequence => ({
  name: 'random',
  patchers: steps.length === 0 ? [] : [{ name: 'p', steps }],
});

const outcomesOf = ({ counts }: RaceResult): string[] => [...counts.outcomes.keys()].sort();

/** Of memory, when everything is at rest. */
const sums: readonly Property[] = Array.from({ length: 12 }, (_, sum) => ({
  name: `sum ${sum}`,
  atEnd: ({ machine }) => (Number(machine.readWord(DATA, 4)) === sum ? 'so it is' : null),
}));

describe('the same as in every order', () => {
  /** Loads, stores, sums, a lock-free increment; branches over the next instruction. */
  const pool = [
    0x0005_a503, // lw a0,0(a1)
    0x0045_a603, // lw a2,4(a1)
    0x0015_0513, // addi a0,a0,1
    0x00a5_a023, // sw a0,0(a1)
    0x00a5_a223, // sw a0,4(a1)
    0x00c5_0533, // add a0,a0,a2
    0x0000_0613, // li a2,0
    0x0005_0463, // beqz a0,+8
    0x0006_0463, // beqz a2,+8
    0x00c5_a52f, // amoadd.w a0,a2,(a1)
  ];
  const nop = 0x13;

  test.each([
    ['marks alone', []],
    ['what memory holds in the end', sums],
  ])('F-8: random programs of two threads and a patcher: %s', (_, properties) => {
    const seen = new Set<string>();
    fc.assert(
      fc.property(
        fc.array(fc.nat(pool.length - 1), { minLength: 2, maxLength: 4 }),
        fc.array(fc.tuple(fc.nat(4), fc.nat(pool.length)), { maxLength: 2 }),
        (chosen, stores) => {
          const words = [...chosen.map((each) => pool[each]!), nop, RET];
          const steps = stores.map(([at, what]): RaceStep =>
            at >= words.length - 1
              ? { kind: 'store', address: DATA + 4n, bytes: le32(what) }
              : { kind: 'store', address: CODE + BigInt(4 * at), bytes: le32([...pool, nop][what]!) },
          );
          const of = (reduction: NonNullable<RaceOptions['reduction']>): RaceResult =>
            race(sceneOf(words, 2, [1, 2]), sequenceOf(steps), { properties, reduction, shortest: false });
          const full = of('none');
          const reduced = of('partial-order');
          expect(outcomesOf(reduced)).toEqual(outcomesOf(full));
          expect(reduced.verdict).toBe(full.verdict);
          seen.add(outcomesOf(full).join());
        },
      ),
      { seed, numRuns: runs },
    );
    expect(seen.size).toBeGreaterThan(1);
  });

  test('F-8: CPUs that keep code, and two threads that share words', () => {
    fc.assert(
      fc.property(
        fc.array(fc.nat(pool.length - 1), { minLength: 1, maxLength: 2 }),
        fc.nat(pool.length - 1),
        (chosen, what) => {
          const words = [...chosen.map((each) => pool[each]!), RET];
          const steps: RaceStep[] = [
            { kind: 'store', address: CODE, bytes: le32(pool[what]!) },
            { kind: 'synchronise', thread: 'all' },
          ];
          const of = (reduction: NonNullable<RaceOptions['reduction']>): string[] =>
            outcomesOf(
              race(sceneOf(words, 2, [1], 16), sequenceOf(steps), {
                prefetch: true,
                properties: sums,
                reduction,
                shortest: false,
              }),
            );
          expect(of('partial-order')).toEqual(of('none'));
        },
      ),
      { seed, numRuns: Math.ceil(runs / 4) },
    );
  });
});

describe('reservations', () => {
  /** lr.w a0,(a1); addi a0,a0,1; sc.w a2,a0,(a1); bnez a2,-12; ret. */
  const increment = [0x1005_a52f, 0x0015_0513, 0x18a5_a62f, 0xfe06_1ae3, RET];
  const lost: Property = {
    name: 'lost',
    atEnd: ({ machine }) => (machine.readWord(DATA, 4) === 2n ? null : 'an update is lost'),
  };
  const elsewhere: RaceStep = { kind: 'store', address: CODE + 0x100n, bytes: le32(RET) };

  test.each([
    ['of its own', undefined],
    ['deferred', 16],
  ])('F-8: what one thread stores takes the reservation of the other: fetching %s', (_, fetchLineBytes) => {
    const scene = sceneOf(increment, 2, [], fetchLineBytes);
    const prefetch = fetchLineBytes !== undefined;
    const result = race(scene, sequenceOf([elsewhere]), { properties: [lost], prefetch });
    expect([result.verdict, result.bounds]).toEqual(['holds', []]);
  });

  test('F-8: a store beside the word takes it, too', () => {
    // Behind it, the other word is read: lw a3,8(a1).
    const words = [...increment.slice(0, -1), 0x0085_a683, RET];
    const beside: RaceStep = { kind: 'store', address: DATA + 8n, bytes: le32(1) };
    const of = (reduction: NonNullable<RaceOptions['reduction']>): RaceResult =>
      race(sceneOf(words, 1, [3]), sequenceOf([beside]), { reduction });
    expect(outcomesOf(of('partial-order'))).toEqual(outcomesOf(of('none')));
  });

  test('F-8: a store that is looked at, and does not happen yet, takes no reservation', () => {
    // lw a3,8(a1); addi a3,a3,1; sw a3,8(a1); lr.w a0,(a1); sc.w a2,a0,(a1); beqz a2,+20;
    // lw a4,8(a1); addi a4,a4,-1; bnez a4,+8; nop; ret: who fails sees what the other has stored.
    const words = [
      0x0085_a683, 0x0016_8693, 0x00d5_a423, 0x1005_a52f, 0x18a5_a62f, 0x0006_0a63,
      0x0085_a703, 0xfff7_0713, 0x0007_1463, 0x13, RET,
    ]; // prettier-ignore
    const of = (reduction: NonNullable<RaceOptions['reduction']>): string[] =>
      outcomesOf(race(sceneOf(words, 2, [6, 9]), sequenceOf([]), { reduction }));
    const full = of('none');
    expect(full.some((each) => each.includes('at 6'))).toBe(true);
    expect(of('partial-order')).toEqual(full);
  });
});

test('F-8: who goes on for ever by himself, with an instruction that may depend on anything', () => {
  // rdtime a0; j -4: virtual time stands still.
  const { verdict, failing } = race(sceneOf([0xc010_2573, 0xffdf_f06f], 1), sequenceOf([]), { shortest: false });
  expect([verdict, failing?.violation.rule]).toEqual(['violated', 'endless-loop']);
});

test('F-8: what helpers access is part of an event', () => {
  // rep movsb; cmp byte [rdi-4],0; je +1; nop; ret. The patcher changes what is copied.
  const code = Uint8Array.of(0xf3, 0xa4, 0x80, 0x7f, 0xfc, 0x00, 0x74, 0x01, 0x90, 0xc3);
  const of = (reduction: NonNullable<RaceOptions['reduction']>): string[] => {
    const arch = arches.find(({ target }) => target.id === 'x86-64')!;
    if (arch.emulation.kind !== 'ir') throw new Error('not executed');
    const machine = new Machine({ lifter: arch.emulation.lifter, blockInstructions: 1 });
    machine.map({ address: CODE, size: 0x1000, permission: 'rx' });
    machine.map({ address: DATA, size: 0x1000, permission: 'rw' });
    machine.memory.write(CODE, code);
    machine.writeWord(DATA + 0x800n, 8, STOP);
    const registers = { rsi: DATA, rdi: DATA + 0x100n, rcx: 4n, rsp: DATA + 0x800n, pc: CODE };
    for (const [name, value] of Object.entries(registers)) machine.setRegister(name, value);
    const scene: Scene = {
      machine,
      threads: [{ name: 'copies', expect: new Map() }],
      stop: STOP,
      stackPointer: 'rsp',
      livePatching: arch.livePatching,
      code: null,
      marks: new Map([[CODE + 8n, 'one']]),
      units: [],
    };
    const set: RaceStep = { kind: 'store', address: DATA, bytes: le32(1) };
    return outcomesOf(race(scene, sequenceOf([set]), { reduction }));
  };
  expect(of('none')).toEqual(['-', 'one']);
  expect(of('partial-order')).toEqual(['-', 'one']);
});
