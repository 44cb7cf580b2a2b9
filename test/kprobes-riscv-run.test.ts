/**
 * RISC-V programs with a probe on every instruction that can have one: as breakpoints, as
 * breakpoints with a second trap behind each copy, and as jumps near and far. What the programs do
 * is what they did without, and handlers see the same registers.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from '@jest/globals';
import { riscv64 as arch } from '../src/arch-riscv/index.js';
import { riscvTable } from '../src/arch-riscv/isa.js';
import { wordBytes } from '../src/bytes.js';
import { readElf } from '../src/elf/read.js';
import { builtFolder as built } from '../scripts/build-samples.js';
import { isWhole } from './support/long.js';
import { type EverywhereOptions, type EverywhereResult, runEverywhere } from './support/probe-everywhere.js';

/** Spoils what a callee may: t0 to t6, a0 to a7; then returns. */
const SPOILER = ((): Uint8Array => {
  const words = [
    ...[5, 6, 7, 28, 29, 30, 31, 10, 11, 12, 13, 14, 15, 16, 17].map((rd) =>
      riscvTable.encode('addi', { rd, rs1: 0, imm: -1 - rd }),
    ),
    riscvTable.encode('jalr', { rd: 0, rs1: 1, imm: 0 }),
  ];
  const out = new Uint8Array(4 * words.length);
  words.forEach((word, i) => {
    out.set(wordBytes(word, 'little'), 4 * i);
  });
  return out;
})();

const show = (map: ReadonlyMap<string, number>): string => [...map].map(([key, n]) => `${key} ${n}`).join(', ');

/** The same code with other sites around it is not run once more. */
const REPEATED = /clang|patchable-.*-/;

describe('riscv64', () => {
  const names = readdirSync(join(built, 'riscv64')).filter(
    (name) => name.startsWith('program-') && !REPEATED.test(name),
  );
  test.each(names.filter((_, i) => isWhole || i % 2 === 0))(
    'T-KP-1 %s: breakpoints, stepped copies and jumps do what the program does',
    (name) => {
      const image = readElf(new Uint8Array(readFileSync(join(built, 'riscv64', name))));
      const text = image.sections.find((each) => each.name === '.text')!;
      const near = text.address + 0x8_0000n;
      const run = (mode: EverywhereOptions['mode'], more: Partial<EverywhereOptions> = {}): EverywhereResult =>
        runEverywhere({
          arch,
          image,
          mode,
          area: { address: near & ~0xfffn, size: 0x8_0000 },
          callee: SPOILER,
          calleeArguments: ['a0', 'a1'],
          ...more,
        });
      const plain = run('none');
      const same = (each: EverywhereResult): void => {
        expect({ end: each.end, output: each.output }).toEqual({ end: plain.end, output: plain.output });
      };
      const breakpoints = run('breakpoint');
      same(breakpoints);
      const stepped = run('stepped');
      same(stepped);
      expect([stepped.hits, stepped.seen]).toEqual([breakpoints.hits, breakpoints.seen]);
      process.stdout.write(
        `riscv64/${name}: ${breakpoints.probes} probes, ${breakpoints.simulated} simulated, ${breakpoints.hits} hits; ` +
          `traps ${stepped.traps} stepped, ${breakpoints.traps}; refused ${show(breakpoints.refused)}\n`,
      );
      for (const [what, more] of [
        ['near', { phase: 0 }],
        ['near, other windows', { phase: 1 }],
        ['far', { area: { address: 0x4000_0000n, size: 0x8_0000 } }],
      ] as const) {
        const jumps = run('jump', more);
        same(jumps);
        const again = run('breakpoint', { ...more, phase: 0, only: jumps.addresses, unseen: jumps.scratch });
        expect([what, jumps.hits, jumps.seen]).toEqual([what, again.hits, again.seen]);
        expect(jumps.jumps).toBeGreaterThan(0);
        expect(jumps.traps).toBeLessThan(again.traps);
        process.stdout.write(
          `  ${what}: ${jumps.probes} probes, jumps ${show(jumps.forms)}; ${jumps.hits} hits, ${jumps.traps} traps; ` +
            `not optimised ${show(jumps.notOptimised)}\n`,
        );
      }
    },
  );
});
