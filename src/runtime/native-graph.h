/*
 * What entries of function_graph in assembly, its slow way and its unwind information share.
 * SPDX-License-Identifier: MIT
 */
#ifndef ELFTRACE_NATIVE_GRAPH_H
#define ELFTRACE_NATIVE_GRAPH_H

/*
 * A word of native_spans: number of 64 MiB of addresses above, page number of the shadow below. Of
 * 32 bits: the shadow, and in its lowest bits the number of 16 MiB.
 */
#define SPANS 1024
#if __SIZEOF_LONG__ == 8
#define SPAN_SHIFT 26
#define SPAN_PAGE_BITS 36
#else
#define SPAN_SHIFT 24
#define SPAN_ONES_32 0xff
#endif

#ifdef __ASSEMBLER__
/* Numbers in DWARF expressions, from the upper byte down. */
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
#define HALF(a, b) a, b
#define WORD(a, b, c, d) a, b, c, d
#else
#define HALF(a, b) b, a
#define WORD(a, b, c, d) d, c, b, a
#endif

#if __SIZEOF_LONG__ == 8
	/*
	 * The end of a DWARF expression that finds a return address. On its stack: something, the key,
	 * where native_spans is (t). 42 bytes: look for the word w at t whose w >> 36 is key >> 26, until
	 * it is 0 (then 0); *((w << 28 >> 16) + (key & 0x3ffffff)).
	 */
	.macro	SHADOW_EXPRESSION emit=.cfi_escape
	\emit	0x12, 0x06, 0x12, 0x08, 36, 0x25, 0x15, 3, 0x4a, 0x25, 0x29, 0x28, HALF(0, 12)
	\emit	0x28, HALF(0, 4), 0x30, 0x2f, HALF(0, 21)
	\emit	0x23, 8, 0x2f, HALF(0xff, 0xe6)
	\emit	0x08, 28, 0x24, 0x08, 16, 0x25, 0x15, 2, 0x0c, WORD(0x03, 0xff, 0xff, 0xff), 0x1a, 0x22, 0x06
	.endm
#else
	/*
	 * The same in words of 32 bits, 40 bytes: until (w & 0xff) is key >> 24;
	 * *((w & ~0xfff) + (key & 0xffffff)).
	 */
	.macro	SHADOW_EXPRESSION emit=.cfi_escape
	\emit	0x12, 0x06, 0x12, 0x08, 0xff, 0x1a, 0x15, 3, 0x48, 0x25, 0x29, 0x28, HALF(0, 12)
	\emit	0x28, HALF(0, 4), 0x30, 0x2f, HALF(0, 19)
	\emit	0x23, 4, 0x2f, HALF(0xff, 0xe6)
	\emit	0x3c, 0x25, 0x3c, 0x24, 0x15, 2, 0x0c, WORD(0x00, 0xff, 0xff, 0xff), 0x1a, 0x22, 0x06
	.endm
#endif
#endif

#endif
