/**
 * The collection of C programs under test/programs on x86-64, by gcc and clang at three levels: what they print here must be what
 * they print under qemu-user, and on this processor where it is one.
 */
import { spawnSync } from './support/spawn.js';
import { expect, test } from '@jest/globals';
import {
  buildCombined,
  LEVELS,
  programName,
  programPaths,
  runHere,
  runQemu,
  sections,
  X86_TARGETS,
} from './support/c-programs.js';
import { tiersInStep } from './support/tiers.js';
import { describeWith } from './support/tools.js';

const PATHS = programPaths();
const NAMES = PATHS.map(programName);
let compared = 0;

for (const target of X86_TARGETS) {
  describeWith([target.gcc, target.qemu], `C programs on ${target.name}`, () => {
    let first: ReadonlyMap<string, string> | undefined;
    test.each(target.name === 'x86-64-v2' ? LEVELS.slice(1) : LEVELS)(`-O%s`, (level) => {
      const path = buildCombined(target, level, PATHS);
      const expected = runQemu(target, path);
      if (process.arch === 'x64' && process.platform === 'linux') {
        const native = spawnSync(path, [], { env: { A: 'B' }, maxBuffer: 1 << 28 });
        expect([native.status, native.stdout.toString('latin1') === expected.output]).toEqual([expected.end, true]);
      }
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
      if (level === '2' && target.name === 'x86-64') expect(tiersInStep(target, path)).toEqual([]);
      expect([...theirs.keys()]).toEqual(NAMES);
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
