/** The rows of every table, checked against each other: programs load the tables deferred and skip these checks. */
import { describe, expect, test } from '@jest/globals';
import { arm64Table } from '../src/arch-arm64/isa.js';
import { ppc32Table, ppc64Table } from '../src/arch-ppc/isa.js';
import { riscvTable } from '../src/arch-riscv/isa.js';

describe('instruction tables', () => {
  for (const table of [ppc32Table, ppc64Table, riscvTable, arm64Table]) {
    test(`${table.name}: every row compiles and no two match one word undeclared`, () => {
      expect(() => {
        table.check();
      }).not.toThrow();
      expect(table.rows.length).toBeGreaterThan(100);
    });
  }
});
