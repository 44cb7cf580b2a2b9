/**
 * x87, MMX, and conversions of SSE against the processor of this machine: each instruction with
 * special and random operands and stacks, in all rounding modes and precisions, with exceptions
 * masked and not: registers, tags, status word, flags and memory.
 */
import { describe, expect, test } from '@jest/globals';
import { buildProgram, runHere, X86_TARGETS } from './support/c-programs.js';
import { writeSource } from './support/emulator.js';
import { describeWith, runProgramFile } from './support/tools.js';
import {
  ESTIMATE_CASES,
  MMX_CASES,
  MMX_ROWS,
  SSE_CASES,
  TRANSCENDENTAL_CASES,
  sseProgram,
  X87_CASES,
  X87_FLOAT_ROWS,
  x87Program,
} from './support/x86-floats.js';
import { x87Access } from '../src/arch-x86/x87.js';
import { x86Lifter } from '../src/arch-x86/lift.js';
import { Machine } from '../src/emulator/index.js';
import { mmxRows, x87Rows } from './support/x86-batch.js';

const [target] = X86_TARGETS;

describeWith(['gcc'], 'x87', () => {
  test.each([
    ['x87', X87_CASES, 150],
    ['MMX', MMX_CASES, 40],
  ])('%s: each instruction does what it does on this processor, in both tiers', (_name, cases, count) => {
    const program = buildProgram(target!, '2', [writeSource('x87.c', x87Program(cases, count))]);
    const expected = runProgramFile(program);
    expect(expected.status).toBe(0);
    for (const tier of [0, 1] as const) {
      const here = runHere(target!, program, { tier });
      expect(here.end).toBe(0);
      expect(here.output.split('\n')).toEqual(expected.stdout.split('\n'));
    }
  });

  test.each(TRANSCENDENTAL_CASES)('transcendental functions: %s', (name) => {
    const program = buildProgram(target!, '2', [writeSource(`${name}.c`, x87Program([name], 200))]);
    const here = runHere(target!, program).output.split('\n');
    const there = runProgramFile(program).stdout.split('\n');
    expect(here.length).toBeGreaterThan(1200);
    expect(there).toHaveLength(here.length);
    // Lines of a result: its upper bits, and its lower ones with the last one open.
    const integer = (lines: readonly string[], i: number): bigint | null => {
      const [high, low] = [/^high (.*)/.exec(lines[i]!), /^low (.*)/.exec(lines[i + 1] ?? '')];
      return high && low ? (BigInt(`0x${high[1]!}`) << 63n) + BigInt.asUintN(63, BigInt(`0x${low[1]!}`)) : null;
    };
    let others = 0;
    for (let i = 0; i < here.length; i++) {
      const [own, native] = [integer(here, i), integer(there, i)];
      if (own === null || native === null) expect(here[i]).toBe(there[i]);
      else {
        if (own !== native) others++;
        expect([i, own - native <= 1n && native - own <= 1n]).toEqual([i, true]);
        i++;
      }
    }
    expect(others).toBeLessThan(30);
  });

  test('SSE: results and flags in every mode of MXCSR', () => {
    const program = buildProgram(target!, '2', [writeSource('sse.c', sseProgram(SSE_CASES, 700))]);
    const here = runHere(target!, program);
    expect(here.end).toBe(0);
    expect(here.output.split('\n')).toEqual(runProgramFile(program).stdout.split('\n'));
  });

  test('estimates are within 1.5 * 2^-12 of what they estimate, and exact where there is none', () => {
    const program = buildProgram(target!, '2', [writeSource('estimates.c', sseProgram(ESTIMATE_CASES, 500, true))]);
    const number = (line: string): number => {
      const view = new DataView(new ArrayBuffer(4));
      view.setUint32(0, parseInt(line.split(' ')[1] ?? '0', 16));
      return view.getFloat32(0);
    };
    const here = runHere(target!, program).output.split('\n');
    const there = runProgramFile(program).stdout.split('\n');
    expect(here.length).toBeGreaterThan(5000);
    expect(there).toHaveLength(here.length);
    const isNear = (a: string, b: string): boolean => {
      const [x, y] = [number(a), number(b)];
      return a.startsWith('r') && Math.abs(x - y) <= Math.abs(x) * 3 * 2 ** -12;
    };
    expect(here.flatMap((line, i) => (line === there[i] || isNear(line, there[i]!) ? [] : [[line, there[i]]]))).toEqual(
      [],
    );
  });
});

const [CODE, DATA] = [0x1_0000n, 0x2_0000n];

function machineOf(code: readonly number[]): Machine {
  const machine = new Machine({ lifter: x86Lifter });
  machine.load(CODE, Uint8Array.from(code), { permission: 'rx', size: 0x1000 });
  machine.map({ address: DATA, size: 0x1000, permission: 'rw' });
  machine.setRegister('pc', CODE);
  return machine;
}

describe('x87 beside what it computes', () => {
  test('no row that is executed is without a case', () => {
    const names = x87Rows().map(({ row }) => row.mnemonics[1]);
    expect(names.length).toBeGreaterThan(120);
    expect(names.filter((name) => !X87_FLOAT_ROWS.has(name))).toEqual([]);
    const others = mmxRows().map(({ row }) => row.mnemonics[1]);
    expect(others.length).toBeGreaterThan(90);
    expect(others.filter((name) => !MMX_ROWS.has(name))).toEqual([]);
  });

  test('an access that faults changes nothing', () => {
    const memory = x87Rows().filter(({ row }) => (row.modMask & 1) !== 0 && row.operands.includes('M'));
    expect(memory.length).toBeGreaterThan(50);
    for (const { row, opcode } of memory) {
      const reg = Math.log2(row.regMask & -row.regMask);
      for (const size of [2, 4] as const) {
        const { bytes, access } = x87Access(opcode & 7, reg, size);
        // fld1, the instruction on (%rdi), which ends beyond the page.
        const machine = machineOf([0xd9, 0xe8, ...(size === 2 ? [0x66] : []), opcode, (reg << 3) | 7]);
        machine.setRegister('rdi', DATA + 0x1001n - BigInt(bytes));
        expect(machine.run({ budget: 1 }).kind).toBe('step-limit');
        const before = machine.registerNames.map((name) => machine.register(name));
        const stop = machine.run();
        expect(stop).toEqual({ kind: 'fault', address: DATA + 0x1000n, access, instruction: CODE + 2n });
        expect(machine.registerNames.map((name) => machine.register(name))).toEqual(before);
        expect(machine.memory.read(DATA, 0x1000)!.every((each) => each === 0)).toBe(true);
      }
    }
  });

  test('an exception that is noted is raised by the next instruction that waits', () => {
    // fldcw (%rdi); fldz; fld1; fdiv %st(1),%st; fnstsw %ax; the waiting one
    for (const waiting of [[0x9b], [0xd9, 0xe8], [0xd9, 0x2f], [0xdd, 0x17], [0xd9, 0xd0]]) {
      const code = [0xd9, 0x2f, 0xd9, 0xee, 0xd9, 0xe8, 0xd8, 0xf1, 0xdf, 0xe0, ...waiting];
      const machine = machineOf(code);
      machine.setRegister('rdi', DATA);
      machine.memory.write(DATA, Uint8Array.of(0x7b, 0x03));
      expect(machine.run()).toEqual({ kind: 'trap', trap: 'divide', instruction: CODE + 10n });
      expect(machine.register('rax')).toBe(0xb084n);
    }
  });
});
