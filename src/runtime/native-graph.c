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
#define MODE MODE_GRAPH
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
 * Keeps a function's return address, and says so; not where it is ours, nor where there is no
 * shadow.
 */
static word hook(word stack, word address)
{
  if (is_hook(address)) return 0;
  word delta = shadow_delta(stack, 0);
  if (delta == 0) return 0;
  *(volatile word *)(stack + delta) = address;
  return 1;
}

/*
 * A call that the entry could not record; `stack` is where its return address lies, or the stack
 * pointer. @returns whether it shall return to us
 */
__attribute__((used)) word native_enter(word site, word stack, word address, const word *registers)
{
  u64 before;
  word is_hooked = 0;
  struct page *page = chosen_page();
  if (page) {
    if (is_passed_over(page, site, stack) || is_refused(page)) return 0;
    return choose_call(page, site, stack, registers, stack + STACK_ARGUMENTS) ? hook(stack, address) : 0;
  }
  page = begin_event(&before);
  volatile u64 *at = page && !page->stopped ? reserve(page, EVENT_BYTES) : 0;
  if (at) {
    put_call(page, at, site, stack);
    page->last = stack;
    is_hooked = hook(stack, address);
  } else if (native_slot >= 0) drop(page ? page : page_at_hand());
  if (page) end_event(page, &before);
  return is_hooked;
}

static u64 return_word(u64 clock, u64 depth)
{
  return TAG_CONTROL | CONTROL_RETURN << 2 | clock << 6 | depth << (6 + CLOCK_BITS);
}

static void put_return(struct page *page, volatile u64 *at, word stack)
{
  u64 clock = put_controls(page, &at, stack);
  put_word(at, return_word(clock, (stack - page->base) >> STACK_UNIT));
  page->last = stack;
}

/*
 * The innermost open call that began there, which is over, and those inside of it; 0: none is kept.
 */
static struct open_call *close_call(volatile struct opened *opened, word stack)
{
  for (word i = opened->count; i-- > 0;) {
    volatile struct open_call *call = &opened->calls[i];
    if (call->stack > stack && call->stack - stack <= FAR_FRAMES) return 0;
    if (call->stack != stack) continue;
    opened->count = i;
    while (opened->regions && opened->region[opened->regions - 1].below > i) opened->regions--;
    opened->serial++;
    return (struct open_call *)call;
  }
  return 0;
}

/* Whether the call lasted for less than was asked for, or called nothing that was. */
static int is_unwanted(const struct open_call *call)
{
  if (call->is_kept) return 0;
  if (choice_here()->flags & CHOICE_CALLERS) return 1;
  u64 spent = counter() - call->start;
  return call->time && spent >> 40 == 0 && spent * state.span_time < call->time * state.span_ticks;
}

/*
 * Takes back what was recorded of a call: zeros are no records. A child has its parent's calls
 * open.
 */
static void erase(struct page *page, const struct open_call *call)
{
  word file = (word)page->file;
  if (file == 0 || call->at < file || call->at >= file + page->window) return;
  if (page->file->turns >= call->turns + RING_BLOCKS) return;
  for (word at = call->at + call->bytes; at > call->at;) *(volatile u64 *)(at -= 8) = 0;
  give_back(page, call->at, call->at + call->bytes);
}

static void choose_return(struct page *page, word stack, const word *registers)
{
  const struct choice *choice = choice_here();
  struct open_call *call = close_call(opened_of(page), stack);
  if (call == 0 ? (choice->flags & CHOICE_TREE) != 0 : !call->is_recorded) return;
  if (call && is_unwanted(call)) {
    erase(page, call);
    return;
  }
  struct event event;
  word bytes = 8;
#ifdef HAS_VALUES
  const struct row *row = call ? call->row : 0;
  u32 count = row ? row->results : 0;
  const struct value *values = count ? values_of(choice, row) + row->arguments : 0;
  bytes += bytes_of_values(values, count);
#else
  (void)registers;
#endif
  if (!begin_words(page, bytes, stack, &event)) {
    if (page->file) add((word)&page->file->dropped_returns, 1);
    return;
  }
#ifdef HAS_VALUES
  put_values(&event, values, count, registers, 0);
#endif
  put_word(event.at++, return_word(event.clock, event.depth));
  end_words(page, &event);
}

/* A return that could not be recorded at once. @returns where it goes */
__attribute__((used)) word native_leave(word stack, const word *registers)
{
  word address = *(volatile word *)(stack + shadow_delta(stack, 0));
  u64 before;
  struct page *page = chosen_page();
  if (page) {
    if (!page->busy) choose_return(page, stack, registers);
    else if (page->file) add((word)&page->file->dropped_returns, 1);
    return address;
  }
  page = begin_event(&before);
  volatile u64 *at = page && !page->stopped ? reserve(page, EVENT_BYTES) : 0;
  if (at) put_return(page, at, stack);
  else {
    struct page *own = page ? page : page_at_hand();
    if (own && own->file) add((word)&own->file->dropped_returns, 1);
  }
  if (page) end_event(page, &before);
  return address;
}
