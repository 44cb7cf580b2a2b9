/**
 * `run --cpu`: what programs find that the processor has, and that libraries which choose code for
 * it do the same as before.
 */
import { writeFileSync } from 'node:fs';
import { describe, expect, test } from '@jest/globals';
import { arm64Emulation } from '../src/arch-arm64/emulation.js';
import { elftrace } from './support/cli.js';
import { scratch } from './support/c-programs.js';
import { run } from './support/run.js';
import { outputOf, spawnSync } from './support/spawn.js';
import { describeWith, runProgramFile } from './support/tools.js';

const ARM64_GCC = 'aarch64-linux-gnu-gcc';

/** Functions of the C library with a variant for SSE4.2, and loops that compilers make of v2. */
const STRINGS = `
#include <stdio.h>
#include <string.h>
#include <stdlib.h>
static int numbers[256];
static short halves[256];
int main(void) {
  static char text[4096], word[16];
  unsigned state = 1;
  for (int i = 0; i < 4095; i++) text[i] = 'a' + (state = state * 1103515245 + 12345, state >> 24) % 6;
  long sum = 0;
  for (int i = 0; i < 200; i++) {
    memcpy(word, text + i * 17, 5);
    word[5] = 0;
    char *found = strstr(text + i, word);
    sum = sum * 31 + (found ? found - text : -1) + strcspn(text + i, "fx") + strspn(text + i, "abc");
    sum += memcmp(text + i, text + 3 * i, 700) > 0;
    sum ^= strcasecmp(text + i, text + 2 * i) < 0;
    memmove(text + 100 + i, text + 90, 300);
    numbers[i] = (int)(sum ^ sum >> 13);
    halves[i] = (short)sum;
  }
  long low = 1 << 30, all = 0;
  double mean = 0;
  for (int i = 0; i < 256; i++) {
    low = numbers[i] < low ? numbers[i] : low;
    all += (long)numbers[i] * halves[i] + __builtin_popcount(numbers[i]);
    mean += __builtin_floor(numbers[i] / 3.0) + __builtin_rint(halves[i] * 0.37);
  }
  printf("%ld %ld %ld %.17g %s\\n", sum, low, all, mean, __builtin_cpu_supports("sse4.2") ? "sse4.2" : "none");
  return 0;
}
`;

describeWith(['gcc'], 'x86-64', () => {
  test.each([
    ['x86-64', false],
    ['x86-64-v2', true],
  ])('the dynamic loader finds what %s has', (cpu, isThere) => {
    const { status, stdout } = run(['--cpu', cpu, '--root', '/', '/lib64/ld-linux-x86-64.so.2', '--help']);
    expect(status).toBe(0);
    expect(stdout).toMatch(/\n  x86-64-v3\n/);
    expect(/\n  x86-64-v2 \(supported, searched\)\n/.test(stdout)).toBe(isThere);
  });

  test('a program of x86-64-v2 does what it does on this processor', () => {
    const [source, program] = [scratch('strings.c'), scratch('strings')];
    writeFileSync(source, STRINGS);
    outputOf('gcc', ['-O3', '-march=x86-64-v2', '-D_GNU_SOURCE', '-w', '-static', source, '-o', program]);
    const here = run(['--cpu', 'x86-64-v2', program]);
    expect(here.stdout).toBe(runProgramFile(program).stdout);
    expect(here.stdout).toMatch(/ sse4\.2\n$/);
    const base = run([program]);
    expect(base.stdout).toBe(here.stdout.replace('sse4.2', 'none'));
  });
});

/** A block of AES and of the hashes, and what the program is told. */
const CRYPTOGRAPHY = `
#include <arm_neon.h>
#include <stdio.h>
#include <sys/auxv.h>
int main(void) {
  uint8x16_t block = vdupq_n_u8(0x5a), key = vdupq_n_u8(0x13);
  uint32x4_t a = vdupq_n_u32(0x67452301), b = vdupq_n_u32(0xefcdab89), w = vdupq_n_u32(0x12345678);
  for (int i = 0; i < 20; i++) {
    block = vaesmcq_u8(vaeseq_u8(block, key));
    key = vaesimcq_u8(vaesdq_u8(key, block));
    a = vsha1cq_u32(a, vsha1h_u32(vgetq_lane_u32(b, 0)), w);
    b = vsha256hq_u32(b, a, w);
    w = vsha256su1q_u32(vsha256su0q_u32(w, a), b, a);
  }
  poly128_t product = vmull_p64(vgetq_lane_u64(vreinterpretq_u64_u8(block), 0), vgetq_lane_u64(vreinterpretq_u64_u32(w), 1));
  printf("%llx %llx %x %x\\n", (unsigned long long)product, (unsigned long long)(product >> 64), vgetq_lane_u32(a, 2), vgetq_lane_u32(b, 1));
  unsigned long isar;
  __asm__("mrs %0, s3_0_c0_c6_0" : "=r"(isar));
  printf("%lx %lx\\n", getauxval(AT_HWCAP) & 0x78, isar & 0xfff0);
  return 0;
}
`;

/** Of ARMv8.2, and what the program is told of it. */
const ARMV8_2 = `
#include <arm_neon.h>
#include <stdio.h>
#include <sys/auxv.h>
int main(void) {
  uint64x2_t a = vdupq_n_u64(0x6a09e667f3bcc908), b = vdupq_n_u64(0xbb67ae8584caa73b);
  int16x8_t r = vdupq_n_s16(-12345);
  uint32x4_t d = vdupq_n_u32(7);
  for (int i = 0; i < 20; i++) {
    a = vsha512hq_u64(a, b, vsha512su0q_u64(b, a));
    b = vsha512h2q_u64(b, a, vsha512su1q_u64(a, b, b));
    a = vxarq_u64(veor3q_u64(a, b, vrax1q_u64(b, a)), b, 13);
    r = vqrdmlahq_s16(r, vreinterpretq_s16_u64(a), vqrdmlshq_laneq_s16(r, vreinterpretq_s16_u64(b), r, 3));
    d = vdotq_laneq_u32(vdotq_u32(d, vreinterpretq_u8_u64(a), vreinterpretq_u8_u64(b)), vreinterpretq_u8_s16(r), vreinterpretq_u8_u64(b), 2);
  }
  float16x8_t h = vcvtq_f16_u16(vreinterpretq_u16_u64(a)), g = vrndaq_f16(vdivq_f16(h, vdupq_n_f16(3)));
  h = vfmaq_f16(vsqrtq_f16(vabsq_f16(h)), g, vrecpeq_f16(h));
  float32x4_t s = vfmlalq_laneq_high_f16(vfmlslq_low_f16(vdupq_n_f32(1), h, g), g, h, 5);
  printf("%llx %llx %x %x %g %g\\n", (unsigned long long)vgetq_lane_u64(a, 0), (unsigned long long)vgetq_lane_u64(b, 1), vgetq_lane_s16(r, 5) & 0xffff, vgetq_lane_u32(d, 2), (double)vmaxvq_f16(h), (double)vgetq_lane_f32(s, 2));
  unsigned long isar, pfr;
  __asm__("mrs %0, s3_0_c0_c6_0" : "=r"(isar));
  __asm__("mrs %0, s3_0_c0_c4_0" : "=r"(pfr));
  printf("%lx %lx %lx\\n", getauxval(AT_HWCAP) & 0xb21600, isar & 0xff00ff000f000, pfr >> 16 & 0xff);
  return 0;
}
`;

describeWith([ARM64_GCC, 'qemu-aarch64'], 'arm64', () => {
  test('half precision, RDM, DotProd, SHA-512 and SHA-3 are what they are under qemu, and announced where asked for', () => {
    const [source, program] = [scratch('armv82.c'), scratch('armv82')];
    writeFileSync(source, ARMV8_2);
    outputOf(ARM64_GCC, ['-O1', '-march=armv8.2-a+fp16fml+dotprod+sha3', '-static', source, '-o', program]);
    const there = spawnSync('qemu-aarch64', ['-cpu', 'max', program], { encoding: 'utf8' }).stdout;
    expect(there).toMatch(/\nb21600 1100110002000 11\n$/);
    expect(run(['--cpu', 'armv8.2-a+fp16fml+dotprod+sha3', program]).stdout).toBe(there);
    expect(run([program]).stdout).toBe(there.replace('\nb21600 1100110002000 11\n', '\n0 0 0\n'));
  });

  test('cryptography is what it is under qemu, and announced where it was asked for', () => {
    const [source, program] = [scratch('cryptography.c'), scratch('cryptography')];
    writeFileSync(source, CRYPTOGRAPHY);
    outputOf(ARM64_GCC, ['-O1', '-march=armv8-a+crypto', '-static', source, '-o', program]);
    const there = spawnSync('qemu-aarch64', ['-cpu', 'cortex-a57', program], { encoding: 'utf8' }).stdout;
    expect(there).toMatch(/\n78 1120\n$/);
    expect(run(['--cpu', 'armv8-a+crypto', program]).stdout).toBe(there);
    for (const base of [['--cpu', 'armv8-a'], []]) {
      expect(run([...base, program]).stdout).toBe(there.replace('\n78 1120\n', '\n0 0\n'));
    }
  });
});

const PPC64LE_GCC = 'powerpc64le-linux-gnu-gcc';
/** What is announced, and sums of quad precision, in place of the features of x86. */
const POWER9 = STRINGS.replace('__builtin_cpu_supports("sse4.2") ? "sse4.2" : "none"', 'announced()')
  .replace('static int numbers', '#include <sys/auxv.h>\n#define announced() ((getauxval(AT_HWCAP2) & 0xc00000) == 0xc00000 ? "ISA 3.0" : "none")\nstatic int numbers')
  .replace('return 0;', '#ifdef __FLOAT128__\nvolatile __float128 quad = mean;\nprintf("%.17g\\n", (double)(quad * quad / 3 - all));\n#endif\nreturn 0;'); // prettier-ignore

describeWith([PPC64LE_GCC, 'qemu-ppc64le'], 'PowerPC 64, little-endian', () => {
  test('a program of POWER9 does what it does under qemu; without the option it stops with a name', () => {
    const [source, program] = [scratch('power9.c'), scratch('power9')];
    writeFileSync(source, POWER9);
    const flags = ['-O3', '-mcpu=power9', '-mfloat128', '-D_GNU_SOURCE', '-w', '-static'];
    outputOf(PPC64LE_GCC, [...flags, source, '-lm', '-o', program]);
    const there = spawnSync('qemu-ppc64le', ['-cpu', 'power9', program], { encoding: 'utf8' }).stdout;
    expect(there).toMatch(/ ISA 3\.0\n\S+\n$/);
    expect(run(['--cpu', 'power9', program]).stdout).toBe(there);
    const base = run([program]);
    expect([base.status, base.stderr]).toEqual([
      125,
      expect.stringMatching(/instruction \w+ at .* is decoded and not executed yet/),
    ]);
  });
});

describeWith([PPC64LE_GCC], 'names of the processor on PowerPC', () => {
  test('AT_PLATFORM, and AT_BASE_PLATFORM, which Linux tells on PowerPC alone and qemu does not', () => {
    const [source, program] = [scratch('platform.c'), scratch('platform')];
    const text =
      'int main(void) { printf("%s %s\\n", (char *)getauxval(AT_PLATFORM), (char *)getauxval(AT_BASE_PLATFORM)); }';
    writeFileSync(source, `#include <stdio.h>\n#include <sys/auxv.h>\n${text}\n`);
    outputOf(PPC64LE_GCC, ['-static', source, '-o', program]);
    expect(run([program]).stdout).toBe('power8 power8\n');
    expect(run(['--cpu', 'power9', program]).stdout).toBe('power9 power9\n');
  });
});

describe('--cpu', () => {
  test('a name that the machine does not have is refused with those that it has', () => {
    const { status, stderr } = elftrace(['run', '--cpu', 'x86-64', 'samples/built/arm64/program-mcount']);
    expect(status).toBe(125);
    expect(stderr).toMatch(/--cpu x86-64: .* has armv8-a \(.*\), armv8-a\+crypto \(.*\) \[usage\]/);
    const riscv = elftrace(['run', '--cpu', 'rva22', 'samples/built/riscv64/direct']);
    expect([riscv.status, riscv.stderr]).toEqual([125, expect.stringMatching(/--cpu rva22: .* has one processor/)]);
  });

  test('the first name of a list is what happens without the option', () => {
    expect(arm64Emulation.cpus![0]!.emulation()).toBe(arm64Emulation);
  });
});
