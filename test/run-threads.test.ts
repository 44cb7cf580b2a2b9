/**
 * Threads under `elftrace run`: programs of the C library, static and dynamic, do what they do
 * under qemu-user and on the processor that runs the tests, whatever the turns that threads take.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, test } from '@jest/globals';
import { type PpcTarget, PROGRAMS, buildProgram, TARGETS as PPC_TARGETS } from './support/c-programs.js';
import { writeSource } from './support/emulator.js';
import { few, isWhole, sampled } from './support/long.js';
import { isX86Linux } from './support/processor.js';
import { run } from './support/run.js';
import { spawnSync } from './support/spawn.js';
import { describeWith, run as runTool } from './support/tools.js';

const folder = mkdtempSync(join(tmpdir(), 'run-threads-'));
afterAll(() => {
  rmSync(folder, { recursive: true, force: true });
});

/** The C library of ELFv2 in big-endian order has no package: that ABI has a program below. */
const TARGETS = [
  ['x86-64', 'gcc', 'qemu-x86_64', '/'],
  ['arm64', 'aarch64-linux-gnu-gcc', 'qemu-aarch64', '/usr/aarch64-linux-gnu'],
  ['riscv64', 'riscv64-linux-gnu-gcc', 'qemu-riscv64', '/usr/riscv64-linux-gnu'],
  ['ppc32', 'powerpc-linux-gnu-gcc', 'qemu-ppc', '/usr/powerpc-linux-gnu'],
  ['ppc64-elfv1', 'powerpc64-linux-gnu-gcc', 'qemu-ppc64', '/usr/powerpc64-linux-gnu'],
  ['ppc64le', 'powerpc64le-linux-gnu-gcc', 'qemu-ppc64le', '/usr/powerpc64le-linux-gnu'],
] as const;

/** What Linux does on every machine. */
const LINUX = `counter 2000 atomics 6000 once 1 tls 34 7 destroyed 10
consumed 20100
cancelled 1 cleaned 5
spinning 1
signalled 11 1
timed 1
robust 1 0
unlocked 0
moved 2
changed -1
both 2
word 12 woken 3
end
`;

const built = new Map<string, string>();
function program(gcc: string, source: string, ...flags: readonly string[]): string {
  const key = [gcc, source, ...flags].join();
  let path = built.get(key);
  if (path === undefined) {
    path = join(folder, `program-${built.size}`);
    runTool(gcc, ['-O1', '-w', ...flags, '-o', path, join(PROGRAMS, 'threads', source), '-lpthread']);
    built.set(key, path);
  }
  return path;
}

for (const [at, [name, gcc, qemu, root]] of sampled(TARGETS, 3).entries()) {
  // Threads are the same on all machines, but for how they are made and for atomics.
  const isAll = isWhole || at === 0;
  describeWith([gcc, qemu], `threads of ${name}`, () => {
    test.each(isAll ? ['-static', '-pie'] : ['-static'])(
      '%s: locks, conditions, storage, cancellation, signals as on Linux',
      (link) => {
        const path = program(gcc, 'threads.c', link);
        if (name === 'x86-64' && isX86Linux) expect(spawnSync(path, [], { encoding: 'utf8' }).stdout).toBe(LINUX);
        else {
          const there = spawnSync(qemu, ['-L', root, path, 'some'], { encoding: 'utf8' });
          const some = LINUX.split('\n').filter(
            (each) => !/^(cancelled|spinning|robust|unlocked|moved|changed|both|word)/.test(each),
          );
          expect([there.status, there.stdout]).toEqual([3, some.join('\n')]);
        }
        const here = run(['--root', root, path]);
        expect([here.stdout, here.status, here.json['deviations']]).toEqual([LINUX, 3, []]);
      },
    );

    if (!isAll) return;
    test('turns drawn from a seed give the same result, after the same instructions in both tiers', () => {
      const path = program(gcc, 'threads.c', '-static');
      const ran = ['0', 'auto'].map((tier) => run(['--seed', '2', '--slice', '1000', '--tier', tier, path]));
      for (const each of ran) expect([each.stdout, each.status]).toEqual([LINUX, 3]);
      expect(ran[0]!.json['instructions']).toBe(ran[1]!.json['instructions']);
    });

    test('a deadlock of all threads is said with the place of each', () => {
      const path = program(gcc, 'locks.c', '-static');
      const { status, stderr, json } = run([path]);
      expect(status).toBe(125);
      const stop = json['stop'] as { reason: string; threads: { thread: number; function: string }[] };
      expect([stop.reason, stop.threads.map((each) => each.thread)]).toEqual(['deadlock', [1000, 1001, 1002]]);
      for (const each of stop.threads) expect(each.function).toMatch(/lock|futex|wait|join/);
      expect(stderr).toMatch(
        /deadlock: thread 1000 at .*, thread 1001 at .*, thread 1002 at .* wait for what cannot come/,
      );
    });
  });
}

describeWith(['gcc'], 'turns of threads', () => {
  test('a race shows in what a seed gives, which is the same each time', () => {
    const path = program('gcc', 'race.c', '-static');
    const counts = few(['1', '2', '3', '4'], 2).map((seed) => {
      const [one, other] = [0, 1].map(() => run(['--seed', seed, '--slice', '200', path]).stdout);
      expect(one).toBe(other);
      return Number(one);
    });
    expect(new Set(counts).size).toBeGreaterThan(1);
    expect(Math.min(...counts)).toBeLessThan(12_000);
  });

  test.each([
    ['--seed', 'x'],
    ['--slice', '0'],
    ['--slice', '1e3'],
  ])('%s %s is refused', (option, value) => {
    const { status, stderr } = run([option, value, program('gcc', 'race.c', '-static')]);
    expect([status, stderr]).toEqual([125, expect.stringContaining(`${option} ${value}: a number from`)]);
  });
});

describeWith(['gcc'], 'slices of threads', () => {
  test('a lock that is held in most of each round is got, however long the rounds are', () => {
    const path = program('gcc', 'rounds.c', '-static');
    // Rounds of 1000 instructions fit the first two.
    for (const slice of ['50000', '8000', '1234']) {
      const { stdout, status } = run(['--slice', slice, '--max-instructions', '300000000', path]);
      expect([slice, stdout, status]).toEqual([slice, 'free\n', 3]);
    }
  });
});

describeWith(['g++'], 'threads of C++', () => {
  test.each(few(['-static', '-pie']))('%s: std::thread, futures, exceptions across threads as on Linux', (link) => {
    const path = program('g++', 'std.cc', link);
    const there = spawnSync(isX86Linux ? path : 'qemu-x86_64', isX86Linux ? [] : [path], { encoding: 'utf8' });
    expect([there.status, there.stdout.split('\n').length]).toEqual([5, 3]);
    const here = run(['--root', '/', path]);
    expect([here.stdout, here.status, here.json['deviations']]).toEqual([there.stdout, 5, []]);
  });
});

/** Two threads without a library, which count together with `lwarx` and `stwcx.`. */
const RAW = `
#include <asm/unistd.h>
#include "lib.h"
static u32 count, stopped, id;
static u8 stack[65536] __attribute__((aligned(16)));
static void add(void) {
  u32 old;
  __asm__ volatile("1: lwarx %0,0,%1\\n addi %0,%0,1\\n stwcx. %0,0,%1\\n bne- 1b" : "=&r"(old) : "r"(&count) : "cr0", "memory");
}
__attribute__((used, noinline)) static void child(void) {
  for (int i = 0; i < 1000; i++) add();
  sys(__NR_exit, 0L);
}
static long make(void) {
  register long r0 __asm__("r0") = __NR_clone;
  register long r3 __asm__("r3") = 0x350f00;
  register void *r4 __asm__("r4") = stack + sizeof stack - 256;
  register u32 *r5 __asm__("r5") = &id;
  register u32 *r7 __asm__("r7") = &stopped;
  __asm__ volatile("sc\\n cmpdi 3,0\\n bne 1f\\n bl child\\n nop\\n 1:"
                   : "+r"(r0), "+r"(r3), "+r"(r4), "+r"(r5), "+r"(r7)
                   : : "r6", "r8", "r9", "r10", "r11", "r12", "lr", "ctr", "cr0", "memory");
  return r3;
}
int main(void) {
  stopped = 1;
  line("made", make() == id);
  for (int i = 0; i < 1000; i++) add();
  while (*(volatile u32 *)&stopped) sys(__NR_futex, &stopped, 0L, 1L, 0L, 0L, 0L);
  line("count", count);
  flush();
  return 0;
}
`;
const ELFV2 = PPC_TARGETS.find(({ name }) => name === 'ppc64-elfv2-be') as PpcTarget;
describeWith([ELFV2.gcc, ELFV2.qemu], 'threads of ELFv2 in big-endian order', () => {
  test.each(['50000', '7', '3'])('reservations are lost when threads take turns of %s instructions', (slice) => {
    const path = buildProgram(ELFV2, '1', [writeSource('raw-threads.c', RAW)]);
    const there = spawnSync(ELFV2.qemu, [path], { encoding: 'utf8' });
    expect([there.status, there.stdout]).toEqual([0, 'made 1\ncount 7d0\n']);
    const { status, stdout, json } = run(['--slice', slice, path]);
    expect([status, stdout, json['deviations']]).toEqual([0, there.stdout, []]);
  });
});

/** A store-conditional behind another thread's turn, which touched nothing near it. */
const LOST = RAW.replace('for (int i = 0; i < 1000; i++) add();\n  sys(__NR_exit', 'sys(__NR_exit').replace(
  'line("made", make() == id);\n  for (int i = 0; i < 1000; i++) add();',
  `make();
  u32 old, kept;
  __asm__ volatile("lwarx %0,0,%2\\n li 0,%3\\n sc\\n stwcx. %0,0,%2\\n mfcr %1"
                   : "=&r"(old), "=&r"(kept) : "r"(&count), "i"(__NR_sched_yield)
                   : "r0", "r3", "r4", "r5", "r6", "r7", "r8", "r9", "r10", "r11", "r12", "cr0", "memory");
  line("stored", kept >> 29 & 1);`,
);
describeWith([ELFV2.gcc], 'reservations', () => {
  test('a reservation does not outlive a turn', () => {
    const { status, stdout } = run([buildProgram(ELFV2, '1', [writeSource('lost.c', LOST)])]);
    expect([status, stdout]).toEqual([0, 'stored 0\ncount 0\n']);
  });
});
