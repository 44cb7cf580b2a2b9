/*
 * Room for further records: a file grows, or (RT-51) old records make room. Included by native.c.
 * SPDX-License-Identifier: MIT
 */

/* Counts the records of a block, which are read as native/reader.ts reads them. */
static void count_lost(struct header *file, const volatile u32 *units, word count)
{
  for (word i = 0; i < count;) {
    u32 low = units[i++];
    if (low == 0) continue;
    if (MODE == MODE_GRAPH && (low & 3) == TAG_RETURN) {
      file->overwritten_returns++;
      continue;
    }
    u32 high = i < count ? units[i++] : 0, kind = low >> 2 & 15;
    if ((low & 3) == TAG_CALL) file->overwritten += high != 0;
    else if ((low & 3) == TAG_CONTROL && kind == CONTROL_RETURN) file->overwritten_returns++;
    else if ((low & 3) == TAG_CONTROL && kind == CONTROL_VALUES)
      i += ((low >> 6 & ((1u << VALUES_BITS) - 1)) + 1) & ~1u;
  }
}

/*
 * The next block, whose records make room. It is cleared from its end, so that what is left of them
 * is whole where the program is killed. It begins with controls, for nothing is known there.
 */
static int turn(struct page *page)
{
  struct header *file = page->file;
  word block = (word)file->block, at = (word)file + HEADER_BYTES + (word)file->turns % RING_BLOCKS * block;
  if (file->turns >= RING_BLOCKS) {
    count_lost(file, (const volatile u32 *)at, block / 4);
    for (word word_at = at + block; word_at > at;) *(volatile u64 *)(word_at -= 8) = 0;
  }
  page->generation++;
  page->epoch = page->base = ~0ul;
  page->cur = at;
  page->limit = at + block - SLACK;
  file->turns++;
  renew_pair(file);
  return 1;
}

/* A 256th of what there is: what is not written in the end is no more than that. */
static word step_of(word size)
{
  word step = (size >> 8) & ~(FIRST_STEP - 1);
  return step < FIRST_STEP ? FIRST_STEP : step > LAST_STEP ? LAST_STEP : step;
}

/* Makes the file longer than what was reserved of it. */
static int grow(struct page *page, word bytes)
{
  if (page->file->block) return turn(page);
  word size = page->size;
  do size += step_of(size);
  while ((word)page->file + size < page->cur + bytes);
  page->stopped = 1;
  if (size > page->window || filters_here() > state.filters) return 0;
  long file = open_file(path_of(page), O_RDWR_ | O_NOFOLLOW_ | O_CLOEXEC_);
  if (failed(file)) return 0;
  int is_longer = same_file(file, page, 0) && extend(file, page->size, size);
  call1(SYS_CLOSE, file);
  if (!is_longer) return 0;
  page->size = size;
  page->limit = (word)page->file + size - SLACK;
  page->stopped = 0;
  renew_pair(page->file);
  return 1;
}
