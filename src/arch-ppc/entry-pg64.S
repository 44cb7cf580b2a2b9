/*
 * Entries of 64-bit PowerPC for -pg: ELFv1 of 2008, and ELFv2 with the same frame (P-ENT-9).
 *
 * 	mflr r0; std r0,16(r1); stdu r1,-N(r1); ...; bl _mcount; nop    the site is an ordinary call
 *                                                                  behind the prologue
 *
 * The traced function B has its frame, so 0(r1) is its caller's (A's) frame and 16 of that B's
 * return address: parent_ip, and where the graph tracer puts its own. B keeps nothing live in
 * volatile registers, so only what C keeps is kept. A site out of reach comes through a stub that
 * saved r2; the nop after its `bl` is then the reload. SPDX-License-Identifier: MIT
 */
#include "entry.h"
#include "entry-macros.h"
	.text
	.balign	4
#define FRAME 112

TOC_FUNCTION(ftrace_caller)
	mflr	3
	ld	11, 0(1)
	stdu	1, -FRAME(1)
	std	3, FRAME+LR_WORD(1)
	ld	4, LR_WORD(11)
	addi	3, 3, -4
	li	5, 0
	li	6, 0
LABEL(ftrace_call)
	bl	ftrace_stub
	nop
LABEL(ftrace_graph_call)
	b	.Lleave			/* graph on: b ftrace_graph_caller */
.Lleave:
	ld	0, FRAME+LR_WORD(1)
	mtlr	0
	addi	1, 1, FRAME
	blr
LABEL(ftrace_caller_end)
END(ftrace_caller)

/* A part of ftrace_caller: parent, ip, frame of A; the result is where B shall return to. */
FUNCTION(ftrace_graph_caller)
	ld	5, FRAME(1)
	ld	4, FRAME+LR_WORD(1)
	ld	3, LR_WORD(5)
	addi	4, 4, -4
	bl	elftrace_graph_enter
	nop
	ld	11, FRAME(1)
	std	3, LR_WORD(11)
	b	.Lleave
END(ftrace_graph_caller)

#if _CALL_ELF == 2
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
	blr
END(_mcount)
	.section .note.GNU-stack, "", @progbits
