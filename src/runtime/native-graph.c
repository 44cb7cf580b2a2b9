/*
 * The slow way of programs that write calls and returns (RT-43 to RT-45). A function is entered
 * with a return address of ours in the place of its own; its own lies in memory that shadows the
 * stack, 64 MiB of addresses at a time, at the same distance for all of them. So what is left by
 * longjmp, by exceptions or by another stack needs no care: the place of a frame's return address
 * says where the original is, whatever happened in between, and whichever thread asks.
 *
 * A call whose stack has no shadow, or that cannot be recorded, keeps its return address, and its
 * return is not seen. A return always finds its address. SPDX-License-Identifier: MIT
 */
#define MODE 2
#include "native.c"
#include "native-graph.h"
#include "native-hook.h"

/*
 * One word for each part of the address space that has a shadow, the first that is zero ends them:
 * number of the part above, page number of the shadow below. The unwinder reads it, too.
 */
#ifndef native_spans
extern volatile word native_spans[SPANS] __attribute__((visibility("hidden")));
#endif

#define SPAN_BYTES (1ul << SPAN_SHIFT)
#define SPAN_ONES (SPAN_BYTES - 1)
#define LIMIT_DATA 2
#define NO_HUGE_PAGES 15
#define SPACE_BITS 48

#if __SIZEOF_LONG__ == 8
static word shadow_of(word span)
{
  return (span & ((1ul << SPAN_PAGE_BITS) - 1)) << 12;
}

static word number_of_span(word span)
{
  return span >> SPAN_PAGE_BITS;
}

static word span_word(word number, word shadow)
{
  return number << SPAN_PAGE_BITS | shadow >> 12;
}

/* Whether an address has a number that words of spans can hold. */
static int is_told(word address)
{
  return address >> SPACE_BITS == 0;
}
#else
static word shadow_of(word span)
{
  return span & ~0xffful;
}

static word number_of_span(word span)
{
  return span & SPAN_ONES_32;
}

static word span_word(word number, word shadow)
{
  return number | shadow;
}

static int is_told(word address)
{
  (void)address;
  return 1;
}
#endif

/* Memory that is only taken where it is written to; none where the process may not have much. */
static word map_shadow(void)
{
  u64 limits[2];
  if (failed(call4(SYS_PRLIMIT, 0, LIMIT_SPACE, 0, limits)) || limits[0] / 64 < SPAN_BYTES) return 0;
  if (failed(call4(SYS_PRLIMIT, 0, LIMIT_DATA, 0, limits)) || limits[0] / 64 < SPAN_BYTES) return 0;
  long at = map(SPAN_BYTES, READ | WRITE, PRIVATE | ANONYMOUS | NORESERVE, -1);
  if (failed(at)) return 0;
  if (!is_told((word)at)) {
    call2(SYS_MUNMAP, at, SPAN_BYTES);
    return 0;
  }
  call3(SYS_MADVISE, at, SPAN_BYTES, NO_HUGE_PAGES);
  return (word)at;
}

/* From a place of a stack to its shadow; 0: there is none. */
static word shadow_delta(word stack, int is_made)
{
  word number = stack >> SPAN_SHIFT, made = 0;
  if (!is_told(stack)) return 0;
  for (word i = 0; i < SPANS - 1; i++) {
    word span = native_spans[i];
    if (span == 0) {
      if (!is_made || (!made && !(made = map_shadow()))) return 0;
      word mine = span_word(number, made);
      if (__atomic_compare_exchange_n(&native_spans[i], &span, mine, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
        return made - (number << SPAN_SHIFT);
    }
    if (number_of_span(span) == number) {
      if (made) call2(SYS_MUNMAP, made, SPAN_BYTES);
      return shadow_of(span) - (number << SPAN_SHIFT);
    }
  }
  if (made) call2(SYS_MUNMAP, made, SPAN_BYTES);
  return 0;
}

/* All of the window has one shadow. */
static void set_window(struct page *page, word stack)
{
  word start = stack & ~SPAN_ONES, reach = 1ul << (STACK_BITS + STACK_UNIT), base = window_base(stack);
  if (base < start || base > stack) base = start;
  if (base > start + SPAN_BYTES - reach) base = start + SPAN_BYTES - reach;
  page->base = base;
  page->shadow = shadow_delta(stack, 1);
}

/*
 * A call that the entry could not record; `stack` is where its return address lies, or the stack
 * pointer. @returns whether it shall return to us
 */
__attribute__((used)) word native_enter(word site, word stack, word address)
{
  u64 before;
  word is_hooked = 0;
  struct page *page = begin_event(&before);
  volatile u64 *at = page && !page->stopped ? reserve(page) : 0;
  if (at) {
    put_call(page, at, site, stack);
    page->last = stack;
    if (page->shadow && !is_hook(address)) {
      *(volatile word *)(stack + page->shadow) = address;
      is_hooked = 1;
    }
  } else if (native_slot >= 0) drop(page ? page : page_at_hand());
  if (page) end_event(page, &before);
  return is_hooked;
}

static void put_return(struct page *page, volatile u64 *at, word stack)
{
  u64 clock = put_controls(page, &at, stack);
  u64 depth = (stack - page->base) >> STACK_UNIT;
  put_word(at, TAG_CONTROL | CONTROL_RETURN << 2 | clock << 6 | depth << (6 + CLOCK_BITS));
  page->last = stack;
}

/* A return that could not be recorded at once. @returns where it goes */
__attribute__((used)) word native_leave(word stack)
{
  word address = *(volatile word *)(stack + shadow_delta(stack, 0));
  u64 before;
  struct page *page = begin_event(&before);
  volatile u64 *at = page && !page->stopped ? reserve(page) : 0;
  if (at) put_return(page, at, stack);
  else {
    struct page *own = page ? page : page_at_hand();
    if (own && own->file) own->file->dropped_returns++;
  }
  if (page) end_event(page, &before);
  return address;
}
