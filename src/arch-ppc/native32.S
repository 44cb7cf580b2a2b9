/*
 * The entry of programs of 32-bit PowerPC that write their own trace (RT-20, RT-21): a record for
 * each call, into memory that belongs to the thread. LR = behind the site's call, r0 = return
 * address of the function, which comes back in LR. Free at a function's entry are r12, ctr and cr0;
 * r11 is the static chain, r2 the thread.
 *
 * Room is reserved before anything is looked at that a signal handler may change: a handler
 * between the two makes the conditional store fail. What was looked at before and after is told by
 * the page's generation. Whatever is not as expected goes the slow way, which writes the record
 * itself; the reserved word stays zero. SPDX-License-Identifier: MIT
 */
#include "native.h"
#include "native32-page.h"

	.section ".text"
	.balign	16
	.globl	elftrace_native_function
	.type	elftrace_native_function, @function
elftrace_native_function:
	spill
	mflr	3
	slot
	lwz	4, 0(12)
	cmpwi	4, 0
	blt	.Loff
	beq	.Lslow
	page	.Lslow
	reserve	8, .Lslow
	place	.Lslow
	mr	12, 3
	call_record
	lwz	12, PAGE_GENERATION(4)
	cmplw	12, 5
	bne	.Lslow
	stw	7, 0(6)
	stw	8, 4(6)
.Loff:
	mtctr	3
	mtlr	0
	refill
	bctr

.Lslow:
	save_call
	addi	4, 1, FRAME
	addi	5, 1, SAVED
	bl	native_record
	restore_call
	b	.Loff
	.size	elftrace_native_function, . - elftrace_native_function

#include "native-words.h"
