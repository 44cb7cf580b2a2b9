/**
 * Instructions of VMX and VSX as tests execute them: texts of an assembler. A row that is executed
 * and in none of them fails `lift-ppc-rows.test.ts`.
 */

const LETTERS = ['b', 'h', 'w'] as const;
const LOGICAL = ['and', 'andc', 'or', 'xor', 'nor', 'nand', 'eqv', 'orc'] as const;

/** vA and vB into vT: 2, 3 and 4; or VSR in both halves of the file. */
const THREE: readonly string[] = [
  ...LOGICAL.map((name) => `v${name}`),
  ...[...LETTERS, 'd'].flatMap((letter) => [
    `vaddu${letter}m`, `vsubu${letter}m`, ...['qu', 'gts', 'gtu'].flatMap((how) => {
      const name = `vcmp${how === 'qu' ? 'equ' : how}${letter}`;
      return [name, `${name}.`];
    }),
  ]),
  ...LETTERS.flatMap((letter) => [
    `vmaxs${letter}`, `vmaxu${letter}`, `vmins${letter}`, `vminu${letter}`, `vmrgh${letter}`, `vmrgl${letter}`,
  ]),
  // No ops of 64 bits, of signs, of saturation, of products: by halves or by a helper.
  ...['max', 'min'].flatMap((name) => [`v${name}sd`, `v${name}ud`]),
  ...LETTERS.flatMap((letter) => [
    ...['adds', 'addu', 'subs', 'subu'].map((name) => `v${name}${letter}s`), `vavgs${letter}`, `vavgu${letter}`,
    ...['es', 'eu', 'os', 'ou'].map((name) => `vmul${name}${letter}`),
  ]),
  ...[...LETTERS, 'd'].flatMap((letter) => ['vrl', 'vsl', 'vsr', 'vsra', 'vpmsum'].map((name) => `${name}${letter}`)),
  ...['h', 'w', 'd'].flatMap((letter) => [`vpku${letter}um`, `vpku${letter}us`, `vpks${letter}us`, `vpks${letter}ss`]),
  'vpkpx', 'vmrgew', 'vmrgow', 'vslo', 'vsro', 'vbpermq', 'vmuluwm', 'vaddcuw', 'vsubcuw', 'vadduqm', 'vaddcuq', 'vsubuqm', 'vsubcuq',
  'vsum4ubs', 'vsum4sbs', 'vsum4shs', 'vsum2sws', 'vsumsws', 'vcipher', 'vcipherlast', 'vncipher', 'vncipherlast',
]; // prettier-ignore
/** VSCR says whether elements did not fit. */
const SATURATING = THREE.filter((name) => /^v(add|sub|pk|sum).*s$/.test(name));
const FOUR = [
  'vaddeuqm', 'vaddecuq', 'vsubeuqm', 'vsubecuq', 'vmladduhm', 'vmhaddshs', 'vmhraddshs', 'vmsumubm', 'vmsummbm', 'vmsumuhm',
  'vmsumshm', 'vmsumuhs', 'vmsumshs', 'vpermxor',
]; // prettier-ignore
const ONE = [
  ...LETTERS.flatMap((letter) => [`vupkhs${letter}`, `vupkls${letter}`]), 'vupkhpx', 'vupklpx', 'vsbox',
  ...[...LETTERS, 'd'].flatMap((letter) => [`vclz${letter}`, `vpopcnt${letter}`]),
]; // prettier-ignore
/** VSCR behind an instruction, in the result; SAT was taken away before it. */
const withStatus = (text: string): string => `vxor 2,2,2; mtvscr 2; ${text}; mfvscr 2`;
const THREE_VSR = [...LOGICAL.map((name) => `xxl${name}`), 'xxmrghw', 'xxmrglw'];
/** Whole instructions: vectors in v3, v4, v5 (vs35 to vs37) and vs3 to vs5, the result in v2. */
const OTHERS = [
  // Both bits set, which stay. qemu keeps reserved bits, too.
  'vspltish 4,1; mtvscr 4; mfvscr 2', 'vspltish 4,1; mtvscr 4; vaddubs 2,3,3; vaddsws 2,3,3; mfvscr 2',
  ...SATURATING.map((name) => withStatus(`${name} 2,3,4`)),
  ...FOUR.map((name) => `${name} 2,3,4,5`), 'vpermxor 3,3,3,4; vor 2,3,3',
  ...FOUR.filter((name) => name.endsWith('s')).map((name) => withStatus(`${name} 2,3,4,5`)),
  ...ONE.flatMap((name) => [`${name} 2,3`, `${name} 3,3; vor 2,3,3`]),
  ...['w', 'd'].flatMap((letter) => [0, 15].flatMap((six) => [0, 1].map((st) => `vshasigma${letter} 2,3,${st},${six}`))),
  'vshasigmaw 2,3,0,10', 'vshasigmaw 2,3,1,3', 'vshasigmad 2,3,0,2', 'vshasigmad 2,3,1,13',
  // The count is to be in all bytes.
  ...['vsl', 'vsr'].map((name) => `vspltb 4,4,9; ${name} 2,3,4`),
  ...[0, 1, 8, 15].map((n) => `vsldoi 2,3,4,${n}`),
  ...[0, 1, 2, 3].flatMap((n) => [`xxsldwi 34,35,4,${n}`, `xxpermdi 34,3,36,${n}`, `xxpermdi 34,35,4,${n}`]),
  ...[0, 7, 15].map((n) => `vspltb 2,3,${n}`),
  ...[0, 3, 7].map((n) => `vsplth 2,3,${n}`),
  ...[0, 1, 3].flatMap((n) => [`vspltw 2,3,${n}`, `xxspltw 34,3,${n}`]),
  ...LETTERS.flatMap((letter) => [0, 15, -16, -1].map((n) => `vspltis${letter} 2,${n}`)),
  'vperm 2,3,4,5', 'vperm 2,4,4,3', 'vsel 2,3,4,5', 'xxsel 34,3,36,5', 'vgbbd 2,3', 'vgbbd 2,2',
  'xxlor 3,36,5; xxlor 34,3,3', 'xxpermdi 3,3,3,2; xxlor 34,3,3', 'vxor 3,3,4; vaddubm 2,3,3',
  // Both doublewords of what comes from a general register, the undefined one taken away.
  'mtvsrd 34,9; xxpermdi 34,34,34,0', 'mtvsrwa 3,9; xxpermdi 34,3,3,0', 'mtvsrwz 34,9; xxpermdi 34,34,34,0',
  'mfvsrd 10,35; mtvsrd 34,10; xxpermdi 34,34,34,0', 'mfvsrwz 10,3; mtvsrd 34,10; xxpermdi 34,34,34,0',
  // A floating point register is the upper half of one.
  'stfd 3,0(8); lfd 4,0(8); xxpermdi 34,4,4,0',
]; // prettier-ignore
/** Accesses to r8 + r9, where r9 is 0 to 31; results of loads in v2. */
export const ACCESSES = [
  'lvx 2,8,9', 'lvxl 2,8,9', 'lvx 2,0,8', 'lvsl 2,8,9', 'lvsr 2,8,9', 'lvsl 2,0,8', 'lxvd2x 34,8,9', 'lxvd2x 3,8,9; xxlor 34,3,3',
  'lxvw4x 34,8,9', 'lxvdsx 34,8,9', 'lxsdx 34,8,9; xxpermdi 34,34,34,0', 'lxsiwzx 3,8,9; xxpermdi 34,3,3,0',
  'lxsiwax 34,8,9; xxpermdi 34,34,34,0', 'stvx 3,8,9', 'stvxl 3,8,9', 'stxvd2x 35,8,9', 'stxvd2x 3,0,8', 'stxvw4x 3,8,9',
  'stxsdx 35,8,9', 'stxsiwx 3,8,9',
  ...LETTERS.flatMap((letter) => [`lve${letter}x 3,8,9; vor 2,3,3`, `stve${letter}x 3,8,9`, `stve${letter}x 3,0,8`]),
]; // prettier-ignore

export const CASES = [
  ...THREE.flatMap((name) => [`${name} 2,3,4`, `${name} 3,3,4; vor 2,3,3`]),
  ...THREE_VSR.flatMap((name) => [`${name} 34,3,36`, `${name} 4,35,4; xxlor 34,4,4`]),
  ...OTHERS,
];

/** Floating point of VMX; `vexptefp` and `vlogefp`, a series under qemu, are apart. */
export const VMX_FLOATS: readonly string[] = [
  ...['vaddfp', 'vsubfp', 'vmaxfp', 'vminfp'].flatMap((name) => [`${name} 2,3,4`, `${name} 3,3,4; vor 2,3,3`]),
  ...['vmaddfp', 'vnmsubfp'].flatMap((name) => [`${name} 2,3,4,5`, `${name} 3,5,3,4; vor 2,3,3`]),
  ...['eq', 'ge', 'gt', 'b'].flatMap((name) => [`vcmp${name}fp 2,3,4`, `vcmp${name}fp. 2,3,4`]),
  ...['n', 'z', 'p', 'm'].map((letter) => `vrfi${letter} 2,3`),
  ...['vcfsx', 'vcfux', 'vctsxs', 'vctuxs'].flatMap((name) => [0, 1, 5, 31].map((by) => `${name} 2,3,${by}`)),
  'vrefp 2,3', 'vrsqrtefp 2,3',
]; // prettier-ignore
/** Of decimal numbers, which record always. */
export const VMX_DECIMALS: readonly string[] = ['add', 'sub'].flatMap((name) =>
  [0, 1].map((ps) => `bcd${name}. 2,3,4,${ps}`),
);

/** The rows of the instruction table that they are, beside moves of floating point registers. */
export const VECTOR_ROWS: readonly string[] = [
  ...['bcdadd.', 'bcdsub.'],
  ...new Set(
    [...CASES, ...ACCESSES, ...VMX_FLOATS, 'vexptefp 2,3', 'vlogefp 2,3'].flatMap((text) =>
      text.split(';').map((each) => each.trim().replace(/\.? .*$/, '')),
    ),
  ),
].filter((name) => name !== 'lfd' && name !== 'stfd');

// --------------------------------------------------------------------------------------- programs

const escaped = (text: string): string => text.replaceAll(';', '\\n');

/**
 * Source of a program that prints a digest for each case, with all pairs of its inputs.
 * @param step  of the second one, so many are taken at once
 * @param fill  C that changes the inputs
 */
export const vectorProgram = (
  cases: readonly string[],
  accesses: readonly string[],
  machine: 'power8' | 'power9',
  step: number,
  fill = '',
): string => `
#include "lib.h"
static u8 in[20][16] __attribute__((aligned(16)));
static u8 out[16] __attribute__((aligned(16)));
static u8 area[64] __attribute__((aligned(64)));
static u64 sum;
static u64 vector_state = 88172645463325252ULL;
static u64 next64(void) {
  vector_state ^= vector_state << 13;
  vector_state ^= vector_state >> 7;
  vector_state ^= vector_state << 17;
  return vector_state;
}
static void digest(const u8 *bytes, int count) {
  const u64 *words = (const u64 *)bytes;
  for (int i = 0; i < count / 8; i++) {
    sum = (sum ^ words[i]) * 1099511628211ULL;
    sum ^= sum >> 29;
  }
}
#define LOAD "lxvd2x 34,0,%1\\n lxvd2x 35,0,%1\\n lxvd2x 36,0,%2\\n lxvd2x 37,0,%3\\n lxvd2x 3,0,%1\\n lxvd2x 4,0,%2\\n lxvd2x 5,0,%3\\n"
#define CASE(text) do { \\
  sum = 14695981039346656037ULL; \\
  for (int i = 0; i < 20; i++) for (int j = 0; j < 20; j += ${step}) { \\
    u64 cr; \\
    __asm__ volatile(".machine push\\n.machine ${machine}\\n" LOAD "mr 9,%5\\n mr 8,%6\\n" text "\\n stxvd2x 34,0,%4\\n mfcr %0\\n.machine pop" \\
      : "=&r"(cr) : "b"(in[i]), "b"(in[j]), "b"(in[(i + j) % 20]), "b"(out), "b"(next64()), "b"(area) : "r8", "r9", "r10", "cr6", "memory"); \\
    digest(out, 16); \\
    sum = (sum ^ (cr & 0xf0)) * 1099511628211ULL; \\
  } \\
  line(text, sum); \\
} while (0)
#define ACCESS(text) do { \\
  sum = 14695981039346656037ULL; \\
  for (u64 at = 0; at < 32; at++) { \\
    for (int i = 0; i < 64; i++) area[i] = (u8)(i * 37 + 1); \\
    __asm__ volatile(".machine push\\n.machine ${machine}\\n lxvd2x 34,0,%0\\n lxvd2x 35,0,%0\\n lxvd2x 3,0,%1\\n mr 9,%3\\n mr 8,%4\\n" text "\\n stxvd2x 34,0,%2\\n.machine pop" \\
      :: "b"(in[at % 20]), "b"(in[(at * 7) % 20]), "b"(out), "b"(at), "b"(area) : "r8", "r9", "r10", "r11", "r12", "memory"); \\
    digest(out, 16); \\
    digest(area, 64); \\
  } \\
  line(text, sum); \\
} while (0)
int main(int argc, char **argv) {
  static const u8 corners[8] = {0, 0xff, 0x80, 0x7f, 1, 0xfe, 0x0f, 0x55};
  for (int i = 0; i < 20; i++)
    for (int j = 0; j < 16; j++) in[i][j] = i < 8 ? corners[i] : i < 12 ? corners[next64() & 7] : (u8)(next64() >> 20);
  // Limits of elements of 2, 4 and 8 bytes, and what two products of halfwords do not fit into.
  for (int i = 12; i < 15; i++) {
    int bytes = 2 << (i - 12);
    for (int j = 0; j < 16; j += bytes) {
      u64 top = (u64)1 << (8 * bytes - 1);
      u64 value = (u64[]){top, top - 1, -(u64)1, 1}[next64() >> 20 & 3];
      for (int k = 0; k < bytes; k++) in[i][j + k] = value >> (8 * (bytes - 1 - k));
    }
  }
  for (int j = 0; j < 16; j++) in[15][j] = j & 1 ? 0 : 0x80;
  for (int j = 0; j < 16; j++) in[19][j] = in[18][j];
  in[19][5] ^= 1;
${fill}${cases.map((text) => `  CASE("${escaped(text)}");`).join('\n')}
${accesses.map((text) => `  ACCESS("${escaped(text)}");`).join('\n')}
  flush();
  return 0;
}
`;
