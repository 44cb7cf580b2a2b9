/* What the loaded core and its two modules share. SPDX-License-Identifier: MIT */
#include "sample.h"

#define NOINLINE __attribute__((noinline, noclone))

struct far_ops {
  const char *name;
  u32 (*run)(u32);
  u32 (*stop)(void);
};

/* core.c */
u32 core_register(const struct far_ops *ops);
u32 core_callback(u32 x);
u32 core_report(u32 x);
u32 core_sum(u32 count, ...);
extern u32 core_shared;

/* far-one.c */
typedef u32 far_function(u32);
u32 far_one_init(void);
u32 far_one_sum(u32 count, ...);
u32 far_one_recurse(u32 n);
void far_one_peer(far_function *peer);
u32 far_one_apply(far_function *function, u32 x);
extern u32 far_one_shared[8];

/* far-two.c */
u32 far_two_init(void);
