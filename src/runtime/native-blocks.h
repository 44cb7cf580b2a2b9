/*
 * How the slow way of a self-tracing program knows its thread on machines where the control block
 * of the C library ends at the thread register (TLS variant I): its size differs between versions,
 * so the block is found by what lies in it, once (RT-33). From its start on, in glibc:
 *
 *   0    two words of glibc
 *   16   22 words without a purpose ("for instrumentation"): ours is one of them
 *   192  list, two words
 *   208  number of the thread, u32
 *   216  robust_prev; 224: robust_head: itself while no robust mutex is held, then -32
 *
 * Where words have 4 bytes: 0, 8, 96, 104, no robust_prev, 108, -20.
 *
 * In musl (RT-52), in words: its own address, two words of musl, one that is used on i386 alone and
 * copied into the block of each new thread, which is ours; then the number of the thread, u32.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef ELFTRACE_NATIVE_BLOCKS_H
#define ELFTRACE_NATIVE_BLOCKS_H

/* Whether the library is musl. */
static inline int is_musl(void);
#define IS_COPIED is_musl()
#define SLOT_COUNT (is_musl() ? 1u : 22u)
#define BLOCK_SLOTS (2 * WORD_BYTES)
#define BLOCK_THREAD (26 * WORD_BYTES)
#define MUSL_THREAD (4 * WORD_BYTES)
#if __SIZEOF_LONG__ == 8
#define ROBUST_HEAD 16
#define ROBUST_CONSTANT (-32l)
#else
#define ROBUST_HEAD 4
#define ROBUST_CONSTANT (-20l)
#endif
#define ROBUST_OFFSET (ROBUST_HEAD + WORD_BYTES)
/* Control blocks are smaller. */
#define BLOCK_MAX 0x1000ul
#define PAGE_SMALLEST 4096ul

/*
 * How far below the thread register the number of the thread lies; 0: not known. It follows
 * native_slot, where the entry finds both.
 */
#ifndef native_thread
extern volatile word native_thread __attribute__((visibility("hidden")));
#endif

static inline word thread_word(word below)
{
  return *(volatile word *)(thread_register() - below);
}

static inline void set_thread_word(word below, word value)
{
  *(volatile word *)(thread_register() - below) = value;
}

static inline u32 library_thread(void)
{
  return *(volatile u32 *)(thread_register() - native_thread);
}

static inline word slot_at(word index)
{
  if (is_musl()) return native_thread + WORD_BYTES;
  return native_thread + BLOCK_THREAD - BLOCK_SLOTS - index * WORD_BYTES;
}

/* Whether the thread's number lies there in a control block. */
static int is_block(word at, u32 thread)
{
  if (is_musl()) return *(volatile u32 *)at == thread && *(volatile word *)(at - MUSL_THREAD) == at - MUSL_THREAD;
  return *(volatile u32 *)at == thread && *(volatile word *)(at + ROBUST_HEAD) == at + ROBUST_HEAD &&
         *(volatile long *)(at + ROBUST_OFFSET) == ROBUST_CONSTANT;
}

/* Looks for the thread's number. Nothing is read that is not mapped. */
static int knows_thread(u32 thread)
{
  word end = thread_register();
  if (end == 0) return 0;
  if (native_thread) return 1;
  word mapped = end;
  unsigned char presence;
  for (word below = 5 * WORD_BYTES; below <= BLOCK_MAX; below += WORD_BYTES) {
    word at = end - below;
    while (mapped > at) {
      word page = (mapped - 1) & ~(PAGE_SMALLEST - 1);
      long result = system_call(SYS_MINCORE, (long)page, 1, (long)&presence, 0, 0, 0);
      /* Pages may be larger than the smallest. */
      if (result == ENOMEM_) return 0;
      mapped = page;
    }
    if (at % WORD_BYTES == 0 && is_block(at, thread)) {
      native_thread = below;
      return 1;
    }
  }
  return 0;
}

#endif
