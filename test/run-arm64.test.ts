/**
 * `elftrace run` on arm64: how programs end, functions called, callers, traps and landing pads,
 * system calls.
 */
import { spawnSync } from './support/spawn.js';
import { expect, test } from '@jest/globals';
import { buildProgram, ARM64_TARGETS, runHere, runQemu } from './support/c-programs.js';
import type { PpcTarget } from './support/c-programs.js';
import { writeSource } from './support/emulator.js';
import { run } from './support/run.js';
import { describeWith } from './support/tools.js';

const [target] = ARM64_TARGETS as [PpcTarget];
const ENDS = `
#include "lib.h"
typedef int function(int);
__attribute__((used, noinline, aligned(8))) int plain(int a) { return a + 1; }
__attribute__((used, noinline)) word eight(word a, word b, word c, word d, word e, word f, word g, word h) {
  return a + 2 * b + 3 * c + 4 * d + 5 * e + 6 * f + 7 * g + 8 * h;
}
__attribute__((noinline)) static int inner(char how) {
  static u64 words[4];
  switch (how) {
  case 'e': return 42;
  case 's': *(volatile int *)16 = 1; return 0;
  case 't': __asm__ volatile("brk #1"); return 0;
  case 'i': __asm__ volatile(".inst 0"); return 0;
  case 'h': __asm__ volatile("hvc #0"); return 0;
  case 'a': sys(129, sys(172), 6L); return 0;
  case 'u': __asm__ volatile("ldxr w0, [%0]" ::"r"((char *)words + 1) : "x0"); return 0;
  case 'p': ((function *)((word)plain + 2))(1); return 0;
  case 'b': return ((function *)((word)plain + 4))(1);
  case 'c': return ((function *)plain)(6);
  case 'w': __asm__ volatile(".inst 0x9ac23020"); return 0;
  }
  return 1;
}
__attribute__((noinline)) int outer(char how) { return inner(how) + (how == 0); }
int main(int argc, char **argv) {
  (void)argc;
  return outer(argv[1][0]);
}
`;

describeWith([target.gcc, target.qemu], 'ends on arm64', () => {
  const build = (flags: readonly string[]): string =>
    buildProgram(target, '0', [writeSource('ends.c', ENDS)], ['-fno-optimize-sibling-calls', ...flags]);
  const plain = build([]);
  const guarded = build(['-mbranch-protection=bti', '-DBTI', '-Wl,-z,force-bti', '-march=armv8.5-a']);

  /** Signals of qemu-user end the process by that signal. */
  const there = (path: string, how: string): number => {
    const result = spawnSync(target.qemu, ['-cpu', 'max', path, how], { encoding: 'utf8' });
    const signals: Readonly<Record<string, number>> = {
      SIGILL: 132,
      SIGTRAP: 133,
      SIGABRT: 134,
      SIGBUS: 135,
      SIGSEGV: 139,
    };
    return result.status ?? signals[result.signal ?? ''] ?? -1;
  };

  test.each(['e', 's', 't', 'i', 'h', 'a', 'u', 'p', 'b', 'c'])('%s: the status that qemu ends with', (how) => {
    for (const path of [plain, guarded]) expect([path, run([path, how]).status]).toEqual([path, there(path, how)]);
  });

  test('a call into the middle of a guarded function is refused, and only there', () => {
    const result = run([guarded, 'b']);
    expect(result.stderr).toContain('trap (branch-target)');
    expect([result.status, run([plain, 'b']).status]).toEqual([132, there(plain, 'b')]);
    expect(run([guarded, 'c']).status).toBe(7);
  });

  test('what is not executed yet stops with its name', () => {
    const { status, stderr } = run([plain, 'w']);
    expect([status, stderr.split('\n')[0]]).toEqual([125, expect.stringContaining('instruction pacga at 0x')]);
  });

  test('a fault: instruction, text, callers by name', () => {
    const { stderr, json } = run([plain, 's']);
    const lines = stderr.trimEnd().split('\n');
    expect(lines[0]).toMatch(/: write fault at 0x10, instruction 0x[0-9a-f]+ \(inner\S*\)$/);
    expect(lines[1]).toMatch(/^ {2}0x[0-9a-f]+ \(inner\S*\): ([0-9a-f]{2} ){4} str\s+w\d+, ?\[x\d+\]$/);
    const stop = json['stop'] as { backtrace: { function: string }[] };
    expect(stop.backtrace.slice(0, 2).map((each) => each.function.replace(/\+.*/, ''))).toEqual(['outer', 'main']);
  });

  test('--call', () => {
    expect(run(['--call', 'plain(41)', plain]).json).toMatchObject({ exit: 0, result: { value: '42', hex: '0x2a' } });
    expect(run(['--call', 'eight(1,2,3,4,5,6,7,8)', plain]).json).toMatchObject({ result: { value: '204' } });
    expect(run(['--call', 'plain(1)', guarded]).json).toMatchObject({ result: { value: '2' } });
  });
});

const SYSTEM = `
#include "lib.h"
int main(int argc, char **argv, char **envp) {
  (void)argc;
  char *heap = (char *)sys(214, 0L);
  line("brk", sys(214, heap + 300000) == (long)(heap + 300000));
  heap[299999] = 1;
  u8 *a = (u8 *)sys(222, 0L, 10000L, 3L, 0x22L, -1L, 0L);
  a[9999] = 1;
  line("zero", a[0]);
  line("mprotect", (u64)sys(226, a, 4096L, 1L));
  // PROT_READ | PROT_EXEC | PROT_BTI
  line("bti", (u64)sys(226, a, 4096L, 0x15L));
  line("munmap", (u64)sys(215, a, 10000L));
  line("badfd", (u64)sys(64, 17L, heap, 1L));
  line("badptr", (u64)sys(64, 1L, 16L, 1L));
  line("enosys", (u64)sys(9999));
  line("open", (u64)sys(56, -100L, "/nonexistent/file", 0L));
  line("getcwd", (u64)(sys(17, heap, 1000L) > 0));
  line("ids", (u64)(sys(174) == sys(175)));
  char name[390];
  sys(160, name);
  puts_(name + 4 * 65);
  put('\\n');
  word *aux = (word *)envp;
  while (*aux) aux++;
  for (aux++; *aux; aux += 2) {
    if (aux[0] == 6) line("page", aux[1]);
    if (aux[0] == 4) line("phent", aux[1]);
    if (aux[0] == 17) line("clktck", aux[1]);
    if (aux[0] == 23) line("secure", aux[1]);
  }
  line("aligned", ((word)argv - 8) % 16);
  flush();
  return 3;
}
`;

describeWith([target.gcc, target.qemu], 'system calls of arm64', () => {
  test('numbers, errors, auxiliary vector as under qemu', () => {
    const path = buildProgram(target, 's', [writeSource('system.c', SYSTEM)]);
    const [here, there] = [runHere(target, path), runQemu(target, path)];
    expect(here.output).toBe(there.output);
    expect(here.end).toBe(there.end);
  });

  test('struct stat has the offsets of the kernel headers', () => {
    const fields = 'dev ino mode nlink uid gid rdev size blksize blocks'.split(' ');
    const source = `#include <asm-generic/stat.h>
struct stat s;
int main(void) { ${fields.map((name) => `_Static_assert(__builtin_offsetof(struct stat, st_${name}) == OFFSET_${name}, "${name}");`).join(' ')}
_Static_assert(sizeof s == SIZE, "size"); return 0; }`;
    const { emulation } = target.arch;
    if (emulation.kind === 'none') throw new Error(emulation.reason);
    const { stat } = emulation.process;
    const offsets = Object.entries(stat.plain.fields).map(([name, [offset]]) => `-DOFFSET_${name}=${offset}`);
    const compiled = spawnSync(target.gcc, [
      '-fsyntax-only', '-nostdinc', '-I', '/usr/include', '-I', '/usr/include/x86_64-linux-gnu', `-DSIZE=${stat.plain.sizeBytes}`, ...offsets,
      writeSource('stat.c', source),
    ], { encoding: 'utf8' }); // prettier-ignore
    // Without the headers there is nothing to compare with.
    if (!compiled.stderr.includes('No such file')) expect(compiled.stderr).toBe('');
  });
});
