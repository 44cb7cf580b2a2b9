/**
 * What POWER9 added to vectors, floating point and memory against qemu-user, in both tiers and byte
 * orders: results, VSCR, FPSCR and CR.
 */
import { describe, expect, test } from '@jest/globals';
import type { IrEmulation, Machine } from '../src/emulator/index.js';
import { buildProgram, runHere, runQemu, TARGETS } from './support/c-programs.js';
import { ppcEmulation, ppcMachine, processorOf, writeSource } from './support/emulator.js';
import type { PpcLine } from './support/emulator.js';
import { isWhole, repeats, times } from './support/long.js';
import { floatProgram } from './support/ppc-floats.js';
import {
  DECIMALS_FILL,
  POWER9_ACCESSES,
  POWER9_CASES,
  POWER9_DECIMALS,
  POWER9_FLOATS,
  POWER9_ROWS,
} from './support/ppc-power9.js';
import { namedOnly } from './support/ppc-local.js';
import { vectorProgram } from './support/ppc-vectors.js';
import { describeWith } from './support/tools.js';

type Target = (typeof TARGETS)[number];

/** The target on a POWER9. */
function onPower9(target: Target): Target {
  const power9 = processorOf(target.arch.emulation, 'power9');
  // An arch is made of getters.
  return { ...target, arch: Object.create(target.arch, { emulation: { value: power9 } }) as Target['arch'] };
}

const targets = TARGETS.filter(({ name }) => name.startsWith('ppc64-elfv2'));

function compare(target: Target, source: string, count: number): void {
  const program = buildProgram(target, '1', [writeSource('power9.c', source)]);
  const expected = runQemu(target, program, { flags: ['-cpu', 'power9'] });
  expect(expected.end).toBe(0);
  expect(expected.output.split('\n').length).toBeGreaterThan(count);
  for (const tier of isWhole || target.name.endsWith('le') ? ([0, 1] as const) : ([1] as const)) {
    const here = runHere(onPower9(target), program, { tier });
    expect(here.end).toBe(0);
    expect(here.output.split('\n')).toEqual(expected.output.split('\n'));
  }
}

describe('POWER9', () => {
  for (const target of repeats([...targets].reverse())) {
    describeWith([target.gcc, target.qemu], target.name, () => {
      test('vectors and accesses give what they give under qemu', () => {
        const source = vectorProgram(POWER9_CASES, POWER9_ACCESSES, 'power9', times(1, 3, 9));
        compare(target, source, POWER9_CASES.length + POWER9_ACCESSES.length);
      });

      test('so do decimal numbers', () => {
        const source = vectorProgram(POWER9_DECIMALS, [], 'power9', times(1, 3, 9), DECIMALS_FILL);
        compare(target, source, POWER9_DECIMALS.length);
      });

      test('so do numbers', () => {
        compare(target, floatProgram(POWER9_FLOATS, 'power9'), POWER9_FLOATS.length);
      });
    });
  }
});

/** Registers behind instructions on a POWER9; of memory what is at 0x20000. */
function after(lines: readonly PpcLine[], registers: Readonly<Record<string, bigint>>, memory = new Uint8Array(16)): Machine {
  const machine = ppcMachine('be', lines, { emulation: processorOf(ppcEmulation('be'), 'power9') });
  machine.memory.write(0x2_0000n, memory);
  for (const [name, value] of Object.entries(registers)) machine.setRegister(name, value);
  expect(machine.run({ budget: lines.length }).kind).toBe('step-limit');
  return machine;
} // prettier-ignore

describe('where qemu 7.2 departs from the manual', () => {
  const A = 0x0123_4567_89ab_cdef_fedc_ba98_7654_3210n;
  const SIGN = 1n << 127n;

  test('vrldmi inserts under the mask of vrldnm', () => {
    for (const control of [0x00_3f04n, 0x08_1705n, 0x30_0fffn]) {
      const by = (control << 64n) | control;
      const line = { vrt: 2, vra: 3, vrb: 4 };
      const registers = { v2: ~A & (SIGN * 2n - 1n), v3: A, v4: by };
      const masked = after([['vrldnm', line]], registers).register('v2');
      const mask = after([['vrldnm', line]], { ...registers, v3: 2n * SIGN - 1n }).register('v2');
      expect(after([['vrldmi', line]], registers).register('v2')).toBe(masked | (registers.v2 & ~mask));
    }
  });

  test('xsnmsubqpo is xsmsubqpo, negated', () => {
    const registers = { v2: A >> 2n, v3: (0x3fffn << 112n) + 5n, v4: (0x3ff0n << 112n) + 7n };
    const [plain, negated] = ['xsmsubqp', 'xsnmsubqp'].map((name) =>
      after([[name, { vrt: 2, vra: 3, vrb: 4, ro: 1 }]], registers).register('v2'),
    );
    expect(negated).toBe(plain! ^ SIGN);
    expect(plain! & 1n).toBe(1n);
  });

  test('signed extremes of words in memory; increments that do not happen', () => {
    const memory = Uint8Array.of(0xff, 0xff, 0xff, 0xfe, 0, 0, 0, 3);
    for (const [fc, expected] of [[5, 2n], [7, 0xffff_fffen], [4, 0xffff_fffen], [6, 2n]] as const) {
      const machine = after([['lwat', { rt: 3, ra0: 9, fc }]], { r9: 0x2_0000n, r4: 2n }, memory);
      expect(machine.register('r3')).toBe(0xffff_fffen);
      expect(machine.readWord(0x2_0000n, 4)).toBe(expected);
      const stored = after([['stwat', { rs: 4, ra0: 9, fc }]], { r9: 0x2_0000n, r4: 2n }, memory);
      expect(stored.readWord(0x2_0000n, 4)).toBe(expected);
    }
    const unequal = after([['ldat', { rt: 3, ra0: 9, fc: 25 }]], { r9: 0x2_0000n }, memory);
    expect(unequal.register('r3')).toBe(1n << 63n);
    expect(unequal.readWord(0x2_0000n, 4)).toBe(0xffff_fffen);
    // Bounded by the word below.
    const bounded = after([['lwat', { rt: 3, ra0: 9, fc: 28 }]], { r9: 0x2_0004n }, memory);
    expect([bounded.register('r3'), bounded.readWord(0x2_0004n, 4)]).toEqual([3n, 2n]);
  }); // prettier-ignore

  test('rounding that is left to FPSCR, of numbers of quad precision', () => {
    // -1.5, and its integers towards zero and down.
    const value = 0xbfff_8000n << 96n;
    for (const [rn, integer] of [[1n, 0xbfff_0000n], [3n, 0xc000_0000n]] as const) {
      const line: PpcLine = ['xsrqpi', { r: 0, vrt: 2, vrb: 3, rm: 3 }];
      expect(after([line], { v3: value, fpscr: rn }).register('v2')).toBe(integer << 96n);
    }
  }); // prettier-ignore
});

test('a vector of a length reads and writes no more than that', () => {
  const line = { ra0: 9, rb: 10 };
  const length = 5n << 56n;
  const stored = after([['stxvl', { xs: 34, ...line }]], { r9: 0x2_0ffbn, r10: length, v2: 1n << 120n });
  expect(stored.readWord(0x2_0ffbn, 4)).toBe(0x0100_0000n);
  for (const name of ['lxvl', 'lxvll', 'stxvl', 'stxvll']) {
    const register = name.startsWith('l') ? { xt: 34 } : { xs: 34 };
    const machine = ppcMachine('be', [[name, { ...register, ...line }]], {
      emulation: processorOf(ppcEmulation('be'), 'power9'),
    });
    machine.setRegister('r9', 0x2_0ffcn);
    machine.setRegister('r10', length);
    const access = name.startsWith('l') ? 'read' : 'write';
    expect(machine.run()).toMatchObject({ kind: 'fault', address: 0x2_1000n, access });
    machine.setRegister('r10', 0n);
    machine.setRegister('r9', 0n);
    expect(machine.run({ budget: 1 })).toEqual({ kind: 'step-limit' });
  }
});

test('every row that POWER9 alone executes is compared above', () => {
  const executed = (emulation: IrEmulation): string[] =>
    namedOnly('le').filter(({ word }) => !isUnknown(emulation, word)).map(({ mnemonic }) => mnemonic); // prettier-ignore
  const before = new Set(executed(ppcEmulation('le')));
  const added = executed(processorOf(ppcEmulation('le'), 'power9')).filter((name) => !before.has(name));
  expect(added.filter((name) => !POWER9_ROWS.includes(name))).toEqual(['vrldmi']);
  expect(added.length).toBeGreaterThan(140);
});

function isUnknown({ lifter }: IrEmulation, word: number): boolean {
  const code = new Uint8Array(4);
  new DataView(code.buffer).setUint32(0, word, true);
  const { terminator } = lifter.lift(code, 0x1_0000n, { maxInstructions: 1, startsAt: () => false });
  return terminator.kind === 'unknown';
}
