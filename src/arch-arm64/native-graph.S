/*
 * Entry and return of programs that write calls and returns (RT-35). A site jumps to a stub of its
 * own; the second word of the site stays a nop:
 *
 *   0   mov  x9, x30
 *   4   bl   elftrace_native_graph
 *   8   cbz  x10, 20
 *   12  bl   body                  leaves 16 where the return address was
 *   16  b    native_return
 *   20  b    body                  the call keeps its return address
 *   24  s32: native_spans less the address of 16
 *   28  a word by which stubs of all objects are told
 *
 * Each return meets its call, for the processor's return stack and for guarded control stacks.
 * x9 = return address of the function, x30 = 8 of the stub. Free at a function's entry are x10 to
 * x17 and the flags; behind its return those that carry no result, too, of which x9 to x17 are used.
 *
 * Room is reserved before anything is looked at that a signal handler may change: a handler
 * between the two exclusives makes the store fail. What was looked at before and after is told by
 * the page's generation. Whatever is not as expected goes the slow way. SPDX-License-Identifier: MIT
 */
#include "native.h"
#include "native-graph.h"
#include "native-hook.h"
#include "native-page.h"

	.text
	.balign	16
	.globl	elftrace_native_graph
	.type	elftrace_native_graph, %function
elftrace_native_graph:
	.cfi_startproc
	/* x30: in x9. Said so that all entries begin with the same. */
	.cfi_escape 0x09, 30, 9
	adrp	x10, native_slot
	add	x10, x10, :lo12:native_slot
	ldr	x11, [x10]
	tbnz	x11, #63, .Lkept
	cbz	x11, .Lslow
	page	.Lslow
	reserve	8, .Lslow
	place	.Lslow
	ubfiz	x13, x13, #CLOCK_SHIFT, #CLOCK_BITS
	orr	x13, x13, #TAG_CALL
	bfi	x13, x15, #STACK_SHIFT, #STACK_BITS
	/* The stub's call leads behind the site. */
	ldr	w10, [x30, #STUB_CALL - 8]
	sbfiz	x10, x10, #2, #26
	add	x10, x10, x30
	add	x10, x10, #STUB_CALL - 8
	bfi	x13, x10, #SITE_SHIFT, #64 - SITE_SHIFT
	mov	x15, sp
	str	x15, [x11, #PAGE_LAST]
	ldr	x16, [x11, #PAGE_SHADOW]
	ldr	x10, [x11, #PAGE_GENERATION]
	cmp	x10, x14
	b.ne	.Lslow
	str	x13, [x12]
	cbz	x16, .Lkept
	/* A function that another one jumped to returns to where that one would have. */
	sub	x10, x9, #STUB_HOOK
	tst	x10, #STUB_BYTES - 1
	b.eq	.Lperhaps
.Lhook:
	str	x9, [x15, x16]
	mov	x10, #1
	ret
.Lperhaps:
	ldr	w10, [x9, #STUB_MARKED - STUB_HOOK]
	movz	w12, #STUB_MARK & 0xffff
	movk	w12, #STUB_MARK >> 16, lsl #16
	cmp	w10, w12
	b.ne	.Lhook
.Lkept:
	/* The stub's last branch finds the return address where it was. */
	mov	x10, x30
	mov	x30, x9
	mov	x11, x10
	mov	x10, #0
	ret	x11

.Lslow:
	stp	x9, x30, [sp, #-96]!
	stp	x0, x1, [sp, #16]
	stp	x2, x3, [sp, #32]
	stp	x4, x5, [sp, #48]
	stp	x6, x7, [sp, #64]
	str	x8, [sp, #80]
	ldr	w10, [x30, #STUB_CALL - 8]
	sbfiz	x10, x10, #2, #26
	add	x10, x10, x30
	add	x0, x10, #STUB_CALL - 8
	add	x1, sp, #96
	mov	x2, x9
	mov	x3, sp
	bl	native_enter
	mov	x10, x0
	ldr	x8, [sp, #80]
	ldp	x6, x7, [sp, #64]
	ldp	x4, x5, [sp, #48]
	ldp	x2, x3, [sp, #32]
	ldp	x0, x1, [sp, #16]
	ldp	x9, x30, [sp], #96
	cbz	x10, .Lkept
	ret
	.cfi_endproc
	.size	elftrace_native_graph, . - elftrace_native_graph

	/* The function returned: its stack pointer is that of its entry. */
	.balign	16
	.globl	native_return
	.type	native_return, %function
native_return:
	adrp	x10, native_slot
	add	x10, x10, :lo12:native_slot
	ldr	x11, [x10]
	cmp	x11, #0
	b.le	.Lslow_return
	page	.Lslow_return
	ldr	x16, [x11, #PAGE_SHADOW]
	cbz	x16, .Lslow_return
	mov	x17, sp
	/* Few bits tell the call only where the last event was near. */
	ldr	x15, [x11, #PAGE_LAST]
	sub	x15, x17, x15
	lsr	x15, x15, #NEAR_BITS + STACK_UNIT
	cbnz	x15, .Lslow_return
	reserve	4, .Lslow_return
	place	.Lslow_return
	str	x17, [x11, #PAGE_LAST]
	ubfiz	w13, w13, #CLOCK_SHIFT, #CLOCK_BITS
	orr	w13, w13, #TAG_RETURN
	bfi	w13, w15, #STACK_SHIFT, #NEAR_BITS
	ldr	x10, [x11, #PAGE_GENERATION]
	cmp	x10, x14
	b.ne	.Lslow_return
	ldr	x30, [x17, x16]
	str	w13, [x12]
	ret

.Lslow_return:
	sub	sp, sp, #80
	stp	x0, x1, [sp]
	stp	x2, x3, [sp, #16]
	stp	x4, x5, [sp, #32]
	stp	x6, x7, [sp, #48]
	str	x8, [sp, #64]
	add	x0, sp, #80
	/* As the entry lays them, behind two others. */
	sub	x1, sp, #16
	bl	native_leave
	mov	x30, x0
	ldp	x0, x1, [sp]
	ldp	x2, x3, [sp, #16]
	ldp	x4, x5, [sp, #32]
	ldp	x6, x7, [sp, #48]
	ldr	x8, [sp, #64]
	add	sp, sp, #80
	ret
	.size	native_return, . - native_return

	/*
	 * How a frame whose return address is ours is unwound: its own lies in the shadow of the stack.
	 * It takes no room, so its CFA is said to be one byte higher than it is: unwinders tell frames by
	 * their CFA.
	 */
	.section .stubs, "ax", %progbits
	.balign	STUB_BYTES
	.globl	native_stubs
	.type	native_stubs, %object
native_stubs:
	.cfi_startproc
	/* CFA: sp + 1; sp: CFA - 1. */
	.cfi_escape 0x0c, 31, 1, 0x16, 31, 2, 0x31, 0x1c
	/*
	 * x30: key = CFA - 1, t = native_spans, from x30, which holds 16 of the stub and
	 * perhaps a signature above bit 47; words w of it until
	 * w >> 36 = key >> 26: *((w << 28 >> 16) + (key & 0x3ffffff)); no such word: 0.
	 */
	.cfi_escape 0x16, 30, 65
	.cfi_escape 0x12, 0x31, 0x1c, 0x8e, 0, 0x08, 16, 0x24, 0x08, 16, 0x25
	.cfi_escape 0x12, 0x23, 8, 0x94, 4, 0x08, 32, 0x24, 0x08, 32, 0x26, 0x22
	SHADOW_EXPRESSION
	.zero	STUB_BYTES
	.cfi_endproc
	.size	native_stubs, . - native_stubs

#include "native-words.h"
