/**
 * The third answer of `run --compare`: programs that differ where the emulator does not do as Linux
 * does must never be called equal. Programs of glibc show the cases as people write them,
 * freestanding ones each case on each machine.
 */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from '@jest/globals';
import { compareRuns, type Doubt } from '../src/running/compare.js';
import { firstDivergence } from '../src/emulator/index.js';
import {
  ARM64_TARGETS,
  buildProgram,
  type PpcTarget,
  RISCV_TARGETS,
  scratch,
  startHere,
  TARGETS,
  X86_TARGETS,
} from './support/c-programs.js';
import { handMachine, writeSource } from './support/emulator.js';
import { few, sampled } from './support/long.js';
import { builtSamples } from './support/pipeline.js';
import { isX86Linux } from './support/processor.js';
import { run, type RunResult } from './support/run.js';
import { spawnSync } from './support/spawn.js';
import { describeWith, runProgramFile } from './support/tools.js';

const folder = mkdtempSync(join(tmpdir(), 'inconclusive-'));
afterAll(() => {
  rmSync(folder, { recursive: true, force: true });
});

interface Comparison {
  readonly result: string;
  readonly equal: boolean | null;
  readonly reasons?: readonly (Doubt & { readonly side: string })[];
  readonly difference?: object;
  readonly lines: { readonly compared: number; readonly ignored: number };
}
const comparisonOf = (result: RunResult): Comparison => result.json['compare'] as Comparison;

/** What a run says of itself: system calls, signals. */
const whats = (result: RunResult): string[] =>
  (result.json['deviations'] as readonly Doubt[]).map((each) => each.what.replace(/ \(\d+\)/, ''));

// --------------------------------------------------------------------------------------- C library

/**
 * Writes VALUE in a thread, a child, a handler, once a child has stored into memory that both
 * share, once the descriptor of a timer can be read, or once a directory is watched, of which a run
 * without `--root` has none. What is written elsewhere is the same.
 */
const LIBRARY = `
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>
static void say(const char *text) { (void)!write(1, text, strlen(text)); }
static const char *value = VALUE "\\n";
static volatile int came;
static void *body(void *unused) { say(value); return unused; }
static void handler(int signal) { (void)signal; say(value); came = 1; }
static void fatal(int signal) { (void)signal; say(value); _exit(3); }
int main(int argc, char **argv) {
  pthread_t thread;
  (void)argc;
  switch (argv[1][0]) {
  case 't': if (pthread_create(&thread, 0, body, 0) == 0) pthread_join(thread, 0); break;
  case 'f': { int pid = fork(); if (pid == 0) body(0), _exit(0); if (pid > 0) waitpid(pid, 0, 0); break; }
  case 'm': {
    volatile int *shared = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int pid = fork();
    if (pid == 0) *shared = 1, _exit(0);
    if (pid > 0) waitpid(pid, 0, 0);
    if (*shared) body(0);
    break;
  }
  case 'd': {
    struct itimerspec soon = {{0, 0}, {0, 1000}};
    long expired = 0;
    int timer = timerfd_create(CLOCK_MONOTONIC, 0);
    if (timerfd_settime(timer, 0, &soon, 0) == 0 && read(timer, &expired, 8) == 8) body(0);
    break;
  }
  case 'w': if (inotify_add_watch(inotify_init1(0), "/", IN_OPEN) > 0) body(0); break;
  case 'i': {
    struct itimerval soon = {{0, 0}, {0, 1000}};
    signal(SIGALRM, handler);
    if (setitimer(ITIMER_REAL, &soon, 0) == 0) while (!came);
    break;
  }
  case 'r': signal(SIGUSR1, handler); raise(SIGUSR1); break;
  case 's': signal(SIGSEGV, fatal); *(volatile int *)16 = 1; break;
  }
  say("done\\n");
  return 0;
}
`;

const CASES = [['w', 'a directory that is watched, where there is none', 'inotify_add_watch']] as const;

/** Cases that are executed as on Linux. */
const SERVED_CASES = [
  ['t', 'a thread', 0],
  ['f', 'a child', 0],
  ['m', 'what a child stores into shared memory', 0],
  ['d', "a timer's descriptor", 0],
  ['i', 'a timer', 0],
  ['r', 'a signal to itself', 0],
  ['s', 'a handler of faults', 3],
] as const;

/**
 * Compilers with a static C library whose start-up code the emulator executes. What is compared
 * knows no machine: two of them, where not all are tried.
 */
const COMPILERS = [
  ['gcc', []],
  ['riscv64-linux-gnu-gcc', ['qemu-riscv64']],
  ['powerpc64-linux-gnu-gcc', ['qemu-ppc64']],
  ['powerpc-linux-gnu-gcc', ['qemu-ppc']],
] as const;
for (const [gcc, command] of few<(typeof COMPILERS)[number]>(COMPILERS, 2)) {
  const isNative = command.length > 0 || isX86Linux;
  describeWith([gcc, ...command], `programs of the C library by ${gcc}`, () => {
    const source = writeSource('library.c', LIBRARY);
    const programs = ['one', 'two'].map((value) => {
      const path = join(folder, `${gcc}-${value}`);
      const made = spawnSync(gcc, ['-O1', '-static', '-pthread', '-w', `-DVALUE="${value}"`, source, '-o', path], {
        encoding: 'utf8',
      });
      if (made.status !== 0) process.stderr.write(`no static C library for ${gcc}: not compared\n`);
      return made.status === 0 ? path : null;
    });

    test.each(CASES)('%s: programs that differ in %s are not equal', (how, _name, what) => {
      const [one, two] = programs;
      if (!one || !two) return;
      // Linux shows the difference.
      const outside = programs.map((path) => {
        const [first = path!, ...rest] = [...command, path!];
        return runProgramFile(first, [...rest, how]).stdout;
      });
      if (isNative) expect(outside.map((each) => each.split('\n')[0])).toEqual(['one', 'two']);
      const result = run(['--compare', one, two, how]);
      expect([how, result.status, comparisonOf(result).result, comparisonOf(result).equal]).toEqual([
        how,
        125,
        'inconclusive',
        null,
      ]);
      expect(whats(result).some((each) => each.endsWith(what))).toBe(true);
      expect(new Set(comparisonOf(result).reasons!.map((each) => each.side))).toEqual(new Set(['here', 'original']));
      expect(result.stdout).not.toContain('equal');
      expect(result.stderr).toContain('warning: inconclusive, nothing is proved:');
    });

    test.each(SERVED_CASES)(
      '%s: programs that differ in %s are different, the same are equal',
      (how, _name, status) => {
        const [one, two] = programs;
        if (!one || !two) return;
        const different = run(['--compare', one, two, how]);
        expect([how, different.status, comparisonOf(different).result]).toEqual([how, 1, 'different']);
        const same = run(['--compare', one, one, how]);
        expect([how, same.status, whats(same)]).toEqual([how, 0, []]);
        expect(same.stdout).toContain(`equal: exit status ${status}`);
      },
    );

    test('a program that uses none of it is equal, and no call of the start-up code is in the way', () => {
      const [one, two] = programs;
      if (!one || !two) return;
      const result = run(['--compare', one, two, 'x']);
      expect([result.status, result.stderr]).toEqual([0, '']);
      expect(whats(result)).toEqual([]);
      expect(result.stdout).toMatch(/^equal: exit status 0, 1 lines of output, (\d+) and \1 instructions\n$/);
    });
  });
}

// ------------------------------------------------------------------------------------ freestanding

/** Each case by its letter. Numbers are those of the headers of the target's compiler. */
const RAW = `
#include <asm/unistd.h>
#define SYS_WRITE __NR_write
#include "lib.h"
static u8 space[64];
#ifdef __x86_64__
#define ILLEGAL __asm__ volatile("ud2")
#else
#define ILLEGAL __asm__ volatile(".long 0")
#endif
static __attribute__((noinline)) int inner(char how) {
  word two[2] = {0, 0};
  switch (how) {
  case 'c': return (int)-sys(__NR_ptrace, 0L, 0L, 0L, 0L, 0L);
  case 't': return (int)-sys(__NR_remap_file_pages, 0L, 0L, 0L, 0L, 0L);
  case 'w': return (int)-sys(__NR_openat, -100L, "/new", 0101L, 0644L);
  case 'u': return (int)-sys(__NR_unlinkat, -100L, "/old", 0L);
  case 'i': return (int)-sys(__NR_setitimer, 0L, space, 0L);
  case 'd': return (int)-sys(__NR_fcntl, 1L, 1024L, 0L);
  case 'l': return (int)-sys(__NR_prlimit64, 0L, 3L, space, 0L);
  case 'n': return (int)-sys(5000L);
  case 'k': sys(__NR_prctl, 26L, 1L); return 1;
  case 'm': return *(volatile int *)16;
  case 'g': *(word *)space = 0x1234; sys(__NR_rt_sigaction, 11L, space, 0L, 8L); return *(volatile int *)16;
  case 'q': *(word *)space = 0x1234; sys(__NR_rt_sigaction, 4L, space, 0L, 8L); ILLEGAL; return 1;
#ifdef __x86_64__
  case 'v': return ((int (*)(void *, void *))0xffffffffff600000)(space, 0);
#endif
  case 'z': for (;;);
  }
  return two[0];
}
int main(int argc, char **argv) {
  if (argc > 2) { puts_(argv[2]); put('\\n'); flush(); }
  return inner(argv[1][0]);
}
__attribute__((used, noinline)) int touch(int *p) { return *p; }
__attribute__((used, noinline)) int twice(int n) { return 2 * n; }
`;

const RAW_CASES: readonly (readonly [how: string, what: string, why: RegExp])[] = [
  ['c', 'system call ptrace', /^not served: ENOSYS$/],
  ['t', 'system call remap_file_pages', /^not served: ENOSYS$/],
  ['w', 'system call openat', /EROFS/],
  ['u', 'system call unlinkat', /EROFS/],
  ['d', 'system call fcntl', /^commands beside/],
  ['l', 'system call prlimit64', /^lower limits/],
  ['k', 'system call prctl', /^codes beside/],
];

const RAW_TARGETS: readonly PpcTarget[] = [...TARGETS, X86_TARGETS[0]!, RISCV_TARGETS[0]!, ARM64_TARGETS[0]!];
const rawPrograms = new Map<string, string>();
function raw(target: PpcTarget): string {
  let path = rawPrograms.get(target.name);
  if (path === undefined) {
    // `buildProgram` passes -ffreestanding and no standard library; numbers come from the kernel's
    // headers.
    path = buildProgram(target, '1', [writeSource('raw.c', RAW)], ['-fno-optimize-sibling-calls']);
    rawPrograms.set(target.name, path);
  }
  return path;
}

for (const target of sampled(RAW_TARGETS, 3)) {
  describeWith([target.gcc], `one case at a time on ${target.name}`, () => {
    // The handlers are one code for all machines; what differs are numbers, registers and signals.
    const own = ['ppc32', 'x86-64'].includes(target.name) ? RAW_CASES : RAW_CASES.filter(([how]) => 'cw'.includes(how));
    test.each(own)('%s: %s', (how, what, why) => {
      const result = run(['--root', folder, '--compare', raw(target), raw(target), how]);
      const { reasons = [] } = comparisonOf(result);
      expect([how, result.status, comparisonOf(result).equal]).toEqual([how, 125, null]);
      const found = reasons.find((each) => each.what.replace(/ \(\d+\)$/, '') === what);
      expect(found).toMatchObject({ side: 'here', count: 1 });
      expect(found!.why).toMatch(why);
      // Where: the instruction, and its function.
      expect(found!.instruction).toMatch(/^0x[0-9a-f]+$/);
      expect(found!.function).toMatch(/^\.?sys(\+0x|$)/);
      expect(result.stderr).toContain(`${found!.what} at ${found!.instruction!} (${found!.function}): ${found!.why}`);
    });

    test('numbers that Linux does not know, faults, and handlers that are nowhere are as in Linux: equal', () => {
      for (const how of ['n', 'm', 'x', 'g', 'q', 'i']) {
        const result = run(['--compare', raw(target), raw(target), how]);
        expect([how, result.status, comparisonOf(result).result]).toEqual([how, 0, 'equal']);
        expect(whats(result)).toEqual([]);
      }
    });
  });
}

describeWith([X86_TARGETS[0]!.gcc], 'runs that prove nothing', () => {
  const target = X86_TARGETS[0]!;
  const program = (): string => raw(target);

  test('a plain run warns once a kind, names place and function, and ends as ever', () => {
    const result = run([program(), 'c']);
    expect([result.status, result.json['exit']]).toEqual([38, 38]);
    expect(result.stderr).toMatch(
      /^[^\n]*: warning: system call ptrace \(101\) at 0x[0-9a-f]+ \(sys\+0x[0-9a-f]+\) with (?:0x[0-9a-f]+, ){5}0x[0-9a-f]+: not served: ENOSYS\n$/,
    );
    expect(run([program(), 'n']).stderr).toBe('');
  });

  test('code that Linux has in every process is not here', () => {
    const result = run(['--compare', program(), program(), 'v']);
    expect([result.status, comparisonOf(result).equal]).toEqual([125, null]);
    expect(comparisonOf(result).reasons![0]).toMatchObject({ kind: 'signal', what: 'signal 11' });
  });

  test('limits of instructions and time: both stopped there, and nothing is equal', () => {
    for (const limit of [
      ['--max-instructions', '5000'],
      ['--timeout', '1'],
    ]) {
      const result = run([...limit, '--compare', program(), program(), 'z']);
      expect([result.status, comparisonOf(result).equal]).toEqual([125, null]);
      expect(comparisonOf(result).reasons!.map((each) => [each.side, each.kind])).toEqual([
        ['here', 'stop'],
        ['original', 'stop'],
      ]);
    }
  });

  test('one side is enough, and a difference is said beside it', () => {
    const other = scratch('other');
    const bytes = readFileSync(program());
    writeFileSync(other, bytes);
    const result = run(['--compare', program(), other, 'c', 'text']);
    expect(comparisonOf(result).reasons!.map((each) => each.side)).toEqual(['here', 'original']);
    // The same program, started so that only one meets it: a file that has another name.
    const own = run(['--compare', program(), other, 'x', 'text']);
    expect([own.status, own.stderr]).toEqual([0, '']);
    const changed = buildProgram(target, '1', [
      writeSource('changed.c', RAW.replace('return (int)-sys(__NR_ptrace, 0L, 0L, 0L, 0L, 0L);', 'return 7;')),
    ]);
    const differing = run(['--compare', changed, program(), 'c']);
    expect(differing.status).toBe(125);
    expect(comparisonOf(differing)).toMatchObject({
      result: 'inconclusive',
      equal: null,
      reasons: [{ side: 'here', what: 'system call ptrace (101)' }],
      difference: { what: 'end', here: 'exit status 38', original: 'exit status 7' },
    });
    expect(differing.stderr).toContain('What they did differs nevertheless:');
  });

  test('--compare-ignore that leaves nothing compared', () => {
    const result = run(['--compare', program(), '--compare-ignore', '.', program(), 'x', 'text']);
    expect([result.status, comparisonOf(result).equal]).toEqual([125, null]);
    expect(comparisonOf(result).reasons!.map((each) => each.kind)).toEqual(['output']);
    expect(comparisonOf(result).lines).toEqual({ compared: 0, ignored: 1 });
  });

  test('--call: functions that both fault were not called as their callers call them', () => {
    const result = run(['--call', 'touch(16)', '--compare', program(), program()]);
    expect([result.status, comparisonOf(result).equal]).toEqual([125, null]);
    expect(comparisonOf(result).reasons!.map((each) => each.kind)).toEqual(['call', 'call']);
    const fine = run(['--call', 'twice(21)', '--compare', program(), program()]);
    expect([fine.status, comparisonOf(fine).result]).toEqual([0, 'equal']);
    expect(fine.stdout).toContain('memory was not compared');
    expect(run(['--call', 'touch(16)', program()]).status).toBe(139);
  });

  test('--call of an image of which relocations were left out', () => {
    const image = (name: string, text: string): string => {
      const path = join(folder, name);
      const made = spawnSync('gcc', [
        '-O1',
        '-shared',
        '-fPIC',
        '-nostdlib',
        '-w',
        writeSource(`${name}.c`, text),
        '-o',
        path,
      ]);
      expect(made.status).toBe(0);
      return path;
    };
    // The other image is asked whether somebody gave a value; here nobody can.
    const asks = image('asks.so', 'extern int given __attribute__((weak)); int f(void) { return &given ? given : 7; }');
    const result = run(['--call', 'f()', '--compare', asks, asks]);
    expect([result.status, comparisonOf(result).equal]).toEqual([125, null]);
    expect(comparisonOf(result).reasons!.map((each) => [each.kind, each.what])).toEqual([
      ['image', '1 relocation of the image'],
      ['image', '1 relocation of the image'],
    ]);
    const own = image('own.so', 'static int n = 7, *const volatile p = &n; int f(void) { return *p; }');
    expect(run(['--call', 'f()', '--compare', own, own])).toMatchObject({ status: 0, stderr: '' });
  });

  test('the tier that ran is said', () => {
    const tier = (...args: string[]): unknown =>
      run([...args, join(builtSamples, 'x86-64/program-fentry')]).json['tier'];
    expect([tier(), tier('--tier', '0'), tier('--tier', '1')]).toEqual([0, 0, 1]);
    const long = run(['--max-instructions', '9000000', program(), 'z']);
    expect(long.json['tier']).toBe(1);
  });

  test('firstDivergence: machines that did not do as Linux does are not equal', () => {
    const machine = (how: string) => startHere(target, program(), [how]).process.machine;
    const found = firstDivergence(machine('c'), machine('c'));
    expect(found.kind).toBe('inconclusive');
    if (found.kind !== 'inconclusive') return;
    expect(found.end.stop).toEqual({ kind: 'exit', code: 38 });
    expect(found.end.deviations.a.map((each) => each.what)).toEqual(['system call ptrace (101)']);
    expect(found.end.deviations.b).toEqual(found.end.deviations.a);
    expect(firstDivergence(machine('n'), machine('n')).kind).toBe('equal');
    // Both stop at the same instruction, which nobody executes.
    expect(firstDivergence(handMachine([]), handMachine([])).kind).toBe('inconclusive');
  });

  test('deviations are part of the state', () => {
    const { process: guest } = startHere(target, program(), ['c']);
    const start = guest.machine.snapshot();
    guest.run();
    expect(guest.machine.deviations).toHaveLength(1);
    guest.machine.restore(start);
    expect(guest.machine.deviations).toEqual([]);
    guest.run();
    expect(guest.machine.deviations).toMatchObject([{ kind: 'refused', count: 1 }]);
  });
});

describe('the three answers', () => {
  const doubt: Doubt = { kind: 'refused', what: 'clone', why: 'x', instruction: null, function: '', count: 1 };
  const result = (stdout: string, doubts: readonly Doubt[] = []) => ({
    end: 'exit status 0',
    stdout: Buffer.from(stdout),
    stderr: Buffer.from(''),
    doubts,
  });

  test('a doubt on either side, and nothing else, makes equal and different runs inconclusive', () => {
    for (const [a, b] of [
      [[doubt], []],
      [[], [doubt]],
      [[doubt], [doubt]],
    ] as const) {
      expect(compareRuns(result('a', a), result('a', b), null).result).toBe('inconclusive');
      const other = compareRuns(result('a', a), result('b', b), null);
      expect(other).toMatchObject({ result: 'inconclusive', difference: { what: 'stdout' } });
    }
    expect(compareRuns(result('a'), result('a'), null).result).toBe('equal');
    expect(compareRuns(result('a'), result('b'), null).result).toBe('different');
    // Nothing was written: there was nothing to compare but the ends.
    expect(compareRuns(result(''), result(''), /./).result).toBe('equal');
  });
});
