/*
 * Calls that are counted by site and not written one by one (RT-54): the file of a thread is a
 * header and a number for each site. Included by native.c. SPDX-License-Identifier: MIT
 */

/* A call that the entry could not count; `place` is that of its site's number, in bytes. */
__attribute__((used)) void native_count(word place)
{
  u64 before;
  struct page *page = begin_event(&before);
  if (page && !page->stopped) add(page->cur + place, 1);
  else if (native_slot >= 0) drop(page ? page : page_at_hand());
  if (page) end_event(page, &before);
}
