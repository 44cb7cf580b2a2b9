/**
 * Random C programs of csmith with fixed seeds (those of csmith 2.3.0 that end within six million
 * instructions), on every target: the checksums of their variables here must be those under
 * qemu-user. `scripts/soak-emulator.ts` runs more.
 */
import { existsSync } from 'node:fs';
import { expect, test } from '@jest/globals';
import {
  ARM64_CSMITH_TARGETS,
  ARM64_TARGETS,
  buildCsmith,
  CSMITH_HEADERS,
  LEVELS,
  type PpcTarget,
  RISCV_TARGETS,
  runHere,
  runQemu,
  TARGETS,
  X86_TARGETS,
} from './support/c-programs.js';
import { describeWith } from './support/tools.js';
import { isLong, isWhole } from './support/long.js';

const X86_SEEDS = [1001, 1003, 1004, 1006, 1007, 1008, 1009, 1010, 1014, 1015, 1016, 1019, 1020, 1022, 1023];

/** Seeds of each target, the levels in turn. */
const SEEDS: Readonly<Record<string, readonly number[]>> = {
  'ppc32': [1000, 1004, 1008, 1016, 1020, 1024, 1028, 1036, 1048, 1052, 1064, 1068, 1072],
  'ppc64-elfv1': [1001, 1009, 1025, 1033, 1041, 1053, 1061, 1065, 1069, 1077, 1081, 1089, 1093],
  'ppc64-elfv2-be': [1006, 1010, 1014, 1022, 1030, 1034, 1038, 1042, 1046, 1050, 1054, 1058, 1062],
  'ppc64-elfv2-le': [1003, 1007, 1015, 1019, 1023, 1043, 1047, 1051, 1055, 1063, 1067, 1075, 1079],
  'rv64gc': [1000, 1004, 1008, 1001, 1009, 1028, 1052, 1072, 1053, 1069, 1089, 1030, 1042, 1054, 1019, 1047, 1063],
  'rv64g': [1025, 1006, 1010, 1014, 1003, 1036, 1064, 1033, 1061, 1077, 1093, 1034, 1046, 1058, 1023, 1051, 1067],
  'rv64gc_zba_zbb_zbs': [1007, 1015, 1016, 1020, 1024, 1048, 1068, 1041, 1065, 1081, 1022, 1038, 1050, 1062, 1043, 1055, 1075],
  'arm64': [1008, 1011, 1014, 1020, 1023, 1032, 1038, 1041, 1044],
  'arm64-lse': [1000, 1003, 1006, 1009, 1015, 1021, 1024, 1027, 1030],
  'arm64-signed': [1001, 1004, 1007, 1010, 1016, 1019, 1022, 1025, 1028],
  // Its library computes with doubles, so the target with vector registers it is.
  'arm64-plain': [2001, 2002, 2003, 2007, 2005, 2006, 2010, 2008, 2009, 2013, 2011, 2012, 2016, 2014, 2015],
  'x86-64-clang': X86_SEEDS,
  'x86-64-v2': X86_SEEDS,
}; // prettier-ignore

const targets: readonly PpcTarget[] = [
  ...TARGETS,
  ...RISCV_TARGETS,
  ...ARM64_CSMITH_TARGETS,
  ...ARM64_TARGETS.slice(2),
  ...X86_TARGETS.slice(1),
];

const QEMU_MS = 5000;
const MAX_INSTRUCTIONS = 100_000_000;

test.each([
  ['PowerPC', TARGETS, 50],
  ['RISC-V', RISCV_TARGETS, 50],
  ['arm64', [...ARM64_CSMITH_TARGETS, ...ARM64_TARGETS.slice(2)], 42],
  ['x86-64', X86_TARGETS.slice(1), 15],
] as const)('%s: there are enough different seeds', (_, family, least) => {
  expect(new Set(family.flatMap(({ name }) => SEEDS[name]!)).size).toBeGreaterThanOrEqual(least);
});

let compared = 0;
for (const [at, target] of targets.entries()) {
  if (!isLong && at % 5 > 0) continue;
  const rows = SEEDS[target.name]!.map((seed, i) => [seed, LEVELS[i % LEVELS.length]!] as const);
  describeWith(['csmith', target.gcc, target.qemu], `csmith on ${target.name}`, () => {
    // One of each target, where not all run; the levels in turn.
    test.each(isWhole ? rows : [rows[isLong ? at % LEVELS.length : 0]!])('%i -O%s', (seed, level) => {
      if (!existsSync(CSMITH_HEADERS)) throw new Error(`${CSMITH_HEADERS} is missing: package libcsmith-dev`);
      const path = buildCsmith(target, level, seed);
      const expected = runQemu(target, path, { args: ['1'], timeoutMs: QEMU_MS });
      const here = runHere(target, path, { args: ['1'], budget: MAX_INSTRUCTIONS });
      expect(expected.end).toBe(0);
      expect(expected.output).toMatch(/^checksum = [0-9a-f]+\n$/m);
      expect(here.output).toBe(expected.output);
      expect(here.end).toBe(0);
      compared++;
    });
  });
}

test('how many were compared', () => {
  process.stderr.write(`csmith: ${compared} programs compared\n`);
});
