/**
 * The control register of RISC-V's floating point under each instruction that reads or writes it,
 * against qemu: what was there, what is there, and what the next operation makes of it. Tier 0
 * and compiled code.
 */
import { expect, test } from '@jest/globals';
import { buildProgram, PROGRAMS, RISCV_TARGETS, runHere, runQemu } from './support/c-programs.js';
import { writeSource } from './support/emulator.js';
import { describeWith } from './support/tools.js';

const GC = RISCV_TARGETS.find(({ name }) => name === 'rv64gc');

const REGISTERS = ['fflags', 'frm', 'fcsr'];
const FORMS = ['csrrw', 'csrrs', 'csrrc'];
/** Of 5 bits, which immediates hold, and larger ones. */
const IMMEDIATES = [0, 1, 2, 3, 5, 8, 16, 31];
const VALUES = ['0', '1', '0x21', '0x5f', '0x80', '0xff', '0x123456789abcdef0', '-1ul'];

/** One case of a form: from a value of `fcsr` to the next sum, which rounds. */
const cases = FORMS.flatMap((form) =>
  REGISTERS.flatMap((register) => [
    ...IMMEDIATES.map((value) => `CASE("${form}i %0, ${register}, ${value}", 0)`),
    ...VALUES.map((value) => `CASE("${form} %0, ${register}, %1", ${value})`),
    `CASE("${form} %1, ${register}, %1\\n mv %0, %1", 0x42)`,
    `CASE("${form} zero, ${register}, %1\\n li %0, 7", 0x42)`,
    `CASE("${form} %0, ${register}, zero", 0)`,
  ]),
);

const SOURCE = `
#include "lib.h"
static volatile double one = 1.0, tiny = 1e-20;
#define CASE(text, with)                                                                        \\
  for (int i = 0; i < 6; i++) {                                                                 \\
    word start = starts[i], old, value = with, now, after;                                      \\
    double sum;                                                                                 \\
    __asm__ volatile("fscsr %0" : : "r"(start));                                                \\
    __asm__ volatile(text : "=&r"(old), "+r"(value));                                           \\
    __asm__ volatile("frcsr %0" : "=r"(now));                                                   \\
    if ((now >> 5) < 5) {                                                                       \\
      __asm__ volatile("fadd.d %0, %1, %2" : "=f"(sum) : "f"(one), "f"(tiny));                  \\
    } else sum = 0;                                                                             \\
    __asm__ volatile("frflags %0" : "=r"(after));                                               \\
    union { double d; u64 u; } bits = {sum};                                                    \\
    line("", old), line("", now), line("", bits.u), line("", after);                            \\
  }
static const word starts[6] = {0, 1, 0x1f, 0x20, 0x63, 0x9e};
__attribute__((noinline)) static void all(void) {
  ${cases.join('\n  ')}
}
int main(void) {
  for (int i = 0; i < 3; i++) all();
  flush();
  return 0;
}
`;

describeWith(['riscv64-linux-gnu-gcc', 'qemu-riscv64'], 'csrrw, csrrs, csrrc and their immediates', () => {
  test.each([0, 1] as const)('tier %i does with fflags, frm and fcsr what qemu does', (tier) => {
    const path = buildProgram(GC!, '2', [writeSource('fcsr-riscv.c', SOURCE)], ['-I', PROGRAMS]);
    const expected = runQemu(GC!, path);
    expect(expected.end).toBe(0);
    expect(expected.output.split('\n').length).toBeGreaterThan(10_000);
    expect(runHere(GC!, path, { tier })).toMatchObject(expected);
  });
});
