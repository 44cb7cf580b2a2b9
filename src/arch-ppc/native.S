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
	.abiversion 2
	.section ".text"
	.balign	16
	.globl	elftrace_native_function
	.type	elftrace_native_function, @function
elftrace_native_function:
	std	3, -8(1)
	std	4, -16(1)
	std	5, -24(1)
	std	6, -32(1)
	std	7, -40(1)
	std	8, -48(1)
	mflr	3
	bcl	20, 31, .Lhere
.Lhere:
	mflr	12
	addis	12, 12, (native_slot - .Lhere)@ha
	addi	12, 12, (native_slot - .Lhere)@l
	ld	4, 0(12)
	cmpdi	4, 0
	blt	.Loff
	beq	.Lslow
	subf	4, 4, 13
	ld	4, -THREAD_BIAS(4)
	cmpdi	4, 0
	beq	.Lslow
	ld	5, PAGE_OWNER(4)
	cmpld	5, 12
	bne	.Lslow
	ld	5, 8(12)
	subf	5, 5, 13
	lwz	5, -THREAD_BIAS(5)
	lwz	6, PAGE_THREAD(4)
	cmplw	5, 6
	bne	.Lslow
	ld	5, PAGE_GENERATION(4)
.Lreserve:
	ldarx	6, 0, 4
	addi	7, 6, 8
	stdcx.	7, 0, 4
	bne-	.Lreserve
	ld	7, PAGE_END(4)
	cmpld	6, 7
	bge	.Lslow
	mftb	7
	ld	8, PAGE_EPOCH(4)
	srdi	12, 7, CLOCK_BITS
	cmpld	8, 12
	bne	.Lslow
	ld	8, PAGE_BASE(4)
	subf	8, 8, 1
	srdi	12, 8, STACK_BITS + STACK_UNIT
	cmpdi	12, 0
	bne	.Lslow
	/* Stack pointers are multiples of 16. */
	sldi	8, 8, STACK_SHIFT - STACK_UNIT
	clrlsldi 7, 7, 64 - CLOCK_BITS, CLOCK_SHIFT
	ori	7, 7, TAG_CALL
	or	7, 7, 8
	sldi	8, 3, SITE_SHIFT
	or	7, 7, 8
	ld	8, PAGE_GENERATION(4)
	cmpld	8, 5
	bne	.Lslow
	std	7, 0(6)
.Loff:
	mtctr	3
	mtlr	0
	ld	8, -48(1)
	ld	7, -40(1)
	ld	6, -32(1)
	ld	5, -24(1)
	ld	4, -16(1)
	ld	3, -8(1)
	bctr

	/* The frame is above what C may use, and holds what was stored below the stack pointer. */
#define FRAME 160
.Lslow:
	stdu	1, -FRAME(1)
	std	0, 32(1)
	std	2, 40(1)
	std	9, 48(1)
	std	10, 56(1)
	std	11, 64(1)
	std	3, 72(1)
	addi	4, 1, FRAME
	bcl	20, 31, .Lthere
.Lthere:
	mflr	12
	addis	12, 12, (native_record - .Lthere)@ha
	addi	12, 12, (native_record - .Lthere)@l
	mtctr	12
	bctrl
	ld	3, 72(1)
	ld	11, 64(1)
	ld	10, 56(1)
	ld	9, 48(1)
	ld	2, 40(1)
	ld	0, 32(1)
	addi	1, 1, FRAME
	b	.Loff
	.size	elftrace_native_function, . - elftrace_native_function

#include "native-words.h"
