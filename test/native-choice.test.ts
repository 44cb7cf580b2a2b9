/**
 * What of a program is recorded, chosen when it runs: functions, levels, calls that last, as
 * uftrace shows them of the whole trace; arguments and return values, as the program prints them.
 */
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, expect, test } from '@jest/globals';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { PERFETTO_PROTO } from '../src/native/perfetto-proto.js';
import { scratch } from './support/c-programs.js';
import { warmElftrace as elftrace } from './support/cli.js';
import { isWhole, sampled } from './support/long.js';
import { machines, ROOM } from './support/native-machines.js';
import {
  compile, countsOf, describeNatively, type NativeMachine, NOPS, patched, type Ran, type Report, report, schemaOf, traced,
} from './support/native-run.js'; // prettier-ignore
import { describeWith, run } from './support/tools.js';

const PLAIN = [
  '-O1',
  '-fno-inline',
  '-fno-optimize-sibling-calls',
  '-fno-ipa-cp',
  '-fno-ipa-sra',
  '-fno-ipa-pure-const',
];
const GRAPH = ['--tracer', 'function_graph'] as const;

/** A file that says what is recorded of a patched program. */
function choice(program: string, ...options: readonly string[]): string {
  const output = scratch('choice');
  const { status, stderr } = elftrace(['record', '--choice', output, ...options, program]);
  expect([status, stderr]).toEqual([0, '']);
  return output;
}

function chosen(program: string, options: readonly string[], machine?: NativeMachine): Ran {
  const env = { ELFTRACE_CHOICE: choice(program, ...options), ...(machine ? ROOM : {}) };
  const ran = traced(program, [], env, machine);
  expect(ran.status).toBe(0);
  return ran;
}

function verb(...words: readonly string[]): string {
  const { status, stdout, stderr } = elftrace(words);
  expect([status, stderr]).toEqual([0, '']);
  return stdout;
}

/** Lines of a replay without durations and threads, as both tools print them. */
const shape = (text: string): string[] =>
  text
    .split('\n')
    .filter((row) => row !== '' && !row.startsWith('#'))
    .map((row) => row.replace(/^.*?\] \| /, '').trimEnd());

/** Calls in a thread, and in a handler on a stack of its own. */
const TREE = `#define _GNU_SOURCE
#include <pthread.h>\n#include <signal.h>\n#include <stdlib.h>
volatile int sink; static char room[65536];
void leaf(void) { sink++; }
void middle(int n) { for (int i = 0; i < n; i++) leaf(); sink++; }
int again(int n) { leaf(); return n == 0 ? 0 : again(n - 1) + 1; }
void handler(int n) { middle(1); again(1); (void)n; }
void *work(void *n) { middle(2); again(2); return n; }
void inside(void) { middle(1); raise(SIGUSR1); again(3); }
int main(void) { stack_t stack = { .ss_sp = room, .ss_size = sizeof room }; sigaltstack(&stack, 0);
  struct sigaction action = { .sa_handler = handler, .sa_flags = SA_ONSTACK }; sigaction(SIGUSR1, &action, 0);
  middle(3); leaf(); inside(); again(4); raise(SIGUSR1);
  pthread_t id; pthread_create(&id, 0, work, 0); pthread_join(id, 0); middle(2); return 0; }`;

const SELECTIONS: readonly (readonly string[])[] = [
  ['-F', 'middle'],
  ['-N', 'again'],
  ['-F', 'inside', '-N', 'middle'],
  ['-D', '2'],
  ['-F', 'again', '-D', '2'],
  ['-F', 'inside', '-F', 'work', '-D', '3'],
  ['-T', 'again@depth=2'],
  ['-F', 'main', '-T', 'inside@depth=1', '-N', 'handler'],
  ['-T', 'again@filter,depth=3'],
  ['-C', 'again'],
  ['-Z', '60', '-D', '2'],
  ['-C', 'leaf', '-D', '2', '-N', 'handler'],
  ['-C', 'middle', '-F', 'inside'],
  ['-F', 'inside', '-H', 'middle', '-H', 'again'],
  ['-H', 'main', '-D', '2', '-T', 'handler@hide'],
  ['-F', 'work', '-T', 'again@hide', '-D', '2'],
  ['--match', 'regex', '-F', '^(w|in).*[dk]e?$', '-N', 'dd.e'],
];

describeNatively('RT-47: calls are recorded that uftrace shows of the whole trace', () => {
  /** Programs of both tracers, and their whole traces for uftrace. */
  let made: readonly (readonly [string, string])[] = [];
  const both = (): typeof made => {
    if (made.length === 0) {
      const plain = compile(TREE, [...PLAIN, '-pthread', NOPS]);
      made = [[], GRAPH].map((tracer) => {
        const program = patched(plain, ...tracer);
        const whole = scratch('uftrace');
        verb('export', traced(program).dir, '--format', 'uftrace', '-o', whole);
        return [program, whole] as const;
      });
    }
    return made;
  };

  test.each(
    sampled(
      SELECTIONS.filter((_, i) => isWhole || i % 2 === 0),
      2,
    ).map((each) => [each]),
  )('%j', (options) => {
    for (const [i, [program, whole]] of both().entries()) {
      // Who calls what is known when it returns.
      if (i === 0 && options.includes('-C')) continue;
      const wanted = shape(run('uftrace', ['replay', '--no-pager', '-d', whole, ...options]).toString());
      expect(wanted.length).toBeGreaterThan(4);
      const counts: Record<string, number> = {};
      for (const row of wanted) {
        const [, name] = /^ *(\w+)\(/.exec(row) ?? [];
        if (name !== undefined) counts[name] = (counts[name] ?? 0) + 1;
      }
      const found = chosen(program, options);
      const all = report(found.dir);
      expect([all.dropped, countsOf(all)]).toEqual([0, counts]);
      // Where returns are not recorded, fewer calls show less of what is over.
      if (i === 1) expect(shape(verb('replay', found.dir))).toEqual(wanted);
    }
  });

  test('functions of fewer bytes are passed over where one runs that says so', () => {
    const [program, whole] = both()[1]!;
    const shown = (...options: string[]): string[] =>
      shape(run('uftrace', ['replay', '--no-pager', '-d', whole, ...options]).toString());
    const all = shown();
    for (const options of [
      ['-T', 'inside@size=40'],
      ['-T', 'middle@size=30', '-T', 'again@size=100', '-D', '3'],
    ]) {
      const wanted = shown(...options);
      expect(wanted.length).toBeGreaterThan(10);
      expect(wanted.length).toBeLessThan(all.length);
      expect([options, shape(verb('replay', chosen(program, options).dir))]).toEqual([options, wanted]);
    }
  });

  test('levels of a function count where it is asked for, and return addresses are the own ones', () => {
    const source = `#include <stdio.h>\nvoid *from; void leaf(void) { from = __builtin_return_address(0); } void middle(void) { leaf(); }
int main(void) { middle(); char *start = (char *)middle; printf("%d", (char *)from > start && (char *)from < start + 64); return 0; }`;
    const ran = chosen(patched(compile(source, [...PLAIN, NOPS])), [
      ...['-T', 'main@depth=1', '-F', 'middle', '-T', 'leaf@recover'],
    ]);
    expect([ran.stdout, countsOf(report(ran.dir))]).toEqual(['1', { leaf: 1, middle: 1 }]);
  });

  test.each([[[]], [GRAPH]])('a child goes on where its parent was: %j', (tracer) => {
    const source = `#include <sys/wait.h>\n#include <unistd.h>\nvolatile int sink; void leaf(void) { sink++; } void middle(void) { leaf(); leaf(); }
void inside(void) { middle(); if (fork() == 0) { middle(); leaf(); _exit(0); } wait(0); leaf(); }
int main(void) { middle(); inside(); leaf(); if (fork() == 0) { middle(); _exit(0); } wait(0); return 0; }`;
    const program = patched(compile(source, [...PLAIN, NOPS]), ...tracer);
    const counts = (...options: string[]): Record<string, number> => countsOf(report(chosen(program, options).dir));
    expect(counts('-F', 'inside')).toEqual({ inside: 1, leaf: 6, middle: 2 });
    expect(counts('-F', 'inside', '-D', '2')).toEqual({ inside: 1, leaf: 2, middle: 2 });
    expect(counts('-N', 'inside')).toEqual({ leaf: 5, main: 1, middle: 2 });
  });
});

describeNatively('RT-53: functions by the files that they were written in', () => {
  test('of some files, and not of others', () => {
    const source = `volatile int sink;
#line 1 "/there/lib/low.c"
void low(void) { sink++; } void lower(void) { low(); }
#line 1 "/there/lib/high.c"
void high(void) { lower(); low(); }
#line 1 "main.c"
int main(void) { high(); low(); return 0; }`;
    const plain = compile(source, [...PLAIN, '-g', NOPS]);
    const program = patched(plain, ...GRAPH);
    const counts = (...options: string[]): Record<string, number> => countsOf(report(chosen(program, options).dir));
    expect(counts('-L', 'low.c')).toEqual({ low: 3, lower: 1 });
    expect(counts('-L', 'lib/*.c')).toEqual({ high: 1, low: 3, lower: 1 });
    expect(counts('-L', '/there/lib/high.c;main.c')).toEqual({ high: 1, main: 1 });
    expect(counts('-L', 'low.c@hide', '-D', '2')).toEqual({ high: 1, main: 1 });
    expect(counts('-L', 'lib/*', '-L', 'low.c@hide')).toEqual({ high: 1 });
    expect(counts('-L', 'low.c', '-F', 'high', '-N', 'lower')).toEqual({ low: 1 });
    for (const [place, file, why] of [
      ['ow.c', plain, 'no traced function was written in such a file'],
      ['low.c', compile(source, [...PLAIN, '-g0', NOPS]), 'no debugging information names files'],
    ] as const) {
      const { status, stderr } = elftrace(['record', '--choice', scratch('never'), '-L', place, file]);
      expect([status, stderr]).toEqual([2, expect.stringContaining(why)]);
    }
  });
});

describeNatively('RT-48: what is switched', () => {
  const SWITCHED = `#include <time.h>\nvolatile int sink; void leaf(void) { sink++; } void on(void) { leaf(); } void off(void) { leaf(); }
void slow(void) { struct timespec time = { 0, 3000000 }; leaf(); nanosleep(&time, 0); }
int main(void) { leaf(); on(); leaf(); leaf(); slow(); off(); leaf(); slow(); return 0; }`;

  test('trace_on and trace_off, from the beginning or not', () => {
    const program = patched(compile(SWITCHED, [...PLAIN, NOPS]));
    const counts = (...options: string[]): Record<string, number> => countsOf(report(chosen(program, options).dir));
    expect(counts('--disable', '-T', 'on@trace_on', '-T', 'off@trace_off')).toEqual({ leaf: 4, on: 1, slow: 1 });
    expect(counts('-T', 'on@trace_off')).toEqual({ leaf: 1, main: 1 });
    expect(counts('-N', 'slow', '-T', 'off@trace_off')).toEqual({ leaf: 4, main: 1, on: 1 });
    expect(counts('-T', 'on@finish', '-T', 'slow@traceon')).toEqual({ leaf: 1, main: 1, on: 1 });
  });

  test('calls that last, of all and of single functions; the others leave no word', () => {
    const program = patched(compile(SWITCHED, [...PLAIN, NOPS]), ...GRAPH);
    const ran = (...options: string[]): Ran => chosen(program, options);
    const long = ran('-t', '2ms');
    expect(countsOf(report(long.dir))).toEqual({ main: 1, slow: 2 });
    expect(shape(verb('replay', long.dir))).toEqual(['main() {', '  slow();', '  slow();', '} /* main */']);
    const kept = countsOf(report(ran('-t', '2ms', '-T', 'on@trace').dir));
    expect(kept).toEqual({ main: 1, on: 1, slow: 2 });
    expect(countsOf(report(ran('-T', 'leaf@time=1ms').dir))).toEqual({ main: 1, off: 1, on: 1, slow: 2 });
    expect(countsOf(report(ran('-t', '2ms', '-T', 'main@time=10s').dir))).toEqual({});
  });

  test('a loop of short calls does not fill the file', () => {
    const source =
      'volatile int sink; void leaf(void) { sink++; } int main(void) { for (int i = 0; i < 100000; i++) leaf(); return 0; }';
    const program = patched(compile(source, [...PLAIN, NOPS]), ...GRAPH);
    for (const options of [
      ['-N', 'leaf'],
      ['-t', '1s'],
      ['-D', '1'],
      ['-C', 'main'],
    ]) {
      const env = { ELFTRACE_CHOICE: choice(program, ...options), ELFTRACE_SIZE: String(1 << 20) };
      const { dir } = traced(program, [], env);
      expect(report(dir).dropped).toBe(0);
      const [file] = readdirSync(dir);
      expect(readFileSync(join(dir, file!)).length).toBeLessThan(1 << 19);
    }
  });
});

/** Prints each call as it is, with what it returns, before anything is returned. */
const VALUES = `#include <stdio.h>\n#include <string.h>
int add(int a, const char *text, double d, char c) { int sum = a + (int)strlen(text) + (int)d + c;
  printf("add(%d, \\"%s\\", %f, '%c') = %d;\\n", a, text, d, c, sum); return sum; }
const char *name(unsigned n) { const char *text = n ? "hello" : "other"; printf("name(%u) = \\"%s\\";\\n", n, text); return text; }
double half(float f, double d) { double sum = f / 2 + d; printf("half(%f, %f) = %f;\\n", (double)f, d, sum); return sum; }
long many(long a, short b, signed char c, unsigned char d, long long e, unsigned long f, int g, short h) {
  printf("many(%ld, %d, '%c', '%c', %lld, %lu, %d, %d) = %ld;\\n", a, b, c, d, e, f, g, h, a + h); return a + h; }
long long wide(int a, long long b, int c, unsigned long long d, short e, long long f, int g, long long h) { long long sum = b + h;
  printf("wide(%d, %lld, %d, %llu, %d, %lld, %d, %lld) = %lld;\\n", a, b, c, d, e, f, g, h, sum); return sum; }
float lots(float a, double b, int c, float d, double e, float f, double g, float h, double i, float j, const char *k, double l, float m, double n, float o, double p, float q) {
  float sum = a + (float)q; printf("lots(%f, %f, %d, %f, %f, %f, %f, %f, %f, %f, \\"%s\\", %f, %f, %f, %f, %f, %f) = %f;\\n",
    a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, sum); return sum; }
int main(void) { lots(1.5f, 2.25, -3, 4.5f, 5.125, 6.5f, 7.75, 8.5f, 9.25, 10.5f, "k", 11.5, 12.5f, 13.5, 14.5f, 15.25, 16.5f); wide(-1, -2, 3, 98765, -5, 6ll << 40, 7, -8ll << 33); add(-3, "world", 2.5, 'x'); name(0);
 name(7); half(3.0f, -1.25); add(1 << 30, "", 1e10, '~');
  many(-1, -2, 'c', 'd', -5, 6, -7, -8); return 0; }`;
const TYPED = ['-A', 'add', '-A', 'name;half;many;wide;lots', '-R', '*'];
const SPELLED = [
  ['-T', 'add@arg1/i32,arg2/s,fparg1/64,arg3/c'],
  ['-A', 'name@arg1/u32;half@fparg1/32,fparg2/64'],
  ['-A', 'many@arg1,arg2/i16,arg3/c,arg4/c,arg5/i64,arg6/u,arg7/i32,arg8/i16'],
  ['-A', 'wide@arg1/i32,arg2/i64,arg3/i32,arg4/u64,arg5/i16,arg6/i64,arg7/i32,arg8/i64'],
  [
    '-A',
    `lots@${[1, 2].map((n) => `fparg${n}/${32 * n}`).join()},arg1/i32,${[3, 4, 5, 6, 7, 8, 9].map((n) => `fparg${n}/${n % 2 ? 32 : 64}`).join()},arg2/s,${[10, 11, 12, 13, 14, 15].map((n) => `fparg${n}/${n % 2 ? 32 : 64}`).join()}`,
  ],
  ['-R', 'add@retval/i32;name@retval/s;half@retval/f64;many@retval;wide@retval/i64;lots@retval/f32'],
].flat();

/** Calls with `long double`, which lie in registers of their own, in pairs, on the stack. */
const LONG_VALUES = `#include <stdio.h>
typedef long double ld; ld three(ld a, int n, ld b) { printf("three(%Lf, %d, %Lf) = %Lf;\\n", a, n, b, a * n + b); return a * n + b; }
ld few(int n, double d, ld a, float f) { printf("few(%d, %f, %Lf, %f) = %Lf;\\n", n, d, a, (double)f, -a); return -a; }
ld lots(ld a, ld b, ld c, ld d, ld e, ld f, int n, ld g, ld h, ld i, double k, ld j) {
  printf("lots(%Lf, %Lf, %Lf, %Lf, %Lf, %Lf, %d, %Lf, %Lf, %Lf, %f, %Lf) = %Lf;\\n", a, b, c, d, e, f, n, g, h, i, k, j, a + j); return a + j; }
volatile int kept; int other(OTHER a, int n) { return kept = a > n; }
int main(void) { three(1.5L, -3, 0.25L); few(7, 2.5, 1e15L, 1.5f); few(-1, -0.5, 0, 2); few(0, -0.0, 0x1p90L, 1); other(1, 2);
  lots(1, 2.5L, -3, 4, 5.125L, 6, -7, 8, 9.5L, 10, 11.5, 12.75L); return three(-1e-3L, 1000, 1e9L) == 0; }`;

/**
 * What a replay shows of them where only so many arguments are told; the others are not taken for
 * something else.
 */
function checkLongDoubles(told: number, machine?: NativeMachine): void {
  // What is as long and is passed in another way, where there is such a type.
  const has128 = machine === undefined || /^(arm64|riscv64|ppc64le)$/.test(machine.name);
  const type = machine === undefined || machine.name === 'ppc64le' ? '__float128' : '_Float128';
  const source = LONG_VALUES.replace('OTHER a', has128 ? `${type} a` : 'double a');
  const flags = [...PLAIN, '-w', '-fno-builtin', '-g', ...(machine?.sites ?? [NOPS])];
  const program = patched(compile(source, flags, 'c', [], machine), ...GRAPH);
  const ran = chosen(program, ['-A', '*', '-R', '*'], machine);
  const cut = (line: string): string =>
    line.replace(/\((.*)\)/, (_, list: string) => `(${list.split(', ').slice(0, told).join(', ')})`);
  const printed = ran.stdout.trim().split('\n');
  expect(printed).toHaveLength(6);
  const found = leaves(verb('replay', ran.dir));
  expect(found.filter((line) => !line.startsWith('other'))).toEqual(printed.map(cut));
  if (has128) expect(found).toContainEqual(expect.stringMatching(/^other\(\) = /));
}

/** Calls beside `main`, as the program prints them. */
const leaves = (text: string): string[] =>
  shape(text)
    .map((row) => row.trim().replace(/ \{$/, ';'))
    .filter((row) => /^\w+\(.*;$/.test(row) && !row.startsWith('main('));

describeNatively('RT-49: arguments and return values are what the program prints', () => {
  test.each([
    ['by their types', TYPED, ['-g']],
    ['by their types, of clang-like sections', TYPED, ['-gdwarf-4', '-gz']],
    ['as they are spelled', SPELLED, ['-g0']],
  ])('%s', (_, options, flags) => {
    const plain = compile(VALUES, [...PLAIN, '-fno-builtin', ...flags, NOPS]);
    const program = patched(plain, ...GRAPH);
    const ran = chosen(program, options);
    const printed = ran.stdout.trim().split('\n');
    expect(printed).toHaveLength(8);
    expect(leaves(verb('replay', ran.dir))).toEqual(printed);
    // uftrace reads the same.
    const data = scratch('uftrace');
    verb('export', ran.dir, '--format', 'uftrace', '-o', data);
    expect(leaves(run('uftrace', ['replay', '--no-pager', '-d', data]).toString())).toEqual(printed);
    // Arguments alone need no returns.
    const calls = patched(plain);
    const onlyArguments = options.filter((each, i) => each !== '-R' && options[i - 1] !== '-R');
    const found = leaves(verb('replay', chosen(calls, onlyArguments).dir));
    expect(found).toEqual(printed.map((line) => line.replace(/\) = .*$/, ');')));
  });
});

describeNatively('RT-49: long double', () => {
  test('is what the program prints', () => {
    checkLongDoubles(Infinity);
  });
});

describeNatively('RT-49: values in the forms of others', () => {
  test('of Chrome, of Perfetto, of uftrace with names of C++', () => {
    const source = `#include <cstdio>\nnamespace deep { struct box { int n; double put(int a, const char *text, double d); }; }
double deep::box::put(int a, const char *text, double d) { std::printf("%d", n); return a + d + text[0]; }
unsigned long wide(unsigned long n) { std::printf("."); return n + 1; }
int main() { deep::box one = { 5 }; one.put(-7, "t\\"x", 0.5); wide(~0ul - 1); return 0; }`;
    const ran = chosen(patched(compile(source, [...PLAIN, '-g', NOPS], 'c++'), ...GRAPH), ['-a']);
    const { traceEvents } = JSON.parse(verb('export', ran.dir, '--format', 'chrome')) as {
      traceEvents: { ph: string; name: string; args?: Record<string, unknown> }[];
    };
    const shown = traceEvents
      .filter(({ ph }) => ph !== 'M')
      .map(({ ph, name, args }) => [ph, name.replace(/\(.*/, ''), args]);
    const box = expect.stringMatching(/^0x7/);
    expect(shown).toEqual([
      ['B', 'main', undefined],
      ['B', 'deep::box::put', { arg1: box, arg2: -7, arg3: 't"x', fparg1: 0.5 }],
      ['E', 'deep::box::put', { retval: 109.5 }],
      ['B', 'wide', { arg1: '18446744073709551614' }],
      ['E', 'wide', { retval: '18446744073709551615' }],
      ['E', 'main', { retval: 0 }],
    ]);
    const data = scratch('uftrace');
    verb('export', ran.dir, '--format', 'uftrace', '-o', data);
    const replayed = run('uftrace', ['replay', '--no-pager', '-d', data]).toString();
    expect(replayed).toMatch(/deep::box::put.*\(0x7\w+, -7, "t\\?"x", 0\.500000\) = 109\.500000;/);
    expect(replayed).toMatch(/wide.*\((?:18446744073709551614|0xf{15}e)\) = (?:18446744073709551615|0xf{16});/);
    const packets = scratch('packets');
    verb('export', ran.dir, '--format', 'perfetto', '-o', packets);
    const proto = scratch('perfetto.proto');
    writeFileSync(proto, PERFETTO_PROTO);
    const options = ['--decode=perfetto.protos.Trace', `--proto_path=${dirname(proto)}`, proto];
    const text = run('protoc', options, readFileSync(packets)).toString();
    const notes = [...text.matchAll(/debug_annotations \{\s+(\w+): (\S+)\s+(\w+): (\S+)\s+\}/g)].map(
      ([, a, b, c, d]) => (a === 'name' ? [b, c, d] : [d, a, b]),
    );
    expect(notes).toEqual([
      ['"arg1"', 'pointer_value', expect.stringMatching(/^1407/)],
      ['"arg2"', 'int_value', '-7'],
      ['"arg3"', 'string_value', '"t\\"x"'],
      ['"fparg1"', 'double_value', '0.5'],
      ['"retval"', 'double_value', '109.5'],
      ['"arg1"', 'string_value', '"18446744073709551614"'],
      ['"retval"', 'string_value', '"18446744073709551615"'],
      ['"retval"', 'int_value', '0'],
    ]);
  });
});

/** Addresses of text that is not there, ends where nothing is mapped behind it, or is long. */
const TEXTS = `#define _GNU_SOURCE\n#include <stdio.h>\n#include <string.h>\n#include <sys/mman.h>
volatile int sink; int take(const char *text) { sink++; return text == 0; }
int main(void) { char *page = mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), *shut = page + 4096;
  static char large[5000]; memset(large, 'l', sizeof large - 1); strcpy(shut - 6, "fence"); mprotect(shut, 4096, PROT_NONE);
  take(0); take((char *)1); take(shut); take((char *)-4096L); take(shut - 6); take("a\\"b\\n\\x1b"); take(large); take("");
  shut[-1] = 'd'; take(shut - 4); munmap(shut, 4096); take(shut - 4); take(shut); printf("0x%lx\\n", (unsigned long)shut); return 0; }`;

interface Call {
  readonly function: string;
  readonly arguments?: readonly unknown[];
}

const callsOf = (dir: string, isPart = false): Call[] =>
  (isPart ? elftrace(['replay', dir, '--json']).stdout : verb('replay', dir, '--json'))
    .trim()
    .split('\n')
    .slice(1)
    .map((line) => JSON.parse(line) as Call);

function textsOf(machine?: NativeMachine): readonly [readonly unknown[], string] {
  const sites = machine?.sites ?? [NOPS];
  const program = patched(compile(TEXTS, [...PLAIN, '-g', ...sites], 'c', [], machine));
  const ran = chosen(program, ['-A', 'take'], machine);
  const found = callsOf(ran.dir).filter((each) => each.function === 'take');
  return [found.map(({ arguments: values }) => values?.[0]), ran.stdout.trim()];
}

describeNatively('RT-50: text that cannot be read is its address, and the program goes on', () => {
  test('in pieces that end with pages', () => {
    const [texts, shut] = textsOf();
    const ends = ['fence', 'a"b\n\u001b', 'l'.repeat(256), '', 'nced', 'nced', shut];
    expect(texts).toEqual([null, '0x1', shut, '0xfffffffffffff000', ...ends]);
  });

  test('of C++: this, references, structures, enumerations, std::string', () => {
    const source = `#include <cstdio>\n#include <string>\nvolatile int sink; enum color { RED = 1, BLUE = 7 };\nstruct big { long words[9]; };\nstruct pair { int a, b; };
struct shape { int sides; int grow(int by, color c) { sides += by; return sides; } };
int length(const std::string &text, std::string copy) { return sink = (int)(text.size() + copy.size()); }
big make(int n, const char *text) { big b = {}; b.words[0] = sink = n + text[0]; return b; }
int behind(big b, int n, bool is) { return sink = (int)b.words[1] + n + is; } int small(int n, pair p, int m) { return sink = n + p.a + m; }
int main() { shape s = { 3 }; s.grow(4, BLUE); std::string text(300, 's'); length("ab", text); make(5, "five"); behind({}, 6, true); small(1, {}, 2); return 0; }`;
    const program = patched(compile(source, [...PLAIN, '-g', NOPS], 'c++'), ...GRAPH);
    const found = callsOf(chosen(program, ['-F', 'main', '-D', '2', '-a', '-A', 'length*@arg1/S,arg2/S']).dir);
    const values = Object.fromEntries(
      found.flatMap((each) => {
        const name = /(grow|length|make|behind|small)/.exec(each.function)?.[1];
        return name !== undefined && each.arguments ? [[name, each.arguments] as const] : [];
      }),
    );
    expect(values).toEqual({
      grow: [expect.stringMatching(/^0x7f/), 4, 7],
      length: ['ab', 's'.repeat(256)],
      make: [5, 'five'],
      // Behind a structure that may lie in registers nothing is known.
      small: [1],
    });
    const plain = `volatile int sink; struct big { long words[9]; }; long behind(struct big b, int n, _Bool is) { return sink = b.words[1] + n + is; }
int main(void) { return behind((struct big) { { 1 } }, 6, 1) - 7; }`;
    const ran = chosen(patched(compile(plain, [...PLAIN, '-g', NOPS])), ['-A', 'behind']);
    expect(callsOf(ran.dir).find((each) => each.function === 'behind')?.arguments).toEqual([6, 1]);
  });
});

/** The trap flag: the handler, which is traced itself, runs behind each instruction. */
const STEPPED = `#define _GNU_SOURCE\n#include <signal.h>\n#include <stdio.h>
volatile long sink, handled; __attribute__((noinline)) long inner(long n) { sink++; return n; }
static void on_trap(int n) { handled++; inner(handled); (void)n; }
__attribute__((noinline)) long work(long a, const char *b, long c, long d, long e, long f) { return a ^ b[0] ^ c ^ d ^ e ^ f; }
#define FLAG(how) __asm__ volatile("sub $128,%%rsp; pushf; " how ",(%%rsp); popf; add $128,%%rsp" ::: "memory", "cc")
int main(void) { struct sigaction action = { .sa_handler = on_trap }; sigaction(SIGTRAP, &action, 0); long sum = 0;
  for (long i = 0; i < 9; i++) { FLAG("orl $0x100"); sum += work(i, "text", 3, 4, 5, 6); FLAG("andl $~0x100"); }
  printf("%ld %ld\\n", sum, handled); return 0; }`;

describeNatively('RT-21, RT-47: a signal behind each instruction of what chooses and records values', () => {
  test.each([
    [[], ['-A', 'work@arg1,arg2/s']],
    [[], ['-F', 'work', '-D', '1', '-A', 'work@arg1,arg2/s']],
    [GRAPH, ['-A', 'work@arg1,arg2/s', '-R', 'work@retval;inner@retval']],
    [GRAPH, ['-N', 'on_trap', '-t', '1ns', '-A', 'work@arg1,arg2/s', '-R', 'work']],
    [GRAPH, ['-C', 'work', '-A', 'work@arg1,arg2/s']],
  ])('%j %j', (tracer, options) => {
    const plain = compile(STEPPED, [...PLAIN, '-g', NOPS]);
    const expected = run(plain, []).toString().split(' ')[0];
    const ran = chosen(patched(plain, ...tracer), options);
    const [sum, handled] = ran.stdout.trim().split(' ');
    expect([sum, Number(handled) > 1000]).toEqual([expected, true]);
    const found = report(ran.dir);
    const calls = callsOf(ran.dir, true).filter((each) => each.function === 'work' && each.arguments !== undefined);
    const numbers = calls.map(({ arguments: values }) => Number(values![0]));
    // Those that are there are right, once each, and the others are counted.
    expect(numbers).toEqual([...new Set(numbers)].sort((a, b) => a - b));
    expect(calls.every(({ arguments: values }) => values![1] === 'text')).toBe(true);
    expect(numbers.length + found.dropped).toBeGreaterThanOrEqual(9);
    expect(numbers.length).toBeGreaterThan(3);
    if (options.length === 2) expect(found.calls + found.dropped).toBe(1 + 9 + 2 * Number(handled));
  });
});

/** Calls that are told apart by their argument, in a file that keeps its size. */
const NUMBERED = `volatile int sink; int step(int n) { sink = n; return n + 1; } void outer(int n) { step(n); }
int main(int count, char **words) { for (int i = 0; i < 200000; i++) outer(i); return 0; }`;

/** Records of a ring are whole, the last ones, and with those that made room they are all. */
function checkRing(
  program: string,
  calls: number,
  options: readonly string[],
  all: number,
  machine?: NativeMachine,
): void {
  const size = 1 << 18;
  const env: Record<string, string> = { ELFTRACE_SIZE: String(size), ELFTRACE_POLICY: 'ring' };
  if (options.length > 0) env['ELFTRACE_CHOICE'] = choice(program, ...options);
  const ran = traced(program, [], env, machine);
  const [file] = readdirSync(ran.dir);
  expect(readFileSync(join(ran.dir, file!)).length).toBeLessThanOrEqual(size);
  const { status, stdout, stderr } = elftrace(['report', ran.dir, '--json']);
  const found = JSON.parse(stdout) as Report & { overwritten: number };
  expect([status, found.damaged, found.unknown, found.dropped]).toEqual([0, 0, 0, 0]);
  expect(found.calls + found.overwritten).toBe(all);
  expect(stderr).toContain(`${found.overwritten} calls made room for later ones`);
  expect(found.calls).toBeGreaterThan(5000);
  if (options.length === 0) return;
  const steps = callsOf(ran.dir, true).filter((each) => each.function === 'step' && each.arguments !== undefined);
  const numbers = steps.map(({ arguments: values }) => Number(values![0]));
  expect(numbers).toEqual(Array.from(numbers, (_, i) => calls - numbers.length + i));
}

describeNatively('RT-51: old records make room for new ones', () => {
  test.each([
    [[], []],
    [GRAPH, []],
    [GRAPH, ['-A', 'step', '-R', 'step']],
    [[], ['-F', 'step', '-A', 'step']],
  ])('%j %j: the last calls are there, the others are counted', (tracer, options) => {
    const program = patched(compile(NUMBERED, [...PLAIN, '-g', NOPS]), ...tracer);
    checkRing(program, 200_000, options, options.includes('-F') ? 200_000 : 400_001);
  });
});

describeNatively('RT-47: a choice that cannot be made', () => {
  let plain = '';
  test.each<readonly [readonly string[], number, RegExp]>([
    [['-F', 'nowhere'], 2, /nowhere: no traced function has such a name/],
    [['-t', '1ms'], 4, /how long calls last needs --tracer function_graph/],
    [['-R', 'leaf@retval'], 4, /return values need --tracer function_graph/],
    [['-A', 'leaf@retval'], 2, /-A takes arg and fparg/],
    [['-A', 'leaf@arg0'], 2, /numbers of arguments are 1 to 31/],
    [['-A', 'leaf@arg1/q'], 2, /it is no value such as/],
    [['-A', 'leaf@arg1%rbp'], 2, /rbp is no register of arguments/],
    [['-A', 'leaf'], 2, /its debugging information says nothing/],
    [['-T', 'leaf@backtrack'], 2, /actions are depth=N/],
    [['-T', 'leaf@depth=2,backtrace'], 4, /-T backtrace: it is about what is shown: replay -T takes it/],
    [['-T', 'leaf@color=red'], 4, /replay -T takes it/],
    [['-T', 'leaf@read=proc/statm'], 4, /-T read=proc.statm: .* are read by system calls/],
    [['-T', 'leaf@size=0'], 2, /takes a number of at least 1/],
    [['-T', 'nowhere@recover'], 2, /nowhere: no traced function has such a name/],
    [['-T', 'leaf@recover', '--tracer', 'function_graph'], 4, /-T leaf@recover: with function_graph returns/],
    [['-T', 'leaf@retval'], 4, /return values need --tracer function_graph/],
    [['--signal', 'SIGUSR1@trace_on'], 4, /handlers of signals are the program's own/],
    [['--match', 'regex', '-F', 'le(af'], 2, /le\(af: Invalid regular expression/],
    [['-C', 'leaf'], 4, /what calls a function \(-C\) needs --tracer function_graph/],
    [['-C', 'leaf', '-t', '1ms'], 2, /-C goes without times/],
    [['-Z', '0'], 2, /takes a number of at least 1/],
    [['-D', '0'], 2, /takes a number of at least 1/],
    [['-t', 'soon'], 2, /is no time/],
  ])('%j', (options, code, text) => {
    if (plain === '') {
      plain = compile('volatile int sink; void leaf(void) { sink++; } int main(void) { leaf(); return 0; }', [
        ...PLAIN,
        '-g0',
        NOPS,
      ]);
    }
    const { status, stderr } = elftrace(['record', '--choice', scratch('never'), ...options, plain]);
    expect([status, stderr]).toEqual([code, expect.stringMatching(text)]);
    // Of what is run all other codes are the program's.
    expect(elftrace(['record', '-d', scratch('never'), ...options, plain])).toMatchObject({ status: 125 });
  });

  test('reasons are there for programs', () => {
    const valid = new Ajv2020().compile(schemaOf('record'));
    const said = (...options: string[]): unknown => {
      const { stdout } = elftrace(['record', '--choice', scratch('choice'), '--json', ...options, plain]);
      const found: unknown = JSON.parse(stdout);
      expect([valid(found), valid.errors]).toEqual([true, null]);
      return found;
    };
    expect(said('-F', 'leaf')).toMatchObject({ choice: expect.any(String) });
    expect(said('-T', 'leaf@read=page-fault')).toMatchObject({
      refused: { code: 'unsupported-form', reason: 'trigger' },
    });
    expect(said('-R', 'leaf@retval')).toMatchObject({ refused: { reason: 'returns' } });
  });

  test('a file that is none, is not there, or is about other programs alone', () => {
    const program = patched(compile(TREE, [...PLAIN, '-pthread', NOPS]));
    const none = scratch('none');
    writeFileSync(none, 'no choice');
    for (const path of [none, '/nowhere']) {
      const { status, dir } = traced(program, [], { ELFTRACE_CHOICE: path });
      expect([status, readdirSync(dir)]).toEqual([0, []]);
    }
    const other = patched(compile(`${TREE} int other(void) { return 5; }`, [...PLAIN, '-pthread', NOPS, '-fPIE']));
    // Filters of functions leave out what has none of them; levels hold for all.
    expect(report(traced(other, [], { ELFTRACE_CHOICE: choice(program, '-F', 'leaf') }).dir).calls).toBe(0);
    expect(countsOf(report(traced(other, [], { ELFTRACE_CHOICE: choice(program, '-D', '1') }).dir))).toMatchObject({
      main: 1,
    });
  });

  test('a program and its options at once: the choice lies beside the trace', () => {
    const plain = compile(VALUES, [...PLAIN, '-fno-builtin', '-g', NOPS]);
    const dir = scratch('data');
    const env = { ...process.env, XDG_CACHE_HOME: scratch('cache') };
    const ran = elftrace(['record', '-d', dir, '-F', 'name', '-A', 'name', plain], { env });
    expect([ran.status, ran.stderr]).toEqual([0, '']);
    expect(leaves(verb('replay', dir))).toEqual(['name(0);', 'name(7);']);
    expect(readdirSync(dir)).toContain('elftrace.choice');
    const both = elftrace(['record', '-o', scratch('never'), '-F', 'name', plain]);
    expect([both.status, both.stderr]).toEqual([2, expect.stringContaining('--choice FILE writes the choice')]);
  });
});

describe.each([
  ['riscv64', ['-march=rv64imac', '-mabi=lp64']],
  ['ppc32', ['-msoft-float']],
] as const)('programs of %s without floating point', (name, flags) => {
  const machine = machines.find((each) => each.name === name)!;
  describeWith([`${machine.triple}-gcc`], 'compiled', () => {
    test('RT-49: values are refused: the runtime would look into registers that may not be there', () => {
      const own = ['-ffreestanding', '-nostdlib', '-static', '-g', ...flags];
      const source = 'double half(double d) { return d; } void _start(void) { half(0); }';
      const program = compile(source, [...PLAIN, ...own, ...machine.sites], 'c', [], machine);
      for (const options of [['-a'], ['-A', 'half@arg1']]) {
        const { status, stderr } = elftrace(['record', '--choice', scratch('never'), ...options, program]);
        expect([status, stderr]).toEqual([4, expect.stringContaining('are not recorded of programs of this ABI')]);
      }
    });
  });
});

describe.each(sampled(machines, 2))('programs of $name', (machine) => {
  describeWith([`${machine.triple}-gcc`, machine.run[0]!], 'under an emulator', () => {
    test('RT-47: functions and levels', () => {
      const program = patched(compile(TREE, [...PLAIN, '-pthread', ...machine.sites], 'c', [], machine));
      const whole = traced(program, [], ROOM, machine).dir;
      for (const [options, same = options] of [
        [['-F', 'inside', '-F', 'work', '-D', '2']],
        [['-N', 'again']],
        // No function is as long.
        [
          ['-T', 'inside@size=100000'],
          ['-N', 'inside'],
        ],
      ] as const) {
        const wanted = JSON.parse(verb('report', whole, '--json', ...same)) as Report;
        expect(countsOf(report(chosen(program, options, machine).dir))).toEqual(countsOf(wanted));
      }
    });

    test('RT-49: arguments and return values are what the program prints', () => {
      const program = patched(
        compile(VALUES, [...PLAIN, '-fno-builtin', '-g', ...machine.sites], 'c', [], machine),
        ...GRAPH,
      );
      for (const options of [TYPED, SPELLED]) {
        const ran = chosen(program, options, machine);
        expect(leaves(verb('replay', ran.dir))).toEqual(ran.stdout.trim().split('\n'));
      }
    });

    test('RT-49: long double is what the program prints', () => {
      // Of 64-bit PowerPC the seventh lies in a register and on the stack.
      checkLongDoubles(machine.name.startsWith('ppc64') ? 7 : Infinity, machine);
    });

    test('RT-49: structures, as far as their sizes say where they and what is behind them are', () => {
      const source = `volatile int sink; struct big { long words[40]; }; struct pair { int a, b; };
struct big make(int n, const char *text) { struct big b = { { sink = n + text[0] } }; return b; }
int behind(int n, struct big b, int m) { return sink = (int)b.words[1] + n + m; }
int small(int n, struct pair p, int m) { return sink = n + p.a + m; }
int main(void) { struct big b = make(5, "five"); struct pair p = { 3, 4 }; return behind(6, b, 7) + small(1, p, 2) == 0; }`;
      const program = patched(compile(source, [...PLAIN, '-g', ...machine.sites], 'c', [], machine));
      const calls = callsOf(chosen(program, ['-A', '*'], machine).dir);
      const found = calls.filter((each) => each.function !== 'main');
      const address = expect.stringMatching(/^0x/);
      // 64-bit PowerPC passes them in words of registers, 32-bit all by address.
      const [behind, small] =
        machine.name === 'ppc32'
          ? [
              [6, address, 7],
              [1, address, 2],
            ]
          : machine.name.startsWith('ppc64')
            ? [[6], [1]]
            : [[6, address, 7], [1]];
      expect(Object.fromEntries(found.map((each) => [each.function, each.arguments]))).toEqual({
        make: [5, 'five'],
        behind,
        small,
      });
    });

    // What is left is common to all: of 32 bits, the upper first, and of 64 CI tries one each.
    if (!isWhole && !['riscv64', 'ppc32'].includes(machine.name)) return;

    test('RT-51: old records make room for new ones', () => {
      const plain = compile(NUMBERED.replace('200000', '40000'), [...PLAIN, '-g', ...machine.sites], 'c', [], machine);
      checkRing(patched(plain), 40_000, [], 80_001, machine);
      if (isWhole) checkRing(patched(plain), 40_000, ['-F', 'step', '-A', 'step'], 40_000, machine);
      checkRing(patched(plain, ...GRAPH), 40_000, ['-A', 'step', '-R', 'step'], 80_001, machine);
    });

    test('RT-50: text that cannot be read is its address', () => {
      const [texts, shut] = textsOf(machine);
      const last = machine.words?.bytes === 4 ? '0xfffff000' : '0xfffffffffffff000';
      const ends = ['fence', 'a"b\n\u001b', 'l'.repeat(256), '', 'nced', 'nced', shut];
      expect(texts).toEqual([null, '0x1', shut, last, ...ends]);
    });
  });
});
