/**
 * What a process without rights may change of itself, and system calls that move bytes, under
 * `elftrace run`: every answer, and what is there afterwards, is that of Linux.
 */
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { getPriority, tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, test } from '@jest/globals';
import { PROGRAMS } from './support/emulator.js';
import { userFor } from './support/against-linux.js';
import { covering } from './support/long.js';
import { isX86Linux } from './support/processor.js';
import { LINUX_TARGETS, run } from './support/run.js';
import { describeWith, run as runTool, runProgramFile } from './support/tools.js';

const folder = mkdtempSync(join(tmpdir(), 'run-rights-'));
afterAll(() => {
  rmSync(folder, { recursive: true, force: true });
});

function build(name: string, gcc: string): string {
  const path = join(folder, name);
  runTool(gcc, ['-O1', '-w', '-static', '-o', path, join(PROGRAMS, 'processes', 'rights.c')]);
  return path;
}

/** What Linux answers a user; the tests may run as root, who may do more. */
function onLinux(): string {
  const native = build('native', 'gcc');
  const files = join(folder, 'native-files');
  mkdirSync(files, { recursive: true });
  const [command = '', ...args] = [...userFor(folder, files), native, files];
  const { stdout, status } = runProgramFile(command, args);
  expect(status).toBe(4);
  return stdout;
}

for (const [name, gcc] of covering(LINUX_TARGETS, ([, , form]) => form)) {
  if (!isX86Linux) continue;
  describeWith([gcc, 'gcc'], `a process of ${name} without rights`, () => {
    test('answers are those of Linux', () => {
      const tree = join(folder, `${name}-tree`);
      mkdirSync(join(tree, 'files'), { recursive: true });
      mkdirSync(join(folder, `${name}-kept`));
      const here = run(['--root', tree, '--write', join(folder, `${name}-kept`), build(name, gcc), '/files']);
      // Tests may run with another priority than 0, which the program does not have here.
      const compared = (text: string): string[] =>
        text.split('\n').filter((line) => getPriority() === 0 || !/priority|nice/.test(line));
      expect(compared(here.stdout)).toEqual(compared(onLinux()));
      expect([here.status, here.json['deviations']]).toEqual([4, []]);
    });
  });
}
