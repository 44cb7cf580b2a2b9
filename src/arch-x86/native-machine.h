/*
 * What the slow way of a self-tracing program needs of x86-64 under Linux with glibc or musl: calls,
 * the counter, words of the thread control block. SPDX-License-Identifier: MIT
 */
#ifndef ELFTRACE_NATIVE_MACHINE_H
#define ELFTRACE_NATIVE_MACHINE_H

#include "native.h"

enum {
  SYS_READ = 0,
  SYS_CLOSE = 3,
  SYS_FSTAT = 5,
  SYS_MMAP = 9,
  SYS_MUNMAP = 11,
  SYS_SIGPROCMASK = 14,
  SYS_PWRITE = 18,
  SYS_SCHED_YIELD = 24,
  SYS_MINCORE = 27,
  SYS_MADVISE = 28,
  SYS_GETPID = 39,
  SYS_GETCWD = 79,
  SYS_GETPPID = 110,
  SYS_PRCTL = 157,
  SYS_ARCH_PRCTL = 158,
  SYS_GETTID = 186,
  SYS_CLOCK_GETTIME = 228,
  SYS_OPENAT = 257,
  SYS_MKNODAT = 259,
  SYS_UNLINKAT = 263,
  SYS_FALLOCATE = 285,
  SYS_PRLIMIT = 302,
  SYS_PROCESS_VM_READV = 310,
  SYS_RENAMEAT2 = 316,
};

enum { NORESERVE = 0x4000, O_NOFOLLOW_ = 0x20000, ENOMEM_ = -12 };

static inline long system_call(long number, long a, long b, long c, long d, long e, long f)
{
  long result;
  register long r10 __asm__("r10") = d;
  register long r8 __asm__("r8") = e;
  register long r9 __asm__("r9") = f;
  __asm__ volatile("syscall"
                   : "=a"(result)
                   : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                   : "rcx", "r11", "memory");
  return result;
}

static inline u64 counter(void)
{
  u32 low, high;
  __asm__ volatile("rdtsc" : "=a"(low), "=d"(high));
  return (u64)high << 32 | low;
}

/* The thread register; 0 before a C library has set it. */
#define ARCH_GET_FS 0x1003
static u64 thread_register(void)
{
  u64 value = 0;
  return system_call(SYS_ARCH_PRCTL, ARCH_GET_FS, (long)&value, 0, 0, 0, 0) == 0 ? value : 0;
}

static inline u64 thread_word(u64 offset)
{
  u64 value;
  __asm__ volatile("movq %%fs:(%1), %0" : "=r"(value) : "r"(offset) : "memory");
  return value;
}

static inline void set_thread_word(u64 offset, u64 value)
{
  __asm__ volatile("movq %0, %%fs:(%1)" : : "r"(value), "r"(offset) : "memory");
}

static inline u32 library_thread(void)
{
  return (u32)thread_word(LIBRARY_THREAD);
}

/*
 * Words of the thread control block that the library does not use, from the first on. In musl it is
 * one, which holds something on i386 and is copied into the block of each new thread.
 */
#define IS_MUSL_KNOWN
#ifdef MUSL
#define SLOT_FIRST 0x20
#define SLOT_COUNT 1
#define IS_COPIED 1
#else
#define SLOT_FIRST 0x100
#define SLOT_COUNT 32
#define IS_COPIED 0
#endif
static inline u64 slot_at(u64 index)
{
  return SLOT_FIRST + index * 8;
}

/* Whether there is a control block: not before a C library has begun. */
static inline int knows_thread(u32 thread)
{
  (void)thread;
  return thread_register() != 0;
}

/* From where a function's return address lies to its arguments on the stack. */
#define STACK_ARGUMENTS 8

/* The slow way saves these, from its stack pointer on: r10, r9, r8, rdi, rsi, rcx, rdx, rax. */
#define HAS_VALUES

#define FLOATING_CASE(n) \
  case n: \
    __asm__ volatile("movq %%xmm" #n ", %0" : "=m"(*to)); \
    break;

/* Low half of xmm0 to xmm7, or (8) what st0 holds. The compiler uses none of them here. */
static inline void floating_register(u32 place, u32 bytes, u64 *to)
{
  (void)bytes;
  switch (place) {
    EIGHT_FLOATING_CASES
    case 8:
      __asm__ volatile("fstpt %0\n\tfldt %0" : "=m"(*(u8 (*)[16])to));
  }
}

/* struct stat: device and number of a file are its first two words. */
#define STAT_BYTES 144

#endif
