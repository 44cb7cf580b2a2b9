/**
 * Processes under `elftrace run`: what they make, wait for, send each other and become is what
 * Linux does with the same program, whatever the turns that they take. (qemu-user starts other
 * programs only where the host is set up for it, so that the processor that runs the tests is
 * asked.)
 */
import { copyFileSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, test } from '@jest/globals';
import { PROGRAMS, writeSource } from './support/emulator.js';
import { firstOf, isWhole, sampled } from './support/long.js';
import { isX86Linux } from './support/processor.js';
import { run } from './support/run.js';
import { describeWith, run as runTool, runProgramFile } from './support/tools.js';

const folder = mkdtempSync(join(tmpdir(), 'run-processes-'));
afterAll(() => {
  rmSync(folder, { recursive: true, force: true });
});

const TARGETS = [
  ['x86-64', 'gcc'],
  ['arm64', 'aarch64-linux-gnu-gcc'],
  ['riscv64', 'riscv64-linux-gnu-gcc'],
  ['ppc32', 'powerpc-linux-gnu-gcc'],
  ['ppc64-elfv1', 'powerpc64-linux-gnu-gcc'],
  ['ppc64le', 'powerpc64le-linux-gnu-gcc'],
] as const;

/** A tree with the program as `/bin/program`. */
function treeOf(gcc: string, source: string): string {
  const tree = join(folder, `${gcc}-${source.replace(/^.*\//, '')}`);
  mkdirSync(join(tree, 'bin'), { recursive: true });
  runTool(gcc, ['-O1', '-w', '-static', '-o', join(tree, 'bin', 'program'), source]);
  return tree;
}
const sourceOf = (name: string): string => join(PROGRAMS, 'processes', `${name}.c`);
const SOURCE = sourceOf('processes');

/** What each program prints on Linux. */
const printed = new Map<string, string>();
/** What Linux does, here or, where the tests run on another processor, as it did on x86-64. */
function onLinux(source = SOURCE): string {
  const known = printed.get(source);
  if (known !== undefined) return known;
  const native = join(treeOf('gcc', source), 'bin', 'program');
  const { stdout, status } = runProgramFile(native, [native]);
  expect(status).toBe(9);
  printed.set(source, stdout);
  return stdout;
}

const first = firstOf(TARGETS, () => 'all');
for (const target of sampled(TARGETS, 3)) {
  const [name, gcc] = target;
  if (!isX86Linux) continue;
  describeWith([gcc, 'gcc'], `processes of ${name}`, () => {
    test.each([
      ['pipes, waits, ends, events, other programs', 'processes'],
      ['processes that stop and go on', 'stops'],
      ['jobs at a terminal', 'jobs'],
    ])('%s: as on Linux', (_what, program) => {
      const source = sourceOf(program);
      const tree = treeOf(gcc, source);
      const here = run(['--root', tree, join(tree, 'bin', 'program'), '/bin/program']);
      expect(here.stdout.split('\n')).toEqual(onLinux(source).split('\n'));
      expect([here.status, here.json['deviations']]).toEqual([9, []]);
    });

    // The order of turns is the same on all machines.
    if (isWhole || first.has(target))
      test('turns drawn from a seed, in both tiers', () => {
        const tree = treeOf(gcc, SOURCE);
        const args = ['--root', tree, '--seed', '3', '--slice', '2000', join(tree, 'bin', 'program')];
        const ran = ['0', 'auto'].map((tier) => run(['--tier', tier, ...args]));
        const wanted = onLinux().split('\n');
        for (const { stdout } of ran) expect(stdout.trimEnd().split('\n')).toEqual(wanted.slice(0, stdout.trimEnd().split('\n').length)); // prettier-ignore
        expect(ran[0]!.json['instructions']).toBe(ran[1]!.json['instructions']);
      });
  });
}

/** What a hostile program may ask for. */
const HOSTILE = `
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>
#define bad(...) do { errno = 0; long got = syscall(__VA_ARGS__); printf("%ld %d\\n", got, errno); } while (0)
int main(void) {
  long p = 0x10;
  char *far = (char *)-4096L;
  char *list[] = {far, 0};
  int two[2];
  bad(SYS_pipe2, p, 0L);
  bad(SYS_pipe2, two, 0x7fffffffL);
  bad(SYS_wait4, -1L, p, 0L, 0L);
  bad(SYS_wait4, -1L, 0L, 0x7fL, 0L);
  bad(SYS_waitid, 9L, 0L, 0L, 4L, 0L);
  bad(SYS_execve, far, 0L, 0L);
  bad(SYS_execve, "/bin/program", far, 0L);
  bad(SYS_execve, "/bin/program", list, 0L);
  bad(SYS_execve, "/bin", 0L, 0L);
  bad(SYS_execve, "/none", 0L, 0L);
  bad(SYS_socketpair, 1L, 1L, 0L, p);
  bad(SYS_socketpair, 1L, 99L, 0L, two);
  bad(SYS_epoll_ctl, 1L, 1L, 0L, p);
  bad(SYS_epoll_pwait, 1L, p, 1L, 0L, 0L, 8L);
  bad(SYS_dup3, 1L, -1L, 0L);
  bad(SYS_dup3, 1L, 99999999L, 0L);
  bad(SYS_fcntl, 1L, 0L, -5L);
  bad(SYS_eventfd2, 1L, 0x70000000L);
  bad(SYS_chdir, far);
  bad(SYS_statfs, "/", p);
  bad(SYS_setpgid, -5L, 0L);
  bad(SYS_setpgid, 0L, -1L);
  bad(SYS_mremap, 1L, 4096L, 4096L, 0L);
  bad(SYS_mremap, p & -4096, 4096L, 8192L, 1L);
  syscall(SYS_pipe2, two, 0L);
  bad(SYS_write, (long)two[1], far, 5L);
  bad(SYS_write, (long)two[1], far, 1L << 40);
  bad(SYS_read, (long)two[1], two, 4L);
  bad(SYS_write, (long)two[0], two, 4L);
  bad(SYS_pread64, (long)two[0], two, 4L, 0L);
  bad(SYS_lseek, (long)two[0], 0L, 0L);
  int made = 0;
  while (syscall(SYS_pipe2, two, 0L) == 0) made++;
  printf("%d %d\\n", errno, made > 100);
  return 0;
}
`;
const BOMB = `
#include <unistd.h>
#include <stdio.h>
#include <errno.h>
int main(void) {
  int made = 0;
  for (int i = 0; i < 10000; i++) {
    int c = fork();
    if (c == 0) pause();
    if (c < 0) { printf("%d %d\\n", made, errno); return 5; }
    made++;
  }
  return 6;
}
`;
const CHILD_STOPS = `
#include <unistd.h>
#include <sys/wait.h>
int main(void) { if (fork() == 0) __asm__ volatile(".byte 0x62, 0xf1, 0x7c, 0x48, 0x58, 0xc0"); wait(0); return 0; }
`;
describeWith(['gcc'], 'hostile programs', () => {
  const file = (name: string, text: string): string => treeOf('gcc', writeSource(name, text));

  test('bad pointers, lengths, flags and descriptors are refused as on Linux', () => {
    const tree = file('hostile.c', HOSTILE);
    const here = run(['--root', tree, join(tree, 'bin', 'program')]);
    expect(here.status).toBe(0);
    if (!isX86Linux) return;
    const there = runProgramFile('unshare', ['-r', 'chroot', tree, '/bin/program']);
    if (there.status === 0) expect(here.stdout.split('\n')).toEqual(there.stdout.split('\n'));
    expect(here.stdout.split('\n').length).toBeGreaterThan(30);
  });

  test('a fork bomb ends at --max-processes, and is said', () => {
    const tree = file('bomb.c', BOMB);
    const { status, stdout, stderr } = run(['--max-processes', '10', join(tree, 'bin', 'program')]);
    // Those that it leaves behind wait for ever.
    expect([status, stdout]).toEqual([5, '9 11\n']);
    expect(stderr).toContain('more processes than --max-processes');
  });

  test('memory of all processes together is bounded', () => {
    const tree = file('bomb.c', BOMB);
    const { status, stdout } = run(['--max-memory', '8M', join(tree, 'bin', 'program')]);
    expect(status).toBe(5);
    expect(Number(stdout.split(' ')[0])).toBeLessThan(40);
  });

  test('an instruction that is not executed in a child ends the run, and is said', () => {
    const tree = file('child-stops.c', CHILD_STOPS);
    const { status, stderr, json } = run([join(tree, 'bin', 'program')]);
    expect(status).toBe(125);
    expect(stderr).toMatch(/process 1001 \(.*\): .*instruction/);
    expect(json['stop']).toMatchObject({ reason: 'unknown-instruction', process: 1001 });
  });

  test('a process that is stopped and cannot go on is a deadlock, and is said', () => {
    const tree = file('raise.c', '#include <signal.h>\nint main(void) { return raise(SIGSTOP); }\n');
    const { status, json, stderr } = run([join(tree, 'bin', 'program')]);
    const threads = [{ thread: 1000, stoppedBy: 19 }];
    expect([status, json['stop']]).toMatchObject([125, { reason: 'deadlock', threads }]);
    expect(stderr).toContain('(stopped by signal 19)');
  });

  test('two images that make processes are compared; the trace says what it does not hold', () => {
    const tree = treeOf('gcc', SOURCE);
    const path = join(tree, 'bin', 'program');
    const { status, stdout, stderr } = run(['--root', tree, '--compare', path, '--trace', join(folder, 'trace'), '--trace-source', 'oracle', path]); // prettier-ignore
    expect([status, stdout]).toEqual([0, expect.stringContaining('equal: exit status 0')]);
    expect(stderr).toMatch(/\d+ further processes are not in the trace/);
  });
});

describeWith(['gcc'], 'scripts', () => {
  test('the interpreter of the first line is started, with its argument', () => {
    const tree = treeOf('gcc', writeSource('echo.c', '#include <stdio.h>\n#include <unistd.h>\nint main(int n, char **v) { if (n > 1 && v[1][0] == 63) { execl("/script", "s", "a", 0); return 3; } for (int i = 0; i < n; i++) printf("<%s>", v[i]); return 0; }\n')); // prettier-ignore
    writeFileSync(join(tree, 'script'), '#!/bin/program one two\nrest\n', { mode: 0o755 });
    copyFileSync(join(tree, 'script'), join(tree, 'plain'));
    const { status, stdout } = run(['--root', tree, join(tree, 'bin', 'program'), '?']);
    expect([status, stdout]).toEqual([0, '</bin/program><one two></script><a>']);
  });
});
