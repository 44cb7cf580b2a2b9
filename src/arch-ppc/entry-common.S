/*
 * What both entry conventions of PowerPC share: the stub that does nothing, the return handler, the
 * call of a callback by its text address.
 *
 * Lesson for a patcher: on ELFv1 a C function pointer is the address of a descriptor, but `func` of
 * an ops object is a text address, so C cannot call it; elftrace_invoke can. On ELFv2 the callee
 * finds its TOC through r12, and need not give r2 back. return_to_handler is not called: traced
 * functions return to it, with their results in r3 (and r4; complex numbers go up to r6, floating
 * point in f1 and on) and r1 = frame of the function that called them. SPDX-License-Identifier: MIT
 */
#include "entry.h"
#include "entry-macros.h"
	.text
	.balign	4

/* Called instead of a tracer. */
FUNCTION(ftrace_stub)
	.hidden	elftrace_stub_text
LABEL(elftrace_stub_text)
	blr
END(ftrace_stub)

/*
 * void elftrace_invoke(word ip, word parent_ip, ops *ops, regs *regs, word text): calls `text` with
 * the first four. A callee of another TOC is text of a stub, which saves r2 at the TOC word; one of
 * ELFv2 may come back with another r2.
 */
FUNCTION(elftrace_invoke)
	mflr	0
	store	0, LR_WORD(1)
	store_update 1, -MINIMAL(1)
#ifdef TOC_WORD
	std	2, TOC_WORD(1)
#endif
	mr	12, 7
	mtctr	12
	bctrl
#ifdef TOC_WORD
	ld	2, TOC_WORD(1)
#endif
	addi	1, 1, MINIMAL
	load	0, LR_WORD(1)
	mtlr	0
	blr
END(elftrace_invoke)

/*
 * r3..r6 may be results, r2 is whatever the traced function left (its caller reloads it), r1 is the
 * key of the shadow stack. Everything else is free after a return. No function's red zone is alive
 * here.
 */
#ifdef TOC_WORD
#define RETURN_FRAME 160
#define RETURN_AT 112
#else
#define RETURN_FRAME 32
#define RETURN_AT 8
#endif
FUNCTION(return_to_handler)
	.hidden	elftrace_return_text
LABEL(elftrace_return_text)
	store_update 1, -RETURN_FRAME(1)
	store	3, RETURN_AT(1)
	store	4, RETURN_AT+WORD(1)
	store	5, RETURN_AT+2*WORD(1)
	store	6, RETURN_AT+3*WORD(1)
#ifdef TOC_WORD
	std	2, RETURN_AT+4*WORD(1)
	core_toc
#endif
	addi	3, 1, RETURN_FRAME
	bl	elftrace_graph_return
	toc_nop
	mtlr	3
	compare_zero 3
	bne+	0f
	trap				/* the shadow stack does not know where to return to */
0:	load	3, RETURN_AT(1)
	load	4, RETURN_AT+WORD(1)
	load	5, RETURN_AT+2*WORD(1)
	load	6, RETURN_AT+3*WORD(1)
#ifdef TOC_WORD
	ld	2, RETURN_AT+4*WORD(1)
#endif
	addi	1, 1, RETURN_FRAME
	blr
END(return_to_handler)

	.section .note.GNU-stack, "", @progbits
