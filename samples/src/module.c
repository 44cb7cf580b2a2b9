/*
 * A module in shape: several text sections, calls of functions that somebody else defines, a tail call, data with
 * pointers to functions, .modinfo. Linked with module-util.c by `ld -r`, so that each table has two contributions.
 * SPDX-License-Identifier: MIT
 */
#include "sample.h"

#define INIT __attribute__((section(".init.text"), noinline))
#define EXIT __attribute__((section(".exit.text"), noinline))
#define INFO(name, text) \
  static const char info_##name[] __attribute__((section(".modinfo"), used, aligned(1))) = #name "=" text

INFO(license, "MIT");
INFO(description, "elftrace sample module");
INFO(name, "sample");

u32 util_scale(u32 x);
u32 util_report(u32 x);
u32 util_broken(u32 x);

static u32 runs;
static u32 history[4] = {1, 2, 3, 5};

/* Static, not a leaf. */
static __attribute__((noinline)) u32 remember(u32 x) {
  history[runs & 3] = util_scale(x);
  return history[(runs + 1) & 3];
}

u32 module_run(u32 x) {
  runs++;
  if (x == 0) return util_broken(runs);
  sample_log("run", x);
  return remember(x) + (u32)sample_clock();
}

/* A tail call across objects. */
u32 module_stop(void) { return util_report(runs); }

/* A leaf. */
u32 module_leaf(u32 x) { return x * 5 + 1; }

static const struct sample_ops ops = {"sample", module_run, module_stop};
u32 (*module_pointers[])(u32) = {module_run, module_leaf, util_report};

INIT u32 init_module(void) {
  u32 first = sample_register(&ops);
  sample_log("init", first);
  return 0;
}

EXIT void cleanup_module(void) {
  sample_log("exit", runs);
  sample_unregister(&ops);
}
