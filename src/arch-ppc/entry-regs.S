/*
 * Entries of PowerPC for sites at the function's entry: -mprofile-kernel and patchable areas of 64
 * bits, -pg and patchable areas of 32 bits the way of today (P-ENT-8).
 *
 * 	mflr r0; bl _mcount                    64 bits; r0 = return address of the traced function B, LR
 *                                         = way back into B
 * 	mflr r0; stw r0,4(r1); bl _mcount      32 bits
 * 	b stub: mflr r0; bl; mtlr r0; b B+4    OUT_OF_LINE: r0 as above, LR = way back into the stub
 *
 * CALL_OPS: no call in the entry is patched. A word in front of the stub, or of the function where
 * there is none, names the ops of the site, whose function is called. It is 8 bytes and its own
 * size in front of LR in both. Ops of a direct caller lead there at once: it goes on in B at LR, and
 * r0 = return address of B, as where the site itself leads to it. r12 is the address of the direct
 * caller; the rest is as at the site. A callback that fills the slot `direct` leads there behind it.
 *
 * B has no frame and all its arguments are live: r3..r10, f1.., v2.., r11 (static chain), r12 where
 * the site precedes the TOC set-up, on 32 bits the CR bit of varargs callers. r2 is A's or B's TOC
 * and comes back as it was. Nothing may be stored in A's frame but its LR word. Two frames are
 * made: one that stands for B (so that unwinders see it), one with the registers. B goes on at
 * `nip` of the frame, which a callback may have changed, with LR = `link`, which the graph tracer
 * changes. The plain entry marks its frame as partial by msr = 0: r13..r31 and ctr are not in it.
 * SPDX-License-Identifier: MIT
 */
#include "entry.h"
#include "entry-macros.h"
	.text
	.balign	4

	.macro	store_registers first, last
	store	\first, SLOT(\first)(1)
	.if	\last - \first
	store_registers "(\first+1)", \last
	.endif
	.endm
	.macro	load_registers first, last
	load	\first, SLOT(\first)(1)
	.if	\last - \first
	load_registers "(\first+1)", \last
	.endif
	.endm

/* Steps 1 to 5. r8..r11 carry msr, ctr, xer and cr to their slots. */
	.macro	enter all
	store_update 1, -MINIMAL(1)
	store_update 1, -REGS_FRAME(1)
	store	0, SLOT(0)(1)
	store_registers 2, 12
	.if	\all
	store_registers 13, 31
	.endif
#if defined(__powerpc64__)
	std	0, A_LR_SLOT(1)
#endif
	addi	8, 1, REGS_FRAME + MINIMAL
	store	8, SLOT(1)(1)
	.if	\all
	li	8, 0x4000		/* a program cannot read msr: problem state, and not zero */
	.else
	li	8, 0
	.endif
	.if	\all
	mfctr	9
	.endif
	mfxer	10
	mfcr	11
	mflr	7
#ifdef OUT_OF_LINE
	/*
	 * LR is in the stub: `mtlr r0`, then a branch to the site's next instruction, where B goes on.
	 * The way back leads through the stub, so that returns match calls.
	 */
	store	7, STUB_SLOT(1)
#ifdef CALL_OPS
	load	5, OPS_IN_FRONT(7)
#endif
	lwz	12, 4(7)
	slwi	12, 12, 6
	srawi	12, 12, 6
	add	7, 7, 12
	addi	7, 7, 4
#elif defined(CALL_OPS)
	load	5, OPS_IN_FRONT(7)
#endif
	store	7, NIP_SLOT(1)
	store	7, B_LR_SLOT(1)
	store	0, LINK_SLOT(1)
	store	8, MSR_SLOT(1)
	.if	\all
	store	9, CTR_SLOT(1)
	.endif
	store	10, XER_SLOT(1)
	store	11, CCR_SLOT(1)
#ifdef TOC_WORD
	std	2, TOC_WORD(1)
	core_toc
#endif
	.endm

#ifdef CALL_OPS
/* Calls what the ops of the site say, or goes on to their direct caller. */
	.macro	callback leaves
	load	8, OPS_DIRECT_CALL(5)
	store	8, DIRECT_SLOT(1)
	compare_zero 8
	bne-	\leaves
	load	12, 0(5)
	mtctr	12
	arguments
	bctrl
	.endm
#else
	.macro	load_ops
#ifdef TOC_WORD
	addis	5, 2, function_trace_op@toc@ha
	ld	5, function_trace_op@toc@l(5)
#else
	lis	5, function_trace_op@ha
	lwz	5, function_trace_op@l(5)
#endif
	.endm
#endif

	.macro	arguments
	addi	3, 7, -4
	mr	4, 0
	addi	6, 1, REGS_AT
	.endm

/* Everything back but CTR, which holds the resume address, r1, r13 and, on 64 bits, r2. */
	.macro	restore all
	load	3, XER_SLOT(1)
	load	4, CCR_SLOT(1)
	load	0, LINK_SLOT(1)
	mtxer	3
	mtcr	4
	mtlr	0
	load_registers 3, 12
	.if	\all
	load_registers 14, 31
	.endif
	.endm

/*
 * Steps 7 and 8. B's LR word has the address as it was: another one in `nip` means another
 * function.
 */
	.macro	leave all, changed, direct
#ifdef CALL_OPS
	load	3, DIRECT_SLOT(1)
	compare_zero 3
	bne-	\direct
#endif
	load	3, NIP_SLOT(1)
	load	4, B_LR_SLOT(1)
	mtctr	3
#ifdef TOC_WORD
	cmpd	3, 4
	bne-	\changed
#endif
#ifdef OUT_OF_LINE
#ifndef TOC_WORD
	cmpw	3, 4
	bne-	6f
#endif
	load	3, STUB_SLOT(1)
	mtctr	3
6:
#endif
	restore	\all
#ifdef TOC_WORD
	ld	2, TOC_WORD(1)
#endif
	addi	1, 1, REGS_FRAME + MINIMAL
	.endm

#ifdef CALL_OPS
/* A direct caller gets what it would get from the site: LR = way back, r0 = return address of B. */
	.macro	go_direct all
	load	3, DIRECT_SLOT(1)
	mtctr	3
	restore	\all
	load	12, WAY_BACK_SLOT(1)
	mtlr	12
	mfctr	12
#ifdef TOC_WORD
	ld	2, TOC_WORD(1)
#endif
	addi	1, 1, REGS_FRAME + MINIMAL
	bctr
	.endm
#endif

#ifdef TOC_WORD
/*
 * Another function takes B's place. It may have another TOC and its caller A does not reload r2, so
 * r2 and LR go to a side stack (a frame would move the arguments that lie in A's) and the function
 * is called. r12 = its entry; ELFv1: r2 from the frame, where the callback put the function's TOC.
 */
	.macro	replaced all
	ld	3, TOC_WORD(1)
	ld	4, LINK_SLOT(1)
	ld	5, SLOT(1)(1)
	bl	elftrace_side_push
	nop
	cmpdi	cr1, 3, 0
	ld	3, NIP_SLOT(1)
	mtctr	3
	std	3, SLOT(12)(1)
	beq-	cr1, 7f
	restore	\all
	ld	2, SLOT(2)(1)
	addi	1, 1, REGS_FRAME + MINIMAL
	bctrl
	b	.Lside_return
7:	restore	\all			/* no room: right only where the TOC is the same */
	ld	2, SLOT(2)(1)
	addi	1, 1, REGS_FRAME + MINIMAL
	bctr
	.endm
#endif

FUNCTION(ftrace_caller)
	enter	0
#ifdef CALL_OPS
	callback .Lplain_leaves
.Lplain_leaves:
#else
LABEL(ftrace_caller_op_ptr)
	load_ops
	arguments
LABEL(ftrace_call)
	bl	ftrace_stub
	toc_nop
#endif
	leave	0, .Lplain_replaced, .Lplain_direct
	bctr
LABEL(ftrace_caller_end)
#if defined(OUT_OF_LINE) && defined(CALL_OPS)
LABEL(elftrace_entry_ool_ops)
#elif defined(OUT_OF_LINE)
LABEL(elftrace_entry_ool)
#elif defined(CALL_OPS)
LABEL(elftrace_entry_callops)
#endif
END(ftrace_caller)

FUNCTION(ftrace_regs_caller)
	enter	1
#ifdef CALL_OPS
	callback .Lregs_leaves
.Lregs_leaves:
#else
LABEL(ftrace_regs_caller_op_ptr)
	load_ops
	arguments
LABEL(ftrace_regs_call)
	bl	ftrace_stub
	toc_nop
#endif
	leave	1, .Lregs_replaced, .Lregs_direct
	bctr
LABEL(ftrace_regs_caller_end)
END(ftrace_regs_caller)

#ifdef CALL_OPS
.Lplain_direct:
	go_direct 0
.Lregs_direct:
	go_direct 1
#endif

#ifdef TOC_WORD
.Lplain_replaced:
	replaced 0
.Lregs_replaced:
	replaced 1
/* The function came back: r3..r6 may be results. */
.Lside_return:
	stdu	1, -160(1)
	std	3, 112(1)
	std	4, 120(1)
	std	5, 128(1)
	std	6, 136(1)
	core_toc
	addi	3, 1, 160
	bl	elftrace_side_pop
	nop
	cmpdi	3, 0
	bne+	0f
	trap				/* the side stack does not know where to return to */
0:	ld	2, 0(3)
	ld	0, 8(3)
	mtlr	0
	ld	3, 112(1)
	ld	4, 120(1)
	ld	5, 128(1)
	ld	6, 136(1)
	addi	1, 1, 160
	blr
#endif

#if !defined(__powerpc64__) || _CALL_ELF == 2
	.weak	_mcount
	.type	_mcount, @function
_mcount:
#else
	.section .opd, "aw"
	.balign	8
	.weak	_mcount
	.type	_mcount, @function
_mcount:
	.quad	._mcount, .TOC.@tocbase, 0
	.size	_mcount, 24
	.previous
	.weak	._mcount
	.type	._mcount, @function
._mcount:
#endif
#if defined(__powerpc64__)
	mflr	12
	mtctr	12
	mtlr	0
#else
	mflr	0
	mtctr	0
	lwz	0, LR_WORD(1)
	mtlr	0
#endif
	bctr
END(_mcount)
#ifdef OUT_OF_LINE
	/* Stubs of the sites, one for each: the tool makes room for them, counts and fills them. */
	.section .tramp.ftrace.text, "ax"
	.balign	16
LABEL(elftrace_site_stubs)		/* no code in front of here is theirs */
	.globl	ftrace_ool_stub_text_end_count
	.type	ftrace_ool_stub_text_end_count, @object
ftrace_ool_stub_text_end_count:
	.long	0
	.size	ftrace_ool_stub_text_end_count, 4
	.balign	16
	.globl	ftrace_ool_stub_text_end
	.type	ftrace_ool_stub_text_end, @object
ftrace_ool_stub_text_end:
#endif
	.section .note.GNU-stack, "", @progbits
