/**
 * Numbers and addresses of instructions on arm64, and random programs of csmith: as the tests of
 * PowerPC (`emulator-counts`, `emulator-csmith`) have them.
 */
import { existsSync } from 'node:fs';
import { expect, test } from '@jest/globals';
import { ARM64_TARGETS, buildCsmith, CSMITH_HEADERS, LEVELS, runHere, runQemu } from './support/c-programs.js';
import type { Level, PpcTarget } from './support/c-programs.js';
import { buildNamed, expectSameAddresses, expectSameCount } from './support/program-tests.js';
import { describeWith } from './support/tools.js';
import { repeats } from './support/long.js';

const [general, , plain] = ARM64_TARGETS as [PpcTarget, PpcTarget, PpcTarget];
const COUNTED = ['recursion', 'varargs', 'atomics', 'bitfields', 'builtins', 'endian', 'jump-tables', 'structs'];
const FOLLOWED = ['bits', 'structs', 'varargs-types'];

describeWith([general.gcc, general.qemu], 'instruction counts on arm64', () => {
  test.each(repeats<Level>(['2', 's']))('-O%s: as many as under qemu', (level) => {
    const counted = expectSameCount(general, buildNamed(general, level, COUNTED));
    process.stderr.write(`arm64 -O${level}: ${counted} instructions counted\n`);
  });

  test('each instruction has the address that it has under qemu', () => {
    expectSameAddresses(plain, buildNamed(plain, '2', FOLLOWED), 40_000);
  });
});

/**
 * Seeds of csmith 2.3.0 whose programs end soon. Its library computes with doubles, so the plain
 * target it is.
 */
const SEEDS = [2001, 2002, 2003, 2007, 2005, 2006, 2010, 2008, 2009, 2013, 2011, 2012, 2016, 2014, 2015];
const QEMU_MS = 5000;
const MAX_INSTRUCTIONS = 100_000_000;

describeWith(['csmith', plain.gcc, plain.qemu], 'csmith on arm64', () => {
  test.each(repeats(LEVELS))('-O%s', (level) => {
    if (!existsSync(CSMITH_HEADERS)) throw new Error(`${CSMITH_HEADERS} is missing: package libcsmith-dev`);
    const seeds = repeats(SEEDS.filter((_seed, i) => LEVELS[i % LEVELS.length] === level));
    const differing: number[] = [];
    for (const seed of seeds) {
      const path = buildCsmith(plain, level, seed);
      const expected = runQemu(plain, path, { args: ['1'], timeoutMs: QEMU_MS });
      const here = runHere(plain, path, { args: ['1'], budget: MAX_INSTRUCTIONS });
      expect([seed, expected.end]).toEqual([seed, 0]);
      expect(expected.output).toMatch(/^checksum = [0-9a-f]+\n$/m);
      if (here.end !== expected.end || here.output !== expected.output) differing.push(seed);
    }
    expect(differing).toEqual([]);
    expect(seeds.length).toBe(5);
  });
});
