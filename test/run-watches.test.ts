/**
 * Times of files and `inotify` under `elftrace run`, against Linux: a program that sets, changes
 * and watches files below a directory that it may write.
 */
import { mkdirSync, mkdtempSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, test } from '@jest/globals';
import { PROGRAMS } from './support/emulator.js';
import { covering, sampled } from './support/long.js';
import { isX86Linux } from './support/processor.js';
import { LINUX_TARGETS, run } from './support/run.js';
import { describeWith, run as runTool, runProgramFile } from './support/tools.js';

const folder = mkdtempSync(join(tmpdir(), 'run-watches-'));
afterAll(() => {
  rmSync(folder, { recursive: true, force: true });
});

function build(name: string, gcc: string): string {
  const path = join(folder, name);
  runTool(gcc, ['-O1', '-w', '-static', '-o', path, join(PROGRAMS, 'processes', 'watched.c')]);
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
  2,
)) {
  if (!isX86Linux) continue;
  describeWith([gcc, 'gcc'], `files of ${name}`, () => {
    test('have times to the nanosecond and tell of their changes, as on Linux', () => {
      const kept = directory(`${name}-kept`);
      directory(`${name}-tree`, 'files');
      const here = run(['--root', join(folder, `${name}-tree`), '--write', kept, build(name, gcc), '/files']);
      expect(here.stdout.split('\n')).toEqual(onLinux().split('\n'));
      expect(here.status).toBe(3);
      expect(here.json['deviations']).toEqual([]);
      // What the program set last stays behind, as exactly as Node keeps it.
      const { mtimeMs } = statSync(join(kept, 'files', 'set'));
      expect(Math.abs(mtimeMs - 1_500_000_001_987.654)).toBeLessThan(0.01);
    });
  });
}
