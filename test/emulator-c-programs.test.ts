/**
 * The collection of C programs under test/programs on all four PowerPC targets at three levels: what they print here must be what
 * they print under qemu-user. One executable per target and level holds them all.
 */
import { expect, test } from '@jest/globals';
import {
  buildCombined,
  LEVELS,
  programName,
  programPaths,
  runHere,
  runQemu,
  sections,
  TARGETS,
} from './support/c-programs.js';
import { tiersInStep } from './support/tiers.js';
import { describeWith } from './support/tools.js';

const PATHS = programPaths();
const NAMES = PATHS.map(programName);
let compared = 0;

test('there are at least 60 programs', () => {
  expect(new Set(NAMES).size).toBe(NAMES.length);
  expect(NAMES.length).toBeGreaterThanOrEqual(60);
});

for (const target of TARGETS) {
  describeWith([target.gcc, target.qemu], `C programs on ${target.name}`, () => {
    let first: ReadonlyMap<string, string> | undefined;
    test.each(LEVELS)(`-O%s`, (level) => {
      const path = buildCombined(target, level, PATHS);
      const expected = runQemu(target, path);
      const here = runHere(target, path);
      const theirs = sections(expected.output);
      const ours = sections(here.output);
      const differing = NAMES.filter((name) => ours.get(name) !== theirs.get(name)).map((name) => {
        const lines = theirs.get(name)?.split('\n') ?? [];
        const got = ours.get(name)?.split('\n') ?? [];
        const at = lines.findIndex((each, i) => each !== got[i]);
        const where = `${name} on ${target.name} at -O${level}`;
        return `${where}: qemu printed '${lines[at] ?? ''}', the emulator '${got[at] ?? 'nothing'}'`;
      });
      expect(differing).toEqual([]);
      expect(here.end).toBe(expected.end);
      if (level === '2' && target.name === 'ppc64-elfv1') expect(tiersInStep(target, path)).toEqual([]);
      expect(typeof expected.end).toBe('number');
      // Each program of the collection ran to its end and said something.
      expect([...theirs.keys()]).toEqual(NAMES);
      for (const [name, text] of theirs) expect([name, /^exit /m.test(text) && text.length > 12]).toEqual([name, true]);
      // A program whose output depends on the level leans on what C leaves open, and would prove nothing.
      const reference = (first ??= theirs);
      expect(NAMES.filter((name) => theirs.get(name) !== reference.get(name))).toEqual([]);
      compared += NAMES.length;
      if (level === 's') {
        process.stderr.write(
          `${NAMES.length} programs, levels 0 2 s, ${target.name}: ${compared} runs compared so far\n`,
        );
      }
    });
  });
}
