/*
 * A second far module, which uses the first one and the core. 8 functions with a site. SPDX-License-Identifier: MIT
 */
#include "far.h"

static u32 calls;
static u64 wide_state = 0x123456789abcdefull;

/* A leaf. */
static NOINLINE u32 two_leaf(u32 x) { return x + 9; }

static NOINLINE u32 two_mix(u32 a, u32 b, u32 c, u32 d, u32 e, u32 f, u32 g, u32 h) {
  calls++;
  return a + 2 * b + 3 * c + 4 * d + 5 * e + 6 * f + 7 * g + 8 * two_leaf(h);
}

static NOINLINE u64 two_wide(u64 x) {
  wide_state = (wide_state << 5) ^ (wide_state >> 7) ^ x;
  return wide_state + calls;
}

static u32 two_peer(u32 n) {
  calls += 3;
  return n == 0 ? two_leaf(calls) : far_one_recurse(n - 1) + calls;
}

static NOINLINE u32 two_data(u32 x) {
  u32 r = far_one_apply(two_leaf, x) + far_one_shared[x & 7];
  calls += r & 3;
  return r + core_callback(calls);
}

static u32 two_run(u32 x) {
  u32 r = two_mix(x, 1, 2, 3, 4, 5, 6, x + 1) + two_data(x);
  r += far_one_sum(6, x, r, calls, 4, 5, 6);
  u64 w = two_wide(r);
  return r ^ (u32)w ^ (u32)(w >> 32);
}

static u32 two_stop(void) { return core_report(calls) + two_leaf(calls); }

static const struct far_ops ops = {"two", two_run, two_stop};

u32 far_two_init(void) {
  far_one_peer(two_peer);
  return core_register(&ops);
}
