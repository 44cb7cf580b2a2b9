/**
 * Address space as Linux gives it: one program of odd requests, made natively and in the emulator
 * of every target, with equal answers; more mappings than Linux allows; memory as much as is
 * allowed.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from '@jest/globals';
import { warmElftrace } from './support/cli.js';
import { covering, times } from './support/long.js';
import { isX86Linux } from './support/processor.js';
import { spawnSync } from './support/spawn.js';
import { describeWith, run } from './support/tools.js';

const folder = mkdtempSync(join(tmpdir(), 'elftrace-mappings-'));
afterAll(() => {
  rmSync(folder, { recursive: true, force: true });
});

/** System calls without a C library: what a start-up does would be in the picture. */
const HEAD = `
#include <asm/unistd.h>
typedef unsigned long word;
#if defined __x86_64__
static long call(long n, long a, long b, long c, long d, long e, long f) {
  register long r10 __asm__("r10") = d, r8 __asm__("r8") = e, r9 __asm__("r9") = f; long r;
  __asm__ volatile("syscall" : "=a"(r) : "a"(n), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9) : "rcx", "r11", "memory");
  return r;
}
#elif defined __aarch64__
static long call(long n, long a, long b, long c, long d, long e, long f) {
  register long x8 __asm__("x8") = n, x0 __asm__("x0") = a, x1 __asm__("x1") = b, x2 __asm__("x2") = c,
    x3 __asm__("x3") = d, x4 __asm__("x4") = e, x5 __asm__("x5") = f;
  __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5) : "memory");
  return x0;
}
#elif defined __riscv
static long call(long n, long a, long b, long c, long d, long e, long f) {
  register long a7 __asm__("a7") = n, a0 __asm__("a0") = a, a1 __asm__("a1") = b, a2 __asm__("a2") = c,
    a3 __asm__("a3") = d, a4 __asm__("a4") = e, a5 __asm__("a5") = f;
  __asm__ volatile("ecall" : "+r"(a0) : "r"(a7), "r"(a1), "r"(a2), "r"(a3), "r"(a4), "r"(a5) : "memory");
  return a0;
}
#else
static long call(long n, long a, long b, long c, long d, long e, long f) {
  register long r0 __asm__("r0") = n, r3 __asm__("r3") = a, r4 __asm__("r4") = b, r5 __asm__("r5") = c,
    r6 __asm__("r6") = d, r7 __asm__("r7") = e, r8 __asm__("r8") = f; long failed;
  __asm__ volatile("sc; mfcr %0" : "=r"(failed), "+r"(r0), "+r"(r3), "+r"(r4), "+r"(r5), "+r"(r6), "+r"(r7), "+r"(r8)
    : : "memory", "cc", "ctr", "r9", "r10", "r11", "r12");
  return failed & 0x10000000 ? -r3 : r3;
}
#endif
#ifdef __NR_mmap
#define MAP __NR_mmap
#else
#define MAP __NR_mmap2
#endif
static char text[65536]; static int used;
static void put(const char *s) { while (*s) text[used++] = *s++; }
static void number(long v) {
  char d[24]; int n = 0; if (v < 0) { put("-"); v = -v; }
  do { d[n++] = '0' + (unsigned long)v % 10; v = (unsigned long)v / 10; } while (v); while (n) text[used++] = d[--n];
}
static void flush(void) { call(__NR_write, 1, (long)text, used, 0, 0, 0); used = 0; }
#define MAX ((word)-1)
#define TOP (MAX / 2 + 1)
enum { ANON = 0x22, FIXED = 0x32, NOREPLACE = 0x100022, RW = 3 };
`;

/**
 * Answers are errors or the place relative to the mapping in the middle; what is mapped is read
 * afterwards.
 */
const ODD = `${HEAD}
static word base;
static void say(const char *what, long r) {
  put(what); put(": ");
  if (r < 0 && r > -4096) { put("error "); number(-r); }
  else if ((word)r >= base && (word)r < base + 0x100000) { put("base + "); number(r - base); }
  else put(r ? "somewhere" : "0");
  put("\\n");
}
#define M(a, l, p, f) say("mmap " #a " " #l " " #f, call(MAP, (long)(a), (long)(l), p, f, -1, 0))
#define U(a, l) say("munmap " #a " " #l, call(__NR_munmap, (long)(a), (long)(l), 0, 0, 0, 0))
#define P(a, l, p) say("mprotect " #a " " #l " " #p, call(__NR_mprotect, (long)(a), (long)(l), p, 0, 0, 0))
#define A(a, l) say("madvise " #a " " #l, call(__NR_madvise, (long)(a), (long)(l), 4, 0, 0, 0))
void program(void) {
  base = call(MAP, 0, 0x100000, RW, ANON, -1, 0);
  volatile signed char *bytes = (signed char *)base;
  for (int i = 0; i < 0x100000; i += 4096) bytes[i] = i >> 12;
  M(0, 0, RW, ANON); M(0, MAX, RW, ANON); M(0, MAX - 4094, RW, ANON); M(0, TOP, RW, ANON); M(0, TOP - 1, RW, ANON);
  M(base + 1, 4096, RW, FIXED); M(base, 0, RW, FIXED); M(MAX - 4095, 4096, RW, FIXED); M(TOP, 4096, RW, FIXED);
  M(MAX & -65536, 65536, RW, FIXED); M(base, MAX, RW, FIXED); M(base, TOP, RW, FIXED); M(base, TOP - base, RW, FIXED);
  M(base + 4096, 4096, RW, NOREPLACE); M(base + 8192, MAX, RW, NOREPLACE);
  M(0, 4096, RW, 0x20); M(0, 4096, RW, 0x2f); M(0, 4096, RW, 2);
  M(base + 0x8000, 4096, RW, FIXED);
  U(base + 1, 4096); U(base, 0); U(base, MAX); U(base, TOP); U(base + 4096, MAX - base); U(TOP, 4096); U(MAX - 4095, 4096);
  U(MAX & -4096, MAX); U(0, MAX); U(base + 4096, (word)-4096); U(base + 0x20000, 1);
  P(base + 1, 4096, RW); P(base, 0, RW); P(base, MAX, 1); P(base, TOP, RW); P(base + 0x30000, (word)-4096, 0); P(TOP, 4096, RW);
  P(base + 0x1f000, 0x3000, RW); P(MAX & -4096, 4096, RW); P(base, MAX - base + 1, RW);
  A(base + 1, 4096); A(base, 0); A(base, MAX); A(base + 0x40000, (word)-4096); A(base + 0x1f000, 0x3000); A(MAX & -4096, 4096);
  say("brk MAX", call(__NR_brk, (long)MAX, 0, 0, 0, 0, 0) == call(__NR_brk, 0, 0, 0, 0, 0, 0) ? 0 : -1);
  say("brk TOP", call(__NR_brk, (long)TOP, 0, 0, 0, 0, 0) == call(__NR_brk, 0, 0, 0, 0, 0, 0) ? 0 : -1);
  for (int i = 0; i < 0x100000; i += 4096) {
    long r = call(__NR_write, -1, 0, 0, 0, 0, 0); (void)r;
    if (i == 0x20000) continue;
    number(bytes[i]); put(" ");
  }
  put("\\n"); flush(); call(__NR_exit_group, 0, 0, 0, 0, 0, 0);
}
`;

/** Pages with other rights than their neighbours: Linux joins none of them. */
const MANY = `${HEAD}
void program(void) {
  word low = call(MAP, 0, 200000ul * 4096, 0, ANON, -1, 0);
  long made = 0, r = 0;
  for (; made < 100000; made++) {
    r = call(__NR_mprotect, low + made * 8192, 4096, RW, 0, 0, 0);
    if (r < 0) break;
    *(volatile long *)(low + made * 8192) = made;
  }
  long wrong = 0;
  for (long i = 0; i < made; i++) wrong += *(volatile long *)(low + i * 8192) != i;
  put(made > 32700 && made < 32766 ? "as many as Linux allows" : "not so many: "); if (made <= 32700 || made >= 32766) number(made);
  put(", error "); number(-r); put(", wrong "); number(wrong); put("\\n");
  put("all of it: "); number(call(__NR_munmap, low, 200000ul * 4096, 0, 0, 0, 0)); put("\\n");
  flush(); call(__NR_exit_group, 0, 0, 0, 0, 0, 0);
}
`;

/** Equal neighbours are one area: there is no end but that of memory. */
const NEIGHBOURS = times(100_000, 100_000, 20_000);
const ADJACENT = `${HEAD}
void program(void) {
  long made = 0; word last = 0;
  for (; made < ${NEIGHBOURS}; made++) {
    long r = call(MAP, 0, 4096, RW, ANON, -1, 0);
    if (r < 0 && r > -4096) break;
    if (made % 5000 == 0) *(volatile long *)r = made;
    last = r;
  }
  number(made); put(last ? " made\\n" : " none\\n"); flush(); call(__NR_exit_group, 0, 0, 0, 0, 0, 0);
}
`;

const HOG = `${HEAD}
void program(void) {
  long made = 0;
  for (; made < 100000; made++) {
    long r = call(MAP, 0, 0x100000, RW, ANON, -1, 0);
    if (r < 0 && r > -4096) break;
    *(volatile long *)r = made;
  }
  number(made); put(" MiB\\n"); flush(); call(__NR_exit_group, 0, 0, 0, 0, 0, 0);
}
`;

interface Target {
  readonly name: string;
  readonly gcc: string;
  readonly flags: readonly string[];
  readonly start: string;
}

const x86: Target = { name: 'x86-64', gcc: 'gcc', flags: ['-m64'], start: 'and $-16, %rsp; call program; hlt' };
const others: readonly Target[] = [
  { name: 'arm64', gcc: 'aarch64-linux-gnu-gcc', flags: [], start: 'bl program' },
  {
    name: 'riscv64',
    gcc: 'riscv64-linux-gnu-gcc',
    flags: [],
    start: '.option push; .option norelax; la gp, __global_pointer$; .option pop; call program',
  },
  {
    name: 'ppc64le',
    gcc: 'powerpc64le-linux-gnu-gcc',
    flags: ['-mno-vsx', '-mno-altivec'],
    start: 'lis 2,.TOC.@ha; addi 2,2,.TOC.@l; bl program; nop',
  },
  { name: 'ppc32', gcc: 'powerpc-linux-gnu-gcc', flags: [], start: 'bl program' },
];

function build(target: Target, name: string, source: string): string {
  const file = join(folder, `${name}-${target.name}`);
  const start = `__asm__(".globl _start\\n_start: ${target.start.replaceAll('; ', '\\n')}\\n");\n`;
  writeFileSync(`${file}.c`, `${source}${start}`);
  const flags = ['-O1', '-static', '-nostdlib', '-ffreestanding', '-fno-pie', '-no-pie', '-fno-stack-protector'];
  run(target.gcc, [...flags, ...target.flags, '-o', file, `${file}.c`]);
  return file;
}

const native = (file: string): string => {
  const { status, stdout, stderr } = spawnSync(file, [], { encoding: 'utf8' });
  expect([status, stderr]).toEqual([0, '']);
  return stdout;
};

const emulated = (file: string, ...options: string[]): string => {
  const { status, stdout, stderr } = warmElftrace(['run', ...options, file]);
  expect([status, stderr]).toEqual([0, '']);
  return stdout;
};

describeWith(['gcc'], 'address space of x86-64', () => {
  test('odd requests have the answers of the kernel that runs here, and touch nothing', () => {
    if (!isX86Linux) return;
    const file = build(x86, 'odd', ODD);
    expect(emulated(file)).toBe(native(file));
  });

  test('more mappings than Linux allows end where they end in Linux', () => {
    if (!isX86Linux) return;
    const file = build(x86, 'many', MANY);
    expect(native(file)).toContain('as many as Linux allows, error 12, wrong 0');
    expect(emulated(file)).toBe(native(file));
  });

  test(`${NEIGHBOURS} equal neighbours are one area`, () => {
    if (!isX86Linux) return;
    const file = build(x86, 'adjacent', ADJACENT);
    expect(emulated(file)).toBe(native(file));
  });

  test('--max-memory: the program is told that there is no more, and so is the user', () => {
    const file = build(x86, 'hog', HOG);
    const { status, stdout, stderr } = warmElftrace(['run', '--max-memory', '64M', file]);
    expect(status).toBe(0);
    expect(Number.parseInt(stdout)).toBeGreaterThan(60);
    expect(Number.parseInt(stdout)).toBeLessThan(64);
    expect(stderr).toContain('--max-memory');
    const usual = warmElftrace(['run', file]);
    expect(Number.parseInt(usual.stdout)).toBeGreaterThan(1000);
    expect(Number.parseInt(usual.stdout)).toBeLessThan(1024);
    const compared = warmElftrace(['run', '--max-memory', '64M', '--compare', file, file]);
    expect(compared.status).toBe(125);
  });
});

/** One of each instruction set. */
const taken = covering(others, ({ name }) => name.replace(/-.*/, ''));

describe.each(taken)('address space of $name', (target) => {
  describeWith([target.gcc, 'gcc'], 'its compiler', () => {
    test('odd requests have the answers that x86-64 gives, and touch nothing', () => {
      if (!isX86Linux) return;
      const lines = (text: string): string[] => text.split('\n');
      const { status, stdout, stderr } = warmElftrace(['run', build(target, 'odd', ODD)]);
      expect(status).toBe(0);
      if (target.name !== 'ppc32') expect(stderr).toBe('');
      // Half of 32 bits of address space is no absurd length: it is more memory than there is.
      const told = (text: string): string[] =>
        lines(text).filter((each) => target.name !== 'ppc32' || !each.includes('TOP'));
      const [expected, found] = [told(native(build(x86, 'odd', ODD))), told(stdout)];
      expect(found).toEqual(expected);
    });
  });
});
