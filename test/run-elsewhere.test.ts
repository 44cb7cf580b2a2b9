/**
 * Links of the tree that lead to `/proc` and `/dev` under `elftrace run`: to the guest's own files
 * there, as on Linux, and never to the host's.
 */
import { mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, test } from '@jest/globals';
import { testAgainstLinux } from './support/against-linux.js';
import { PROGRAMS } from './support/emulator.js';
import { isX86Linux } from './support/processor.js';
import { run } from './support/run.js';
import { describeWith, run as runTool, runProgramFile } from './support/tools.js';

testAgainstLinux({
  name: 'run-elsewhere',
  source: 'elsewhere',
  machines: 2,
  asUser: true,
  group: (machine) => `links of ${machine} that leave the tree`,
  title: 'they lead to the files of the process, also where they were made in the run',
});

const folder = realpathSync(mkdtempSync(join(tmpdir(), 'run-elsewhere-')));
afterAll(() => {
  rmSync(folder, { recursive: true, force: true });
});

if (isX86Linux) {
  describeWith(['gcc'], 'links of a tree that is only read', () => {
    const program = join(folder, 'program');
    const build = (): void => {
      runTool('gcc', ['-O1', '-w', '-static', '-o', program, join(PROGRAMS, 'processes', 'elsewhere.c')]);
    };

    test('they lead to the files of the process', () => {
      build();
      const tree = join(folder, 'tree');
      mkdirSync(join(tree, 'files'), { recursive: true });
      const linux = runProgramFile(program, [join(tree, 'files')]);
      expect(linux.status).toBe(3);
      // Its links are there now, and nothing may be written.
      const here = run(['--root', tree, program, '/files']);
      expect(here.stdout.split('\n')).toEqual(linux.stdout.split('\n'));
    });

    test("below the host's root they do not lead to the host's processes", () => {
      build();
      const files = join(folder, 'host');
      mkdirSync(files);
      for (const [to, name] of [
        ['/proc/1/status', 'one'],
        ['/proc/self/status', 'status'],
        ['../../../../../../proc', 'proc'],
      ] as const)
        symlinkSync(to, join(files, name));
      const kept = join(folder, 'kept');
      mkdirSync(kept);
      for (const more of [[], ['--write', kept]]) {
        const here = run(['--root', '/', ...more, program, files, 'host']);
        const answers = here.stdout.split('\n').map((line) => line.replace(/^.*: /, ''));
        expect([here.status, answers]).toEqual([3, ['1 0', '1 0', '-1 2', '-1 2', '-1 2', '']]);
      }
    });
  });
}
