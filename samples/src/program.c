/*
 * The sample program: one function for each thing that a compiler does differently at a function entry. Every result is
 * printed, so that a patched copy can be compared with the original by its output. Freestanding, integers only, and the
 * same lines on 32 and 64 bits and in both byte orders. SPDX-License-Identifier: MIT
 */
#include "sample.h"

/* A function that is called, not inlined, cloned or evaluated at compile time: its site is then really passed. */
#ifdef __clang__
#define TRACED __attribute__((noinline))
#else
#define TRACED __attribute__((noipa))
#endif

struct triple {
  u64 first;
  u64 second;
  u32 third;
};

static u32 counter = 7;

/* Leaf: no frame, and on PowerPC no use of the TOC. */
TRACED u32 leaf(u32 a, u32 b) { return a * 3 + b; }

/* Static and not a leaf; changes a global, so ELFv2 needs r2 and gets two entries. */
TRACED static u32 bump(u32 by) {
  counter += leaf(by, 1);
  return counter;
}

/* Not compiled with a call to mcount; -fpatchable-function-entry ignores the attribute and leaves nops. */
TRACED __attribute__((no_instrument_function)) u32 quiet(u32 x) { return x ^ 0x5a5a; }

/* Really recursive: no accumulator makes a loop of it. */
TRACED u32 recurse(u32 n) { return n == 0 ? 1 : (recurse(n - 1) * 31) ^ n; }

TRACED u32 sum(u32 count, ...) {
  __builtin_va_list list;
  u32 total = 0;
  __builtin_va_start(list, count);
  for (u32 i = 0; i < count; i++) total += __builtin_va_arg(list, u32);
  __builtin_va_end(list);
  return total;
}

/* More arguments than any ABI here has registers for: the rest is on the stack, above what a trampoline allocates. */
TRACED u32 many(u32 a, u32 b, u32 c, u32 d, u32 e, u32 f, u32 g, u32 h, u32 i, u32 j) {
  return a + 2 * b + 3 * c + 4 * d + 5 * e + 6 * f + 7 * g + 8 * h + 9 * i + 10 * j;
}

/* Returned in memory: the hidden pointer is one more live argument (x8 on arm64). */
TRACED struct triple make_triple(u32 seed) {
  struct triple result;
  result.first = seed + 1ull;
  result.second = ((u64)seed << 33) | 5;
  result.third = seed * 7;
  return result;
}

TRACED u64 mix64(u64 x) {
  x ^= x >> 33;
  x *= 0xff51afd7ed558ccdull;
  x ^= x >> 29;
  x += 0x0123456789abcdefull;
  return (x << 13) | (x >> 51);
}

/* Dense cases with different expressions: a jump table. */
TRACED u32 classify(u32 kind, u32 x) {
  switch (kind) {
    case 0: return x + 11;
    case 1: return x * 5;
    case 2: return x ^ 0xff;
    case 3: return x << 4;
    case 4: return leaf(x, kind);
    case 5: return ~x;
    case 6: return x - 1000;
    case 7: return x >> 1;
    case 8: return x | 0x8000;
    default: return 0xdead;
  }
}

/* In .text.unlikely. */
TRACED __attribute__((cold)) u32 cold_path(u32 x) {
  sample_log("cold", x);
  return x + 1;
}

/* The branch to a cold function is what GCC splits off as guard.cold, a part of a function that has no site of its own. */
TRACED u32 guard(u32 x) {
  if (x > 100) {
    counter += cold_path(x);
    sample_log("guard", counter);
  }
  return x + counter;
}

/* Overridden by override.c: this body stays in the linked text without a symbol, and so does its entry in the table. */
TRACED __attribute__((weak)) u32 hook(u32 x) { return x + 0xbad; }

/* A tail call where the ABI allows one. */
TRACED u32 forward(u32 x) { return leaf(x, 9); }

typedef u32 (*operation)(u32);

static const operation operations[] = {quiet, recurse, forward, hook};

TRACED u32 apply(operation f, u32 x) { return f(x) + 1; }

/* A nested function receives the frame of the outer one in the static chain register, which is live at its site. */
#ifndef __clang__
TRACED u32 outer(u32 x) {
  u32 state = x;
  TRACED u32 inner(u32 y) {
    state += y;
    return state;
  }
  return inner(3) + inner(4);
}
#else
TRACED static u32 inner(u32 *state, u32 y) {
  *state += y;
  return *state;
}
TRACED u32 outer(u32 x) {
  u32 state = x;
  return inner(&state, 3) + inner(&state, 4);
}
#endif

TRACED u32 checksum(const char *text) {
  u32 a = 1, b = 0;
  for (; *text != 0; text++) {
    a = (a + (unsigned char)*text) & 0xffff;
    b = (b + a) & 0xffff;
  }
  return (b << 16) | a;
}

TRACED u32 program(void) {
  struct triple t;
  sample_log("leaf", leaf(4, 5));
  sample_log("bump", bump(2));
  sample_log("quiet", quiet(0x1234));
  sample_log("recurse", recurse(9));
  sample_log("sum", sum(6, 1u, 2u, 3u, 4u, 5u, 60u));
  sample_log("sum", sum(12, 1u, 2u, 3u, 4u, 5u, 6u, 7u, 8u, 9u, 10u, 11u, 12u));
  sample_log("many", many(1, 2, 3, 4, 5, 6, 7, 8, 9, 10));
  t = make_triple(21);
  sample_log("triple", t.first + t.second + t.third);
  sample_log("mix64", mix64(0x123456789abcdefull));
  for (u32 kind = 0; kind < 10; kind++) sample_log("classify", classify(kind, 77));
  sample_log("guard", guard(5));
  sample_log("guard", guard(500));
  sample_log("hook", hook(1));
  for (u32 i = 0; i < sizeof operations / sizeof operations[0]; i++) sample_log("apply", apply(operations[i], i + 2));
  sample_log("outer", outer(10));
  sample_log("checksum", checksum("The quick brown fox"));
  return 0;
}
