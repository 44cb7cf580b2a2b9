/*
 * The page of a thread, room in it, and where on its stack and in time a record is: what the entries
 * of both kinds of traces begin with. SPDX-License-Identifier: MIT
 */
	/* t1 = native_slot, t3 = what it holds. Then t3 = page, t4 = its generation. Else the slow way. */
	.macro	page slow
	sub	t3, tp, t3
	ld	t3, 0(t3)
	beqz	t3, \slow
	ld	t4, PAGE_OWNER(t3)
	bne	t4, t1, \slow
	ld	t4, 8(t1)
	sub	t4, tp, t4
	lw	t4, 0(t4)
	lw	t5, PAGE_THREAD(t3)
	bne	t4, t5, \slow
	ld	t4, PAGE_GENERATION(t3)
	.endm

	/* t5 = room for so many bytes. */
	.macro	reserve bytes, slow
	li	t5, \bytes
	amoadd.d t5, t5, (t3)
	ld	t6, PAGE_END(t3)
	bgeu	t5, t6, \slow
	.endm

	/* t6 = counter, at its place in a record. t1 is lost. */
	.macro	clock slow
	rdtime	t6
	/* The epoch is the upper bits of the counter. */
	ld	t1, PAGE_EPOCH(t3)
	slli	t1, t1, CLOCK_BITS
	xor	t1, t1, t6
	srli	t1, t1, CLOCK_BITS
	bnez	t1, \slow
	slli	t6, t6, 64 - CLOCK_BITS
	srli	t6, t6, 64 - CLOCK_BITS - CLOCK_SHIFT
	.endm

	/* t1 = bytes from the base to sp. */
	.macro	depth slow
	ld	t1, PAGE_BASE(t3)
	sub	t1, sp, t1
	srli	t1, t1, STACK_BITS + STACK_UNIT
	bnez	t1, \slow
	ld	t1, PAGE_BASE(t3)
	sub	t1, sp, t1
	.endm

	.macro	place slow
	clock	\slow
	depth	\slow
	.endm

	/* t6 = the record of a call, from what `place` left. */
	.macro	call_record
	ori	t6, t6, TAG_CALL
	/* Stack pointers are multiples of 16. */
	slli	t1, t1, STACK_SHIFT - STACK_UNIT
	or	t6, t6, t1
	slli	t1, t0, SITE_SHIFT
	or	t6, t6, t1
	.endm

	/* What C may change of what the function was called with. */
	.macro	save_call
	addi	sp, sp, -96
	sd	ra, 0(sp)
	sd	t0, 8(sp)
	sd	t2, 16(sp)
	sd	a0, 24(sp)
	sd	a1, 32(sp)
	sd	a2, 40(sp)
	sd	a3, 48(sp)
	sd	a4, 56(sp)
	sd	a5, 64(sp)
	sd	a6, 72(sp)
	sd	a7, 80(sp)
	.endm

	.macro	restore_call
	ld	ra, 0(sp)
	ld	t0, 8(sp)
	ld	t2, 16(sp)
	ld	a0, 24(sp)
	ld	a1, 32(sp)
	ld	a2, 40(sp)
	ld	a3, 48(sp)
	ld	a4, 56(sp)
	ld	a5, 64(sp)
	ld	a6, 72(sp)
	ld	a7, 80(sp)
	addi	sp, sp, 96
	.endm
