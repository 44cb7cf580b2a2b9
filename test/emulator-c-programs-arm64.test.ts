/**
 * The collection of C programs on arm64 at three levels, with integer registers only, with LSE atomics in line, and as GCC makes them
 * by itself (structures copied by vector registers): what they print here must be what they print under qemu-user.
 */
import { expect, test } from '@jest/globals';
import {
  ARM64_TARGETS,
  buildCombined,
  LEVELS,
  programName,
  programPaths,
  runHere,
  runQemu,
  sections,
} from './support/c-programs.js';
import type { Level } from './support/c-programs.js';
import { tiersInStep } from './support/tiers.js';
import { describeWith } from './support/tools.js';

const PATHS = programPaths();
const NAMES = PATHS.map(programName);
let compared = 0;

for (const target of ARM64_TARGETS) {
  describeWith([target.gcc, target.qemu], `C programs on ${target.name}`, () => {
    let first: ReadonlyMap<string, string> | undefined;
    // Atomics in line differ in one program: one level is enough.
    const levels: readonly Level[] = target.name === 'arm64-lse' ? ['2'] : LEVELS;
    test.each(levels)(`-O%s`, (level) => {
      const path = buildCombined(target, level, PATHS);
      const expected = runQemu(target, path);
      const here = runHere(target, path);
      const theirs = sections(expected.output);
      const ours = sections(here.output);
      expect(NAMES.filter((name) => ours.get(name) !== theirs.get(name))).toEqual([]);
      expect([here.end, typeof expected.end]).toEqual([expected.end, 'number']);
      if (level === '2' && target.name === 'arm64') expect(tiersInStep(target, path)).toEqual([]);
      expect([...theirs.keys()]).toEqual(NAMES);
      const reference = (first ??= theirs);
      expect(NAMES.filter((name) => theirs.get(name) !== reference.get(name))).toEqual([]);
      compared += NAMES.length;
      if (level === levels.at(-1))
        process.stderr.write(`${NAMES.length} programs, ${target.name}: ${compared} runs compared so far\n`);
    });
  });
}
