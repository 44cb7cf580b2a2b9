/**
 * Every executable row of the x86-64 opcode map in batches against this processor and qemu-user,
 * and the coverage table: a row without a test, or with a test that leaves out what the row has
 * (equal registers, high bytes, LOCK, repeats, page borders, faults), fails; so does a row that is
 * neither executed nor has a reason.
 */
import { expect, test } from '@jest/globals';
import { x86Coverage } from '../src/arch-x86/lift.js';
import { describeWith } from './support/tools.js';
import {
  allRows,
  Coverage,
  executableRows,
  isNative,
  missingCoverage,
  QEMU_DIFFERENCES,
  runBatches,
} from './support/x86-batch.js';
import { runLocal } from './support/x86-local.js';
import { longTest, times } from './support/long.js';

/** Of the inputs of an instruction each so-many-th is tried. */
const EVERY = times(1, 3, 24);

describeWith(['gcc', 'qemu-x86_64'], 'instruction coverage of x86-64', () => {
  const coverage = new Coverage();

  test('programs of thousands of cases give what they give on this processor and under qemu', () => {
    const result = runBatches(coverage, EVERY);
    expect(result.differences).toEqual([]);
    expect(result.cases).toBeGreaterThan(300_000 / EVERY);
    if (!isNative())
      process.stderr.write('x86-64 batches: not run on this processor, which is none or lacks features\n');
    process.stderr.write(`x86-64: ${result.cases} cases compared with ${result.with.join(' and ')}\n`);
  });

  longTest('faults, window borders, exceptions', () => {
    expect(runLocal(coverage)).toEqual([]);
  });

  longTest('no executable row is without a test', () => {
    expect(executableRows().length).toBeGreaterThan(400);
    expect(missingCoverage(coverage)).toEqual([]);
  });

  test('the coverage check sees a row that nothing executed', () => {
    expect(missingCoverage(new Coverage())).toHaveLength(executableRows().length);
  });

  test('rows that stop say why; integer instructions do not stop', () => {
    const reasons = new Map<string, string[]>();
    for (const { row, encoding, mmx } of allRows()) {
      const found = x86Coverage(row, encoding, mmx);
      if (found.kind !== 'stops') continue;
      reasons.set(found.reason, [...(reasons.get(found.reason) ?? []), row.mnemonics[1]]);
      if (found.reason === 'vectors') {
        expect([row.mnemonics[1], row.operands.some((each) => /^[VWUPQN]/.test(each))]).toEqual([
          row.mnemonics[1],
          true,
        ]);
      }
    }
    expect(reasons.size).toBeLessThan(20);
  });

  test('rows in which qemu is wrong exist', () => {
    const names = executableRows().map((each) => each.row.mnemonics[1]);
    for (const [name] of QEMU_DIFFERENCES) expect(names.some((each) => name.test(each))).toBe(true);
  });
});
