/**
 * Random C programs of csmith with fixed seeds on RISC-V 64: the checksums of their variables here
 * must be those under qemu-user.
 */
import { existsSync } from 'node:fs';
import { expect, test } from '@jest/globals';
import { buildCsmith, CSMITH_HEADERS, LEVELS, RISCV_TARGETS, runHere, runQemu } from './support/c-programs.js';
import { describeWith } from './support/tools.js';
import { repeats } from './support/long.js';

const SEEDS: Readonly<Record<string, readonly number[]>> = {
  'rv64gc': [1000, 1004, 1008, 1001, 1009, 1028, 1052, 1072, 1053, 1069, 1089, 1030, 1042, 1054, 1019, 1047, 1063],
  'rv64g': [1025, 1006, 1010, 1014, 1003, 1036, 1064, 1033, 1061, 1077, 1093, 1034, 1046, 1058, 1023, 1051, 1067],
  'rv64gc_zba_zbb_zbs': [1007, 1015, 1016, 1020, 1024, 1048, 1068, 1041, 1065, 1081, 1022, 1038, 1050, 1062, 1043, 1055, 1075],
}; // prettier-ignore

const QEMU_MS = 5000;
const MAX_INSTRUCTIONS = 100_000_000;

test('fifty programs at least', () => {
  expect(new Set(Object.values(SEEDS).flat()).size).toBeGreaterThanOrEqual(50);
});

let compared = 0;
for (const target of RISCV_TARGETS) {
  describeWith(['csmith', target.gcc, target.qemu], `csmith on ${target.name}`, () => {
    test.each(repeats(SEEDS[target.name]!).map((seed, i) => [seed, LEVELS[i % LEVELS.length]!] as const))(
      '%i -O%s',
      (seed, level) => {
        if (!existsSync(CSMITH_HEADERS)) throw new Error(`${CSMITH_HEADERS} is missing: package libcsmith-dev`);
        const path = buildCsmith(target, level, seed);
        const expected = runQemu(target, path, { args: ['1'], timeoutMs: QEMU_MS });
        const here = runHere(target, path, { args: ['1'], budget: MAX_INSTRUCTIONS });
        expect(expected.end).toBe(0);
        expect(expected.output).toMatch(/^checksum = [0-9a-f]+\n$/m);
        expect(here.output).toBe(expected.output);
        expect(here.end).toBe(0);
        compared++;
      },
    );
  });
}

test('how many were compared', () => {
  process.stderr.write(`csmith on RISC-V: ${compared} programs compared\n`);
});
