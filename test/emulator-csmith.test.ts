/**
 * Random C programs of csmith with fixed seeds (those of csmith 2.3.0 that end within six million
 * instructions): the checksums of their variables here must be those under qemu-user.
 * `scripts/soak-emulator.ts` runs more.
 */
import { existsSync } from 'node:fs';
import { expect, test } from '@jest/globals';
import { buildCsmith, CSMITH_HEADERS, LEVELS, runHere, runQemu, TARGETS } from './support/c-programs.js';
import { describeWith } from './support/tools.js';
import { repeats } from './support/long.js';

const SEEDS: Readonly<Record<string, readonly number[]>> = {
  'ppc32': [1000, 1004, 1008, 1016, 1020, 1024, 1028, 1036, 1048, 1052, 1064, 1068, 1072],
  'ppc64-elfv1': [1001, 1009, 1025, 1033, 1041, 1053, 1061, 1065, 1069, 1077, 1081, 1089, 1093],
  'ppc64-elfv2-be': [1006, 1010, 1014, 1022, 1030, 1034, 1038, 1042, 1046, 1050, 1054, 1058, 1062],
  'ppc64-elfv2-le': [1003, 1007, 1015, 1019, 1023, 1043, 1047, 1051, 1055, 1063, 1067, 1075, 1079],
}; // prettier-ignore

const QEMU_MS = 5000;
const MAX_INSTRUCTIONS = 100_000_000;

test('there are at least 50 seeds', () => {
  expect(new Set(Object.values(SEEDS).flat()).size).toBeGreaterThanOrEqual(50);
});

let compared = 0;
for (const target of TARGETS) {
  describeWith(['csmith', target.gcc, target.qemu], `csmith on ${target.name}`, () => {
    test.each(repeats(LEVELS))('-O%s', (level) => {
      if (!existsSync(CSMITH_HEADERS)) throw new Error(`${CSMITH_HEADERS} is missing: package libcsmith-dev`);
      const seeds = repeats(SEEDS[target.name]!.filter((_seed, i) => LEVELS[i % LEVELS.length] === level));
      const differing: string[] = [];
      for (const seed of seeds) {
        const path = buildCsmith(target, level, seed);
        const expected = runQemu(target, path, { args: ['1'], timeoutMs: QEMU_MS });
        const here = runHere(target, path, { args: ['1'], budget: MAX_INSTRUCTIONS });
        expect([seed, expected.end]).toEqual([seed, 0]);
        expect(expected.output).toMatch(/^checksum = [0-9a-f]+\n$/m);
        compared++;
        if (here.end === expected.end && here.output === expected.output) continue;
        const got = here.output.split('\n');
        const lines = expected.output.split('\n');
        const at = lines.findIndex((line, i) => line !== got[i]);
        differing.push(
          `csmith ${seed} on ${target.name} at -O${level}, end ${here.end}: qemu '${lines[at]}', here '${got[at]}'`,
        );
      }
      expect(differing).toEqual([]);
      expect(seeds.length).toBeGreaterThan(0);
      if (level === 's') process.stderr.write(`csmith, ${target.name}: ${compared} programs compared so far\n`);
    });
  });
}
