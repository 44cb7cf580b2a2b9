/*
 * The entry of arm64 for -pg: the site is a call behind the prologue (A-ENT-4).
 *
 * 	stp x29, x30, [sp, #-N]!; mov x29, sp; ...; [xpaclri; mov x0, x30]; bl _mcount
 *
 * The traced function B has its frame record {x29 of its caller A, return address}, and x29 points
 * to it. To the compiler the call is an ordinary one, so only what C keeps is kept. The graph
 * tracer changes the return address in B's record, unless B has signed it: then its code says so
 * (elftrace_is_signed), and it is not hooked. SPDX-License-Identifier: MIT
 */
#include "entry.h"
	.text
	.balign	8

LABEL(elftrace_entry_pg)
FUNCTION(ftrace_caller)
	hint	#34			// bti c: far sites come by br x16
	stp	x29, x30, [sp, #-16]!
	mov	x29, sp
	sub	x0, x30, #4
	ldr	x9, [x29]
	ldr	x30, [x9, #8]
	hint	#7			// xpaclri: without a signature
	mov	x1, x30
	mov	x2, #0
	mov	x3, #0
LABEL(ftrace_call)
	bl	ftrace_stub
LABEL(ftrace_graph_call)
	b	.Lleave			// graph on: b ftrace_graph_caller
.Lleave:
	ldp	x29, x30, [sp], #16
	ret
LABEL(ftrace_caller_end)
END(ftrace_caller)

/*
 * A part of ftrace_caller: parent, ip, frame pointer of A; the result is where B shall return to.
 */
FUNCTION(ftrace_graph_caller)
	ldr	x9, [x29]
	ldr	x0, [x9, #8]
	ldr	x1, [x29, #8]
	sub	x1, x1, #4
	ldr	x2, [x9]
	bl	elftrace_graph_enter
	ldr	x9, [x29]
	str	x0, [x9, #8]
	b	.Lleave
END(ftrace_graph_caller)

	.section .note.GNU-stack, "", %progbits
