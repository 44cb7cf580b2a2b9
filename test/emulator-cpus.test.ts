/** Several CPUs: schedules, reservations across CPUs, hooks on switches, watches, virtual time. */
import { describe, expect, test } from '@jest/globals';
import { runSchedule, TIME_HZ } from '../src/emulator/index.js';
import type { Machine, ScheduleStep, WatchEvent } from '../src/emulator/index.js';
import { ElftraceError } from '../src/errors.js';
import { ppcMachine, registersOf } from './support/emulator.js';
import type { PpcKind, PpcLine } from './support/emulator.js';
import { interleavings } from './support/interleavings.js';

const DATA = 0x2_0000n;
const START = 0x1_0000n;
const lwarx: PpcLine = ['lwarx', { rt: 5, ra0: 0, rb: 4, eh: 0 }];
const stwcx: PpcLine = ['stwcx.', { rs: 6, ra0: 0, rb: 4 }];
const ldarx: PpcLine = ['ldarx', { rt: 5, ra0: 0, rb: 4, eh: 0 }];
const stdcx: PpcLine = ['stdcx.', { rs: 6, ra0: 0, rb: 4 }];
const stw = (rs: number, displacement = 0): PpcLine => ['stw', { rs, ra0: 4, d: displacement }];
const li = (rt: number, si: number): PpcLine => ['addi', { rt, ra0: 0, si }];
const stop: PpcLine = ['tw', { to: 31, ra: 0, rb: 0 }];

/** Two CPUs: 0 executes `first`, 1 executes `second`; r4 of both is DATA. */
function pair(kind: PpcKind, first: readonly PpcLine[], second: readonly PpcLine[]): Machine {
  const machine = ppcMachine(kind, [...first, ...second]);
  machine.addCpu();
  [START, START + BigInt(4 * first.length)].forEach((pc, cpu) => {
    machine.switchTo(cpu);
    machine.setRegister('pc', pc);
    machine.setRegister('r4', DATA);
    machine.setRegister('r6', BigInt(100 + cpu));
  });
  machine.switchTo(0);
  return machine;
}

const equalBit = (machine: Machine): boolean => (machine.register('cr') & 0x2000_0000n) !== 0n;
const runs = (...slices: readonly (readonly [cpu: number, instructions: number])[]): ScheduleStep[] =>
  slices.map(([cpu, instructions]) => ({ kind: 'run', cpu, instructions }));

describe.each(['le', 'be', '32'] as const)('reservations on %s', (kind) => {
  const granule = kind === '32' ? 32 : 128;

  /** CPU 0 reserves, CPU 1 executes `between`, CPU 0 stores; true: the store was done. */
  function succeeds(between: readonly PpcLine[], prepare?: (machine: Machine) => void): boolean {
    const machine = pair(kind, [lwarx, stwcx, stop], [...between, stop]);
    prepare?.(machine);
    runSchedule(machine, runs([0, 1], [1, between.length], [0, 1]));
    return equalBit(machine);
  }

  test('a store of another CPU breaks them, wherever it falls in the granule', () => {
    expect(succeeds([])).toBe(true);
    expect(succeeds([['addi', { rt: 7, ra0: 7, si: 1 }]])).toBe(true);
    expect(succeeds([stw(6)])).toBe(false);
    expect(succeeds([stw(6, 4)])).toBe(false);
    expect(succeeds([stw(6, granule - 4)])).toBe(false);
    expect(succeeds([stw(6, granule - 1)])).toBe(false);
    expect(succeeds([stw(6, granule)])).toBe(true);
    expect(succeeds([['stb', { rs: 6, ra0: 4, d: 3 }]])).toBe(false);
    const below = pair(kind, [lwarx, stwcx, stop], [stw(6, -2), stop]);
    below.map({ address: DATA - 0x1000n, size: 0x1000, permission: 'rw' });
    runSchedule(below, runs([0, 1], [1, 1], [0, 1]));
    expect(equalBit(below)).toBe(false);
  });

  test('two stores that bring the old value back break them: A, B, A', () => {
    const machine = pair(kind, [lwarx, stwcx, stop], [stw(6), stw(0), stop]);
    runSchedule(machine, runs([0, 1], [1, 2], [0, 1]));
    expect(machine.readWord(DATA, 4)).toBe(0n);
    expect(equalBit(machine)).toBe(false);
  });

  test('loads of another CPU, and its reservations, do not', () => {
    expect(succeeds([lwarx])).toBe(true);
    const both = pair(kind, [lwarx, stwcx, stop], [lwarx, stwcx, stop]);
    runSchedule(both, runs([0, 1], [1, 1], [0, 1]));
    expect(equalBit(both)).toBe(true);
    runSchedule(both, runs([1, 1]));
    expect(equalBit(both)).toBe(false);
    expect(both.readWord(DATA, 4)).toBe(100n);
  });

  test('a store-conditional that fails does not break those of others', () => {
    // CPU 1 loses to CPU 0, which reserves again before CPU 1 notices.
    const machine = pair(kind, [lwarx, stwcx, lwarx, stwcx, stop], [lwarx, stwcx, stop]);
    runSchedule(machine, runs([1, 1], [0, 3], [1, 1], [0, 1]));
    expect(equalBit(machine)).toBe(true);
    machine.switchTo(1);
    expect(equalBit(machine)).toBe(false);
  });

  test("the CPU's own: a second store-conditional fails, another word of the granule may be written", () => {
    const twice = pair(kind, [lwarx, stwcx, stwcx, stop], [stop]);
    runSchedule(twice, runs([0, 2]));
    expect(equalBit(twice)).toBe(true);
    runSchedule(twice, runs([0, 1]));
    expect(equalBit(twice)).toBe(false);
    const other = pair(kind, [lwarx, stw(6, 8), stwcx, stop], [stop]);
    runSchedule(other, runs([0, 1], [1, 0], [0, 2]));
    expect(equalBit(other)).toBe(true);
    const never = pair(kind, [stwcx, stop], [stop]);
    never.setRegister('r4', DATA);
    runSchedule(never, runs([0, 1]));
    expect(equalBit(never)).toBe(false);
  });

  test('a store of the patcher breaks that of the running CPU too', () => {
    const machine = pair(kind, [lwarx, stwcx, stop], [stop]);
    const patch = { kind: 'store', address: DATA + 4n, width: 4, value: 0n } as const;
    runSchedule(machine, [...runs([0, 1]), patch, ...runs([0, 1])]);
    expect(equalBit(machine)).toBe(false);
  });

  test('a store across two windows breaks them', () => {
    const machine = pair(kind, [lwarx, stwcx, stop], [stw(6), stop]);
    machine.map({ address: DATA + 0x1000n, size: 0x1000, permission: 'rw' });
    machine.setRegister('r4', DATA + 0x1000n);
    machine.switchTo(1);
    machine.setRegister('r4', DATA + 0xffen);
    runSchedule(machine, runs([0, 1], [1, 1], [0, 1]));
    expect(equalBit(machine)).toBe(false);
  });
});

test('ldarx and stdcx. over all switches at single instructions count exactly', () => {
  const loop: PpcLine[] = [
    ldarx,
    ['add', { rt: 6, ra: 5, rb: 7, oe: 0, rc: 0 }],
    stdcx,
    ['bc', { bo: 4, bi: 2, bd: -12 }],
    ['addi', { rt: 8, ra0: 8, si: -1 }],
    ['cmpi', { bf: 0, l: 0, ra: 8, si: 0 }],
    ['bc', { bo: 4, bi: 2, bd: -24 }],
    stop,
  ];
  for (const width of [1, 2, 3, 4, 5, 7]) {
    const machine = pair('be', loop, loop);
    const third = machine.addCpu();
    for (const cpu of [0, 1, third]) {
      machine.switchTo(cpu);
      if (cpu === third) machine.setRegister('pc', START);
      machine.setRegister('r4', DATA);
      machine.setRegister('r7', [1n, 1000n, 1_000_000n][cpu]!);
      machine.setRegister('r8', 50n);
    }
    const steps: ScheduleStep[] = [];
    for (let k = 0; k < 6000; k++) steps.push({ kind: 'run', cpu: (k * 7 + (k >> 3)) % 3, instructions: width });
    const { stops } = runSchedule(machine, steps);
    expect([...stops.values()].map((each) => each.stop.kind)).toEqual(['trap', 'trap', 'trap']);
    expect(machine.readWord(DATA, 8)).toBe(50n * 1_001_001n);
  }
});

describe('schedules', () => {
  const first = [li(3, 1), li(3, 2), li(3, 3), stop];
  const second = [stw(6), ['lwz', { rt: 7, ra0: 4, d: 0 }], stop] as const;

  test('slices are exact, a CPU that stopped takes no further part, results say why', () => {
    const machine = pair('le', first, second);
    const result = runSchedule(machine, [
      ...runs([0, 2], [1, 1]),
      { kind: 'store', address: DATA, width: 2, value: 0xabcdn },
      ...runs([1, 9], [0, 1], [1, 3]),
    ]);
    expect(result.instructions).toEqual([3, 2]);
    expect([...result.stops]).toEqual([
      [1, { step: 3, stop: { kind: 'trap', trap: 'trap-instruction', instruction: START + 24n } }],
    ]);
    expect(machine.cpu).toBe(1);
    expect(machine.register('r7')).toBe(0xabcdn);
    machine.switchTo(0);
    expect(machine.register('r3')).toBe(3n);
  });

  test.each([1, 2, 4, 8] as const)('a patcher store of %i bytes is in target order', (width) => {
    for (const kind of ['le', 'be'] as const) {
      const machine = ppcMachine(kind, [stop]);
      runSchedule(machine, [{ kind: 'store', address: DATA + 1n, width, value: 0x1122_3344_5566_7788n }]);
      const bytes = [...machine.memory.read(DATA, 10)!];
      const expected = [0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88].slice(8 - width);
      if (kind === 'le') expected.reverse();
      expect(bytes).toEqual([0, ...expected, ...new Array<number>(9 - width).fill(0)]);
    }
  });

  test('bad steps are refused', () => {
    const machine = ppcMachine('le', [stop]);
    expect(() => runSchedule(machine, runs([1, 1]))).toThrow(ElftraceError);
    expect(() => runSchedule(machine, [{ kind: 'synchronise', cpu: 3 }])).toThrow(ElftraceError);
    expect(() => runSchedule(machine, [{ kind: 'store', address: 16n, width: 4, value: 0n }])).toThrow(ElftraceError);
  });

  test('F-8: all interleavings of two steps with five boundaries, each once', () => {
    const patcher = [
      { kind: 'store', address: DATA, width: 4, value: 1n },
      { kind: 'store', address: DATA, width: 4, value: 2n },
    ] as const;
    const all = [...interleavings({ cpu: 1, instructions: 4, patcher, after: 2 })];
    expect(all.length).toBe(15);
    expect(
      new Set(all.map((each) => JSON.stringify(each, (_k, v: unknown) => (typeof v === 'bigint' ? `${v}` : v)))).size,
    ).toBe(15);
    for (const each of all) {
      expect(each.reduce((sum, step) => sum + (step.kind === 'run' ? step.instructions : 0), 0)).toBe(6);
      expect(each.filter((step) => step.kind === 'store')).toEqual(patcher);
    }
  });

  test('the same schedule gives the same states', () => {
    const record = (): string => {
      const machine = pair(
        'le',
        [lwarx, ['addi', { rt: 6, ra0: 5, si: 1 }], stwcx, ['b', { li: -12 }]],
        [stw(6), ['b', { li: -4 }]],
      );
      const states: string[] = [];
      for (let k = 0; k < 60; k++) {
        runSchedule(machine, runs([k % 2, (k * 5) % 7]));
        states.push(registersOf(machine));
      }
      return states.join('\n');
    };
    expect(record()).toBe(record());
  });
});

test('hooks on switches see both numbers, several are called in order, and can be taken off', () => {
  const machine = pair('le', [stop], [stop]);
  const seen: string[] = [];
  const off = machine.onSwitch((each, from, to) => {
    expect(each.cpu).toBe(to);
    seen.push(`a${from}${to}`);
  });
  machine.onSwitch((_machine, from, to) => {
    seen.push(`b${from}${to}`);
  });
  machine.switchTo(1);
  machine.switchTo(1);
  off();
  machine.switchTo(0);
  expect(seen).toEqual(['a01', 'b01', 'b10']);
});

describe('watches', () => {
  const lines: PpcLine[] = [
    stw(6), // 0
    ['lwz', { rt: 7, ra0: 4, d: 4 }], // 4
    ['stb', { rs: 6, ra0: 4, d: 3 }], // 8
    ['lwz', { rt: 7, ra0: 4, d: 2 }], // c
    stop, // 10
  ];
  const at = (event: WatchEvent): string =>
    `${event.access} ${(event.address - DATA).toString()}+${event.size} at ${(event.instruction - START).toString()}`;

  test('are called before the access with exact state; memory beside the range is not seen', () => {
    const machine = ppcMachine('be', lines);
    machine.setRegister('r4', DATA);
    machine.setRegister('r6', 0x1122_3344n);
    const seen: string[] = [];
    const values: (bigint | null)[] = [];
    const off = machine.watch({ address: DATA + 3n, size: 1, access: 'any' }, (each, event) => {
      seen.push(at(event));
      expect(each.register('pc')).toBe(event.instruction);
      expect(BigInt(each.instructions)).toBe((event.instruction - START) / 4n);
      values.push(each.readWord(DATA, 4));
      if (event.access === 'write') expect(event.bytes!.at(-1)).toBe(0x44);
      return 'continue';
    });
    expect(machine.run().kind).toBe('trap');
    expect(seen).toEqual(['write 0+4 at 0', 'write 3+1 at 8', 'read 2+4 at 12']);
    expect(values).toEqual([0n, 0x1122_3344n, 0x1122_3344n]);
    expect(machine.register('r7')).toBe(0x3344_0000n);
    expect(machine.instructions).toBe(4);
    off();
    machine.setRegister('pc', START);
    machine.run();
    expect(seen.length).toBe(3);
  });

  test('stop before the access, go on past it; budgets stay exact', () => {
    for (const budget of [1, 2, 3, 100]) {
      const machine = ppcMachine('le', [...lines.slice(0, 4), ['b', { li: -16 }]]);
      machine.setRegister('r4', DATA);
      let stops = 0;
      machine.watch({ address: DATA, size: 4, access: 'write' }, () => 'stop');
      while (machine.instructions < 50) {
        const before = machine.instructions;
        const result = machine.run({ budget: Math.min(budget, 50 - before) });
        if (result.kind === 'hook') {
          stops++;
          expect(result.watch?.access).toBe('write');
          expect(machine.register('pc')).toBe(result.address);
          expect((machine.instructions - before) % 5).toBeLessThan(budget + 1);
        } else expect(machine.instructions).toBe(before + Math.min(budget, 50 - before));
      }
      expect(stops).toBe(20);
    }
  });

  test('every access of one instruction is seen once, in order', () => {
    const machine = ppcMachine('32', [['stmw', { rs: 27, ra0: 4, d: 0 }], ['lmw', { rt: 27, ra0: 4, d: 0 }], stop]);
    machine.setRegister('r4', DATA);
    for (let k = 27; k < 32; k++) machine.setRegister(`r${k}`, BigInt(k));
    const seen: string[] = [];
    machine.watch({ address: DATA + 4n, size: 9, access: 'any' }, (_machine, event) => {
      seen.push(at(event));
      return 'continue';
    });
    expect(machine.run().kind).toBe('trap');
    expect(seen).toEqual([
      'write 4+4 at 0', 'write 8+4 at 0', 'write 12+4 at 0', 'read 4+4 at 4', 'read 8+4 at 4', 'read 12+4 at 4',
    ]); // prettier-ignore
    expect(machine.readWord(DATA + 16n, 4)).toBe(31n);
  });

  test('hooks may redirect the CPU', () => {
    const machine = ppcMachine('le', lines);
    machine.setRegister('r4', DATA);
    machine.watch({ address: DATA, size: 1, access: 'write' }, (each) => {
      each.setRegister('pc', START + 16n);
      return 'continue';
    });
    expect(machine.run()).toEqual({ kind: 'trap', trap: 'trap-instruction', instruction: START + 16n });
    expect(machine.instructions).toBe(0);
  });

  test('in code that writes itself', () => {
    const machine = ppcMachine('le', [stw(6, 8), ['addi', { rt: 3, ra0: 3, si: 1 }], li(3, 1), stop], {
      permission: 'rwx',
    });
    machine.setRegister('r4', START);
    machine.setRegister('r6', 0x3860_0063n); // li r3,99
    let calls = 0;
    machine.watch({ address: START, size: 0x100, access: 'write' }, () => {
      calls++;
      return 'continue';
    });
    expect(machine.run().kind).toBe('trap');
    expect(calls).toBe(1);
    expect(machine.register('r3')).toBe(99n);
  });
});

describe('virtual time', () => {
  test('the time base counts instructions of all CPUs and is the same in every run', () => {
    const loop: PpcLine[] = [
      ['mfspr', { rt: 3, spr: 268 }],
      ['addi', { rt: 5, ra0: 5, si: 1 }],
      ['b', { li: -8 }],
    ];
    const record = (): bigint[] => {
      const machine = pair('le', loop, loop);
      const times: bigint[] = [];
      for (let k = 0; k < 20; k++) {
        runSchedule(machine, runs([k % 2, 1 + k]));
        times.push(machine.register('r3'), machine.time);
      }
      return times;
    };
    const times = record();
    expect(record()).toEqual(times);
    const clock = times.filter((_, k) => k % 2 === 1);
    expect(clock.at(-1)).toBe(210n);
    const seen = times.filter((_, k) => k % 2 === 0);
    expect(seen.slice(0, 4)).toEqual([0n, 1n, 5n, 7n]);
    for (let k = 1; k < seen.length; k++) expect(seen[k]!).toBeGreaterThan(seen[k - 1]!);
    expect(TIME_HZ).toBe(1_000_000_000);
  });
});
