/*
 * The entry of programs that write their own trace (RT-20, RT-21): a record for each call, into
 * memory that belongs to the thread. x30 = behind the site's call, x9 = return address of the
 * function, which comes back in x30. Free at a function's entry are x10 to x17 and the flags; x8
 * and x18 are not.
 *
 * Room is reserved before anything is looked at that a signal handler may change: a handler
 * between the two exclusives makes the store fail. What was looked at before and after is told by
 * the page's generation. Whatever is not as expected goes the slow way, which writes the record
 * itself; the reserved word stays zero. SPDX-License-Identifier: MIT
 */
#include "native.h"
#include "native-page.h"

	.text
	.balign	16
	.globl	elftrace_native_function
	.type	elftrace_native_function, %function
elftrace_native_function:
	adrp	x10, native_slot
	add	x10, x10, :lo12:native_slot
	ldr	x11, [x10]
	tbnz	x11, #63, .Loff
	cbz	x11, .Lslow
	page	.Lslow
	reserve	8, .Lslow
	place	.Lslow
	ubfiz	x13, x13, #CLOCK_SHIFT, #CLOCK_BITS
	orr	x13, x13, #TAG_CALL
	bfi	x13, x15, #STACK_SHIFT, #STACK_BITS
	bfi	x13, x30, #SITE_SHIFT, #64 - SITE_SHIFT
	ldr	x10, [x11, #PAGE_GENERATION]
	cmp	x10, x14
	b.ne	.Lslow
	str	x13, [x12]
.Loff:
	/* Back as from a function, so that neither landing pads nor shadow stacks are asked for. */
	mov	x10, x30
	mov	x30, x9
	ret	x10

.Lslow:
	stp	x9, x30, [sp, #-96]!
	stp	x0, x1, [sp, #16]
	stp	x2, x3, [sp, #32]
	stp	x4, x5, [sp, #48]
	stp	x6, x7, [sp, #64]
	str	x8, [sp, #80]
	mov	x0, x30
	add	x1, sp, #96
	mov	x2, sp
	bl	native_record
	ldr	x8, [sp, #80]
	ldp	x6, x7, [sp, #64]
	ldp	x4, x5, [sp, #48]
	ldp	x2, x3, [sp, #32]
	ldp	x0, x1, [sp, #16]
	ldp	x9, x30, [sp], #96
	b	.Loff
	.size	elftrace_native_function, . - elftrace_native_function

#include "native-words.h"
