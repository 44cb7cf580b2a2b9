/**
 * Random C programs of csmith with fixed seeds on arm64, as GCC makes them, with LSE atomics, and
 * with signed return addresses and landing pads: the checksums of their variables here must be
 * those under qemu-user.
 */
import { existsSync } from 'node:fs';
import { expect, test } from '@jest/globals';
import { buildCsmith, CSMITH_HEADERS, LEVELS, ARM64_CSMITH_TARGETS, runHere, runQemu } from './support/c-programs.js';
import { describeWith } from './support/tools.js';
import { repeats } from './support/long.js';

const SEEDS: Readonly<Record<string, readonly number[]>> = {
  'arm64': [1008, 1011, 1014, 1020, 1023, 1032, 1038, 1041, 1044],
  'arm64-lse': [1000, 1003, 1006, 1009, 1015, 1021, 1024, 1027, 1030],
  'arm64-signed': [1001, 1004, 1007, 1010, 1016, 1019, 1022, 1025, 1028],
}; // prettier-ignore

const QEMU_MS = 5000;
const MAX_INSTRUCTIONS = 100_000_000;

let compared = 0;
for (const target of ARM64_CSMITH_TARGETS) {
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
  process.stderr.write(`csmith on arm64: ${compared} programs compared\n`);
});
