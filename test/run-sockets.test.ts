/**
 * Sockets under `elftrace run`, and timers, signals, processes and memory as descriptors: what
 * threads and processes of one run send each other is what Linux makes of the same program; nothing
 * leaves the run.
 */
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, test } from '@jest/globals';
import { PROGRAMS, writeSource } from './support/emulator.js';
import { covering, isWhole, repeats } from './support/long.js';
import { isX86Linux } from './support/processor.js';
import { LINUX_TARGETS, run } from './support/run.js';
import { describeWith, run as runTool, runProgramFile } from './support/tools.js';

const folder = mkdtempSync(join(tmpdir(), 'run-sockets-'));
afterAll(() => {
  rmSync(folder, { recursive: true, force: true });
});
mkdirSync(join(folder, 'native'));
mkdirSync(join(folder, 'tree', 'tmp'), { recursive: true });
let runs = 0;

function build(gcc: string, source: string): string {
  const path = join(folder, `${gcc}-${source.replace(/^.*\//, '')}.out`);
  runTool(gcc, ['-O1', '-w', '-static', '-pthread', '-o', path, source]);
  return path;
}

/** Runs a program that may write below `/tmp`. */
function runHere(program: string, options: readonly string[] = []): ReturnType<typeof run> {
  const kept = join(folder, `kept-${runs++}`);
  mkdirSync(kept);
  return run([...options, '--root', join(folder, 'tree'), '--write', kept, program, '/tmp']);
}

/** Programs, their exit status, and what they are about. */
const SOURCES = [
  ['sockets', 7, 'names, paths, ports, datagrams, passed descriptors, ends'],
  ['exchange', 4, 'System V, IPv6, several messages in one call, the interface lo, sizes of memory'],
  ['specials', 6, 'timers, signals, processes and memory as descriptors; bytes between pipes'],
] as const;
const sourceOf = (name: string): string => join(PROGRAMS, 'processes', `${name}.c`);
const linux = new Map<string, readonly string[]>();
/** What Linux does. */
function onLinux(source: string, wanted: number): readonly string[] {
  const known = linux.get(source);
  if (known) return known;
  const { stdout, status } = runProgramFile(build('gcc', sourceOf(source)), [join(folder, 'native')]);
  expect(status).toBe(wanted);
  linux.set(source, stdout.split('\n'));
  return stdout.split('\n');
}

for (const [name, gcc] of repeats(covering(LINUX_TARGETS, ([, , form]) => form))) {
  if (!isX86Linux) continue;
  describeWith([gcc, 'gcc'], `processes of ${name}`, () => {
    test.each(SOURCES)('%s, %d: %s: as on Linux', (source, status, _what) => {
      const here = runHere(build(gcc, sourceOf(source)));
      expect(here.stdout.split('\n')).toEqual(onLinux(source, status));
      expect([here.status, here.json['deviations']]).toEqual([status, []]);
    });

    if (isWhole)
      test.each(SOURCES)('%s, %d: %s: turns drawn from a seed', (source, status, _what) => {
        const here = runHere(build(gcc, sourceOf(source)), ['--seed', '5', '--slice', '500']);
        expect(here.stdout.split('\n')).toEqual(onLinux(source, status));
      });
  });
}

/** What a hostile program may ask for. */
const HOSTILE = `
#define _GNU_SOURCE
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>
#define bad(...) do { errno = 0; long got = syscall(__VA_ARGS__); printf("%d: %ld %d\\n", __LINE__, got, errno); } while (0)
int main(void) {
  char *far = (char *)-4096L;
  int two[2], none[2];
  pipe(none);
  struct sockaddr_un name = {AF_UNIX, "/tmp/none"};
  struct sockaddr_in port = {AF_INET};
  socklen_t size = -5;
  socketpair(AF_UNIX, SOCK_STREAM, 0, two);
  int s = socket(AF_INET, SOCK_STREAM, 0), u = socket(AF_UNIX, SOCK_STREAM, 0);
  bad(SYS_bind, s, far, 16L);
  bad(SYS_bind, s, &port, -1L);
  bad(SYS_bind, s, &port, 1L << 40);
  bad(SYS_bind, u, &name, 4000L);
  bad(SYS_bind, none[0], &name, 100L);
  bad(SYS_bind, 99L, &name, 100L);
  bad(SYS_listen, none[0], 5L);
  bad(SYS_listen, s, -1L);
  bad(SYS_accept4, s, 0L, 0L, 0x7fffffffL);
  bad(SYS_accept4, u, 0L, 0L, 0L);
  bad(SYS_connect, u, far, 10L);
  bad(SYS_connect, u, &name, 1L);
  bad(SYS_getsockname, s, far, &size);
  size = 16;
  bad(SYS_getsockname, s, far, &size);
  bad(SYS_getsockname, s, &name, far);
  bad(SYS_getsockopt, s, 1L, 3L, far, &size);
  bad(SYS_setsockopt, s, 1L, 2L, far, 4L);
  bad(SYS_setsockopt, s, 1L, 2L, &size, -4L);
  bad(SYS_setsockopt, s, 1L, 2L, &size, 3L);
  bad(SYS_sendto, two[0], far, 5L, 0L, 0L, 0L);
  bad(SYS_recvfrom, two[0], 16L, 5L, 0x40L, 0L, 0L);
  struct iovec part = {far, 5};
  struct msghdr m = {.msg_iov = &part, .msg_iovlen = 1L << 20};
  bad(SYS_sendmsg, two[0], far, 0L);
  bad(SYS_sendmsg, two[0], &m, 0L);
  bad(SYS_recvmsg, two[0], &m, 0L);
  char control[64] = "";
  part.iov_base = control;
  m.msg_iovlen = 1;
  m.msg_control = control;
  m.msg_controllen = 64;
  bad(SYS_sendmsg, two[0], &m, 0L);
  struct cmsghdr *head = (void *)control;
  head->cmsg_level = SOL_SOCKET, head->cmsg_type = SCM_RIGHTS, head->cmsg_len = 1L << 40;
  bad(SYS_sendmsg, two[0], &m, 0L);
  head->cmsg_len = 60;
  memset(control + 16, 0xff, 48);
  bad(SYS_sendmsg, two[0], &m, 0L);
  m.msg_controllen = 1L << 40;
  bad(SYS_sendmsg, two[0], &m, 0L);
  bad(SYS_shutdown, two[0], 3L);
  bad(SYS_shutdown, s, -1L);
  int made = 0;
  while (socket(AF_INET, SOCK_DGRAM, 0) >= 0) made++;
  printf("%d %d\\n", errno, made > 100);
  return 3;
}
`;

/** Descriptors that wait in sockets which wait in sockets; more bytes than there may be. */
const FLOOD = `
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
int main(void) {
  int two[2], sent = 0;
  for (;;) {
    if (socketpair(AF_UNIX, SOCK_DGRAM, 0, two) < 0) break;
    char control[CMSG_SPACE(8)] = "";
    struct iovec part = {control, 1};
    struct msghdr m = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    struct cmsghdr *head = CMSG_FIRSTHDR(&m);
    head->cmsg_level = SOL_SOCKET, head->cmsg_type = SCM_RIGHTS, head->cmsg_len = CMSG_LEN(8);
    memcpy(CMSG_DATA(head), two, 8);
    if (sendmsg(two[0], &m, MSG_DONTWAIT) < 0) break;
    close(two[0]), close(two[1]);
    sent++;
  }
  printf("%d %d\\n", errno == ETOOMANYREFS, sent > 100);
  int full = 0;
  static char big[100000];
  for (int i = 0; i < 400; i++) {
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, two) < 0) break;
    while (send(two[0], big, sizeof big, MSG_DONTWAIT) > 0) {}
    if (errno == ENOBUFS) full++;
  }
  printf("%d\\n", full > 0);
  return 0;
}
`;

describeWith(['gcc'], 'hostile programs', () => {
  test('bad names, lengths, control data and descriptors are refused as on Linux', () => {
    const path = build('gcc', writeSource('hostile-sockets.c', HOSTILE));
    const here = runHere(path);
    expect(here.status).toBe(3);
    if (isX86Linux) expect(here.stdout.split('\n')).toEqual(runProgramFile(path).stdout.split('\n'));
  });

  test('what waits in sockets is bounded, and said', () => {
    const { status, stdout, stderr } = runHere(build('gcc', writeSource('flood.c', FLOOD)));
    expect([status, stdout]).toEqual([0, '1 1\n1\n']);
    expect(stderr).toContain('more than 64 MiB in all pipes and sockets together');
  });
});
