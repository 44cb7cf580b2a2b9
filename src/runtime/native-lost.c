/*
 * Processes none of whose threads can have a file (RT-60): no descriptor is free, or no address
 * space. How many calls they lost stands in the name of an empty file, for which neither is needed.
 * Included by native.c. SPDX-License-Identifier: MIT
 */

/* Up to here each call is written; of more a 1024th may be missing. */
#define LOST_BITS 10
#define REGULAR_FILE 0100600

static int is_mark(word count)
{
  word step = 1;
  while (count >> LOST_BITS >= 2 * step) step *= 2;
  return (count & (step - 1)) == 0;
}

/* PROCESS.OBJECT.TIME.COUNT.lost; the time tells programs apart that a process executes. */
static const char *lost_path(char *path, word count)
{
  char *at = add_text(path, state.directory);
  *at++ = '/';
  at = add_number(at, state.owner_process, 10);
  *at++ = '.';
  at = add_object(at);
  *at++ = '.';
  at = add_number(at, state.lost_stamp, 16);
  *at++ = '.';
  at = add_number(at, count, 10);
  at = add_text(at, TEXT(".lost"));
  *at = 0;
  return path;
}

/* Writes the count of now; where a file was opened since, which has it, the name goes away. */
static void write_lost(void)
{
  word count = state.dropped_without_file, before = state.lost_count;
  if (__atomic_load_n(&state.first_file, __ATOMIC_SEQ_CST)) {
    if (before) call3(SYS_UNLINKAT, AT_HERE, lost_path(state.room, before), 0);
    __atomic_store_n(&state.lost_count, 0, __ATOMIC_SEQ_CST);
    return;
  }
  if (count == before || count == 0) return;
  if (state.lost_stamp == 0) state.lost_stamp = (word)(nanoseconds(0) >> 10);
  const char *path = lost_path(state.room, count), *old = before ? lost_path(state.room + PATH_ROOM, before) : 0;
  if ((old && !failed(system_call(SYS_RENAMEAT2, AT_HERE, (long)old, AT_HERE, (long)path, 0, 0))) ||
      !failed(call4(SYS_MKNODAT, AT_HERE, path, REGULAR_FILE, 0)))
    __atomic_store_n(&state.lost_count, count, __ATOMIC_SEQ_CST);
}

/*
 * Whoever comes while another one of the process is at it leaves it to that one, which may be what
 * it has interrupted.
 */
static void say_lost(void)
{
  if (state.phase != READY || native_slot <= 0 || state.is_first_only || state.is_closed) return;
  __atomic_store_n(&state.is_lost_again, 1, __ATOMIC_SEQ_CST);
  while (__atomic_load_n(&state.is_lost_again, __ATOMIC_SEQ_CST)) {
    word mine = state.owner_process, seen = state.lost_owner;
    if (seen == mine || !__atomic_compare_exchange_n(&state.lost_owner, &seen, mine, 0, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
      return;
    /* Who opens a file looks for the name behind it, and who writes the name for a file. */
    while (__atomic_exchange_n(&state.is_lost_again, 0, __ATOMIC_SEQ_CST) ||
           (state.lost_count && __atomic_load_n(&state.first_file, __ATOMIC_SEQ_CST)))
      write_lost();
    __atomic_store_n(&state.lost_owner, 0, __ATOMIC_SEQ_CST);
  }
}
