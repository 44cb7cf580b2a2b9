/*
 * The entry of programs that write their own trace (RT-20, RT-21): a record for each call, into
 * memory that belongs to the thread. t0 = behind the site's call; ra = return address of the
 * function, which is never touched. Free at a function's entry are t1 and t3 to t6; t2 is the
 * static chain.
 *
 * Room is reserved by one instruction, before anything is looked at that a signal handler may
 * change; what was looked at before and after is told by the page's generation. Whatever is not as
 * expected goes the slow way, which writes the record itself; the reserved word stays zero.
 * SPDX-License-Identifier: MIT
 */
#include "native.h"
	.option	norvc
	.option	norelax
	.text
	.balign	16
	.globl	elftrace_native_function
	.type	elftrace_native_function, @function
elftrace_native_function:
	lla	t1, native_slot
	ld	t3, 0(t1)
	bltz	t3, .Loff
	beqz	t3, .Lslow
	sub	t3, tp, t3
	ld	t3, 0(t3)
	beqz	t3, .Lslow
	ld	t4, PAGE_OWNER(t3)
	bne	t4, t1, .Lslow
	ld	t4, 8(t1)
	sub	t4, tp, t4
	lw	t4, 0(t4)
	lw	t5, PAGE_THREAD(t3)
	bne	t4, t5, .Lslow
	ld	t4, PAGE_GENERATION(t3)
	li	t5, 8
	amoadd.d t5, t5, (t3)
	ld	t6, PAGE_END(t3)
	bgeu	t5, t6, .Lslow
	rdtime	t6
	/* The epoch is the upper bits of the counter. */
	ld	t1, PAGE_EPOCH(t3)
	slli	t1, t1, CLOCK_BITS
	xor	t1, t1, t6
	srli	t1, t1, CLOCK_BITS
	bnez	t1, .Lslow
	ld	t1, PAGE_BASE(t3)
	sub	t1, sp, t1
	srli	t1, t1, STACK_BITS + STACK_UNIT
	bnez	t1, .Lslow
	slli	t6, t6, 64 - CLOCK_BITS
	srli	t6, t6, 64 - CLOCK_BITS - CLOCK_SHIFT
	ori	t6, t6, TAG_CALL
	/* Stack pointers are multiples of 16. */
	ld	t1, PAGE_BASE(t3)
	sub	t1, sp, t1
	slli	t1, t1, STACK_SHIFT - STACK_UNIT
	or	t6, t6, t1
	slli	t1, t0, SITE_SHIFT
	or	t6, t6, t1
	ld	t1, PAGE_GENERATION(t3)
	bne	t1, t4, .Lslow
	sd	t6, 0(t5)
.Loff:
	jr	t0

.Lslow:
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
	mv	a0, t0
	addi	a1, sp, 96
	call	native_record
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
	jr	t0
	.size	elftrace_native_function, . - elftrace_native_function

#include "native-words.h"
