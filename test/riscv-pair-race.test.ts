/**
 * Why the pair of a RISC-V site may only change while nobody runs (R-MOD-3, H2),
 * and why a fixed auipc needs no stop. Every schedule of the patcher's stores against one thread,
 * and against two, is run; their numbers and those of the failures are those of the formulas.
 *
 *   f:       [auipc t0 | nop] [jalr t0 | nop]  addi a0,a0,1  jalr zero,ra
 *   tracer:  addi a1,a1,1  jalr zero,t0
 *
 * t0 is dead at a function's entry: what a thread has in it leads nowhere.
 * Words are those of R-ENC-4.
 */
import { afterAll, describe, expect, test } from '@jest/globals';
import { riscv64 } from '../src/arch-riscv/index.js';
import { Machine, type PatcherStep, runSchedule, type ScheduleStep } from '../src/emulator/index.js';
import { pairWords } from './support/riscv-runtime.js';
import { interleavings } from './support/interleavings.js';

const CODE = 0x1_0000n;
const TRACER = 0x2_1700n;
const OTHER = 0x3_2900n;
const STOP = 0x4_0000n;
const NOWHERE = 0xbad_0000n;
const T0 = 5;
const NOP = 0x13;
const [AUIPC, JALR] = pairWords(T0, TRACER - CODE);
const [AUIPC_OTHER, JALR_OTHER] = pairWords(T0, OTHER - CODE);
const BODY = [0x0015_0513, 0x0000_8067];
const HOOK = [0x0015_8593, 0x0002_8067];
const EBREAK = 0x0010_0073;

type Site = readonly [number, number];
const off: Site = [NOP, NOP];
const on: Site = [AUIPC, JALR];
const other: Site = [AUIPC_OTHER, JALR_OTHER];
const fixed: Site = [AUIPC, NOP];

function machineOf(site: Site, threads: number, fetchLineBytes?: number): Machine {
  const { emulation } = riscv64;
  if (emulation.kind === 'none') throw new Error(emulation.reason);
  const machine = new Machine({
    lifter: emulation.lifter,
    ...(fetchLineBytes === undefined ? {} : { fetch: 'buffered' as const, fetchLineBytes }),
  });
  const load = (address: bigint, words: readonly number[]): void => {
    const page = new Uint8Array(0x1000);
    const view = new DataView(page.buffer);
    words.forEach((word, i) => {
      view.setUint32(Number(address & 0xfffn) + 4 * i, word, true);
    });
    machine.load(address & ~0xfffn, page, { permission: 'rx', size: 0x1000 });
  };
  load(CODE, [...site, ...BODY]);
  load(TRACER, HOOK);
  load(OTHER, HOOK);
  load(STOP, [EBREAK]);
  for (let cpu = 0; cpu < threads; cpu++) {
    if (cpu > 0) machine.addCpu();
    machine.switchTo(cpu);
    machine.setRegister('pc', CODE);
    machine.setRegister('ra', STOP);
    machine.setRegister('t0', NOWHERE);
  }
  machine.switchTo(0);
  return machine;
}

type End = 'traced' | 'untraced' | 'wild';

function endOf(machine: Machine, cpu: number, kind: string | undefined): End {
  machine.switchTo(cpu);
  if (kind !== 'trap' || machine.register('pc') !== STOP || machine.register('a0') !== 1n) return 'wild';
  return machine.register('a1') === 1n ? 'traced' : 'untraced';
}

let explored = 0;
afterAll(() => {
  process.stdout.write(`${explored} schedules\n`);
});

/** Runs schedules from the same start; counts those in which a thread goes astray. */
function explore(machine: Machine, schedules: Iterable<readonly ScheduleStep[]>): { count: number; wild: number } {
  const start = machine.snapshot();
  let count = 0;
  let wild = 0;
  for (const steps of schedules) {
    machine.restore(start);
    const { stops } = runSchedule(machine, steps);
    const ends = Array.from({ length: machine.cpuCount }, (_, cpu) => endOf(machine, cpu, stops.get(cpu)?.stop.kind));
    if (ends.includes('wild')) wild++;
    count++;
    explored++;
  }
  return { count, wild };
}

const word = (at: bigint, value: number): PatcherStep => ({
  kind: 'store',
  address: at,
  width: 4,
  value: BigInt(value),
});
const first = (value: number): PatcherStep => word(CODE, value);
const second = (value: number): PatcherStep => word(CODE + 4n, value);
const both = ([a, b]: Site): PatcherStep => ({
  kind: 'store',
  address: CODE,
  width: 8,
  value: (BigInt(b) << 32n) | BigInt(a),
});
const choose = (n: number, k: number): number => (k === 0 ? 1 : (choose(n - 1, k - 1) * n) / k);

/** Instructions of a thread before it stops: through the tracer, or not. */
function length(site: Site): number {
  const machine = machineOf(site, 1);
  let n = 0;
  while (machine.register('pc') !== STOP) {
    machine.run({ budget: 1 });
    n++;
  }
  expect(endOf(machine, 0, 'trap')).toBe(site === off || site === fixed ? 'untraced' : 'traced');
  return n;
}

const one = (site: Site, patcher: readonly PatcherStep[]): Iterable<readonly ScheduleStep[]> =>
  interleavings({ cpu: 0, instructions: length(site), patcher, after: 20 });

describe('T-RV-25 H2 R-MOD-3: one thread', () => {
  const [n, m] = [length(off), length(on)];

  test('the ways', () => {
    // Two words of the site and two of the body; with the tracer two more.
    expect([n, m]).toEqual([4, 6]);
  });

  test('nop to call, auipc first: who stands between the words runs jalr with a t0 of its own', () => {
    expect(explore(machineOf(off, 1), one(off, [first(AUIPC), second(JALR)]))).toEqual({
      count: choose(n + 2, 2),
      wild: 1,
    });
  });

  test('nop to call, jalr first: so does everybody who comes by in between', () => {
    // The jalr is there when the second word is reached (stored at place 0 or 1), the auipc was not
    // when the first was (stored from place 1 on).
    expect(explore(machineOf(off, 1), one(off, [second(JALR), first(AUIPC)]))).toEqual({
      count: choose(n + 2, 2),
      wild: 2 * n,
    });
  });

  test('call to nop: auipc first is as bad, jalr first is not', () => {
    // The first word was a nop already, the second still a jalr.
    const bad = explore(machineOf(on, 1), one(on, [first(NOP), second(NOP)]));
    expect(bad).toEqual({ count: choose(m + 2, 2), wild: m - 1 });
    expect(explore(machineOf(on, 1), one(on, [second(NOP), first(NOP)]))).toEqual({ count: choose(m + 2, 2), wild: 0 });
  });

  test('both words in one store, as with every other CPU stopped: wrong only for who was stopped between them', () => {
    expect(explore(machineOf(off, 1), one(off, [both(on)]))).toEqual({ count: n + 1, wild: 1 });
    // A kernel that cannot be preempted inside a function's entry stops nobody there: the other
    // places.
    const places = [0, 2, 3, 4].map((place): readonly ScheduleStep[] => [
      { kind: 'run', cpu: 0, instructions: place },
      both(on),
      { kind: 'run', cpu: 0, instructions: 20 },
    ]);
    expect(explore(machineOf(off, 1), places)).toEqual({ count: 4, wild: 0 });
    expect(explore(machineOf(on, 1), one(on, [both(off)]))).toEqual({ count: m + 1, wild: 0 });
  });

  test('call to another call: a jalr with the auipc of the other target leads to neither', () => {
    const found = explore(machineOf(on, 1), one(on, [first(AUIPC_OTHER), second(JALR_OTHER)]));
    // New auipc and old jalr: stored at place 0, the jalr from place 2 on; old auipc and new jalr:
    // both stored at place 1.
    expect(found).toEqual({ count: choose(m + 2, 2), wild: m - 1 + 1 });
    expect(other).toEqual([AUIPC_OTHER, JALR_OTHER]);
  });

  test('fixed auipc: one word changes, and every schedule is fine, on and off and on again', () => {
    expect(explore(machineOf(fixed, 1), one(fixed, [second(JALR)]))).toEqual({ count: n + 1, wild: 0 });
    expect(explore(machineOf(on, 1), one(on, [second(NOP)]))).toEqual({ count: m + 1, wild: 0 });
    const again = [second(JALR), second(NOP), second(JALR)];
    expect(explore(machineOf(fixed, 1), one(fixed, again))).toEqual({ count: choose(n + 3, 3), wild: 0 });
  });
});

describe('T-RV-25 H2: two CPUs in the same function, every pair of places', () => {
  /** They meet at the site only, so that their orders between stores do not matter. */
  function* two(n: number, patcher: readonly PatcherStep[]): Generator<readonly ScheduleStep[]> {
    function* place(step: number, a: number, b: number): Generator<readonly ScheduleStep[]> {
      const each = patcher[step];
      if (!each) {
        yield [
          { kind: 'run', cpu: 0, instructions: 20 },
          { kind: 'run', cpu: 1, instructions: 20 },
        ];
        return;
      }
      for (let nextA = a; nextA <= n; nextA++) {
        for (let nextB = b; nextB <= n; nextB++) {
          for (const rest of place(step + 1, nextA, nextB)) {
            yield [
              { kind: 'run', cpu: 0, instructions: nextA - a },
              { kind: 'run', cpu: 1, instructions: nextB - b },
              each,
              ...rest,
            ];
          }
        }
      }
    }
    yield* place(0, 0, 0);
  }

  test('a pair, word by word: right only where both are', () => {
    const n = length(off);
    const perThread = choose(n + 2, 2);
    const found = explore(machineOf(off, 2), two(n, [first(AUIPC), second(JALR)]));
    expect(found).toEqual({ count: perThread ** 2, wild: perThread ** 2 - (perThread - 1) ** 2 });
  });

  test('a fixed auipc: all', () => {
    const n = length(fixed);
    expect(explore(machineOf(fixed, 2), two(n, [second(JALR)]))).toEqual({ count: (n + 1) ** 2, wild: 0 });
    const found = explore(machineOf(fixed, 2), two(n, [second(JALR), second(NOP)]));
    expect(found).toEqual({ count: choose(n + 2, 2) ** 2, wild: 0 });
  });
});

describe('T-RV-25 H10: CPUs that keep what they fetched, lines of 16 bytes', () => {
  const synchronise: PatcherStep = { kind: 'synchronise', cpu: 0 };

  test('a fixed auipc needs no synchronising to be safe', () => {
    const n = length(fixed);
    for (const patcher of [[second(JALR)], [second(JALR), synchronise], [second(JALR), second(NOP), synchronise]]) {
      const k = patcher.length;
      expect(explore(machineOf(fixed, 1, 16), one(fixed, patcher))).toEqual({ count: choose(n + k, k), wild: 0 });
    }
  });

  test('a pair within one line is seen whole, unless the CPU is made to look again between its words', () => {
    const n = length(off);
    const whole = explore(machineOf(off, 1, 16), one(off, [first(AUIPC), second(JALR)]));
    expect(whole).toEqual({ count: choose(n + 2, 2), wild: 0 });
    const synchronised = explore(machineOf(off, 1, 16), one(off, [first(AUIPC), second(JALR), synchronise]));
    expect(synchronised).toEqual({ count: choose(n + 3, 3), wild: 1 });
  });
});
