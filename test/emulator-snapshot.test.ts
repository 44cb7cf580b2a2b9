/** Snapshots, comparison of states, and the first instruction after which two machines differ. */
import { describe, expect, test } from '@jest/globals';
import {
  compareStates,
  firstDivergence,
  Machine,
  registersOf as savedRegisters,
  runSchedule,
} from '../src/emulator/index.js';
import type { Difference, Divergence, DivergenceOptions } from '../src/emulator/index.js';
import type { Block, Lifter, Op } from '../src/machine/ir.js';
import { ElftraceError } from '../src/errors.js';
import {
  buildPpc,
  ppcEmulation,
  ppcGcc,
  ppcMachine,
  PROGRAMS,
  ppcWords,
  registersOf,
  startPpc,
} from './support/emulator.js';
import type { PpcLine } from './support/emulator.js';
import { join } from 'node:path';
import { describeWith } from './support/tools.js';

const START = 0x1_0000n;
const DATA = 0x2_0000n;
const add = (rt: number, si: number): PpcLine => ['addi', { rt, ra0: rt, si }];

/** r3 counts; sums go to 64 words of memory in turn; r5 = sum of them. */
const LINES: readonly PpcLine[] = [
  add(3, 1), // 0
  ['add', { rt: 5, ra: 5, rb: 3, oe: 0, rc: 0 }], // 4
  ['rlwinm', { rs: 3, ra: 6, sh: 2, mb: 24, me: 29, rc: 0 }], // 8
  ['stwx', { rs: 5, ra0: 4, rb: 6 }], // c
  ['cmpi', { bf: 0, l: 0, ra: 3, si: 20_000 }], // 10
  ['bc', { bo: 4, bi: 2, bd: -20 }], // 14
  ['tw', { to: 31, ra: 0, rb: 0 }], // 18
];

function machineOf(lines: readonly PpcLine[] = LINES): Machine {
  const machine = ppcMachine('le', lines);
  machine.setRegister('r4', DATA);
  return machine;
}

const differences = (a: Machine, b: Machine): readonly Difference[] => compareStates(a.snapshot(), b.snapshot());

describe('snapshots', () => {
  test('restored, a run goes on as it did, at any distance', () => {
    for (const [before, after] of [
      [0, 1],
      [1, 1],
      [5, 300],
      [777, 5000],
    ] as const) {
      const machine = machineOf();
      machine.run({ budget: before });
      const saved = machine.snapshot();
      machine.run({ budget: after });
      const once = machine.snapshot();
      machine.restore(saved);
      expect(compareStates(machine.snapshot(), saved)).toEqual([]);
      expect(machine.instructions).toBe(before);
      machine.run({ budget: after });
      expect(compareStates(machine.snapshot(), once)).toEqual([]);
      expect(savedRegisters(once).get('r3')).toBe(machine.register('r3'));
      expect(savedRegisters(once).get('pc')).toBe(machine.register('pc'));
    }
  });

  test('a snapshot does not change when the machine runs on', () => {
    const machine = machineOf();
    const saved = machine.snapshot();
    const text = (): string =>
      [...savedRegisters(saved)].join() + saved.windows.map((each) => each.bytes.join('')).join();
    const before = text();
    machine.run({ budget: 1000 });
    expect(text()).toBe(before);
  });

  test('code that was overwritten comes back', () => {
    const machine = machineOf([add(3, 1), ['b', { li: -4 }]]);
    machine.run({ budget: 10 });
    const saved = machine.snapshot();
    machine.memory.write(START, ppcWords('le', [add(3, 100)]));
    machine.run({ budget: 10 });
    expect(machine.register('r3')).toBe(505n);
    machine.restore(saved);
    machine.run({ budget: 10 });
    expect(machine.register('r3')).toBe(10n);
  });

  test('windows that were mapped, removed, grown or protected come back', () => {
    const machine = machineOf();
    machine.map({ address: 0x5_0000n, size: 0x3000, permission: 'rw', name: 'x' });
    machine.memory.write(0x5_0800n, Uint8Array.of(1, 2, 3));
    const saved = machine.snapshot();
    machine.memory.unmap(0x5_1000n, 0x1000);
    machine.memory.protect(DATA, 0x1000, 'r');
    machine.map({ address: 0x9_0000n, size: 100, permission: 'rw' });
    machine.memory.write(0x5_0800n, Uint8Array.of(9, 9, 9));
    expect(differences(machine, machineOf()).map((each) => each.kind)).toContain('window');
    machine.restore(saved);
    expect(compareStates(machine.snapshot(), saved)).toEqual([]);
    expect(machine.memory.windows.map(({ address, size, permission }) => [address, size, permission])).toEqual([
      [START, 0x1000, 'rx'],
      [DATA, 0x1000, 'rw'],
      [0x5_0000n, 0x3000, 'rw'],
    ]);
    expect([...machine.memory.read(0x5_0800n, 3)!]).toEqual([1, 2, 3]);
  });

  test('several CPUs: registers, the running one, reservations, added CPUs, what was fetched', () => {
    for (const fetch of ['coherent', 'buffered'] as const) {
      const machine = new Machine({ lifter: ppcEmulation('le').lifter, fetch });
      const lines: PpcLine[] = [['lwarx', { rt: 5, ra0: 0, rb: 4, eh: 0 }], add(6, 1), ['stwcx.', { rs: 6, ra0: 0, rb: 4 }], ['b', { li: -12 }]]; // prettier-ignore
      machine.load(START, ppcWords('le', lines), { permission: 'rx' });
      machine.map({ address: DATA, size: 0x1000, permission: 'rw' });
      machine.addCpu();
      for (const cpu of [0, 1]) {
        machine.switchTo(cpu);
        machine.setRegister('pc', START);
        machine.setRegister('r4', DATA);
      }
      // CPU 0 holds a reservation; CPU 1 runs.
      runSchedule(machine, [
        { kind: 'run', cpu: 0, instructions: 2 },
        { kind: 'run', cpu: 1, instructions: 1 },
      ]);
      machine.memory.write(START + 4n, ppcWords('le', [add(6, 50)]));
      const saved = machine.snapshot();
      const rest = (): string => {
        const states: string[] = [];
        runSchedule(machine, [
          { kind: 'run', cpu: 1, instructions: 2 },
          { kind: 'run', cpu: 0, instructions: 1 },
        ]);
        states.push(registersOf(machine), machine.staleLines(0).join());
        machine.switchTo(1);
        states.push(registersOf(machine), `${machine.time}`);
        return states.join('\n');
      };
      const once = rest();
      machine.addCpu();
      machine.switchTo(2);
      machine.restore(saved);
      expect(machine.cpuCount).toBe(2);
      expect(machine.cpu).toBe(1);
      expect(rest()).toBe(once);
      // CPU 1 stored first, so CPU 0 lost its reservation.
      expect(machine.readWord(DATA, 4)).toBe(fetch === 'coherent' ? 50n : 1n);
    }
  });

  test('parts of the state that are outside the machine', () => {
    const machine = machineOf();
    let log: string[] = [];
    const off = machine.addState(() => {
      const kept = [...log];
      return () => {
        log = [...kept];
      };
    });
    log.push('a');
    const saved = machine.snapshot();
    log.push('b');
    machine.restore(saved);
    expect(log).toEqual(['a']);
    off();
    expect(machine.snapshot().parts.length).toBe(0);
  });

  test('a snapshot of another kind of machine is refused', () => {
    const other = new Machine({ lifter: ppcEmulation('be').lifter });
    const buffered = new Machine({ lifter: ppcEmulation('le').lifter, fetch: 'buffered' });
    for (const each of [other, buffered]) {
      expect(() => {
        each.restore(machineOf().snapshot());
      }).toThrow(ElftraceError);
    }
    expect(() => compareStates(other.snapshot(), machineOf().snapshot())).toThrow(ElftraceError);
  });
});

describe('comparison', () => {
  test('names registers and runs of bytes', () => {
    const [a, b] = [machineOf(), machineOf()];
    expect(differences(a, b)).toEqual([]);
    b.setRegister('r7', 5n);
    b.setRegister('cr', 0x4000_0000n);
    b.memory.write(DATA + 0x101n, Uint8Array.of(1, 2, 3));
    b.memory.write(DATA + 0x108n, Uint8Array.of(4));
    b.memory.write(DATA + 0xfffn, Uint8Array.of(5));
    expect(differences(a, b)).toEqual([
      { kind: 'register', cpu: 0, name: 'r7', a: 0n, b: 5n },
      { kind: 'register', cpu: 0, name: 'cr', a: 0n, b: 0x4000_0000n },
      { kind: 'memory', address: DATA + 0x101n, a: new Uint8Array(8), b: Uint8Array.of(1, 2, 3, 0, 0, 0, 0, 4) },
      { kind: 'memory', address: DATA + 0xfffn, a: Uint8Array.of(0), b: Uint8Array.of(5) },
    ]);
    const options = { ignoreRegisters: ['r7', 'cr'], ignoreMemory: [{ address: DATA + 0x100n, size: 0x100 }], max: 1 };
    expect(compareStates(a.snapshot(), b.snapshot(), options)).toEqual([
      { kind: 'memory', address: DATA + 0xfffn, a: Uint8Array.of(0), b: Uint8Array.of(5) },
    ]);
    a.addCpu();
    a.step();
    expect(differences(a, b).slice(0, 2)).toEqual([
      { kind: 'cpus', a: 2, b: 1 },
      { kind: 'instructions', cpu: 0, a: 1, b: 0 },
    ]);
  });

  test('flags are compared as flags: the same bits from a comparison and from a move are equal', () => {
    const compared = machineOf([['cmpi', { bf: 0, l: 0, ra: 3, si: 5 }]]);
    compared.step();
    const moved = machineOf([add(3, 0)]);
    moved.step();
    moved.setRegister('cr', 0x8000_0000n);
    const found = differences(compared, moved);
    expect(found.map((each) => each.kind)).toEqual(['memory']);
  });
});

/** A front end whose instruction at one address is changed. */
function broken(lifter: Lifter, at: bigint, change: (block: Block) => readonly Op[]): Lifter {
  return {
    ...lifter,
    lift(code, address, limits) {
      const block = lifter.lift(code, address, { ...limits, startsAt: (each) => each === at || limits.startsAt(each) });
      return address === at ? { ...block, ops: change(block) } : block;
    },
  };
}

describe('the first divergent instruction', () => {
  const found = (a: Machine, b: Machine, options: DivergenceOptions = {}): Divergence => {
    const result = firstDivergence(a, b, options);
    if (result.kind !== 'differ') throw new ElftraceError('internal', 'no divergence was found');
    return result.at;
  };
  const { lifter } = ppcEmulation('le');
  const make = (each: Lifter): Machine => {
    const machine = new Machine({ lifter: each });
    machine.load(START, ppcWords('le', LINES), { permission: 'rx', size: 0x1000 });
    machine.map({ address: DATA, size: 0x1000, permission: 'rw' });
    machine.setRegister('pc', START);
    machine.setRegister('r4', DATA);
    return machine;
  };

  test.each([undefined, 1000, 7, 100_000])('a lifter that adds wrongly when r3 is 999, in slices of %s', (slice) => {
    const r3 = lifter.slots.slot('r3');
    const wrong = broken(lifter, START, ({ ops }) => {
      const [first] = ops;
      const isLate = { ...first!, op: 'seteq', d: lifter.slots.firstTemporary, a: r3, b: 999n } as const;
      const more = { ...first!, op: 'add', d: r3, a: r3, b: lifter.slots.firstTemporary } as const;
      return [isLate, ...ops.slice(0, 1), more, ...ops.slice(1)];
    });
    const at = found(make(lifter), make(wrong), slice === undefined ? {} : { slice });
    expect(at.instructions).toBe(999 * 6);
    expect(at.before.cpus[0]!.pc).toBe(START);
    expect(savedRegisters(at.before).get('r3')).toBe(999n);
    expect(at.differences).toEqual([{ kind: 'register', cpu: 0, name: 'r3', a: 1000n, b: 1001n }]);
    expect([at.a.address, at.b.address]).toEqual([START, START]);
    expect([...at.a.bytes]).toEqual([...ppcWords('le', [add(3, 1)])]);
    expect(savedRegisters(at.a.state).get('r3')).toBe(1000n);
    expect(savedRegisters(at.b.state).get('r3')).toBe(1001n);
  });

  test('a lifter that stores wrongly: the difference is in memory only', () => {
    const wrong = broken(lifter, START + 12n, ({ ops }) =>
      ops.map((op) => (op.op === 'st32' ? { ...op, op: 'st16' } : op)),
    );
    const at = found(make(lifter), make(wrong));
    // Sums beyond 16 bits begin with r3 = 362 (362 * 363 / 2 = 65703).
    expect(savedRegisters(at.before).get('r3')).toBe(362n);
    expect(at.a.address).toBe(START + 12n);
    expect(at.differences).toEqual([
      { kind: 'memory', address: DATA + 0xa8n + 2n, a: Uint8Array.of(1), b: Uint8Array.of(0) },
    ]);
  });

  test('patched code: the machines go different ways, the code itself is no difference', () => {
    const [a, b] = [machineOf(), machineOf()];
    // The comparison with 20,000 becomes one with 500.
    b.memory.write(START + 0x10n, ppcWords('le', [['cmpi', { bf: 0, l: 0, ra: 3, si: 500 }]]));
    const at = found(a, b);
    expect(at.a.address).toBe(START + 0x10n);
    expect(at.a.bytes).not.toEqual(at.b.bytes);
    // Immediately: 1 is less than both, so the first difference is where the flags differ.
    expect(savedRegisters(at.before).get('r3')).toBe(500n);
    expect(at.differences.map((each) => (each.kind === 'register' ? each.name : each.kind))).toEqual(['cr']);
    // Both machines stand behind the instruction.
    expect([a.register('pc'), b.register('pc')]).toEqual([START + 0x14n, START + 0x14n]);
    expect(a.instructions).toBe(at.instructions + 1);
  });

  test('one side stops: a fault, an unknown instruction', () => {
    const [a, b] = [machineOf(), machineOf()];
    b.memory.protect(DATA + 0x80n, 0x80, 'r');
    expect(() => firstDivergence(a, b)).toThrow(ElftraceError);
    const [c, d] = [machineOf(), machineOf()];
    d.memory.write(START + 0x18n, Uint8Array.of(0, 0, 0, 0));
    const at = found(c, d);
    expect(at.instructions).toBe(6 * 20_000);
    expect([at.a.stop.kind, at.b.stop.kind]).toEqual(['trap', 'unknown-instruction']);
    expect(at.differences).toEqual([]);
  });

  test('equal machines: how both ended', () => {
    expect(firstDivergence(machineOf(), machineOf())).toEqual({
      kind: 'equal',
      end: { instructions: 6 * 20_000, stop: { kind: 'trap', trap: 'trap-instruction', instruction: START + 0x18n } },
    });
    expect(firstDivergence(machineOf(), machineOf(), { budget: 5000, slice: 999 })).toEqual({
      kind: 'equal',
      end: { instructions: 5000, stop: { kind: 'step-limit' } },
    });
    const other = machineOf();
    other.setRegister('r9', 1n);
    expect(() => firstDivergence(machineOf(), other)).toThrow(ElftraceError);
    expect(firstDivergence(machineOf(), other, { ignoreRegisters: ['r9'] }).kind).toBe('equal');
  });
});

describeWith([ppcGcc('le')], 'programs', () => {
  test('a snapshot in the middle of a program, with its stack and heap', () => {
    const path = buildPpc('le', '1', [join(PROGRAMS, 'start.S'), join(PROGRAMS, 'sort.c')]);
    const here = startPpc('le', path);
    const { machine } = here.process;
    here.process.run({ budget: 20_000 });
    const saved = machine.snapshot();
    const begin = here.output().length;
    const end = here.process.run();
    const output = here.output().slice(begin);
    const total = machine.instructions;
    machine.restore(saved);
    const again = here.output().length;
    expect(here.process.run()).toEqual(end);
    expect(here.output().slice(again)).toBe(output);
    expect(machine.instructions).toBe(total);
  });
});
