/**
 * What `cpuid` can announce on x86-64 is executed: every form that binutils disassembles in the
 * maps of two and three opcode bytes and assembles again for the level.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from '@jest/globals';
import { x86Lifter, x86LifterOf } from '../src/arch-x86/lift.js';
import type { Lifter } from '../src/machine/ir.js';
import { describeWith } from './support/tools.js';
import { formsOf, legacyEncodings, LEVEL_2, LEVEL_3, slotOf, vexBytes, vexForms } from './support/x86-forms.js';

/** Texts of those that stop with their name, and are only decoded. */
function stopped(lifter: Lifter, forms: ReadonlyMap<string, Uint8Array>): string[] {
  return [...forms].flatMap(([text, bytes]) => {
    const limits = { maxInstructions: 1, startsAt: (): boolean => false };
    return lifter.lift(slotOf(bytes), 0x1_0000n, limits).terminator.kind === 'unknown' ? [text] : [];
  });
}

function inFolder(run: (folder: string) => void): void {
  const folder = mkdtempSync(join(tmpdir(), 'x86-forms-'));
  try {
    run(folder);
  } finally {
    rmSync(folder, { recursive: true });
  }
}

function expectNames(forms: ReadonlyMap<string, Uint8Array>, count: number, names: string): void {
  expect(forms.size).toBeGreaterThan(count);
  const texts = [...forms.keys()];
  for (const name of names.split(' '))
    expect([name, texts.some((text) => text.startsWith(name))]).toEqual([name, true]);
}

describeWith(['objdump', 'as'], 'x86-64', () => {
  test('each form of x86-64-v2 is executed', () => {
    inFolder((folder) => {
      const forms = formsOf(folder, LEVEL_2, legacyEncodings());
      expectNames(forms, 3000, 'addsubps pshufb dpps pcmpistri crc32 popcnt cmpxchg16b');
      expect(stopped(x86Lifter, forms)).toEqual([]);
    });
  });

  test('each form of x86-64-v3 is executed, and without it those of AVX stop with their name', () => {
    inFolder((folder) => {
      const lifter = x86LifterOf('x86-64-v3');
      const legacy = formsOf(folder, LEVEL_3, legacyEncodings());
      expectNames(legacy, 3000, 'xsave64 xrstor64 lzcnt movbe tzcnt');
      expect(stopped(lifter, legacy)).toEqual([]);
      const vex = formsOf(folder, LEVEL_3, vexForms().map(vexBytes));
      expectNames(vex, 1100, 'vaddps vpermd vgatherqps vpmaskmovq vfmsubadd231pd vcvtps2ph vzeroupper vpblendvb pdep');
      expect(stopped(lifter, vex)).toEqual([]);
      const onVectors = [...vex.keys()].filter((text) => text.startsWith('v'));
      expect(stopped(x86Lifter, vex).sort()).toEqual(onVectors.sort());
      expect(stopped(x86LifterOf('x86-64-v2'), vex)).toHaveLength(onVectors.length);
    });
  });
});
