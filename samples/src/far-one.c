/*
 * A module that lies far from the core: calls of the core and back, own data at its own TOC after calls, varargs, function pointers, a
 * tail call of the core. 9 functions with a site. SPDX-License-Identifier: MIT
 */
#include "far.h"

u32 far_one_shared[8] = {3, 1, 4, 1, 5, 9, 2, 6};
static u32 runs = 1;
static far_function *peer_function;

/* A leaf. */
static NOINLINE u32 one_leaf(u32 x) { return x ^ (x << 3); }

u32 far_one_sum(u32 n, ...) {
  __builtin_va_list list;
  u32 r = runs;
  __builtin_va_start(list, n);
  for (u32 i = 0; i < n; i++) r = r * 11 + __builtin_va_arg(list, u32);
  __builtin_va_end(list);
  return r;
}

void far_one_peer(far_function *peer) { peer_function = peer; }

u32 far_one_apply(far_function *function, u32 x) {
  u32 r = function(x);
  /* A datum of this module, after a call that may have left another TOC. */
  far_one_shared[r & 7] += runs;
  return r + far_one_shared[(r + 1) & 7];
}

/* Recursion through the peer, back and forth between two modules. */
u32 far_one_recurse(u32 n) { return n == 0 || peer_function == 0 ? one_leaf(n) : peer_function(n - 1) + n; }

static NOINLINE u32 one_data(u32 x) {
  u32 r = core_callback(x);
  runs += 2;
  return r + far_one_shared[x & 7] + core_shared;
}

static u32 one_run(u32 x) {
  u32 r = one_data(x) + far_one_apply(one_leaf, x);
  r += far_one_apply(core_callback, x + 1);
  return r * 3 + far_one_recurse(x & 7) + core_sum(3, x, r, runs);
}

/* A tail call into another object. */
static u32 one_stop(void) { return core_report(runs); }

static const struct far_ops ops = {"one", one_run, one_stop};

u32 far_one_init(void) { return core_register(&ops); }
