/*
 * Entry and return of programs that write calls and returns (RT-43). A site, which has its return
 * address in r0, goes on to a stub of its own:
 *
 *   0   bl   elftrace_native_graph
 *   4   beq  16
 *   8   bl   body                  leaves 12 where the return address was
 *   12  b    native_return
 *   16  mtlr r0
 *   20  b    body                  the call keeps its return address
 *   24  s32: native_spans less the address of 12
 *   28  a word by which stubs of all objects are told
 *
 * Each return meets its call, for the processor's link stack. LR = 4 of the stub, r0 = return
 * address of the function. Free at a function's entry are r12, ctr and cr0; r11 is the static chain
 * and r2 the table of contents, which its caller may expect back. Behind its return r0, r5 to r12,
 * ctr and cr0 are.
 *
 * Room is reserved before anything is looked at that a signal handler may change: a handler
 * between the two makes the conditional store fail. What was looked at before and after is told by
 * the page's generation. Whatever is not as expected goes the slow way. SPDX-License-Identifier: MIT
 */
#include "native.h"
#include "native-graph.h"
#include "native-hook.h"
#include "native-page.h"

	.abiversion 2
	.section ".text"
	.balign	16
	.globl	elftrace_native_graph
	.type	elftrace_native_graph, @function
elftrace_native_graph:
	.cfi_startproc
	/* LR: in r0. Said so that all entries begin with the same. */
	.cfi_escape 0x09, 65, 0
	spill
	mflr	3
	address	native_slot
	ld	4, 0(12)
	cmpdi	4, 0
	blt	.Lkept
	beq	.Lslow
	page	.Lslow
	reserve	8, .Lslow
	place	.Lslow
	ori	7, 7, TAG_CALL
	or	7, 7, 8
	/* The stub's call leads behind the site. Its lowest bit is set: it links. */
	lwz	12, STUB_CALL - STUB_ENTERED(3)
	add	12, 12, 3
	addi	12, 12, STUB_CALL - STUB_ENTERED - 1
	sldi	12, 12, SITE_SHIFT
	or	7, 7, 12
	std	1, PAGE_LAST(4)
	ld	8, PAGE_SHADOW(4)
	ld	12, PAGE_GENERATION(4)
	cmpld	12, 5
	bne	.Lslow
	put_call
	cmpdi	8, 0
	beq	.Lkept
	/* A function that another one jumped to returns to where that one would have. */
	mr	7, 0
	addi	12, 7, -STUB_HOOK
	andi.	12, 12, STUB_BYTES - 1
	beq	.Lperhaps
.Lhook:
	stdx	0, 1, 8
.Lhooked:
	mtlr	3
	/* What a function takes for its return address, which the stub's call does not change. */
	addi	0, 3, STUB_HOOK - STUB_ENTERED
	/* Where functions save it, for unwinders: not all of those can read LR. */
	std	0, LINK_SAVE(1)
	refill
	cmpdi	1, 0
	blr
.Lperhaps:
	lwz	7, STUB_MARKED - STUB_HOOK(7)
	lis	12, STUB_MARK@h
	ori	12, 12, STUB_MARK@l
	cmplw	7, 12
	bne	.Lhook
.Lkept:
	mtlr	3
	refill
	cmpd	1, 1
	blr
	.cfi_endproc

.Lslow:
	open_frame
	lwz	4, STUB_CALL - STUB_ENTERED(3)
	clrrdi	4, 4, 2
	sldi	4, 4, 38
	sradi	4, 4, 38
	add	3, 3, 4
	addi	3, 3, STUB_CALL - STUB_ENTERED
	addi	4, 1, FRAME
	mr	5, 0
	addi	6, 1, SAVED
	call_c	native_enter
	cmpdi	3, 0
	close_frame
	beq	.Lkept
	b	.Lhooked
	.size	elftrace_native_graph, . - elftrace_native_graph

	/* The function returned: its stack pointer is that of its entry. */
	.balign	16
	.globl	native_return
	.type	native_return, @function
native_return:
	std	4, -16(1)
	address	native_slot
	ld	4, 0(12)
	cmpdi	4, 0
	ble	.Lslow_return
	page	.Lslow_return
	ld	9, PAGE_SHADOW(4)
	cmpdi	9, 0
	beq	.Lslow_return
	/* Few bits tell the call only where the last event was near. */
	ld	10, PAGE_LAST(4)
	subf	10, 10, 1
	srdi.	10, 10, NEAR_BITS + STACK_UNIT
	bne	.Lslow_return
	reserve	4, .Lslow_return
	place	.Lslow_return
	std	1, PAGE_LAST(4)
	ori	7, 7, TAG_RETURN
	or	7, 7, 8
	ld	12, PAGE_GENERATION(4)
	cmpld	12, 5
	bne	.Lslow_return
	ldx	0, 1, 9
	stw	7, 0(6)
	mtlr	0
	ld	4, -16(1)
	blr

.Lslow_return:
	stdu	1, -FRAME(1)
	std	2, 40(1)
	std	3, FRAME-8(1)
	addi	3, 1, FRAME
	addi	4, 1, SAVED
	call_c	native_leave
	mtlr	3
	ld	3, FRAME-8(1)
	ld	2, 40(1)
	addi	1, 1, FRAME
	ld	4, -16(1)
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
	.macro	CALLER emit
	\emit	0x12, 0x31, 0x1c, 0x71, LINK_SAVE, 0x06
	\emit	0x12, 0x23, STUB_SPANS - STUB_HOOK, 0x94, 4, 0x08, 32, 0x24, 0x08, 32, 0x26, 0x22
	SHADOW_EXPRESSION \emit
	.endm
	.macro	RULES emit, link
	/* CFA: r1 + 1; r1: CFA - 1. */
	\emit	0x0c, 1, 1, 0x16, 1, 2, 0x31, 0x1c
	/*
	 * LR: key = CFA - 1, t = native_spans, from where LR is saved, which is 12 of the stub; words w
	 * of it until w >> 36 = key >> 26: *((w << 28 >> 16) + (key & 0x3ffffff)); no such word: 0.
	 */
	\emit	0x16, \link, 60
	CALLER	\emit
	/*
	 * r2: where the caller restores it behind the call (ld r2, TOC_SAVE(r1)), what lies there.
	 * Unwinders look for that themselves, but where the CFA is that of the caller.
	 */
	\emit	0x16, 2, 60 + 26
	CALLER	\emit
	\emit	0x12, 0x28, HALF(0, 3), 0x2f, HALF(0, 16)
	\emit	0x94, 4, 0x0c, WORD(0xe8, 0x41, 0, TOC_SAVE), 0x2e, 0x28, HALF(0, 6)
	\emit	0x71, TOC_SAVE, 0x06, 0x2f, HALF(0, 2)
	\emit	0x72, 0
	.endm
	RULES	.cfi_escape, 65
	.zero	STUB_BYTES
	.cfi_endproc
	.size	native_stubs, . - native_stubs

	/* The same for debuggers, which have another number for LR in such rules. */
	.section .stubs.debug, "", @progbits
	RULES	.byte, 108

#include "native-words.h"
