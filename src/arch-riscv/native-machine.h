/*
 * What the slow way of a self-tracing program needs of RISC-V under Linux with glibc or musl: system calls,
 * the counter, the thread register. SPDX-License-Identifier: MIT
 */
#ifndef ELFTRACE_NATIVE_MACHINE_H
#define ELFTRACE_NATIVE_MACHINE_H

#include "native.h"

#include "native-calls.h"

/* Records of function_graph lie at multiples of 4, where a store of 8 bytes may trap. */
#define UNITS_APART

enum { NORESERVE = 0x4000, O_NOFOLLOW_ = 0x20000 };

static inline long system_call(long number, long a, long b, long c, long d, long e, long f)
{
  register long a7 __asm__("a7") = number;
  register long a0 __asm__("a0") = a;
  register long a1 __asm__("a1") = b;
  register long a2 __asm__("a2") = c;
  register long a3 __asm__("a3") = d;
  register long a4 __asm__("a4") = e;
  register long a5 __asm__("a5") = f;
  __asm__ volatile("ecall"
                   : "+r"(a0)
                   : "r"(a7), "r"(a1), "r"(a2), "r"(a3), "r"(a4), "r"(a5)
                   : "memory");
  return a0;
}

static inline u64 counter(void)
{
  u64 value;
  __asm__ volatile("rdtime %0" : "=r"(value));
  return value;
}

static inline u64 thread_register(void)
{
  u64 value;
  __asm__ volatile("mv %0, tp" : "=r"(value));
  return value;
}

/* The slow way saves these, from its stack pointer on: ra, t0, t2, a0 to a7. */
#define HAS_VALUES

/* What the runtime is compiled without: programs of this ABI have it. */
#define FLOATING_CASE(n) \
  case n: \
    __asm__ volatile(".option push\n\t.option arch, +d\n\tfmv.x.d %0, fa" #n "\n\t.option pop" : "=r"(*to)); \
    break;

/* fa0 to fa7, where 32 bits lie below. The compiler uses none of them here. */
static inline void floating_register(u32 place, u32 bytes, u64 *to)
{
  (void)bytes;
  switch (place) {
    EIGHT_FLOATING_CASES
  }
}

#include "native-blocks.h"

#endif
