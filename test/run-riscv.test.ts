/** `elftrace run` on RISC-V 64: ends, calls, traces, profiles and callers, as users have them. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from '@jest/globals';
import { buildProgram, RISCV_TARGETS } from './support/c-programs.js';
import type { Level, PpcTarget } from './support/c-programs.js';
import { PROGRAMS, writeSource } from './support/emulator.js';
import { builtSamples } from './support/pipeline.js';
import { run } from './support/run.js';
import { describeWith } from './support/tools.js';

const folder = mkdtempSync(join(tmpdir(), 'run-riscv-'));
afterAll(() => {
  rmSync(folder, { recursive: true, force: true });
});
const sample = (name: string): string => join(builtSamples, 'riscv64', name);

/** Numbers of system calls are asm-generic's. */
const ENDS = `
#include "lib.h"
__attribute__((noinline)) static int inner(char how, char **argv) {
  switch (how) {
  case 'e': return 42;
  case 's': *(volatile int *)16 = 1; return 0;
  case 't': __asm__ volatile("ebreak"); return 0;
  case 'i': __asm__ volatile(".2byte 0"); return 0;
  case 'n': __asm__ volatile(".4byte 0xc0001073"); return 0;
  case 'p': __asm__ volatile("csrr a0, sstatus"); return 0;
  case 'm': __asm__ volatile("addi a0, sp, 1\\n lr.d a1, (a0)" ::: "a0", "a1"); return 0;
  case 'u': __asm__ volatile(".4byte 0x02000057"); return 0;
  case 'j': ((void (*)(void))0x10)(); return 0;
  case 'a': sys(129, sys(172), 6L); return 0;
  case 'l': for (;;) __asm__ volatile("");
  case 'r': {
    char text[64];
    long fd = sys(56, -100L, argv[2], 0L);
    if (fd < 0) return (int)-fd;
    sys(64, 1L, text, sys(63, fd, text, 64L));
    return 0;
  }
  }
  return 1;
}
static u8 *volatile keep;
/* A frame that no immediate reaches, one that moves, and a function that is only a call. */
__attribute__((noinline)) int large(char how, char **argv) {
  u8 room[100000];
  keep = room;
  return inner(how, argv) + room[keep - room + 5] * (how == 0);
}
__attribute__((noinline)) int moving(char how, char **argv, int n) {
  u8 room[n];
  keep = room;
  return large(how, argv) + room[0] * (how == 0);
}
__attribute__((noinline)) int outer(char how, char **argv) {
  if (how == 'z') return 3;
  int got = moving(how, argv, 1000);
  if (got == 77) return 5;
  return got + (how == 0);
}
__attribute__((used, noinline)) int add(int a, int b) { return a + b; }
__attribute__((used, noinline)) word eight(word a, word b, word c, word d, word e, word f, word g, word h) {
  return a + 2 * b + 3 * c + 4 * d + 5 * e + 6 * f + 7 * g + 8 * h;
}
static const char *volatile greeting = "hi ";
__attribute__((used, noinline)) int greet(const char *name) {
  int n = 0;
  puts_(greeting);
  puts_(name);
  put('\\n');
  flush();
  while (name[n]) n++;
  return n;
}
__attribute__((used, noinline)) int crash(int *p) { return *p; }
int main(int argc, char **argv, char **envp) {
  (void)argc;
  (void)envp;
  return outer(argv[1][0], argv);
}
`;

const programs = new Map<string, string>();
function ends(target: PpcTarget, level: Level = '2'): string {
  const key = `${target.name} ${level}`;
  let path = programs.get(key);
  if (path === undefined) {
    path = buildProgram(
      target,
      level,
      [writeSource('ends-riscv.c', ENDS)],
      ['-I', PROGRAMS, '-fno-optimize-sibling-calls'],
    );
    programs.set(key, path);
  }
  return path;
}

const [GC, G] = [RISCV_TARGETS[0]!, RISCV_TARGETS[1]!];

describeWith([GC.gcc], 'ends', () => {
  test.each([
    ['e', 42, undefined, 'exit'],
    ['s', 139, 11, 'fault'],
    ['t', 133, 5, 'trap'],
    ['i', 132, 4, 'illegal-instruction'],
    ['n', 132, 4, 'trap'],
    ['p', 132, 4, 'trap'],
    ['m', 135, 7, 'trap'],
    ['j', 139, 11, 'fault'],
    ['a', 134, 6, 'signal'],
    ['u', 125, undefined, 'unknown-instruction'],
  ])('%s: exit %i', (how, status, signal, reason) => {
    const result = run([ends(GC), how]);
    const stop = result.json['stop'] as { reason: string };
    expect([result.status, result.json['signal'], stop.reason]).toEqual([status, signal, reason]);
    expect(result.stdout).toBe('');
    if (how === 'u') expect(result.stderr).toContain('57 00 00 02');
  });

  test('--max-instructions', () => {
    const limited = run(['--max-instructions', '12345', ends(GC), 'l']);
    expect([limited.status, limited.json['instructions']]).toEqual([125, 12345]);
  });

  test.each([GC, G].flatMap((target) => (['0', '2', 's'] as const).map((level) => [target.name, level] as const)))(
    'a fault on %s at -O%s: instruction, bytes, text, callers by name',
    (name, level) => {
      const target = RISCV_TARGETS.find((each) => each.name === name)!;
      const { stderr, json } = run([ends(target, level), 's']);
      const lines = stderr.trimEnd().split('\n');
      expect(lines[0]).toMatch(/: write fault at 0x10, instruction 0x[0-9a-f]+ \(inner\S*\)$/);
      expect(lines[1]).toMatch(/^ {2}0x[0-9a-f]+ \(inner\S*\): ([0-9a-f]{2} ){2,4} (c\.)?sw /);
      const callers = lines.slice(2).map((each) => /called from 0x[0-9a-f]+ \((\w+)/.exec(each)?.[1]);
      expect(callers).toEqual(['large', 'moving', 'outer', 'main', '_start']);
      const stop = json['stop'] as { backtrace: { function: string }[] };
      expect(stop.backtrace.map((each) => each.function.replace(/\+.*/, ''))).toEqual(callers);
    },
  );

  test('a jump into nowhere names who jumped', () => {
    const { stderr } = run([ends(GC, '0'), 'j']);
    expect(stderr).toMatch(/called from 0x[0-9a-f]+ \(inner\+/);
  });

  test('a leaf function in a frame of its own', () => {
    const result = run(['--call', 'crash(16)', ends(GC)]);
    expect(result.stderr).toMatch(/read fault at 0x10, instruction 0x[0-9a-f]+ \(crash/);
    expect(result.stderr).not.toContain('called from');
  });

  test('--call', () => {
    for (const target of [GC, G]) {
      const call = (expression: string): [number | null, string] => {
        const { status, stdout } = run(['--call', expression, ends(target)]);
        return [status, stdout];
      };
      expect(call('add(20, 22)')).toEqual([0, 'add(20, 22) = 42 (0x2a)\n']);
      expect(call('eight(1,2,3,4,5,6,7,8)')).toEqual([0, 'eight(1,2,3,4,5,6,7,8) = 204 (0xcc)\n']);
      expect(call('greet("you")')).toEqual([0, 'hi you\ngreet("you") = 3 (0x3)\n']);
    }
  });
});

describe('samples', () => {
  test('--compare of a patched program with its original', () => {
    const result = run(['--compare', sample('program-patchable-8'), sample('program-patchable-8')]);
    expect(result.status).toBe(0);
  });
});
