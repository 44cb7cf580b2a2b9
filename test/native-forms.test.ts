/**
 * Programs as other tools make and change them, which write their own trace all the same: musl,
 * packed relocations, patchelf, strip; libraries that come and go.
 */
import { cpSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from '@jest/globals';
import { scratch } from './support/c-programs.js';
import { warmElftrace as elftrace } from './support/cli.js';
import { compile, countsOf, describeNatively, NOPS, patched, report, traced } from './support/native-run.js';
import { describeWith, run } from './support/tools.js';

const PLAIN = ['-O1', '-fno-inline', '-fno-optimize-sibling-calls', NOPS];
const TRACERS = [[], ['--tracer', 'function_graph']] as const;

/** Threads that make threads, children, a program that is executed, an own thread's exit. */
const THREADS = `#include <pthread.h>\n#include <stdio.h>\n#include <sys/wait.h>\n#include <unistd.h>
int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
void *inner(void *p) { fib(5); return p; }
void *work(void *p) { pthread_t id; pthread_create(&id, 0, inner, 0); fib(10); pthread_join(id, 0); return p; }
int main(int count, char **words) { if (count > 1) { fib(3); return 4; }
  for (int round = 0; round < 3; round++) { pthread_t ids[4]; for (int i = 0; i < 4; i++) pthread_create(ids + i, 0, work, 0);
    for (int i = 0; i < 4; i++) pthread_join(ids[i], 0); }
  if (fork() == 0) { fib(5); _exit(0); } wait(0); char *again[] = { words[0], "again", 0 };
  if (vfork() == 0) { execv("/proc/self/exe", again); _exit(9); } wait(0); printf("%d\\n", fib(12)); return 3; }`;
const COUNTS = { fib: 12 * (177 + 15) + 15 + 5 + 465, inner: 12, main: 2, work: 12 };

describeNatively('forms of programs', () => {
  describeWith(['musl-gcc'], 'RT-52: musl', () => {
    const musl = (...flags: string[]): string => {
      const output = scratch('musl');
      run('musl-gcc', [...PLAIN, ...flags, '-x', 'c', '-', '-o', output], THREADS);
      return output;
    };

    test.each([
      [[], TRACERS[0]],
      [[], TRACERS[1]],
      [['-static'], TRACERS[0]],
      [['-static'], TRACERS[1]],
      [['-no-pie'], TRACERS[1]],
    ])('%j %j', (flags, tracer) => {
      const plain = musl(...flags);
      const output = patched(plain, ...tracer);
      const stripped = scratch('stripped');
      run('strip', ['-o', stripped, output]);
      for (const each of [output, stripped]) {
        const ran = traced(each);
        expect([ran.status, ran.stdout]).toEqual([3, '144\n']);
        const found = report(ran.dir, output);
        expect([found.dropped, countsOf(found), found.threads]).toEqual([0, COUNTS, 27]);
      }
      const back = scratch('back');
      expect(elftrace(['revert', output, '-o', back]).status).toBe(0);
      run('cmp', [plain, back]);
    });

    test.each(['function', 'counter'])('RT-52: a static program without symbols, or section headers: %s', (tracer) => {
      const stripped = scratch('stripped');
      run('strip', ['-o', stripped, musl('-static')]);
      const bare = scratch('bare');
      run('llvm-strip', ['--strip-sections', '-o', bare, stripped]);
      for (const each of [stripped, bare]) {
        const ran = traced(patched(each, '--tracer', tracer));
        const found = report(ran.dir);
        const counts = Object.values(countsOf(found)).sort();
        expect([ran.status, ran.stdout, found.dropped, counts]).toEqual([3, '144\n', 0, Object.values(COUNTS).sort()]);
      }
    });

    test('arguments; a static program that unwinds itself, of which returns are refused', () => {
      const choice = scratch('choice');
      const program = patched(musl());
      expect(elftrace(['record', '--choice', choice, '-F', 'work', '-A', 'fib@arg1/i32', program]).status).toBe(0);
      const ran = traced(program, [], { ELFTRACE_CHOICE: choice });
      const lines = elftrace(['replay', ran.dir]).stdout.match(/fib\(10\)/g);
      expect([lines?.length, countsOf(report(ran.dir))]).toEqual([12, { fib: 12 * 177, work: 12 }]);
      const unwinds = scratch('unwinds');
      const source = `${THREADS} int _Unwind_Backtrace(void) { return 0; }`;
      run('musl-gcc', [...PLAIN, '-w', '-static', '-x', 'c', '-', '-o', unwinds], source);
      const never = elftrace(['record', '-o', scratch('never'), '--json', ...TRACERS[1], unwinds]);
      expect([never.status, never.stdout]).toEqual([4, expect.stringContaining('"reason":"no-unwind-tables"')]);
    });
  });

  test.each([
    [['-Wl,-z,pack-relative-relocs'], TRACERS[1]],
    [['-static-pie', '-fPIE', '-Wl,-z,pack-relative-relocs'], TRACERS[0]],
    [['-Wl,-z,pack-relative-relocs', '-Wl,-z,now'], TRACERS[0]],
  ])('RT-27: packed relocations: %j %j', (flags, tracer) => {
    const plain = compile(THREADS, [...PLAIN, '-pthread', ...flags]);
    expect(run('readelf', ['-dW', plain]).toString()).toContain('(RELR)');
    const ran = traced(patched(plain, ...tracer));
    expect([ran.status, ran.stdout, countsOf(report(ran.dir))]).toEqual([3, '144\n', COUNTS]);
  });

  describeWith(['patchelf', 'llvm-strip', 'objcopy'], 'RT-27: changed before and behind', () => {
    const changes: readonly (readonly [string, ...string[]])[] = [
      ['patchelf', '--set-rpath', '/opt/a/long/path/that/needs/room:/another/one'],
      ['patchelf', '--add-needed', 'libm.so.6'],
      ['patchelf', '--set-interpreter', '/lib64/../lib64/../lib64/../lib64/ld-linux-x86-64.so.2'],
      ['llvm-strip'],
      ['llvm-strip', '--strip-sections'],
      ['objcopy'],
    ];
    test.each(TRACERS.map((tracer) => [tracer]))('%j', (tracer) => {
      const plain = compile(THREADS, [...PLAIN, '-pthread']);
      const output = patched(plain, ...tracer);
      for (const [i, [tool, ...options]] of changes.entries()) {
        const changed = scratch('changed');
        cpSync(output, changed);
        run(tool, [...options, changed]);
        const ran = traced(changed);
        expect([tool, options, ran.status, ran.stdout]).toEqual([tool, options, 3, '144\n']);
        expect(countsOf(report(ran.dir, output))).toEqual(COUNTS);
        if (i > 1) continue;
        cpSync(plain, changed);
        run(tool, [...options, changed]);
        const behind = traced(patched(changed, ...tracer));
        expect([behind.status, countsOf(report(behind.dir))]).toEqual([3, COUNTS]);
      }
    });
  });

  test.each(TRACERS.map((tracer) => [tracer]))('RT-24: a library that is opened and closed 40 times: %j', (tracer) => {
    const library = `#include <stdio.h>\nint g; int below(int n) { return g += n; }
int second(int n) { if (n > 1000) puts("large"); return below(n) + below(1); }`;
    const folder = scratch('opened');
    mkdirSync(folder);
    const path = join(folder, 'libsecond.so');
    const plain = compile(library, [...PLAIN, '-fPIC', '-shared']);
    const source = `#include <dlfcn.h>\n#include <stdio.h>\n#include <sys/mman.h>\nint around(int (*f)(int), int n) { return f(n) + 1; }
int main(int count, char **words) { int sum = 0; for (int round = 0; round < 40; round++) { void *file = dlopen(words[1], RTLD_NOW);
  for (int i = 0; i < 10; i++) sum += around((int (*)(int))dlsym(file, "second"), i); dlclose(file);
  /* Elsewhere, the next time. */ if (round % 4 == 0) mmap(0, 1 << 16, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); }
  printf("%d\\n", sum); return 0; }`;
    const program = compile(source, PLAIN);
    const expected = run(program, [plain]).toString();
    cpSync(patched(plain, ...tracer), path);
    const ran = traced(patched(program, ...tracer), [path]);
    expect([ran.status, ran.stdout]).toEqual([0, expected]);
    expect(countsOf(report(ran.dir))).toEqual({ around: 400, below: 800, main: 1, second: 400 });
  });
});
