/*
 * The entry of programs of 32-bit PowerPC that write their own trace (RT-20, RT-21): a record for
 * each call, into memory that belongs to the thread. LR = behind the site's call, r0 = return
 * address of the function, which comes back in LR. Free at a function's entry are r12, ctr and cr0;
 * r11 is the static chain, r2 the thread.
 *
 * Room is reserved before anything is looked at that a signal handler may change: a handler
 * between the two makes the conditional store fail. What was looked at before and after is told by
 * the page's generation. Whatever is not as expected goes the slow way, which writes the record
 * itself; the reserved word stays zero. Without a clock (RT-55) the bits of the counter are zero.
 * Where calls are counted (RT-54) each site calls a stub, that of native.S.
 * SPDX-License-Identifier: MIT
 */
#include "native.h"
#include "native32-page.h"

	.macro	function_entry name, is_timed
	.balign	16
	.globl	\name
	.type	\name, @function
\name:
	spill
	mflr	3
	slot
	lwz	4, 0(12)
	cmpwi	4, 0
	blt	.Loff
	beq	.Lslow
	page	.Lslow
	reserve	8, .Lslow
	.if	\is_timed
	clock	.Lslow
	.else
	li	7, 0
	.endif
	depth	.Lslow
	mr	12, 3
	call_record
	lwz	12, PAGE_GENERATION(4)
	cmplw	12, 5
	bne	.Lslow
	stw	7, 0(6)
	stw	8, 4(6)
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
	save_call
	addi	4, 1, FRAME
	addi	5, 1, SAVED
	bl	native_record
	restore_call
	leave

	/* r12 = place of the site's number, in bytes. */
	.balign	16
	.globl	elftrace_native_counter
	.type	elftrace_native_counter, @function
elftrace_native_counter:
	spill
	mr	8, 12
	mflr	3
	slot
	lwz	4, 0(12)
	cmpwi	4, 0
	blt	.Lcounted
	beq	.Lslow_count
	page	.Lslow_count
	lwz	4, 0(4)
	cmpwi	4, 0
	beq	.Lslow_count
	/* The lower unit is the second one. */
	addi	7, 8, 4
1:	lwarx	5, 4, 7
	addi	5, 5, 1
	stwcx.	5, 4, 7
	bne-	1b
	cmpwi	5, 0
	bne+	.Lcounted
2:	lwarx	5, 4, 8
	addi	5, 5, 1
	stwcx.	5, 4, 8
	bne-	2b
.Lcounted:
	leave

.Lslow_count:
	save_call
	mr	3, 8
	bl	native_count
	restore_call
	leave
	.size	elftrace_native_counter, . - elftrace_native_counter

#include "native-words.h"
