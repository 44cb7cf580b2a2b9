/*
 * What the slow way of a self-tracing program needs of 64-bit PowerPC under Linux with glibc:
 * system calls, the counter, the thread register. SPDX-License-Identifier: MIT
 */
#ifndef ELFTRACE_NATIVE_MACHINE_H
#define ELFTRACE_NATIVE_MACHINE_H

#include "native.h"

typedef unsigned long u64;
typedef unsigned int u32;

enum {
  SYS_READ = 3,
  SYS_CLOSE = 6,
  SYS_GETPID = 20,
  SYS_GETPPID = 64,
  SYS_MMAP = 90,
  SYS_MUNMAP = 91,
  SYS_FSTAT = 108,
  SYS_SCHED_YIELD = 158,
  SYS_PRCTL = 171,
  SYS_SIGPROCMASK = 174,
  SYS_PWRITE = 180,
  SYS_GETCWD = 182,
  SYS_MADVISE = 205,
  SYS_MINCORE = 206,
  SYS_GETTID = 207,
  SYS_CLOCK_GETTIME = 246,
  SYS_OPENAT = 286,
  SYS_FALLOCATE = 309,
  SYS_PRLIMIT = 325,
};

enum { NORESERVE = 0x40, O_NOFOLLOW_ = 0x8000, ENOMEM_ = -12 };

/* struct stat: device and number of a file are its first two words. */
#define STAT_BYTES 144

/* A failure is told by the summary overflow bit, its number is positive. */
static inline long system_call(long number, long a, long b, long c, long d, long e, long f)
{
  register long r0 __asm__("r0") = number;
  register long r3 __asm__("r3") = a;
  register long r4 __asm__("r4") = b;
  register long r5 __asm__("r5") = c;
  register long r6 __asm__("r6") = d;
  register long r7 __asm__("r7") = e;
  register long r8 __asm__("r8") = f;
  __asm__ volatile("sc\n\tbns+ 1f\n\tneg 3, 3\n1:"
                   : "+r"(r0), "+r"(r3), "+r"(r4), "+r"(r5), "+r"(r6), "+r"(r7), "+r"(r8)
                   :
                   : "r9", "r10", "r11", "r12", "cr0", "ctr", "memory");
  return r3;
}

static inline u64 counter(void)
{
  u64 value;
  __asm__ volatile("mftb %0" : "=r"(value));
  return value;
}

/* Where the control block ends; 0 before a C library has set r13. */
static inline u64 thread_register(void)
{
  u64 value;
  __asm__ volatile("mr %0, 13" : "=r"(value));
  return value ? value - THREAD_BIAS : 0;
}

#include "native-glibc.h"

#endif
