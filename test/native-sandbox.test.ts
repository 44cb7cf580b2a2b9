/**
 * Programs that are executed in a sandbox that kills for system calls, or put themselves into one:
 * they end as they would without a trace, and what is not recorded is counted where a file of the
 * process is there. Each with its twin, in which the sandbox is not looked at and the program dies.
 */
import { readdirSync } from 'node:fs';
import { describe, expect, test } from '@jest/globals';
import { CALLS, caged, LOADER_CALLS, NAMESPACE } from './support/cage.js';
import { few, sampled } from './support/long.js';
import { machines, ROOM } from './support/native-machines.js';
import { compile, countsOf, describeNatively, NOPS, patched, report, traced } from './support/native-run.js';
import { spawnSync } from './support/spawn.js';
import { describeWith } from './support/tools.js';

const FIB = `#include <stdio.h>\nint fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
int main(void) { printf("%d\\n", fib(12)); return 3; }`;
const PLAIN = ['-O1', '-fno-inline', '-fno-optimize-sibling-calls', NOPS];
const FIB12 = { fib: 465, main: 1 };
const MODES = [[], ['--tracer', 'function_graph'], ['--tracer', 'counter'], ['--clock', 'none']] as const;
const KILLED = 128;
const TRACE = { ELFTRACE_SANDBOX: 'trace' };

/** A program puts itself into a sandbox that kills for fallocate, getppid and madvise. */
const OWN = `#include <linux/filter.h>\n#include <linux/seccomp.h>\n#include <pthread.h>\n#include <stdlib.h>
#include <sys/prctl.h>\n#include <sys/wait.h>\n#include <unistd.h>
#define KILL(n) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, n, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS)
volatile int sink; void leaf(void) { sink++; }
__attribute__((patchable_function_entry(0))) void *thread(void *p) { for (int i = 0; i < 1000; i++) leaf(); return p; }
__attribute__((patchable_function_entry(0))) int main(int count, char **words) {
  struct sock_filter rules[] = { BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0), KILL(285), KILL(110), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW) };
  struct sock_fprog filter = { sizeof rules / sizeof *rules, rules }; pthread_t id; int status = 0;
  leaf(); if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, 2, &filter)) return 9;
  if (count > 1) for (int i = 0; i < atoi(words[1]); i++) leaf();
  else { pthread_create(&id, 0, thread, 0); pthread_join(id, 0); if (fork() == 0) { leaf(); _exit(7); } wait(&status); }
  return count > 1 || WEXITSTATUS(status) == 7 ? 3 : 4; }`;

describeNatively('in a sandbox', () => {
  test('RT-59: one that allows what the dynamic loader calls: the program runs, and is not traced', () => {
    const plain = compile(FIB, PLAIN);
    const only = { name: '', triple: '', sites: [], run: caged('only', LOADER_CALLS) };
    for (const mode of few(MODES, 2)) {
      const program = patched(plain, ...mode);
      const ran = traced(program, [], {}, only);
      expect([mode, ran.status, ran.stdout, readdirSync(ran.dir)]).toEqual([mode, 3, '144\n', []]);
      expect([mode, traced(program, [], TRACE, only).status]).toEqual([mode, KILLED]);
      expect([mode, traced(program, [], { ELFTRACE_DIR: '' }, only).status]).toEqual([mode, 3]);
    }
  });

  test('RT-59: one that answers: it is traced where that is asked for', () => {
    const program = patched(compile(FIB, PLAIN));
    const refusing = { name: '', triple: '', sites: [], run: caged('refuse', [CALLS.socket]) };
    const ran = traced(program, [], TRACE, refusing);
    expect([ran.status, countsOf(report(ran.dir))]).toEqual([3, FIB12]);
    for (const env of [{}, { ELFTRACE_SANDBOX: 'off' }])
      expect(readdirSync(traced(program, [], env, refusing).dir)).toEqual([]);
  });

  // It takes rights, which some places of tests have not.
  const mayBeFirst = spawnSync(NAMESPACE[0], [...NAMESPACE.slice(1), 'true']).status === 0;
  (mayBeFirst ? test : test.skip)(
    'RT-59: that of a container, which the first process is in, too: it is traced',
    () => {
      const program = patched(compile(FIB, PLAIN));
      const container = [...NAMESPACE, ...caged('refuse', [CALLS.socket])];
      const within = (more: readonly string[], env: Readonly<Record<string, string>> = {}) =>
        traced(program, [], env, { name: '', triple: '', sites: [], run: [...container, ...more] });
      // The program is the first process itself, or a child of it.
      const shell = ['bash', '-c', '"$@"; exit $?', 'bash'];
      for (const more of [[], shell]) {
        const ran = within(more);
        expect([ran.status, ran.stdout, countsOf(report(ran.dir))]).toEqual([3, '144\n', FIB12]);
      }
      // A sandbox inside of the container is another one.
      const inside = [...shell, ...caged('kill', [CALLS.fallocate])];
      const ran = within(inside);
      expect([ran.status, ran.stdout, readdirSync(ran.dir)]).toEqual([3, '144\n', []]);
      expect(within([], { ELFTRACE_SANDBOX: 'off' }).status).toBe(3);
    },
  );

  test.each(few(MODES, 2).map((mode) => [mode]))(
    'RT-59: threads and children that begin in a sandbox of the program itself are counted: %j',
    (mode) => {
      const program = patched(compile(OWN, [...PLAIN, '-pthread']), ...mode);
      const ran = traced(program);
      const { threads, calls, dropped } = report(ran.dir);
      expect([ran.status, threads, calls, dropped]).toEqual([3, 1, 1, 1001]);
      expect(traced(program, [], TRACE).status).not.toBe(3);
    },
  );

  test('RT-59: a file that would grow in one ends, and what follows is counted', () => {
    const program = patched(compile(OWN, [...PLAIN, '-pthread']));
    const ran = traced(program, ['100000']);
    const { calls, dropped } = report(ran.dir);
    expect([ran.status, calls + dropped, calls > 30_000, dropped > 0]).toEqual([3, 100_001, true, true]);
    expect(traced(program, ['100000'], TRACE).status).toBe(KILLED);
  });
});

describe.each(sampled(machines, 3))('$name', (machine) => {
  const { triple, sites, run: words } = machine;
  describeWith([`${triple}-gcc`, 'x86_64-linux-gnu-gcc', words[0]!], 'in a sandbox', () => {
    test('RT-59: the emulator is in one, and so is the program', () => {
      const program = patched(
        compile(FIB, ['-O1', '-fno-inline', '-fno-optimize-sibling-calls', ...sites], 'c', [], machine),
      );
      const within = { ...machine, run: [...caged('kill', [CALLS.fallocate]), ...words] };
      const ran = traced(program, [], ROOM, within);
      expect([ran.status, ran.stdout, readdirSync(ran.dir)]).toEqual([3, '144\n', []]);
      expect(traced(program, [], { ...ROOM, ...TRACE }, within).status).toBe(KILLED);
      expect(countsOf(report(traced(program, [], ROOM, machine).dir))).toEqual(FIB12);
    });
  });
});
