/*
 * The runtime that patched code calls: list function, tracers, function graph. Common to all
 * machines; the entries in assembly and "entry.h" (frames, clock, thread) belong to each of them.
 * Compiled without libc, floating point and vectors, because the entries save general registers
 * only. RUNTIME_REGS: entries pass a register frame; else ip and parent_ip only. Where "entry.h"
 * says with GRAPH_SLOT where a frame has the return address, the graph tracer is a callback; else
 * it is a branch in the entry. REGS_DIRECT: the word of a frame that makes the register entry go to
 * a direct caller. GRAPH_MAY_MISS: GRAPH_SLOT may be 0. GRAPH_CALL: entries have a patched call for
 * the graph tracer besides. CALL_OPS: the entries find their ops by a word in front of the
 * function, or of its stub. GRAPH_POINTER: frames have the frame pointer that a function must bring
 * back. PROBES: with what probes call; "entry.h" then says with PROBE_FRAME how the frame that a
 * detour buffer makes becomes what handlers expect, with PROBE_RETURN_SLOT where the frame of a
 * function's entry has its return address, with PROBE_RETURN_FRAME what the stack pointer is after
 * the return.
 *
 * Nothing here may call a function that could be traced, and no structure is copied: the compiler
 * would call memcpy. SPDX-License-Identifier: MIT
 */
#include "abi.h"
#include "entry.h"

#define PUBLIC __attribute__((visibility("default"), used))
#define INTERNAL __attribute__((visibility("hidden")))

typedef void regs;

#ifndef CALLER_OF
/*
 * Where the traced function returns to; other than the entry says at sites whose surroundings it
 * does not look at.
 */
#define CALLER_OF(ip, parent_ip, regs) (parent_ip)
#endif

/* Text addresses, which names of functions are not on every ABI. */
extern INTERNAL const unsigned char elftrace_return_text[], elftrace_stub_text[];
extern INTERNAL word elftrace_invoke(word ip, word parent_ip, struct ops *ops, regs *regs, word text);

/* The header is data, the records are not: who lays the object out puts them behind the header. */
__attribute__((section(".data.elftrace_ring"), aligned(64))) PUBLIC struct ring elftrace_ring_memory = {
  .magic = { 'E', 'L', 'F', 'T', 'R', 'C', 'E', '1' },
#ifdef PROBES
  .version = RING_LONG,
#else
  .version = RING_SHORT,
#endif
  .record_bytes = sizeof(elftrace_ring_memory.records[0]),
  .capacity = RING_CAPACITY,
  .clock_kind = ELFTRACE_CLOCK_KIND,
};
__attribute__((section(".bss.elftrace_ring"), aligned(64))) PUBLIC
__typeof__(elftrace_ring_memory.records[0]) elftrace_ring_records[RING_CAPACITY];

PUBLIC struct ring *elftrace_ring = &elftrace_ring_memory;
/* The end of every list. */
PUBLIC struct ops ftrace_list_end = { .func = (word)elftrace_stub_text, .flags = OPS_STUB };
/* First ops of the list. */
PUBLIC struct ops *ftrace_ops_list = &ftrace_list_end;
/* Third argument of the patched call: the only ops. */
PUBLIC struct ops *function_trace_op = &ftrace_list_end;
/*
 * Ops of the graph tracer, for its own filter; 0: all functions. Read where the graph is a branch
 * in the entry.
 */
__attribute__((section(".data"))) PUBLIC const struct ops *elftrace_graph_ops = 0;
PUBLIC struct thread elftrace_graph_stack[THREADS];
/*
 * Users of the graph tracer, by the bit that they have in graph entries. None at all: what it takes
 * is recorded.
 */
__attribute__((section(".data"))) PUBLIC struct ops *elftrace_graph_users[GRAPH_USERS] = { 0 };
/* Calls of elftrace_counter. */
PUBLIC word elftrace_count;
/* Where the tool writes ops objects: the image has room for them before any of them is wanted. */
__attribute__((section(".elftrace.data"), aligned(64))) PUBLIC word elftrace_data[OPS_ROOM * 8] = { 0 };
/* Not 0: no further function is hooked. Set for good when a return is not found. */
PUBLIC word elftrace_graph_stopped;
/* 0: ops of kind RCU are skipped. */
PUBLIC word elftrace_rcu_watching = 1;

/*
 * ---------------------------------------------------------------------------------------- counting
 */

/*
 * Adds 1 to a 64-bit counter and gives its low half before. 32-bit machines have no 64-bit atomics:
 * the low half carries.
 */
static word count64(u64 *counter) {
#if WORD == 8
  return __atomic_fetch_add(counter, 1, __ATOMIC_RELAXED);
#else
  const int low = __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__;
  u32 *halves = (u32 *)counter;
  const u32 before = __atomic_fetch_add(&halves[low], 1, __ATOMIC_RELAXED);
  if (before == 0xffffffffu) __atomic_fetch_add(&halves[!low], 1, __ATOMIC_RELAXED);
  return before;
#endif
}

/*
 * ----------------------------------------------------------------------------------------- threads
 */

#define LIKELY(condition) __builtin_expect(!!(condition), 1)
#define UNLIKELY(condition) __builtin_expect(!!(condition), 0)

/* The number of the block with an owner, which takes a free one; THREADS where there is none. */
static __attribute__((noinline)) u32 find_block(word owner) {
  for (u32 i = 0; i < THREADS; i++) {
    struct thread *const thread = &elftrace_graph_stack[i];
    word seen = __atomic_load_n(&thread->owner, __ATOMIC_RELAXED);
    if (seen == 0 &&
        __atomic_compare_exchange_n(&thread->owner, &seen, owner, 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
      return i;
    if (seen == owner) return i;
  }
  return THREADS;
}

/* Whether the first block is this thread's, as in programs that have one. */
static inline int is_first_thread(void) {
  return *(const volatile word *)&elftrace_graph_stack[0].owner == elftrace_thread_key() + 1;
}

/* The block of this thread, or 0 where all belong to others. */
static inline struct thread *current(void) {
  if (LIKELY(is_first_thread())) return &elftrace_graph_stack[0];
  const u32 number = find_block(elftrace_thread_key() + 1);
  return number < THREADS ? &elftrace_graph_stack[number] : 0;
}

static inline u32 number_of(const struct thread *thread) {
  return LIKELY(thread == elftrace_graph_stack) ? 0 : (u32)(thread - elftrace_graph_stack);
}

/*
 * -------------------------------------------------------------------------------------------- ring
 */

/* An event that is not recorded. */
static __attribute__((noinline)) void lose(void) {
  count64(&elftrace_ring->dropped);
}

/* Takes the numbers of `count` records in a row from a ring that keeps the oldest, or says no. */
static int take_below(struct ring *ring, word count, word *number) {
#if WORD == 8
  word *const low = (word *)&ring->head;
#else
  word *const low = (word *)&ring->head + (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__);
#endif
  const word capacity = ring->capacity;
  word now = __atomic_load_n(low, __ATOMIC_RELAXED);
  do {
    if (now >= capacity || capacity - now < count) return 0;
  } while (!__atomic_compare_exchange_n(low, &now, now + count, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
  *number = now;
  return 1;
}

/* Adds to the number of records and gives its low half before. */
static inline word take_next(struct ring *ring, word count) {
#if WORD == 8
  return __atomic_fetch_add(&ring->head, count, __ATOMIC_RELAXED);
#else
  const int low = __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__;
  u32 *const halves = (u32 *)&ring->head;
  const u32 before = __atomic_fetch_add(&halves[low], count, __ATOMIC_RELAXED);
  if (UNLIKELY(before + count < before)) __atomic_fetch_add(&halves[!low], 1, __ATOMIC_RELAXED);
  return before;
#endif
}

/* Records in a row: the first number, or no; what has no room is counted. */
static int take_records(struct ring *ring, word count, word *number) {
  if (ring->flags & RING_KEEP_OLDEST) {
    if (take_below(ring, count, number)) return 1;
    lose();
    return 0;
  }
  *number = take_next(ring, count);
  return 1;
}

#ifdef PROBES
/* All records have times. */
#define has_times(ring) 1
#else
#define has_times(ring) (!((ring)->flags & RING_NO_TIMES))
#endif

/* The time of a record. */
static inline u64 time_now(const struct ring *ring) {
  (void)ring;
  return LIKELY(has_times(ring)) ? elftrace_clock() : 0;
}

/*
 * Number `number`. A capacity is a power of two below 2^31, so that its sign is no sign. The address
 * is computed once: compilers would do so for each field.
 */
static inline __typeof__(&elftrace_ring_memory.records[0]) record_at(struct ring *ring, word number) {
  __typeof__(&ring->records[0]) record = &ring->records[number & ((word)(int)ring->capacity - 1)];
  __asm__("" : "+r"(record));
  return record;
}

/*
 * A record is filled between two stores to the word with its kind: a reader that runs beside takes
 * one of kind 0 for one not finished. RISC-V would store a relaxed atomic by an exchange.
 */
#define STORE(place, value) (*(volatile __typeof__(place) *)&(place) = (value))
#define RELEASE() __atomic_thread_fence(__ATOMIC_RELEASE)

#ifdef PROBES
static inline int is_near(const struct ring *ring, word ip, word parent_ip) {
  (void)ring, (void)ip, (void)parent_ip;
  return 1;
}

static inline void fill_record(struct ring_record *record, u32 kind, u32 thread, u64 ip,
                               u64 parent_ip, u64 time) {
  STORE(record->kind, 0);
  RELEASE();
  record->time = time;
  record->ip = ip;
  record->parent_ip = parent_ip;
  record->thread = thread;
  __atomic_store_n(&record->kind, kind, __ATOMIC_RELEASE);
}

static __attribute__((noinline)) void write_any(struct ring *ring, u32 kind, u32 thread, word ip,
                                                word parent_ip, u64 time) {
  word number;
  if (take_records(ring, 1, &number)) fill_record(record_at(ring, number), kind, thread, ip, parent_ip, time);
}
#else
/* Whether the upper halves of addresses are that of the ring: those of modules may be others. */
static inline int is_near(const struct ring *ring, word ip, word parent_ip) {
#if WORD == 8
  return (((ip ^ (word)ring) | (parent_ip ^ (word)ring)) >> 32) == 0;
#else
  (void)ring, (void)ip, (void)parent_ip;
  return 1;
#endif
}

/* `kind`: with FAR. */
static inline void fill_record(struct ring_short *record, u32 kind, u32 thread, word ip,
                               word parent_ip, u64 time) {
  const u64 event = time << SHORT_TIME_SHIFT | thread << SHORT_THREAD_SHIFT | kind;
  const int low = WORD == 4 && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__;
  STORE(record->event[low], 0);
  RELEASE();
  record->ip = ip;
  record->parent_ip = parent_ip;
#if WORD == 4
  STORE(record->event[!low], event >> 32);
#endif
  __atomic_store_n(&record->event[low], (word)event, __ATOMIC_RELEASE);
}

/* A record with a far address is two, of which the second has the upper halves. */
static __attribute__((noinline)) void write_any(struct ring *ring, u32 kind, u32 thread, word ip,
                                                word parent_ip, u64 time) {
  const int is_two = !is_near(ring, ip, parent_ip);
  word number;
  if (!take_records(ring, 1 + is_two, &number)) return;
#if WORD == 8
  if (is_two) {
    fill_record(record_at(ring, number + 1), RECORD_DATA, thread, ip >> 32, parent_ip >> 32, 0);
    kind |= SHORT_FAR;
  }
#endif
  fill_record(record_at(ring, number), kind, thread, ip, parent_ip, time);
}
#endif

/* The usual record is of the first thread, in a ring that overwrites the oldest. */
static inline int is_usual(const struct ring *ring, word ip, word parent_ip) {
  return !(ring->flags & RING_KEEP_OLDEST) && is_near(ring, ip, parent_ip);
}

static inline void write_usual(struct ring *ring, u32 kind, word ip, word parent_ip, u64 time) {
  fill_record(record_at(ring, take_next(ring, 1)), kind, 0, ip, parent_ip, time);
}

/*
 * ----------------------------------------------------------------------------------------- tracers
 */

/* Any record of a call: its thread may have no block. */
static __attribute__((noinline)) void trace_any(word ip, word caller, struct ring *ring) {
  const u32 thread = find_block(elftrace_thread_key() + 1);
  if (thread == THREADS) lose();
  else write_any(ring, RECORD_CALL, thread, ip, caller, time_now(ring));
}

/* Callback: one record per call. */
PUBLIC void elftrace_function_tracer(word ip, word parent_ip, struct ops *ops, regs *regs) {
  struct ring *const ring = elftrace_ring;
  const word caller = CALLER_OF(ip, parent_ip, regs);
  (void)ops;
  (void)regs;
  if (LIKELY(is_first_thread() && has_times(ring) && is_usual(ring, ip, caller)))
    write_usual(ring, RECORD_CALL, ip, caller, elftrace_clock());
  else trace_any(ip, caller, ring);
}

/* Callback: counts in the ops object and in one word for all. */
PUBLIC void elftrace_counter(word ip, word parent_ip, struct ops *ops, regs *regs) {
  (void)ip;
  (void)parent_ip;
  (void)regs;
  __atomic_fetch_add(&elftrace_count, 1, __ATOMIC_RELAXED);
  __atomic_fetch_add(&ops->private_, 1, __ATOMIC_RELAXED);
}

#ifdef REGS_RESUME
/* Callback: the function does not go on; the one that the ops' word points to runs in its place. */
PUBLIC void elftrace_livepatch(word ip, word parent_ip, struct ops *ops, regs *regs) {
  (void)ip;
  (void)parent_ip;
  if (regs) REGS_RESUME(regs, ops->private_);
}
#endif

/*
 * -------------------------------------------------------------------------------------------- list
 */

static int contains(const struct hash *hash, word site) {
  word low = 0, high = hash->count;
  while (low < high) {
    const word middle = low + (high - low) / 2;
    if (hash->sites[middle] == site) return 1;
    if (hash->sites[middle] < site) low = middle + 1;
    else high = middle;
  }
  return 0;
}

/* C-HASH-1, 2: no filter is everything, a filter without sites is nothing. */
static int matches(const struct ops *ops, word ip) {
  return (!ops->filter || contains(ops->filter, ip)) && !(ops->notrace && contains(ops->notrace, ip));
}

/*
 * Whether all registers are there: a plain entry passes none, or a frame with a 0 where a full one
 * has none (msr, cs).
 */
static int is_full(const regs *regs) {
#ifdef RUNTIME_REGS
  return regs && *(const word *)((const char *)regs + REGS_MARK) != 0;
#else
  (void)regs;
  return 0;
#endif
}

static int may_run(const struct ops *ops, const regs *regs) {
  if (ops->flags & OPS_STUB) return 0;
  if (ops->flags & OPS_RCU && !elftrace_rcu_watching) return 0;
  return !(ops->flags & OPS_SAVE_REGS) || is_full(regs);
}

/*
 * Bit of `active`: callbacks of the list run, and that of the probes may be one of them: that is no
 * hit inside another one.
 */
#define LIST_RUNS 4ul

/*
 * C-TGT-5: every ops of the list whose hashes match. A callback that gets here again is not traced,
 * nor is it a dropped event.
 */
PUBLIC void ftrace_ops_list_func(word ip, word parent_ip, struct ops *ops, regs *regs) {
  struct thread *const thread = current();
  (void)ops;
  if (!thread) {
    lose();
    return;
  }
  if (thread->active) return;
  thread->active = LIST_RUNS | 1;
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  for (struct ops *each = ftrace_ops_list; each && each != &ftrace_list_end; each = each->next) {
    if (may_run(each, regs) && matches(each, ip)) elftrace_invoke(ip, parent_ip, each, regs, each->func);
  }
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  thread->active = 0;
}

/* C-TGT-6: a single ops that wants the guard. */
PUBLIC void ftrace_ops_assist_func(word ip, word parent_ip, struct ops *ops, regs *regs) {
  struct thread *const thread = current();
  if (!thread) {
    lose();
    return;
  }
  if (thread->active || (ops->flags & OPS_RCU && !elftrace_rcu_watching)) return;
  thread->active = LIST_RUNS | 1;
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  elftrace_invoke(ip, parent_ip, ops, regs, ops->func);
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  thread->active = 0;
}

#ifdef CALL_OPS
#ifndef LIST_TEXT
#define LIST_TEXT ((word)ftrace_ops_list_func)
#endif
/* What the word in front of a function names while no ops traces it, and while several do. */
PUBLIC struct ops ftrace_nop_ops = { .func = (word)elftrace_stub_text, .flags = OPS_STUB };
PUBLIC struct ops ftrace_list_ops = { .func = LIST_TEXT, .flags = OPS_STUB };
#endif

/*
 * ------------------------------------------------------------------------------------------- graph
 */

/*
 * Two frames this near are of one stack. What lies farther off belongs to another one (of a signal
 * handler, a coroutine).
 */
#define ONE_STACK (1ul << 20)

/* Where the entry knows the frame pointer it is recorded, and compared on the return (C-FG-2). */
#ifdef GRAPH_POINTER
#define POINTER_PARAMETER , word pointer
#define POINTER_ARGUMENT(value) , value
#else
#define POINTER_PARAMETER
#define POINTER_ARGUMENT(value)
#endif

/*
 * Whether a function with an entry at frame `below` is gone when one at frame `now` is called: left
 * by longjmp.
 */
static int is_gone(word below, word now) {
  return below < now && now - below < ONE_STACK;
}

/* Bit of `active`: a callback of the graph tracer runs, and what it calls is not graphed. */
#define GRAPH_RUNS 2

static __attribute__((noinline)) word call_user(struct thread *thread,
                                                const struct graph_entry *entry, struct ops *user,
                                                word text) {
  const word active = thread->active;
  thread->active = active | GRAPH_RUNS;
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  const word wants = elftrace_invoke(entry->ip, entry->parent_ip, user, (regs *)entry, text);
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  thread->active = active;
  return wants;
}

static inline void record_graph(const struct thread *thread, u32 kind,
                                const struct graph_entry *entry, u64 time) {
  struct ring *const ring = elftrace_ring;
  if (LIKELY(thread == elftrace_graph_stack && is_usual(ring, entry->ip, entry->parent_ip)))
    write_usual(ring, kind, entry->ip, entry->parent_ip, time);
  else write_any(ring, kind, number_of(thread), entry->ip, entry->parent_ip, time);
}

/* Whether the graph tracer has a user: most have none. */
static inline int has_users(void) {
  word any = 0;
#pragma GCC unroll 16
  for (u32 i = 0; i < GRAPH_USERS; i++) any |= (word)elftrace_graph_users[i];
  return any != 0;
}

/*
 * C-FG-1, C-FG-5: tells the users whose hashes match; not 0: a user wants to hear of the return.
 */
static __attribute__((noinline)) int announce(struct thread *thread, struct graph_entry *entry) {
  int recorded = 0;
  for (u32 i = 0; i < GRAPH_USERS; i++) {
    struct ops *const user = elftrace_graph_users[i];
    if (!user || !matches(user, entry->ip)) continue;
    if (user->func && !call_user(thread, entry, user, user->func)) continue;
    if (!user->func && !recorded) {
      recorded = 1;
      write_any(elftrace_ring, RECORD_ENTRY, number_of(thread), entry->ip, entry->parent_ip, entry->time);
    }
    entry->users |= (word)1 << i;
  }
  return entry->users != 0;
}

/* C-FG-2: tells those who wanted the return and are still there. */
static __attribute__((noinline)) void tell_return(struct thread *thread,
                                                  const struct graph_entry *entry, u64 time) {
  int recorded = 0;
  for (u32 i = 0; entry->users >> i; i++) {
    struct ops *const user = entry->users >> i & 1 ? elftrace_graph_users[i] : 0;
    if (!user) continue;
    if (user->direct_call) call_user(thread, entry, user, user->direct_call);
    else if (!user->func && !recorded) {
      recorded = 1;
      write_any(elftrace_ring, RECORD_RETURN, number_of(thread), entry->ip, entry->parent_ip, time);
    }
  }
}

/* Where no user wanted the return it is recorded. */
static inline void depart(struct thread *thread, const struct graph_entry *entry) {
  const u64 time = time_now(elftrace_ring);
  if (LIKELY(!entry->users)) record_graph(thread, RECORD_RETURN, entry, time);
  else tell_return(thread, entry, time);
}

#if defined(PROBES) && defined(PROBE_RETURN_SLOT)
extern word elftrace_probe_trampoline;
extern word elftrace_probe_depth[THREADS];
extern struct probe_instance elftrace_probe_instances[THREADS][PROBE_INSTANCES];
#endif

/*
 * Whether a function returns to return_to_handler in the end: a return probe in front of us in the
 * list keeps the address that was there, and so may the one before it.
 */
static int ends_at_handler(const struct thread *thread, word parent_ip) {
#if defined(PROBES) && defined(PROBE_RETURN_SLOT)
  const word number = number_of(thread);
  word depth = elftrace_probe_depth[number];
  while (elftrace_probe_trampoline && parent_ip == elftrace_probe_trampoline && depth > 0)
    parent_ip = elftrace_probe_instances[number][--depth].parent_ip;
#endif
  (void)thread;
  return parent_ip == (word)elftrace_return_text;
}

/*
 * C-FG-1. `frame` is the stack pointer that the function's caller will have when it returns. A
 * function called by a tail call has the frame of the one before, and returns to return_to_handler
 * as that one would have (C-FG-3); one at the same frame with another return address proves that
 * the one before was left. Yields the address to return to.
 */
INTERNAL word elftrace_graph_push(struct thread *thread, word parent_ip, word ip, word frame POINTER_PARAMETER) {
  const word handler = (word)elftrace_return_text;
  while (thread->depth > 0) {
    const word top = thread->entries[thread->depth - 1].frame;
    if (!is_gone(top, frame) && !(top == frame && !ends_at_handler(thread, parent_ip))) break;
    thread->depth--;
    thread->abandoned++;
  }
  if (thread->depth == GRAPH_ENTRIES) {
    thread->overrun++;
    return parent_ip;
  }
  struct graph_entry *const entry = &thread->entries[thread->depth];
  entry->parent_ip = parent_ip;
  entry->ip = ip;
  entry->frame = frame;
  entry->time = time_now(elftrace_ring);
  entry->users = 0;
#ifdef GRAPH_POINTER
  entry->spare = pointer;
#endif
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  thread->depth++;
  if (LIKELY(!has_users())) {
    record_graph(thread, RECORD_ENTRY, entry, entry->time);
    return handler;
  }
  if (announce(thread, entry)) return handler;
  thread->depth--;
  return parent_ip;
}

#ifdef GRAPH_SLOT
/*
 * Callback of the graph tracer: changes the return address where the register frame says, which
 * plain and register entries both make.
 */
PUBLIC void ftrace_graph_func(word ip, word parent_ip, struct ops *ops, regs *regs) {
  struct thread *const thread = current();
  (void)ops;
  if (!regs || elftrace_graph_stopped) return;
  if (!thread) {
    lose();
    return;
  }
  if (thread->active & GRAPH_RUNS) return;
#ifdef GRAPH_MAY_MISS
  if (!GRAPH_SLOT(regs, ip)) return;
#endif
  word caller = CALLER_OF(ip, parent_ip, regs);
#if defined(PROBES) && defined(PROBE_RETURN_SLOT)
  /*
   * A return probe in front of us in the list: the function goes back to its trap, behind our
   * handler.
   */
  if (elftrace_probe_trampoline && *GRAPH_SLOT(regs, ip) == elftrace_probe_trampoline) caller = elftrace_probe_trampoline;
#endif
  *GRAPH_SLOT(regs, ip) = elftrace_graph_push(
      thread, caller, ip, GRAPH_FRAME(regs, ip) POINTER_ARGUMENT(GRAPH_POINTER(regs)));
}
#else
/*
 * Called by the graph part of the entry. That branch is taken for every traced function, so the
 * graph's own filter is asked here (C-FG-8).
 */
INTERNAL word elftrace_graph_enter(word parent_ip, word ip, word frame) {
  struct thread *const thread = current();
  const struct ops *const ops = elftrace_graph_ops;
  if (elftrace_graph_stopped || (ops && !matches(ops, ip))) return parent_ip;
#ifdef GRAPH_REFUSES
  if (GRAPH_REFUSES(ip)) return parent_ip;
#endif
  if (!thread) {
    lose();
    return parent_ip;
  }
  return thread->active ? parent_ip : elftrace_graph_push(thread, parent_ip, ip, elftrace_frame(ip, frame));
}
#endif

#ifdef GRAPH_CALL
/*
 * The graph tracer as a second patched call of the entries. `slot` is the word of the frame that
 * the return address is loaded from.
 */
PUBLIC void ftrace_graph_caller(word *slot, word ip, word frame_pointer) {
  struct thread *const thread = current();
  const struct ops *const ops = elftrace_graph_ops;
  char *const regs = (char *)slot - ((char *)GRAPH_SLOT((char *)0, ip) - (char *)0);
  (void)frame_pointer;
  if (elftrace_graph_stopped || (ops && !matches(ops, ip))) return;
  if (!thread) lose();
  else if (!thread->active)
    *slot = elftrace_graph_push(thread, *slot, ip, GRAPH_FRAME(regs, ip) POINTER_ARGUMENT(frame_pointer));
}
#endif

#ifdef REGS_DIRECT
/*
 * Callback of direct callers: where the table names one for the site, the register entry goes there
 * instead of the function. The table is count, then pairs {site, address}, ascending; 0: no table.
 */
__attribute__((section(".data"))) PUBLIC const word *ftrace_direct_table = 0;
PUBLIC void ftrace_direct_func(word ip, word parent_ip, struct ops *ops, regs *regs) {
  const word *const table = ftrace_direct_table;
  word low = 0, high = table ? table[0] : 0;
  (void)parent_ip;
  (void)ops;
  if (!is_full(regs)) return;
  while (low < high) {
    const word middle = low + (high - low) / 2;
    const word site = table[1 + 2 * middle];
    if (site == ip) {
      *(word *)((char *)regs + REGS_DIRECT) = table[2 + 2 * middle];
      return;
    }
    if (site < ip) low = middle + 1;
    else high = middle;
  }
}
#endif

/* The topmost entry of a frame; entries above it were left. Yields 0 where there is none. */
static word pop(struct thread *thread, word frame POINTER_PARAMETER) {
  for (word at = thread->depth; at-- > 0;) {
    const struct graph_entry *const entry = &thread->entries[at];
    if (entry->frame != frame) continue;
    const word parent_ip = entry->parent_ip;
    thread->abandoned += thread->depth - at - 1;
    thread->depth = at;
#ifdef GRAPH_POINTER
    /* The function lost its caller's frame pointer: it returns, and that was the last one. */
    if (entry->spare != pointer) elftrace_graph_stopped = 1;
#endif
    depart(thread, entry);
    return parent_ip;
  }
  return 0;
}

/*
 * C-FG-2: where the function returns to whose caller's stack pointer is `frame`; 0 where that is
 * not known.
 */
INTERNAL word elftrace_graph_return(word frame POINTER_PARAMETER) {
  struct thread *const thread = current();
  word parent_ip = thread ? pop(thread, frame POINTER_ARGUMENT(pointer)) : 0;
  /* A program that sets its thread pointer up between call and return looks like another thread. */
  for (int i = 0; !parent_ip && i < THREADS; i++) parent_ip = pop(&elftrace_graph_stack[i], frame POINTER_ARGUMENT(pointer));
  if (!parent_ip) elftrace_graph_stopped = 1;
  return parent_ip;
}

#ifdef PROBES
/*
 * ------------------------------------------------------------------------------------------ probes
 */

/*
 * Reads 1, 2, 4 or 8 bytes; not 0: they are not mapped. No code here sees to that: who runs the
 * program makes this function return 1 when it faults. It must stay a leaf without a frame.
 */
PUBLIC __attribute__((noinline)) word elftrace_probe_peek(u64 *out, word at, word bytes) {
  struct __attribute__((packed)) any {
    union {
      unsigned char b;
      unsigned short h;
      u32 w;
      u64 d;
    };
  };
  const volatile struct any *const from = (const volatile struct any *)at;
  if (bytes == 1) *out = from->b;
  else if (bytes == 2) *out = from->h;
  else if (bytes == 4) *out = from->w;
  else *out = from->d;
  return 0;
}

/*
 * Text at an address: the rest of its room is 0. Not 0: it is not mapped, or `fault` says that its
 * address is not known.
 */
static word fetch_text(u64 *out, word at, word fault) {
  unsigned char *const text = (unsigned char *)out;
  for (word i = 0; i < PROBE_STRING_BYTES / 8; i++) out[i] = 0;
  if (fault) return fault;
  for (word i = 0; i < PROBE_STRING_BYTES - 1; i++) {
    u64 byte;
    if (elftrace_probe_peek(&byte, at + i, 1)) return 1;
    if (byte == 0) break;
    text[i] = (unsigned char)byte;
  }
  return 0;
}

/* What a program fetches; yields the number of words. */
static word fetch(const word *program, const regs *regs, u64 *out) {
  word at = 0;
  word fault = 0;
  u64 value = 0;
  for (;;) {
    switch (*program++) {
    case PROBE_REGISTER: {
      const char *const place = (const char *)regs + program[0];
      value = program[1] == 8 ? *(const u64 *)place : *(const u32 *)place;
      program += 2;
      fault = 0;
      break;
    }
    case PROBE_CONSTANT:
      value = *program++;
      fault = 0;
      break;
    case PROBE_LOAD:
      if (!fault) fault = elftrace_probe_peek(&value, (word)value + program[0], WORD);
      program++;
      break;
    case PROBE_PUT:
      out[at++] = fault;
      out[at++] = value;
      break;
    case PROBE_MEMORY: {
      const word base = (word)value + program[0], bytes = program[1], count = program[2];
      u64 *const faults = &out[at++];
      *faults = 0;
      for (word i = 0; i < count; i++) {
        u64 element = 0;
        if (fault || elftrace_probe_peek(&element, base + i * bytes, bytes)) *faults |= (u64)1 << i;
        out[at++] = element;
      }
      program += 3;
      break;
    }
    case PROBE_STRING: {
      const word base = (word)value + program[0], pointers = program[1], count = pointers ? pointers : 1;
      u64 *const faults = &out[at++];
      *faults = 0;
      for (word i = 0; i < count; i++) {
        u64 text = base;
        word bad = fault;
        if (!bad && pointers) bad = elftrace_probe_peek(&text, base + i * WORD, WORD);
        if (fetch_text(&out[at], (word)text, bad)) *faults |= (u64)1 << i;
        at += PROBE_STRING_BYTES / 8;
      }
      program += 2;
      break;
    }
    default:
      return at;
    }
  }
}

static void record_event(const struct thread *thread, const struct probe_op *op,
                         struct probe_event *event, const regs *regs) {
  struct ring *const ring = elftrace_ring;
  u64 data[PROBE_DATA + 2];
  const word words = fetch(event->program, regs, data);
  const word count = 1 + (words + 2) / 3;
  word number;
  data[words] = data[words + 1] = 0;
  __atomic_fetch_add(&event->hits, 1, __ATOMIC_RELAXED);
  if (!take_records(ring, count, &number)) return;
  const u64 now = time_now(ring);
  for (word i = 0; i < count; i++) {
    const u64 *const three = &data[3 * (i - 1)];
    struct ring_record *const record = record_at(ring, number + i);
    if (i) fill_record(record, RECORD_DATA, number_of(thread), three[1], three[2], three[0]);
    else fill_record(record, RECORD_PROBE, number_of(thread), op->address, event->id, now);
  }
}

#ifdef PROBE_RETURN_SLOT
/* The trap that functions with return probes go to, written by the tool. */
__attribute__((section(".data"))) PUBLIC word elftrace_probe_trampoline = 0;
PUBLIC word elftrace_probe_depth[THREADS];
PUBLIC struct probe_instance elftrace_probe_instances[THREADS][PROBE_INSTANCES];

static void begin_call(const struct thread *thread, struct probe_op *op, struct probe_event *event,
                       regs *regs) {
  const word number = number_of(thread);
  struct probe_instance *const stack = elftrace_probe_instances[number];
  const word limit = event->flags >> PROBE_ACTIVE_SHIFT;
  const word frame = PROBE_RETURN_FRAME(regs);
  word active = 0;
  /* Left by longjmp. */
  while (elftrace_probe_depth[number] > 0 && is_gone(stack[elftrace_probe_depth[number] - 1].frame, frame))
    elftrace_probe_depth[number]--;
  for (word i = 0; i < elftrace_probe_depth[number]; i++) active += stack[i].event == event;
  if (elftrace_probe_depth[number] == PROBE_INSTANCES || (limit && active >= limit)) {
    __atomic_fetch_add(&op->missed, 1, __ATOMIC_RELAXED);
    return;
  }
  struct probe_instance *const each = &stack[elftrace_probe_depth[number]++];
  each->event = event;
  each->op = op;
  each->parent_ip = *PROBE_RETURN_SLOT(regs);
  each->frame = frame;
  *PROBE_RETURN_SLOT(regs) = elftrace_probe_trampoline;
}
#endif

/* All events of a probed address. A hit while another one is handled is missed. */
static void handle(struct probe_op *op, regs *regs) {
  struct thread *const thread = current();
  if (op->flags & PROBE_OFF) return;
  if (!thread) {
    lose();
    return;
  }
  if (thread->active) {
    __atomic_fetch_add(&op->missed, 1, __ATOMIC_RELAXED);
    return;
  }
  thread->active = 1;
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  __atomic_fetch_add(&op->hits, 1, __ATOMIC_RELAXED);
  for (struct probe_event *each = op->events; each; each = each->next) {
#ifdef PROBE_RETURN_SLOT
    if (each->flags & PROBE_RETURN) {
      begin_call(thread, op, each, regs);
      continue;
    }
#endif
    record_event(thread, op, each, regs);
  }
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  thread->active = 0;
}

/* Called by detour buffers. */
PUBLIC void elftrace_probe_hit(struct probe_op *op, regs *regs) {
  PROBE_FRAME(regs, op);
  handle(op, regs);
}

#if defined(RUNTIME_REGS) && defined(PROBE_SITE_FRAME)
/*
 * Callback of the one ops that all probes on ftrace sites share. The ops' own word points to a
 * pointer to their table: count, then pairs {site, op}, ascending. Only where entries pass all
 * registers.
 */
PUBLIC void elftrace_probe_ftrace(word ip, word parent_ip, struct ops *ops, regs *regs) {
  const word *const table = *(const word *const *)ops->private_;
  word low = 0, high = table ? table[0] : 0;
  (void)parent_ip;
  if (!is_full(regs)) return;
  while (low < high) {
    const word middle = low + (high - low) / 2;
    const word site = table[1 + 2 * middle];
    if (site == ip) {
      struct probe_op *const op = (struct probe_op *)table[2 + 2 * middle];
      struct thread *const thread = current();
      const word active = thread ? thread->active : 0;
      PROBE_SITE_FRAME(regs, op);
      if (active & LIST_RUNS) thread->active = 0;
      handle(op, regs);
      if (active & LIST_RUNS) thread->active = active;
#ifdef PROBE_SITE_LEAVE
      PROBE_SITE_LEAVE(regs);
#endif
      return;
    }
    if (site < ip) low = middle + 1;
    else high = middle;
  }
}
#endif
#endif

#if defined(RUNTIME_REGS) && defined(TOC_WORD)
/*
 * -------------------------------------------------------------- functions that replace another one
 */

/* Keeps what the caller of a replaced function needs; 0: no room. */
INTERNAL word elftrace_side_push(word saved, word parent_ip, word frame) {
  struct thread *const thread = current();
  if (!thread) return 0;
  while (thread->side_depth > 0 && is_gone(thread->side[thread->side_depth - 1].frame, frame)) thread->side_depth--;
  if (thread->side_depth == SIDE_ENTRIES) return 0;
  struct side_entry *const entry = &thread->side[thread->side_depth];
  entry->saved = saved;
  entry->parent_ip = parent_ip;
  entry->frame = frame;
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  thread->side_depth++;
  return 1;
}

/* The entry of a frame, or 0. */
INTERNAL const struct side_entry *elftrace_side_pop(word frame) {
  struct thread *const thread = current();
  if (!thread) return 0;
  for (word at = thread->side_depth; at-- > 0;) {
    if (thread->side[at].frame == frame) {
      thread->side_depth = at;
      return &thread->side[at];
    }
  }
  return 0;
}
#endif
