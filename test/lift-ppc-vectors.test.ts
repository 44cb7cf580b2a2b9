/**
 * VMX and VSX of PowerPC against qemu-user: each instruction with all pairs of corner values and
 * random ones, in registers of both halves of the file, in both tiers and both byte orders.
 */
import { expect, test } from '@jest/globals';
import { ppc64ElfV2Le } from '../src/arch-ppc/index.js';
import { Machine } from '../src/emulator/index.js';
import { buildProgram, runHere, runQemu, TARGETS } from './support/c-programs.js';
import { writeSource } from './support/emulator.js';
import { namedOnly } from './support/ppc-local.js';
import { isWhole, repeats, sampled, times } from './support/long.js';
import { ACCESSES, CASES, vectorProgram } from './support/ppc-vectors.js';
import { describeWith } from './support/tools.js';

const TRIED = sampled(CASES, 2);
const TRIED_ACCESSES = sampled(ACCESSES, 2);

const targets = TARGETS.filter(({ name }) => name.startsWith('ppc64-elfv2'));
for (const target of repeats(targets)) {
  describeWith([target.gcc, target.qemu], `VMX and VSX on ${target.name}`, () => {
    const path = (): string =>
      buildProgram(target, '1', [
        writeSource('vectors.c', vectorProgram(TRIED, TRIED_ACCESSES, 'power8', times(1, 3, 9))),
      ]);

    test('every instruction gives what it gives under qemu', () => {
      const program = path();
      const expected = runQemu(target, program);
      expect(expected.end).toBe(0);
      expect(expected.output.split('\n').length).toBeGreaterThan(TRIED.length + TRIED_ACCESSES.length);
      for (const tier of target === targets[0] || isWhole ? ([0, 1] as const) : ([1] as const)) {
        const here = runHere(target, program, { tier });
        expect(here.end).toBe(0);
        expect(here.output.split('\n')).toEqual(expected.output.split('\n'));
      }
    });
  });
}

test('an access that ends in what is not mapped changes no register', () => {
  const { emulation } = ppc64ElfV2Le;
  if (emulation.kind !== 'ir') throw new Error('no emulation');
  // lxvd2x 34,0,3; lxvw4x 3,0,3; lvx 2,0,3 is aligned and cannot.
  for (const word of [0x7c40_1e99, 0x7c60_1e18]) {
    const machine = new Machine({ lifter: emulation.lifter });
    machine.load(0x1_0000n, new Uint8Array(Uint32Array.of(word).buffer), { permission: 'rx' });
    machine.map({ address: 0x2_0000n, size: 0x1000, permission: 'rw' });
    machine.setRegister('pc', 0x1_0000n);
    machine.setRegister('r3', 0x2_0ff8n);
    machine.setRegister('v2', 0x1234_5678_9abc_def0_0fed_cba9_8765_4321n);
    machine.setRegister('vs3', 0x1111_2222_3333_4444_5555_6666_7777_8888n);
    expect(machine.run()).toMatchObject({ kind: 'fault', address: 0x2_1000n, access: 'read', instruction: 0x1_0000n });
    expect(machine.register('v2')).toBe(0x1234_5678_9abc_def0_0fed_cba9_8765_4321n);
    expect(machine.register('vs3')).toBe(0x1111_2222_3333_4444_5555_6666_7777_8888n);
    expect(machine.register('f3')).toBe(0x1111_2222_3333_4444n);
  }
});

/** Rows of POWER8 that end a block with a helper of vectors or of floating point, by names. */
function callingOut(): string[] {
  const { emulation } = ppc64ElfV2Le;
  if (emulation.kind !== 'ir') throw new Error('no emulation');
  const { lifter } = emulation;
  const limits = { maxInstructions: 1, startsAt: () => false };
  const calls = namedOnly('le').filter(({ word }) => {
    const code = new Uint8Array(Uint32Array.of(word).buffer);
    const { terminator } = lifter.lift(code, 0x1_0000n, limits);
    return terminator.kind === 'helper' && /^(vector|float)$/.test(terminator.name);
  });
  return calls.map(({ mnemonic }) => mnemonic);
}

test('what is not compiled is polynomials, decimal numbers, tests and rare estimates', () => {
  const expected = [
    ...['b', 'h', 'w', 'd'].map((letter) => `vpmsum${letter}`),
    ...['bcdadd.', 'bcdsub.', 'vcmpbfp', 'vexptefp', 'vlogefp'],
    ...['fres', 'frsqrtes', 'xsresp', 'xsrsqrtesp', 'fctiwu', 'fctidu', 'ftdiv', 'ftsqrt'],
    ...['xs', 'xv'].flatMap((start) => [`${start}tdivdp`, `${start}tsqrtdp`]),
    ...['xvtdivsp', 'xvtsqrtsp'],
  ];
  expect(callingOut().sort()).toEqual(expected.sort());
});
