/*
 * Layout of what the tool writes and guest code reads, and the other way round. abi.ts says the
 * same in TypeScript; a test holds the two together. Word: 4 bytes on 32-bit targets, 8 on 64-bit,
 * in the byte order of data. SPDX-License-Identifier: MIT
 */
#ifndef ELFTRACE_ABI_H
#define ELFTRACE_ABI_H

typedef unsigned long word;
typedef unsigned int u32;
typedef unsigned long long u64;

/* Flags of an ops object. */
#define OPS_SAVE_REGS (1ul << 2)
#define OPS_STUB (1ul << 5)
#define OPS_RCU (1ul << 14)

/*
 * Sites in ascending order. No hash at all (0) matches what an empty one means: everything, or
 * nothing excluded.
 */
struct hash {
  word count;
  word sites[];
};

/* `func` is a text address on every ABI: call it with elftrace_invoke. */
struct ops {
  word func;
  word flags;
  word direct_call;
  word private_;
  struct ops *next;
  const struct hash *filter;
  const struct hash *notrace;
  word trampoline;
};

/* Ops objects that fit into elftrace_data. */
#define OPS_ROOM 64

/* Version 1, of runtimes with probes: the data of a probe are three words a record. */
#define RING_LONG 1
struct ring_record {
  u64 time;
  u64 ip;
  u64 parent_ip;
  u32 kind;
  u32 thread;
};

/*
 * Version 2, of all others: lower halves of the addresses, whose upper halves are that of the
 * ring's own address. What is not so has FAR, and a record of kind DATA behind it whose addresses
 * are the upper halves. `event`: the kind from bit 0, FAR, the thread from bit 4, the lower 56 bits
 * of the time from bit 8, 64 bits in all.
 */
#define RING_SHORT 2
struct ring_short {
  word event[8 / sizeof(word)];
  u32 ip;
  u32 parent_ip;
};
#define SHORT_FAR 8u
#define SHORT_THREAD_SHIFT 4
#define SHORT_TIME_SHIFT 8

/*
 * flags: bit 0: keep the oldest records; those beyond the capacity are dropped and counted. Bit 1,
 * of version 2: records have no times.
 */
#define RING_KEEP_OLDEST 1u
#define RING_NO_TIMES 2u
#define RING_CAPACITY 65536

struct ring {
  unsigned char magic[8];
  u32 version;
  u32 record_bytes;
  u32 capacity;
  u32 flags;
  u64 head;
  u64 dropped;
  u64 clock_kind;
  u64 reserved[2];
#ifdef PROBES
  struct ring_record records[];
#else
  struct ring_short records[];
#endif
};

/* CALL: of a tracer that records no returns, so that readers do not wait for one. */
enum {
  RECORD_ENTRY = 1,
  RECORD_RETURN = 2,
  RECORD_DIRECT = 3,
  RECORD_PROBE = 4,
  RECORD_USER = 5,
  RECORD_DATA = 6,
  RECORD_CALL = 7,
};

/*
 * Probes (runtimes built with PROBES). An op is what a probed address has; its events are what is
 * recorded there. A record of kind PROBE (ip: the probed address, parent_ip: the event's id) is
 * followed at once by records of kind DATA, whose time, ip and parent_ip are three words of 64 bits
 * of what the event's program fetched.
 */
struct probe_event {
  struct probe_event *next;
  word id;
  word flags;
  word hits;
  word program[];
};

struct probe_op {
  word address;
  word ip;     /* what handlers see as the instruction pointer */
  word adjust; /* added to the stack pointer that the detour buffer saved */
  word flags;
  word hits;
  word missed;
  struct probe_event *events;
  word spare;
};
#define PROBE_OFF 1ul /* it is off: the buffer only goes on */
/*
 * Of an event: it is recorded when the function returns; above bit 8 how many calls of it may be
 * under way at once, 0: any number.
 */
#define PROBE_RETURN 1ul
#define PROBE_ACTIVE_SHIFT 8

/*
 * A call that a return probe waits for: it goes to a trap instead (elftrace_probe_trampoline),
 * whose handler finds the way back here.
 */
struct probe_instance {
  struct probe_event *event;
  struct probe_op *op;
  word parent_ip;
  word frame; /* stack pointer after the return */
};
#define PROBE_INSTANCES 64

/*
 * Programs: words. The value is 0 at first; a fetch of what is not mapped makes everything up to
 * the next PUT a fault. For each argument a word says which of its elements are faults (bit 0: the
 * first), then the elements follow: one word, or PROBE_STRING_BYTES.
 */
enum {
  PROBE_END = 0,
  PROBE_REGISTER = 1, /* offset in the frame, bytes */
  PROBE_CONSTANT = 2, /* value */
  PROBE_LOAD = 3,     /* offset: a word at value + offset */
  PROBE_PUT = 4,      /* the value is the argument */
  PROBE_MEMORY = 5,   /* offset, bytes, count: elements at value + offset */
  PROBE_STRING = 6,   /* offset, count: text at value + offset; count > 0: texts that pointers there point to */
};
#define PROBE_STRING_BYTES 64
/* Words of 64 bits that an event may have. */
#define PROBE_DATA 96

/* Threads that are told apart; a further one is not traced, its events are counted as dropped. */
#define THREADS 8
#define GRAPH_ENTRIES 64
#define SIDE_ENTRIES 64

struct graph_entry {
  word parent_ip; /* where the function returns to */
  word ip;        /* its site */
  word frame;     /* stack pointer after its return */
  word spare;
  word users;     /* bit per user of the graph tracer that hears of the return; 0: it is recorded */
  word reserved;
  u64 time;
};

/*
 * Users of the graph tracer (C-FG-5): ops objects whose func is called at entries and says with a
 * result other than 0 that it wants the return as well; then direct_call is called there. Both get
 * ip, parent_ip, the user and the graph entry. A user with neither is one whose events are
 * recorded.
 */
#define GRAPH_USERS 16

/*
 * r2 (what else the machine needs) and the return address of a function that another one replaced.
 */
struct side_entry {
  word saved;
  word parent_ip;
  word frame;
};

struct thread {
  word owner;     /* thread key + 1; 0: free */
  word active;    /* a callback runs: recursion */
  word depth;     /* entries used */
  word overrun;   /* functions not hooked, the stack being full */
  word abandoned; /* entries whose function never returned (longjmp) */
  word side_depth;
  struct graph_entry entries[GRAPH_ENTRIES];
  struct side_entry side[SIDE_ENTRIES];
};

#endif
