/*
 * The entry of programs that write their own trace (RT-20, RT-21): a record for each call, into
 * memory that belongs to the thread. LR = behind the site's call, r0 = return address of the
 * function, which comes back in LR. Free at a function's entry are r12, ctr and cr0; r11 is the
 * static chain. The function has no frame yet: what lies below the stack pointer is kept by
 * signals.
 *
 * Room is reserved before anything is looked at that a signal handler may change: a handler
 * between the two makes the conditional store fail. What was looked at before and after is told by
 * the page's generation. Whatever is not as expected goes the slow way, which writes the record
 * itself; the reserved word stays zero. SPDX-License-Identifier: MIT
 */
#include "native.h"
#include "native-page.h"

	.abiversion 2
	.section ".text"
	.balign	16
	.globl	elftrace_native_function
	.type	elftrace_native_function, @function
elftrace_native_function:
	spill
	mflr	3
	address	native_slot
	ld	4, 0(12)
	cmpdi	4, 0
	blt	.Loff
	beq	.Lslow
	page	.Lslow
	reserve	8, .Lslow
	place	.Lslow
	ori	7, 7, TAG_CALL
	or	7, 7, 8
	sldi	8, 3, SITE_SHIFT
	or	7, 7, 8
	ld	8, PAGE_GENERATION(4)
	cmpld	8, 5
	bne	.Lslow
	put_call
.Loff:
	mtctr	3
	mtlr	0
	refill
	bctr

.Lslow:
	open_frame
	addi	4, 1, FRAME
	addi	5, 1, SAVED
	call_c	native_record
	close_frame
	b	.Loff
	.size	elftrace_native_function, . - elftrace_native_function

#include "native-words.h"
