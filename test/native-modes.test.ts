/**
 * Traces without times, and numbers of calls in the place of calls: natively, against an
 * independent log; what such traces do not have is said, and refused where it is asked for.
 */
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from '@jest/globals';
import { HEADER_BYTES } from '../src/native/layout.js';
import { scratch } from './support/c-programs.js';
import { warmElftrace as elftrace } from './support/cli.js';
import { covering } from './support/long.js';
import { nativePrograms, SAME_CALLS, TOGETHER, TOGETHER_CALLS } from './support/native-programs.js';
import { root } from './support/pipeline.js';
import { spawnSync } from './support/spawn.js';
import {
  compile, countsOf, describeNatively, FORMS, NOPS, oneName, patched, report, traced, truth,
} from './support/native-run.js'; // prettier-ignore

const COUNTER = ['--tracer', 'counter'];
const NO_CLOCK = ['--clock', 'none'];
const FIB = `#include <stdio.h>\n#include <stdlib.h>
int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); } void never(void) { puts("never"); }
int main(int count, char **words) { printf("%d\\n", fib(count > 1 ? atoi(words[1]) : 12)); return 3; }`;
/** A child fills the disk, too: each process has a page. */
const FILLS = `#include <fcntl.h>\n#include <stdlib.h>\n#include <sys/wait.h>\n#include <unistd.h>\nvolatile int sink; void leaf(void) { sink++; }
__attribute__((patchable_function_entry(0))) int main(int count, char **words) { static char page[4096]; int status;
  int file = open("/mnt/fill", O_WRONLY | O_CREAT, 0600); while (write(file, page, sizeof page) > 0) ;
  if (fork() == 0) { for (int i = 0; i < 7; i++) leaf(); _exit(atoi(words[1])); }
  for (int i = 0; i < 1000; i++) leaf(); wait(&status); return WEXITSTATUS(status); }`;
const PLAIN = ['-O1', '-fno-inline', '-fno-optimize-sibling-calls', NOPS];
const FIB12 = { fib: 465, main: 1 };
const files = new Map<string, string>();
/** A patched program of FIB, made once. */
function program(...options: readonly string[]): string {
  const key = options.join(' ');
  const path = files.get(key) ?? patched(compile(FIB, PLAIN), ...options);
  files.set(key, path);
  return path;
}

/** Which mode, form and program go together. */
const rows = nativePrograms.flatMap((each, i) =>
  FORMS.flatMap((form, j) =>
    [COUNTER, NO_CLOCK].map((mode, k) => ({ each, form, mode, at: i + 3 * j + k, name: form.join(' ') })),
  ),
);

describeNatively('calls are those of an independent log', () => {
  const some = covering(
    rows.filter(({ at }) => at % 5 === 0),
    ({ each }) => each.name,
  );
  test.each(some.map(({ each, form, mode, name }) => [mode.join(' '), each.name, name, each, form, mode] as const))(
    'RT-54, RT-55: %s: %s, %s',
    (_mode, _name, _form, each, form, mode) => {
      const expected = truth(each, SAME_CALLS);
      const flags = [...SAME_CALLS, ...(each.flags ?? []), ...form];
      const ran = traced(patched(compile(each.source, flags, each.language), ...mode));
      expect([ran.status, ran.stdout]).toEqual([expected.status, expected.stdout]);
      const found = report(ran.dir);
      expect([found.dropped, found.damaged, found.unknown]).toEqual([0, 0, 0]);
      const counts: Record<string, number> = {};
      for (const [name, calls] of Object.entries(countsOf(found)))
        counts[oneName(name)] = (counts[oneName(name)] ?? 0) + calls;
      expect(counts).toEqual(expected.counts);
    },
  );
});

describeNatively('calls that are counted', () => {
  test('RT-54: a file has a header and a number for each site, and does not grow', () => {
    const ran = traced(program(...COUNTER), ['25']);
    const [name] = readdirSync(ran.dir);
    expect(statSync(join(ran.dir, name!)).size).toBe(2 * HEADER_BYTES);
    expect(countsOf(report(ran.dir))).toEqual({ fib: 242_785, main: 1 });
  });

  test('RT-54: functions that are chosen when the program is patched', () => {
    const ran = traced(patched(compile(FIB, PLAIN), ...COUNTER, '-l', 'fib'));
    expect(countsOf(report(ran.dir))).toEqual({ fib: 465 });
  });

  test('RT-54: revert gives the original back, and the emulator counts the same', () => {
    const plain = compile(FIB, [...PLAIN, '-static']);
    const output = patched(plain, ...COUNTER);
    const back = scratch('back');
    expect(elftrace(['revert', output, '-o', back]).status).toBe(0);
    expect(readFileSync(back).equals(readFileSync(plain))).toBe(true);
    const root = scratch('root');
    mkdirSync(join(root, 'trace'), { recursive: true });
    const ran = elftrace(['run', '--root', root, '--write', root, '--env', 'ELFTRACE_DIR=/trace', output]);
    expect([ran.status, countsOf(report(join(root, 'trace'), output))]).toEqual([3, FIB12]);
  });

  test('RT-24, RT-54: a library and its program count for themselves', () => {
    const shared = [...PLAIN, '-fPIC', '-shared', '-Wl,-soname,libfirst.so'];
    const first = compile(
      'int getppid(void), g; int below(int n) { return g += getppid() ? n : 0; } int first(int n) { return below(n); }',
      shared,
    );
    const folder = scratch('libraries');
    mkdirSync(folder);
    writeFileSync(join(folder, 'libfirst.so'), readFileSync(first), { mode: 0o755 });
    const source = 'int first(int); int main(void) { for (int i = 0; i < 100; i++) first(i); return 0; }';
    const plain = compile(source, PLAIN, 'c', [join(folder, 'libfirst.so'), `-Wl,-rpath,${folder}`]);
    for (const mode of [COUNTER, NO_CLOCK]) {
      writeFileSync(join(folder, 'libfirst.so'), readFileSync(patched(first, ...mode)), { mode: 0o755 });
      const ran = traced(patched(plain, ...mode));
      const found = report(ran.dir);
      expect([mode, countsOf(found), found.threads]).toEqual([mode, { below: 100, first: 100, main: 1 }, 1]);
    }
  });

  test('RT-23, RT-54: where a file has no room but for its header, all calls are counted as dropped', () => {
    for (const mode of [COUNTER, NO_CLOCK, ['--tracer', 'function_graph']]) {
      const ran = traced(program(...mode), [], { ELFTRACE_SIZE: '4096' });
      const { calls, dropped } = report(ran.dir);
      expect([mode, ran.status, ran.stdout, calls, dropped]).toEqual([mode, 3, '144\n', 0, 466]);
    }
    const { status, stderr } = elftrace(['report', traced(program(...COUNTER), [], { ELFTRACE_SIZE: '4095' }).dir]);
    expect([status, stderr]).toEqual([4, expect.stringContaining('no process had a file for 466 calls or more')]);
  });

  test('RT-54: a choice is not about numbers: nothing is written where one is named', () => {
    const choice = scratch('choice');
    expect(elftrace(['record', '--choice', choice, '-F', 'fib', program(...NO_CLOCK)]).status).toBe(0);
    const ran = traced(program(...COUNTER), [], { ELFTRACE_CHOICE: choice });
    expect([ran.status, ran.stdout, readdirSync(ran.dir)]).toEqual([3, '144\n', []]);
    const of = (mode: readonly string[], env: Readonly<Record<string, string>>) =>
      countsOf(report(traced(program(...mode), ['5'], env).dir));
    expect(of(NO_CLOCK, { ELFTRACE_CHOICE: choice })).toEqual({ fib: 15 });
  });

  test('RT-23, RT-54: behind its first call a thread makes no system call: a sandbox that kills for them', () => {
    const source = `#include <sys/prctl.h>\n#include <sys/syscall.h>\n#include <unistd.h>\nvolatile int sink; void work(void) { sink++; }
int main(void) { prctl(22, 1); for (int i = 0; i < 100000; i++) work(); syscall(SYS_exit, 3); return 4; }`;
    const plain = compile(source, PLAIN);
    const ran = traced(patched(plain, ...COUNTER));
    expect([ran.status, countsOf(report(ran.dir))]).toEqual([3, { main: 1, work: 100_000 }]);
    // Records with times need the clock now and then, and their files more room.
    expect(traced(patched(plain)).status).toBe(128);
  });

  test('RT-57: threads and children that begin in a sandbox are counted, where the first thread alone has a file', () => {
    // It kills for what opens a file: openat, fallocate, prlimit64, gettid, getppid.
    const source = `#include <linux/filter.h>\n#include <linux/seccomp.h>\n#include <pthread.h>\n#include <sys/prctl.h>
#include <sys/wait.h>\n#include <unistd.h>\n#define KILL(n) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, n, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS)
volatile int sink; void leaf(void) { sink++; }
void *thread(void *p) { for (int i = 0; i < 1000; i++) leaf(); return p; }
int main(void) { struct sock_filter rules[] = { BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0), KILL(257), KILL(285), KILL(302), KILL(186), KILL(110),
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW) };
  struct sock_fprog filter = { sizeof rules / sizeof *rules, rules }; pthread_t ids[4]; int status;
  leaf(); prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); if (prctl(PR_SET_SECCOMP, 2, &filter)) return 9;
  for (int i = 0; i < 4; i++) pthread_create(ids + i, 0, thread, 0);
  for (int i = 0; i < 4; i++) pthread_join(ids[i], 0);
  if (fork() == 0) { leaf(); _exit(7); } wait(&status); return WIFEXITED(status) && WEXITSTATUS(status) == 7 ? 3 : 4; }`;
    const plain = compile(source, [...PLAIN, '-pthread']);
    for (const mode of [COUNTER, NO_CLOCK, [], ['--tracer', 'function_graph']]) {
      const program = patched(plain, ...mode);
      expect([mode, traced(program).status === 3]).toEqual([mode, false]);
      const ran = traced(program, [], { ELFTRACE_THREADS: 'first' });
      const found = report(ran.dir);
      expect([mode, ran.status, countsOf(found)]).toEqual([mode, 3, { leaf: 1, main: 1 }]);
      expect([mode, found.threads, found.dropped]).toEqual([mode, 1, 4 * 1001 + 1]);
    }
  });

  test('RT-57: threads that come together: one has a file, and all calls of the others are counted', () => {
    const plain = compile(TOGETHER, ['-O1', '-pthread', NOPS]);
    for (const mode of [COUNTER, [], ['--tracer', 'function_graph']]) {
      const program = patched(plain, ...mode);
      for (let i = 0; i < 5; i++) {
        const ran = traced(program, [], { ELFTRACE_THREADS: 'first' });
        const { threads, calls, dropped } = report(ran.dir);
        expect([mode, ran.status, threads, calls + dropped]).toEqual([mode, 3, 1, TOGETHER_CALLS]);
      }
    }
  });

  // It takes rights to mount, which some places of tests have not.
  const mounts = spawnSync('unshare', ['-rm', 'mount', '-t', 'tmpfs', 'none', '/mnt']).status === 0;
  (mounts ? test : test.skip)('RT-23: a full disk: pages that were there before count what is lost', () => {
    const plain = compile(TOGETHER, ['-O1', '-pthread', NOPS]);
    // The program itself takes what room there is, before it calls a traced function.
    const fills = compile(FILLS, ['-O1', NOPS]);
    const script = `set -e; mount -t tmpfs -o size=256k none /mnt; mkdir /mnt/by-hand
{ printf ELFTRSPR; head -c 4088 /dev/zero; } > /mnt/by-hand/spare.3
set +e; dd if=/dev/zero of=/mnt/fill bs=4096 status=none 2> /dev/null; ELFTRACE_DIR=/mnt/by-hand ${patched(plain)}; echo $?; cp -r /mnt/by-hand $1; rm -r /mnt/fill /mnt/by-hand
"$2" "$3" record -d /mnt/recorded ${fills} 7; echo $?; rm /mnt/fill; cp -r /mnt/recorded $1`;
    const kept = scratch('kept');
    mkdirSync(kept);
    const cli = join(root, 'dist', 'cli.cjs');
    const env = { PATH: process.env['PATH']!, XDG_CACHE_HOME: scratch('cache') };
    const words = ['-rm', 'bash', '-c', script, 'bash', kept, process.execPath, cli];
    const { stdout } = spawnSync('unshare', words, { encoding: 'utf8', env });
    expect(stdout).toBe('3\n7\n');
    const lost = (name: string): unknown => JSON.parse(elftrace(['report', join(kept, name), '--json']).stdout);
    expect(lost('by-hand')).toMatchObject({ calls: 0, dropped: TOGETHER_CALLS });
    expect(lost('recorded')).toMatchObject({ calls: 0, dropped: 1007 });
    expect(readdirSync(join(kept, 'recorded')).filter((name) => name.startsWith('spare'))).toEqual([]);
  });

  test('RT-31: numbers of another object, and a file that was cut, are no yes', () => {
    const ran = traced(program(...COUNTER));
    const path = join(ran.dir, readdirSync(ran.dir)[0]!);
    const bytes = readFileSync(path);
    writeFileSync(path, bytes.subarray(0, HEADER_BYTES + 8));
    const cut = elftrace(['report', ran.dir, '--json']);
    expect([cut.status, cut.stderr]).toEqual([1, expect.stringContaining('2 words are no records')]);
    bytes[464]!++;
    writeFileSync(path, bytes);
    const other = elftrace(['report', ran.dir]);
    expect([other.status === 0, other.stderr]).toEqual([
      false,
      expect.stringContaining('it has 4 numbers of calls, its object has 3 sites'),
    ]);
  });
});

describeNatively('calls without times', () => {
  test('RT-55: replay, graph, folded and ndjson have calls by their callers, and no time', () => {
    const ran = traced(program(...NO_CLOCK), ['2']);
    const shown = (...words: string[]): string[] => {
      const { status, stdout, stderr } = elftrace([words[0]!, ran.dir, ...words.slice(1)]);
      expect([status, stderr]).toEqual([0, '']);
      return stdout.trimEnd().split('\n');
    };
    const replayed = shown('replay').map((row) => row.replace(/\[ *\d+\]/, '[T]').trim());
    expect(replayed.slice(2)).toEqual([
      '[T] | main() {',
      '[T] |   fib() {',
      '[T] |     fib();',
      '[T] |     fib();',
      '[T] |   } /* fib */',
      '[T] | } /* main */',
    ]);
    expect(replayed[1]).toContain('times are not recorded');
    expect(shown('graph').map((row) => row.trim())).toEqual([
      '# TOTAL TIME   FUNCTION',
      ': (1) main',
      ':   (1) fib',
      ':     (2) fib',
      '# times are not recorded',
    ]);
    expect(
      shown('report')
        .slice(2, 4)
        .map((row) => row.trim().split(/ +/)),
    ).toEqual([
      ['3', '1', 'fib'],
      ['1', '1', 'main'],
    ]);
    expect(shown('export', '--format', 'folded')).toEqual(['main 1', 'main;fib 1', 'main;fib;fib 2']);
    const [head, ...events] = shown('export', '--format', 'ndjson').map((row) => JSON.parse(row) as object);
    expect([head, events.length, events.some((each) => 'time' in each)]).toEqual([
      expect.objectContaining({ clock: 'none' }),
      4,
      false,
    ]);
  });

  test('RT-51, RT-55: the last calls are kept', () => {
    const ran = traced(program(...NO_CLOCK), ['25'], { ELFTRACE_SIZE: String(1 << 18), ELFTRACE_POLICY: 'ring' });
    const { status, stdout } = elftrace(['report', ran.dir, '--json']);
    const found = JSON.parse(stdout) as { calls: number; overwritten: number; dropped: number; damaged: number };
    expect([status, found.calls + found.overwritten, found.dropped, found.damaged]).toEqual([0, 242_786, 0, 0]);
    expect(found.calls).toBeLessThan(1 << 15);
  });
});

describeNatively('what such traces do not have', () => {
  const run = (mode: readonly string[]): string => traced(program(...mode)).dir;
  test.each<readonly [string, readonly string[], readonly string[], string]>([
    ['replay', COUNTER, ['replay'], 'not when or by whom'],
    ['graph', COUNTER, ['graph'], 'not when or by whom'],
    ['folded', COUNTER, ['export', '--format', 'folded'], 'not when or by whom'],
    ['depth', COUNTER, ['report', '-D', '2'], 'not when or by whom'],
    ['times', COUNTER, ['report', '-f', 'total'], 'not when or by whom'],
    ['times', NO_CLOCK, ['report', '-s', 'self'], 'has no times'],
    ['a span', NO_CLOCK, ['replay', '-r', '1us~'], 'has no times'],
    ...['chrome', 'ctf', 'ftrace', 'perfetto', 'uftrace'].map(
      (form) => [form, NO_CLOCK, ['export', '--format', form, '-o', 'OUT'], 'has no times'] as const,
    ),
  ])('RT-54, RT-55: %s of %j is refused', (_, mode, words, text) => {
    const output = scratch('never');
    const [verb, ...rest] = words.map((each) => (each === 'OUT' ? output : each));
    const { status, stdout, stderr } = elftrace([verb!, run(mode), ...rest]);
    expect([status, stdout, existsSync(output)]).toEqual([4, '', false]);
    expect(stderr).toContain(text);
  });

  describe('is refused when it is asked for', () => {
    test.each<readonly [readonly string[], string]>([
      [[...COUNTER, '-F', 'fib'], '-l and -n'],
      [[...COUNTER, '-A', 'fib'], '-l and -n'],
      [[...COUNTER, '--policy', 'ring', '--size', '1000000'], 'files do not grow'],
      [['--tracer', 'function_graph', ...NO_CLOCK], 'with their times'],
    ])('RT-28: record %j', (options, text) => {
      const { status, stdout, stderr } = elftrace(['record', ...options, '-d', scratch('never'), compile(FIB, PLAIN)]);
      expect([status, stdout]).toEqual([125, '']);
      expect(stderr).toContain(text);
    });
  });
});
