/**
 * Roots, integers and kinds of numbers of x87 against the processor of this machine: squares and
 * their neighbours, halves and theirs, all lengths of numbers, in each rounding mode.
 */
import { expect, test } from '@jest/globals';
import { x86Lifter } from '../src/arch-x86/lift.js';
import { buildProgram, runHere, X86_TARGETS } from './support/c-programs.js';
import { writeSource } from './support/emulator.js';
import { times } from './support/long.js';
import { describeWith, runProgramFile } from './support/tools.js';

const [target] = X86_TARGETS;

/** Sums of what many numbers give, a line for each sort of them and each rounding mode. */
const PROGRAM = (count: number): string => `
#include "lib.h"
static u64 state = 88172645463325252ull;
static u64 next(void) {
  state ^= state << 13; state ^= state >> 7; state ^= state << 17;
  return state;
}
struct number { u64 significand; u16 upper; u16 rest[3]; };
static u64 sum;
static void add(u64 value) { sum = (sum ^ value) * 0x9e3779b97f4a7c15ull; sum ^= sum >> 29; }
#define APPLY(text) do { \\
  struct number out = {0}; u16 status; \\
  __asm__ volatile("fnclex\\n fldt %2\\n " text "\\n fnstsw %1\\n fstpt %0" \\
                   : "=m"(out), "=m"(status) : "m"(in) : "memory"); \\
  add(out.significand); add(out.upper); add(status); } while (0)
static void apply(u64 significand, unsigned upper) {
  struct number in = {significand, (u16)upper, {0}};
  APPLY("fsqrt"); APPLY("frndint"); APPLY("fxam");
}
/* A number above 0 as 64 bits, with its exponent near 2^0 and far from it. */
static void around(u64 value) {
  int zeros = __builtin_clzll(value);
  for (int step = -2; step <= 2; step++) {
    u64 significand = (value << zeros) + step;
    if (!(significand >> 63)) significand = -1ull;
    for (int moved = 0; moved < 4; moved++) apply(significand, 16383 + 63 - zeros - moved);
    apply(significand, next() % 0x8000);
    apply(significand, 0x8000 | (16383 + next() % 70));
  }
}
int main(void) {
  for (int mode = 0; mode < 4; mode++) {
    u16 control = 0x37f | mode << 10;
    __asm__ volatile("fldcw %0" : : "m"(control));
    for (int i = 0; i < ${count}; i++) { u32 root = next() | 1; around((u64)root * root); }
    line("squares", sum);
    for (int i = 0; i < ${count}; i++) { u64 whole = next() >> next() % 62 | 1; around(whole); }
    line("any", sum);
    for (int i = 0; i < 64; i++) {
      around(1ull << i); around(-1ull >> i); around(3ull << i); around(-1ull << i);
    }
    line("bounds", sum);
    for (int upper = 0; upper < 0x10000; upper += 0x1fff) {
      apply(0, upper), apply(1, upper), apply(1ull << 62, upper);
      apply(1ull << 63, upper), apply(3ull << 62, upper);
    }
    line("special", sum);
  }
  flush();
  return 0;
}
`;

describeWith(['gcc'], 'x87 on the top of the stack alone', () => {
  test('squares, halves, bounds and their neighbours: as on this processor, in both tiers', () => {
    const program = buildProgram(target!, '1', [writeSource('unary.c', PROGRAM(times(4000, 1000, 300)))]);
    const expected = runProgramFile(program);
    expect(expected.stdout.split('\n')).toHaveLength(17);
    for (const tier of [0, 1] as const) {
      const here = runHere(target!, program, { tier });
      expect(here.end).toBe(0);
      expect(here.output.split('\n')).toEqual(expected.stdout.split('\n'));
    }
  });
});

test('fsqrt, frndint and fxam stay in compiled code', () => {
  for (const modRm of [0xfa, 0xfc, 0xe5]) {
    const block = x86Lifter.lift(Uint8Array.of(0xd9, modRm), 0x1_0000n, { maxInstructions: 1, startsAt: () => false });
    expect(block.ops.map(({ op }) => op)).toContain('x87unary');
    expect(block.terminator.kind).not.toBe('helper');
  }
});
