/**
 * What programs find about the system and its processes below `/proc` under `elftrace run`, against
 * Linux.
 */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from '@jest/globals';
import { testAgainstLinux } from './support/against-linux.js';
import { writeSource } from './support/emulator.js';
import { run } from './support/run.js';
import { describeWith, run as runTool } from './support/tools.js';

testAgainstLinux({
  name: 'run-system',
  source: 'system',
  machines: 2,
  group: (machine) => `the system of ${machine}`,
  title: 'processes, times, memory, names and mounts are found below /proc',
  asUser: true,
});

/** What is asked of files below /proc that Linux has not, and of one of the tree. */
const BELOW = `
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>
#define SAY(call) errno = 0, printf("%d ", (int)(call)), printf("%d\\n", errno)
int main(void) {
  struct stat status;
  SAY(access("/proc/of-the-tree", F_OK));
  SAY(stat("/proc/sys/of-the-tree", &status));
  SAY(open("/proc/of-the-tree", O_RDONLY));
  SAY(open("/proc/new", O_CREAT | O_WRONLY, 0600));
  SAY(mkdir("/proc/sys/new", 0700));
  SAY(access("/link", F_OK));
  SAY(access("/proc/../link", F_OK));
}
`;
describeWith(['gcc'], 'below /proc', () => {
  test('is nothing that a tree has there, for Linux mounts its own above it', () => {
    const folder = mkdtempSync(join(tmpdir(), 'proc-'));
    const [tree, kept] = [join(folder, 'tree'), join(folder, 'kept')];
    mkdirSync(join(tree, 'proc', 'sys'), { recursive: true });
    mkdirSync(kept);
    for (const name of ['proc/of-the-tree', 'proc/sys/of-the-tree', 'link']) writeFileSync(join(tree, name), 'text');
    const program = join(folder, 'below');
    runTool('gcc', ['-O1', '-static', '-w', '-o', program, writeSource('below.c', BELOW)]);
    const { stdout } = run(['--root', tree, '--write', kept, program]);
    const NONE = '-1 2';
    expect(stdout.trim().split('\n')).toEqual([NONE, NONE, NONE, NONE, NONE, '0 0', '0 0']);
    rmSync(folder, { recursive: true });
  });
});
