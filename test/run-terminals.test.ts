/** Pseudo terminals under `elftrace run`, against Linux; a program that makes a terminal, too. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from '@jest/globals';
import { testAgainstLinux } from './support/against-linux.js';
import { isX86Linux } from './support/processor.js';
import { run } from './support/run.js';
import { spawnSync } from './support/spawn.js';
import { describeWith } from './support/tools.js';

testAgainstLinux({
  name: 'run-terminals',
  source: 'terminals',
  machines: 3,
  group: (machine) => `terminals of ${machine}`,
  title: 'lines, echo, modes, sizes, sessions, signals and ends are those of Linux',
});

describeWith(['/usr/bin/script', '/usr/bin/stty'], 'a program in a terminal that another makes', () => {
  if (!isX86Linux) return;
  test('a shell finds it, and its output comes back', () => {
    const folder = mkdtempSync(join(tmpdir(), 'run-terminals-'));
    const args = ['-q', '-e', '-c', 'tty > /dev/null && stty -a | head -n 1; cat; exit 5', '/dev/null'];
    const env = ['PATH=/usr/bin:/bin', 'LC_ALL=C'].flatMap((each) => ['--env', each]);
    const here = run(['--root', '/', '--write', folder, ...env, '--', '/usr/bin/script', ...args]);
    rmSync(folder, { recursive: true });
    const there = spawnSync('script', args, { encoding: 'utf8', input: '' });
    expect([here.status, here.stdout]).toEqual([5, there.stdout]);
    expect(here.stdout).toMatch(/^speed 38400 baud; rows 0;/);
  });
});
