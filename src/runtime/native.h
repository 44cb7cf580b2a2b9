/*
 * What the runtime of programs that write their own trace shares with the tool and with its entry
 * in assembly. native/layout.ts says the same in TypeScript; a test holds the two together.
 * SPDX-License-Identifier: MIT
 */
#ifndef ELFTRACE_NATIVE_H
#define ELFTRACE_NATIVE_H

/* What a file has: calls, calls and returns, numbers of calls, calls without times. */
#define MODE_FUNCTION 1
#define MODE_GRAPH 2
#define MODE_COUNTER 3
#define MODE_NO_CLOCK 4

/* The C library, where the runtime asks. */
#define LIBRARY_MUSL 2

/* The control page of a thread: offsets that the entry knows. */
#define WORD_BYTES __SIZEOF_LONG__
#define PAGE_CUR 0
#define PAGE_END WORD_BYTES
#define PAGE_EPOCH 2 * WORD_BYTES
#define PAGE_BASE 3 * WORD_BYTES
#define PAGE_GENERATION 4 * WORD_BYTES
#define PAGE_OWNER 5 * WORD_BYTES
#define PAGE_THREAD 6 * WORD_BYTES
/* Of function_graph: the stack pointer of the last event, and from stacks to what shadows them. */
#define PAGE_LAST (6 * WORD_BYTES + 8)
#define PAGE_SHADOW (7 * WORD_BYTES + 8)

/* A record: tag 1, 20 bits of the counter, 16 of the stack pointer, 26 of the site's address. */
#define TAG_CALL 1
#define TAG_RETURN 2
#define TAG_CONTROL 3
#define CLOCK_BITS 20
#define CLOCK_SHIFT 2
#define STACK_BITS 16
#define STACK_SHIFT 22
#define STACK_UNIT 3
#define SITE_SHIFT 38
/* Controls: kind in bits 2 to 5, value from bit 6 on. */
#define CONTROL_EPOCH 1
#define CONTROL_STACK 2
#define CONTROL_RETURN 3
/* Values of the event behind it follow: so many units; the bit is set while they are written. */
#define CONTROL_VALUES 4
#define VALUES_BITS 16
/* A return of one unit: tag 2, 20 bits of the counter, 10 of the stack pointer. */
#define NEAR_BITS 10

/* Units of a record are stored one by one where together they would be in another order. */
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
#define UNITS_APART
#endif

#if __SIZEOF_LONG__ == 4
/* Room for `struct state`. */
#define STATE_BYTES 3280
#endif

#define HEADER_BYTES 4096
#define NAME_BYTES 256

/*
 * On x86-64 the thread's number lies here behind the thread register: glibc, or (MUSL) musl from
 * 1.2 on.
 */
#ifdef MUSL
#define LIBRARY_THREAD 0x30
#else
#define LIBRARY_THREAD 0x2d0
#endif
/* PowerPC: r13, of 32 bits r2, points so far behind the thread control block. */
#define THREAD_BIAS 0x7000

/*
 * What `floating_register` of most machines asks: FLOATING_CASE is the machine's, for one number.
 */
#define EIGHT_FLOATING_CASES \
  FLOATING_CASE(0) FLOATING_CASE(1) FLOATING_CASE(2) FLOATING_CASE(3) \
  FLOATING_CASE(4) FLOATING_CASE(5) FLOATING_CASE(6) FLOATING_CASE(7)

#ifndef __ASSEMBLER__
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
/* An address, a size; what files and records hold. */
typedef unsigned long word;
#if __SIZEOF_LONG__ == 8
typedef unsigned long u64;
#else
typedef unsigned long long u64;
#endif
#endif

#endif
