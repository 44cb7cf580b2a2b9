/*
 * The entry of programs that write their own trace (RT-20, RT-21): a record for each call, into
 * memory that belongs to the thread. x30 = behind the site's call, x9 = return address of the
 * function, which comes back in x30. Free at a function's entry are x10 to x17 and the flags; x8
 * and x18 are not.
 *
 * Room is reserved before anything is looked at that a signal handler may change: a handler
 * between the two exclusives makes the store fail. What was looked at before and after is told by
 * the page's generation. Whatever is not as expected goes the slow way, which writes the record
 * itself; the reserved word stays zero. Without a clock (RT-55) the bits of the counter are zero.
 * Where calls are counted (RT-54) each site calls a stub of its own, which names its number:
 * movz x16; movk x16, its place in bytes; b elftrace_native_counter. SPDX-License-Identifier: MIT
 */
#include "native.h"
#include "native-page.h"

	.macro	function_entry name, is_timed
	.balign	16
	.globl	\name
	.type	\name, %function
\name:
	adrp	x10, native_slot
	add	x10, x10, :lo12:native_slot
	ldr	x11, [x10]
	tbnz	x11, #63, .Loff\@
	cbz	x11, .Lslow
	page	.Lslow
	reserve	8, .Lslow
	.if	\is_timed
	clock	.Lslow
	.endif
	depth	.Lslow
	.if	\is_timed
	ubfiz	x13, x13, #CLOCK_SHIFT, #CLOCK_BITS
	orr	x13, x13, #TAG_CALL
	.else
	mov	x13, #TAG_CALL
	.endif
	bfi	x13, x15, #STACK_SHIFT, #STACK_BITS
	bfi	x13, x30, #SITE_SHIFT, #64 - SITE_SHIFT
	ldr	x10, [x11, #PAGE_GENERATION]
	cmp	x10, x14
	b.ne	.Lslow
	str	x13, [x12]
.Loff\@:
	leave
	.size	\name, . - \name
	.endm

	/* Back as from a function, so that neither landing pads nor shadow stacks are asked for. */
	.macro	leave
	mov	x10, x30
	mov	x30, x9
	ret	x10
	.endm

	.macro	save_call
	stp	x9, x30, [sp, #-96]!
	stp	x0, x1, [sp, #16]
	stp	x2, x3, [sp, #32]
	stp	x4, x5, [sp, #48]
	stp	x6, x7, [sp, #64]
	str	x8, [sp, #80]
	.endm

	.macro	restore_call
	ldr	x8, [sp, #80]
	ldp	x6, x7, [sp, #64]
	ldp	x4, x5, [sp, #48]
	ldp	x2, x3, [sp, #32]
	ldp	x0, x1, [sp, #16]
	ldp	x9, x30, [sp], #96
	.endm

	.text
	function_entry elftrace_native_function, 1
	function_entry elftrace_native_no_clock, 0

.Lslow:
	save_call
	mov	x0, x30
	add	x1, sp, #96
	mov	x2, sp
	bl	native_record
	restore_call
	leave

	/* x16 = place of the site's number, in bytes. */
	.balign	16
	.globl	elftrace_native_counter
	.type	elftrace_native_counter, %function
elftrace_native_counter:
	adrp	x10, native_slot
	add	x10, x10, :lo12:native_slot
	ldr	x11, [x10]
	tbnz	x11, #63, .Lcounted
	cbz	x11, .Lslow_count
	page	.Lslow_count
	ldr	x12, [x11]
	cbz	x12, .Lslow_count
	add	x12, x12, x16
1:	ldxr	x13, [x12]
	add	x13, x13, #1
	stxr	w15, x13, [x12]
	cbnz	w15, 1b
.Lcounted:
	leave

.Lslow_count:
	save_call
	mov	x0, x16
	bl	native_count
	restore_call
	leave
	.size	elftrace_native_counter, . - elftrace_native_counter

#include "native-words.h"
