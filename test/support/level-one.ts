/**
 * Floating point in the manner of level 1 of Berkeley TestFloat: operands of every class (zeros,
 * ends of subnormal and of normal numbers, halves of units in the last place, borders of integers,
 * infinities, quiet and signalling NaNs, each with both signs) crossed with each other, for each
 * operation, in each rounding mode: results and flags. Programs print a digest for each operation
 * and mode; with the number of both as arguments, operands and results.
 */
import { ARM64_TARGETS, type PpcTarget, RISCV_TARGETS, TARGETS } from './c-programs.js';
import { FUSED_C, STATUS_BITS, statusMask } from './ppc-floats.js';
import { AVX_TARGET } from './x86-avx.js';

type Bits = 32 | 64;

/** An operation on doubles, or on singles, of one to three operands. */
interface Operation {
  readonly text: string;
  readonly bits: Bits;
  readonly operands: 1 | 2 | 3;
  /** What it converts is an integer. */
  readonly isInteger?: boolean;
  /** How many of the machine's modes there are for it; all. */
  readonly modes?: number;
  /** It negates operands or the result of another one. */
  readonly isNegating?: boolean;
}

/** A machine on which they are executed. */
export interface LevelMachine {
  readonly target: PpcTarget;
  /** Executed by the processor of the tests: qemu is wrong about two NaNs, and subnormal ones. */
  readonly isNative?: boolean;
  readonly qemuFlags?: readonly string[];
  /** Values of the control register: to nearest, the same with inexact raised before, others. */
  readonly modes: readonly number[];
  /**
   * One execution: %0 leads to three doublewords of operands, of which the first becomes the
   * result, %1 to the control register, which becomes the status.
   */
  readonly assembly: (text: string, bits: Bits) => string;
  readonly clobbers: string;
  readonly operations: readonly Operation[];
}

const FORMATS: readonly Bits[] = [64, 32];
const make =
  (bits: Bits, operands: 1 | 2 | 3, more: Partial<Operation> = {}) =>
  (text: string): Operation => ({ text, bits, operands, ...more });
const words = (text: string): readonly string[] => text.split(' ');

// ------------------------------------------------------------------------------------------ x86-64

const FLAGS_OF_X86 = 'seto %%al; lahf; movzwl %%ax,%%eax; movq %%rax,%%xmm0';

function x86Operations(bits: Bits, hasFma: boolean): Operation[] {
  const s = bits === 64 ? 'sd' : 'ss';
  const [one, two] = [make(bits, 1), make(bits, 2)];
  const fused = (i: number): ReturnType<typeof make> => make(bits, 3, { isNegating: i > 0 });
  return [
    ...words('add sub mul div').map((name) => two(`${name}${s} %%xmm1,%%xmm0`)),
    ...words('min max').map((name) => make(bits, 2, { modes: 1 })(`${name}${s} %%xmm1,%%xmm0`)),
    ...[0, 1, 2, 3].map((each) => make(bits, 2, { modes: 1 })(`cmp${s} $${each},%%xmm1,%%xmm0`)),
    ...words('ucomi comi').map((name) => make(bits, 2, { modes: 1 })(`${name}${s} %%xmm1,%%xmm0; ${FLAGS_OF_X86}`)),
    one(`sqrt${s} %%xmm0,%%xmm0`),
    one(bits === 64 ? 'cvtsd2ss %%xmm0,%%xmm0' : 'cvtss2sd %%xmm0,%%xmm0'),
    ...words('cvt cvtt').flatMap((stem) =>
      words('eax rax').map((to) => one(`${stem}${s}2si %%xmm0,%%${to}; movq %%rax,%%xmm0`)),
    ),
    ...words('eax rax').map((from) =>
      make(bits, 1, { isInteger: true })(`movq (%0),%%rax; xorps %%xmm0,%%xmm0; cvtsi2${s} %%${from},%%xmm0`),
    ),
    ...(hasFma ? words('vfmadd213 vfmsub213 vfnmadd213 vfnmsub213') : []).map((name, i) =>
      fused(i)(`${name}${s} %%xmm2,%%xmm1,%%xmm0`),
    ),
  ];
}

export const x86Level = (hasFma: boolean): LevelMachine => ({
  target: AVX_TARGET,
  isNative: true,
  modes: [0x1f80, 0x1fa0, 0x3f80, 0x5f80, 0x7f80],
  assembly: (text, bits) => {
    const load = bits === 64 ? 'movsd' : 'movss';
    return `ldmxcsr (%1); ${load} (%0),%%xmm0; ${load} 8(%0),%%xmm1; ${load} 16(%0),%%xmm2; ${text}; stmxcsr (%1); movq %%xmm0,(%0)`;
  },
  clobbers: '"rax", "cc"',
  operations: FORMATS.flatMap((bits) => x86Operations(bits, hasFma)),
});

// ------------------------------------------------------------------------------------------- arm64

function armOperations(bits: Bits): Operation[] {
  const r = bits === 64 ? 'd' : 's';
  const [one, two] = [make(bits, 1), make(bits, 2)];
  const fused = (i: number): ReturnType<typeof make> => make(bits, 3, { isNegating: i > 0 });
  return [
    ...words('fadd fsub fmul fdiv fnmul').map((name) => two(`${name} ${r}0,${r}0,${r}1`)),
    ...words('fmin fmax fminnm fmaxnm fmulx frecps frsqrts fabd facge facgt fcmeq fcmge fcmgt').map((name) =>
      make(bits, 2, { modes: 1 })(`${name} ${r}0,${r}0,${r}1`),
    ),
    ...words('fcmp fcmpe').map((name) => make(bits, 2, { modes: 1 })(`${name} ${r}0,${r}1; mrs x10,nzcv; fmov d0,x10`)),
    ...words('fmadd fmsub fnmadd fnmsub').map((name, i) => fused(i)(`${name} ${r}0,${r}0,${r}1,${r}2`)),
    ...words('fsqrt frinta frinti frintm frintn frintp frintx frintz').map((name) => one(`${name} ${r}0,${r}0`)),
    one(bits === 64 ? 'fcvt s0,d0' : 'fcvt d0,s0'),
    one(`fcvt h0,${r}0`),
    ...words('fcvtas fcvtau fcvtms fcvtmu fcvtns fcvtnu fcvtps fcvtpu fcvtzs fcvtzu').flatMap((name) =>
      words('w10 x10').map((to) => make(bits, 1, { modes: 1 })(`${name} ${to},${r}0; fmov d0,x10`)),
    ),
    ...words('scvtf ucvtf').flatMap((name) =>
      words('w10 x10').map((from) => make(bits, 1, { isInteger: true })(`ldr x10,[%0]; ${name} ${r}0,${from}`)),
    ),
  ];
}

const arm64Level: LevelMachine = {
  target: ARM64_TARGETS[0]!,
  // The flags of FPSR stand 32 bits above FPCR.
  modes: [0, 2 ** 36, 1 << 22, 2 << 22, 3 << 22],
  assembly: (text, bits) => {
    const r = bits === 64 ? 'd' : 's';
    return `ldr x9,[%1]; mov w10,w9; msr fpcr,x10; lsr x9,x9,32; msr fpsr,x9; ldr ${r}0,[%0]; ldr ${r}1,[%0,8]; ldr ${r}2,[%0,16]; ${text}; mrs x9,fpsr; str x9,[%1]; msr fpcr,xzr; str d0,[%0]`;
  },
  clobbers: '"x9", "x10", "cc"',
  operations: FORMATS.flatMap(armOperations),
};

// ------------------------------------------------------------------------------------------ RISC-V

function riscvOperations(bits: Bits): Operation[] {
  const [s, other] = bits === 64 ? ['d', 's'] : ['s', 'd'];
  const [one, two] = [make(bits, 1), make(bits, 2)];
  const fused = (i: number): ReturnType<typeof make> => make(bits, 3, { isNegating: i > 0 });
  return [
    ...words('fadd fsub fmul fdiv').map((name) => two(`${name}.${s} ft0,ft0,ft1`)),
    ...words('fmin fmax').map((name) => make(bits, 2, { modes: 1 })(`${name}.${s} ft0,ft0,ft1`)),
    ...words('feq flt fle').map((name) => make(bits, 2, { modes: 1 })(`${name}.${s} t1,ft0,ft1; fmv.d.x ft0,t1`)),
    ...words('fmadd fmsub fnmadd fnmsub').map((name, i) => fused(i)(`${name}.${s} ft0,ft0,ft1,ft2`)),
    one(`fsqrt.${s} ft0,ft0`),
    make(bits, 1, { modes: 1 })(`fclass.${s} t1,ft0; fmv.d.x ft0,t1`),
    one(`fcvt.${other}.${s} ft0,ft0`),
    ...words('w wu l lu').flatMap((to) => [
      one(`fcvt.${to}.${s} t1,ft0; fmv.d.x ft0,t1`),
      make(bits, 1, { isInteger: true })(`ld t1,0(%0); fcvt.${s}.${to} ft0,t1`),
    ]),
  ];
}

const riscvLevel: LevelMachine = {
  target: RISCV_TARGETS[0]!,
  modes: [0, 1, 0x20, 0x40, 0x60, 0x80],
  assembly: (text, bits) => {
    const load = bits === 64 ? 'fld' : 'flw';
    return `ld t0,0(%1); fscsr t0; ${load} ft0,0(%0); ${load} ft1,8(%0); ${load} ft2,16(%0); ${text}; frcsr t0; sd t0,0(%1); fsd ft0,0(%0); fscsr zero`;
  },
  clobbers: '"t0", "t1"',
  operations: FORMATS.flatMap(riscvOperations),
};

// ----------------------------------------------------------------------------------------- PowerPC

function ppcOperations(bits: Bits, isOld: boolean): Operation[] {
  const s = bits === 64 ? '' : 's';
  const [one, two] = [make(bits, 1), make(bits, 2)];
  const fused = (i: number): ReturnType<typeof make> => make(bits, 3, { isNegating: i > 0 });
  return [
    ...words('fadd fsub fmul fdiv').map((name) => two(`${name}${s} 2,3,4`)),
    ...words('fmadd fmsub').map((name, i) => fused(i)(`${name}${s} 2,3,4,5`)),
    // qemu 7.2 rounds what they negate after it negated it: only to nearest, and to zero.
    ...words('fnmadd fnmsub').map((name) => make(bits, 3, { modes: 3, isNegating: true })(`${name}${s} 2,3,4,5`)),
    ...words('fcmpu fcmpo').map((name) => make(bits, 2, { modes: 1 })(`${name} 7,3,4`)),
    one('frsp 2,3'),
    ...(isOld ? [] : [one(`fsqrt${s} 2,3`), ...words('frin friz frip frim').map((name) => one(`${name} 2,3`))]),
    ...(isOld ? [] : words('fctid fctidz fctidu fctiduz')).map((name) => one(`${name} 2,3`)),
    ...(isOld ? [] : words('fcfid fcfidu')).map((name) => make(bits, 1, { isInteger: true })(`lfd 3,0(%0); ${name}${s} 2,3`)),
  ]; // prettier-ignore
}

const ppcLevel = (target: PpcTarget): LevelMachine => {
  const isOld = target.name === 'ppc32';
  return {
    target,
    qemuFlags: ['-cpu', isOld ? '750' : 'power8'],
    modes: [0, 0x8202_0000, 1, 2, 3],
    assembly: (text, bits) => {
      // A single is the lower half of its doubleword.
      const [load, at] = bits === 64 ? ['lfd', 0] : ['lfs', target.name.endsWith('-le') ? 0 : 4];
      return `lfd 2,0(%1); mtfsf 255,2; ${load} 3,${at}(%0); ${load} 4,${at + 8}(%0); ${load} 5,${at + 16}(%0); fmr 2,3; ${text}; stfd 2,0(%0); mffs 2; stfd 2,0(%1); mtfsfi 7,0`;
    },
    clobbers: '"fr2", "fr3", "fr4", "fr5", "cr7"',
    operations: FORMATS.flatMap((bits) => ppcOperations(bits, isOld)),
  };
};

/** All but x86-64; those that show what others do stand at the end. */
export const LEVEL_MACHINES: readonly LevelMachine[] = [
  arm64Level,
  riscvLevel,
  ...[...TARGETS].reverse().map(ppcLevel),
];

// ------------------------------------------------------------------------------------------ source

/**
 * Exponents (from 0, the bias or the top; times the fraction's width; more), fractions, and how
 * much a class matters.
 */
const CLASSES = `
enum { ZERO, ONE, ONES, HALF, BELOW_HALF, QUIET, SIGNALLING };
static const struct { s8 from, widths, more, fraction, weight; } classes[] = {
  {0, 0, 0, ZERO, 4}, {0, 0, 0, ONE, 4}, {0, 0, 0, HALF, 2}, {0, 0, 0, ONES, 3}, {0, 0, 1, ZERO, 4}, {0, 0, 1, ONE, 2}, {0, 0, 1, ONES, 2}, {0, 0, 2, ZERO, 2},
  {1, -1, -2, ONES, 3}, {1, -1, -1, ZERO, 4}, {1, -1, -1, ONE, 3}, {1, -1, 0, ZERO, 2}, {1, 0, -1, ZERO, 2}, {1, 0, -1, ONES, 3}, {1, 0, 0, ZERO, 3},
  {1, 0, 0, ONE, 4}, {1, 0, 0, HALF, 3}, {1, 0, 0, ONES, 2}, {1, 0, 1, HALF, 1}, {1, 1, -1, ONE, 3}, {1, 1, 0, ONES, 2}, {1, 1, 1, ONE, 2},
  {1, 0, 15, ONES, 1}, {1, 0, 16, ZERO, 1}, {1, 0, 30, ONES, 1}, {1, 0, 30, BELOW_HALF, 1}, {1, 0, 31, ZERO, 1}, {1, 0, 31, ONE, 1}, {1, 0, 31, ONES, 1}, {1, 0, 32, ZERO, 1},
  {1, 0, 62, ONES, 1}, {1, 0, 63, ZERO, 1}, {1, 0, 63, ONE, 1}, {1, 0, 63, ONES, 1}, {1, 0, 64, ZERO, 1}, {1, 0, 127, ONES, 1}, {1, 0, -126, ONE, 1}, {1, 0, -127, ONES, 1}, {1, 0, -150, ONE, 1},
  {2, 0, -2, ONES, 2}, {2, 0, -1, ZERO, 2}, {2, 0, -1, ONES, 4}, {2, 0, 0, ZERO, 4}, {2, 0, 0, QUIET, 4}, {2, 0, 0, SIGNALLING, 4},
};
#define CLASSES ((int)(sizeof classes / sizeof *classes))
static const u64 integers[] = {
  0, 1, -1ull, 3, 0xffffff, 0x1000000, 0x1000001, 0x1000002, 0x1000003, 0x3000003, 0x7fffffbf, 0x7fffffc0, 0x7fffffff, 0x80000000, 0x80000001, 0xffffff7f, 0xffffff80, 0xffffffff,
  0x1fffffffffffff, 0x20000000000001, 0x20000000000003, 0x7fffffffffffffff, 0x8000000000000000, 0x8000000000000001, 0x7ffffffffffffdff, 0x7ffffffffffffe00, 0x7fffffbfffffffff,
  0x7fffffc000000000, 0xfffffffffffffbff, 0xfffffffffffffc00, 0xffffff7fffffffff, 0xffffff8000000000, 0x8000004000000001, 0x8000000000000401, 0xffffffff7fffffff, 0xfffffffffeffffff,
};
#define INTEGERS ((int)(sizeof integers / sizeof *integers))
/* Number k of a format, whose NaNs tell the operand; the lowest bit of k is the sign. */
static u64 number(int k, int e, int f, int operand) {
  int bias = (1 << (e - 1)) - 1, top = (1 << e) - 1, c = k >> 1;
  int exponent = (classes[c].from == 0 ? 0 : classes[c].from == 1 ? bias : top) + classes[c].widths * f + classes[c].more;
  u64 half = 1ull << (f - 1), fraction = 0;
  switch (classes[c].fraction) {
  case ONE: fraction = 1; break;
  case ONES: fraction = 2 * half - 1; break;
  case HALF: fraction = half; break;
  case BELOW_HALF: fraction = half - 1; break;
  case QUIET: fraction = half | (0x11 << operand); break;
  case SIGNALLING: fraction = 0x22 << operand; break;
  }
  if (exponent < 0) exponent = 0;
  if (exponent > top) exponent = top;
  return (u64)(k & 1) << (e + f) | (u64)exponent << f | fraction;
}
`;

const DRIVER = `
static __attribute__((noinline)) void add(u64 value) { sum = (sum ^ value) * 1099511628211ULL; sum ^= sum >> 29; }
static int parse(const char *text) { int n = 0; while (*text) n = n * 10 + *text++ - '0'; return n; }
/* Classes of each operand of an operation that has so many. */
static int list[4][2 * CLASSES], counts[4];
static u64 numbers[3][2 * CLASSES];
static void execute(int o, int verbose) {
  u64 in[3] = {x[0], x[1], x[2]}, mask = operations[o].status;
#ifdef HIDDEN
  if (operations[o].operands == 3 && hides((struct fused){operations[o].single ? 32 : 64, 1, 1, {2, 0, 1}})) mask &= ~HIDDEN;
#endif
  functions[o]();
  status[0] &= mask;
  add(x[0]);
  add(status[0]);
  if (!verbose) return;
  for (int i = 0; i < operations[o].operands; i++) line("operand", in[i]);
  line("result", x[0]);
  line("status", status[0]);
}
static void run(int o, int m, int verbose) {
  int operands = operations[o].operands, e = operations[o].single ? 8 : 11, f = operations[o].single ? 23 : 52;
  int first = operations[o].integer ? INTEGERS : counts[operands];
  for (int n = 0; n < operands; n++)
    for (int i = 0; i < counts[operands]; i++) numbers[n][i] = number(list[operands][i], e, f, n);
  sum = 14695981039346656037ULL;
  for (int i = 0; i < first; i++)
    for (int j = 0; j < (operands > 1 ? counts[operands] : 1); j++)
      for (int k = 0; k < (operands > 2 ? counts[operands] : 1); k++) {
        x[0] = operations[o].integer ? integers[i] : numbers[0][i];
        x[1] = numbers[1][j];
        x[2] = numbers[2][k];
        status[0] = modes[m];
        execute(o, verbose);
      }
  puts_(names[o]);
  line(", mode", m);
  line("  digest", sum);
}
int main(int argc, char **argv) {
  for (int n = 1; n < 4; n++)
    for (int k = 0; k < 2 * CLASSES; k++)
      if (classes[k >> 1].weight >= WEIGHTS[n]) list[n][counts[n]++] = k;
  if (argc > 2) run(parse(argv[1]), parse(argv[2]), 1);
  else for (int o = 0; o < (int)(sizeof operations / sizeof *operations); o++)
    for (int m = 0; m < operations[o].modes; m++) run(o, m, 0);
  flush();
  return 0;
}
`;

/**
 * Source of the program.
 * @param isWide  more classes, and all modes of what only negates what another one does
 */
export function levelProgram({ target, modes, assembly, clobbers, operations }: LevelMachine, isWide: boolean): string {
  const isPpc = target.qemu.startsWith('qemu-ppc');
  const base = isPpc ? 'b' : 'r';
  const functions = operations.map(
    ({ text, bits }, i) =>
      `static __attribute__((noinline)) void f${i}(void) { __asm__ volatile("${assembly(text, bits).replaceAll('; ', '\\n ')}" : : "${base}"(x), "${base}"(status) : "memory", ${clobbers}); }\n`,
  );
  const rows = operations.map(
    ({ text, bits, operands, isInteger = false, isNegating = false, modes: own = modes.length }) =>
      `  {${operands}, ${Number(bits === 32)}, ${Number(isInteger)}, ${isNegating && !isWide ? 1 : own}, ${isPpc ? `0x${statusMask(text.replace(/^lfd .*; /, '')).toString(16)}ull` : '~0ull'}},`,
  );
  return `#include "lib.h"
static u64 x[3] __attribute__((aligned(16)));
static u64 status[1], sum;
${CLASSES}${isPpc ? `${FUSED_C}#define HIDDEN ${STATUS_BITS.vxsnan}ull` : ''}
/* Of classes for operations of one, two and three operands. */
static const int WEIGHTS[] = {0, 1, ${isWide ? '2, 3' : '3, 4'}};
static const u64 modes[] = {${modes.map((each) => `${each}ull`).join(', ')}};
${functions.join('')}
static void (*const functions[])(void) = {${operations.map((_, i) => `f${i}`).join(', ')}};
static const char *const names[] = {${operations.map(({ text, bits }) => `"${text.replaceAll('%%', '%')} of ${bits}"`).join(', ')}};
static const struct { int operands, single, integer, modes; u64 status; } operations[] = {
${rows.join('\n')}
};
${DRIVER}`;
}
