/**
 * Programs that write calls and returns: they do what they did before, whatever befalls their
 * stacks, and what they record are the calls of an independent log with their returns.
 */
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, expect, test } from '@jest/globals';
import { openTrace } from '../src/cli/native-trace.js';
import { scratch } from './support/c-programs.js';
import { warmElftrace as elftrace } from './support/cli.js';
import { few, isWhole, sampled } from './support/long.js';
import { machines, ROOM } from './support/native-machines.js';
import { type NativeProgram, nativePrograms, SAME_CALLS } from './support/native-programs.js';
import {
  compile, countsOf, describeNatively, FORMS, NOPS, oneName, patched, report, traced, truth,
} from './support/native-run.js'; // prettier-ignore
import { spawnSync } from './support/spawn.js';
import { describeWith, run, runProgramFile } from './support/tools.js';

const GRAPH = ['--tracer', 'function_graph'] as const;
const OWN_CALLS = ['-O1', '-fno-inline', '-fno-optimize-sibling-calls'];

/** Calls by name whose return was recorded, and the deepest nesting. */
async function returnsOf(dir: string, ...object: string[]): Promise<readonly [Record<string, number>, number]> {
  const trace = await openTrace({ dir, object });
  const counts: Record<string, number> = {};
  let deepest = 0;
  trace.byTask(() => ({
    enter: (_, depth) => {
      deepest = Math.max(deepest, depth);
    },
    leave: ({ name }, _, __, isExact) => {
      if (isExact) counts[oneName(name)] = (counts[oneName(name)] ?? 0) + 1;
    },
  }));
  return [Object.fromEntries(Object.entries(counts).sort()), deepest];
}

const HEAD = `#include <stdio.h>\n#include <stdlib.h>\n#include <unistd.h>\n#define OWN __attribute__((noinline))\nvolatile int sink;\n`;

const more: readonly NativeProgram[] = [
  {
    name: 'threads that are cancelled and that exit, unwound through their frames',
    language: 'c++',
    flags: ['-pthread'],
    source: `${HEAD}#include <pthread.h>\nstatic volatile int freed, deep;
struct guard { OWN guard() { sink++; } OWN ~guard() { freed++; } };
OWN void wait_at(int n) { guard g; if (n == 0) for (;;) { deep = 1; pthread_testcancel(); usleep(100); } wait_at(n - 1); sink++; }
OWN void leave_at(int n) { guard g; if (n == 0) pthread_exit((void *)7); leave_at(n - 1); sink++; }
static void *waits(void *n) { wait_at(5); return n; } static void *leaves(void *n) { leave_at(5); return n; }
int main() { pthread_t a, b; void *result; long sum = 0; pthread_create(&a, 0, waits, 0); pthread_create(&b, 0, leaves, 0);
  while (!deep) usleep(100); pthread_cancel(a); pthread_join(a, &result); sum += result == PTHREAD_CANCELED; pthread_join(b, &result);
  printf("%ld %ld %d\\n", sum, (long)result, freed); return 0; }`,
  },
  {
    name: 'exceptions: rethrown, through 300 frames, in handlers of others, out of what was jumped to',
    language: 'c++',
    source: `${HEAD}#include <stdexcept>\nstatic int freed; struct guard { char text[40]; OWN guard() { freed--; } OWN ~guard() { freed += 2; } };
OWN int down(int n) { guard g; if (n == 0) throw std::runtime_error("end of it"); return down(n - 1) + g.text[0]; }
OWN int jumps(int n) { return down(n); }
OWN int nested(int n) { try { return jumps(n); } catch (const std::exception &) { try { return jumps(2); } catch (int) { return 1; } } }
OWN int again(int n) { try { return nested(n); } catch (...) { throw; } }
int main() { int sum = 0; for (int i = 0; i < 60; i++) { try { sum += again(i * 5); } catch (const std::runtime_error &e) { sum += e.what()[3]; } }
  printf("%d %d\\n", sum, freed); return sum & 31; }`,
  },
  {
    name: 'coroutines that are left in the middle, and that go on in another thread',
    flags: ['-pthread'],
    source: `${HEAD}#include <pthread.h>\n#include <ucontext.h>
static ucontext_t home, away[8]; static int at; static OWN int step(int n) { sink += n; return n; }
static OWN void inside(int n) { step(n); swapcontext(&away[at], &home); step(n); if (n) inside(n - 1); sink++; }
static void body(void) { inside(20); for (;;) swapcontext(&away[at], &home); }
static OWN void resume(int i) { at = i; swapcontext(&home, &away[i]); }
static OWN void *rounds(void *n) { for (int k = 0; k < 8; k++) for (int i = 0; i < 8; i++) resume((i * 3 + k) % 8); return n; }
int main(void) { for (int i = 0; i < 8; i++) { getcontext(&away[i]); away[i].uc_stack.ss_sp = malloc(16384);
    away[i].uc_stack.ss_size = 16384; makecontext(&away[i], body, 0); }
  for (int i = 0; i < 4; i++) { pthread_t id; if (i & 1) rounds(0); else { pthread_create(&id, 0, rounds, 0); pthread_join(id, 0); } }
  printf("%d\\n", sink); return 0; }`,
  },
  {
    name: 'setjmp again and again, functions that return twice, frames of 20 KiB',
    source: `${HEAD}#include <setjmp.h>\n#include <string.h>
static jmp_buf buffers[4]; static OWN int big(int n) { char room[20000]; memset(room, n, sizeof room); sink += room[n]; return n ? big(n - 1) + room[3] : 0; }
static OWN void jump(int n, int to) { sink++; if (n == 0) longjmp(buffers[to], 1); jump(n - 1, to); sink++; }
static OWN int tries(int n) { int r = setjmp(buffers[n & 3]); if (r == 0) { if (n & 4) jump(300, n & 3); return big(n); } return big(2) + 1; }
int main(void) { int sum = 0; for (int i = 0; i < 40; i++) sum += tries(i); printf("%d\\n", sum); return 0; }`,
  },
];
/** Programs all of whose calls return, but for those that jump to another function. */
const RETURNING = [
  'pointers, callbacks, constructors, variable arguments',
  'descriptors closed, another directory, a new name',
];

describeNatively('programs that write calls and returns', () => {
  test.each([...nativePrograms, ...more].map((program, i) => [program.name, program, i] as const))(
    'RT-43, RT-44, RT-45: the calls recorded are those of the log, and the program does what it did: %s',
    async (_, program, i) => {
      const expected = truth(program);
      for (const at of isWhole ? FORMS.keys() : [i]) {
        const form = FORMS[at % FORMS.length]!;
        const flags = [...SAME_CALLS, ...(program.flags ?? []), ...form];
        const plain = compile(program.source, flags, program.language);
        const ran = traced(patched(plain, ...GRAPH));
        expect([form, ran.status, ran.stdout]).toEqual([form, expected.status, expected.stdout]);
        const found = report(ran.dir);
        expect([found.dropped, found.damaged, found.unknown]).toEqual([0, 0, 0]);
        const counts = Object.entries(countsOf(found)).map(([name, count]) => [oneName(name), count] as const);
        expect(Object.fromEntries(counts.sort())).toEqual(expected.counts);
        if (!RETURNING.includes(program.name)) continue;
        expect((await returnsOf(ran.dir))[0]).toEqual(expected.counts);
      }
    },
  );

  const FIB = `#include <stdio.h>\nint fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
int main(void) { printf("%d\\n", fib(12)); return 3; }`;

  const some = FORMS.filter((_, i) => isWhole || i % 3 === 0);
  test.each(some.map((form) => [form.join(' '), form] as const))(
    'RT-27, RT-44: strip, readelf and revert take it: %s',
    async (_, form) => {
      const plain = compile(FIB, [...OWN_CALLS, ...form]);
      const output = patched(plain, ...GRAPH);
      const stripped = scratch('stripped');
      run('strip', ['-o', stripped, output]);
      for (const each of [output, stripped]) {
        const ran = traced(each);
        expect([ran.status, ran.stdout]).toEqual([3, '144\n']);
        expect(await returnsOf(ran.dir, output)).toEqual([{ fib: 465, main: 1 }, 12]);
      }
      for (const options of ['-lSW', '-dnrW', '--debug-dump=frames']) {
        const { status, stderr } = runProgramFile('readelf', [options, output]);
        expect([options, status, stderr]).toEqual([options, 0, '']);
      }
      expect(spawnSync(output, [], { env: {}, cwd: dirname(output) }).status).toBe(3);
      const back = scratch('back');
      expect(elftrace(['revert', output, '-o', back]).status).toBe(0);
      expect(readFileSync(back).equals(readFileSync(plain))).toBe(true);
    },
  );

  test('RT-21, RT-43: a signal behind each instruction of entry and return, whose handler is traced itself', () => {
    const source = `#define _GNU_SOURCE\n#include <signal.h>\n#include <stdio.h>
volatile long sink, handled; __attribute__((noinline)) void inner(void) { sink++; }
static void on_trap(int n) { handled++; inner(); (void)n; }
__attribute__((noinline)) long work(long a, long b, long c, long d, long e, long f, long g) { inner(); return a ^ b ^ c ^ d ^ e ^ f ^ g; }
#define FLAG(how) __asm__ volatile("sub $128,%%rsp; pushf; " how ",(%%rsp); popf; add $128,%%rsp" ::: "memory", "cc")
int main(void) { struct sigaction action = { .sa_handler = on_trap }; sigaction(SIGTRAP, &action, 0); long sum = 0;
  for (int i = 0; i < 200; i++) {
    if (i % 2) FLAG("orl $0x100");
    sum += work(i, 2, 3, 4, 5, 6, 7);
    FLAG("andl $~0x100");
  }
  printf("%ld %ld\\n", sum, handled); return 0; }`;
    const plain = compile(source, [...OWN_CALLS, NOPS]);
    const expected = spawnSync(plain, [], { encoding: 'utf8' }).stdout.split(' ')[0];
    const ran = traced(patched(plain, ...GRAPH));
    const [sum, handled] = ran.stdout.trim().split(' ');
    expect([ran.status, sum, Number(handled) > 10_000]).toEqual([0, expected, true]);
    const found = report(ran.dir);
    expect([found.calls + found.dropped, found.damaged, found.unknown]).toEqual([1 + 400 + 2 * Number(handled), 0, 0]);
    expect(found.dropped).toBeLessThan(Number(handled));
  });

  test("RT-43: objects that jump to each other's functions", () => {
    const flags = ['-O2', '-fno-inline', NOPS];
    const folder = scratch('libraries');
    mkdirSync(folder);
    const library = compile(
      'int getppid(void), other(int n); int far(int n) { return n == 0 ? getppid() > 0 : other(n - 1); } int calls(int (*f)(int), int n) { return f(n); }',
      [...flags, '-fPIC', '-shared', '-Wl,-soname,libfar.so'],
    );
    const path = join(folder, 'libfar.so');
    writeFileSync(path, readFileSync(library), { mode: 0o755 });
    const main = `#include <stdio.h>\nint far(int), calls(int (*)(int), int); int other(int n) { return n == 0 ? 6 : far(n - 1); }
int plus(int n) { return calls(other, n) + 1; } int main(void) { int sum = 0; for (int i = 0; i < 50; i++) sum += plus(i); printf("%d\\n", sum); return 0; }`;
    const plain = compile(main, [...flags, '-Wl,-export-dynamic', `-Wl,-rpath,${folder}`], 'c', [path]);
    const expected = spawnSync(plain, [], { encoding: 'utf8' }).stdout;
    const output = patched(plain, ...GRAPH);
    writeFileSync(path, readFileSync(patched(library, ...GRAPH)), { mode: 0o755 });
    for (const [program, own] of [[plain, {}] as const, [output, { main: 1, other: 650, plus: 50 }] as const]) {
      const ran = traced(program);
      expect([ran.status, ran.stdout]).toEqual([0, expected]);
      const found = report(ran.dir);
      expect([found.damaged, found.unknown, found.dropped]).toEqual([0, 0, 0]);
      expect(countsOf(found)).toEqual({ calls: 50, far: 625, ...own });
    }
  });

  test('RT-23, RT-43: a file that may not grow, and little room: returns find their way', () => {
    const output = patched(compile(FIB.replace('fib(12)', 'fib(22)'), [...OWN_CALLS, NOPS]), ...GRAPH);
    const CALLS = 57_313 + 1;
    for (const [limit, size] of [
      ['true', '600000'],
      ['ulimit -v 20000', ''],
      ['ulimit -d 20000', ''],
    ] as const) {
      const dir = scratch('trace');
      mkdirSync(dir);
      const env = { ELFTRACE_DIR: dir, ELFTRACE_SIZE: size };
      const { status, stdout } = spawnSync('bash', ['-c', `${limit}; exec ${output}`], { encoding: 'utf8', env });
      expect([limit, status, stdout]).toEqual([limit, 3, '17711\n']);
      if (readdirSync(dir).length === 0) continue;
      const found = report(dir);
      expect([limit, found.calls + found.dropped, found.damaged]).toEqual([limit, CALLS, 0]);
      expect(found.dropped > 0).toBe(size !== '');
    }
  });

  describeWith(['gdb'], 'debuggers', () => {
    // Without tables of its own the program has a section of entries for debuggers.
    test.each([[[]], [['-fno-asynchronous-unwind-tables']]])(
      'RT-44: a debugger sees the callers, in functions and in stubs: %j',
      (form) => {
        const source = `#include <stdio.h>\nvolatile int sink; void leaf(int n) { sink += n; } void middle(int n) { leaf(n); sink++; }
void top(int n) { middle(n); sink++; } int main(void) { top(7); puts("end"); return 0; }`;
        const plain = compile(source, ['-g', ...OWN_CALLS, NOPS, ...form]);
        const output = patched(plain, ...GRAPH);
        const dir = scratch('trace');
        mkdirSync(dir);
        const script = [
          'set startup-with-shell off',
          `set environment ELFTRACE_DIR ${dir}`,
          'break leaf',
          'run',
          'bt',
          'finish',
        ];
        const steps = [...script, 'bt', ...Array.from({ length: 6 }, () => ['stepi', 'bt -1']).flat(), 'continue'];
        const { stdout } = runProgramFile('gdb', [
          '-nx',
          '-q',
          '-batch',
          ...steps.flatMap((each) => ['-ex', each]),
          output,
        ]);
        const frames = [...stdout.matchAll(/^#\d+ +(?:0x\w+ in )?(\S+) \(/gm)].map(([, name]) =>
          name!.replace('[return]', '.return'),
        );
        // Of stubs: whose return they wait for; newer debuggers write it in brackets.
        const once = ['middle', 'middle.return', 'top', 'top.return', 'main'];
        expect(frames.slice(0, 11)).toEqual(['leaf', ...once, ...once]);
        // From whatever instruction behind it, main is the last one.
        expect(frames.slice(11)).toEqual(Array(6).fill('main'));
        expect(stdout).toMatch(/exited normally/);
      },
    );
  });

  test('RT-44, RT-45: what is refused or said', () => {
    const asked = compile(FIB, [...OWN_CALLS, NOPS, '-fcf-protection', '-Wl,-z,shstk']);
    const output = scratch('output');
    const { status, stderr } = elftrace(['record', '-o', output, ...GRAPH, asked]);
    expect([status, stderr]).toEqual([0, expect.stringContaining('asked for shadow stacks, and does not any more')]);
    const properties = (file: string): string => run('readelf', ['-n', file]).toString();
    expect([properties(asked), properties(output)].map((text) => text.includes('SHSTK'))).toEqual([true, false]);
    const strange = scratch('strange');
    const bytes = readFileSync(compile(FIB, [...OWN_CALLS, NOPS]));
    bytes[bytes.indexOf(Buffer.from([1, 0x1b, 3, 0x3b])) + 3] = 0x1b;
    writeFileSync(strange, bytes);
    const refused = elftrace(['record', '-o', scratch('never'), '--json', ...GRAPH, strange]);
    expect([refused.status, refused.stdout]).toEqual([4, expect.stringContaining('"reason":"no-unwind-tables"')]);
  });
});

/** A library and its program: their frames are unwound in turn, their data used on the way. */
const BETWEEN_LIBRARY = `#include <unistd.h>
volatile int passed; static void leaves(int *n) { passed += *n; }
int passes(void) { return passed; }
int through(void (*f)(int), int n) { __attribute__((cleanup(leaves))) int x = n; f(n); return getppid() + x; }`;
const BETWEEN = `#include <pthread.h>
#include <stdio.h>
int passes(void), through(void (*)(int), int); volatile int table[100];
static void done(int *n) { table[*n] += *n; }
void goes(int n) { __attribute__((cleanup(done))) int x = n;
 if (n == 0) pthread_exit((void *)9); through(goes, n - 1); table[0] += x; }
static void *begin(void *n) { goes(30); return n; }
int main(void) { pthread_t t; void *r; long sum = 0; pthread_create(&t, 0, begin, 0); pthread_join(t, &r);
 for (int i = 0; i < 100; i++) sum += table[i] * i;
 printf("%ld %ld %d\\n", (long)r, sum, passes()); return 4; }`;
const UNWOUND = `#include <pthread.h>
#include <stdio.h>
#include <setjmp.h>
static jmp_buf b; volatile int sink, freed;
static void done(int *n) { freed++; (void)n; }
void leave_at(int n) { __attribute__((cleanup(done))) int x = n;
 if (n == 0) pthread_exit((void *)7); leave_at(n - 1); sink += x; }
static void *leaves(void *n) { leave_at(5); return n; }
void jump(int n) { if (n == 0) longjmp(b, 1); jump(n - 1); sink++; }
int odd(int n); int even(int n) { sink++; return n == 0 ? 1 : odd(n - 1); }
int odd(int n) { sink++; return n == 0 ? 0 : even(n - 1); }
int deep(int n) { sink++; int r = n == 0 ? 0 : deep(n - 1); sink++; return r + 1; }
int main(void) { pthread_t t; void *r; pthread_create(&t, 0, leaves, 0); pthread_join(t, &r);
 for (volatile int i = 0; i < 10; i++) if (!setjmp(b)) jump(40);
 printf("%ld %d %d %d\\n", (long)r, freed, even(101), deep(50000)); return 5; }
`;

describe.each(
  sampled(
    machines.filter(({ graphs }) => graphs.length > 0),
    2,
  ),
)('programs of $name that write calls and returns', (machine) => {
  const { triple, sites, graphs } = machine;
  const flags = ['-O1', '-fno-inline', '-foptimize-sibling-calls', '-fexceptions', '-fno-ipa-cp', '-pthread', ...sites];
  const counts = { deep: 50_001, done: 6, even: 51, jump: 410, leave_at: 6, leaves: 1, main: 1, odd: 51 };

  describeWith([`${triple}-gcc`, machine.run[0]!, 'nm'], 'under an emulator', () => {
    test.each(few(graphs, 2).map((form) => [form]))(
      'RT-43, RT-44: threads that are unwound, longjmp, jumps to functions, deep recursion: %j',
      async (form) => {
        const plain = compile(UNWOUND, [...flags, ...form], 'c', [], machine);
        const ran = traced(patched(plain, ...GRAPH), [], ROOM, machine);
        expect([ran.status, ran.stdout]).toEqual([5, '7 6 0 50001\n']);
        const found = report(ran.dir);
        expect([found.dropped, found.damaged, found.unknown]).toEqual([0, 0, 0]);
        expect(countsOf(found)).toEqual(counts);
        // Those that jump to the other one return where that does; those that are left do not.
        const [returns] = await returnsOf(ran.dir);
        expect(returns).toEqual({ deep: 50_001, done: 6, main: 1, odd: 1 });
      },
    );

    test('RT-44: a thread is unwound through functions of a library and of a program in turn', () => {
      const folder = scratch('libraries');
      mkdirSync(folder);
      const path = join(folder, 'libbetween.so');
      const shared = ['-fPIC', '-shared', '-Wl,-soname,libbetween.so'];
      const library = compile(BETWEEN_LIBRARY, [...flags, ...shared], 'c', [], machine);
      writeFileSync(path, readFileSync(library), { mode: 0o755 });
      const plain = compile(BETWEEN, flags, 'c', [path, `-Wl,-rpath,${folder}`], machine);
      writeFileSync(path, readFileSync(patched(library, ...GRAPH)), { mode: 0o755 });
      const ran = traced(patched(plain, ...GRAPH), [], ROOM, machine);
      expect([ran.status, ran.stdout]).toEqual([4, '9 9455 435\n']);
      const found = report(ran.dir);
      expect([found.dropped, found.damaged, found.unknown]).toEqual([0, 0, 0]);
      expect(countsOf(found)).toEqual({ begin: 1, done: 31, goes: 31, leaves: 30, main: 1, passes: 1, through: 30 });
    });

    test('RT-27, RT-44: a static program, in which notes make room for the header of unwind information', () => {
      const plain = compile(UNWOUND, [...flags, '-static'], 'c', [], machine);
      const output = patched(plain, ...GRAPH);
      const stripped = scratch('stripped');
      const { status, stderr } = runProgramFile(`${triple}-strip`, ['-o', stripped, output]);
      expect([status, stderr]).toEqual([0, '']);
      for (const each of [output, stripped]) {
        const ran = traced(each, [], ROOM, machine);
        expect([ran.status, ran.stdout]).toEqual([5, '7 6 0 50001\n']);
        expect(countsOf(report(ran.dir, output))).toEqual(counts);
      }
      const identity = (file: string): string | undefined => {
        const read = runProgramFile('readelf', ['-lnSW', file]);
        expect([read.status, read.stderr]).toEqual([0, '']);
        return /Build ID: (\w+)/.exec(read.stdout)?.[1];
      };
      expect(identity(plain)).toMatch(/^[0-9a-f]{40}$/);
      expect([identity(output), identity(stripped)]).toEqual([identity(plain), identity(plain)]);
      const back = scratch('back');
      expect(elftrace(['revert', output, '-o', back]).status).toBe(0);
      expect(readFileSync(back).equals(readFileSync(plain))).toBe(true);
    });

    // Headers of 32 bits are smaller: what is left of the notes is enough.
    if (machine.name !== 'arm64') return;

    test('RT-44: where nothing makes room, it is refused', () => {
      const flat = [...flags, '-static', '-Wl,--build-id=none'];
      const plain = compile(UNWOUND, flat, 'c', [], machine);
      const { status, stdout } = elftrace(['record', '-o', scratch('never'), '--json', ...GRAPH, plain]);
      expect([status, stdout]).toEqual([4, expect.stringContaining('"reason":"no-unwind-tables"')]);
    });
  });
});
