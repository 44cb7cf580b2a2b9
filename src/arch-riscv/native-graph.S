/*
 * Entry and return of programs that write calls and returns (RT-43). A site calls the entry as where
 * calls alone are written, and the entry calls what is behind the site:
 *
 *   site:  auipc t0; jalr t0, elftrace_native_graph
 *   .Lcall: jalr ra, (t0)          leaves native_hook where the return address was
 *   native_hook: j native_return
 *   s32: native_spans less the address of this word
 *   a word by which those of all objects are told
 *
 * No stubs are needed: a call through t0 that links to ra takes the site's call off the return stack
 * of the processor and puts its own there, so that each return meets its call. Such a call leads to
 * no landing pad, either.
 *
 * t0 = behind the site's call, ra = return address of the function. Free at a function's entry are
 * t1 and t3 to t6; t2 is the static chain. Behind its return all temporary registers are, and ra.
 *
 * Room is reserved by one instruction, before anything is looked at that a signal handler may
 * change; what was looked at before and after is told by the page's generation. Whatever is not as
 * expected goes the slow way. SPDX-License-Identifier: MIT
 */
#include "native.h"
#include "native-graph.h"
#include "native-hook.h"
#include "native-page.h"

	.option	norvc
	.option	norelax
	.text
	.balign	HOOK_ALIGN
	.globl	elftrace_native_graph
	.type	elftrace_native_graph, @function
elftrace_native_graph:
	.cfi_startproc
	lla	t1, native_slot
	ld	t3, 0(t1)
	bltz	t3, .Lkept
	beqz	t3, .Lslow
	page	.Lslow
	reserve	8, .Lslow
	place	.Lslow
	call_record
	sd	sp, PAGE_LAST(t3)
	ld	t1, PAGE_SHADOW(t3)
	ld	t3, PAGE_GENERATION(t3)
	bne	t3, t4, .Lslow
	/* Records lie at multiples of 4. Without its upper half it is none. */
	sw	t6, 0(t5)
	srli	t6, t6, 32
	sw	t6, 4(t5)
	beqz	t1, .Lkept
	/* A function that another one jumped to returns to where that one would have. */
	andi	t3, ra, HOOK_ALIGN - 1
	li	t4, HOOK_AT
	beq	t3, t4, .Lperhaps
.Lhook:
	add	t1, t1, sp
	sd	ra, 0(t1)
	j	.Lcall
.Lperhaps:
	lw	t3, HOOK_MARKED(ra)
	li	t4, HOOK_MARK
	bne	t3, t4, .Lhook
.Lkept:
	jr	t0

	.cfi_endproc

.Lslow:
	save_call
	mv	a0, t0
	addi	a1, sp, 96
	mv	a2, ra
	mv	a3, sp
	call	native_enter
	mv	t1, a0
	restore_call
	beqz	t1, .Lkept
	j	.Lcall

	/*
	 * How a frame whose return address is ours is unwound: its own lies in the shadow of the stack.
	 * It takes no room, so its CFA is said to be one byte higher than it is: unwinders tell frames by
	 * their CFA. Before the call the return address is where it always is: the rules begin within
	 * it, since unwinders look for the byte in front of the address that it leaves.
	 */
	.balign	HOOK_ALIGN
	nop
	nop
	.cfi_startproc
.Lcall:
	.2byte	0x80e7
	.cfi_def_cfa 2, 1
	/* sp: CFA - 1. */
	.cfi_escape 0x16, 2, 2, 0x31, 0x1c
	/*
	 * ra: key = CFA - 1, t = native_spans, from ra, which holds native_hook; words w of it until
	 * w >> 36 = key >> 26: *((w << 28 >> 16) + (key & 0x3ffffff)); no such word: 0.
	 */
	.cfi_escape 0x16, 1, 57
	.cfi_escape 0x12, 0x31, 0x1c, 0x71, HOOK_SPANS
	.cfi_escape 0x12, 0x94, 4, 0x08, 32, 0x24, 0x08, 32, 0x26, 0x22
	SHADOW_EXPRESSION
	.2byte	0x0002
	.globl	native_hook
	.hidden	native_hook
	.type	native_hook, @function
native_hook:
	j	native_return
	.reloc	., R_RISCV_32_PCREL, native_spans
	.4byte	0
	.4byte	HOOK_MARK
	.size	native_hook, . - native_hook

	/* The function returned: its stack pointer is that of its entry. */
	.type	native_return, @function
native_return:
	lla	t1, native_slot
	ld	t3, 0(t1)
	blez	t3, .Lslow_return
	page	.Lslow_return
	ld	t2, PAGE_SHADOW(t3)
	beqz	t2, .Lslow_return
	/* Few bits tell the call only where the last event was near. */
	ld	t0, PAGE_LAST(t3)
	sub	t0, sp, t0
	srli	t0, t0, NEAR_BITS + STACK_UNIT
	bnez	t0, .Lslow_return
	reserve	4, .Lslow_return
	place	.Lslow_return
	sd	sp, PAGE_LAST(t3)
	ori	t6, t6, TAG_RETURN
	slli	t1, t1, STACK_SHIFT - STACK_UNIT
	or	t6, t6, t1
	ld	t3, PAGE_GENERATION(t3)
	bne	t3, t4, .Lslow_return
	add	t2, t2, sp
	ld	ra, 0(t2)
	.cfi_same_value 1
	sw	t6, 0(t5)
	ret
	.cfi_endproc

.Lslow_return:
	addi	sp, sp, -32
	sd	a0, 0(sp)
	sd	a1, 8(sp)
	addi	a0, sp, 32
	/* As the entry lays them, behind three others. */
	addi	a1, sp, -24
	call	native_leave
	mv	ra, a0
	ld	a0, 0(sp)
	ld	a1, 8(sp)
	addi	sp, sp, 32
	ret
	.size	native_return, . - native_return
	.size	elftrace_native_graph, . - elftrace_native_graph

#include "native-words.h"
