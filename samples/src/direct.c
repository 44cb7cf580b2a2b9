/*
 * Functions with a direct caller. `traced` runs once; the exit status is 10 times the runs of its body, 100 times those of what replaces it, and the
 * runs of the direct caller: 11 when both ran, 10 without the direct caller. 3 functions with a site. SPDX-License-Identifier: MIT
 */
#include "sample.h"

#define NOINLINE __attribute__((noinline, noclone))
#define UNTRACED __attribute__((noinline, noclone, patchable_function_entry(0)))

u32 bodies, directs, others, callbacks, replacements;
/* What a callback found in the words of the frame that matter: resume address, t0, t1. */
word seen[3];

NOINLINE u32 traced(u32 a, u32 b, u32 c, u32 d, u32 e, u32 f, u32 g, u32 h) {
  bodies++;
  return a + 2 * b + 3 * c + 4 * d + 5 * e + 6 * f + 7 * g + 8 * h;
}

NOINLINE u32 other(u32 x) {
  others++;
  return x * 5 + 1;
}

NOINLINE u32 third(u32 x) {
  others += 2;
  return x ^ 0x55;
}

/* What a live patch has instead of `traced`. */
UNTRACED u32 replacement(u32 a, u32 b, u32 c, u32 d, u32 e, u32 f, u32 g, u32 h) {
  replacements++;
  return a + 2 * b + 3 * c + 4 * d + 5 * e + 6 * f + 7 * g + 8 * h;
}

/* Callbacks: void f(ip, parent_ip, ops, regs). */
UNTRACED void callback(word ip, word parent_ip, void *ops, word *regs) {
  callbacks++;
  seen[0] = regs[0];
  seen[1] = regs[5];
  seen[2] = regs[6];
}

UNTRACED void livepatch(word ip, word parent_ip, void *ops, word *regs) { regs[0] = (word)replacement; }

/* What the direct callers call. */
UNTRACED void direct_count(u32 number) { directs += number; }

UNTRACED u32 program(void) {
  u32 sum = traced(1, 2, 3, 4, 5, 6, 7, 8);
  sum = sum * 3 + other(sum);
  sum = sum * 3 + third(sum);
  sample_log("sum", sum);
  sample_log("bodies", bodies);
  sample_log("directs", directs);
  sample_log("others", others);
  sample_log("callbacks", callbacks);
  sample_log("replacements", replacements);
  return 100 * replacements + 10 * bodies + directs;
}
