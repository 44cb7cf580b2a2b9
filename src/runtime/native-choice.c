/*
 * Recording a part of the calls, with arguments and return values (RT-47 to RT-50): what is asked
 * for is in a file that the environment names. Pages of threads then have another owner's mark, so
 * that all events come the slow way; those that are passed over cost no system call there.
 * Included by native.c. SPDX-License-Identifier: MIT
 */

/* Files of more bytes are not taken. */
#define CHOICE_MAX 0x100000ul
/*
 * How long counter and clock are compared at the start, where calls are told by how long they last.
 */
#define CALIBRATION 200000ul

/* How memory of the program is read that may not be there. */
#define READ_BY_KERNEL 1
#define READ_BY_PROBE 2
#define NO_SUCH_HOW 99
#define EFAULT_ (-14)

static inline const struct choice *choice_here(void)
{
  return state.choice;
}

static const struct row *rows_of(const struct choice *choice)
{
  return (const struct row *)(choice + 1);
}

static struct opened *opened_of(struct page *page)
{
  return (struct opened *)((u8 *)page + 4096);
}

/* The part for this object in a file that was read, or that for others; 0: the file is none. */
static const struct choice *part_of(const u8 *file, word size)
{
  const struct choice *found = 0;
  const char *magic = TEXT("ELFCHOI2");
  __asm__("" : "+r"(magic));
  for (word at = 0; at + sizeof *found <= size;) {
    const struct choice *part = (const struct choice *)(file + at);
    int is_ours = 1, is_others = 1;
    for (u32 i = 0; i < 8; i++) if (part->magic[i] != (u8)magic[i]) return 0;
    if (part->bytes < sizeof *part || part->bytes % 8 || part->bytes > size - at) return 0;
    if (part->row_count > (part->bytes - sizeof *part) / sizeof(struct row)) return 0;
    for (u32 i = 0; i < 32; i++) {
      if (part->id[i] != config()->id[i]) is_ours = 0;
      if (part->id[i]) is_others = 0;
    }
    if (is_ours) return part;
    if (is_others) found = part;
    at += part->bytes;
  }
  return found;
}

/* Lets counter and clock run side by side. */
static void calibrate(void)
{
  u64 time = nanoseconds(1), start = counter(), now;
  do now = nanoseconds(1);
  while (now - time < CALIBRATION);
  state.span_ticks = counter() - start;
  state.span_time = now - time;
}

static void choose_reading(void)
{
  u64 source = 1, target = 0;
  word here[2] = { (word)&target, 8 }, there[2] = { (word)&source, 8 };
  u32 process = (u32)call0(SYS_GETPID);
  if (system_call(SYS_PROCESS_VM_READV, process, (long)here, 1, (long)there, 1, 0) == 8 && target == 1) {
    state.reading = READ_BY_KERNEL;
    return;
  }
  /* The kernel looks at the set of signals before it looks at what to do with it. */
  if (call4(SYS_SIGPROCMASK, NO_SUCH_HOW, 8, 0, 8) == EFAULT_ &&
      call4(SYS_SIGPROCMASK, NO_SUCH_HOW, &source, 0, 8) != EFAULT_)
    state.reading = READ_BY_PROBE;
}

/* Reads the file; whether it says what to record, if that is asked for. */
static int begin_choice(const char *path)
{
  long file = open_file(path, O_CLOEXEC_);
  if (failed(file)) return 0;
  long at = map(CHOICE_MAX, READ | WRITE, PRIVATE | ANONYMOUS, -1);
  word size = 0;
  while (!failed(at) && size < CHOICE_MAX) {
    long more = call3(SYS_READ, file, at + (long)size, CHOICE_MAX - size);
    if (failed(more) || more == 0) break;
    size += (word)more;
  }
  call1(SYS_CLOSE, file);
  if (failed(at)) return 0;
  const struct choice *part = part_of((const u8 *)at, size);
  if (part == 0 || size == CHOICE_MAX) {
    call2(SYS_MUNMAP, at, CHOICE_MAX);
    return 0;
  }
  int is_timed = part->time != 0;
  for (u32 i = 0; i < part->row_count; i++) if (rows_of(part)[i].flags & ROW_TIME) is_timed = 1;
  if (is_timed) calibrate();
  choose_reading();
  state.is_silent = (part->flags & CHOICE_OFF) != 0;
  state.choice = part;
  return 1;
}

/* The row of a site; 0: nothing is special about the function. */
static const struct row *row_of(const struct choice *choice, word site)
{
  u32 place = (u32)(site - ((word)config() - (word)config()->address));
  u32 from = 0, to = choice->row_count;
  const struct row *rows = rows_of(choice);
  while (from < to) {
    u32 middle = (from + to) / 2;
    if (rows[middle].start < place) from = middle + 1;
    else to = middle;
  }
  return from > 0 && place <= rows[from - 1].end ? &rows[from - 1] : 0;
}

/*
 * Whether a call is not recorded and changes nothing that is kept: most of them, where few are
 * asked for. Nothing is written, so signals do no harm.
 */
static int is_passed_over(struct page *page, word site, word stack)
{
  const struct choice *choice = choice_here();
  if (row_of(choice, site)) return 0;
  if (state.is_silent) return 1;
  const volatile struct opened *opened = opened_of(page);
  word count = opened->count;
  if (count == 0) {
    /* Which stack came first says what a handler's stack stands above. */
    word region = opened->regions, highest = region ? opened->region[region - 1].highest : 0;
    return (choice->flags & CHOICE_ONLY) && region && stack <= highest && highest - stack <= FAR_FRAMES;
  }
  const volatile struct open_call *top = &opened->calls[count - 1];
  if (stack >= top->stack || top->stack - stack > FAR_FRAMES) return 0;
  return top->is_left_out || !top->is_inside || (top->depth && top->levels >= top->depth);
}

/* The stack that a call is on, as native/tree.ts tells it; what is over there is taken away. */
static void settle(volatile struct opened *opened, word stack)
{
  word top = opened->count;
  for (word i = opened->regions; i-- > 0;) {
    word below = opened->region[i].below, highest = opened->region[i].highest;
    word lowest = top > below ? opened->calls[top - 1].stack : highest;
    if (stack + FAR_FRAMES >= lowest && stack <= highest + FAR_FRAMES) {
      if (stack > highest) opened->region[i].highest = stack;
      opened->regions = i + 1;
      while (top > below && opened->calls[top - 1].stack <= stack) top--;
      opened->count = top;
      return;
    }
    top = below;
  }
  if (opened->regions == REGIONS_MAX) opened->regions = 0, opened->count = 0;
  opened->region[opened->regions].below = opened->count;
  opened->region[opened->regions].highest = stack;
  opened->regions++;
}

/* What is decided of a call. */
struct decision {
  const struct row *row;
  /* As it is kept while it is open; 0: that does not matter. */
  struct open_call *call;
  int is_recorded;
};

/* Of all threads; what is over stays so. */
#define FINISHED 2
static void switch_recording(word is_silent)
{
  word other = !is_silent;
  __atomic_compare_exchange_n(&state.is_silent, &other, is_silent, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

/* What is open is recorded, however long it lasts and whatever it calls. */
static void keep_open(volatile struct opened *opened)
{
  for (word i = opened->count; i-- > 0 && !opened->calls[i].is_kept;) opened->calls[i].is_kept = 1;
}

/* Inside what is asked for or not, and how deep. The file of the thread is not touched. */
static void try_call(struct page *page, word stack, struct decision *decision)
{
  const struct choice *choice = choice_here();
  const struct row *row = decision->row;
  volatile struct opened *opened = opened_of(page);
  u32 flags = row ? row->flags : 0;
  if (flags & (ROW_ON | ROW_OFF)) switch_recording((flags & ROW_OFF) != 0);
  settle(opened, stack);
  word place = opened->count;
  const volatile struct open_call *outer = place ? &opened->calls[place - 1] : 0;
  int is_left_out = (outer && outer->is_left_out) || (flags & ROW_NOT);
  int is_chosen = !is_left_out && (flags & ROW_ONLY);
  int is_inside = is_chosen || !(choice->flags & CHOICE_ONLY) || (outer && outer->is_inside);
  int has_depth = (flags & ROW_DEPTH) && is_inside;
  u32 above = outer && !is_chosen && !has_depth ? outer->levels : 0;
  u32 depth = has_depth ? row->depth : outer ? outer->depth : choice->depth;
  u32 size = flags & ROW_SIZE ? row->size : outer ? outer->size : choice->size;
  int is_hidden = (flags & ROW_HIDDEN) || ((flags & ROW_SMALL) && row->length < size);
  int is_level = is_inside && !is_left_out && !is_hidden;
  decision->is_recorded = is_level && !(depth && above >= depth) && !state.is_silent;
  int is_wanted = (flags & (ROW_KEPT | ROW_CALLED)) && is_level && !state.is_silent;
  if (is_wanted) keep_open(opened);
  decision->call = 0;
  int is_followed = (choice->flags & CHOICE_TREE) || (row && row->results);
  if (!is_followed || (!decision->is_recorded && !flags)) return;
  if (place == OPEN_MAX) {
    if (decision->is_recorded) drop(page);
    decision->is_recorded = 0;
    return;
  }
  volatile struct open_call *call = &opened->calls[place];
  call->stack = stack;
  call->at = call->bytes = 0;
  call->start = 0;
  call->time = flags & ROW_TIME ? row->time : outer ? outer->time : choice->time;
  call->row = row;
  call->levels = above + (is_level ? 1 : 0);
  call->depth = depth;
  call->size = size;
  call->is_inside = (u8)is_inside;
  call->is_left_out = (u8)is_left_out;
  call->is_recorded = (u8)decision->is_recorded;
  call->is_kept = (u8)is_wanted;
  opened->count = place + 1;
  opened->serial++;
  decision->call = (struct open_call *)call;
}

/*
 * Decides. Handlers of signals that come in between are over when it goes on, and what they changed
 * is told by the serial number: then it is done once more with signals blocked, where handlers of
 * signals that instructions raise find the page busy.
 */
static void decide(struct page *page, word stack, struct decision *decision)
{
  volatile struct opened *opened = opened_of(page);
  word serial = opened->serial;
  try_call(page, stack, decision);
  if (opened->serial == serial + (decision->call != 0)) return;
  u64 before;
  if (begin_event(&before) == 0) {
    decision->call = 0;
    decision->is_recorded = 0;
    drop(page);
    return;
  }
  try_call(page, stack, decision);
  end_event(page, &before);
}

#ifdef HAS_VALUES
#include "native-values.c"
#endif

/* What was reserved and not used, where nothing was reserved behind it. */
static void give_back(struct page *page, word from, word to)
{
  __atomic_compare_exchange_n(&page->cur, &to, from, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

/* An event on its way into the file. */
struct event {
  volatile u64 *at;
  /* Behind what was reserved. */
  word end;
  u64 clock, depth, before;
  int is_slow;
};

/*
 * Room for an event at once, if no upper bits must stand in front of it: as the entry does it, what
 * is looked at before and after is told by the generation.
 */
static int begin_fast(struct page *page, word bytes, word stack, struct event *event)
{
  volatile struct page *seen = page;
  word generation = seen->generation;
  if (seen->end == 0) return 0;
  word at = __atomic_fetch_add(&page->cur, bytes, __ATOMIC_RELAXED);
  if (at + bytes > seen->end) return 0;
  u64 now = counter();
  word depth = (stack - seen->base) >> STACK_UNIT;
  if (seen->epoch != (word)(now >> CLOCK_BITS) || depth >> STACK_BITS || seen->generation != generation) return 0;
  event->at = (volatile u64 *)at;
  event->end = at + bytes;
  event->clock = now & ((1ul << CLOCK_BITS) - 1);
  event->depth = depth;
  event->is_slow = 0;
  return 1;
}

/* The same, or with signals blocked; 0: there is no room, or no way to tell. */
static int begin_words(struct page *page, word bytes, word stack, struct event *event)
{
  if (begin_fast(page, bytes, stack, event)) return 1;
  if (begin_event(&event->before) == 0) return 0;
  bytes += EVENT_BYTES - 8;
  event->at = page->stopped ? 0 : reserve(page, bytes);
  if (event->at == 0) {
    end_event(page, &event->before);
    return 0;
  }
  event->end = (word)event->at + bytes;
  event->clock = put_controls(page, &event->at, stack);
  event->depth = (stack - page->base) >> STACK_UNIT;
  event->is_slow = 1;
  return 1;
}

static void end_words(struct page *page, struct event *event)
{
  give_back(page, (word)event->at, event->end);
  if (event->is_slow) end_event(page, &event->before);
}

#ifdef HAS_VALUES
/*
 * Values go straight into the file, in front of their event. While they are written their control
 * says so, and how much it may be.
 */
static void put_values(struct event *event, const struct value *values, u32 count, const word *registers, word stack)
{
  if (count == 0) return;
  u64 head = TAG_CONTROL | CONTROL_VALUES << 2;
  volatile u64 *at = event->at;
  u64 most = most_units(values, count);
  put_word(at, head | (most | 1ul << VALUES_BITS) << 6);
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  u32 units = take_values((u32 *)(at + 1), values, count, registers, stack);
  u32 *rest = (u32 *)(at + 1);
  for (u32 i = units; i < most; i++) rest[i] = 0;
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  put_word(at, head | (u64)units << 6);
  event->at = at + 1 + (units + 1) / 2;
}

static word bytes_of_values(const struct value *values, u32 count)
{
  return count ? 8 + most_units(values, count) * 4 : 0;
}
#endif

/* The thread's page where a choice is made; 0: there is none yet, or every call is recorded. */
static struct page *chosen_page(void)
{
  struct page *page = page_at_hand();
  if (page == 0 && native_slot >= 0) {
    /* The first event of a process, or of a thread. */
    u64 before;
    if (state.phase == READY && state.choice == 0) return 0;
    page = begin_event(&before);
    if (page) end_event(page, &before);
  }
  return state.choice ? page : 0;
}

/* Handlers of signals that our own instructions raise: what they call is counted, no more. */
static int is_refused(struct page *page)
{
  if (!page->busy) return 0;
  drop(page);
  return 1;
}

/*
 * A call that may be recorded. @param arguments  where the stack's words of arguments begin
 * @returns whether its return is of interest
 */
static int choose_call(struct page *page, word site, word stack, const word *registers, word arguments)
{
  struct decision decision;
  decision.row = row_of(choice_here(), site);
  decide(page, stack, &decision);
  if (decision.row && decision.row->flags & ROW_FINISH) state.is_silent = FINISHED;
  struct open_call *call = decision.call;
  if (!decision.is_recorded) return call != 0;
  struct event event;
  word bytes = 8;
#ifdef HAS_VALUES
  u32 count = decision.row ? decision.row->arguments : 0;
  const struct value *values = count ? values_of(choice_here(), decision.row) : 0;
  bytes += bytes_of_values(values, count);
#else
  (void)registers, (void)arguments;
#endif
  if (!begin_words(page, bytes, stack, &event)) {
    drop(page);
    if (call) call->is_recorded = 0;
    return call != 0;
  }
  word start = (word)event.at;
#ifdef HAS_VALUES
  put_values(&event, values, count, registers, arguments);
#endif
  put_word(event.at, TAG_CALL | event.clock << CLOCK_SHIFT | event.depth << STACK_SHIFT | (u64)site << SITE_SHIFT);
  event.at++;
  /* Of a handler, where it interrupted us on a stack close by. */
  if (call && call->stack == stack) {
    call->at = start;
    call->bytes = (word)event.at - start;
    if (call->time) call->start = counter();
    call->turns = page->file->turns;
  }
  end_words(page, &event);
  return 1;
}
