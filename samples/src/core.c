/*
 * A core that modules are loaded beside: it starts, lets them register, runs them through pointers and prints what came out. Works alone
 * too; the modules' names are weak. 9 functions with a site. SPDX-License-Identifier: MIT
 */
#include "far.h"

u32 far_one_init(void) __attribute__((weak));
u32 far_two_init(void) __attribute__((weak));
static u32 (*const volatile inits[])(void) = {far_one_init, far_two_init};

u32 core_shared = 17;
static const struct far_ops *registered[4];
static u32 count, reported;

/* A leaf. */
static NOINLINE u32 core_leaf(u32 x) { return x * 3 + 1; }

u32 core_register(const struct far_ops *ops) {
  if (count == 4) return 0;
  registered[count++] = ops;
  return count;
}

/* Called by modules; its data lie at the core's TOC. */
u32 core_callback(u32 x) {
  core_shared = core_shared * 5 + core_leaf(x);
  return core_shared >> 3;
}

u32 core_report(u32 x) {
  reported = reported * 31 + x;
  return reported;
}

u32 core_sum(u32 n, ...) {
  __builtin_va_list list;
  u32 r = 0;
  __builtin_va_start(list, n);
  for (u32 i = 0; i < n; i++) r = r * 7 + __builtin_va_arg(list, u32);
  __builtin_va_end(list);
  return r;
}

static NOINLINE u32 core_recurse(u32 n) { return n < 2 ? core_leaf(n) : core_recurse(n - 1) + n; }

/* What a processor without work does: nobody wants to see it in a trace. */
static NOINLINE u32 core_idle(u32 x) {
  for (volatile u32 i = 0; i < 3; i++) x += i;
  return x;
}

static NOINLINE u32 core_round(u32 x) {
  u32 r = core_idle(x);
  for (u32 i = 0; i < count; i++) {
    u32 result = registered[i]->run(x + i);
    sample_log(registered[i]->name, result);
    r = r * 33 + result + core_shared;
  }
  return r;
}

u32 program(void) {
  u32 sum = core_recurse(4);
  for (u32 i = 0; i < 2; i++) {
    if (inits[i] != 0) sum = sum * 33 + inits[i]();
  }
  sample_log("modules", count);
  for (u32 i = 0; i < 3; i++) sum = sum * 33 + core_round(i * 5 + 2);
  for (u32 i = 0; i < count; i++) sum = sum * 33 + registered[i]->stop();
  sum += core_sum(5, sum & 3, 1, 2, 3, reported & 7);
  sample_log("checksum", sum);
  return sum & 63;
}
