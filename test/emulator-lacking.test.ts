/**
 * Hot leaves of a function that is large: compiled alone they are a loss, for what calls them is
 * not compiled. The time that tier 0 then spends in them counts for their caller.
 */
import { expect, test } from '@jest/globals';
import { A0, RA, T1, ZERO } from './support/riscv-batch.js';
import type { RiscvLine } from './support/riscv-batch.js';
import { CODE, riscvMachine } from './support/riscv-local.js';

const nop: RiscvLine = ['addi', { rd: ZERO, rs1: ZERO, imm: 0 }];

/** One turn: so many calls, behind five instructions each; a call of the leaf takes some 150. */
const CALLS = 100;
const LEAF: readonly RiscvLine[] = [
  ['addi', { rd: T1, rs1: ZERO, imm: 48 }],
  ['addi', { rd: A0, rs1: A0, imm: 1 }],
  ['addi', { rd: T1, rs1: T1, imm: -1 }],
  ['bne', { rs1: T1, rs2: ZERO, off: -8 }],
  ['jalr', { rd: ZERO, rs1: RA, imm: 0 }],
];

test('the caller of leaves that were given up is compiled when they have cost as much', () => {
  const body: RiscvLine[] = [];
  for (let i = 0; i < CALLS; i++) {
    for (let k = 0; k < 5; k++) body.push(nop);
    // The leaf is behind the body and its jump back.
    body.push(['jal', { rd: RA, off: 4 * (6 * CALLS + 1 - body.length) }]);
  }
  const lines: RiscvLine[] = [...body, ['jal', { rd: ZERO, off: -4 * body.length }], ...LEAF];
  const machine = riscvMachine(lines, CODE, { tier: 'auto' });
  machine.run({ budget: 100_000_000 });
  expect(machine.register('a0')).toBeGreaterThan(30_000_000n);
  expect(machine.compiledCounts?.instructions).toBeGreaterThan(6 * CALLS);
});
