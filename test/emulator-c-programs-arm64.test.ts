/**
 * The collection of C programs on arm64 at three levels, with integer registers only, with LSE atomics in line, and as GCC makes them
 * by itself (structures copied by vector registers): what they print here must be what they print under qemu-user. Numbers of
 * instructions, addresses of instructions, and random programs of csmith as in the tests of PowerPC.
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
  sections,
  startHere,
} from './support/c-programs.js';
import type { Level, PpcTarget } from './support/c-programs.js';
import { describeWith } from './support/tools.js';

const PATHS = programPaths();
const NAMES = PATHS.map(programName);
const [general, , plain] = ARM64_TARGETS as [PpcTarget, PpcTarget, PpcTarget];
let compared = 0;

for (const target of ARM64_TARGETS) {
  describeWith([target.gcc, target.qemu], `C programs on ${target.name}`, () => {
    let first: ReadonlyMap<string, string> | undefined;
    test.each(LEVELS)(`-O%s`, (level) => {
      const path = buildCombined(target, level, PATHS);
      const expected = runQemu(target, path);
      const here = runHere(target, path);
      const theirs = sections(expected.output);
      const ours = sections(here.output);
      expect(NAMES.filter((name) => ours.get(name) !== theirs.get(name))).toEqual([]);
      expect([here.end, typeof expected.end]).toEqual([expected.end, 'number']);
      expect([...theirs.keys()]).toEqual(NAMES);
      const reference = (first ??= theirs);
      expect(NAMES.filter((name) => theirs.get(name) !== reference.get(name))).toEqual([]);
      compared += NAMES.length;
      if (level === 's')
        process.stderr.write(`${NAMES.length} programs, ${target.name}: ${compared} runs compared so far\n`);
    });
  });
}

const COUNTED = ['recursion', 'varargs', 'atomics', 'bitfields', 'builtins', 'endian', 'jump-tables', 'structs'];
const FOLLOWED = ['bits', 'structs', 'varargs-types'];
const paths = (names: readonly string[]): readonly string[] =>
  PATHS.filter((path) => names.includes(programName(path)));

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

/** Seeds of csmith 2.3.0 whose programs end soon. */
const SEEDS = [1000, 1001, 1003, 1004, 1006, 1007, 1008, 1009, 1010, 1014, 1015, 1016, 1019, 1020, 1022];
const QEMU_MS = 5000;
const MAX_INSTRUCTIONS = 100_000_000;

describeWith(['csmith', general.gcc, general.qemu], 'csmith on arm64', () => {
  test.each(LEVELS)('-O%s', (level) => {
    if (!existsSync(CSMITH_HEADERS)) throw new Error(`${CSMITH_HEADERS} is missing: package libcsmith-dev`);
    const seeds = SEEDS.filter((_seed, i) => LEVELS[i % LEVELS.length] === level);
    const differing: number[] = [];
    for (const seed of seeds) {
      const path = buildCsmith(general, level, seed);
      const expected = runQemu(general, path, { args: ['1'], timeoutMs: QEMU_MS });
      const here = runHere(general, path, { args: ['1'], budget: MAX_INSTRUCTIONS });
      expect([seed, expected.end]).toEqual([seed, 0]);
      expect(expected.output).toMatch(/^checksum = [0-9a-f]+\n$/m);
      if (here.end !== expected.end || here.output !== expected.output) differing.push(seed);
    }
    expect(differing).toEqual([]);
    expect(seeds.length).toBe(5);
  });
});
