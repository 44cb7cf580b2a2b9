/**
 * Programs that execute forms of AVX with special, hard and random operands and print a digest for
 * each: of all vector registers, general registers, flags, MXCSR and memory. With the name of a
 * form as argument a program prints what that one does, too.
 */
import { C_RANDOM } from './c-random.js';
import { x86_64 } from '../../src/arch-x86/index.js';
import { decodeInto, X86Instruction } from '../../src/arch-x86/isa.js';
import type { PpcTarget } from './c-programs.js';
import { HARD_C } from './hard-floats.js';
import { vexBytes } from './x86-forms.js';
import type { VexForm } from './x86-forms.js';

const { emulation } = x86_64;
if (emulation.kind !== 'ir') throw new Error('x86-64 is executed');
const level3 = emulation.cpus!.find(({ name }) => name === 'x86-64-v3')!.emulation();

/** x86-64 with what `run --cpu x86-64-v3` has. Programs are compiled without vectors. */
export const AVX_TARGET: PpcTarget = {
  name: 'x86-64-v3',
  arch: { ...x86_64, emulation: level3 },
  gcc: 'gcc',
  qemu: 'qemu-x86_64',
  flags: ['-mgeneral-regs-only', '-mno-red-zone', '-fcf-protection=none', '-fno-pie', '-no-pie'],
  libraries: ['-lgcc'],
};

/** What x86-64-v3 has beyond the base, by the names of /proc/cpuinfo. */
export const V3 = 'cx16 lahf_lm popcnt pni ssse3 sse4_1 sse4_2 avx avx2 bmi1 bmi2 f16c fma abm movbe xsave'.split(' ');

/** A form to execute. */
export interface AvxCase {
  readonly name: string;
  readonly bytes: Uint8Array;
}

/** Results that processors round differently, or what is not the same in every run. */
const NOT_COMPARED = /^v(rcp|rsqrt)[ps]s|^vldmxcsr/;

/** The bytes of an instruction; not all have the immediate. */
const bytesOf = (form: VexForm): Uint8Array => {
  const bytes = vexBytes(form);
  return bytes.subarray(0, decodeInto(new X86Instruction(), bytes, 0));
};

/** Control bytes to try: all comparisons and roundings, of others some. */
function controlsOf({ map, opcode }: VexForm): readonly number[] {
  if (map === 1 && opcode === 0xc2) return Array.from({ length: 32 }, (_, i) => i).concat(0xe3);
  if (map === 3 && opcode >= 8 && opcode <= 11) return Array.from({ length: 16 }, (_, i) => i);
  return [0, 2, 7, 8, 15, 16, 20, 31, 32, 0x1b, 0x4e, 0x93, 0xb1, 0xe4, 0xff];
}

/**
 * The forms with other registers: target and operands the same in all ways, and those that need
 * another prefix. Gathers have three registers that must differ.
 */
export function avxCases(forms: ReadonlyMap<string, VexForm>): AvxCase[] {
  const out: AvxCase[] = [];
  for (const [text, form] of forms) {
    if (!text.startsWith('v') || NOT_COMPARED.test(text) || (form.sib !== undefined && form.vvvv === 0)) continue;
    out.push({ name: text, bytes: bytesOf(form) });
    if (form.sib !== undefined) continue;
    const isRegister = form.modRm >= 0xc0;
    const hasControl = bytesOf(form).at(-1) !== bytesOf({ ...form, immediate: form.immediate ^ 0xff }).at(-1);
    // The other register of a blend is in the control byte.
    const isBlend = form.map === 3 && form.opcode >= 0x4a && form.opcode <= 0x4c;
    if (hasControl && !isBlend && isRegister)
      for (const immediate of controlsOf(form))
        out.push({ name: `${text} [control ${immediate}]`, bytes: bytesOf({ ...form, immediate }) });
    const add = (what: string, change: Partial<VexForm>): void => {
      out.push({ name: `${text} [${what}]`, bytes: bytesOf({ ...form, ...change }) });
    };
    if (form.vvvv === 0) {
      if (isRegister && form.modRm === 0xc1) add('same', { modRm: 0xc0 });
      continue;
    }
    add('target first', { vvvv: (form.modRm >> 3) & 7 || 8 });
    if (!isRegister) continue;
    add('target second', { modRm: form.modRm & 0xf8 });
    add('operands the same', { vvvv: 1 });
  }
  return out;
}

/** VEX of three bytes with registers 8 to 15 in all places. */
export function extended({ name, bytes }: AvxCase): AvxCase | null {
  if ((bytes[4] ?? 0) < 0xc0 || /%[er]?[a-d]x\b|%e?[sd]i\b/.test(name)) return null;
  const out = Uint8Array.from(bytes);
  // R and B are inverted, and so is the highest bit of vvvv where it names a register.
  out[1]! &= 0x5f;
  if (((~out[2]! >> 3) & 15) !== 0) out[2]! &= ~0x40;
  return { name: `${name} [8 to 15]`, bytes: out };
}

const COMMON = `#include "lib.h"
static u64 x[64] __attribute__((aligned(64)));
static u64 memory[64] __attribute__((aligned(64)));
static u64 general[4];
static u32 mxcsr;
static u64 flags, sum;
/* Sets of operands. */
static struct set { u64 x[64], memory[64], general[4], flags, indices[2][4]; u32 mxcsr; } sets[COUNT];
${C_RANDOM}
static inline void add(u64 value) { sum = (sum ^ value) * 1099511628211ULL; sum ^= sum >> 29; }
static const u64 special[] = {
  0, 0x8000000000000000, 0x3ff0000000000000, 0xbff0000000000000, 0x7ff0000000000000, 0xfff0000000000000, 0x7ff8000000000011, 0xfff8000000000022,
  0x7ff0000020000033, 0xfff4000000000044, 1, 0x800fffffffffffff, 0x0010000000000000, 0x7fefffffffffffff, 0x3ff8000000000000, 0xc008000000000000,
  0x47efffffe0000000, 0x47effffff0000000, 0x3810000000000000, 0x36a0000000000000, 0x380fffffc0000000, 0x380ffffff8000000, 0x41dfffffffc00000, 0xc1e0000000000000,
  0xc1e0000000200000, 0x41dfffffffe00000, 0x3fdfffffffffffff, 0x3fe0000000000000, 0x7f8000017f800001, 0x3f80000000000001, 0xff800000ffc00000, 0x7fc000117f7fffff,
  0x4f0000004effffff, 0xcf000000cf000001, 0x3f0000003f000001, 0x0080000000800001, 0x007fffff80000001, 0x4080000033800000, 0x7fffffff80000000, 0x8000000000000001,
  0x7c00fc007e00fe01, 0x0001800103ff83ff, 0x04007bff7c01fd23, 0x477ff000477fefff, 0x3380000033000000, 0x3300000138800000, 0x387fc000387fe000, 0x33c0000033bfffff,
};
${HARD_C}
static u64 operand(int kind) {
  u64 bits = next64();
  switch (kind) {
  case 0: return special[bits % (sizeof special / sizeof *special)];
  case 1: return (bits & 0x800fffffffffffff) | (1010 + ((bits >> 52) & 31)) << 52;
  case 2: return (bits & 0x807fffff807fffff) | (115 + ((bits >> 23) & 31)) << 23 | (115 + ((bits >> 55) & 31)) << 55;
  case 3: return bits & 0x3f0000003f;
  case 4: return bits & next64() & next64() & 0xff00ff0080ff80ff;
  default: return bits;
  }
}
/* Hard triples for registers 0, 1 and 2, in any order, and for memory instead of the second. */
static void triples(int i) {
  int turn = next64() % 3, isDouble = i & 1;
  for (int j = 0; j < 4; j++) {
    u64 three[3], more[3];
    if (isDouble) hard(11, 52, three);
    else {
      hard(8, 23, three);
      hard(8, 23, more);
      for (int k = 0; k < 3; k++) three[k] |= more[k] << 32;
    }
    for (int k = 0; k < 3; k++) x[(k + turn) % 3 * 4 + j] = three[k];
    memory[j] = x[4 + j];
  }
}
static __attribute__((noinline)) void prepare(int i) {
  for (int j = 0; j < 64; j++) x[j] = operand(i % 8 < 6 ? i % 8 : (j + i) % 6);
  for (int j = 0; j < 64; j++) memory[j] = operand(i % 8 < 6 ? i % 8 : (j + i) % 6);
  if (i % 4 == 1) triples(i / 4);
  /* Counts, and texts that are the same in places. */
  if (i % 8 == 3) for (int j = 0; j < 16; j += 4) x[j] &= 0x7f, x[j + 1] &= 0x3f0000003f;
  if (i % 8 == 5) for (int j = 0; j < 4; j++) x[4 + j] = x[8 + j] ^ (next64() & next64() & next64() & next64()), memory[j] = x[4 + j];
  if (i % 16 == 7) for (int j = 0; j < 12; j++) x[j] = i & 16 ? 0 : ~0ull;
  for (int j = 0; j < 4; j++) x[32 + j] = x[j], x[36 + j] = x[4 + j], x[40 + j] = x[8 + j];
  struct set *to = &sets[i];
  for (int j = 0; j < 4; j++) to->indices[0][j] = next64() & 0x7f0000007f, to->indices[1][j] = next64() % 200;
  for (int j = 0; j < 4; j++) general[j] = i & 1 ? next64() & 15 : next64();
  flags = 2 | (next64() & 0x8d5);
  mxcsr = 0x1f80 | (i & 3) << 13 | (i & 4) << 13 | (i & 8) << 3 | (i & 16 ? next64() & 63 : 0);
  if (i % 3 == 0) mxcsr = 0x1f80 | (i & 8 ? 0x20 : i & 16 ? next64() & 63 : 0);
  for (int j = 0; j < 64; j++) to->x[j] = x[j], to->memory[j] = memory[j];
  for (int j = 0; j < 4; j++) to->general[j] = general[j];
  to->flags = flags;
  to->mxcsr = mxcsr;
}
static void again(const struct set *from, int gathers) {
  for (int j = 0; j < 64; j++) x[j] = from->x[j];
  for (int j = 0; j < 64; j++) memory[j] = from->memory[j];
  for (int j = 0; j < 4; j++) general[j] = from->general[j];
  if (gathers) for (int j = 0; j < 4; j++) x[12 + j] = from->indices[gathers - 1][j];
  flags = from->flags;
  mxcsr = from->mxcsr;
}
#define EACH(m) m(0) m(1) m(2) m(3) m(4) m(5) m(6) m(7) m(8) m(9) m(10) m(11) m(12) m(13) m(14) m(15)
#define LOAD(n) "vmovdqu 32*" #n "(%%rsi),%%ymm" #n "\\n"
#define STORE(n) "vmovdqu %%ymm" #n ",32*" #n "(%%rsi)\\n"
extern const unsigned char code[];
static __attribute__((noinline)) void execute(const unsigned char *at) {
  __asm__ volatile(
    "ldmxcsr %[mxcsr]\\n" EACH(LOAD) "mov %[at],%%r8\\n push %[flags]\\n popfq\\n"
    "mov (%%r9),%%rax\\n mov 8(%%r9),%%rcx\\n mov 16(%%r9),%%rdx\\n call *%%r8\\n"
    "pushfq\\n pop %[flags]\\n mov %%rax,(%%r9)\\n mov %%rcx,8(%%r9)\\n mov %%rdx,16(%%r9)\\n stmxcsr %[mxcsr]\\n" EACH(STORE) "vzeroupper\\n"
    : [mxcsr] "+m"(mxcsr), [flags] "+r"(flags) : [at] "r"(at), "D"(memory), "S"(x) : "rax", "rcx", "rdx", "r8", "r9", "memory", "cc");
}
static int same(const char *a, const char *b) {
  while (*a && *a == *b) a++, b++;
  return *a == *b;
}
`;

const FLAGS = 0x8d5;

/**
 * Source of the program.
 * @param count  sets of operands for each case
 */
export function avxProgram(cases: readonly AvxCase[], count: number): string {
  const gathers = (name: string): number => (/^vp?gather/.test(name) ? (/^vp?gatherq/.test(name) ? 2 : 1) : 0);
  const routines = cases.map(({ bytes }, i) => `r${i}: .byte ${[...bytes, 0xc3].join(',')}\\n`).join('"\n  "');
  return `#define COUNT ${count}
${COMMON.replace('[at] "r"(at)', '[at] "r"(at), [general] "r"(general)').replace('"mov (%%r9)', '"mov %[general],%%r9\\n mov (%%r9)')}
__asm__(".pushsection .text\\n  ${routines} .popsection\\n");
${cases.map((_, i) => `extern const unsigned char r${i}[];`).join(' ')}
static const unsigned char *const routines[] = {${cases.map((_, i) => `r${i}`).join(', ')}};
static const char *const names[] = {${cases.map(({ name }) => `"${name}"`).join(', ')}};
static const unsigned char gathers[] = {${cases.map(({ name }) => gathers(name)).join(', ')}};
int main(int argc, char **argv) {
  for (int i = 0; i < COUNT; i++) prepare(i);
  for (int f = 0; f < ${cases.length}; f++) {
    int verbose = argc > 1 && same(argv[1], names[f]);
    sum = 14695981039346656037ULL;
    for (int i = 0; i < COUNT; i++) {
      again(&sets[i], gathers[f]);
      if (verbose) {
        line("case", i);
        line(" mxcsr", mxcsr);
        for (int j = 0; j < 16; j++) line("  register", x[j]);
        for (int j = 0; j < 4; j++) line("  memory", memory[j]);
      }
      execute(routines[f]);
      for (int j = 0; j < 64; j++) add(x[j]);
      for (int j = 0; j < 8; j++) add(memory[j]);
      for (int j = 0; j < 3; j++) add(general[j]);
      add(flags & ${FLAGS});
      add(mxcsr);
      if (!verbose) continue;
      line(" = mxcsr", mxcsr);
      line(" = flags", flags & ${FLAGS});
      for (int j = 0; j < 3; j++) line("  = general", general[j]);
      for (int j = 0; j < 64; j++) line("  = register", x[j]);
      for (int j = 0; j < 8; j++) line("  = memory", memory[j]);
    }
    line(names[f], sum);
  }
  flush();
  return 0;
}
`;
}

const FAULTS = `
#define _GNU_SOURCE
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
typedef unsigned long u64;
static sigjmp_buf back;
static u64 sum, x[16] __attribute__((aligned(32)));
static unsigned char *page;
static volatile int faults;
static void add(u64 value) { sum = (sum ^ value) * 1099511628211ULL; sum ^= sum >> 29; }
static void all(const void *from, int bytes) { u64 word; for (int i = 0; i < bytes; i += 8) memcpy(&word, (const char *)from + i, 8), add(word); }
/* Where it was, and the registers as they are then. */
static void handler(int number, siginfo_t *info, void *context) {
  ucontext_t *c = context;
  const char *state = (const char *)c->uc_mcontext.fpregs;
  static const char zeros[64];
  u64 components;
  faults++;
  add(number);
  add(info->si_code);
  add(info->si_addr ? (unsigned char *)info->si_addr - page : -1);
  add(c->uc_mcontext.gregs[REG_RAX]);
  add(c->uc_mcontext.gregs[REG_RCX]);
  all(state + 160, 64);
  memcpy(&components, state + 512, 8);
  all(components & 4 ? state + 576 : zeros, 64);
  siglongjmp(back, 1);
}
static __attribute__((noinline)) void execute(const unsigned char *code, void *at) {
  __asm__ volatile(
    "vmovdqu (%1),%%ymm0\\n vmovdqu 32(%1),%%ymm1\\n vmovdqu 64(%1),%%ymm2\\n vmovdqu 96(%1),%%ymm3\\n"
    "mov $5,%%eax\\n mov $6,%%ecx\\n mov $7,%%edx\\n call *%0\\n vmovdqu %%ymm0,(%1)\\n vmovdqu %%ymm1,32(%1)\\n vmovdqu %%ymm2,64(%1)\\n vzeroupper"
    : : "r"(code), "S"(x), "D"(at) : "rax", "rcx", "rdx", "memory", "cc");
}
`;

/**
 * Source of a program whose operands lie at the end of the last page that there is: what is done,
 * or how it faults, by how many bytes there are.
 */
export function avxFaultProgram(cases: readonly AvxCase[]): string {
  const routines = cases.map(({ bytes }, i) => `r${i}: .byte ${[...bytes, 0xc3].join(',')}\\n`).join('"\n  "');
  return `${FAULTS}
__asm__(".pushsection .text\\n  ${routines} .popsection\\n");
${cases.map((_, i) => `extern const unsigned char r${i}[];`).join(' ')}
static const unsigned char *const routines[] = {${cases.map((_, i) => `r${i}`).join(', ')}};
static const char *const names[] = {${cases.map(({ name }) => `"${name}"`).join(', ')}};
int main(void) {
  static const int there[] = {1, 2, 3, 4, 7, 8, 12, 15, 16, 17, 24, 31, 32, 40, 48};
  struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
  page = mmap(0, 0x3000, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  mprotect(page + 0x1000, 0x1000, PROT_NONE);
  sigaction(SIGSEGV, &action, 0);
  for (int f = 0; f < ${cases.length}; f++) {
    sum = 14695981039346656037ULL;
    faults = 0;
    for (int k = 0; k < 2 * (int)(sizeof there / sizeof *there); k++) {
      for (int j = 0; j < 64; j++) page[0xfc0 + j] = 7 * j + k;
      for (int j = 0; j < 12; j++) x[j] = (j * 0x9e3779b97f4a7c15 + k * 0xc2b2ae3d27d4eb4f) ^ (j * 0x123456789abcdef << (k & 15));
      /* Indices of gathers. */
      for (int j = 12; j < 16; j++) x[j] = names[f][1] == 'p' && names[f][8] == 'q' || names[f][1] == 'g' && names[f][7] == 'q' ? 4 * (j - 12) - 6 : 4 * (j - 12) - 6 & 0xffffffff | 8ul << 32;
      if (!sigsetjmp(back, 1)) execute(routines[f], page + 0x1000 - there[k / 2]);
      all(x, 96);
      all(page + 0xfc0, 64);
    }
    printf("%s %d %lx\\n", names[f], faults, sum);
  }
  return 0;
}
`;
}
