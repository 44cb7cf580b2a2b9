/**
 * Every executable A64 row in batches against qemu-aarch64, and the coverage table of design: a row
 * without a test, or with a test that leaves out what the row has (both widths, equal registers,
 * register zero, the stack pointer, page borders, faults), fails.
 */
import { expect, test } from '@jest/globals';
import { ARM64_QEMU, Coverage, executableRows, missingCoverage, runBatches, UNIT_ONLY } from './support/arm64-batch.js';
import { a64Machine, runFaults, runMisaligned, runWindowCrossings, stateOf } from './support/arm64-local.js';
import { describeWith } from './support/tools.js';
import { longTest, times } from './support/long.js';

/** Of the inputs of an instruction each so-many-th is tried. */
const EVERY = times(1, 6, 48);

describeWith([ARM64_QEMU], 'instruction coverage of arm64', () => {
  const coverage = new Coverage();

  test('a program of thousands of cases gives what it gives under qemu', () => {
    const result = runBatches(coverage, EVERY);
    expect(result.differences).toEqual([]);
    expect(result.cases).toBeGreaterThan(1_300_000 / EVERY);
    process.stderr.write(`arm64: ${result.cases} cases compared with qemu\n`);
  });

  longTest('a fault of each access leaves the state before it', () => {
    expect(runFaults(coverage)).toEqual([]);
  });

  longTest('two windows are as one', () => {
    expect(runWindowCrossings(coverage)).toEqual([]);
  });

  longTest('exclusive, ordered and atomic accesses and the stack pointer must be aligned', () => {
    expect(runMisaligned()).toEqual([]);
  });

  test.each([...UNIT_ONLY].map(([row, reason]) => [row, reason] as const))('%s: %s', (mnemonic) => {
    const row = executableRows().find((each) => each.mnemonic === mnemonic);
    const operands = Object.fromEntries((row?.fields ?? []).map(({ name }) => [name, 1]));
    for (const value of [0, 1]) {
      const given = Object.fromEntries(Object.keys(operands).map((name) => [name, value]));
      const machine = a64Machine([
        ['nop', {}],
        [mnemonic, given],
      ]);
      machine.step();
      const before = stateOf(machine);
      const trap = mnemonic === 'brk' ? 'breakpoint' : 'undefined';
      expect(machine.run()).toEqual({ kind: 'trap', trap, instruction: 0x1_0004n });
      expect(stateOf(machine)).toBe(before);
      expect(machine.instructions).toBe(1);
    }
    coverage.add(mnemonic, 2, ['corners'], 'state before');
  });

  longTest('no executable row is without a test', () => {
    expect(executableRows().length).toBeGreaterThan(980);
    expect(missingCoverage(coverage)).toEqual([]);
  });

  test('the coverage check sees a row that nothing executed', () => {
    expect(missingCoverage(new Coverage())).toHaveLength(executableRows().filter((row) => row.mnemonic !== '').length);
  });
});
