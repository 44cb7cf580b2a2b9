/**
 * The list of system calls that users read: its numbers are those of the headers, its page is the
 * one in `docs`, and what it says of each call is what the emulator does.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from '@jest/globals';
import { filesBelow } from '../src/output/guest-files.js';
import { readElf } from '../src/elf/read.js';
import { CONDITIONS, type Condition, SERVED_CALLS } from '../src/machine/calls.js';
import type { Deviation } from '../src/emulator/index.js';
import { type FileSystem, startProcess, systemCalls } from '../src/guest/index.js';
import { systemCallsPage } from '../src/report/system-calls.js';
import { callColumns } from '../scripts/syscalls-page.js';
import {
  ARM64_TARGETS,
  buildProgram,
  type PpcTarget,
  RISCV_TARGETS,
  TARGETS,
  X86_TARGETS,
} from './support/c-programs.js';
import { writeSource } from './support/emulator.js';
import { root } from './support/pipeline.js';
import { isX86Linux } from './support/processor.js';
import { run } from './support/run.js';
import { spawnSync } from './support/spawn.js';
import { describeWith, runProgramFile } from './support/tools.js';

const all: readonly PpcTarget[] = [...TARGETS, X86_TARGETS[0]!, RISCV_TARGETS[0]!, ARM64_TARGETS[0]!];

function callsOf({ arch }: PpcTarget) {
  if (arch.emulation.kind === 'none') throw new Error(arch.emulation.reason);
  return systemCalls(arch.emulation.process);
}

/**
 * Numbers in the headers that Linux itself answers with ENOSYS: calls that were taken out or never
 * put in. Source: the system call tables of Linux 6.1 (`sys_ni_syscall`).
 */
const WITHOUT_CALL: Readonly<Record<string, string>> = {
  'x86-64':
    'uselib _sysctl create_module get_kernel_syms query_module nfsservctl getpmsg putpmsg afs_syscall tuxcall security set_thread_area ' +
    'get_thread_area epoll_ctl_old epoll_wait_old vserver',
  ppc:
    'break stty gtty ftime prof lock mpx ulimit profil ioperm iopl idle vm86 create_module get_kernel_syms afs_syscall _sysctl query_module ' +
    'nfsservctl getpmsg putpmsg tuxcall',
  generic: 'nfsservctl',
};

/** Numbers and names of <asm/unistd.h>, as far as Linux 6.1 has them. */
function headerOf(gcc: string): ReadonlyMap<number, string> {
  const source = writeSource('numbers.c', '#include <asm/unistd.h>\n');
  const text = spawnSync(gcc, ['-E', '-dM', source], { encoding: 'utf8' }).stdout;
  const macros = new Map([...text.matchAll(/^#define (\w+)[ \t]+(.*\S)/gm)].map((each) => [each[1]!, each[2]!]));
  const value = (word: string): number => {
    const sum = /^\((\w+)\s*\+\s*(\w+)\)$/.exec(word);
    if (sum) return value(sum[1]!) + value(sum[2]!);
    return /^\d+$/.test(word) ? Number(word) : value(macros.get(word)!);
  };
  const out = new Map<number, string>();
  for (const [name, word] of macros) {
    const call = /^__NR_(\w+)$/.exec(name)?.[1];
    if (call === undefined || /^(syscalls|arch_specific_syscall|OLD.*)$/.test(call)) continue;
    const number = value(word);
    if (number <= 450) out.set(number, call);
  }
  return out;
}

/** Calls that do not come back, or come back twice, with no arguments. */
const ENDLESS_NAMES = [
  'exit', 'exit_group', 'rt_sigreturn', 'sigreturn', 'pause', 'ppoll', 'ppoll_time64', 'select', '_newselect', 'pselect6', 'pselect6_time64', 'fork', 'vfork', 'clone',
]; // prettier-ignore
const ENDLESS = new RegExp(`^(${ENDLESS_NAMES.join('|')})$`);

/** What Linux 6.1 may be built without. Source: kernel/sys_ni.c. */
const ABSENT =
  /^ipc$|^[gs]et_mempolicy$|^mbind$|^io_(setup|destroy|submit|cancel|p?getevents)|^io_uring|^seccomp$|^pkey_|^landlock|^fanotify_|^quotactl|^spu_|^pciconfig_/;
const ABSENT_NAMES: readonly string[] = [
  'kexec_file_load', 'add_key', 'keyctl', 'request_key', 'bpf', 'userfaultfd', 'kcmp', 'memfd_secret',
  'modify_ldt', 'perf_event_open', 'migrate_pages', 'move_pages',
  'name_to_handle_at', 'open_by_handle_at', 'lookup_dcookie', 'sysfs', 'uselib', 'subpage_prot',
  'process_madvise', 'ioperm', 'iopl', 'rtas',
]; // prettier-ignore

for (const target of all) {
  describeWith([target.gcc], `system calls of ${target.name}`, () => {
    test('numbers and names are those of asm/unistd.h', () => {
      const header = headerOf(target.gcc);
      expect(header.size).toBeGreaterThan(250);
      const family = Object.keys(WITHOUT_CALL).find((each) => target.name.startsWith(each)) ?? 'generic';
      const absent = new Set(WITHOUT_CALL[family]!.split(' '));
      const expected = [...header].filter(([, name]) => !absent.has(name)).sort(([a], [b]) => a - b);
      expect(callsOf(target).map(({ number, name }) => [number, name])).toEqual(expected);
    });

    test('a stack for handlers has MINSIGSTKSZ bytes of asm/signal.h at least', () => {
      const text = spawnSync(target.gcc, ['-E', '-dM', writeSource('stack.c', '#include <asm/signal.h>\n')], { encoding: 'utf8' }).stdout; // prettier-ignore
      const least = /^#define MINSIGSTKSZ\s+(\d+)$/m.exec(text)![1]!;
      const program = `
        #include <asm/unistd.h>
        #define SYS_WRITE __NR_write
        #include "lib.h"
        static word stack[3] = {0x100000, 0, ${least}};
        int main(void) {
          line("enough", -sys(__NR_sigaltstack, stack, 0L));
          stack[2]--;
          line("less", -sys(__NR_sigaltstack, stack, 0L));
          flush();
          return 0;
        }`;
      const ENOMEM = 'c';
      const { output, deviations } = runHere(target, program);
      expect(output.match(/[0-9a-f]+$/gm)!.map((each) => each.replace(/^0+(?=.)/, ''))).toEqual(['0', ENOMEM]);
      expect(deviations).toEqual([]);
    });

    test('every number from 0 to 600: refused ones return ENOSYS and are noted, others do not', () => {
      const program = `
        #include <asm/unistd.h>
        #define SYS_WRITE __NR_write
        #include "lib.h"
        static int isEndless(long n) {
${ENDLESS_NAMES.map((name) => `#ifdef __NR_${name}\nif (n == __NR_${name}) return 1;\n#endif`).join('\n')}
          return 0;
        }
        int main(void) {
          for (long n = 0; n < 600; n++) {
            if (isEndless(n)) continue;
            line("", (u32)-sys(n, 0L, 0L, 0L, 0L, 0L, 0L));
          }
          flush();
          return 0;
        }`;
      const { output, deviations } = runHere(target, program);
      const answers = output.trimEnd().split('\n').map((each) => Number.parseInt(each, 16)); // prettier-ignore
      const calls = new Map(callsOf(target).map((each) => [each.number, each]));
      const numbers = [...Array(600).keys()].filter((n) => !ENDLESS.test(calls.get(n)?.name ?? ''));
      expect(answers).toHaveLength(numbers.length);
      const ENOSYS = 38;
      // Of a code that it does not have, as here, Linux says so too; and kernels that were built
      // without AIO, seccomp, keys of memory, Landlock and others (`cond_syscall` of Linux 6.1).
      const isAbsent = (name: string): boolean => ABSENT.test(name) || ABSENT_NAMES.includes(name);
      const wrong = numbers.filter(
        (n, i) =>
          !isAbsent(calls.get(n)?.name ?? '') &&
          (answers[i] === ENOSYS) !== ((calls.get(n)?.class ?? 'refused') === 'refused'),
      );
      expect(wrong).toEqual([]);
      const refused = deviations.filter((each) => each.kind === 'refused').map((each) => each.what);
      const expected = [...calls.values()].filter((each) => each.class === 'refused');
      expect(refused).toEqual(expected.map(({ name, number }) => `system call ${name} (${number})`));
    });
  });
}

interface Ran {
  readonly output: string;
  readonly deviations: readonly Deviation[];
  readonly stop: string;
}

const runHere = (target: PpcTarget, program: string, files?: FileSystem): Ran =>
  runFile(target, buildProgram(target, '1', [writeSource('calls.c', program)]), [], files);

function runFile(target: PpcTarget, path: string, args: readonly string[], files?: FileSystem): Ran {
  const { emulation, abi } = target.arch;
  if (emulation.kind === 'none') throw new Error(emulation.reason);
  let output = '';
  const guest = startProcess({
    image: readElf(new Uint8Array(readFileSync(path))),
    emulation,
    abi,
    args: ['program', ...args],
    onOutput: (_, bytes) => (output += Buffer.from(bytes).toString('latin1')),
    ...(files && { files }),
  });
  const stop = guest.run({ budget: 50_000_000 });
  guest.ended(stop);
  return { output, deviations: guest.machine.deviations, stop: stop.kind };
}

// -------------------------------------------------------------------------------------- conditions

const HEAD = `
#include <asm/unistd.h>
#define SYS_WRITE __NR_write
#include "lib.h"
static u8 space[8192] __attribute__((aligned(4096)));
static void act(long signal, word handler) {
  word action[5] = {handler, 0, 0, 0, 0};
  sys(__NR_rt_sigaction, signal, action, 0L, 8L);
}
`;
const FILE = 'long fd = sys(__NR_openat, -100L, "/package.json", 0L); ';

/** A program for each condition, on x86-64: what it meets, and nothing else. */
const TRIGGERS: Readonly<Record<Condition, readonly (readonly [call: string, body: string])[]>> = {
  partial: [
    ['read', `${FILE} word end = sys(__NR_mmap, 0L, 4096L, 3L, 0x22L, -1L, 0L); sys(__NR_read, fd, end + 4000, 500L);`],
    ['write', 'word end = sys(__NR_mmap, 0L, 4096L, 3L, 0x22L, -1L, 0L); sys(__NR_write, 1L, end + 4000, 500L);'],
    [
      'getrandom',
      'word end = sys(__NR_mmap, 0L, 4096L, 3L, 0x22L, -1L, 0L); sys(__NR_getrandom, end + 4000, 500L, 0L);',
    ],
  ],
  limits: [
    ['mmap', 'sys(__NR_mmap, 0L, 0x200000000L, 3L, 0x22L, -1L, 0L);'],
    ['brk', 'sys(__NR_brk, sys(__NR_brk, 0L) + 0x180000000L);'],
  ],
  'mapping-kind': [['mmap', 'sys(__NR_mmap, 0L, 4096L, 3L, 0x122L, -1L, 0L);']],
  'behind-file': [
    ['signal 11', `${FILE} u8 *p = (u8 *)sys(__NR_mmap, 0L, 0x10000L, 1L, 2L, fd, 0L); *(volatile u8 *)(p + 0xf000);`],
  ],
  protection: [['mprotect', 'sys(__NR_mprotect, space, 4096L, 0x1000003L);']],
  'keeps-contents': [
    ['madvise', 'sys(__NR_madvise, space, 4096L, 4L);'],
    ['madvise', 'sys(__NR_madvise, space, 4096L, 9L);'],
  ],
  'read-only': [
    ['openat', 'sys(__NR_openat, -100L, "/package.json", 1L);'],
    ['openat', 'sys(__NR_openat, -100L, "/new", 0101L, 0600L);'],
    ['access', 'sys(__NR_access, "/package.json", 2L);'],
    ['mkdir', 'sys(__NR_mkdir, "/new", 0700L);'],
  ],
  nameless: [],
  'path-descriptor': [['openat', 'sys(__NR_openat, -100L, "/proc/self/maps", 010000000L);']],
  holes: [
    ['lseek', 'int m = sys(__NR_memfd_create, "m", 0L); sys(__NR_ftruncate, m, 4096L); sys(__NR_lseek, m, 0L, 4L);'],
  ],
  'descriptor-commands': [['fcntl', 'sys(__NR_fcntl, 1L, 8L, 10L);']],
  'non-blocking': [['fcntl', 'sys(__NR_fcntl, 0L, 4L, 04000L);']],
  requests: [
    ['ioctl', 'sys(__NR_ioctl, 0L, 0x541bL, space);'],
    ['ioctl', 'int m = sys(__NR_open, "/dev/ptmx", 2L); *space = 1; sys(__NR_ioctl, m, 0x5420L, space);'],
  ],
  'terminal-time': [
    [
      'ioctl',
      'int m = sys(__NR_open, "/dev/ptmx", 2L); sys(__NR_ioctl, m, 0x5401L, space); space[12] &= ~2; space[22] = 1; sys(__NR_ioctl, m, 0x5402L, space);',
    ],
  ],
  netlink: [
    [
      'sendto',
      'int s = sys(__NR_socket, 16L, 3L, 0L); *(u32 *)space = 17; *(u32 *)(space + 4) = 0x301001a; sys(__NR_sendto, s, space, 17L, 0L, 0L, 0L);',
    ],
  ],
  contexts: [],
  'left-out': [],
  'message-copies': [['msgrcv', 'sys(__NR_msgrcv, sys(__NR_msgget, 0L, 0600L), space, 8L, 0L, 044000L);']],
  'queue-threads': [
    [
      'mq_notify',
      '*(u32 *)(space + sizeof(word) + 4) = 2; sys(__NR_mq_notify, sys(__NR_mq_open, "q", 0102L, 0600L, 0L), space);',
    ],
  ],
  'set-limit': [['prlimit64', 'sys(__NR_prlimit64, 0L, 3L, space, 0L);']],
  codes: [['arch_prctl', 'sys(__NR_arch_prctl, 0x1011L);']],
  'other-clocks': [
    ['timer_create', 'sys(__NR_timer_create, -46L, 0L, space);'],
    ['clock_nanosleep', 'sys(__NR_clock_nanosleep, 2L, 0L, space, 0L);'],
  ],
  'futex-priority': [['futex', 'sys(__NR_futex, space, 11L, 0L, 0L, 0L, 0L);']],
  'clone-flags': [
    ['clone', 'sys(__NR_clone, 0x10900L, 0L, 0L, 0L, 0L);'],
    ['clone3', '*(word *)space = 0x10f00; *(word *)(space + 64) = 4096; sys(__NR_clone3, space, 88L);'],
  ],
  'thread-limit': [
    [
      'clone',
      'for (int i = 0; i < 1024; i++) if (sys(__NR_clone, 0x10f00L, 0L, 0L, 0L, 0L) == 0) for (;;) sys(__NR_pause);',
    ],
  ],
  'process-limit': [['fork', 'for (int i = 0; i < 130; i++) if (sys(__NR_fork) == 0) for (;;) sys(__NR_pause);']],
  'shared-twice': [],
  'other-programs': [
    ['execve', 'char *none[] = {0}; sys(__NR_execve, "/samples/built/riscv64/program-mcount", none, none);'],
  ],
  'signal-owner': [
    [
      'poll',
      '*(word *)space = 512; word s = sys(__NR_signalfd4, -1L, space, 8L, 0L); *(u32 *)space = s; *(u32 *)(space + 4) = 1; if (sys(__NR_fork) == 0) { sys(__NR_poll, space, 1L, 0L); sys(__NR_exit_group, 0L); } sys(__NR_wait4, -1L, 0L, 0L, 0L);',
    ],
  ],
  'huge-pages': [['memfd_create', 'sys(__NR_memfd_create, "x", 4L);']],
  'process-codes': [['prctl', 'sys(__NR_prctl, 26L, 1L);']],
  unshared: [
    [
      'unshare',
      'if (sys(__NR_clone, 0x10f00L, 0L, 0L, 0L, 0L) == 0) for (;;) sys(__NR_pause); sys(__NR_unshare, 0x200L);',
    ],
  ],
  personality: [['personality', 'sys(__NR_personality, 8L);']],
  'foreign-memory': [
    [
      'process_vm_readv',
      'word *p = (word *)sys(__NR_mmap, 0L, 4096L, 3L, 0x21L, -1L, 0L); p[0] = (word)(p + 8); p[1] = 8; sys(__NR_process_vm_readv, sys(__NR_fork), p, 1L, p, 1L, 0L);',
    ],
  ],
  resident: [['mincore', 'sys(__NR_mincore, space, 4096L, space);']],
  remapping: [['mremap', 'sys(__NR_mremap, space, 4096L, 4096L, 3L, space + 4096);']],
  'rename-flags': [['renameat2', 'sys(__NR_renameat2, -100L, "/a", -100L, "/b", 2L);']],
  'hard-links': [],
  'file-times': [],
  watches: [
    [
      'inotify_add_watch',
      `long fd = sys(__NR_inotify_init1, 0L); sys(__NR_inotify_add_watch, fd, "/dev/null", 0x20L);`,
    ],
  ],
  packets: [['pipe2', 'sys(__NR_pipe2, space, 040000L);']],
  sockets: [
    ['socket', 'sys(__NR_socket, 17L, 3L, 0L);'],
    ['socketpair', 'sys(__NR_socketpair, 17L, 1L, 0L, space);'],
  ],
  messages: [
    [
      'sendto',
      'u32 *two = (u32 *)space; sys(__NR_socketpair, 1L, 1L, 0L, two); sys(__NR_sendto, (word)two[0], "x", 1L, 1L, 0L, 0L);',
    ],
  ],
  'control-data': [
    [
      'sendmsg',
      'word *m = (word *)(space + 64), s = sys(__NR_socket, 2L, 2L, 0L); m[4] = (word)(space + 256); m[5] = 16; *(word *)(space + 256) = 16; sys(__NR_sendmsg, s, m, 0L);',
    ],
  ],
  queues: [
    [
      'sendto',
      'u32 *two = (u32 *)space; for (int i = 0; i < 400; i++) { sys(__NR_socketpair, 1L, 1L, 0L, two); for (int k = 0; k < 30; k++) sys(__NR_sendto, (word)two[0], space, 8192L, 0x40L, 0L, 0L); }',
    ],
  ],
  'connect-queue': [
    [
      'connect',
      'u32 name[4] = {2, 0x0100007f}; word s = sys(__NR_socket, 2L, 1L, 0L); u32 size = 16; sys(__NR_bind, s, name, 16L); sys(__NR_listen, s, 0L); sys(__NR_getsockname, s, name, &size); for (int i = 0; i < 3; i++) sys(__NR_connect, sys(__NR_socket, 2L, 0x801L, 0L), name, 16L);',
    ],
  ],
  disconnect: [
    [
      'connect',
      'u32 name[4] = {2, 0x0100007f}; word s = sys(__NR_socket, 2L, 1L, 0L), t = sys(__NR_socket, 2L, 1L, 0L); u32 size = 16; sys(__NR_bind, s, name, 16L); sys(__NR_listen, s, 0L); sys(__NR_getsockname, s, name, &size); sys(__NR_connect, t, name, 16L); name[0] = 0; sys(__NR_connect, t, name, 16L);',
    ],
  ],
  'socket-options': [
    [
      'setsockopt',
      'u32 *two = (u32 *)space; sys(__NR_socketpair, 1L, 1L, 0L, two); sys(__NR_setsockopt, (word)two[0], 1L, 26L, space + 64, 4L);',
    ],
  ],
  'time-left': [['select', 'word time[2] = {0, 1}; sys(__NR_select, 0L, 0L, 0L, 0L, time);']],
  'epoll-flags': [
    [
      'epoll_ctl',
      'word e = sys(__NR_epoll_create1, 0L), f = sys(__NR_eventfd2, 0L, 0L); *(u32 *)space = 0x10000001; sys(__NR_epoll_ctl, e, 1L, f, space);',
    ],
  ],
  'input-ready': [['poll', '*(u32 *)space = 0; *(u32 *)(space + 4) = 1; sys(__NR_poll, space, 1L, 0L);']],
};

/** What Linux does the same: none of it is a deviation. */
const SAME = `
  struct { word a, b, c; } stack = {(word)space, 0, 8192 * 2}, old;
  ${FILE}
  line("fd", fd);
  line("read", sys(__NR_read, fd, space, 1L));
  line("cloexec", sys(__NR_fcntl, fd, 2L, 1L));
  line("cloexec", sys(__NR_fcntl, fd, 1L));
  line("excl", -sys(__NR_openat, -100L, "/package.json", 0301L, 0600L));
  line("creat of what is there", sys(__NR_openat, -100L, "/package.json", 0100L, 0600L) > 0);
  line("write of a directory", -sys(__NR_openat, -100L, "/src", 1L));
  line("shared and writable", -sys(__NR_mmap, 0L, 4096L, 3L, 1L, fd, 0L));
  line("no type", -sys(__NR_mmap, 0L, 4096L, 3L, 0x20L, -1L, 0L));
  word p = sys(__NR_mmap, 0L, 8192L, 3L, 0x22L, -1L, 0L);
  line("no replace", -sys(__NR_mmap, p, 4096L, 3L, 0x100022L, -1L, 0L));
  line("hint", sys(__NR_mmap, 0x10000000L, 4096L, 3L, 0x22L, -1L, 0L) == 0x10000000);
  *(u8 *)p = 7;
  line("discard", sys(__NR_madvise, p, 4096L, 4L));
  line("zero", *(u8 *)p);
  line("advice", -sys(__NR_madvise, p, 4096L, 77L));
  line("advice for nothing", -sys(__NR_madvise, 0x20000000L, 4096L, 0L));
  line("clock", -sys(__NR_clock_gettime, 10L, space));
  line("clock", -sys(__NR_clock_gettime, 99L, space));
  line("cpu", sys(__NR_clock_gettime, 2L, space));
  line("coarse", sys(__NR_clock_gettime, 5L, space));
  line("tid", -sys(__NR_tkill, 0L, 0L));
  line("robust", sys(__NR_set_robust_list, space, 24L));
  line("robust", -sys(__NR_set_robust_list, space, 23L));
  line("limits", -sys(__NR_getrlimit, 16L, space));
  line("limits", -sys(__NR_prlimit64, 0L, 99L, 0L, space));
  line("terminal", sys(__NR_ioctl, fd, 0x5401L, space) == -25);
  line("random", sys(__NR_getrandom, space, 1000L, 0L));
  line("random", -sys(__NR_getrandom, space, 1000L, 6L));
  line("affinity", -sys(__NR_sched_getaffinity, 0L, 7L, space));
  line("futex", -sys(__NR_futex, space + 1, 1L, 1L, 0L, 0L, 0L));
  line("futex", sys(__NR_futex, space, 0x81L, 1L, 0L, 0L, 0L));
  line("futex", -sys(__NR_futex, 16L, 1L, 1L, 0L, 0L, 0L));
  line("bits", -sys(__NR_futex, space, 10L, 1L, 0L, 0L, 0L));
  line("sigaltstack", sys(__NR_sigaltstack, &stack, 0L));
  line("sigaltstack", sys(__NR_sigaltstack, 0L, &old));
  line("sigaltstack", old.a == (word)space && old.b == 0 && old.c == 16384);
  stack.b = 9;
  line("sigaltstack", -sys(__NR_sigaltstack, &stack, 0L));
  stack.b = 0, stack.c = 100;
  line("sigaltstack", -sys(__NR_sigaltstack, &stack, 0L));
  line("sysinfo", sys(__NR_sysinfo, space));
  line("unit", *(u32 *)(space + 104));
  line("writev", -sys(__NR_writev, 1L, 16L, 1L));
  line("mask", -sys(__NR_rt_sigprocmask, 5L, space, 0L, 8L));
`;

describeWith([X86_TARGETS[0]!.gcc], 'conditions', () => {
  const target = X86_TARGETS[0]!;
  const files = filesBelow(root);
  const program = (body: string): string => `${HEAD}int main(void) { ${body} flush(); return 0; }`;
  const cases = Object.entries(TRIGGERS).flatMap(([condition, list]) =>
    list.map(([call, body]) => [condition as Condition, call, body] as const),
  );

  let built: string | undefined;
  /** All of them in one program, which does the one that it is asked for. */
  const triggers = (): string => {
    const bodies = cases.map(([, , body], i) => `case ${i}: { ${body} break; }`);
    const text = `${HEAD}int main(int argc, char **argv) { switch (argv[1][0] - 'A') { ${bodies.join('\n')} } return argc; }`;
    return (built ??= buildProgram(target, '1', [writeSource('triggers.c', text)]));
  };

  test.each(cases.map(([condition, call], i) => [condition, call, i] as const))(
    '%s: noted for %s',
    (condition, call, i) => {
      const { deviations } = runFile(target, triggers(), [String.fromCharCode(65 + i)], files);
      expect(
        deviations.map((each) => [each.what.replace(/^system call (\w+) \(\d+\)( of process 1001)?$/, '$1'), each.why]),
      ).toEqual([[call, CONDITIONS[condition]]]);
      // The list says so.
      const row = SERVED_CALLS[condition === 'behind-file' ? 'mmap' : call]!;
      expect(row.unless).toContain(condition);
    },
  );

  test('what is answered as Linux does is no condition: the answers of this machine', () => {
    const text = program(SAME.replaceAll('"/', `"${root}/`));
    const here = runHere(target, program(SAME), files);
    expect(here.stop).toBe('exit');
    expect(here.deviations).toEqual([]);
    const path = buildProgram(target, '1', [writeSource('native.c', text)]);
    const there = isX86Linux ? runProgramFile(path) : runProgramFile(target.qemu, [path]);
    expect(here.output.split('\n')).toEqual(there.stdout.split('\n'));
    expect(here.output.split('\n').length).toBeGreaterThan(40);
  });
});

describe('the list', () => {
  test('docs/syscalls.md is the generated page', () => {
    expect(readFileSync(join(root, 'docs', 'syscalls.md'), 'latin1')).toBe(systemCallsPage(callColumns()));
  });

  test('every served call is one of some target, and every condition is in some row', () => {
    const names = new Set(all.flatMap((target) => callsOf(target).map((each) => each.name)));
    expect(Object.keys(SERVED_CALLS).filter((each) => !names.has(each))).toEqual([]);
    const used = new Set(Object.values(SERVED_CALLS).flatMap((each) => each.unless));
    expect(Object.keys(CONDITIONS).filter((each) => !used.has(each as Condition))).toEqual([]);
  });

  test('run --list-syscalls prints it for the machine of an image, and runs nothing', () => {
    const { status, stdout, stderr } = run(['--list-syscalls', join(root, 'samples/built/riscv64/program-mcount')]);
    expect([status, stderr]).toEqual([0, '']);
    const lines = stdout.trimEnd().split('\n');
    expect(lines).toHaveLength(callsOf(RISCV_TARGETS[0]!).length);
    expect(lines).toContain(' 428  open_tree                refused');
    expect(lines).toContain('  57  close                    served');
    expect(lines.find((each) => each.includes(' lseek '))).toBe(
      '  62  lseek                    half     SEEK_DATA, SEEK_HOLE of memory without a place in the tree: all of it is data',
    );
  });
});
