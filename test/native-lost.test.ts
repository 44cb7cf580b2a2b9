/** What is lost by processes that cannot have a file for a while, or at all (RT-23, RT-60). */
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from '@jest/globals';
import { scratch } from './support/c-programs.js';
import { warmElftrace as elftrace } from './support/cli.js';
import { few, sampled } from './support/long.js';
import { machines, ROOM } from './support/native-machines.js';
import { compile, countsOf, describeNatively, NOPS, patched, report, traced } from './support/native-run.js';
import { describeWith } from './support/tools.js';

const TRACERS = [[], ['--tracer', 'function_graph'], ['--tracer', 'counter']] as const;

/** LIMIT BEFORE AFTER THREADS: calls (of each thread) under a limit of zero, and behind it. */
const LIMITED = `#include <pthread.h>\n#include <stdlib.h>\n#include <string.h>\n#include <sys/resource.h>
#define PLAIN __attribute__((patchable_function_entry(0)))
volatile int sink; void leaf(void) { sink++; } static int which;
PLAIN static void set(rlim_t value) { struct rlimit l; getrlimit(which, &l); l.rlim_cur = value; setrlimit(which, &l); }
PLAIN static void *many(void *n) { for (long i = 0; i < (long)n; i++) leaf(); return 0; }
static pthread_barrier_t all;
PLAIN static void *together(void *n) { pthread_barrier_wait(&all); pthread_barrier_wait(&all); return many(n); }
PLAIN int main(int count, char **words) { long before = atol(words[2]), after = atol(words[3]), threads = atol(words[4]); pthread_t ids[8];
  which = strcmp(words[1], "space") ? RLIMIT_NOFILE : RLIMIT_AS; pthread_barrier_init(&all, 0, (unsigned)threads + 1);
  for (long i = 0; i < threads; i++) pthread_create(ids + i, 0, together, (void *)before);
  if (threads) pthread_barrier_wait(&all);
  set(0);
  if (threads) pthread_barrier_wait(&all); else many((void *)before);
  for (long i = 0; i < threads; i++) pthread_join(ids[i], 0);
  if (after) { set(which == RLIMIT_AS ? RLIM_INFINITY : 64); many((void *)after); }
  return count == 5 ? 3 : 4; }`;
const BUILT = ['-O1', '-fno-inline', '-pthread'];

/** Counts of names that say what was lost. */
const lostIn = (dir: string): number[] =>
  readdirSync(dir).flatMap((name) => (name.endsWith('.lost') ? [Number(name.split('.').at(-2))] : []));

describeNatively('processes without a file', () => {
  const plain = compile(LIMITED, [...BUILT, NOPS]);

  test.each(TRACERS.map((tracer) => [tracer]))('RT-60: no address space: %j', (tracer) => {
    const program = patched(plain, ...tracer);
    for (const calls of [465, 1024]) {
      const ran = traced(program, ['space', String(calls), '0', '0']);
      expect([ran.status, lostIn(ran.dir), readdirSync(ran.dir).length]).toEqual([3, [calls], 1]);
    }
    const { status, stderr } = elftrace(['report', traced(program, ['space', '465', '0', '0']).dir]);
    expect([status, stderr]).toEqual([4, expect.stringContaining('no process had a file for 465 calls or more')]);
    const many = lostIn(traced(program, ['space', '100003', '0', '4']).dir)[0]!;
    expect(4 * 100_003 - many).toBeGreaterThanOrEqual(0);
    expect(4 * 100_003 - many).toBeLessThan(4 * 100);
  });

  test.each(few(TRACERS, 2).flatMap((tracer) => [[tracer, 'space'] as const, [tracer, 'descriptors'] as const]))(
    'RT-23, RT-60: until there is a file: %j, %s',
    (tracer, limit) => {
      const program = patched(plain, ...tracer);
      for (const before of few([1000, 1, 40_000])) {
        const ran = traced(program, [limit, String(before), '70000', '0']);
        const { calls, dropped } = report(ran.dir);
        expect([before, ran.status, calls + dropped, calls > 0, dropped >= before]).toEqual([
          before,
          3,
          before + 70_000,
          true,
          true,
        ]);
        expect(lostIn(ran.dir)).toEqual([]);
      }
    },
  );

  test('RT-60: what a name says is told beside what files say, as a number of its own', () => {
    const ran = traced(patched(plain), ['space', '10', '5', '0']);
    const before = report(ran.dir);
    expect([before.calls, before.dropped]).toEqual([5, 10]);
    for (const name of ['77.0123abcd.1f.2048.lost', '77.0123abcd.1f.2050.lost', '78.0123abcd.1f.3.lost'])
      writeFileSync(join(ran.dir, name), '');
    const { status, stdout, stderr } = elftrace(['report', '--json', ran.dir]);
    expect([status, JSON.parse(stdout)]).toEqual([0, expect.objectContaining({ dropped: 2063, droppedUnfiled: 2053 })]);
    expect(stderr).toContain('2053 calls or more were not recorded: their processes had no file');
    expect(stderr).toContain('10 calls were not recorded: there was no room');
  });

  test('RT-23: losses of two objects of a process are added', () => {
    const folder = scratch('libraries');
    mkdirSync(folder);
    const path = join(folder, 'liblow.so');
    const low = compile('int getppid(void), g; void low(void) { g += getppid() != 0; }', [
      ...BUILT,
      NOPS,
      '-fPIC',
      '-shared',
      '-Wl,-soname,liblow.so',
    ]);
    writeFileSync(path, readFileSync(low), { mode: 0o755 });
    const source = `#include <pthread.h>\nvoid low(void); void leaf(void) { low(); }
__attribute__((patchable_function_entry(0))) void *many(void *n) { for (long i = 0; i < (long)n; i++) leaf(); return 0; }
__attribute__((patchable_function_entry(0))) int main(void) { pthread_t id; many((void *)3); pthread_create(&id, 0, many, (void *)1000); pthread_join(id, 0); return 3; }`;
    const program = compile(source, [...BUILT, NOPS], 'c', [path, `-Wl,-rpath,${folder}`]);
    writeFileSync(path, readFileSync(patched(low)), { mode: 0o755 });
    const ran = traced(patched(program), [], { ELFTRACE_THREADS: 'first' });
    const found = report(ran.dir);
    expect([ran.status, countsOf(found), found.dropped]).toEqual([3, { leaf: 3, low: 3 }, 2000]);
  });
});

describe.each(sampled(machines, 3))('$name', (machine) => {
  // -mprofile-kernel has no attribute that leaves a function out.
  if (machine.finish === undefined)
    describeWith([`${machine.triple}-gcc`, machine.run[0]!], 'processes without a file', () => {
      test('RT-60: no descriptor: counted in the first file that there is', () => {
        const program = patched(compile(LIMITED, [...BUILT, ...machine.sites], 'c', [], machine));
        const ran = traced(program, ['descriptors', '1000', '2000', '0'], ROOM, machine);
        const { calls, dropped } = report(ran.dir);
        expect([ran.status, calls + dropped, calls > 0, dropped >= 1000]).toEqual([3, 3000, true, true]);
      });

      test('RT-60: no file: a name', () => {
        // A file that may not even have a header.
        const program = patched(compile(LIMITED, [...BUILT, ...machine.sites], 'c', [], machine));
        const ran = traced(program, ['descriptors', '0', '1500', '0'], { ...ROOM, ELFTRACE_SIZE: '100' }, machine);
        expect([ran.status, readdirSync(ran.dir).length, lostIn(ran.dir)]).toEqual([3, 1, [1500]]);
      });
    });
});
