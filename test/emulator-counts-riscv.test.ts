/**
 * Numbers of instructions on RISC-V 64, and every program counter on the way: qemu-user in
 * single-step mode writes one log line before each instruction.
 */
import { test } from '@jest/globals';
import { RISCV_TARGETS } from './support/c-programs.js';
import { buildNamed, COUNTED, expectSameAddresses, expectSameCount, FOLLOWED } from './support/program-tests.js';
import { describeWith } from './support/tools.js';

let counted = 0;
for (const target of RISCV_TARGETS) {
  describeWith([target.gcc, target.qemu], `instruction counts on ${target.name}`, () => {
    test('-O2: as many as under qemu', () => {
      counted += expectSameCount(target, buildNamed(target, '2', COUNTED));
    });

    test('each instruction has the address that it has under qemu', () => {
      const followed = expectSameAddresses(target, buildNamed(target, 's', FOLLOWED), 50_000);
      process.stderr.write(`${target.name}: ${followed} addresses, ${counted} instructions counted so far\n`);
    });
  });
}
