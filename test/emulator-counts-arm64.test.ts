/**
 * Numbers and addresses of instructions on arm64, and random programs of csmith: as the tests of PowerPC (`emulator-counts`,
 * `emulator-csmith`) have them.
 */
import { existsSync, readFileSync } from 'node:fs';
import { expect, test } from '@jest/globals';
import {
  ARM64_TARGETS,
  buildCombined,
  buildCsmith,
  CSMITH_HEADERS,
  LEVELS,
  programName,
  programPaths,
  runHere,
  runQemu,
  scratch,
  startHere,
} from './support/c-programs.js';
import type { Level, PpcTarget } from './support/c-programs.js';
import { describeWith } from './support/tools.js';

const [general, , plain] = ARM64_TARGETS as [PpcTarget, PpcTarget, PpcTarget];
const COUNTED = ['recursion', 'varargs', 'atomics', 'bitfields', 'builtins', 'endian', 'jump-tables', 'structs'];
const FOLLOWED = ['bits', 'structs', 'varargs-types'];
const paths = (names: readonly string[]): readonly string[] =>
  programPaths().filter((path) => names.includes(programName(path)));

/** The log of qemu in single-step mode: a line before each instruction. */
function qemuLog(target: PpcTarget, program: string): { readonly lines: Buffer; readonly end: number | string } {
  const log = scratch('log');
  const { end } = runQemu(target, program, { flags: ['-singlestep', '-d', 'exec,nochain', '-D', log] });
  return { lines: readFileSync(log), end };
}

const addresses = (lines: Buffer): number[] =>
  [...lines.toString('latin1').matchAll(/^Trace .*?\/([0-9a-f]{8,16})\//gm)].map((match) => parseInt(match[1]!, 16));

describeWith([general.gcc, general.qemu], 'instruction counts on arm64', () => {
  test.each<Level>(['2', 's'])('-O%s: as many as under qemu', (level) => {
    const program = buildCombined(general, level, paths(COUNTED));
    const { lines, end } = qemuLog(general, program);
    const here = runHere(general, program);
    expect(here.end).toBe(end);
    expect(here.instructions).toBeGreaterThan(100_000);
    expect(here.instructions).toBe(addresses(lines).length);
    process.stderr.write(`arm64 -O${level}: ${here.instructions} instructions counted\n`);
  });

  test('each instruction has the address that it has under qemu', () => {
    const program = buildCombined(plain, '2', paths(FOLLOWED));
    const expected = addresses(qemuLog(plain, program).lines);
    const { process: here } = startHere(plain, program);
    for (let i = 0; i < expected.length; i++) {
      const pc = Number(here.machine.register('pc'));
      if (pc !== expected[i])
        throw new Error(`instruction ${i} is at ${pc.toString(16)}, under qemu at ${expected[i]!.toString(16)}`);
      const stop = here.machine.step();
      if (stop.kind !== 'step-limit') expect([stop.kind, i]).toEqual(['exit', expected.length - 1]);
    }
    expect(here.machine.instructions).toBe(expected.length);
    expect(expected.length).toBeGreaterThan(40_000);
  });
});

/** Seeds of csmith 2.3.0 whose programs end soon. Its library computes with doubles, so the plain target it is. */
const SEEDS = [2001, 2002, 2003, 2007, 2005, 2006, 2010, 2008, 2009, 2013, 2011, 2012, 2016, 2014, 2015];
const QEMU_MS = 5000;
const MAX_INSTRUCTIONS = 100_000_000;

describeWith(['csmith', plain.gcc, plain.qemu], 'csmith on arm64', () => {
  test.each(LEVELS)('-O%s', (level) => {
    if (!existsSync(CSMITH_HEADERS)) throw new Error(`${CSMITH_HEADERS} is missing: package libcsmith-dev`);
    const seeds = SEEDS.filter((_seed, i) => LEVELS[i % LEVELS.length] === level);
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
