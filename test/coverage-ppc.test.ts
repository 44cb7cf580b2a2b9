/**
 * Every executable PowerPC row in batches against qemu-user, and the coverage table of design: a
 * row without a test, or with a test that leaves out what the row has (suffixes, equal registers,
 * register zero, page borders, faults), fails.
 */
import { describe, expect, test } from '@jest/globals';
import {
  Coverage,
  executableRows,
  missingCoverage,
  PPC_KINDS,
  ppcQemu,
  QEMU_DIFFERENCES,
  runBatches,
} from './support/ppc-batch.js';
import { runLocal } from './support/ppc-local.js';
import { describeWith } from './support/tools.js';
import { isWhole, longTest, times } from './support/long.js';

describeWith(PPC_KINDS.map(ppcQemu), 'instruction coverage', () => {
  const coverage = new Coverage();

  // Both orders of bytes have one interpreter.
  describe.each(PPC_KINDS.filter((kind) => isWhole || kind !== 'be'))('%s', (kind) => {
    test('programs of thousands of cases give what they give under qemu', () => {
      const every = times(1, 1, 12);
      const result = runBatches(kind, coverage, every);
      expect(result.differences).toEqual([]);
      expect(result.cases).toBeGreaterThan(200_000 / every);
      process.stderr.write(`${kind}: ${result.cases} cases compared with qemu\n`);
    });

    longTest('faults, window borders, bases of zero, absolute branches, time', () => {
      expect(runLocal(kind, coverage)).toEqual([]);
    });

    longTest('no executable row is without a test', () => {
      expect(executableRows(kind).length).toBeGreaterThan(kind === '32' ? 140 : 210);
      expect(missingCoverage(kind, coverage)).toEqual([]);
    });
  });

  test('the coverage check sees a row that nothing executed', () => {
    expect(missingCoverage('32', new Coverage())).toHaveLength(executableRows('32').length);
  });

  test('rows in which qemu is wrong are named with the reason', () => {
    for (const [row] of QEMU_DIFFERENCES) expect(executableRows('le').map((each) => each.mnemonic)).toContain(row);
  });
});
