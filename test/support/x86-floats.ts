/**
 * Instructions of x87 as tests execute them: texts of an assembler with the operand in memory at
 * rdi. A row that is executed and in none of them fails `lift-x86-floats.test.ts`.
 */

import { C_RANDOM } from './c-random.js';
import { HARD_C } from './hard-floats.js';

const between = (names: string, operands: readonly string[]): string[] =>
  names.split(' ').flatMap((name) => operands.map((operand) => `${name} ${operand}`.trim()));

const ARITHMETIC = 'fadd fmul fsub fsubr fdiv fdivr';
const MEMORY = '(%rdi)';

export const X87_CASES: readonly string[] = [
  ...between(ARITHMETIC, ['%st(1),%st', '%st,%st(3)', '%st,%st']),
  ...between('faddp fmulp fsubp fsubrp fdivp fdivrp', ['%st,%st(1)', '%st,%st(5)']),
  ...between(
    ARITHMETIC.split(' ')
      .flatMap((name) => [`${name}s`, `${name}l`, `${name.replace('f', 'fi')}s`, `${name.replace('f', 'fi')}l`])
      .join(' '),
    [MEMORY],
  ),
  ...between('flds fldl fldt filds fildl fildll fbld', [MEMORY]),
  ...between('fsts fstl fstps fstpl fstpt fists fistl fistps fistpl fistpll fisttps fisttpl fisttpll fbstp', [MEMORY]),
  ...between('fld fst fstp fxch ffree ffreep', ['%st(0)', '%st(2)']),
  ...between('fld1 fldl2t fldl2e fldpi fldlg2 fldln2 fldz', ['']),
  ...between('fsqrt fabs fchs frndint fscale fprem fprem1 fxtract fincstp fdecstp fnop ftst fxam', ['']),
  ...between('fcom fcomp fucom fucomp', ['%st(1)', '%st(4)']),
  ...between('fcompp fucompp', ['']),
  ...between('fcoms fcoml fcomps fcompl ficoms ficoml ficomps ficompl', [MEMORY]),
  ...between('fcomi fcomip fucomi fucomip', ['%st(1),%st', '%st(6),%st']),
  ...between('fcmovb fcmove fcmovbe fcmovu fcmovnb fcmovne fcmovnbe fcmovnu', ['%st(1),%st']),
  ...between(
    'fnstenv fldenv fnsave frstor fnstcw fldcw fnstsw data16/fnstenv data16/fldenv data16/fnsave data16/frstor',
    [MEMORY],
  ),
  ...between('fnclex fninit fwait', ['']),
  // fneni, fndisi, fnsetpm.
  ...between('.byte', ['0xdb,0xe0', '0xdb,0xe1', '0xdb,0xe4']),
  'fnstsw %ax; mov %ax,(%rdi)',
  // A pending exception is raised by what waits for it, not by what does not.
  'fdivrp; fnstenv (%rdi)',
].map((each) => each.replace('/', ' '));

const ON_MMX = `
  paddb paddw paddd paddq psubb psubw psubd psubq paddsb paddsw paddusb paddusw psubsb psubsw psubusb psubusw
  pminub pmaxub pminsw pmaxsw pavgb pavgw pcmpeqb pcmpeqw pcmpeqd pcmpgtb pcmpgtw pcmpgtd pand pandn por pxor
  pmullw pmulhw pmulhuw pmulhrsw pmuludq pmaddwd pmaddubsw psadbw packsswb packuswb packssdw
  punpcklbw punpcklwd punpckldq punpckhbw punpckhwd punpckhdq psllw pslld psllq psrlw psrld psrlq psraw psrad
  pshufb phaddw phaddd phaddsw phsubw phsubd phsubsw psignb psignw psignd pabsb pabsw pabsd movq
`
  .trim()
  .split(/\s+/);
const SHIFTS = ON_MMX.filter((name) => /^ps[lr][la]/.test(name));
/** Registers of MMX are those of x87. */
export const MMX_CASES: readonly string[] = [
  ...ON_MMX.flatMap((name) => [`${name} %mm1,%mm0`, `${name} %mm5,%mm5`, `${name} ${MEMORY},%mm3`]),
  ...SHIFTS.flatMap((name) => [0, 1, 15, 16, 31, 63, 64, 200].map((count) => `${name} $${count},%mm2`)),
  // A small count.
  ...SHIFTS.map((name) => `movd (%rdi),%mm4; psrld $27,%mm4; ${name} %mm4,%mm1`),
  ...['$0x1b,%mm1,%mm0', '$0xe4,%mm2,%mm2', '$0x93,(%rdi),%mm7'].map((each) => `pshufw ${each}`),
  ...[0, 1, 4, 7, 8, 9, 15, 16, 40].flatMap((by) => [`palignr $${by},%mm1,%mm0`, `palignr $${by},(%rdi),%mm0`]),
  ...[0, 1, 2, 3, 7].flatMap((at) => [
    `mov (%rdi),%eax; pinsrw $${at},%eax,%mm0`,
    `pinsrw $${at},(%rdi),%mm6`,
    `pextrw $${at},%mm3,%eax; mov %rax,(%rdi)`,
  ]),
  'movd (%rdi),%mm0', 'movd %mm1,(%rdi)', 'movq %mm1,(%rdi)', 'movntq %mm4,(%rdi)', 'movq %mm2,%mm6', 'mov (%rdi),%rax; movd %eax,%mm3',
  'mov (%rdi),%rax; movq %rax,%mm3', 'movd %mm2,%eax; mov %rax,(%rdi)', 'movq %mm2,%rax; mov %rax,(%rdi)', 'pmovmskb %mm1,%eax; mov %rax,(%rdi)',
  'movq2dq %mm1,%xmm0; movups %xmm0,(%rdi)', 'movups (%rdi),%xmm1; movdq2q %xmm1,%mm2', 'maskmovq %mm1,%mm2', 'emms', 'paddb %mm0,%mm1; emms',
  ...['ps', 'pd'].flatMap((from) => ['cvt', 'cvtt'].flatMap((stem) => [
    `${stem}${from}2pi (%rdi),%mm2`, `movups 16(%rdi),%xmm1; ${stem}${from}2pi %xmm1,%mm2`,
  ])),
  'cvtpi2ps %mm1,%xmm0; movq %xmm0,(%rdi)', 'cvtpi2pd %mm1,%xmm0; movups %xmm0,(%rdi)',
  // Of memory the first makes registers those of MMX by the manual; not so processors of AMD.
  'cvtpi2ps (%rdi),%xmm0; movq %xmm0,(%rdi); emms', 'cvtpi2pd (%rdi),%xmm0; movups %xmm0,(%rdi)',
]; // prettier-ignore
export const MMX_ROWS: ReadonlySet<string> = new Set(
  MMX_CASES.flatMap((text) => text.split(';')).map((text) => text.trim().split(' ')[0]!),
);

export const TRANSCENDENTAL_CASES: readonly string[] = 'f2xm1 fyl2x fptan fpatan fyl2xp1 fsincos fsin fcos'.split(' ');

/** Names of the rows of the opcode map that they are, as far as they are not these names. */
const ROW_NAMES: Readonly<Record<string, string>> = { '.byte': 'fneni fndisi fnsetpm' };
export const X87_FLOAT_ROWS: ReadonlySet<string> = new Set(
  [...X87_CASES, ...TRANSCENDENTAL_CASES]
    .flatMap((text) => text.split(';'))
    .flatMap((text) => {
      const words = text
        .trim()
        .split(' ')
        .filter((word) => word !== 'data16');
      const name = words[0]!;
      // With an operand in memory a letter of the assembler may follow, for its size.
      const isMemory = words[1]?.startsWith('(') === true;
      const stem = isMemory && !/^f(n\w+|ld(cw|env)|rstor|bld)$/.test(name) ? name.replace(/(ll|[slt])$/, '') : name;
      return ROW_NAMES[stem]?.split(' ') ?? [stem];
    }),
);

const escaped = (text: string): string => text.replaceAll(';', '\\n').replaceAll('%', '%%');

/** Two images of `fnsave`, before and behind; pointers to instructions are not compared. */
const COMMON = `
#include "lib.h"
struct image { u32 words[7]; u8 registers[80]; } __attribute__((packed));
static u64 sum;
static struct image before, after;
static u8 memory[128] __attribute__((aligned(16)));
static u64 flags;
${C_RANDOM}
static __attribute__((noinline)) void add(u64 value) { sum = (sum ^ value) * 1099511628211ULL; sum ^= sum >> 29; }
struct extended { u16 high; u64 low; };
static const struct extended special[] = {
  {0, 0}, {0x8000, 0}, {0x3fff, 1ull << 63}, {0xbfff, 1ull << 63}, {0x7fff, 1ull << 63}, {0xffff, 1ull << 63},
  {0x7fff, 0xc000000000000011}, {0xffff, 0xc000000000000011}, {0x7fff, 0x8000000000000022}, {0xffff, 0xa000000000000000},
  {0, 1}, {0x8000, 0x7fffffffffffffff}, {0, 0x8000000000000001}, {1, 1ull << 63}, {0x7ffe, ~0ull}, {0xfffe, ~0ull},
  {0x3ffe, 1ull << 63}, {0x3fff, 0xc000000000000000}, {0xc000, 0xa000000000000000}, {0x3ffe, ~0ull}, {0x3fff, 0x8000000000000001},
  {0x403e, 1ull << 63}, {0xc03e, 1ull << 63}, {0x403d, ~0ull}, {0x401d, 0xfffffffe00000000}, {0x401d, 0xffffffff00000000}, {0xc01e, 0x8000000080000000},
  {0x400d, 0xfffeffffffffffff}, {0xc00e, 0x8000800000000000}, {0x403a, 0xde0b6b3a763fffc0}, {0x403a, 0xde0b6b3a763ffff0}, {0xc03a, 0xde0b6b3a76400000},
  {0x407e, 0xffffff0000000000}, {0x407e, 0xffffff7fffffffff}, {0x407e, 0xffffff8000000000}, {0x3f81, 1ull << 63}, {0x3f80, 0xffffff0000000000}, {0x3f80, 0xffffff8000000000}, {0x3f69, 1ull << 63},
  {0x3f6a, 1ull << 63}, {0x43fe, 0xfffffffffffff800}, {0x43fe, 0xfffffffffffffc00}, {0x3c01, 1ull << 63}, {0x3c00, 0xfffffffffffff800}, {0x3c00, 0xfffffffffffffc00}, {0x3bcc, 1ull << 63},
  {0x3bcd, 1ull << 63}, {0x4000, 0xc90fdaa22168c235}, {0x400e, 0x8000000000000000}, {0xc00d, 0xfffc000000000000}, {0x4010, 0x8000000000000000},
  /* No processor makes these: an unnormal number, an infinity and NaNs without their integer bit. */
  {0x3fff, 0x4000000000000000}, {0x7fff, 0}, {0xffff, 0x4000000000000001}, {1, 0}, {0x8001, 3},
};
#define SPECIAL ((int)(sizeof special / sizeof *special))
static const u64 doubles[] = {
  0, 0x8000000000000000, 0x3ff0000000000000, 0xbff0000000000000, 0x7ff0000000000000, 0xfff0000000000000, 0x7ff8000000000011, 0xfff8000000000022,
  0x7ff0000020000033, 0xfff4000000000044, 1, 0x800fffffffffffff, 0x0010000000000000, 0x7fefffffffffffff, 0x3ff8000000000000, 0xc008000000000000,
  0x7f80000100000001, 0x3f800000bf800000, 0xff8000007fc00011, 0x00000001ffa00000, 0x7fffffff80000000, 0x8000000000007fff, 0x80000000ffff8000, 0x4049000000000002,
};
#define DOUBLES ((int)(sizeof doubles / sizeof *doubles))
static void copy(void *to, const void *from, int bytes) {
  for (int i = 0; i < bytes; i++) ((volatile u8 *)to)[i] = ((const u8 *)from)[i];
}
/* Specials, numbers near each other, with few bits, at the ends, any bits. */
static struct extended operand(void) {
  u64 bits = next64();
  struct extended out = {(u16)next64(), bits | 1ull << 63};
  u16 sign = out.high & 0x8000;
  switch (next64() >> 40 & 15) {
  case 0: case 1: case 2: case 3: case 4: return special[bits % SPECIAL];
  case 5: case 6: out.high = sign | (0x3ff0 + (out.high & 31)); break;
  case 7: out.high = sign | (0x3ffe + (out.high & 3)); out.low &= 0xff00000000000000; break;
  case 8: out.high = sign | (0x3fe0 + (out.high & 127)); break;
  case 9: out.high = sign | (out.high & 63); if (out.high & 1) out.low >>= out.low & 63; break;
  case 10: out.high = sign | (0x7ffe - (out.high & 63)); break;
  case 11: out.high = sign | (0x3fff - 17 + (out.high & 3)); out.low &= ~0xffffffffull << (bits & 31); break;
  case 12: out.high = sign | (0x3fff + (out.high & 15)); out.low &= ~0ull << 50; break;
  case 13: out.high = sign | (0x3b00 + (out.high & 0x7ff)); break;
  case 14: out.high = sign | (0x7fff - (out.high & 1)); break;
  default: break;
  }
  if ((out.high & 0x7fff) == 0) out.low &= ~(1ull << 63);
  return out;
}
/* Numbers as programs have them, and such that lie half way between two when they are added. */
static struct extended plain(void) {
  static const u8 distances[] = {0, 0, 1, 2, 3, 11, 31, 52, 62, 63, 64, 65, 66, 127, 128, 129};
  u64 bits = next64();
  struct extended out = {(u16)(0x3fff + distances[bits & 15]), next64() | 1ull << 63};
  switch (bits >> 8 & 7) {
  case 0: out.low &= 0xff00000000000000; break;
  case 1: out.low = 1ull << 63 | (bits >> 16 & 3); break;
  case 2: out.low = ~0ull << (bits >> 16 & 3); break;
  case 3: out.low &= ~0ull << (bits >> 16 & 63); out.low |= 1ull << 63; break;
  case 4: out.high = 0x3ff0 + (bits >> 16 & 127); break;
  case 5: if (bits >> 16 & 1) out.high = out.low = 0; break;
  case 6: return operand();
  default: break;
  }
  out.high |= bits >> 32 & 0x8000;
  return out;
}
/* Two such whose sum, product or quotient is at an end, or just beside half way. */
static void pair(int i, struct extended *a, struct extended *b) {
  u64 bits = next64();
  u16 exponent = 0x3000 + (bits & 0xfff);
  switch (i) {
  case 0:
    *a = (struct extended){exponent + 65, 1ull << 63};
    *b = (struct extended){0x8000 | exponent, 1ull << 63 | (bits >> 16 & 1)};
    break;
  case 1:
    *a = (struct extended){1 + (bits & 1), 3ull << 62 | bits >> 32};
    *b = (struct extended){0x8001 + (bits >> 1 & 1), 5ull << 61};
    break;
  case 2:
    *a = (struct extended){0x7ffe, ~(bits & 1)};
    *b = (struct extended){0x7ffe - (bits >> 1 & 1) * 64, ~(bits >> 2 & 1)};
    break;
  default:
    *a = (struct extended){0x2000, ~0ull << (bits & 63)};
    *b = (struct extended){(i == 3 ? 0x1ffe : 0x5ffe) + (bits >> 6 & 3), ~0ull << (bits >> 8 & 63)};
  }
}
static __attribute__((noinline)) void prepare(int i) {
  u16 control = 0x40 | (i & 3) << 10 | (i >> 2 & 3) << 8 | 0x3f;
  if (i % 5 == 4) control ^= next64() & 0x3f;
  if (PLAIN) control = 0x37f | (i % 8 == 7 ? next64() & 0xc00 : 0);
  if (PLAIN && i % 8 == 3) control ^= 1 << next64() % 6;
  u16 status = next64() & 0x7f00;
  if ((i & 3) == 0 && !PLAIN) status |= next64() & 0x7f;
  else status &= ~0x3800;
  status &= ~0x3f | control;
  if (PLAIN) status = next64() & 0x7f3f & (~0x3f | control);
  u16 tags = 0;
  if (i % 7 == 6) for (int j = 0; j < 8; j++) if ((next64() & 3) == 0) tags |= 3 << 2 * j;
  if (i % 3 == 2) tags |= 3 << 2 * ((status >> 11) - 1 & 7);
  before.words[0] = control | 0xffff0000;
  before.words[1] = status | 0xffff0000;
  before.words[2] = tags | 0xffff0000;
  before.words[3] = before.words[4] = before.words[5] = before.words[6] = 0;
  for (int j = 0; j < 8; j++) {
    struct extended value = PLAIN ? plain() : operand();
    copy(before.registers + 10 * j, &value.low, 8);
    copy(before.registers + 10 * j + 8, &value.high, 2);
  }
  if (i % 9 == 5) copy(before.registers + 10, before.registers, 10);
  if (PLAIN && i % 11 < 5) {
    struct extended two[2];
    pair(i % 11, &two[0], &two[1]);
    if (next64() & 1 << 20) two[0].high ^= 0x8000, two[1].high ^= 0x8000;
    for (int j = 0; j < 8; j++) {
      copy(before.registers + 10 * j, &two[j > 0].low, 8);
      copy(before.registers + 10 * j + 8, &two[j > 0].high, 2);
    }
  }
  for (int j = 0; j < 128; j += 8) {
    u64 bits = next64();
    if (j == 0) {
      if ((i & 3) == 0) bits = doubles[bits % DOUBLES];
      if ((i & 3) == 1) bits = (bits & 0x800fffffffffffff) | (1010 + ((bits >> 52) & 31)) << 52;
      if ((i & 7) == 2) bits = (bits & 0x00000000807fffff) | (120 + ((bits >> 24) & 15)) << 23;
      if ((i & 7) == 3) for (int k = 0; k < 64; k += 4) bits = (bits & ~(15ull << k)) | (bits >> k & 15) % 10 << k;
      if ((i & 7) == 7) bits &= next64() & next64() & next64();
    }
    copy(memory + j, &bits, 8);
  }
  memory[9] &= 0x80;
  if (memory[8] % 16 > 9) memory[8] &= 0xf0;
  if (memory[8] > 0x99) memory[8] &= 0x1f;
  flags = 2 | (next64() & 0x8d5);
}
#define CASE(text) \\
  __asm__ volatile("fninit\\n frstor %2\\n push %1\\n popfq\\n" text "\\n pushfq\\n pop %1\\n fnsave %0\\n fninit" : "=m"(after), "+r"(flags), "+m"(before) : "D"(memory) : "rax", "memory", "cc")
static __attribute__((noinline)) void run(void (*execute)(void), const char *text, int verbose, u32 mask, int environment) {
  sum = 14695981039346656037ULL;
  for (int i = 0; i < COUNT; i++) {
    prepare(i);
    if (environment && environment < 7) {
      /* Reserved bits; addresses of the instruction. A control word with what was noted masked. */
      u16 control = next64() | 0x40, status = next64() & ~0x80bf;
      copy(memory, &control, 2);
      if (environment > 2) copy(memory + (environment & 1 ? 2 : 4), &status, 2);
    }
    if (verbose) {
      line("case", i);
      line(" control", before.words[0] & 0xffff);
      line(" status", before.words[1] & 0xffff);
      line(" tags", before.words[2] & 0xffff);
      line(" flags", flags);
      for (int j = 0; j < 8; j++) { u64 low; u16 high; copy(&low, before.registers + 10 * j, 8); copy(&high, before.registers + 10 * j + 8, 2); line("  high", high); line("   low", low); }
      line("  operand", *(u64 *)memory);
      line("  operand", *(u64 *)(memory + 8));
    }
    execute();
    if (environment == 5) for (int j = 6; j < 14; j++) memory[j] = 0;
    if (environment == 6) for (int j = 12; j < 28; j++) memory[j] = 0;
    if (environment == 7) {
      /* Where the last bit of a result may be another one, so may C1. */
      for (int j = 0; j < 2; j++) { u64 low; u16 high; copy(&low, after.registers + 10 * j, 8); copy(&high, after.registers + 10 * j + 8, 2); line("high", high); line("low", low); }
      for (int j = 0; j < 20; j++) after.registers[j] = 0;
      after.words[1] &= ~0x200;
      line("status", after.words[1]);
      line("control", before.words[0]);
    }
    after.words[1] &= mask;
    for (int j = 0; j < 3; j++) add(after.words[j]);
    add(flags);
    for (int j = 0; j < 80; j++) add(after.registers[j]);
    for (int j = 0; j < 128; j++) add(memory[j]);
    if (!verbose) continue;
    line(" = control", after.words[0]);
    line(" = status", after.words[1]);
    line(" = tags", after.words[2]);
    line(" = flags", flags);
    for (int j = 0; j < 8; j++) { u64 low; u16 high; copy(&low, after.registers + 10 * j, 8); copy(&high, after.registers + 10 * j + 8, 2); line("  = high", high); line("   = low", low); }
    for (int j = 0; j < 128; j += 8) line("  = memory", *(u64 *)(memory + j));
  }
  line(text, sum);
}
static int same(const char *a, const char *b) {
  while (*a && *a == *b) a++, b++;
  return *a == *b;
}
`;

/**
 * Bits of the status word that are compared. Comparisons into flags clear C1 by Intel's manual;
 * processors of AMD keep it.
 */
const statusMask = (text: string): string => (/^fu?comip? /.test(text) ? '~0x200' : '~0');

/**
 * 1: `fldcw`; 3, 4 with an environment that is loaded, 5, 6 that is stored, of 14 bytes if odd; 7:
 * the two registers at the top are printed each time.
 */
function environmentOf(text: string): number {
  const small = text.includes('data16');
  if (TRANSCENDENTAL_CASES.includes(text)) return 7;
  if (text.startsWith('fldcw')) return 1;
  if (/fldenv|frstor/.test(text)) return small ? 3 : 4;
  return /fnstenv|fnsave/.test(text) ? (small ? 5 : 6) : 0;
}

/**
 * Source of a program that prints a digest for each case; with the text of a case as argument, its
 * operands and results too.
 * @param count  sets of operands for each
 * @param plain  of numbers and a control word as most programs have them
 */
export function x87Program(cases: readonly string[], count: number, plain = false): string {
  const functions = cases.map((text, i) => `static void f${i}(void) { CASE("${escaped(text)}"); }\n`);
  const calls = cases.map((text, i) => {
    const name = `"${text.replaceAll(';', '\\n')}"`;
    return `  run(f${i}, ${name}, argc > 1 && same(argv[1], ${name}), ${statusMask(text)}, ${environmentOf(text)});`;
  });
  return `#define COUNT ${count}
#define PLAIN ${plain ? 1 : 0}
${COMMON}${functions.join('')}
int main(int argc, char **argv) {
${calls.join('\n')}
  flush();
  return 0;
}
`;
}

/** Conversions and estimates of SSE with the source in xmm1, the result in xmm0. */
export const SSE_CASES: readonly string[] = [
  ...['ps2pd', 'pd2ps', 'dq2ps', 'dq2pd', 'ps2dq', 'pd2dq'].flatMap((kind) => [`cvt${kind} %xmm1,%xmm0`]),
  ...['ps2dq', 'pd2dq'].map((kind) => `cvtt${kind} %xmm1,%xmm0`),
  ...['ss', 'sd'].flatMap((kind) => ['cvt', 'cvtt'].map((stem) => `${stem}${kind}2si %xmm1,%rax; movq %rax,%xmm0`)),
  ...['ss', 'sd', 'ps', 'pd'].flatMap((kind) => [
    ...['add', 'sub', 'mul', 'div', 'min', 'max', 'sqrt'].flatMap((name) => [
      `${name}${kind} %xmm1,%xmm0`,
      `${name}${kind} 16(%rdi),%xmm0`,
    ]),
    ...['eq', 'lt', 'le', 'unord', 'neq', 'nlt', 'nle', 'ord'].map((name) => `cmp${name}${kind} %xmm1,%xmm0`),
  ]),
  'addpd %xmm0,%xmm0', 'mulps %xmm1,%xmm1; movaps %xmm1,%xmm0',
  ...['cvtss2sd', 'cvtsd2ss'].flatMap((name) => [`${name} %xmm1,%xmm0`, `${name} 16(%rdi),%xmm0`]),
  ...['ss', 'sd'].flatMap((kind) => [
    `mov (%rdi),%rax; cvtsi2${kind} %rax,%xmm0`, `mov (%rdi),%rax; cvtsi2${kind} %eax,%xmm0`, `cvtsi2${kind}q (%rdi),%xmm0`,
    ...['cvt', 'cvtt'].map((stem) => `${stem}${kind}2si %xmm1,%eax; movq %rax,%xmm0`),
    ...['ucomi', 'comi'].flatMap((name) => ['%xmm1', '16(%rdi)'].map(
      (source) => `${name}${kind} ${source},%xmm0; seto %al; lahf; movzwl %ax,%eax; movq %rax,%xmm0`,
    )),
  ]),
]; // prettier-ignore
export const ESTIMATE_CASES: readonly string[] = ['rcpps', 'rsqrtps', 'rcpss', 'rsqrtss'].map(
  (name) => `${name} %xmm1,%xmm0`,
);

const SSE_COMMON = `
#include "lib.h"
static u64 x[4] __attribute__((aligned(16)));
static u32 mxcsr;
static u64 sum;
${C_RANDOM}
static __attribute__((noinline)) void add(u64 value) { sum = (sum ^ value) * 1099511628211ULL; sum ^= sum >> 29; }
static const u64 special[] = {
  0, 0x8000000000000000, 0x3ff0000000000000, 0xbff0000000000000, 0x7ff0000000000000, 0xfff0000000000000, 0x7ff8000000000011, 0xfff8000000000022,
  0x7ff0000020000033, 0xfff4000000000044, 1, 0x800fffffffffffff, 0x0010000000000000, 0x7fefffffffffffff, 0x3ff8000000000000, 0xc008000000000000,
  0x47efffffe0000000, 0x47effffff0000000, 0x3810000000000000, 0x36a0000000000000, 0x380fffffc0000000, 0x380ffffff8000000, 0x41dfffffffc00000, 0xc1e0000000000000,
  0xc1e0000000200000, 0x41dfffffffe00000, 0x3fdfffffffffffff, 0x3fe0000000000000, 0x7f8000017f800001, 0x3f80000000000001, 0xff800000ffc00000, 0x7fc000117f7fffff,
  0x4f0000004effffff, 0xcf000000cf000001, 0x3f0000003f000001, 0x0080000000800001, 0x007fffff80000001, 0x4080000033800000, 0x7fffffff80000000, 0x8000000000000001,
};
${HARD_C}static u64 operand(int i) {
  u64 bits = next64();
  switch (i % 5) {
  case 0: case 1: return special[bits % (sizeof special / sizeof *special)];
  case 2: return (bits & 0x800fffffffffffff) | (1010 + ((bits >> 52) & 31)) << 52;
  case 3: return (bits & 0x807fffff807fffff) | (115 + ((bits >> 23) & 31)) << 23 | (115 + ((bits >> 55) & 31)) << 55;
  default: return bits;
  }
}
/* Masked exceptions; every rounding mode, denormals as zeros, flushed results. */
static void prepare(int i) {
  for (int j = 0; j < 4; j++) x[j] = operand(i + j * (i / 7));
  /* x[0] with x[2], x[1] with x[3]. */
  if (i % 5 < 2) for (int j = 0; j < 2; j++) {
    u64 three[3], singles[3];
    if (i % 5 == 0) {
      hard(11, 52, three);
    } else {
      hard(8, 23, three);
      hard(8, 23, singles);
      for (int k = 0; k < 3; k++) three[k] |= singles[k] << 32;
    }
    x[j] = three[0];
    x[j + 2] = three[1];
  }
  mxcsr = 0x1f80 | (i & 3) << 13 | (i & 4) << 13 | (i & 8) << 3 | (i & 16 ? next64() & 63 : 0);
  // To nearest, before inexact was raised and behind it.
  if (i % 3 == 0) mxcsr = 0x1f80 | (i & 8 ? 0x20 : i & 16 ? next64() & 63 : 0);
}
#define CASE(text) \\
  __asm__ volatile("ldmxcsr %0\\n movups (%1),%%xmm0\\n movups 16(%1),%%xmm1\\n" text "\\n stmxcsr %0\\n movups %%xmm0,(%1)" : "+m"(mxcsr) : "D"(x) : "rax", "memory", "cc")
`;

/** As `x87Program`. Of estimates numbers are compared by their first bits, rounded. */
export function sseProgram(cases: readonly string[], count: number, isEstimate = false): string {
  const functions = cases.map((text, i) => `static void f${i}(void) { CASE("${escaped(text)}"); }\n`);
  return `${SSE_COMMON}${functions.join('')}
static void (*const functions[])(void) = {${cases.map((_, i) => `f${i}`).join(', ')}};
static const char *const names[] = {${cases.map((text) => `"${text.replaceAll(';', '')}"`).join(', ')}};
int main(int argc, char **argv) {
  for (int f = 0; f < ${cases.length}; f++) {
    sum = 14695981039346656037ULL;
    for (int i = 0; i < ${count}; i++) {
      prepare(i);
      functions[f]();
      if (${isEstimate ? 1 : 0}) {
        u32 *words = (u32 *)x;
        for (int j = 0; j < 4; j++) line(names[f], words[j]);
        line("mxcsr", mxcsr);
        continue;
      }
      add(x[0]);
      add(x[1]);
      add(mxcsr);
    }
    line(names[f], sum);
  }
  flush();
  return 0;
}
`;
}
