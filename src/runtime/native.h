/*
 * What the runtime of programs that write their own trace shares with the tool and with its entry
 * in assembly. native/layout.ts says the same in TypeScript; a test holds the two together.
 * SPDX-License-Identifier: MIT
 */
#ifndef ELFTRACE_NATIVE_H
#define ELFTRACE_NATIVE_H

/* The control page of a thread: offsets that the entry knows. */
#define PAGE_CUR 0
#define PAGE_END 8
#define PAGE_EPOCH 16
#define PAGE_BASE 24
#define PAGE_GENERATION 32
#define PAGE_OWNER 40
#define PAGE_THREAD 48
/* Of function_graph: the stack pointer of the last event, and from stacks to what shadows them. */
#define PAGE_LAST 56
#define PAGE_SHADOW 64

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
/* A return of one unit: tag 2, 20 bits of the counter, 10 of the stack pointer. */
#define NEAR_BITS 10

/* Units of a record are stored one by one where together they would be in another order. */
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
#define UNITS_APART
#endif

#define HEADER_BYTES 4096
#define NAME_BYTES 256

/* glibc on x86-64: struct pthread.tid behind the thread register. */
#define GLIBC_THREAD 0x2d0
/* 64-bit PowerPC: r13 points so far behind the thread control block. */
#define THREAD_BIAS 0x7000

#endif
