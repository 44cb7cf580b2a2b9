/*
 * Recording a part of the calls, with arguments and return values (RT-47 to RT-50): what is asked
 * for is in a file that the environment names. Pages of threads then have another owner's mark, so
 * that all events come the slow way; those that are passed over cost no system call there.
 * Included by native.c. SPDX-License-Identifier: MIT
 */

/* Files of more bytes are not taken. */
#define CHOICE_MAX 0x100000ul
/* How long counter and clock are compared at the start, where calls are told by how long they last. */
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
  const char *magic = TEXT("ELFCHOI1");
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

/* Inside what is asked for or not, and how deep. The file of the thread is not touched. */
static void try_call(struct page *page, word stack, struct decision *decision)
{
  const struct choice *choice = choice_here();
  const struct row *row = decision->row;
  volatile struct opened *opened = opened_of(page);
  u32 flags = row ? row->flags : 0;
  if (flags & ROW_ON) state.is_silent = 0;
  if (flags & ROW_OFF) state.is_silent = 1;
  settle(opened, stack);
  word place = opened->count;
  const volatile struct open_call *outer = place ? &opened->calls[place - 1] : 0;
  int is_left_out = (outer && outer->is_left_out) || (flags & ROW_NOT);
  int is_chosen = !is_left_out && (flags & ROW_ONLY);
  int is_inside = is_chosen || !(choice->flags & CHOICE_ONLY) || (outer && outer->is_inside);
  u32 above = outer && !is_chosen && !(flags & ROW_DEPTH) ? outer->levels : 0;
  u32 depth = flags & ROW_DEPTH ? row->depth : outer ? outer->depth : choice->depth;
  int is_level = is_inside && !is_left_out;
  decision->is_recorded = is_level && !(depth && above >= depth) && !state.is_silent;
  decision->call = 0;
  int is_kept = (choice->flags & CHOICE_TREE) || (row && row->results);
  if (!is_kept || (!decision->is_recorded && !flags)) return;
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
  call->is_inside = (u8)is_inside;
  call->is_left_out = (u8)is_left_out;
  call->is_recorded = (u8)decision->is_recorded;
  opened->count = place + 1;
  opened->serial++;
  decision->call = (struct open_call *)call;
}

/*
 * Decides. Handlers of signals that come in between are over when it goes on, and what they changed
 * is told by the serial number: then it is done once more with signals blocked, where handlers of
 * signals that instructions raise find the page busy.
 */
static void decide(struct page *page, word site, word stack, struct decision *decision)
{
  volatile struct opened *opened = opened_of(page);
  word serial = opened->serial;
  decision->row = row_of(choice_here(), site);
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
#define PAGE_ONES 4095ul

/* Memory of the program as far as it can be read; @returns how many bytes that are */
static word read_memory(void *to, word from, word size)
{
  word done = 0;
  while (done < size) {
    word here = from + done, part = PAGE_ONES + 1 - (here & PAGE_ONES);
    if (part > size - done) part = size - done;
    word file_place = here - ((word)config() - (word)config()->address);
    if (file_place >= choice_here()->start && file_place < choice_here()->end) {
      if (part > choice_here()->end - file_place) part = (word)(choice_here()->end - file_place);
      copy((u8 *)to + done, (const u8 *)here, part);
    } else if (state.reading == READ_BY_KERNEL) {
      word local[2] = { (word)to + done, part }, remote[2] = { here, part };
      long got = system_call(SYS_PROCESS_VM_READV, state.owner_process, (long)local, 1, (long)remote, 1, 0);
      if (got != (long)part) break;
    } else if (state.reading == READ_BY_PROBE) {
      /* No set of signals is asked for at 0. */
      if (here <= PAGE_ONES) break;
      if (call4(SYS_SIGPROCMASK, NO_SUCH_HOW, here & ~7ul, 0, 8) == EFAULT_) break;
      copy((u8 *)to + done, (const u8 *)here, part);
    } else break;
    done += part;
  }
  return done;
}

/* A unit in front of each value: format, number, bytes that follow, state. */
#define VALUE_WHOLE 0
#define VALUE_CUT 1
#define VALUE_UNREADABLE 2
static u32 value_head(const struct value *value, u32 bytes, u32 how)
{
  return value->format | (u32)value->number << 8 | bytes << 16 | how << 28;
}

/* Two units, low one first; of less than five bytes one. */
static u32 put_number(u32 *units, const struct value *value, u64 number, u32 bytes, u32 how)
{
  units[0] = value_head(value, bytes, how);
  units[1] = (u32)number;
  units[2] = (u32)(number >> 32);
  return bytes > 4 ? 3 : 2;
}

#define TEXT_MAX 256ul

/* The text at an address, or the address where it cannot be read. Units are left for it. */
static u32 put_text(u32 *units, const struct value *value, word address, word most)
{
  word room = most < TEXT_MAX ? most : TEXT_MAX, length = 0, got = 0, wanted = room;
  int is_ended = 0;
  u8 *text = (u8 *)(units + 1);
  if (value->format == 'S') {
    word object[2];
    if (read_memory(object, address, sizeof object) < sizeof object) wanted = 0;
    else {
      address = object[0];
      if (object[1] < wanted) wanted = object[1];
      is_ended = wanted == object[1];
    }
    got = read_memory(text, address, wanted);
    length = got;
    if (got < wanted) is_ended = 0;
    if (got == 0 && wanted) is_ended = -1;
    if (!wanted && !is_ended) is_ended = -1;
  } else {
    while (length < wanted && !is_ended) {
      /* Little at a time: most texts are short. */
      word part = wanted - length < 64 ? wanted - length : 64;
      got = read_memory(text + length, address + length, part);
      for (word end = length + got; length < end && !is_ended;) {
        if (text[length] == 0) is_ended = 1;
        else length++;
      }
      if (got < part && !is_ended) break;
    }
    if (length == 0 && !is_ended) is_ended = -1;
  }
  if (is_ended < 0) return put_number(units, value, address, WORD_BYTES, VALUE_UNREADABLE);
  for (word i = length; i % 4; i++) text[i] = 0;
  units[0] = value_head(value, (u32)length, is_ended ? VALUE_WHOLE : VALUE_CUT);
  return 1 + (u32)(length + 3) / 4;
}

/* The most units that values of a list take. */
static u32 most_units(const struct value *values, u32 count)
{
  u32 most = 2;
  for (u32 i = 0; i < count; i++) {
    int is_text = values[i].format == 's' || values[i].format == 'S';
    most += is_text ? 1 + TEXT_MAX / 4 : 5;
  }
  return most < DATA_UNITS ? most & ~1u : DATA_UNITS;
}

/* A value of up to 64 bits in one word, or in two. */
static u64 number_at(const volatile word *at, u32 bytes)
{
#if __SIZEOF_LONG__ == 4
  if (bytes <= WORD_BYTES) return at[0];
#ifdef UNITS_APART
  return (u64)at[0] << 32 | at[1];
#else
  return (u64)at[1] << 32 | at[0];
#endif
#else
  (void)bytes;
  return at[0];
#endif
}

/*
 * The values of a list as units. @param stack  where the stack's words of arguments begin
 * @returns number of units; what has no room is left out
 */
static u32 take_values(u32 *units, const struct value *values, u32 count, const word *registers, word stack)
{
  u32 used = 0, room = most_units(values, count);
  for (u32 i = 0; i < count; i++) {
    const struct value *value = &values[i];
    u64 number[2] = { 0, 0 };
    if (used + 5 > room) break;
    if (value->kind == VALUE_REGISTER) number[0] = number_at(registers + value->place, value->bytes);
    else if (value->kind == VALUE_FLOATING) floating_register(value->place, value->bytes, number);
    else if (value->bytes > 8) copy(number, (const u8 *)(stack + (word)value->place * WORD_BYTES), 16);
    else number[0] = number_at((const word *)stack + value->place, value->bytes);
    if (value->format == 's' || value->format == 'S') {
      used += put_text(units + used, value, (word)number[0], (room - used - 1) * 4ul);
    } else if (value->bytes > 8) {
      units[used] = value_head(value, value->bytes, VALUE_WHOLE);
      copy(units + used + 1, number, 16);
      used += 1 + (value->bytes + 3u) / 4;
    } else {
      u64 ones = value->bytes == 8 ? ~(u64)0 : ((u64)1 << value->bytes * 8) - 1;
      used += put_number(units + used, value, number[0] & ones, value->bytes, VALUE_WHOLE);
    }
  }
  return used;
}

static const struct value *values_of(const struct choice *choice, const struct row *row)
{
  return (const struct value *)(rows_of(choice) + choice->row_count) + row->first;
}
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
 * Room for an event at once, if no upper bits must stand in front of it: as the entry does it, what is
 * looked at before and after is told by the generation.
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
 * Values go straight into the file, in front of their event. While they are written their control says
 * so, and how much it may be.
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
  decide(page, site, stack, &decision);
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
