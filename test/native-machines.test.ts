/**
 * Programs of other machines that write their own trace: patched here, run under an emulator of
 * the machine's user mode, their traces read here.
 */
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from '@jest/globals';
import { openTrace } from '../src/cli/native-trace.js';
import { scratch } from './support/c-programs.js';
import { warmElftrace as elftrace } from './support/cli.js';
import { functionEntries, loggedCalls, logSettings } from './support/exec-log.js';
import { few, isLong, isWhole, sampled } from './support/long.js';
import { checkCsmith, csmithSeeds } from './support/native-csmith.js';
import { type EmulatedMachine, machines, ROOM, withTables } from './support/native-machines.js';
import { forks, nativePrograms, SAME_CALLS, TOGETHER, TOGETHER_CALLS } from './support/native-programs.js';
import { compile, countsOf, oneName, patched, report, traced, truth } from './support/native-run.js';
import { describeWith, run, runProgramFile } from './support/tools.js';

/** An emulator of user mode makes vfork a fork, and executes no program by itself. */
const NEEDS_KERNEL = 'fork, vfork, exec, exit in children';
const programs = [
  // There is no cross compiler of C++.
  ...nativePrograms.filter(({ name, language }) => name !== NEEDS_KERNEL && language === undefined),
  forks,
];

const FUNCTION: readonly string[] = [];
const GRAPH: readonly string[] = ['--tracer', 'function_graph'];
const COUNTER: readonly string[] = ['--tracer', 'counter'];
const NO_CLOCK: readonly string[] = ['--clock', 'none'];
/** What CI runs of each program beside FUNCTION. */
const BESIDE: readonly (readonly (readonly string[])[])[] = [[GRAPH], [], [COUNTER], [GRAPH], [NO_CLOCK], [], [GRAPH]];

const FIB = `#include <stdio.h>\nint fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
int main(void) { printf("%d\\n", fib(12)); return 3; }`;
const PLAIN = ['-O1', '-fno-inline', '-fno-optimize-sibling-calls'];

/** A timer's handler, which is traced itself, interrupts calls wherever they are. */
const INTERRUPTED = `#include <signal.h>\n#include <stdio.h>\n#include <sys/time.h>\n#define OWN __attribute__((noinline))
static volatile long ticks, calls; OWN void tick(void) { ticks++; } static void on_alarm(int n) { tick(); (void)n; }
OWN long work(long a, long b, long c, long d, long e, long f, long g, long h) { calls++; return a ^ b ^ c ^ d ^ e ^ f ^ g ^ h; }
int main(void) { struct itimerval every = { { 0, 150 }, { 0, 150 } }, never = { { 0, 0 }, { 0, 0 } };
  signal(SIGALRM, on_alarm); setitimer(ITIMER_REAL, &every, 0);
  long i = 0, wrong = 0; for (; ticks < 400; i++) wrong += work(i, 1, 2, 4, 8, 16, 32, 64) != (i ^ 127);
  setitimer(ITIMER_REAL, &never, 0); printf("%ld %ld %ld\\n", ticks, calls, wrong); return 0; }`;

describe.each(sampled(machines, 2))('$name', (machine) => {
  // Where long proofs do not run each program is one machine's.
  const own = programs.filter((_, i) => isLong || i % machines.length === machines.indexOf(machine));
  const { triple, sites, forms, align } = machine;
  const tools = [`${triple}-gcc`, `${triple}-strip`, 'readelf', 'nm', machine.run[0]!];
  /** CI takes a part. */
  const tracersOf = (i: number): readonly (readonly string[])[] =>
    isWhole ? [FUNCTION, GRAPH, COUNTER, NO_CLOCK] : [FUNCTION, ...BESIDE[i]!];
  /** Little-endian 64-bit and big-endian 32-bit code show it. */
  const isShown = isLong || /^(arm64|ppc32)$/.test(machine.name);
  const form = (i: number): readonly string[] => [...sites, ...([[], ...forms][i % (forms.length + 1)] ?? [])];

  describeWith(tools, 'programs that write their own trace', () => {
    test.each(own.map((program) => [program.name, program, programs.indexOf(program)] as const))(
      'RT-20, RT-22, RT-24, RT-43: the calls recorded are those of the log: %s',
      (_, program, i) => {
        const expected = truth(program, SAME_CALLS, machine);
        const common = [...SAME_CALLS, ...(program.flags ?? [])];
        const numbers = isWhole ? [0, 1, 2, 3, 4, 5] : [i];
        for (const flags of numbers.map(form)) {
          const plain = compile(program.source, [...common, ...flags], program.language, [], machine);
          for (const tracer of tracersOf(i)) {
            const ran = traced(patched(plain, ...tracer), [], ROOM, machine);
            expect([tracer, flags, ran.status, ran.stdout]).toEqual([tracer, flags, expected.status, expected.stdout]);
            const found = report(ran.dir);
            expect([found.dropped, found.damaged, found.unknown]).toEqual([0, 0, 0]);
            const counts = Object.entries(countsOf(found)).map(([name, count]) => [oneName(name), count] as const);
            expect(Object.fromEntries(counts.sort())).toEqual(expected.counts);
          }
        }
      },
    );

    // With the programs above, sixty and more for each machine.
    if (isWhole)
      test.each(csmithSeeds(53).map((seed) => [seed]))('RT-20, RT-43: csmith %i', (seed) => {
        // Optimised, calls would be left out.
        const flags = form(seed).filter((flag) => flag !== '-O2');
        checkCsmith(seed, flags, seed % 2 === 0 ? FUNCTION : GRAPH, machine, ROOM);
      });

    if (isShown)
      test.each(tracersOf(0).map((tracer) => [tracer]))(
        'RT-21, RT-43: handlers of signals between any two instructions: %j',
        (tracer) => {
          const plain = compile(INTERRUPTED, [...PLAIN, ...sites], 'c', [], machine);
          const stepped = { ...machine, run: [...machine.run, '-singlestep'] };
          const ran = traced(patched(plain, ...tracer), [], ROOM, stepped);
          const [ticks, calls, wrong] = ran.stdout.trim().split(' ').map(Number);
          expect([ran.status, wrong]).toEqual([0, 0]);
          const found = report(ran.dir);
          expect([found.damaged, found.unknown]).toEqual([0, 0]);
          expect(found.calls + found.dropped).toBe(1 + calls! + 2 * ticks!);
          expect(found.dropped).toBeLessThan(ticks!);
        },
      );

    test.each(few([0, 1, 2]).map((i) => [form(i).join(' '), form(i)] as const))(
      'RT-25, RT-27: strip, readelf and revert take it: %s',
      (_, flags) => {
        const plain = compile(FIB, [...PLAIN, ...flags], 'c', [], machine);
        const output = patched(plain);
        const stripped = scratch('stripped');
        run(`${triple}-strip`, ['-o', stripped, output]);
        for (const each of [output, stripped]) {
          const ran = traced(each, [], ROOM, machine);
          expect([ran.status, ran.stdout]).toEqual([3, '144\n']);
          expect(countsOf(report(ran.dir, output))).toEqual({ fib: 465, main: 1 });
        }
        const off = traced(output, [], { ELFTRACE_DIR: '' }, machine);
        expect([off.status, off.stdout]).toEqual([3, '144\n']);
        const { status, stdout, stderr } = runProgramFile('readelf', ['-lSdnW', output]);
        expect([status, stderr]).toEqual([0, '']);
        const loads = [...stdout.matchAll(/^ +LOAD +(.*)$/gm)].map(([, row]) => row!);
        expect(loads.at(-1)!.endsWith(` R E ${align}`)).toBe(true);
        const back = scratch('back');
        expect(elftrace(['revert', output, '-o', back]).status).toBe(0);
        expect(readFileSync(back).equals(readFileSync(plain))).toBe(true);
      },
    );

    if (isShown)
      test('RT-24: a library and its program have a word each', () => {
        const flags = [...PLAIN, ...sites];
        const first = compile(
          'int getppid(void), g; int below(int n) { return g += getppid() ? n : 0; } int first(int n) { return below(n) + below(1); }',
          [...flags, '-fPIC', '-shared', '-Wl,-soname,libfirst.so'],
          'c',
          [],
          machine,
        );
        const folder = scratch('libraries');
        mkdirSync(folder);
        writeFileSync(join(folder, 'libfirst.so'), readFileSync(first), { mode: 0o755 });
        const source = `#include <stdio.h>\nint first(int); int main(void) { int sum = 0;
for (int i = 0; i < 100; i++) sum += first(i); printf("%d\\n", sum); return 0; }`;
        const found = [join(folder, 'libfirst.so'), `-Wl,-rpath,${folder}`];
        const plain = compile(source, flags, 'c', found, machine);
        const expected = traced(plain, [], {}, machine).stdout;
        const counts = { below: 200, first: 100 };
        for (const tracer of tracersOf(0)) {
          writeFileSync(join(folder, 'libfirst.so'), readFileSync(patched(first, ...tracer)), { mode: 0o755 });
          for (const [program, more] of [[plain, {}] as const, [patched(plain, ...tracer), { main: 1 }] as const]) {
            const ran = traced(program, [], ROOM, machine);
            expect([ran.status, ran.stdout, countsOf(report(ran.dir))]).toEqual([0, expected, { ...counts, ...more }]);
          }
        }
      });

    // Of another run these calls would be others: lua seeds its hashes so.
    test.each(few([GRAPH, FUNCTION]).map((tracer) => [tracer]))(
      "RT-20: calls are those of the emulator's log of the same run, whatever decides on them: %j",
      (tracer) => {
        const source = `#include <time.h>\nstatic unsigned seed; static unsigned next(void) { return seed = seed * 1103515245 + 12345; }
static int odd(int n); static int even(int n) { return n == 0 ? 1 : odd(n - 1); } static int odd(int n) { return n == 0 ? 0 : even(n - 1); }
static void hit(void) { seed++; } static void miss(void) { seed--; }
int main(void) { struct timespec now; clock_gettime(CLOCK_MONOTONIC, &now); seed = (unsigned)now.tv_nsec ^ (unsigned)(unsigned long)&now;
  for (int i = 0; i < 400; i++) { if (next() & 0x10000) hit(); else miss(); odd((int)(next() >> 28)); } return 0; }`;
        const flags = ['-O1', '-fno-inline', '-fno-optimize-sibling-calls', '-no-pie', '-fno-pie', ...sites];
        const plain = compile(source, flags, 'c', [], machine);
        const logs = scratch('logs');
        mkdirSync(logs);
        const entries = functionEntries(plain, triple);
        const logging = { ...machine, run: [...machine.run, '-D', join(logs, '%d')] };
        const ran = traced(patched(plain, ...tracer), [], { ...ROOM, ...logSettings(entries, 0) }, logging);
        const names = ['even', 'hit', 'main', 'miss', 'next', 'odd'];
        const expected = loggedCalls(logs, entries, 0, (name) => names.includes(name));
        expect(expected.get('next')).toBe(800);
        expect([ran.status, countsOf(report(ran.dir))]).toEqual([0, Object.fromEntries([...expected].sort())]);
      },
    );

    test('RT-42: functions are where their code is, and have the lines of their sources', async () => {
      const plain = compile(FIB, [...PLAIN, '-g', ...sites], 'c', [], machine);
      const ran = traced(patched(plain), [], ROOM, machine);
      const distances: Record<string, boolean> = {};
      const lines: Record<string, number | undefined> = {};
      (await openTrace({ dir: ran.dir, sources: true })).byTask(() => ({
        enter: ({ name, address, site, source }) => {
          distances[name] = address <= site && site - address <= 16n;
          lines[name] = source?.line;
        },
        leave: () => undefined,
      }));
      expect([distances, lines]).toEqual([
        { fib: true, main: true },
        { fib: 2, main: 3 },
      ]);
    });

    // -mprofile-kernel has no attribute that leaves a function out.
    if (machine.finish === undefined)
      test('RT-57: threads that come together: one has a file, and all calls of the others are counted', () => {
        const plain = compile(TOGETHER, ['-O1', '-pthread', ...sites], 'c', [], machine);
        for (const mode of [[], COUNTER]) {
          const ran = traced(patched(plain, ...mode), [], { ...ROOM, ELFTRACE_THREADS: 'first' }, machine);
          const { threads, calls, dropped } = report(ran.dir);
          expect([mode, ran.status, threads, calls + dropped]).toEqual([mode, 3, 1, TOGETHER_CALLS]);
        }
      });

    test('RT-28: it is not run here', () => {
      const plain = compile(FIB, [...PLAIN, ...sites], 'c', [], machine);
      const dir = scratch('never');
      const { status, stdout, stderr } = elftrace(['record', '-d', dir, plain]);
      expect([status, stdout, existsSync(dir)]).toEqual([125, '', false]);
      expect(stderr).toContain('write it with -o, and run it on such a machine');
    });
  });
});

/** What stands in for a C library: a control block as glibc has it, and a start that sets r13. */
const OWN_LIBRARY = `
__attribute__((no_instrument_function)) static long call(long n, long a, long b, long c) {
  register long r0 __asm__("r0") = n; register long r3 __asm__("r3") = a; register long r4 __asm__("r4") = b; register long r5 __asm__("r5") = c;
  __asm__ volatile("sc" : "+r"(r0), "+r"(r3), "+r"(r4), "+r"(r5) : : "r6", "r7", "r8", "r9", "r10", "r11", "r12", "cr0", "ctr", "memory");
  return r3; }
static struct { long words[26]; int thread, none; void *before, *head; long offset; void *pending; long more[20]; } block;
volatile int sink; int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
int many(long a, long b, long c, long d, long e, long f, long g, long h, double x) { sink++;
  return a + 2 * b + 3 * c + 4 * d + 5 * e + 6 * f + 7 * g + 8 * h + x; }
int all(void) { return fib(12) + many(1, 2, 3, 4, 5, 6, 7, 8, 0.5) == 144 + 204 ? 3 : 4; }
__attribute__((no_instrument_function, used)) void begin(void) {
  block.thread = call(207, 0, 0, 0); block.head = &block.head; block.offset = -32;
  __asm__ volatile("mr 13, %0" : : "r"((long)(&block + 1) + 0x7000));
  call(234, all(), 0, 0); }
__asm__(".globl _start\\n_start: addis 2,12,.TOC.-_start@ha\\naddi 2,2,.TOC.-_start@l\\nstdu 1,-64(1)\\nbl begin\\ntrap\\n"
  ".section .note.ABI-tag,\\"a\\",@note\\n.balign 4\\n.long 4,16,1\\n.asciz \\"GNU\\"\\n.long 0,3,2,0\\n.text\\n");`;

describeWith(
  ['powerpc64-linux-gnu-gcc', 'qemu-ppc64'],
  'big-endian programs of ELFv2, without a C library of it',
  () => {
    const elfV2 = ['-mabi=elfv2'];
    const machine: EmulatedMachine = {
      ...machines.find(({ name }) => name === 'ppc64')!,
      finish: (object) => withTables(object, 'powerpc64-linux-gnu', elfV2),
    };
    const plain = (): string => {
      const flags = [...PLAIN, ...elfV2, '-ffreestanding', '-nostdlib', '-static', '-pg', '-mprofile-kernel'];
      return compile(OWN_LIBRARY, flags, 'c', [], machine);
    };

    test('RT-20, RT-33: calls are recorded', () => {
      const ran = traced(patched(plain()), [], ROOM, machine);
      expect([ran.status, countsOf(report(ran.dir))]).toEqual([3, { all: 1, fib: 465, many: 1 }]);
    });

    test.each([[GRAPH], [COUNTER], [NO_CLOCK]])('RT-43, RT-54, RT-55: %j', (tracer) => {
      const ran = traced(patched(plain(), ...tracer), [], ROOM, machine);
      expect([ran.status, countsOf(report(ran.dir))]).toEqual([3, { all: 1, fib: 465, many: 1 }]);
    });
  },
);
