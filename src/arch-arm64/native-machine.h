/*
 * What the slow way of a self-tracing program needs of arm64 under Linux with glibc or musl: system calls,
 * the counter, the thread register. SPDX-License-Identifier: MIT
 */
#ifndef ELFTRACE_NATIVE_MACHINE_H
#define ELFTRACE_NATIVE_MACHINE_H

#include "native.h"

#include "native-calls.h"

enum { NORESERVE = 0x4000, O_NOFOLLOW_ = 0x8000 };

static inline long system_call(long number, long a, long b, long c, long d, long e, long f)
{
  register long x8 __asm__("x8") = number;
  register long x0 __asm__("x0") = a;
  register long x1 __asm__("x1") = b;
  register long x2 __asm__("x2") = c;
  register long x3 __asm__("x3") = d;
  register long x4 __asm__("x4") = e;
  register long x5 __asm__("x5") = f;
  __asm__ volatile("svc #0"
                   : "+r"(x0)
                   : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
                   : "memory");
  return x0;
}

static inline u64 counter(void)
{
  u64 value;
  __asm__ volatile("mrs %0, cntvct_el0" : "=r"(value));
  return value;
}

static inline u64 thread_register(void)
{
  u64 value;
  __asm__ volatile("mrs %0, tpidr_el0" : "=r"(value));
  return value;
}

/* The slow way saves these, from its stack pointer on: x9, x30, x0 to x8. */
#define HAS_VALUES

#define FLOATING_CASE(n) \
  case n: \
    if (bytes > 8) __asm__ volatile("str q" #n ", %0" : "=Q"(*(u8 (*)[16])to)); \
    else __asm__ volatile("fmov %0, d" #n : "=r"(*to)); \
    break;

/* Low half of v0 to v7, or all of it. The compiler uses none of them here. */
static inline void floating_register(u32 place, u32 bytes, u64 *to)
{
  switch (place) {
    EIGHT_FLOATING_CASES
  }
}

#include "native-blocks.h"

#endif
