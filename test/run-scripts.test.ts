/**
 * Scripts: what their first lines mean to `execve` in a guest, as on the Linux that runs the tests;
 * and `elftrace run SCRIPT`, which executes the same program with the same arguments.
 */
import { mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, test } from '@jest/globals';
import { writeSource } from './support/emulator.js';
import { isX86Linux } from './support/processor.js';
import { run } from './support/run.js';
import { describeWith, run as runTool, runProgramFile } from './support/tools.js';

const folder = realpathSync(mkdtempSync(join(tmpdir(), 'run-scripts-')));
afterAll(() => {
  rmSync(folder, { recursive: true, force: true });
});

/** Says how it was started; executes the files that it is given. */
const SOURCE = String.raw`
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
int main(int n, char **v) {
  char comm[16], exe[300] = {0};
  if (n > 1 && strcmp(v[1], "execute") == 0) {
    for (int i = 2; i < n; i++) {
      fflush(stdout);
      if (fork() == 0) {
        execl(v[i], "zero", "one", (char *)0);
        printf("%s: %s\n", v[i], strerror(errno));
        return 0;
      }
      wait(0);
    }
    return 0;
  }
  prctl(PR_GET_NAME, comm);
  readlink("/proc/self/exe", exe, sizeof exe - 1);
  printf("%s, %s, %s:", (char *)getauxval(AT_EXECFN), comm, exe);
  for (int i = 0; i < n; i++) printf("<%s>", v[i]);
  puts("");
  return 0;
}
`;

const show = join(folder, 'show');
const zeros = '0'.repeat(300);
const SCRIPTS: Readonly<Record<string, string>> = {
  plain: `#!${show} a b  \t \nrest`,
  return: `#!${show}\r\n`,
  spaces: `#! \t ${show}\t x y\n`,
  relative: '#!show further\n',
  empty: '#!\n',
  blank: '#!   ',
  endless: `#!${show}`,
  zero: `#!${show}\0 tail\n`,
  long: `#!${show} ${zeros}\n`,
  'long-name': `#!/${zeros}\n`,
  missing: '#!/missing\n',
  'not-executable': `#!${folder}/text\n`,
  folder: `#!${folder}\n`,
  ...Object.fromEntries(
    [1, 2, 3, 4, 5, 6].map((each) => [
      `deep${each}`,
      `#!${each === 1 ? show : `${folder}/deep${each - 1}`} d${each}\n`,
    ]),
  ),
  'no-script': '\n',
};

describeWith(['gcc'], 'scripts', () => {
  if (!isX86Linux) return;

  test('execve: interpreters, arguments and errors of first lines are those of Linux', () => {
    runTool('gcc', ['-O1', '-w', '-static', '-o', show, writeSource('scripts.c', SOURCE)]);
    for (const [name, text] of Object.entries(SCRIPTS)) writeFileSync(join(folder, name), text, { mode: 0o755 });
    writeFileSync(join(folder, 'text'), '#!/bin/true\n', { mode: 0o644 });
    symlinkSync('plain', join(folder, 'link'));
    const names = [...Object.keys(SCRIPTS), 'link', './plain', 'text', join(folder, 'plain')];
    const there = runProgramFile(show, ['execute', ...names], folder);
    const here = run(['--root', '/', '--chdir', folder, show, 'execute', ...names]);
    expect(here.stdout.split('\n')).toEqual(there.stdout.split('\n'));
    expect(here.stdout.split('\n')).toHaveLength(names.length + 1);
  });

  test('run SCRIPT does what execve does', () => {
    for (const name of Object.keys(SCRIPTS)) {
      const path = join(folder, name);
      const { stdout } = runProgramFile(show, ['execute', path], folder);
      const here = run(['--root', '/', '--chdir', folder, path, 'one']);
      if (!stdout.startsWith(`${path}: `)) expect([here.status, here.stdout]).toEqual([0, stdout]);
      else expect([here.status, here.stderr]).toEqual([125, expect.stringMatching(/\[(unsupported-form|not-elf)\]/)]);
    }
  });

  test('its tree is that of --root; what has no tree, or is about one image, is refused', () => {
    const root = join(folder, 'root');
    mkdirSync(join(root, 'bin'), { recursive: true });
    runTool('cp', [show, join(root, 'bin')]);
    const script = join(root, 'bin', 'script');
    writeFileSync(script, '#!/bin/show a\n');
    const here = run(['--root', root, script, '-b']);
    expect([here.status, here.stdout]).toEqual([0, '/bin/script, script, /bin/show:</bin/show><a></bin/script><-b>\n']);
    const said = (...args: readonly string[]): string => run([...args, script]).stderr;
    expect(said()).toMatch(/this is a script: --root DIR .*\[unsupported-form\]/);
    expect(said('--root', join(root, 'bin'))).toMatch(/\/bin\/show in the tree of --root \(ENOENT\)/);
    mkdirSync(join(folder, 'other'));
    expect(said('--root', join(folder, 'other'))).toMatch(/not in the tree of --root/);
    expect(said('--root', root, '--compare', script)).toMatch(/are about one program/);
    expect(said('--root', root, '--call', 'main()')).toMatch(/are about one program/);
  });
});
