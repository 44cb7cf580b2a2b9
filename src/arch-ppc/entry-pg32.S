/*
 * Entries of 32-bit PowerPC for -pg, the way of 2008 (P-ENT-7).
 *
 * 	mflr r0; stw r0,4(r1); bl _mcount    the site: the traced function B has no frame yet, r1 is its
 *                                       caller's (A's)
 *
 * A's LR word 4(r1) holds B's return address: that is parent_ip, and where the graph tracer puts
 * its own. LR is the way back into B, but B goes on as if LR were the return address (a leaf ends
 * with blr), so the way back is CTR and LR comes from 4(r1). All arguments are live: r3..r10, r11
 * (static chain) and the CR bit of varargs callers; f1..f8 are never touched here.
 *
 * 	frame of 64: 8 CR, 12..40 r3..r10, 44 LR, 48 r11, 52 r12, 56 XER, 68 the LR word of A
 * SPDX-License-Identifier: MIT
 */
#include "entry.h"
#include "entry-macros.h"
	.text
	.balign	4
#define FRAME 64

FUNCTION(ftrace_caller)
	stwu	1, -FRAME(1)
	stw	3, 12(1)
	stw	4, 16(1)
	stw	5, 20(1)
	stw	6, 24(1)
	stw	7, 28(1)
	stw	8, 32(1)
	stw	9, 36(1)
	stw	10, 40(1)
	stw	11, 48(1)
	stw	12, 52(1)
	mfcr	5
	mfxer	6
	mflr	3
	stw	5, 8(1)
	stw	6, 56(1)
	stw	3, 44(1)
	lwz	4, FRAME+LR_WORD(1)
	addi	3, 3, -4
	li	5, 0
	li	6, 0
LABEL(ftrace_call)
	bl	ftrace_stub
LABEL(ftrace_graph_call)
	b	.Lleave			/* graph on: b ftrace_graph_caller */
.Lleave:
	lwz	3, 44(1)
	lwz	4, 8(1)
	lwz	5, 56(1)
	lwz	0, FRAME+LR_WORD(1)
	mtctr	3
	mtcr	4
	mtxer	5
	mtlr	0
	lwz	3, 12(1)
	lwz	4, 16(1)
	lwz	5, 20(1)
	lwz	6, 24(1)
	lwz	7, 28(1)
	lwz	8, 32(1)
	lwz	9, 36(1)
	lwz	10, 40(1)
	lwz	11, 48(1)
	lwz	12, 52(1)
	addi	1, 1, FRAME
	bctr
LABEL(ftrace_caller_end)
END(ftrace_caller)

/* A part of ftrace_caller: parent, ip, frame of A; the result is where B shall return to. */
FUNCTION(ftrace_graph_caller)
	lwz	3, FRAME+LR_WORD(1)
	lwz	4, 44(1)
	addi	5, 1, FRAME
	addi	4, 4, -4
	bl	elftrace_graph_enter
	stw	3, FRAME+LR_WORD(1)
	b	.Lleave
END(ftrace_graph_caller)

	.weak	_mcount
	.type	_mcount, @function
_mcount:
	mflr	0
	mtctr	0
	lwz	0, LR_WORD(1)
	mtlr	0
	bctr
END(_mcount)
	.section .note.GNU-stack, "", @progbits
