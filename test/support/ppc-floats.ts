/**
 * Instructions of floating point of PowerPC as tests execute them: texts of an assembler. A row
 * that is executed and in none of them fails `lift-ppc-rows.test.ts`.
 */

import { C_RANDOM } from './c-random.js';
import { HARD_C } from './hard-floats.js';

const BOTH = ['', 's'] as const;
/** Those of a 750. */
const OLD = [
  ...['fadd', 'fsub', 'fdiv'].flatMap((name) => BOTH.map((letter) => `${name}${letter} 2,3,4`)),
  ...BOTH.map((letter) => `fmul${letter} 2,3,5`),
  ...['fmadd', 'fmsub', 'fnmadd', 'fnmsub'].flatMap((name) => BOTH.map((letter) => `${name}${letter} 2,3,5,4`)),
  'fsel 2,3,4,5', 'frsp 2,3', 'fctiw 2,3', 'fctiwz 2,3', 'fneg 2,3', 'fabs 2,3', 'fnabs 2,3', 'fmr 2,3', 'fcmpu 1,3,4', 'fcmpo 7,3,4',
]; // prettier-ignore
/** Estimates, which are compared where a processor's are not another number. */
const ESTIMATES = ['fres 2,3', 'frsqrte 2,3'];
const NEW = [
  'fsqrt 2,3', 'fsqrts 2,3', 'fre 2,3', 'frsqrtes 2,3', 'fcpsgn 2,3,4', 'fctiwu 2,3', 'fctiwuz 2,3', 'fctid 2,3', 'fctidz 2,3', 'fctidu 2,3',
  'fctiduz 2,3', 'fcfid 2,3', 'fcfidu 2,3', 'fcfids 2,3', 'fcfidus 2,3', 'frin 2,3', 'friz 2,3', 'frip 2,3', 'frim 2,3', 'ftdiv 2,3,4', 'ftsqrt 3,3',
  'fmrgew 2,3,4', 'fmrgow 2,3,4',
]; // prettier-ignore
/** With the target among the operands, and with Rc. */
const variants = (texts: readonly string[]): string[] =>
  texts.flatMap((text) => {
    const target = /^(\w+) 2,(.*)$/.exec(text);
    if (!target || /^f(cmp|td|ts|mrg)/.test(text)) return [text];
    const [, name, rest] = target;
    return [text, `${name!} 3,${rest!}; fmr 2,3`, `${name!}. 2,${rest!}`];
  });

/** FPSCR read and written; r9 has random bits, f3 too. */
const STATUS = [
  'mtfsf 0xfc,3; mffs 2', 'mtfsf 0xc,3; mffs. 2', 'mtfsfi 7,7; mffs. 2', 'mtfsf. 0x88,3; mffs 2', 'mtfsfi 0,9; mffs 2', 'mtfsfi 7,3; mffs 2', 'mtfsfi. 1,4; mffs 2',
  'mtfsb0 0; mffs 2', 'mtfsb0. 6; mffs 2', 'mtfsb1 31; mffs 2', 'mtfsb1. 30; mffs 2', 'mtfsb1 1; mffs 2',
  // What was told before is still told, however FPSCR rounds now.
  'fadd 2,3,4; mtfsfi 7,1', 'fmadd 2,3,5,4; mtfsfi 7,2; fneg 3,3', 'fdiv 2,3,4; mtfsb1 31', 'fsub 2,3,4; mtfsb0 6', 'fmul 2,3,4; mtfsb1 0',
  'fmuls 2,3,4; fcmpu 0,4,3; mtfsb0 30; mtfsb0 31', 'fadds 2,3,4; mtfsf 4,3', 'fctiwz 2,3; mtfsfi 2,5', 'frsp 2,3; mtfsfi 7,0', 'fadd 2,3,4; mtfsfi 3,5',
  'fadd 2,3,4; mtfsf 0xe4,3', 'fadd 2,3,4; mtfsf 0x10,3', 'fmul 2,3,4; mtfsb1 15', 'fmul 2,3,4; mtfsb0 20',
  'fadd 2,3,4; mcrfs 1,4', 'fdiv 2,3,4; mcrfs 1,0; mffs 4', 'fdiv 2,3,4; mcrfs 1,1; mcrfs 2,2', 'fadd 2,3,4; fcmpu 0,4,3', 'fadd 2,3,4; fneg 2,2',
]; // prettier-ignore

export const CLASSIC_750 = [...variants(OLD), ...STATUS];
export const CLASSIC = [...CLASSIC_750, ...variants(ESTIMATES), ...variants(NEW)];

// -------------------------------------------------------------------------------------------- VSX

const FUSED = ['madd', 'msub', 'nmadd', 'nmsub'];
const PRECISIONS = ['dp', 'sp'];
const scalar = (name: string, three = true): string[] => [
  `${name} 34,3${three ? ',36' : ''}`,
  `${name} 4,35${three ? ',5' : ''}; xxlor 34,4,4`,
];
/** Sources vs3 to vs5 and vs35 to vs37, the result in vs34. */
export const VSX_SCALARS = [
  ...PRECISIONS.flatMap((suffix) => [
    ...['add', 'sub', 'mul', 'div'].flatMap((name) => scalar(`xs${name}${suffix}`)),
    ...FUSED.flatMap((name) => ['a', 'm'].flatMap((form) => [
      `xs${name}${form}${suffix} 3,4,37; xxlor 34,3,3`, `xs${name}${form}${suffix} 36,4,5; xxlor 34,36,36`,
    ])),
    ...['sqrt', 're', 'rsqrte'].flatMap((name) => scalar(`xs${name}${suffix}`, false)),
    ...['xscvsxd', 'xscvuxd'].flatMap((name) => scalar(`${name}${suffix}`, false)),
  ]),
  ...['xsmaxdp', 'xsmindp', 'xscpsgndp'].flatMap((name) => scalar(name)),
  ...['xsabsdp', 'xsnabsdp', 'xsnegdp', 'xsrsp', 'xsrdpi', 'xsrdpic', 'xsrdpim', 'xsrdpip', 'xsrdpiz', 'xscvdpsp', 'xscvspdp',
    'xscvdpspn', 'xscvspdpn', 'xscvdpsxds', 'xscvdpuxds', 'xscvdpsxws', 'xscvdpuxws'].flatMap((name) => scalar(name, false)),
  'xscmpudp 1,3,36', 'xscmpodp 6,35,4', 'xstdivdp 1,3,36', 'xstsqrtdp 1,35',
]; // prettier-ignore
export const VSX_VECTORS = [
  ...PRECISIONS.flatMap((suffix) => [
    ...['add', 'sub', 'mul', 'div', 'max', 'min', 'cpsgn'].flatMap((name) => scalar(`xv${name}${suffix}`)),
    ...FUSED.flatMap((name) => ['a', 'm'].flatMap((form) => [
      `xv${name}${form}${suffix} 3,4,37; xxlor 34,3,3`, `xv${name}${form}${suffix} 36,4,5; xxlor 34,36,36`,
    ])),
    ...['sqrt', 're', 'rsqrte', 'abs', 'nabs', 'neg'].flatMap((name) => scalar(`xv${name}${suffix}`, false)),
    ...['i', 'ic', 'im', 'ip', 'iz'].flatMap((mode) => scalar(`xvr${suffix}${mode}`, false)),
    ...['eq', 'gt', 'ge'].flatMap((name) => [`xvcmp${name}${suffix} 34,3,36`, `xvcmp${name}${suffix}. 34,35,4`]),
    ...['sxd', 'uxd', 'sxw', 'uxw'].flatMap((from) => scalar(`xvcv${from}${suffix}`, false)),
    ...['sxds', 'uxds', 'sxws', 'uxws'].flatMap((to) => scalar(`xvcv${suffix}${to}`, false)),
    `xvtdiv${suffix} 1,3,36`, `xvtsqrt${suffix} 7,35`,
  ]),
  ...scalar('xvcvdpsp', false), ...scalar('xvcvspdp', false),
]; // prettier-ignore

/** Singles of VSX in memory: at r8. */
export const VSX_ACCESSES = [
  'stxsspx 3,0,8; lxsspx 34,0,8; xxpermdi 34,34,34,0',
  'stxsspx 36,0,8; lxsspx 3,0,8; xxpermdi 34,3,3,0',
];

const namesOf = (texts: readonly string[]): string[] => [
  ...new Set(texts.flatMap((text) => text.split(';').map((each) => each.trim().replace(/\.? .*$/, '')))),
];
/** The rows of the instruction table that they are. */
export const FLOAT_ROWS: readonly string[] = [
  ...namesOf(CLASSIC),
  // As `mffs`, on processors that do not know them.
  ...['mffsl', 'mffsce', 'mffscrn', 'mffscrni', 'mffscdrn', 'mffscdrni'],
];
export const VSX_FLOAT_ROWS: readonly string[] = namesOf([...VSX_SCALARS, ...VSX_VECTORS, ...VSX_ACCESSES]);

// --------------------------------------------------------------------------------------- programs

const escaped = (text: string): string => text.replaceAll(';', '\\n');

const COMMON = `
#include "lib.h"
static u64 sum;
static u64 x[6] __attribute__((aligned(16)));
static u64 out[2] __attribute__((aligned(16)));
static u64 status[1];
static word cr;
${C_RANDOM}
static __attribute__((noinline)) void add(u64 value) { sum = (sum ^ value) * 1099511628211ULL; sum ^= sum >> 29; }
static const u64 special[] = {
  0, 0x8000000000000000, 0x3ff0000000000000, 0xbff0000000000000, 0x7ff0000000000000, 0xfff0000000000000, 0x7ff8000000000011,
  0xfff8000000000022, 0x7ff0000020000033, 0xfff4000000000044, 1, 0x800fffffffffffff, 0x0010000000000000, 0x7fefffffffffffff,
  0x3ff8000000000000, 0xc008000000000000, 0x47efffffe0000000, 0x3810000000000000, 0x36a0000000000000, 0x380fffffc0000000,
  0x41dfffffffc00000, 0xc1e0000000000000, 0x43e0000000000000, 0x41efffffffe00000, 0x3fdfffffffffffff, 0x7f8000017f800001,
  0x3f80000000000001, 0xff800000ffc00000,
};
#define SPECIAL ((int)(sizeof special / sizeof *special))
/* Specials, doubles near each other, singles, any bits. */
static __attribute__((noinline)) u64 operand(int i) {
  u64 bits = next64();
  if (i < SPECIAL) return special[i];
  switch (i & 3) {
  case 0: return (bits & 0x800fffffffffffff) | (1010 + ((bits >> 52) & 31)) << 52;
  case 1: return (bits & 0x800fffffe0000000) | (1013 + ((bits >> 52) & 15)) << 52;
  case 2: return (bits & 0x800f000000000000) | (1020 + ((bits >> 52) & 7)) << 52;
  default: return bits;
  }
}
${HARD_C}static int same(const char *a, const char *b) {
  while (*a && *a == *b) a++, b++;
  return *a == *b;
}
/* Of the first four qemu is right about FX and negated sums. */
static const u64 modes[] = {0, 0x82000000, 1, 0x82024000, 2, 3, 0x82000001, 0x82000002, 0x82000003};
`;

/** Operands in f3 to f5, the result in f2. */
const CLASSIC_CASE = `
static void prepare(int i, int modes_of, int special_case) {
  int isSpecial = i < SPECIAL * 5;
  x[0] = operand(isSpecial ? i % SPECIAL : i);
  x[1] = operand(isSpecial ? i * 5 / 3 % SPECIAL : i + i / 4);
  x[2] = operand(isSpecial ? i * 7 / 4 % SPECIAL : i + i / 16);
  if (!isSpecial && i % 2) {
    hard(11, 52, x);
    /* A product has its second factor in f5. */
    if (i & 2) { u64 b = x[1]; x[1] = x[2]; x[2] = b; }
  }
  if (special_case && x[0] << 1 == 0) x[0] = special[2];
  status[0] = modes[i % modes_of];
  out[0] = out[1] = 0;
}
#define COUNT 260
#define CASE(text) \\
  __asm__ volatile("lfd 2,0(%1)\\n mtfsf 255,2\\n lfd 2,0(%3)\\n lfd 3,0(%2)\\n lfd 4,8(%2)\\n lfd 5,16(%2)\\n" text "\\n stfd 2,0(%3)\\n mffs 2\\n stfd 2,0(%1)\\n mfcr %0\\n mtfsfi 7,0" \\
    : "=&r"(cr) : "b"(status), "b"(x), "b"(out) : "fr2", "fr3", "fr4", "fr5", "cr0", "cr1", "cr2", "cr3", "cr4", "cr5", "cr6", "cr7", "memory")
`;
/** Numbers of quad and half precision among the others. */
const QUADS = `
#define QUADS 1
static const u64 special_quads[] = {
  0x7fff000000000000, 0xffff000000000000, 0x7fff800000000011, 0xffff000000000022, 0x3fff000000000000, 0xbfff8000000000ff, 0x0000000000000001,
  0x8000800000000000, 0x0001000000000000, 0x7ffeffffffffffff, 0x403e000000000000, 0xc03e000000000001, 0x401e000000000000, 0xc01dffffffffffff,
  0x43fe000000000000, 0x3c00000000000000, 0x3bcd000000000001, 0x403dffffffffffff, 0x3ffe000000000000, 0x3f8e000000000000, 0x0000000000007c00,
  0x000000000000fc01, 0x0000000000000001, 0x3e70000000000000, 0x40effc0000000000, 0x40effe0000000000, 0x3f0ffc0000000000, 0x47f0000000007e11,
};
static void quads(int i) {
  for (int k = 0; k < 3; k++) {
    if (i < 100 ? (i >> k & 1) == 0 : (i + k) % 5 != 0) continue;
    x[2 * k] = special_quads[(i * (k + 3) + k) % 28];
    if ((i & 12) == 0) x[2 * k + 1] = i & 16 ? -(u64)1 : 0;
  }
}
`;
/** Sources vs3 to vs5 and vs35 to vs37, the result in vs34. */
const VSX_CASE = `
static u64 area[1];
static void prepare(int i, int modes_of, int special_case) {
  for (int j = 0; j < 6; j++) {
    x[j] = operand(i < SPECIAL * 6 ? (i * (j + 3) + j) / 3 % SPECIAL : i + j * (i / 9));
    if ((i & 7) == 5) x[j] = x[j] >> 32 | x[j] << 32;
    if ((i & 15) == 9) x[j] = (x[j] & 0xffffffff) | 0x40490fdb00000000;
  }
  if (i % 4 == 3) for (int j = 0; j < 2; j++) {
    u64 three[3], singles[3];
    if (i & 4) {
      hard(11, 52, three);
    } else {
      hard(8, 23, three);
      hard(8, 23, singles);
      for (int k = 0; k < 3; k++) three[k] |= singles[k] << 32;
    }
    for (int k = 0; k < 3; k++) x[2 * k + j] = three[k];
  }
#ifdef QUADS
  quads(i);
#endif
  if (special_case & 4 && (x[2] >> 52 & 2047) - 1 < 0x380) x[2] = special[2];
  if (special_case & 2) x[0] = x[0] >> 32 | (x[0] >> 32 << 32);
  if (special_case & 3) x[1] = x[0];
  status[0] = modes[i % modes_of];
}
#define COUNT 200
#define CASE(text) \\
  __asm__ volatile(".machine push\\n.machine power8\\n lfd 2,0(%1)\\n mtfsf 255,2\\n xxlxor 34,34,34\\n lxvd2x 3,0,%2\\n lxvd2x 4,0,%3\\n lxvd2x 5,0,%4\\n xxlor 35,3,3\\n xxlor 36,4,4\\n xxlor 37,5,5\\n mr 8,%6\\n" text "\\n stxvd2x 34,0,%5\\n mffs 2\\n stfd 2,0(%1)\\n mfcr %0\\n mtfsfi 7,0\\n.machine pop" \\
    : "=&r"(cr) : "b"(status), "b"(x), "b"(x + 2), "b"(x + 4), "b"(out), "b"(area) : "r8", "fr2", "fr3", "fr4", "fr5", "cr0", "cr1", "cr2", "cr3", "cr4", "cr5", "cr6", "cr7", "memory")
`;
export const STATUS_BITS = {
  vxsnan: 0x0100_0000,
  fi: 0x2_0000,
  fx: 0x8000_0000,
  ux: 0x0800_0000,
  zx: 0x0400_0000,
  fr: 0x4_0000,
  c: 0x1_0000,
  fprf: 0x1_f000,
} as const;

/**
 * `hides(fused)`, of the operands in `x`: an infinity times zero, and an addend that signals, which
 * qemu 7.2 does not say.
 */
export const FUSED_C = `
struct fused { int bits, words, used, sources[3]; };
/* 0: zero, 1: infinity, 2: signalling NaN. */
static int class_is(int class, int bits, u64 high, u64 low) {
  u64 quiet = bits == 32 ? 1ull << 22 : bits == 64 ? 1ull << 51 : 1ull << 47;
  u64 infinity = bits == 32 ? 0x7f800000 : bits == 64 ? 0x7ffull << 52 : 0x7fffull << 48;
  u64 magnitude = bits == 32 ? high & 0x7fffffff : high << 1 >> 1;
  if (class == 2) return (magnitude & infinity) == infinity && !(magnitude & quiet) && (magnitude != infinity || low);
  return magnitude == (class ? infinity : 0) && !low;
}
static int hides(struct fused f) {
  for (int at = 0; at < f.used * 64; at += f.bits < 64 ? 32 : 64) {
    u64 high[3], low[3];
    for (int k = 0; k < 3; k++) {
      u64 *source = x + f.sources[k] * f.words;
      high[k] = f.bits == 32 ? (source[at / 64] >> (at & 32)) & 0xffffffff : source[at / 64];
      low[k] = f.bits == 128 ? source[1] : 0;
    }
#define IS(class, k) class_is(class, f.bits, high[k], low[k])
    if (IS(2, 0) && ((IS(1, 1) && IS(0, 2)) || (IS(0, 1) && IS(1, 2)))) return 1;
  }
  return 0;
}
`;
/** Runs a case with all its operands. */
const DRIVER = `${FUSED_C}static __attribute__((noinline)) void run(void (*execute)(void), const char *text, int verbose, u32 mask, struct fused fused, u32 fields, u64 result, int modes_of, int special_case) {
  sum = 14695981039346656037ULL;
  for (int i = 0; i < COUNT; i++) {
    prepare(i, modes_of, special_case);
    execute();
    out[0] &= result;
    status[0] &= fused.bits && hides(fused) ? mask & ~${STATUS_BITS.vxsnan} : mask;
    cr &= fields;
    add(out[0]);
    add(out[1]);
    add(status[0]);
    add(cr);
    if (!verbose) continue;
    line("a", x[0]);
    for (int j = 1; j < 6; j++) line(" a", x[j]);
    line(" =", out[0]);
    line(" =", out[1]);
    line(" fpscr", status[0]);
    line(" cr", cr);
  }
  line(text, sum);
}
`;

/** Fields of CR that a text writes. */
function fieldsOf(text: string): number {
  let mask = 0;
  for (const each of text.split(';')) {
    const field = /^\s*(?:fcmp.|mcrfs|ft\w+|x[sv](?:cmp[uo]\w+|t\w+)) (\d)/.exec(each);
    if (field) mask |= 0xf << (28 - 4 * Number(field[1]));
    if (/^\s*xv\w+\. /.test(each)) mask |= 0xf0;
    else if (/^\s*\w+\. /.test(each)) mask |= 0xf00_0000;
  }
  return mask >>> 0;
}

/**
 * Bits of FPSCR that are compared. qemu 7.2 has no FR; says the class of the double of a single
 * result; rounds the scalars of VSX first to double, so that they do not underflow; and its
 * estimates divide by zero without a word, or give 1/2; comparisons take FI away and set C;
 * conversions of integers that came with POWER7 have no FPRF; of vectors it raises overflow or
 * underflow, not both, and takes FI away. FPRF is undefined after conversions to integers, and the
 * upper word after those to words.
 */
export function statusMask(text: string): number {
  const { vxsnan, fx, ux, zx, fr, fi, c, fprf } = STATUS_BITS;
  let out = fr;
  if (/fcti|xscv[dq]p[su][xdw]/.test(text)) out |= fprf;
  if (/^(f(?!n?abs)\w+s\.? |frsp|xs\w+sp )/.test(text)) out |= c;
  if (/^xs\w+sp /.test(text)) out |= ux | fx;
  if (/^(xs|xv|f)r(e|sqrte)/.test(text)) out |= zx | fx;
  if (/cmp[uo]/.test(text)) out |= fi | c;
  if (/^xv/.test(text)) out |= fi | ux;
  if (/^fcfid(u|s)/.test(text)) out |= fprf;
  // Of a quiet NaN and a signalling one.
  if (/^xsm(ax|in)jdp/.test(text)) out |= vxsnan | fx | 0x2000_0000;
  return ~out >>> 0;
}

/**
 * Of a fused operation in C: the width of its numbers, 64-bit words of a source, numbers of 64 bits
 * or pairs of others, and which sources are addend and factors. VXSNAN is not compared where it
 * `hides`.
 */
function fusedOf(text: string): string {
  const match = /^(f|xs|xv)n?m(?:add|sub)([am]?)(qp|dp|sp|s)?o?\.? (\d+),(\d+),(\d+)(?:,(\d+))?/.exec(text);
  if (!match) return '{0}';
  const [, kind, form, precision, ...operands] = match;
  // Registers 3 to 5 and 35 to 37 hold the sources.
  const [target, a, b, c] = operands.map((each) => (Number(each) % 32) - 3);
  const [addend, ...factors] = kind === 'f' ? [c, a, b] : form === 'm' ? [b, a, target] : [target, a, b];
  const bits = precision === 'qp' ? 128 : kind === 'xv' && precision === 'sp' ? 32 : 64;
  return `{${bits}, ${kind === 'f' ? 1 : 2}, ${kind === 'xv' ? 2 : 1}, {${[addend, ...factors].join(', ')}}}`;
}
const resultMask = (text: string): string => (/^fctiw/.test(text) ? '0xffffffffu' : '~0ull');
/**
 * 1: zeros are left out, or both doublewords of a vector are the same; 2: all words are. qemu gives
 * all elements behind a NaN what it gives for the NaN. 4: no doubles that are subnormal as singles,
 * which qemu takes for members of every class.
 */
const specialCase = (text: string): number =>
  /^fres?\.? |^xvcvdp[su]x/.test(text) ? 1 : /^xvcvsp[su]x/.test(text) ? 3 : /^xststdcsp/.test(text) ? 4 : 0;

/** Modes of the program: qemu rounds what `fnmadd` and its kin negate after they negated it. */
const modesOf = (text: string): number =>
  // It takes another direction where an instruction of POWER9 leaves that to FPSCR.
  /^xsrq\w+ 0,.*,3$/.test(text) ? 2 : /nm(add|sub)/.test(text) ? 4 : 9;

/**
 * Source of a program that prints a digest for each case; with the text of a case as argument, its
 * operands and results too.
 */
export function floatProgram(cases: readonly string[], kind: 'classic' | 'vsx' | 'power9'): string {
  const vsxCase = kind === 'power9' ? `${QUADS}${VSX_CASE.replace('power8', 'power9')}` : VSX_CASE;
  const caseMacro = kind === 'classic' ? CLASSIC_CASE : vsxCase;
  const functions = cases.map((text, i) => `static void f${i}(void) { CASE("${escaped(text)}"); }\n`);
  const calls = cases.map((text, i) => {
    const name = `"${escaped(text)}"`;
    const masks = `${statusMask(text)}u, (struct fused)${fusedOf(text)}, ${fieldsOf(text)}u, ${resultMask(text)}`;
    return `  run(f${i}, ${name}, argc > 1 && same(argv[1], ${name}), ${masks}, ${modesOf(text)}, ${specialCase(text)});`;
  });
  return `${COMMON}${caseMacro}${DRIVER}${functions.join('')}
int main(int argc, char **argv) {
${calls.join('\n')}
  flush();
  return 0;
}
`;
}
