/**
 * C programs of our own, built for each PowerPC target at three levels, run here and under
 * qemu-user.
 */
import { join } from 'node:path';
import { describe, expect, test } from '@jest/globals';
import { ElftraceError } from '../src/errors.js';
import { startProcess } from '../src/guest/index.js';
import { buildPpc, ppcEmulation, ppcGcc, ppcQemu, PROGRAMS, qemu, startPpc, writeSource } from './support/emulator.js';
import type { ProcessImage } from '../src/guest/index.js';
import { isWhole } from './support/long.js';
import { describeWith } from './support/tools.js';

const NAMES = ['sort', 'hash', 'bignum', 'recursion', 'varargs', 'switches', 'bits', 'strings'];
/** Each level on one kind, where not all run. */
const LEVELS = isWhole
  ? ({ le: ['0', '2', 's'], be: ['0', '2'], 32: ['2', 's'] } as const)
  : ({ le: ['2'], be: ['0'], 32: ['s'] } as const);

for (const kind of ['le', 'be', '32'] as const) {
  describeWith([ppcGcc(kind), ppcQemu(kind)], `programs on ${kind}`, () => {
    for (const name of NAMES) {
      test.each(LEVELS[kind])(`${name} -O%s`, (level) => {
        const path = buildPpc(kind, level, [join(PROGRAMS, 'start.S'), join(PROGRAMS, `${name}.c`)]);
        const args = ['one', 'two words', ''];
        const expected = qemu(kind, path, args);
        const here = startPpc(kind, path, args);
        expect(here.process.run()).toEqual({ kind: 'exit', code: expected.code });
        expect(here.output()).toBe(expected.output);
        expect(here.output().length).toBeGreaterThan(10);
        // Cut into slices of an odd size: the same output after the same number of instructions.
        const sliced = startPpc(kind, path, args);
        while (sliced.process.run({ budget: 9973 }).kind === 'step-limit');
        expect(sliced.output()).toBe(expected.output);
        expect(sliced.process.machine.instructions).toBe(here.process.machine.instructions);
      });
    }
  });
}

const SYSTEM = `
#include "lib.h"
int main(int argc, char **argv, char **envp) {
  char *heap = (char *)sys(45, 0L);
  char *end = (char *)sys(45, heap + 300000);
  line("brk", end == heap + 300000);
  for (int i = 0; i < 300000; i += 1000) heap[i] = (char)i;
  line("grown", sys(45, heap + 900000) == (long)(heap + 900000));
  u32 sum = 0;
  for (int i = 0; i < 300000; i += 1000) sum += (u8)heap[i];
  line("kept", sum);
  line("zero", heap[899999]);
  u8 *a = (u8 *)sys(MMAP, 0L, 10000L, 3L, 0x22L, -1L, 0L);
  u8 *b = (u8 *)sys(MMAP, 0L, 10000L, 3L, 0x22L, -1L, 0L);
  a[9999] = 1;
  b[0] = 2;
  line("apart", a != b && a[9999] == 1 && b[0] == 2 && a[0] == 0);
  line("munmap", (u64)sys(91, a, 10000L));
  line("again", (u64)sys(125, b, 4096L, 1L));
  line("badfd", (u64)sys(4, 17L, b, 1L));
  line("badptr", (u64)sys(4, 1L, 16L, 1L));
  line("enosys", (u64)sys(9999));
  struct { const void *p; word n; } v[2] = {{"write", 5}, {"v\\n", 2}};
  flush();
  line("writev", (u64)sys(146, 1L, v, 2L));
  word *aux = (word *)envp;
  while (*aux) aux++;
  int page = 0, entry = 0;
  for (aux++; *aux; aux += 2) {
    if (aux[0] == 6) page = (int)aux[1];
    if (aux[0] == 9) entry = aux[1] != 0;
  }
  line("page", (u64)page);
  line("entry", (u64)entry);
  line("aligned", ((word)argv - sizeof(word)) % 16);
  flush();
  return argc;
}
`;

for (const kind of ['le', 'be', '32'] as const) {
  describeWith([ppcGcc(kind), ppcQemu(kind)], `system calls on ${kind}`, () => {
    test('brk, mmap, munmap, mprotect, writev, errors, auxiliary vector', () => {
      const source = writeSource('system.c', SYSTEM);
      const flags = ['-I', PROGRAMS, kind === '32' ? '-DMMAP=192' : '-DMMAP=90'];
      const path = buildPpc(kind, '2', [join(PROGRAMS, 'start.S'), source], flags);
      const expected = qemu(kind, path);
      const here = startPpc(kind, path);
      expect(here.process.run()).toEqual({ kind: 'exit', code: expected.code });
      expect(here.output()).toBe(expected.output);
    });
  });
}

const DEEP = `
#include "lib.h"
static __attribute__((noinline)) u32 deep(u32 n, volatile u8 *above) {
  volatile u8 frame[5000];
  for (int i = 0; i < 5000; i += 999) frame[i] = (u8)(n + i + above[0]);
  return n == 0 ? frame[999] : deep(n - 1, frame) + frame[0];
}
static u8 *volatile keep;
int main(int argc, char **argv) {
  (void)argv;
  volatile u8 first = 1;
  line("deep", deep(1200, &first));
  u8 big[2000000];
  keep = big;
  line("getrandom", (u64)sys(359, big, 16L, 0L));
  flush();
  if (argc > 1) return (int)deep(100000, &first);
  return 0;
}
`;

describeWith([ppcGcc('le'), ppcQemu('le')], 'the stack', () => {
  test('grows to 8 MiB and no further', () => {
    const source = writeSource('deep.c', DEEP);
    const path = buildPpc('le', '1', [join(PROGRAMS, 'start.S'), source], ['-I', PROGRAMS]);
    const expected = qemu('le', path);
    const here = startPpc('le', path);
    expect(here.process.run()).toEqual({ kind: 'exit', code: expected.code });
    expect(here.output()).toBe(expected.output);
    const over = startPpc('le', path, ['more']);
    expect(over.process.run()).toMatchObject({ kind: 'fault', access: 'write' });
    const stack = over.process.machine.memory.windows.filter((each) => each.name === 'stack');
    expect(stack.reduce((sum, each) => sum + each.size, 0)).toBe(0x80_0000);
    // Stepped, the growth is not an instruction.
    const stepped = startPpc('le', path);
    while (stepped.process.run({ budget: 101 }).kind === 'step-limit');
    expect(stepped.process.machine.instructions).toBe(here.process.machine.instructions);
  });
});

describeWith([ppcGcc('le')], 'arguments', () => {
  test('more than the first piece of the stack holds, and more than the whole', () => {
    const path = buildPpc('le', '1', [join(PROGRAMS, 'start.S'), join(PROGRAMS, 'varargs.c')]);
    const here = startPpc('le', path, ['x'.repeat(700_000)]);
    expect(here.process.run()).toEqual({ kind: 'exit', code: 2 });
    expect(here.output()).toContain(`[${'x'.repeat(700_000)}]`);
    expect(() => startPpc('le', path, ['x'.repeat(9_000_000)])).toThrow(ElftraceError);
  });
});

describe('programs that are not started', () => {
  const image = (type: number, segments: ProcessImage['segments']): ProcessImage => ({
    bytes: new Uint8Array(64),
    header: { is64: true, endian: 'little', type, entry: 0n, phoff: 0, phentsize: 56, phnum: 1 },
    segments,
  });
  const start = (wanted: ProcessImage): void => {
    startProcess({
      image: wanted,
      emulation: ppcEmulation('le'),
      abi: { stackPointer: 'r1', syscall: { number: 'r0', arguments: [], result: 'r3', failure: 'cr0-so' } },
    });
  };
  const load = { type: 1, flags: 5, offset: 0, address: 0x1000n, fileSize: 64, memorySize: 64n };
  test.each([
    ['shared object', image(3, [load])],
    ['no segment', image(2, [])],
    ['dynamic', image(2, [load, { ...load, type: 3 }])],
    [
      'two segments at one place and beyond the address space',
      image(2, [{ ...load, address: 0xffff_ffff_ffff_f000n, memorySize: 0x5000n }]),
    ],
  ])('%s', (_name, wanted) => {
    expect(() => {
      start(wanted);
    }).toThrow(ElftraceError);
  });
});
