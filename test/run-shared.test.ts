/**
 * What processes share under `elftrace run`: memory across a fork, files in memory, locks of files.
 * Each process has a copy of its own behind the scenes; the program sees what Linux shows it.
 */
import { mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, test } from '@jest/globals';
import { PROGRAMS } from './support/emulator.js';
import { covering, sampled } from './support/long.js';
import { isX86Linux } from './support/processor.js';
import { LINUX_TARGETS, run } from './support/run.js';
import { describeWith, run as runTool, runProgramFile } from './support/tools.js';

const folder = mkdtempSync(join(tmpdir(), 'run-shared-'));
afterAll(() => {
  rmSync(folder, { recursive: true, force: true });
});

const SOURCE = join(PROGRAMS, 'processes', 'shared.c');
function build(name: string, gcc: string): string {
  const path = join(folder, name);
  runTool(gcc, ['-O1', '-w', '-static', '-pthread', '-o', path, SOURCE]);
  return path;
}

function directory(name: string): string {
  const path = join(folder, name);
  mkdirSync(path, { recursive: true });
  return path;
}

/** What the program that maps one file twice in a process is warned of. */
const TWICE = /^what is mapped as shared twice in one process/;

/** What Linux does. */
const onLinux = (): string => {
  const { stdout, status } = runProgramFile(build('native', 'gcc'), [directory('native-files')]);
  expect(status).toBe(3);
  return stdout;
};

/**
 * What the file holds. What was stored behind its end shows on tmpfs when it grows, and is 0
 * on a disk and in the emulator; a program may expect neither (mmap(2)).
 */
function stored(files: string): Buffer {
  const bytes = readFileSync(join(files, 'file'));
  return bytes.fill(0, 6000, 6004);
}

for (const [name, gcc] of sampled(
  covering(LINUX_TARGETS, ([, , form]) => form),
  2,
)) {
  if (!isX86Linux) continue;
  describeWith([gcc, 'gcc'], `what processes of ${name} share`, () => {
    test.each([
      ['in turn', []],
      ['turns drawn from a seed', ['--seed', '5', '--slice', '300']],
    ] as const)('memory, files in memory, locks: as on Linux, %s', (_, slices) => {
      const kept = directory(`${name}-kept-${slices.length}`);
      mkdirSync(directory(`${name}-tree/files`), { recursive: true });
      const here = run([
        ...slices,
        '--root',
        join(folder, `${name}-tree`),
        '--write',
        kept,
        build(name, gcc),
        '/files',
      ]);
      expect(here.stdout.split('\n')).toEqual(onLinux().split('\n'));
      expect(here.status).toBe(3);
      const said = (here.json['deviations'] as { readonly why: string }[]).map(({ why }) => why);
      expect(said.filter((why) => !TWICE.test(why))).toEqual([]);
      expect(said).not.toEqual([]);
      // The files hold what was stored in their memory.
      expect(stored(join(kept, 'files')).equals(stored(join(folder, 'native-files')))).toBe(true);
    });
  });
}
