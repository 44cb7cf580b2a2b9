/**
 * Tiers that take turns without TypeScript: a caller that is too large to be compiled soon, and a
 * hot leaf that is. Whatever the turns are, the state is that of tier 0 at every budget.
 */
import { expect, test } from '@jest/globals';
import type { Machine } from '../src/emulator/index.js';
import { A0, A1, A2, A3, RA, T1, ZERO } from './support/riscv-batch.js';
import type { RiscvLine } from './support/riscv-batch.js';
import { CODE, DATA, riscvMachine, stateOf } from './support/riscv-local.js';

const CALLS = 150;
/** Lines of the leaf; the second is `addi a0, a0, 1`. */
const LEAF: readonly RiscvLine[] = [
  ['addi', { rd: T1, rs1: ZERO, imm: 40 }],
  ['addi', { rd: A0, rs1: A0, imm: 1 }],
  ['addi', { rd: T1, rs1: T1, imm: -1 }],
  ['bne', { rs1: T1, rs2: ZERO, off: -8 }],
  ['jalr', { rd: ZERO, rs1: RA, imm: 0 }],
];
const LEAF_AT = 6 * CALLS + 1;

/** Calls behind `before`, five lines each. */
function program(before: readonly RiscvLine[]): readonly RiscvLine[] {
  const body: RiscvLine[] = [];
  for (let i = 0; i < CALLS; i++) body.push(...before, ['jal', { rd: RA, off: 4 * (LEAF_AT - body.length - 5) }]);
  return [...body, ['jal', { rd: ZERO, off: -4 * body.length }], ...LEAF];
}

const adds: readonly RiscvLine[] = [1, 2, 3, 4, 5].map((imm) => ['addi', { rd: A1, rs1: A1, imm }]);

/** Machines that compile at once what is hot, and never. */
function pair(lines: readonly RiscvLine[], writable = false): readonly [Machine, Machine] {
  const make = (tier: 'auto' | 0): Machine => {
    const machine = riscvMachine(lines, CODE, { tier, tierUpAfter: 100_000 });
    machine.map({ address: DATA, size: 0x1000, permission: 'rw' });
    if (writable) machine.memory.protect(CODE, 0x1000, 'rwx');
    return machine;
  };
  return [make('auto'), make(0)];
}

function expectInStep([auto, plain]: readonly [Machine, Machine], budget: number, turns: number): void {
  for (let i = 0; i < turns; i++) {
    for (const each of [auto, plain]) each.run({ budget: budget + i });
    if (stateOf(auto) !== stateOf(plain) || auto.pc !== plain.pc || auto.instructions !== plain.instructions) {
      expect([i, auto.instructions, stateOf(auto)]).toEqual([i, plain.instructions, stateOf(plain)]);
    }
  }
}

test.each([
  [201, 20_000],
  [1009, 12_000],
  [50_021, 240],
])('budgets of %i instructions and more: as in tier 0', (budget, turns) => {
  const machines = pair(program(adds));
  expectInStep(machines, budget, turns);
  expect(machines[0].compiledCounts?.regions).toBeGreaterThan(0);
});

test('the caller stores into the leaf, which is compiled: as in tier 0', () => {
  // a2: the line of the leaf that adds; a3: what is stored there, from the memory at DATA.
  const store: readonly RiscvLine[] = [
    ['addi', { rd: A1, rs1: A1, imm: 1 }],
    ['lw', { rd: A3, rs1: A2, imm: 0 }],
    ['addi', { rd: A3, rs1: A3, imm: 0 }],
    ['sw', { rs2: A3, rs1: A2, imm: 0 }],
    ['addi', { rd: A1, rs1: A1, imm: 2 }],
  ];
  const lines = [...program(adds)];
  lines.splice(0, 5, ...store);
  const machines = pair(lines, true);
  for (const each of machines) each.setRegister('a2', CODE + BigInt(4 * (LEAF_AT + 1)));
  expectInStep(machines, 3001, 3000);
});

test('a hook in the caller is called each time, and one in the leaf once it is set', () => {
  const machines = pair(program(adds));
  const seen = machines.map((machine) => {
    const counts = { caller: 0, leaf: 0, sum: 0n };
    machine.hook(CODE + 8n, (each) => {
      counts.caller++;
      counts.sum += each.register('a0');
      return 'continue';
    });
    return { machine, counts };
  });
  expectInStep(machines, 10_007, 800);
  for (const { machine, counts } of seen) {
    machine.hook(CODE + BigInt(4 * LEAF_AT), () => {
      counts.leaf++;
      return 'continue';
    });
  }
  expectInStep(machines, 10_007, 200);
  expect(seen[0]!.counts).toEqual(seen[1]!.counts);
  expect(seen[0]!.counts.leaf).toBeGreaterThan(1000);
});

test('a function with an indirect jump that is larger than a region is compiled in parts', () => {
  // Each part is 20 lines and goes on with the next by an indirect jump; the last with the first.
  const PARTS = 150;
  const LINES = 20;
  const part: RiscvLine[] = [
    ...Array.from({ length: LINES - 2 }, (): RiscvLine => ['addi', { rd: A0, rs1: A0, imm: 1 }]),
    ['addi', { rd: A1, rs1: A1, imm: 4 * LINES }],
    ['jalr', { rd: ZERO, rs1: A1, imm: 0 }],
  ];
  const last: RiscvLine[] = [...part];
  last.splice(LINES - 2, 1, ['addi', { rd: A1, rs1: A2, imm: 0 }]);
  const lines = [...Array.from({ length: PARTS - 1 }, () => part).flat(), ...last];
  const machines = pair(lines);
  for (const each of machines) for (const name of ['a1', 'a2']) each.setRegister(name, CODE);
  expectInStep(machines, 100_003, 900);
  expect(machines[0].compiledCounts?.regions).toBeGreaterThan(50);
});
