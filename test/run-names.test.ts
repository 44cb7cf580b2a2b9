/** Names of files that `/proc` tells under `elftrace run`, where links lead to them: as Linux. */
import { mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, test } from '@jest/globals';
import { PROGRAMS } from './support/emulator.js';
import { covering, sampled } from './support/long.js';
import { isX86Linux } from './support/processor.js';
import { elftrace } from './support/cli.js';
import { LINUX_TARGETS, run } from './support/run.js';
import { describeWith, run as runTool, runProgramFile } from './support/tools.js';

const folder = realpathSync(mkdtempSync(join(tmpdir(), 'run-names-')));
afterAll(() => {
  rmSync(folder, { recursive: true, force: true });
});

/** A tree with a program behind a link and data behind two; returns the link to the program. */
function tree(name: string, gcc: string): { readonly root: string; readonly program: string } {
  const root = join(folder, name);
  for (const each of ['bin', 'lib']) mkdirSync(join(root, each), { recursive: true });
  runTool(gcc, [
    '-O1',
    '-w',
    '-static',
    '-o',
    join(root, 'bin', 'program-1.2'),
    join(PROGRAMS, 'processes', 'names.c'),
  ]);
  symlinkSync('program-1.2', join(root, 'bin', 'program'));
  writeFileSync(join(root, 'lib', 'data.3.4'), new Uint8Array(0x2_0000));
  symlinkSync('data.3.4', join(root, 'lib', 'data'));
  symlinkSync('lib', join(root, 'alias'));
  return { root, program: join(root, 'bin', 'program') };
}

/** Rights and places in the file are those of the machine's linker. */
const namesOf = (said: string): string[] => said.split('\n').map((line) => line.replace(/^\S{4} [\da-f]+ (?=c)/, ''));

for (const [name, gcc] of sampled(
  covering(LINUX_TARGETS, ([, , form]) => form),
  2,
)) {
  if (!isX86Linux) continue;
  describeWith([gcc, 'gcc'], `names of ${name}`, () => {
    test('are those of the files, and tell where in them a mapping is, as on Linux', () => {
      const native = tree(`${name}-native`, 'gcc');
      const linux = runProgramFile(native.program, [native.root], join(native.root, 'alias'));
      expect(linux.status).toBe(3);
      const { root, program } = tree(name, gcc);
      const here = run(['--root', root, '--chdir', '/alias', program, '']);
      expect(here.status).toBe(3);
      expect(namesOf(here.stdout)).toEqual(namesOf(linux.stdout));
      if (gcc === 'gcc') expect(here.stdout).toBe(linux.stdout);
    });

    test('a program begins in a directory of its tree, or not at all', () => {
      const { root, program } = tree(`${name}-begin`, gcc);
      const said = (...options: readonly string[]): string[] => {
        const { status, stdout, stderr } = elftrace(['run', ...options, program, '']);
        return [String(status), (status === 3 ? stdout : stderr).split('\n')[0]!];
      };
      expect(said('--root', root)).toEqual(['3', 'begins in /']);
      expect(said('--root', root, '--chdir', 'lib/../bin')).toEqual(['3', 'begins in /bin']);
      expect(said('--root', root, '--chdir', '/none')).toEqual([
        '125',
        expect.stringMatching(/the program cannot begin in \/none \(ENOENT\)/),
      ]);
      expect(said('--root', root, '--chdir', '/alias/data')[1]).toMatch(/\(ENOTDIR\)/);
      expect(said('--chdir', '/')[1]).toMatch(/--chdir goes with --root/);
    });
  });
}
