/**
 * Prints the instruction coverage table: each executable PowerPC row of each size and byte order,
 * and each of RISC-V, with what was executed of it and what it was compared with. Runs the batches,
 * so it needs qemu-user. Ends with status 1 when a row lacks something.
 */
import {
  Coverage,
  coverageTable,
  missingCoverage,
  PPC_KINDS,
  QEMU_DIFFERENCES,
  runBatches,
} from '../test/support/ppc-batch.js';
import { runLocal } from '../test/support/ppc-local.js';
import * as riscv from '../test/support/riscv-batch.js';
import { runLocal as runRiscvLocal } from '../test/support/riscv-local.js';

const coverage = new Coverage();
const failures: string[] = [];
for (const kind of PPC_KINDS) {
  failures.push(
    ...runBatches(kind, coverage).differences,
    ...runLocal(kind, coverage),
    ...missingCoverage(kind, coverage),
  );
}
process.stdout.write(`${coverageTable(coverage)}\n`);
for (const [row, difference] of QEMU_DIFFERENCES) process.stdout.write(`qemu differs: ${row}: ${difference}\n`);
const riscvCoverage = new riscv.Coverage();
failures.push(
  ...riscv.runBatches(riscvCoverage).differences,
  ...runRiscvLocal(riscvCoverage),
  ...riscv.missingCoverage(riscvCoverage),
);
process.stdout.write(`${riscv.coverageTable(riscvCoverage)}\n`);
for (const [row, difference] of riscv.QEMU_DIFFERENCES) process.stdout.write(`qemu differs: ${row}: ${difference}\n`);
for (const each of failures) process.stderr.write(`${each}\n`);
process.exitCode = failures.length > 0 ? 1 : 0;
