/**
 * What system calls answer that change little under `elftrace run`, against Linux, as a user
 * without rights: advice, barriers, cores, locked memory, links between file systems, the slack of
 * timers, limits of sizes, rights in `maps`.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, test } from '@jest/globals';
import { testAgainstLinux } from './support/against-linux.js';
import { PROGRAMS } from './support/emulator.js';
import { isX86Linux } from './support/processor.js';
import { run } from './support/run.js';
import { describeWith, run as runTool } from './support/tools.js';

testAgainstLinux({
  name: 'run-answers',
  source: 'answers',
  machines: 3,
  asUser: true,
  group: (machine) => `answers of ${machine}`,
  title: 'they are those of Linux',
});

const folder = mkdtempSync(join(tmpdir(), 'run-cores-'));
afterAll(() => {
  rmSync(folder, { recursive: true, force: true });
});

if (isX86Linux) {
  describeWith(['gcc'], 'a limit of core files', () => {
    test('it is 0, with which Linux begins; that none is written above it is said', () => {
      const program = join(folder, 'program');
      runTool('gcc', ['-O1', '-w', '-static', '-o', program, join(PROGRAMS, 'processes', 'answers.c')]);
      const { status, stdout, json } = run([program, '', 'core']);
      const answers = stdout.split('\n').map((line) => line.replace(/^.*: /, ''));
      expect([status, answers]).toEqual([3, ['0 0', '0 0', '0 0', '0 0', '']]);
      expect(json['deviations']).toMatchObject([{ what: 'core of process 1001', why: 'none is written' }]);
    });
  });
}
