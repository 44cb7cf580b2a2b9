/**
 * Instruction fetch per CPU (F-7): stale code until a CPU synchronises, and nothing of it
 * in coherent mode.
 */
import { describe, expect, test } from '@jest/globals';
import { Machine, runSchedule } from '../src/emulator/index.js';
import type { FetchMode, MachineOptions, ScheduleStep } from '../src/emulator/index.js';
import { ElftraceError } from '../src/errors.js';
import { ppcEmulation, ppcWords, registersOf } from './support/emulator.js';
import type { PpcKind, PpcLine } from './support/emulator.js';
import { interleavings } from './support/interleavings.js';

const START = 0x1_0000n;
const TRACER = START + 0x800n;
const NOP: PpcLine = ['ori', { rs: 0, ra: 0, ui: 0 }];
const ISYNC: PpcLine = ['isync'];
const STOP: PpcLine = ['tw', { to: 31, ra: 0, rb: 0 }];
const add = (rt: number, si: number): PpcLine => ['addi', { rt, ra0: rt, si }];
const branch = (from: number, to: number): PpcLine => ['b', { li: to - from }];

function wordOf(kind: PpcKind, line: PpcLine): bigint {
  const bytes = ppcWords(kind, [line]);
  if (kind === 'le') bytes.reverse();
  return bytes.reduce((sum, byte) => (sum << 8n) | BigInt(byte), 0n);
}

/** A machine with `cpus` CPUs that all begin at START. The tracer at TRACER counts in r9. */
function machineOf(
  kind: PpcKind,
  lines: readonly PpcLine[],
  fetch: FetchMode,
  options: Partial<MachineOptions> & { readonly cpus?: number } = {},
): Machine {
  const { cpus = 2, ...rest } = options;
  const machine = new Machine({ lifter: ppcEmulation(kind).lifter, fetch, ...rest });
  machine.map({ address: START, size: 0x2000, permission: 'rwx' });
  machine.memory.write(START, ppcWords(kind, lines));
  machine.memory.write(TRACER, ppcWords(kind, [add(9, 1), ['bclr', { bo: 20, bi: 0, bh: 0 }]]));
  while (machine.cpuCount < cpus) machine.addCpu();
  for (let cpu = cpus - 1; cpu >= 0; cpu--) {
    machine.switchTo(cpu);
    machine.setRegister('pc', START);
    machine.setRegister('r4', START);
  }
  return machine;
}

/** A function with a patch site, called in a loop: nop; r3 += 1. */
const LOOP = [NOP, add(3, 1), branch(8, 0)];
const CALL: PpcLine = ['bl', { li: 0x800 }];
const run = (cpu: number, instructions: number): ScheduleStep => ({ kind: 'run', cpu, instructions });

const value = (machine: Machine, cpu: number, name: string): bigint => {
  machine.switchTo(cpu);
  return machine.register(name);
};

describe.each(['le', 'be', '32'] as const)('a patched call site on %s', (kind) => {
  const patch = { kind: 'store', address: START, width: 4, value: wordOf(kind, CALL) } as const;

  test('H10: CPU 1 goes on with the nop until it synchronises; coherent CPUs call at once', () => {
    const buffered = machineOf(kind, LOOP, 'buffered');
    runSchedule(buffered, [run(1, 30), patch, run(1, 300)]);
    expect([value(buffered, 1, 'r3'), value(buffered, 1, 'r9')]).toEqual([110n, 0n]);
    expect(buffered.staleLines(1)).toEqual([START]);
    expect(buffered.readWord(START, 4)).toBe(wordOf(kind, CALL));
    runSchedule(buffered, [{ kind: 'synchronise', cpu: 1 }, run(1, 50)]);
    expect([value(buffered, 1, 'r3'), value(buffered, 1, 'r9')]).toEqual([120n, 10n]);
    expect(buffered.staleLines(1)).toEqual([]);

    const coherent = machineOf(kind, LOOP, 'coherent');
    runSchedule(coherent, [run(1, 30), patch, run(1, 50)]);
    expect([value(coherent, 1, 'r3'), value(coherent, 1, 'r9')]).toEqual([20n, 10n]);
    expect(coherent.synchronise(1)).toBe(false);
  });

  test('a CPU that had not fetched the line executes the new bytes', () => {
    const machine = machineOf(kind, LOOP, 'buffered', { cpus: 3 });
    runSchedule(machine, [run(1, 30), patch, run(1, 3), run(2, 50), run(0, 5)]);
    expect([0, 1, 2].map((cpu) => value(machine, cpu, 'r9'))).toEqual([1n, 0n, 10n]);
    expect([0, 1, 2].map((cpu) => machine.staleLines(cpu))).toEqual([[], [START], []]);
  });

  test('isync of the guest synchronises its own CPU only', () => {
    const lines = [NOP, add(3, 1), add(8, -1), ['cmpi', { bf: 0, l: 0, ra: 8, si: 0 }], ['bc', { bo: 4, bi: 2, bd: -16 }], ISYNC, branch(24, 0)] as const; // prettier-ignore
    const machine = machineOf(kind, lines, 'buffered');
    for (const cpu of [0, 1]) {
      machine.switchTo(cpu);
      machine.setRegister('r8', 6n);
      machine.run({ budget: 10 });
    }
    runSchedule(machine, [patch, run(1, 19)]);
    // Six rounds with the nop, no isync yet.
    expect([value(machine, 1, 'r3'), value(machine, 1, 'r9')]).toEqual([6n, 0n]);
    machine.run({ budget: 11 });
    expect(machine.register('r9')).toBe(1n);
    expect(machine.staleLines(0)).toEqual([START]);
    expect(machine.staleLines(1)).toEqual([]);
  });

  test('system calls and traps synchronise', () => {
    for (const line of [['sc', { lev: 0 }], STOP] as readonly PpcLine[]) {
      const machine = machineOf(kind, [NOP, line, branch(8, 0)], 'buffered', { syscall: () => ({ kind: 'next' }) });
      runSchedule(machine, [run(1, 1), patch]);
      expect(machine.staleLines(1)).toEqual([START]);
      machine.run({ budget: 1 });
      expect(machine.staleLines(1)).toEqual([]);
    }
  });

  test('F-8: at every boundary, with the synchronisation no call is missed afterwards, without it some are', () => {
    const missed = (steps: readonly ScheduleStep[], synchronised: boolean): boolean => {
      const machine = machineOf(kind, LOOP, 'buffered');
      machine.switchTo(1);
      const all = synchronised ? steps : steps.filter((each) => each.kind !== 'synchronise');
      let counted = 0n;
      let begun = 0n;
      // Counted from when the patcher is done: entries of the function and calls of the tracer.
      runSchedule(machine, all, {
        onStep: (_step, index) => {
          if (index !== all.length - 1) return;
          counted = machine.register('r9');
          begun = machine.register('r3');
        },
      });
      const calls = value(machine, 1, 'r9') - counted;
      const bodies = value(machine, 1, 'r3') - begun;
      // The body in which the patcher finished may have begun before.
      return calls < bodies - 1n;
    };
    const schedules = [...interleavings({ cpu: 1, instructions: 12, patcher: [patch, { kind: 'synchronise', cpu: 1 }], after: 30 })]; // prettier-ignore
    expect(schedules.length).toBe(91);
    expect(schedules.filter((each) => missed(each, true))).toEqual([]);
    // Only a patch before the first instruction is seen without it.
    expect(schedules.filter((each) => missed(each, false)).length).toBe(91 - 13);
  });
});

describe('the model', () => {
  const patchOf = (at: number, line: PpcLine): ScheduleStep => ({
    kind: 'store', address: START + BigInt(at), width: 4, value: wordOf('le', line),
  }); // prettier-ignore

  test('a site in two lines may be seen half old, half new', () => {
    const lines = new Array<PpcLine>(15).fill(NOP);
    // Words at 0x3c and 0x40: r3 += 1 and r3 += 1, patched to r5 += 1 and r5 += 1.
    const machine = machineOf('le', [...lines, add(3, 1), add(3, 1), STOP], 'buffered');
    runSchedule(machine, [run(1, 10), patchOf(0x3c, add(5, 1)), patchOf(0x40, add(5, 1)), run(1, 100)]);
    expect([value(machine, 1, 'r3'), value(machine, 1, 'r5')]).toEqual([1n, 1n]);
  });

  test('lines of 16 bytes; a bad size is refused', () => {
    const lines = [NOP, NOP, NOP, NOP, add(3, 1), STOP];
    for (const [fetchLineBytes, expected] of [
      [16, 100n],
      [64, 1n],
    ] as const) {
      const machine = machineOf('le', lines, 'buffered', { fetchLineBytes });
      runSchedule(machine, [run(1, 2), patchOf(0x10, add(3, 100)), run(1, 100)]);
      expect(value(machine, 1, 'r3')).toBe(expected);
    }
    for (const bad of [8, 48, 8192]) {
      expect(() => machineOf('le', lines, 'buffered', { fetchLineBytes: bad })).toThrow(ElftraceError);
    }
  });

  test('what was fetched does not depend on how a run is cut', () => {
    const lines = [...new Array<PpcLine>(16).fill(NOP), add(3, 1), STOP];
    for (const cut of [[16], [8, 8], [1, 15], [15, 1], new Array<number>(16).fill(1)]) {
      const machine = machineOf('le', lines, 'buffered');
      // All 16 instructions of the first line are executed, none of the second.
      runSchedule(machine, [...cut.map((each) => run(1, each)), patchOf(0x40, add(3, 100)), run(1, 10)]);
      expect(value(machine, 1, 'r3')).toBe(100n);
    }
    const one = machineOf('le', lines, 'buffered');
    runSchedule(one, [run(1, 17), patchOf(0x40, add(3, 100)), patchOf(0x44, add(3, 7)), run(1, 10)]);
    expect(value(one, 1, 'r3')).toBe(1n);
  });

  test('indirect branches: what was only looked up is not fetched, what was executed is', () => {
    const far = START + 0x1000n;
    for (const [instructions, expected] of [
      [2, 50n],
      [3, 1n],
    ] as const) {
      const machine = machineOf('le', [NOP, ['bcctr', { bo: 20, bi: 0, bh: 0 }]], 'buffered');
      machine.memory.write(far, ppcWords('le', [NOP, add(3, 1), STOP]));
      machine.switchTo(1);
      machine.setRegister('ctr', far);
      runSchedule(machine, [run(1, instructions), patchOf(0x1004, add(3, 50)), run(1, 10)]);
      expect(value(machine, 1, 'r3')).toBe(expected);
    }
  });

  test('the oldest bytes are kept over several stores, and data accesses see the new ones', () => {
    const machine = machineOf('le', [add(3, 1), ['lwz', { rt: 7, ra0: 4, d: 0 }], branch(8, 0)], 'buffered');
    runSchedule(machine, [run(1, 3), patchOf(0, add(3, 10)), run(1, 3), patchOf(0, add(3, 100)), run(1, 3)]);
    expect(value(machine, 1, 'r3')).toBe(3n);
    // Single steps fetch the line once more, from what was kept.
    for (let k = 0; k < 3; k++) machine.step();
    expect(machine.register('r3')).toBe(4n);
    expect(machine.register('r7')).toBe(wordOf('le', add(3, 100)));
    machine.synchronise(1);
    machine.run({ budget: 3 });
    expect(machine.register('r3')).toBe(104n);
  });

  test('a CPU that overwrites its own code, or that of another, by its own stores', () => {
    // stw r6 -> the word at 0x10 of the same line; r3 tells which instruction was executed.
    const lines: PpcLine[] = [['stw', { rs: 6, ra0: 4, d: 0x10 }], NOP, NOP, NOP, add(3, 1), branch(0x14, 0)];
    const own = machineOf('le', lines, 'buffered');
    own.setRegister('r6', wordOf('le', add(3, 100)));
    own.run({ budget: 12 });
    expect(own.register('r3')).toBe(2n);
    own.synchronise();
    own.run({ budget: 6 });
    expect(own.register('r3')).toBe(102n);
    const now = machineOf('le', lines, 'coherent');
    now.setRegister('r6', wordOf('le', add(3, 100)));
    now.run({ budget: 12 });
    expect(now.register('r3')).toBe(200n);
    const two = machineOf('le', [...new Array<PpcLine>(16).fill(NOP), ...lines], 'buffered');
    two.setRegister('r6', wordOf('le', add(3, 100)));
    two.setRegister('r4', START + 0x40n);
    runSchedule(two, [run(1, 22), run(0, 22), run(1, 6)]);
    // CPU 0 had not fetched the second line before it executed the store in it, which CPU 1 did
    // before with 0.
    expect(value(two, 0, 'r3')).toBe(0n);
    expect(value(two, 1, 'r3')).toBe(2n);
  });

  test('changes of the map end what was fetched', () => {
    const machine = machineOf('le', LOOP, 'buffered');
    runSchedule(machine, [run(1, 3), patchOf(0, CALL)]);
    expect(machine.staleLines(1)).toEqual([START]);
    machine.memory.protect(START, 0x1000, 'rx');
    expect(machine.staleLines(1)).toEqual([]);
    machine.run({ budget: 5 });
    expect(machine.register('r9')).toBe(1n);
  });

  test('unknown instructions report the bytes that the CPU saw', () => {
    const machine = machineOf('be', [NOP, NOP], 'buffered');
    runSchedule(machine, [run(1, 1), { kind: 'store', address: START + 8n, width: 4, value: 0x1234n }, run(1, 1)]);
    expect(machine.run()).toMatchObject({ kind: 'unknown-instruction', bytes: Uint8Array.of(0, 0, 0, 0) });
  });

  test('without overwritten code a run is the same in both modes', () => {
    const lines: PpcLine[] = [add(3, 1), ISYNC, ['stw', { rs: 3, ra0: 4, d: 0x1000 }], ['lwz', { rt: 5, ra0: 4, d: 0x1000 }], branch(16, 0)]; // prettier-ignore
    const [a, b] = (['coherent', 'buffered'] as const).map((fetch) => {
      const machine = machineOf('32', lines, fetch);
      const states: string[] = [];
      for (let k = 0; k < 100; k++) {
        runSchedule(machine, [run(k % 2, k % 11)]);
        states.push(registersOf(machine), `${machine.instructions}`);
      }
      return states;
    });
    expect(b).toEqual(a);
  });

  test('when the room for translated code is used up, CPUs still see their own bytes', () => {
    const count = 2000;
    const lines = [...new Array<PpcLine>(count).fill(add(3, 1)), branch(4 * count, 0)];
    const machine = new Machine({ lifter: ppcEmulation('le').lifter, fetch: 'buffered', recordBytes: 50_000 });
    machine.load(START, ppcWords('le', lines), { permission: 'rx' });
    machine.setRegister('pc', START);
    machine.addCpu();
    machine.run({ budget: count + 1 });
    for (let k = 0; k < count; k += 100) machine.memory.write(START + BigInt(4 * k), ppcWords('le', [add(3, 100)]));
    machine.run({ budget: count + 1 });
    expect(machine.register('r3')).toBe(BigInt(2 * count));
    machine.synchronise();
    machine.run({ budget: count + 1 });
    expect(machine.register('r3')).toBe(BigInt(3 * count + 20 * 99));
  });
});
