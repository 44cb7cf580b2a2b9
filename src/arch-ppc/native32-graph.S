/*
 * Entry and return of programs of 32-bit PowerPC that write calls and returns (RT-43). The stub of
 * a site is that of native-graph.S. LR = 4 of the stub, r0 = return address of the function. Free at
 * a function's entry are r12, ctr and cr0; r11 is the static chain. Behind its return r0, r5 to r12,
 * ctr and cr0 are.
 *
 * Room is reserved before anything is looked at that a signal handler may change: a handler
 * between the two makes the conditional store fail. What was looked at before and after is told by
 * the page's generation. Whatever is not as expected goes the slow way. SPDX-License-Identifier: MIT
 */
#include "native.h"
#include "native-graph.h"
#include "native-hook.h"
#include "native32-page.h"

	.section ".text"
	.balign	16
	.globl	elftrace_native_graph
	.type	elftrace_native_graph, @function
elftrace_native_graph:
	spill
	mflr	3
	slot
	lwz	4, 0(12)
	cmpwi	4, 0
	blt	.Lkept
	beq	.Lslow
	page	.Lslow
	reserve	8, .Lslow
	place	.Lslow
	/* The stub's call leads behind the site. Its lowest bit is set: it links. */
	lwz	12, STUB_CALL - STUB_ENTERED(3)
	add	12, 12, 3
	addi	12, 12, STUB_CALL - STUB_ENTERED - 1
	call_record
	addi	9, 1, FRAME
	stw	9, PAGE_LAST(4)
	lwz	12, PAGE_SHADOW(4)
	lwz	4, PAGE_GENERATION(4)
	cmplw	4, 5
	bne	.Lslow
	stw	7, 0(6)
	stw	8, 4(6)
	cmpwi	12, 0
	beq	.Lkept
	/* A function that another one jumped to returns to where that one would have. */
	mr	7, 0
	addi	8, 7, -STUB_HOOK
	andi.	8, 8, STUB_BYTES - 1
	beq	.Lperhaps
.Lhook:
	stwx	0, 9, 12
.Lhooked:
	mtlr	3
	/* What a function takes for its return address, which the stub's call does not change. */
	addi	0, 3, STUB_HOOK - STUB_ENTERED
	/* Where functions save it, for unwinders: not all of those can read LR. */
	stw	0, FRAME + LINK_SAVE(1)
	refill
	cmpwi	1, 0
	blr
.Lperhaps:
	lwz	7, STUB_MARKED - STUB_HOOK(7)
	lis	8, STUB_MARK@h
	ori	8, 8, STUB_MARK@l
	cmplw	7, 8
	bne	.Lhook
.Lkept:
	mtlr	3
	refill
	cmpw	1, 1
	blr

.Lslow:
	save_call
	lwz	4, STUB_CALL - STUB_ENTERED(3)
	clrrwi	4, 4, 2
	slwi	4, 4, 6
	srawi	4, 4, 6
	add	3, 3, 4
	addi	3, 3, STUB_CALL - STUB_ENTERED
	addi	4, 1, FRAME
	mr	5, 0
	addi	6, 1, SAVED
	bl	native_enter
	cmpwi	3, 0
	restore_call
	beq	.Lkept
	b	.Lhooked
	.size	elftrace_native_graph, . - elftrace_native_graph

	/* The function returned: its stack pointer is that of its entry. */
	.balign	16
	.globl	native_return
	.type	native_return, @function
native_return:
	spill
	slot
	lwz	4, 0(12)
	cmpwi	4, 0
	ble	.Lslow_return
	page	.Lslow_return
	lwz	10, PAGE_SHADOW(4)
	cmpwi	10, 0
	beq	.Lslow_return
	/* Few bits tell the call only where the last event was near. */
	addi	11, 1, FRAME
	lwz	0, PAGE_LAST(4)
	subf	0, 0, 11
	srwi.	0, 0, NEAR_BITS + STACK_UNIT
	bne	.Lslow_return
	reserve	4, .Lslow_return
	place	.Lslow_return
	stw	11, PAGE_LAST(4)
	ori	7, 7, TAG_RETURN
	lwz	12, PAGE_GENERATION(4)
	cmplw	12, 5
	bne	.Lslow_return
	lwzx	0, 11, 10
	stw	7, 0(6)
	mtlr	0
	lwz	4, 12(1)
	addi	1, 1, FRAME
	blr

.Lslow_return:
	addi	3, 1, FRAME
	addi	4, 1, SAVED
	bl	native_leave
	mtlr	3
	lwz	4, 12(1)
	lwz	3, 8(1)
	addi	1, 1, FRAME
	blr
	.size	native_return, . - native_return

	/*
	 * How a frame whose return address is ours is unwound: its own lies in the shadow of the stack.
	 * It takes no room, so its CFA is said to be one byte higher than it is: unwinders tell frames by
	 * their CFA.
	 */
	.section .stubs, "ax", @progbits
	.balign	STUB_BYTES
	.globl	native_stubs
	.type	native_stubs, @object
native_stubs:
	.cfi_startproc
	.macro	RULES emit, link
	/* CFA: r1 + 1; r1: CFA - 1. */
	\emit	0x0c, 1, 1, 0x16, 1, 2, 0x31, 0x1c
	/*
	 * LR: key = CFA - 1, t = native_spans, from where LR is saved, which is 12 of the stub; words w
	 * of it until (w & 0xff) = key >> 24: *((w & ~0xfff) + (key & 0xffffff)); no such word: 0.
	 */
	\emit	0x16, \link, 51
	\emit	0x12, 0x31, 0x1c, 0x71, LINK_SAVE, 0x06
	\emit	0x12, 0x23, STUB_SPANS - STUB_HOOK, 0x06, 0x22
	SHADOW_EXPRESSION \emit
	.endm
	RULES	.cfi_escape, 65
	.zero	STUB_BYTES
	.cfi_endproc
	.size	native_stubs, . - native_stubs

	/* The same for debuggers, which have another number for LR in such rules. */
	.section .stubs.debug, "", @progbits
	RULES	.byte, 108

#include "native-words.h"
