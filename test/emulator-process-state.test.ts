/**
 * What a process keeps outside of guest memory (heap end, mappings, open files, random numbers,
 * signals, sleep, standard input, the size of the stack) is part of a machine's snapshots. And with
 * several CPUs there is one clock.
 */
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, expect, test } from '@jest/globals';
import { archOf } from '../src/arches.js';
import { filesBelow } from '../src/output/guest-files.js';
import { readElf } from '../src/elf/read.js';
import { compareStates } from '../src/emulator/index.js';
import { NO_FILES, startProcess } from '../src/guest/index.js';
import type { Snapshot, StopReason } from '../src/emulator/index.js';
import type { FileSystem, Process } from '../src/guest/index.js';
import { ElftraceError } from '../src/errors.js';
import { buildPpc, ppcGcc, PROGRAMS, writeSource } from './support/emulator.js';
import type { PpcKind } from './support/emulator.js';
import { repeats } from './support/long.js';
import { describeWith, run } from './support/tools.js';

const folder = mkdtempSync(join(tmpdir(), 'process-state-'));
mkdirSync(join(folder, 'dir'));
writeFileSync(join(folder, 'dir', 'a'), 'contents of a file that is read in pieces, some of them twice\n'.repeat(3));
writeFileSync(join(folder, 'dir', 'b'), 'b');
afterAll(() => {
  rmSync(folder, { recursive: true, force: true });
});

/** Changes everything that the process keeps, again and again, and prints what it finds. */
const SOURCE = `
#include "lib.h"
#define MMAP (sizeof(word) == 4 ? 192 : 90)
static u8 space[4096];
static u64 sum(const u8 *p, long n) { u64 s = 0; for (long i = 0; i < n; i++) s = s * 31 + p[i]; return s; }
static u32 deep(int n) { volatile u8 frame[40000]; frame[n] = n; frame[39999] = 1; return n ? deep(n - 1) + frame[n] : frame[39999]; }
int main(int argc, char **argv) {
  (void)argc; (void)argv;
  long heap = sys(45, 0L), held = -1;
  for (int round = 0; round < 6; round++) {
    heap = sys(45, heap + 5000 * (round + 1));
    *(u8 *)(heap - 1) = round;
    line("heap", sum((u8 *)(heap - 3000), 3000));
    u8 *page = (u8 *)sys(MMAP, 0L, 8192L, 3L, 0x22L, -1L, 0L);
    line("page", (word)page);
    page[5000] = 7;
    if (round & 1) line("unmap", sys(91, page, 4096L));
    long fd = sys(5, "/dir/a", 0L);
    line("open", fd);
    line("read", sys(3, fd, space, 17L + round));
    line("bytes", sum(space, 17));
    if (held >= 0) {
      line("held", sys(3, held, space, 5L));
      line("bytes", sum(space, 5));
      line("closed", sys(6, held));
    }
    held = fd;
    long list = sys(5, "/dir", 0L);
    line("list", sys(202, list, space, 60L));
    line("rest", sys(202, list, space, 600L));
    sys(6, list);
    sys(359, space, 16L, 0L);
    line("random", sum(space, 16));
    word time[2] = {round, 5}, set[2] = {1UL << round, 0}, old[2] = {0, 0};
    sys(162, time, 0L);
    sys(246, 1L, time);
    line("time", time[0]);
    line("part", time[1]);
    word action[5] = {1, (word)round, 0, 0, 0}, before[5] = {0, 0, 0, 0, 0};
    sys(173, 15L, action, before, 8L);
    line("action", before[1]);
    sys(174, 0L, set, old, 8L);
    line("mask", old[0] + old[1]);
    if (round == 2) sys(37, sys(20), 1L);
    long n = sys(3, 0L, space, 3L);
    line("input", sum(space, n) * 10 + n);
    line("deep", deep(round * 5));
    flush();
  }
  word none[2] = {0, 0};
  sys(174, 2L, none, 0L, 8L); // the pending signal ends the process
  return 1;
}
`;

interface Started {
  readonly guest: Process;
  readonly output: () => string;
  readonly cut: (length: number) => void;
}

function start(path: string, files: FileSystem = filesBelow(folder)): Started {
  const image = readElf(new Uint8Array(readFileSync(path)));
  const arch = archOf(image.header);
  if (arch.emulation.kind === 'none') throw new Error(arch.emulation.reason);
  let output = '';
  const pieces = ['ab', 'cdefg', 'h', 'ijklmn', 'op'];
  const guest = startProcess({
    image,
    abi: arch.abi,
    emulation: arch.emulation,
    files,
    onInput: () => new TextEncoder().encode(pieces.shift() ?? ''),
    onOutput: (_, bytes) => {
      output += Buffer.from(bytes).toString('latin1');
    },
  });
  return {
    guest,
    output: () => output,
    cut: (length) => {
      output = output.slice(0, length);
    },
  };
}

interface Ended {
  readonly stop: StopReason;
  readonly output: string;
  readonly state: Snapshot;
}

function finish({ guest, output }: Started): Ended {
  const stop = guest.run({ budget: 5_000_000 });
  return { stop, output: output(), state: guest.machine.snapshot() };
}

function expectSame(actual: Ended, expected: Ended): void {
  expect(actual.output).toBe(expected.output);
  expect(actual.stop).toEqual(expected.stop);
  expect(compareStates(actual.state, expected.state)).toEqual([]);
}

describeWith([ppcGcc('le'), ppcGcc('be'), ppcGcc('32')], 'process state in snapshots', () => {
  const paths = new Map<PpcKind, string>();
  const program = (kind: PpcKind): string => {
    let path = paths.get(kind);
    if (path === undefined) {
      const file = writeSource('state.c', SOURCE);
      path = buildPpc(kind, '1', [join(PROGRAMS, 'start.S'), file], ['-I', PROGRAMS]);
      paths.set(kind, path);
    }
    return path;
  };

  test.each(repeats(['le', 'be', '32'] as const))(
    '%s: restored at any point, a program does again what it did',
    (kind) => {
      const whole = finish(start(program(kind)));
      expect(whole.stop).toMatchObject({ kind: 'signal', signal: 1 });
      expect(whole.output.split('\n').length).toBeGreaterThan(90);
      const total = whole.state.cpus[0]!.instructions;
      const point = fc.integer({ min: 0, max: total - 1 });
      fc.assert(
        fc.property(point, point, point, (first, second, further) => {
          const started = start(program(kind));
          const { machine } = started.guest;
          const [a, b] = first < second ? [first, second] : [second, first];
          machine.run({ budget: a });
          const early = machine.snapshot();
          const printed = started.output().length;
          machine.run({ budget: b - a });
          const late = machine.snapshot();
          const printedLater = started.output().length;
          machine.run({ budget: further });
          machine.restore(early);
          started.cut(printed);
          expectSame(finish(started), whole);
          // Forward again, from a state that was thrown away in between.
          machine.restore(late);
          started.cut(printed);
          expect(started.output().length).toBeLessThanOrEqual(printedLater);
          const again = finish(started);
          expect(again.stop).toEqual(whole.stop);
          expect(compareStates(again.state, whole.state)).toEqual([]);
          machine.restore(early);
          started.cut(printed);
          expectSame(finish(started), whole);
        }),
        { numRuns: 12, seed: 3 },
      );
    },
  );

  test('the clock of a process is that of all CPUs', () => {
    const source = `
#include "lib.h"
int main(void) {
  word time[2];
  for (int i = 0; i < 2; i++) { sys(246, 1L, time); line("time", time[1]); flush(); }
  return 0;
}
`;
    const file = writeSource('clock.c', source);
    const started = start(buildPpc('le', '1', [join(PROGRAMS, 'start.S'), file], ['-I', PROGRAMS]));
    const { machine } = started.guest;
    while (started.output() === '') machine.run({ budget: 1 });
    machine.load(0x100_0000n, Uint8Array.of(0, 0, 0, 0x48), { permission: 'rx' }); // b .
    machine.addCpu();
    machine.switchTo(1);
    machine.setRegister('pc', 0x100_0000n);
    machine.run({ budget: 100_000 });
    machine.switchTo(0);
    expect(machine.run()).toEqual({ kind: 'exit', code: 0 });
    const [first, second] = [...started.output().matchAll(/time (\w+)/g)].map((match) => parseInt(match[1]!, 16));
    expect(second! - first!).toBeGreaterThan(100_000);
    expect(second!).toBeLessThan(100_000 + machine.instructions);
  });

  test('a sleep lets the time base go on as the clock does, and a snapshot takes it back', () => {
    const source = `
#include "lib.h"
static u64 ticks(void) { u64 t; __asm__ volatile("mftb %0" : "=r"(t)); return t; }
static u64 clock(void) { word t[2]; sys(246, 1L, t); return t[0] * 1000000000ULL + t[1]; }
int main(void) {
  word time[2] = {3, 500};
  u64 c = clock(), t = ticks();
  sys(162, time, 0L);
  line("clock", clock() - c);
  line("ticks", ticks() - t);
  flush();
  return 0;
}
`;
    const file = writeSource('sleep.c', source);
    const started = start(buildPpc('le', '1', [join(PROGRAMS, 'start.S'), file], ['-I', PROGRAMS]));
    const { machine } = started.guest;
    const saved = machine.snapshot();
    for (let round = 0; round < 2; round++) {
      started.cut(0);
      expect(started.guest.run()).toEqual({ kind: 'exit', code: 0 });
      expect(machine.time).toBe(3_000_000_500n + BigInt(machine.totalInstructions));
      const [clock, ticks] = [...started.output().matchAll(/ (\w+)\n/g)].map((match) => parseInt(match[1]!, 16));
      for (const each of [clock!, ticks!]) {
        expect(each).toBeGreaterThan(3_000_000_500);
        expect(each).toBeLessThan(3_000_010_000);
      }
      machine.restore(saved);
      expect(machine.time).toBe(0n);
    }
    expect(() => {
      machine.skipTime(-1n);
    }).toThrow(ElftraceError);
  });

  test('a file that is gone when a snapshot needs it again is said by name', () => {
    const real = filesBelow(folder);
    let gone = false;
    const files: FileSystem = { ...NO_FILES, ...real, open: (path) => (gone ? 'ENOENT' : real.open(path)) };
    const started = start(program('le'), files);
    const { machine } = started.guest;
    while (!started.output().includes('held')) machine.run({ budget: 500 });
    const saved = machine.snapshot();
    finish(started);
    gone = true;
    expect(() => {
      machine.restore(saved);
    }).toThrow(ElftraceError);
    expect(() => {
      machine.restore(saved);
    }).toThrow(/\/dir\/a was open in the snapshot.*ENOENT/);
  });
});

/** Two processes take turns at a lock and count in memory that both have. */
const SHARED = `
#include <pthread.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
struct both { pthread_mutex_t mutex; pthread_cond_t condition; int turn, sum; };
int main(void) {
  struct both *both = mmap(0, sizeof *both, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  pthread_mutexattr_t mutex;
  pthread_condattr_t condition;
  pthread_mutexattr_init(&mutex), pthread_mutexattr_setpshared(&mutex, PTHREAD_PROCESS_SHARED);
  pthread_condattr_init(&condition), pthread_condattr_setpshared(&condition, PTHREAD_PROCESS_SHARED);
  pthread_mutex_init(&both->mutex, &mutex), pthread_cond_init(&both->condition, &condition);
  setvbuf(stdout, 0, _IONBF, 0);
  int child = fork(), mine = child != 0;
  for (int i = 0; i < 20; i++) {
    pthread_mutex_lock(&both->mutex);
    while (both->turn != mine) pthread_cond_wait(&both->condition, &both->mutex);
    printf("%d %d\\n", mine, both->sum += 1 + 100 * mine);
    both->turn = !mine;
    pthread_cond_broadcast(&both->condition);
    pthread_mutex_unlock(&both->mutex);
  }
  if (child) waitpid(child, 0, 0), printf("%d\\n", both->sum);
  return 0;
}
`;
/** What one has stored is on its way to another while a third runs, which has none of it. */
const ON_ITS_WAY = `
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
static int began[2], computed[2], again[2];
static char c;
int main(void) {
  setvbuf(stdout, 0, _IONBF, 0);
  pipe(began), pipe(computed), pipe(again);
  if (!fork()) { read(began[0], &c, 1); for (volatile int i = 0; i < 50000; i++); write(computed[1], "c", 1); _exit(0); }
  volatile int *value = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (!fork()) { *value = 1; write(began[1], "b", 1); read(again[0], &c, 1); *value = 2; _exit(0); }
  read(computed[0], &c, 1);
  printf("%d\\n", *value);
  write(again[1], "a", 1);
  while (wait(0) > 0);
  printf("%d\\n", *value);
  return 0;
}
`;
describeWith(['gcc'], 'processes that share memory', () => {
  test.each([
    ['a lock', SHARED, /^(?:\d+ \d+\n){40}2040\n$/],
    ['a store on its way', ON_ITS_WAY, /^1\n2\n$/],
  ] as const)('restored at any point they do again what they did: %s', (name, source, printed) => {
    const path = join(folder, name.replaceAll(' ', '-'));
    run('gcc', ['-O1', '-w', '-static', '-pthread', '-o', path, writeSource('shared.c', source)]);
    const image = readElf(new Uint8Array(readFileSync(path)));
    const { abi, emulation } = archOf(image.header);
    if (emulation.kind === 'none') throw new Error(emulation.reason);
    let output = '';
    const onOutput = (_: number, bytes: Uint8Array): void => void (output += Buffer.from(bytes).toString('latin1'));
    const start = (): Process => startProcess({ image, abi, emulation, onOutput });
    const whole = start();
    whole.run();
    const [expected, total] = [output, whole.instructions];
    expect(expected).toMatch(printed);
    for (const part of [0.2, 0.5, 0.8, 0.97]) {
      const process = start();
      output = '';
      process.run({ budget: Math.floor(total * part) });
      const before = output;
      const saved = process.machine.snapshot();
      for (let again = 0; again < 2; again++) {
        output = before;
        expect(process.run().kind).toBe('exit');
        expect([output, process.instructions]).toEqual([expected, total]);
        process.machine.restore(saved);
      }
    }
  });
});
