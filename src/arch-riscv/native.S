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
#include "native-page.h"

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
	page	.Lslow
	reserve	8, .Lslow
	place	.Lslow
	call_record
	ld	t1, PAGE_GENERATION(t3)
	bne	t1, t4, .Lslow
	sd	t6, 0(t5)
.Loff:
	jr	t0

.Lslow:
	save_call
	mv	a0, t0
	addi	a1, sp, 96
	mv	a2, sp
	call	native_record
	restore_call
	jr	t0
	.size	elftrace_native_function, . - elftrace_native_function

#include "native-words.h"
