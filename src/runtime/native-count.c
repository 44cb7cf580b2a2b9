/*
 * Calls that are counted by site and not written one by one (RT-54): the file of a thread is a header
 * and a number for each site. Included by native.c. SPDX-License-Identifier: MIT
 */

/* A number is changed by one instruction, which handlers of signals cannot split. */
static void add_one(word at)
{
#if __SIZEOF_LONG__ == 8
  __atomic_fetch_add((u64 *)at, 1, __ATOMIC_RELAXED);
#else
  /* The upper unit first: bytes are in this order here. */
  if (__atomic_add_fetch((u32 *)at + 1, 1, __ATOMIC_RELAXED) == 0) __atomic_fetch_add((u32 *)at, 1, __ATOMIC_RELAXED);
#endif
}

/* A call that the entry could not count; `place` is that of its site's number, in bytes. */
__attribute__((used)) void native_count(word place)
{
  u64 before;
  struct page *page = begin_event(&before);
  if (page && !page->stopped) add_one(page->cur + place);
  else if (native_slot >= 0) drop(page ? page : page_at_hand());
  if (page) end_event(page, &before);
}
