/**
 * Random programs (csmith, fixed seeds) of PowerPC, RISC-V and arm64 with a probe on every instruction: as breakpoints and as jumps, the same output, and
 * handlers see the same registers. ELFTRACE_PROBE_PROGRAMS and ELFTRACE_SEED: other numbers of programs and other first seeds.
 */
import { readFileSync } from 'node:fs';
import { expect, test } from '@jest/globals';
import { arm64Table } from '../src/arch-arm64/isa.js';
import { ppc32Table, ppc64Table } from '../src/arch-ppc/isa.js';
import { riscvTable } from '../src/arch-riscv/isa.js';
import { wordBytes } from '../src/bytes.js';
import { readElf } from '../src/elf/read.js';
import { ARM64_TARGETS, buildCsmith, LEVELS, type PpcTarget, RISCV_TARGETS, TARGETS } from './support/c-programs.js';
import { runEverywhere } from './support/probe-everywhere.js';
import { describeWith } from './support/tools.js';

const PROGRAMS = Number(process.env['ELFTRACE_PROBE_PROGRAMS'] ?? 1);
const FIRST = Number(process.env['ELFTRACE_SEED'] ?? 1003);
const MOST_INSTRUCTIONS = 100_000;

interface Machine {
  readonly target: PpcTarget;
  /** Callback: changes nothing that matters, returns. */
  readonly callee: number;
  readonly registers: readonly [string, string];
  readonly area: bigint;
}
const MACHINES: readonly Machine[] = [
  ...TARGETS.map((target): Machine => ({
    target,
    callee: (target.name === 'ppc32' ? ppc32Table : ppc64Table).encode('bclr', { bo: 20, bi: 0, bh: 0 }),
    registers: ['r3', 'r4'],
    area: 0x0f00_0000n,
  })),
  {
    target: RISCV_TARGETS[0]!,
    callee: riscvTable.encode('jalr', { rd: 0, rs1: 1, imm: 0 }),
    registers: ['a0', 'a1'],
    area: 0x8_0000n,
  },
  {
    target: ARM64_TARGETS.at(-1)!,
    callee: arm64Table.encode('ret', { xn: 30 }),
    registers: ['x0', 'x1'],
    area: 0x100_0000n,
  },
];

for (const { target, callee, registers, area } of MACHINES) {
  describeWith(['csmith', target.gcc], `csmith on ${target.name}`, () => {
    test('T-KP-1 every instruction by breakpoint and by jump', () => {
      const sum = { programs: 0, tooLong: 0, probes: 0, jumps: 0, hits: 0 };
      for (let seed = FIRST; sum.programs < PROGRAMS; seed++) {
        const path = buildCsmith(target, LEVELS[seed % LEVELS.length]!, seed);
        const common = {
          arch: target.arch,
          image: readElf(new Uint8Array(readFileSync(path))),
          area: { address: area, size: 0x20_0000 },
          callee: wordBytes(callee, target.arch.target.codeEndian),
          calleeArguments: registers,
        };
        const plain = runEverywhere({ ...common, mode: 'none' });
        if (plain.instructions > MOST_INSTRUCTIONS) {
          sum.tooLong++;
          continue;
        }
        const jumps = runEverywhere({ ...common, mode: 'jump' });
        const breakpoints = runEverywhere({
          ...common,
          mode: 'breakpoint',
          only: jumps.addresses,
          unseen: jumps.scratch,
        });
        for (const each of [jumps, breakpoints]) {
          expect([seed, each.end, each.output]).toEqual([seed, plain.end, plain.output]);
        }
        expect([seed, jumps.hits, jumps.seen]).toEqual([seed, breakpoints.hits, breakpoints.seen]);
        sum.programs++;
        sum.probes += jumps.probes;
        sum.jumps += jumps.jumps;
        sum.hits += jumps.hits;
      }
      process.stderr.write(`${target.name}: ${JSON.stringify(sum)}\n`);
      expect(sum.hits).toBeGreaterThan(500 * PROGRAMS);
    });
  });
}
