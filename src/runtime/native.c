/*
 * The slow way of programs that write their own trace (RT-22 to RT-26): opens a file for each
 * thread, lets it grow, writes records that the entry could not write. No C library, no locks, no
 * relocations. Signals are blocked while it works, but for those that an instruction raises, which
 * would end the program if they were: events of their handlers are dropped meanwhile. The entry
 * that it was called from may have interrupted another one.
 *
 * What cannot be done drops the event and counts it. Nothing else of the program changes: no
 * signal, no descriptor that stays, no errno. SPDX-License-Identifier: MIT
 */
#include "native-machine.h"

#include "native-choice.h"

/* Filled in when the runtime is laid in. `name` is the path of the original. */
struct config {
  u8 magic[8];
  u64 address;
  u8 id[32];
  u64 slot;
  char name[NAME_BYTES];
  /* What is recorded (MODE_...), and of how many sites calls are counted. */
  u32 mode, counters;
  /* LIBRARY_MUSL, or another. */
  u32 library, none;
};

struct header {
  u8 magic[8];
  u32 version, mode;
  u32 process, thread, parent, sequence;
  u64 bias;
  /*
   * A pair (counter, ns) of the start, and two that are written by turns; `pair` is the valid one.
   */
  u64 pairs[3][2];
  u64 pair;
  u64 realtime;
  /* Events of this thread, and of threads of the process that have no file. */
  u64 dropped, dropped_elsewhere;
  u8 id[32];
  char name[NAME_BYTES];
  char thread_name[16];
  u64 dropped_returns;
  /* Where old records make room for new ones: what was lost, size of a block, blocks begun. */
  u64 overwritten, overwritten_returns, block, turns;
  /* Numbers behind the header, where calls are counted and there was room for them. */
  u64 counters;
  /* Of those without a file: before there was a C library that knew the thread. */
  u64 dropped_early;
};

/* Of values of one event. */
#define DATA_UNITS 256u

struct page {
  word cur, end, epoch, base, generation, owner;
  u32 thread, process;
  word last, shadow;
  struct header *file;
  /* Up to where events may begin; `end` is that for the entry, 0 while the slow way is at work. */
  word limit;
  word window, size, stopped, busy;
  u64 device, number;
  u32 sequence;
  /* Calls while it had no file. */
  word tries;
  /* Stacks of signal handlers are small: what is long lies here. */
  char path[1024];
};
_Static_assert(sizeof(struct page) <= 4096, "behind it lies what is open");

/* The kernel's interface, as far as it is the same everywhere. */
enum {
  READ = 1, WRITE = 2, SHARED = 1, PRIVATE = 2, ANONYMOUS = 0x20, WIPE_ON_FORK = 18, AT_HERE = -100,
  O_RDWR_ = 2, O_CREAT_ = 0x40, O_EXCL_ = 0x80, O_CLOEXEC_ = 0x80000,
  EEXIST_ = -17, ENFILE_ = -23, EMFILE_ = -24, EOPNOTSUPP_ = -95, LIMIT_FILE = 1, LIMIT_SPACE = 9, AT_SECURE_ = 23, GET_NAME = 16,
};

#define SCRATCH 0x10000
#define PATH_ROOM 1024ul
#define FIRST_STEP 0x40000ul
#define LAST_STEP 0x100000ul
/*
 * Of the address space; a thread's file ends there. The other: where those of ended threads stay
 * mapped.
 */
#if __SIZEOF_LONG__ == 8
#define WINDOW 0x400000000ul
#define WINDOW_LEFT 0x40000000ul
#else
#define WINDOW 0x8000000ul
#define WINDOW_LEFT 0x2000000ul
#endif
#define EVENT_BYTES 24ul
/* A call of two units may begin at the last but one that `limit` allows. */
#define SLACK 8ul
#define SMALLEST 0x100000ul
/* Of a file that keeps its size; native/layout.ts has it, too. */
#define RING_BLOCKS 7
#define FILES_MAX 0x10000

/* Which runtime it is: of calls, or of calls and returns (native-graph.c). */
#ifndef MODE
#define MODE MODE_FUNCTION
#endif

/* Machines whose compilers know no addresses relative to the code bring their own words for it. */
#ifndef ADDRESS
#define ADDRESS(symbol) (&symbol)
#define TEXT(text) text
#endif

/* Room for it is in the assembly, so that the compiler knows nothing of what it holds. */
extern const struct config native_config __attribute__((visibility("hidden")));

/* Addresses inside of it are sums: a compiler may keep them in a table that nobody relocates. */
static inline const struct config *config(void)
{
  const struct config *at = ADDRESS(native_config);
  __asm__("" : "+r"(at));
  return at;
}

#ifndef IS_MUSL_KNOWN
static inline int is_musl(void)
{
  return config()->library == LIBRARY_MUSL;
}
#endif

static inline int is_counting(void)
{
  return MODE == MODE_FUNCTION && config()->mode == MODE_COUNTER;
}

/* 0: not begun; negative: off for good; else where our word is in thread control blocks. */
#ifndef native_slot
extern volatile long native_slot __attribute__((visibility("hidden")));
#endif

struct state {
  /* 0, the thread (and process, where it fits) that is at it (bit 0 set), or READY. */
  volatile word phase;
  volatile u32 owner_process;
  volatile word dropped_without_file, dropped_early, is_early;
  struct header *volatile first_file;
  u64 file_limit;
  word is_ring, is_first_only;
  /*
   * Of sandboxes (native-sandbox.c): filters when the process began, and whether more came since.
   */
  word is_asked, filters, is_closed;
  /* Of those that came together, the one that began. */
  u32 first_thread;
  /* The last one that began, or could not. */
  u32 asked_thread;
  /* What is recorded; 0: every call. */
  const struct choice *choice;
  volatile word is_silent;
  word reading;
  u64 span_ticks, span_time;
  /* Of losses without a file (native-lost.c): who writes them, what was written. */
  word lost_owner, is_lost_again, lost_count, lost_stamp;
  char directory[PATH_ROOM];
  /* While the process begins, what it reads; then for paths of losses. */
  char room[2 * PATH_ROOM];
};
#define READY 2
#ifdef STATE_BYTES
_Static_assert(sizeof(struct state) <= STATE_BYTES, "the room in the assembly");
#else
static struct state native_state;
#endif
static inline struct state *state_here(void)
{
  struct state *at = (struct state *)ADDRESS(native_state);
  __asm__("" : "+r"(at));
  return at;
}
#define state (*state_here())

#define call0(n) system_call(n, 0, 0, 0, 0, 0, 0)
#define call1(n, a) system_call(n, (long)(a), 0, 0, 0, 0, 0)
#define call2(n, a, b) system_call(n, (long)(a), (long)(b), 0, 0, 0, 0)
#define call3(n, a, b, c) system_call(n, (long)(a), (long)(b), (long)(c), 0, 0, 0)
#define call4(n, a, b, c, d) system_call(n, (long)(a), (long)(b), (long)(c), (long)(d), 0, 0)

/*
 * From the place of a function's return address, or its stack pointer, to arguments on the stack.
 */
#ifndef STACK_ARGUMENTS
#define STACK_ARGUMENTS 0
#endif

#ifndef FALLOCATE
#define FALLOCATE(file, from, size) call4(SYS_FALLOCATE, file, 0, from, size)
#define PWRITE(file, at, size, from) call4(SYS_PWRITE, file, at, size, from)
#endif

static int failed(long result)
{
  return (word)result > (word)-4096;
}

static long open_file(const char *path, long flags)
{
  return call4(SYS_OPENAT, AT_HERE, path, flags, 0600);
}

static long map(word size, long rights, long flags, long descriptor)
{
  return system_call(SYS_MMAP, 0, (long)size, rights, flags, descriptor, 0);
}

static void copy(volatile void *to, const volatile void *from, word size)
{
  for (word i = 0; i < size; i++) ((volatile u8 *)to)[i] = ((const volatile u8 *)from)[i];
}

static char *add_text(char *at, const char *text)
{
  while (*text) *at++ = *text++;
  return at;
}

static char *add_number(char *at, word value, u32 base)
{
  char digits[24];
  u32 count = 0;
  do {
    u32 digit = (u32)(value % base);
    digits[count++] = (char)(digit < 10 ? '0' + digit : 'a' + digit - 10);
    value /= base;
  } while (value);
  while (count) *at++ = digits[--count];
  return at;
}

/* The value behind NAME= where a text begins so. */
static const char *value_of(const char *text, const char *name)
{
  while (*name && *text == *name) text++, name++;
  return *name ? 0 : text;
}

#include "native-environment.c"

/*
 * Whether a page is one of an object that was unloaded: of none that is there, or of one that lay
 * where we lie. Nothing of it runs any more.
 */
static int is_left(const struct page *page)
{
  word owner = page->owner & ~(word)1;
  unsigned char presence;
  return owner == (word)&native_slot ||
         (owner && call3(SYS_MINCORE, owner & ~4095ul, 1, &presence) == ENOMEM_);
}

/* Decides once for the process: a slot, or off; 0: not now. */
static long begin_process(void)
{
  int is_off = is_secure((word *)state.room), is_on = is_off ? 0 : read_environment(state.room);
  if (is_off == NOT_NOW || is_on == NOT_NOW) return 0;
  if (!is_on) return -1;
  for (word i = 0; i < SLOT_COUNT; i++) {
    word slot = slot_at(((word)config()->slot + i) % SLOT_COUNT);
    const struct page *page = (const struct page *)thread_word(slot);
    if (page == 0 || is_left(page)) return (long)slot;
  }
  return -1;
}

/* Whether what was seen of the phase is a thread of the process. */
#define PROCESS_SHIFT 32
#if __SIZEOF_LONG__ == 8
static int is_at_it(u32 process, word seen)
{
  return seen >> PROCESS_SHIFT == process;
}
#else
static int is_at_it(u32 process, word seen)
{
  return !failed(call3(SYS_TGKILL, process, seen >> 2, 0));
}
#endif

/* One thread begins; the others wait. After a fork in between, the child begins anew. */
static int process_is_ready(void)
{
  u32 process = (u32)call0(SYS_GETPID);
  for (;;) {
    word seen = state.phase;
    if (seen == READY) break;
    word mine = (u64)process << PROCESS_SHIFT | (word)library_thread() << 2 | 1;
    if (seen == mine) return 0;
    if ((seen & 1) && is_at_it(process, seen)) {
      call0(SYS_SCHED_YIELD);
      continue;
    }
    if (!__atomic_compare_exchange_n(&state.phase, &seen, mine, 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) continue;
    state.owner_process = process;
    state.first_thread = library_thread();
    long slot = begin_process();
    native_slot = slot;
    __atomic_store_n(&state.phase, slot == 0 ? 0 : READY, __ATOMIC_RELEASE);
    if (slot == 0) return 0;
  }
  if (state.owner_process != process) {
    state.owner_process = process;
    state.first_file = 0;
    state.dropped_without_file = state.dropped_early = 0;
    state.lost_count = state.lost_stamp = 0;
  }
  return native_slot > 0;
}

/*
 * Gives a file bytes that lie on its medium: a store into a hole of a full disk would kill. Beyond
 * the limit of the process the kernel would raise SIGXFSZ.
 */
static int extend(long file, word from, word to)
{
  u64 limits[2];
  if (failed(call4(SYS_PRLIMIT, 0, LIMIT_FILE, 0, limits)) || to > limits[0]) return 0;
  if (state.file_limit && to > state.file_limit) return 0;
  long result = FALLOCATE(file, from, to - from);
  if (result != EOPNOTSUPP_) return result == 0;
  long zeros = map(SCRATCH, READ, PRIVATE | ANONYMOUS, -1);
  if (failed(zeros)) return 0;
  while (from < to) {
    long size = PWRITE(file, zeros, to - from < SCRATCH ? to - from : SCRATCH, from);
    if (failed(size) || size == 0) break;
    from += (word)size;
  }
  call2(SYS_MUNMAP, zeros, SCRATCH);
  return from == to;
}

/* The beginning of the object's sum. */
static char *add_object(char *at)
{
  for (u32 i = 0; i < 4; i++) {
    at = add_number(at, config()->id[i] >> 4, 16);
    at = add_number(at, config()->id[i] & 15, 16);
  }
  return at;
}

static const char *path_of(struct page *page)
{
  char *at = page->path;
  at = add_text(at, state.directory);
  *at++ = '/';
  at = add_number(at, page->process, 10);
  *at++ = '.';
  at = add_number(at, page->thread, 10);
  *at++ = '.';
  at = add_object(at);
  *at++ = '.';
  at = add_number(at, page->sequence, 10);
  at = add_text(at, TEXT(".trace"));
  *at = 0;
  return page->path;
}

static u64 nanoseconds(long clock)
{
  word time[2] = { 0, 0 };
  call2(SYS_CLOCK_GETTIME, clock, time);
  return (u64)time[0] * 1000000000ul + time[1];
}

static void set_pair(struct header *file, u32 place)
{
  u64 before = counter();
  u64 time = nanoseconds(1);
  u64 after = counter();
  file->pairs[place][0] = before + (after - before) / 2;
  file->pairs[place][1] = time;
}

/* The clock once more; a kill in between leaves the pair of before. */
static void renew_pair(struct header *file)
{
  u32 other = file->pair == 1 ? 2 : 1;
  set_pair(file, other);
  __atomic_thread_fence(__ATOMIC_RELEASE);
  *(volatile u64 *)&file->pair = other;
}

static int same_file(long file, struct page *page, int is_new)
{
  u64 status[STAT_BYTES / 8];
  if (failed(call2(SYS_FSTAT, file, status))) return 0;
  if (is_new) page->device = status[0], page->number = status[1];
  return page->device == status[0] && page->number == status[1];
}

/* No more than the file may have. A part of a small address space is ours, all of it never. */
static word window_size(void)
{
  u64 limits[2], size = IS_COPIED ? WINDOW_LEFT : WINDOW;
  if (failed(call4(SYS_PRLIMIT, 0, LIMIT_SPACE, 0, limits))) return SMALLEST;
  if (limits[0] != (u64)-1 && limits[0] / 64 < size) size = limits[0] / 64;
  if (state.file_limit && state.file_limit < size) size = state.file_limit + 0xffff;
  size &= ~(u64)0xffff;
  return size < SMALLEST ? SMALLEST : (word)size;
}

/* Bytes of a block of a file that keeps its size; 0: files grow. */
static word ring_block(void)
{
  return state.is_ring && !is_counting() && state.file_limit >= FIRST_STEP ? (word)(state.file_limit >> 3) & ~0xffful : 0;
}

/* Files that `record` leaves for those who find no room: as many as native/layout.ts says. */
#define SPARES 16

/*
 * One of those in the place of the thread's empty file, which is closed. @returns a descriptor, or
 * that there is none
 */
static long take_spare(struct page *page, long file)
{
  char *name = (char *)map(SCRATCH, READ | WRITE, PRIVATE | ANONYMOUS, -1);
  if (failed((long)name)) return file;
  char *end = add_text(add_text(name, state.directory), TEXT("/spare."));
  for (u32 i = 0; i < SPARES; i++) {
    *add_number(end, i, 10) = 0;
    long spare = open_file(name, O_RDWR_ | O_NOFOLLOW_ | O_CLOEXEC_);
    if (failed(spare)) continue;
    /* Another name of a file of somebody's is none; another process may have taken it meanwhile. */
    char *magic = name + PATH_ROOM;
    int is_ours = call3(SYS_READ, spare, magic, 8) == 8 && value_of(magic, TEXT("ELFTRSPR")) &&
                  !failed(system_call(SYS_RENAMEAT2, AT_HERE, (long)name, AT_HERE, (long)page->path, 0, 0));
    call1(SYS_CLOSE, is_ours ? file : spare);
    if (!is_ours) continue;
    file = spare;
    break;
  }
  call2(SYS_MUNMAP, name, SCRATCH);
  return file;
}

static int map_file(struct page *page, long file)
{
  word block = ring_block(), least = SMALLEST;
  page->size = block ? HEADER_BYTES + RING_BLOCKS * block : FIRST_STEP;
  page->window = window_size();
  /* Such a file is whole from the start. */
  if (is_counting()) page->size = page->window = least = (HEADER_BYTES + 8ul * config()->counters + 0xfff) & ~0xffful;
  if (!same_file(file, page, 1)) return 0;
  if (!extend(file, 0, page->size)) {
    /* No room for events, but perhaps for the number of those that are dropped. */
    page->size = HEADER_BYTES;
    if (!extend(file, 0, page->size)) return 0;
  }
  for (; page->window >= least && page->window >= page->size; page->window /= 2) {
    long at = map(page->window, READ | WRITE, SHARED | NORESERVE, file);
    if (failed(at)) continue;
    page->file = (struct header *)at;
    return 1;
  }
  return 0;
}

static void write_header(struct page *page)
{
  struct header *file = page->file;
  file->version = 1;
  file->mode = config()->mode;
  file->counters = page->size > HEADER_BYTES ? config()->counters : 0;
  file->process = page->process;
  file->thread = page->thread;
  file->parent = (u32)call0(SYS_GETPPID);
  file->sequence = page->sequence;
  file->bias = (word)config() - (word)config()->address;
  file->realtime = nanoseconds(0);
  copy(file->id, config()->id, sizeof file->id);
  copy(file->name, config()->name, sizeof file->name);
  file->dropped_early = state.dropped_early;
  call2(SYS_PRCTL, GET_NAME, file->thread_name);
  file->pair = 1;
  set_pair(file, 1);
  copy(file->magic, config()->magic, sizeof file->magic);
}

/* Whose pages are; where a choice is made it is none that the entry knows. */
static word owner_mark(void)
{
  return (word)&native_slot + (state.choice != 0);
}

static void begin_records(struct page *page)
{
  page->cur = (word)page->file + HEADER_BYTES;
  page->limit = (word)page->file + page->size - SLACK;
  if (ring_block()) {
    page->limit = page->cur + ring_block() - SLACK;
    page->file->turns = 1;
    page->file->block = ring_block();
  }
  page->stopped = 0;
}

/* A number in a file is changed by one instruction, which handlers of signals cannot split. */
static void add(word at, word count)
{
#if __SIZEOF_LONG__ == 8
  __atomic_fetch_add((u64 *)at, count, __ATOMIC_RELAXED);
#else
  /* The upper unit first: bytes are in this order here. */
  if (__atomic_add_fetch((u32 *)at + 1, count, __ATOMIC_RELAXED) < count) __atomic_fetch_add((u32 *)at, 1, __ATOMIC_RELAXED);
#endif
}

#include "native-lost.c"

/*
 * What was counted without a file goes to the first one of the process, which stays mapped. Who
 * counts looks for that behind it, and who publishes it for counts: each is seen by one of them,
 * and taken once.
 */
static void hand_over(void)
{
  struct header *first = __atomic_load_n(&state.first_file, __ATOMIC_SEQ_CST);
  word count = first ? __atomic_exchange_n(&state.dropped_without_file, 0, __ATOMIC_SEQ_CST) : 0;
  if (count) add((word)&first->dropped_elsewhere, count);
  if (count && __atomic_load_n(&state.lost_count, __ATOMIC_SEQ_CST)) say_lost();
}

/* A file for the thread; `page` has nothing but zeros. It stays stopped where there is none. */
static void begin_thread(struct page *page)
{
  u64 start = counter(), start_time = nanoseconds(1);
  page->process = (u32)call0(SYS_GETPID);
  page->thread = library_thread();
  page->owner = owner_mark();
  page->stopped = 1;
  long file = EEXIST_;
  for (; file == EEXIST_ && page->sequence < FILES_MAX; page->sequence++) {
    file = open_file(path_of(page), O_RDWR_ | O_CREAT_ | O_EXCL_ | O_NOFOLLOW_ | O_CLOEXEC_);
  }
  if (failed(file)) return;
  page->sequence--;
  int is_mapped = map_file(page, file);
  /* Its header is enough for the losses of all threads. */
  if (!is_mapped && state.first_file == 0) {
    file = take_spare(page, file);
    is_mapped = map_file(page, file);
  }
  call1(SYS_CLOSE, file);
  if (!is_mapped) {
    /* Its losses are in a name (native-lost.c), or in another thread's file. */
    call3(SYS_UNLINKAT, AT_HERE, page->path, 0);
    return;
  }
  page->file->pairs[0][0] = start;
  page->file->pairs[0][1] = start_time;
  write_header(page);
  if (page->size > HEADER_BYTES) begin_records(page);
  struct header *none = 0;
  __atomic_compare_exchange_n(&state.first_file, &none, page->file, 0, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED);
  hand_over();
}

/* The page of this very thread; 0: there is none. */
static struct page *page_at_hand(void)
{
  if (native_slot <= 0) return 0;
  struct page *page = (struct page *)thread_word((word)native_slot);
  return page && page->owner == owner_mark() && page->thread == library_thread() ? page : 0;
}

/* The thread's page, made or begun anew where it is another thread's or another process's. */
static struct page *page_of_thread(void)
{
  struct page *page = page_at_hand();
  if (page) return page;
  /* A child that shares our memory until it executes another program: its thread is not the one
     that the library knows. And code that runs before there is a library. */
  u32 thread = (u32)call0(SYS_GETTID);
  if (!knows_thread(thread) || thread != library_thread()) {
    state.is_early = state.phase == 0;
    return 0;
  }
  state.is_early = 0;
  if (!process_is_ready()) return 0;
  if (state.is_first_only && state.first_thread != thread) return 0;
  word slot = (word)native_slot, size = 4096 + (state.choice ? OPENED_BYTES : 0);
  page = (struct page *)thread_word(slot);
  /* That of the thread that made this one, which may be alive. */
  if (IS_COPIED && page && page->owner == owner_mark()) page = 0;
  if (page == 0) {
    long at = map(size, READ | WRITE, PRIVATE | ANONYMOUS | NORESERVE, -1);
    if (failed(at)) return 0;
    /* What is open stays so in a child. */
    if (failed(call3(SYS_MADVISE, at, 4096, WIPE_ON_FORK))) {
      call2(SYS_MUNMAP, at, size);
      return 0;
    }
    page = (struct page *)at;
  } else if (is_left(page)) {
    /* The control block of a thread that is dead: nobody writes through its page any more. */
    if (page->file && page->process == state.owner_process && state.first_file != page->file) {
      call2(SYS_MUNMAP, page->file, page->window);
    }
    for (word i = 0; i < sizeof *page / 8; i++) ((volatile u64 *)page)[i] = 0;
    if (state.choice) opened_of(page)->count = opened_of(page)->regions = 0;
  } else if (page->owner != 0) {
    return 0;
  }
  page->busy = 1;
  set_thread_word(slot, (word)page);
  begin_thread(page);
  return page;
}

#include "native-sandbox.c"

#include "native-room.c"

/*
 * Words for an event with its controls; 0: there is no room. By one instruction, and all at once:
 * handlers of signals that our own instructions raise reserve words, too.
 */
static volatile u64 *reserve(struct page *page, word bytes)
{
  do {
    word at = __atomic_fetch_add(&page->cur, bytes, __ATOMIC_RELAXED);
    if (at + bytes <= page->limit) return (volatile u64 *)at;
  } while (grow(page, bytes));
  return 0;
}

/* Two units of 32 bits, of which the one with the lower bits is first, in memory and in time. */
static inline void put_word(volatile u64 *at, u64 value)
{
#ifdef UNITS_APART
  volatile u32 *units = (volatile u32 *)at;
  units[0] = (u32)value;
  units[1] = (u32)(value >> 32);
#else
  *at = value;
#endif
}

static u64 control(struct page *page, u64 kind, u64 value)
{
  page->generation++;
  return TAG_CONTROL | kind << 2 | value << 6;
}

/* Puts the stack pointer into the window that records tell apart: most of it lies below. */
static word window_base(word stack)
{
  word reach = 1ul << (STACK_BITS + STACK_UNIT);
  return (stack & ~15ul) - (stack < reach ? 0 : reach / 4 * 3);
}

static void set_window(struct page *page, word stack);

/* What must stand in front of an event: upper bits that have changed. `*at` moves behind it. */
static u64 put_controls(struct page *page, volatile u64 **at, word stack)
{
  int is_timed = MODE != MODE_FUNCTION || config()->mode != MODE_NO_CLOCK;
  u64 now = is_timed ? counter() : 0;
  if (is_timed && page->epoch != (word)(now >> CLOCK_BITS)) {
    page->epoch = (word)(now >> CLOCK_BITS);
    put_word((*at)++, control(page, CONTROL_EPOCH, now >> CLOCK_BITS));
    renew_pair(page->file);
  }
  if ((stack - page->base) >> STACK_UNIT >= 1ul << STACK_BITS) {
    set_window(page, stack);
    put_word((*at)++, control(page, CONTROL_STACK, page->base));
  }
  return now & ((1ul << CLOCK_BITS) - 1);
}

static void put_site(struct page *page, volatile u64 *at, u64 clock, word site, word stack)
{
  u64 depth = (stack - page->base) >> STACK_UNIT;
  put_word(at, TAG_CALL | clock << CLOCK_SHIFT | depth << STACK_SHIFT | (u64)site << SITE_SHIFT);
}

static void put_call(struct page *page, volatile u64 *at, word site, word stack)
{
  u64 clock = put_controls(page, &at, stack);
  put_site(page, at, clock, site, stack);
}

static void drop(struct page *page)
{
  if (page && page->file) {
    add((word)&page->file->dropped, 1);
    return;
  }
  word count = __atomic_add_fetch(&state.dropped_without_file, 1, __ATOMIC_SEQ_CST);
  if (state.is_early) state.dropped_early++;
  hand_over();
  if (state.first_file == 0 && is_mark(count)) say_lost();
}

/* While it is so, the entry finds no room and comes here. */
static void set_busy(struct page *page, word is_busy)
{
  volatile struct page *seen = page;
  if (is_busy) seen->busy = 1;
  seen->end = is_busy || seen->stopped ? 0 : seen->limit;
  if (!is_busy) seen->busy = 0;
}

/* Signals that instructions raise: ILL, TRAP, BUS, FPE, SEGV, SYS. */
#define RAISED (1ul << 3 | 1ul << 4 | 1ul << 6 | 1ul << 7 | 1ul << 10 | 1ul << 30)

/*
 * What was missing for a file may be there by now: the second call, the fourth, the eighth … ask.
 */
static int is_next_try(struct page *page)
{
  word count = ++page->tries;
  return !state.is_first_only && (count & (count - 1)) == 0 && is_as_before();
}

/* The thread's page, ready for events, signals blocked; 0: the event is dropped. */
static struct page *begin_event(u64 *before)
{
  /* The first word has the first signals, in each order of bytes. */
  word all[8 / WORD_BYTES] = { ~RAISED };
  if (WORD_BYTES < 8) all[8 / WORD_BYTES - 1] = ~0ul;
  struct page *page = page_at_hand();
  /* It makes no system call: where it began may be a sandbox that kills for them. */
  if (page == 0 && state.is_first_only && state.phase == READY) return 0;
  if (page == 0 && !may_begin()) return 0;
  if (native_slot < 0 || (page && page->busy)) return 0;
  /* Where a choice is made, only those are counted that would be recorded. */
  int is_again = page && page->file == 0 && is_next_try(page);
  if (page && page->stopped && !state.choice && !is_again) return 0;
  if (failed(call4(SYS_SIGPROCMASK, 0, all, before, 8))) return 0;
  page = page_of_thread();
  if (page && native_slot >= 0) {
    set_busy(page, 1);
    if (is_again) begin_thread(page);
    return page;
  }
  call4(SYS_SIGPROCMASK, 2, before, 0, 8);
  return 0;
}

static void end_event(struct page *page, u64 *before)
{
  set_busy(page, 0);
  call4(SYS_SIGPROCMASK, 2, before, 0, 8);
}

#include "native-choice.c"

#if MODE == MODE_FUNCTION
#include "native-count.c"

static void set_window(struct page *page, word stack)
{
  page->base = window_base(stack);
}

/*
 * An event that the entry could not write; `site` is the address behind its call, `registers` are
 * those that the entry saved, where the machine has values.
 */
__attribute__((used)) void native_record(word site, word stack, const word *registers)
{
  u64 before;
  struct page *page = chosen_page();
  if (page) {
    if (!is_passed_over(page, site, stack) && !is_refused(page)) choose_call(page, site, stack, registers, stack + STACK_ARGUMENTS);
    return;
  }
  page = begin_event(&before);
  volatile u64 *at = page && !page->stopped ? reserve(page, EVENT_BYTES) : 0;
  if (at) put_call(page, at, site, stack);
  else if (native_slot >= 0) drop(page ? page : page_at_hand());
  if (page) end_event(page, &before);
}
#endif
