/*
 * The page of a thread, room in it, and where on its stack and in time a record is: what the entries
 * of both kinds of traces of 32-bit PowerPC begin with. Nothing keeps what lies below the stack
 * pointer: there is a frame all the while. SPDX-License-Identifier: MIT
 */
#define FRAME 64
/* From here on lie r3 to r10. */
#define SAVED 8

	.macro	spill
	stwu	1, -FRAME(1)
	stw	3, 8(1)
	stw	4, 12(1)
	stw	5, 16(1)
	stw	6, 20(1)
	stw	7, 24(1)
	stw	8, 28(1)
	stw	9, 32(1)
	.endm

	.macro	refill
	lwz	9, 32(1)
	lwz	8, 28(1)
	lwz	7, 24(1)
	lwz	6, 20(1)
	lwz	5, 16(1)
	lwz	4, 12(1)
	lwz	3, 8(1)
	addi	1, 1, FRAME
	.endm

	/* r12 = native_slot; LR is lost. */
	.macro	slot
	bcl	20, 31, 77f
77:
	mflr	12
	addis	12, 12, (native_slot - 77b)@ha
	addi	12, 12, (native_slot - 77b)@l
	.endm

	/* r12 = native_slot, r4 = what it holds. Then r4 = page, r5 = its generation. Else the slow way. */
	.macro	page slow
	subf	4, 4, 2
	lwz	4, -THREAD_BIAS(4)
	cmpwi	4, 0
	beq	\slow
	lwz	5, PAGE_OWNER(4)
	cmplw	5, 12
	bne	\slow
	lwz	5, 8(12)
	subf	5, 5, 2
	lwz	5, -THREAD_BIAS(5)
	lwz	6, PAGE_THREAD(4)
	cmplw	5, 6
	bne	\slow
	lwz	5, PAGE_GENERATION(4)
	.endm

	/* r6 = room for so many bytes. */
	.macro	reserve bytes, slow
78:	lwarx	6, 0, 4
	addi	7, 6, \bytes
	stwcx.	7, 0, 4
	bne-	78b
	lwz	7, PAGE_END(4)
	cmplw	6, 7
	bge	\slow
	.endm

	/* r7 = counter, at its place in the lower unit of a record. r8, r9 and r12 are lost. */
	.macro	clock slow
79:	mftbu	9
	mftb	7
	mftbu	8
	cmplw	9, 8
	bne-	79b
	/* The epoch, as far as it fits into a word. */
	srwi	8, 7, CLOCK_BITS
	rlwimi	8, 9, 32 - CLOCK_BITS, 0, CLOCK_BITS - 1
	lwz	12, PAGE_EPOCH(4)
	cmplw	8, 12
	bne	\slow
	clrlslwi 7, 7, 32 - CLOCK_BITS, CLOCK_SHIFT
	.endm

	/* r7 with the stack pointer in it; r8 = bytes from the base to the stack. r12 is lost. */
	.macro	depth slow
	addi	8, 1, FRAME
	lwz	12, PAGE_BASE(4)
	subf	8, 12, 8
	srwi.	12, 8, STACK_BITS + STACK_UNIT
	bne	\slow
	/* Stack pointers are multiples of 16. */
	slwi	12, 8, STACK_SHIFT - STACK_UNIT
	or	7, 7, 12
	.endm

	.macro	place slow
	clock	\slow
	depth	\slow
	.endm

	/* r7, r8 = the record of a call, behind whose site r12 is. */
	.macro	call_record
	ori	7, 7, TAG_CALL
	srwi	8, 8, 32 - STACK_SHIFT + STACK_UNIT
	slwi	12, 12, SITE_SHIFT - 32
	or	8, 8, 12
	.endm

	/* What else C may change. */
	.macro	save_call
	stw	10, 36(1)
	stw	0, 40(1)
	stw	11, 44(1)
	stw	3, 48(1)
	.endm

	.macro	restore_call
	lwz	3, 48(1)
	lwz	11, 44(1)
	lwz	0, 40(1)
	lwz	10, 36(1)
	.endm
