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
 * itself; the reserved word stays zero. Without a clock (RT-55) the bits of the counter are zero.
 * Where calls are counted (RT-54) each site calls a stub of its own, which names its number:
 * lis r12; ori r12, its place in bytes; b elftrace_native_counter. SPDX-License-Identifier: MIT
 */
#include "native.h"
#include "native-page.h"

	.abiversion 2
	.macro	function_entry name, is_timed
	.balign	16
	.globl	\name
	.type	\name, @function
\name:
	spill
	mflr	3
	address	native_slot
	ld	4, 0(12)
	cmpdi	4, 0
	blt	.Loff
	beq	.Lslow
	page	.Lslow
	reserve	8, .Lslow
	.if	\is_timed
	clock	.Lslow
	depth	.Lslow
	ori	7, 7, TAG_CALL
	.else
	depth	.Lslow
	li	7, TAG_CALL
	.endif
	or	7, 7, 8
	sldi	8, 3, SITE_SHIFT
	or	7, 7, 8
	ld	8, PAGE_GENERATION(4)
	cmpld	8, 5
	bne	.Lslow
	put_call
	leave
	.size	\name, . - \name
	.endm

	.macro	leave
	mtctr	3
	mtlr	0
	refill
	bctr
	.endm

	.section ".text"
	function_entry elftrace_native_function, 1
	function_entry elftrace_native_no_clock, 0

.Loff:
	leave

.Lslow:
	open_frame
	addi	4, 1, FRAME
	addi	5, 1, SAVED
	call_c	native_record
	close_frame
	leave

	/* r12 = place of the site's number, in bytes. */
	.balign	16
	.globl	elftrace_native_counter
	.type	elftrace_native_counter, @function
elftrace_native_counter:
	spill
	mr	8, 12
	mflr	3
	address	native_slot
	ld	4, 0(12)
	cmpdi	4, 0
	blt	.Lcounted
	beq	.Lslow_count
	page	.Lslow_count
	ld	4, 0(4)
	cmpdi	4, 0
	beq	.Lslow_count
1:	ldarx	5, 4, 8
	addi	5, 5, 1
	stdcx.	5, 4, 8
	bne-	1b
.Lcounted:
	leave

.Lslow_count:
	open_frame
	mr	3, 8
	call_c	native_count
	close_frame
	leave
	.size	elftrace_native_counter, . - elftrace_native_counter

#include "native-words.h"
