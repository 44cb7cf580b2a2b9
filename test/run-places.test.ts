/**
 * The current directory of a process, and times of what is no file, under `elftrace run`: against
 * Linux, below a directory that the program may write.
 */
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, test } from '@jest/globals';
import { PROGRAMS } from './support/emulator.js';
import { covering, sampled } from './support/long.js';
import { isX86Linux } from './support/processor.js';
import { LINUX_TARGETS, run } from './support/run.js';
import { describeWith, run as runTool, runProgramFile } from './support/tools.js';

const folder = mkdtempSync(join(tmpdir(), 'run-places-'));
afterAll(() => {
  rmSync(folder, { recursive: true, force: true });
});

function build(name: string, gcc: string): string {
  const path = join(folder, name);
  runTool(gcc, ['-O1', '-w', '-static', '-o', path, join(PROGRAMS, 'processes', 'places.c')]);
  return path;
}

function directory(...names: readonly string[]): string {
  const path = join(folder, ...names);
  mkdirSync(path, { recursive: true });
  return path;
}

let native: string | null = null;
/** What Linux does. */
function onLinux(): string {
  if (native !== null) return native;
  const { stdout, status } = runProgramFile(build('native', 'gcc'), [directory('native-files')]);
  expect(status).toBe(3);
  return (native = stdout);
}

for (const [name, gcc] of sampled(
  covering(LINUX_TARGETS, ([, , form]) => form),
  1,
)) {
  if (!isX86Linux) continue;
  describeWith([gcc, 'gcc'], `places of ${name}`, () => {
    test('the current directory follows its renaming; pipes, sockets and memory are as old as they are', () => {
      const kept = directory(`${name}-kept`);
      directory(`${name}-tree`, 'files');
      const here = run(['--root', join(folder, `${name}-tree`), '--write', kept, build(name, gcc), '/files']);
      expect(here.stdout.split('\n')).toEqual(onLinux().split('\n'));
      expect([here.status, here.json['deviations']]).toEqual([3, []]);
    });
  });
}
