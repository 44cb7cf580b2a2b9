/**
 * Random C programs of csmith with fixed seeds on x86-64: the checksums of their variables here
 * must be those under qemu-user.
 */
import { existsSync } from 'node:fs';
import { expect, test } from '@jest/globals';
import { buildCsmith, CSMITH_HEADERS, LEVELS, runHere, runQemu, X86_TARGETS } from './support/c-programs.js';
import { describeWith } from './support/tools.js';
import { isLong, repeats } from './support/long.js';

const SEEDS = [1001, 1003, 1004, 1006, 1007, 1008, 1009, 1010, 1014, 1015, 1016, 1019, 1020, 1022, 1023];
const QEMU_MS = 5000;
const MAX_INSTRUCTIONS = 100_000_000;

let compared = 0;
for (const target of X86_TARGETS.slice(1)) {
  describeWith(['csmith', target.gcc, target.qemu], `csmith on ${target.name}`, () => {
    test.each(repeats(LEVELS))('-O%s', (level) => {
      if (!existsSync(CSMITH_HEADERS)) throw new Error(`${CSMITH_HEADERS} is missing: package libcsmith-dev`);
      const seeds = repeats(SEEDS.filter((_seed, i) => LEVELS[i % LEVELS.length] === level));
      const differing: string[] = [];
      for (const seed of seeds) {
        const path = buildCsmith(target, level, seed);
        const expected = runQemu(target, path, { args: ['1'], timeoutMs: QEMU_MS });
        const here = runHere(target, path, { args: ['1'], budget: MAX_INSTRUCTIONS });
        expect([seed, expected.end]).toEqual([seed, 0]);
        expect(expected.output).toMatch(/^checksum = [0-9a-f]+\n$/m);
        compared++;
        if (here.end === expected.end && here.output === expected.output) continue;
        differing.push(`csmith ${seed} on ${target.name} at -O${level}, end ${here.end}`);
      }
      expect(differing).toEqual([]);
      expect(seeds.length).toBe(isLong ? 5 : 1);
      if (level === 's') process.stderr.write(`csmith, ${target.name}: ${compared} programs compared so far\n`);
    });
  });
}
