/*
 * The entry of programs of 32-bit PowerPC that write their own trace (RT-20, RT-21): a record for
 * each call, into memory that belongs to the thread. LR = behind the site's call, r0 = return
 * address of the function, which comes back in LR. Free at a function's entry are r12, ctr and cr0;
 * r11 is the static chain, r2 the thread. Nothing keeps what lies below the stack pointer: there is
 * a frame all the while.
 *
 * Room is reserved before anything is looked at that a signal handler may change: a handler
 * between the two makes the conditional store fail. What was looked at before and after is told by
 * the page's generation. Whatever is not as expected goes the slow way, which writes the record
 * itself; the reserved word stays zero. SPDX-License-Identifier: MIT
 */
#include "native.h"

#define FRAME 64

	.section ".text"
	.balign	16
	.globl	elftrace_native_function
	.type	elftrace_native_function, @function
elftrace_native_function:
	stwu	1, -FRAME(1)
	stw	3, 8(1)
	stw	4, 12(1)
	stw	5, 16(1)
	stw	6, 20(1)
	stw	7, 24(1)
	stw	8, 28(1)
	stw	9, 32(1)
	mflr	3
	bcl	20, 31, .Lhere
.Lhere:
	mflr	12
	addis	12, 12, (native_slot - .Lhere)@ha
	addi	12, 12, (native_slot - .Lhere)@l
	lwz	4, 0(12)
	cmpwi	4, 0
	blt	.Loff
	beq	.Lslow
	subf	4, 4, 2
	lwz	4, -THREAD_BIAS(4)
	cmpwi	4, 0
	beq	.Lslow
	lwz	5, PAGE_OWNER(4)
	cmplw	5, 12
	bne	.Lslow
	lwz	5, 8(12)
	subf	5, 5, 2
	lwz	5, -THREAD_BIAS(5)
	lwz	6, PAGE_THREAD(4)
	cmplw	5, 6
	bne	.Lslow
	lwz	5, PAGE_GENERATION(4)
.Lreserve:
	lwarx	6, 0, 4
	addi	7, 6, 8
	stwcx.	7, 0, 4
	bne-	.Lreserve
	lwz	7, PAGE_END(4)
	cmplw	6, 7
	bge	.Lslow
.Lcounter:
	mftbu	9
	mftb	7
	mftbu	8
	cmplw	9, 8
	bne-	.Lcounter
	/* The epoch, as far as it fits into a word. */
	srwi	8, 7, CLOCK_BITS
	rlwimi	8, 9, 32 - CLOCK_BITS, 0, CLOCK_BITS - 1
	lwz	12, PAGE_EPOCH(4)
	cmplw	8, 12
	bne	.Lslow
	addi	8, 1, FRAME
	lwz	12, PAGE_BASE(4)
	subf	8, 12, 8
	srwi.	12, 8, STACK_BITS + STACK_UNIT
	bne	.Lslow
	/* The lower unit. Stack pointers are multiples of 16. */
	clrlslwi 7, 7, 32 - CLOCK_BITS, CLOCK_SHIFT
	ori	7, 7, TAG_CALL
	slwi	12, 8, STACK_SHIFT - STACK_UNIT
	or	7, 7, 12
	/* The upper one. */
	srwi	8, 8, 32 - STACK_SHIFT + STACK_UNIT
	slwi	12, 3, SITE_SHIFT - 32
	or	8, 8, 12
	lwz	12, PAGE_GENERATION(4)
	cmplw	12, 5
	bne	.Lslow
	stw	7, 0(6)
	stw	8, 4(6)
.Loff:
	mtctr	3
	mtlr	0
	lwz	9, 32(1)
	lwz	8, 28(1)
	lwz	7, 24(1)
	lwz	6, 20(1)
	lwz	5, 16(1)
	lwz	4, 12(1)
	lwz	3, 8(1)
	addi	1, 1, FRAME
	bctr

.Lslow:
	stw	0, 36(1)
	stw	10, 40(1)
	stw	11, 44(1)
	stw	3, 48(1)
	addi	4, 1, FRAME
	bl	native_record
	lwz	3, 48(1)
	lwz	11, 44(1)
	lwz	10, 40(1)
	lwz	0, 36(1)
	b	.Loff
	.size	elftrace_native_function, . - elftrace_native_function

#include "native-words.h"
