/*
 * The entry of programs that write their own trace (RT-20, RT-21): a record for each call, into
 * memory that belongs to the thread. t0 = behind the site's call; ra = return address of the
 * function, which is never touched. Free at a function's entry are t1 and t3 to t6; t2 is the
 * static chain.
 *
 * Room is reserved by one instruction, before anything is looked at that a signal handler may
 * change; what was looked at before and after is told by the page's generation. Whatever is not as
 * expected goes the slow way, which writes the record itself; the reserved word stays zero. Without
 * a clock (RT-55) the bits of the counter are zero. Where calls are counted (RT-54) each site calls a
 * stub of its own, which names its number: lui t6; addi t6, its place in bytes;
 * j elftrace_native_counter. SPDX-License-Identifier: MIT
 */
#include "native.h"
#include "native-page.h"

	.option	norvc
	.option	norelax
	.macro	function_entry name, is_timed
	.balign	16
	.globl	\name
	.type	\name, @function
\name:
	lla	t1, native_slot
	ld	t3, 0(t1)
	bltz	t3, .Loff\@
	beqz	t3, .Lslow
	page	.Lslow
	reserve	8, .Lslow
	.if	\is_timed
	clock	.Lslow
	.else
	li	t6, 0
	.endif
	depth	.Lslow
	call_record
	ld	t1, PAGE_GENERATION(t3)
	bne	t1, t4, .Lslow
	sd	t6, 0(t5)
.Loff\@:
	jr	t0
	.size	\name, . - \name
	.endm

	.text
	function_entry elftrace_native_function, 1
	function_entry elftrace_native_no_clock, 0

.Lslow:
	save_call
	mv	a0, t0
	addi	a1, sp, 96
	mv	a2, sp
	call	native_record
	restore_call
	jr	t0

	/* t6 = place of the site's number, in bytes. */
	.balign	16
	.globl	elftrace_native_counter
	.type	elftrace_native_counter, @function
elftrace_native_counter:
	lla	t1, native_slot
	ld	t3, 0(t1)
	bltz	t3, .Lcounted
	beqz	t3, .Lslow_count
	page	.Lslow_count
	ld	t3, 0(t3)
	beqz	t3, .Lslow_count
	add	t3, t3, t6
	li	t1, 1
	amoadd.d zero, t1, (t3)
.Lcounted:
	jr	t0

.Lslow_count:
	save_call
	mv	a0, t6
	call	native_count
	restore_call
	jr	t0
	.size	elftrace_native_counter, . - elftrace_native_counter

#include "native-words.h"
