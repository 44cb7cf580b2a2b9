/*
 * What the slow way of a self-tracing program needs of PowerPC under Linux with glibc or musl: system calls,
 * the counter, the thread register; of 32 bits the addresses of data, too. SPDX-License-Identifier:
 * MIT
 */
#ifndef ELFTRACE_NATIVE_MACHINE_H
#define ELFTRACE_NATIVE_MACHINE_H

#include "native.h"

enum {
  SYS_READ = 3,
  SYS_CLOSE = 6,
  SYS_GETPID = 20,
  SYS_GETPPID = 64,
  SYS_MMAP = 90,
  SYS_MUNMAP = 91,
  SYS_SCHED_YIELD = 158,
  SYS_PRCTL = 171,
  SYS_SIGPROCMASK = 174,
  SYS_PWRITE = 180,
  SYS_GETCWD = 182,
  SYS_MADVISE = 205,
  SYS_MINCORE = 206,
  SYS_GETTID = 207,
  SYS_CLOCK_GETTIME = 246,
  SYS_TGKILL = 250,
  SYS_OPENAT = 286,
  SYS_MKNODAT = 288,
  SYS_UNLINKAT = 292,
  SYS_FALLOCATE = 309,
  SYS_PRLIMIT = 325,
  SYS_PROCESS_VM_READV = 351,
  SYS_RENAMEAT2 = 357,
};

enum { NORESERVE = 0x40, O_NOFOLLOW_ = 0x8000, ENOMEM_ = -12 };

/* struct stat: device and number of a file are its first two words of 64 bits. */
#ifdef __powerpc64__
#define SYS_FSTAT 108
#define STAT_BYTES 144
#else
#define SYS_FSTAT 197
#define STAT_BYTES 104
/* Numbers of 64 bits in pairs of registers, the first of which has an odd number. */
#define FALLOCATE(file, from, size) system_call(SYS_FALLOCATE, file, 0, 0, (long)(from), 0, (long)(size))
#define PWRITE(file, at, size, from) \
  system_call(SYS_PWRITE, file, (long)(at), (long)(size), 0, 0, (long)(from))
#endif

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

#ifdef __powerpc64__
static inline u64 counter(void)
{
  u64 value;
  __asm__ volatile("mftb %0" : "=r"(value));
  return value;
}

#define THREAD_REGISTER "13"
#else
static inline u64 counter(void)
{
  u32 upper, lower, again;
  do __asm__ volatile("mftbu %0\n\tmftb %1\n\tmftbu %2" : "=r"(upper), "=r"(lower), "=r"(again));
  while (upper != again);
  return (u64)upper << 32 | lower;
}

/*
 * Addresses are told from where the code is: what compilers make of them here is a table that
 * somebody would have to relocate.
 */
#define NEAR(place, more)                                                                         \
  ({                                                                                              \
    word at_;                                                                                     \
    __asm__("bcl 20, 31, 77f\n77:\tmflr %0\n\t"                                                   \
            "addis %0, %0, (" place " - 77b)@ha\n\taddi %0, %0, (" place " - 77b)@l\n" more       \
            : "=b"(at_) : : "lr");                                                                \
    (void *)at_;                                                                                  \
  })
#define ADDRESS(symbol) NEAR(#symbol, "")
#define TEXT(text) \
  ((const char *)NEAR("78f", "\t.pushsection .rodata\n78:\t.asciz " #text "\n\t.popsection\n"))
#define native_slot (*(volatile long *)NEAR("native_slot", ""))
#define native_spans ((volatile word *)NEAR("native_spans", ""))
#define native_thread (*(volatile word *)NEAR("native_thread", ""))
#define THREAD_REGISTER "2"
#endif

/* Where the control block ends; 0 before a C library has set the register. */
static inline word thread_register(void)
{
  word value;
  __asm__ volatile("mr %0, " THREAD_REGISTER : "=r"(value));
  return value ? value - THREAD_BIAS : 0;
}

/* What the slow way saves is where native-page.h and native32-page.h say. */
#define HAS_VALUES

/* From the caller's stack pointer to arguments that are in no register. */
#ifndef __powerpc64__
#define STACK_ARGUMENTS 8
#elif TOC_SAVE == 40
/* Callers are those of ELFv1: six words, then room for what is in registers. */
#define STACK_ARGUMENTS 112
#else
#define STACK_ARGUMENTS 96
#endif

/* A register holds each number as one of 64 bits. */
#define FLOATING_CASE(n) \
  case n - 1: \
    if (bytes == 4) __asm__ volatile("stfs " #n ", %0" : "=m"(single)); \
    else __asm__ volatile("stfd " #n ", %0" : "=m"(*to)); \
    break;

/* What is longer lies in two of them. */
#define PAIRED_FLOATS

/* f1 to f13. The compiler uses none of them here. */
static inline void floating_register(u32 place, u32 bytes, u64 *to)
{
  u32 single = 0;
  switch (place) {
    FLOATING_CASE(1)
    FLOATING_CASE(2)
    FLOATING_CASE(3)
    FLOATING_CASE(4)
    FLOATING_CASE(5)
    FLOATING_CASE(6)
    FLOATING_CASE(7)
    FLOATING_CASE(8)
    FLOATING_CASE(9)
    FLOATING_CASE(10)
    FLOATING_CASE(11)
    FLOATING_CASE(12)
    FLOATING_CASE(13)
  }
  if (bytes == 4) *to = single;
}

#include "native-blocks.h"

#endif
