/*
 * Calls the hand-written functions of patchable-*.S and prints what they return. The functions are the same on each
 * machine, so the output is. Compiled without any site. SPDX-License-Identifier: MIT
 */
#include "sample.h"

u32 pf_leaf(u32 a, u32 b);
u32 pf_bump(u32 by);
u32 pf_chain(u32 x);
u32 pf_apply(u32 (*f)(u32), u32 x);
u32 pf_forward(u32 by);

u32 program(void) {
  sample_log("leaf", pf_leaf(4, 5));
  sample_log("bump", pf_bump(2));
  sample_log("bump", pf_bump(3));
  sample_log("chain", pf_chain(10));
  sample_log("apply", pf_apply(pf_bump, 1));
  sample_log("apply", pf_apply(pf_chain, 6));
  sample_log("forward", pf_forward(100));
  return 0;
}
