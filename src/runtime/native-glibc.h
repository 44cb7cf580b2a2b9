/*
 * How the slow way of a self-tracing program knows its thread on machines where glibc's control
 * block ends at the thread register (TLS variant I): its size differs between versions, so the
 * block is found by what lies in it, once (RT-33). From its start on:
 *
 *   0    two words of glibc, in 16 bytes
 *   16   22 words without a purpose ("for instrumentation"): ours is one of them
 *   192  list, two words
 *   208  number of the thread, u32
 *   216  robust_prev; 224: robust_head: itself while no robust mutex is held, then -32
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef ELFTRACE_NATIVE_GLIBC_H
#define ELFTRACE_NATIVE_GLIBC_H

#define SLOT_COUNT 22
#define BLOCK_SLOTS 16
#define BLOCK_THREAD 208
#define ROBUST_HEAD 16
#define ROBUST_OFFSET 24
#define ROBUST_CONSTANT (-32l)
/* Control blocks are smaller. */
#define BLOCK_MAX 0x1000ul
#define PAGE_SMALLEST 4096ul

/*
 * How far below the thread register the number of the thread lies; 0: not known. It follows
 * native_slot, where the entry finds both.
 */
extern volatile u64 native_thread __attribute__((visibility("hidden")));

static inline u64 thread_word(u64 below)
{
  return *(volatile u64 *)(thread_register() - below);
}

static inline void set_thread_word(u64 below, u64 value)
{
  *(volatile u64 *)(thread_register() - below) = value;
}

static inline u32 library_thread(void)
{
  return *(volatile u32 *)(thread_register() - native_thread);
}

static inline u64 slot_at(u64 index)
{
  return native_thread + BLOCK_THREAD - BLOCK_SLOTS - index * 8;
}

static int is_block(u64 at, u32 thread)
{
  return *(volatile u32 *)at == thread && *(volatile u64 *)(at + ROBUST_HEAD) == at + ROBUST_HEAD &&
         *(volatile long *)(at + ROBUST_OFFSET) == ROBUST_CONSTANT;
}

/* Looks for the thread's number. Nothing is read that is not mapped. */
static int knows_thread(u32 thread)
{
  u64 end = thread_register();
  if (end == 0) return 0;
  if (native_thread) return 1;
  u64 mapped = end;
  unsigned char presence;
  for (u64 below = 40; below <= BLOCK_MAX; below += 8) {
    u64 at = end - below;
    while (mapped > at) {
      u64 page = (mapped - 1) & ~(PAGE_SMALLEST - 1);
      long result = system_call(SYS_MINCORE, (long)page, 1, (long)&presence, 0, 0, 0);
      /* Pages may be larger than the smallest. */
      if (result == ENOMEM_) return 0;
      mapped = page;
    }
    if (at % 8 == 0 && is_block(at, thread)) {
      native_thread = below;
      return 1;
    }
  }
  return 0;
}

#endif
