/**
 * Every executable RISC-V row in batches against qemu-user, and the coverage table of design: a row without a test, or with a test
 * that leaves out what the row has (equal registers, register zero, page borders, faults), fails.
 */
import { describe, expect, test } from '@jest/globals';
import {
  Coverage,
  executableRows,
  missingCoverage,
  QEMU_DIFFERENCES,
  RISCV_QEMU,
  runBatches,
  UNIT_ONLY,
} from './support/riscv-batch.js';
import { runLocal } from './support/riscv-local.js';
import { describeWith } from './support/tools.js';

describeWith([RISCV_QEMU], 'instruction coverage', () => {
  const coverage = new Coverage();

  test('a program of thousands of cases gives what it gives under qemu', () => {
    const result = runBatches(coverage);
    expect(result.differences).toEqual([]);
    expect(result.cases).toBeGreaterThan(100_000);
    process.stderr.write(`riscv64: ${result.cases} cases compared with qemu\n`);
  });

  test('faults, misalignment, window borders, addresses near 0, traps, Zicond', () => {
    expect(runLocal(coverage)).toEqual([]);
  });

  test('no executable row is without a test', () => {
    expect(executableRows().length).toBeGreaterThan(180);
    expect(missingCoverage(coverage)).toEqual([]);
  });

  test('the coverage check sees a row that nothing executed', () => {
    expect(missingCoverage(new Coverage())).toHaveLength(executableRows().length);
  });
});

describe('the table', () => {
  test('rows that qemu cannot show, or in which it is wrong, are named with the reason', () => {
    const names = executableRows().map((row) => row.mnemonic);
    for (const row of [...UNIT_ONLY.keys(), ...QEMU_DIFFERENCES.map(([name]) => name)]) expect(names).toContain(row);
  });

  test('compressed rows are executable where the row that they stand for is', () => {
    const names = new Set(executableRows().map((row) => row.mnemonic));
    for (const row of executableRows()) {
      const to = row.attributes.expands?.to;
      if (to !== undefined) expect(names).toContain(to);
    }
  });
});
