/*
 * What all entry conventions of arm64 share: the stub that does nothing, the return handler, the
 * call of a callback by its address, the profiling entry of programs whose sites are off.
 *
 * Lesson for a patcher: `br` to x16 or x17 may lead to a `bti c`, `br` to another register may not;
 * `ret` needs no landing pad at all. SPDX-License-Identifier: MIT
 */
#include "entry.h"
	.text
	.balign	8

/* Called instead of a tracer; also by blr. */
FUNCTION(ftrace_stub)
	.hidden	elftrace_stub_text
LABEL(elftrace_stub_text)
	hint	#34
	ret
END(ftrace_stub)

	.weak	_mcount
	.type	_mcount, %function
_mcount:
	hint	#34
	ret
END(_mcount)

#ifdef ARGS_FRAME
/* A direct caller that does nothing. */
FUNCTION(elftrace_direct_stub)
	hint	#34			// bti c: entries come by br x17
	mov	x10, x30
	mov	x30, x9
	ret	x10
END(elftrace_direct_stub)
#endif

/*
 * void elftrace_invoke(word ip, word parent_ip, ops *ops, regs *regs, word text): calls `text` with
 * the first four.
 */
FUNCTION(elftrace_invoke)
	hint	#34
	mov	x16, x4
	br	x16
END(elftrace_invoke)

/*
 * x0..x7 may be results, as v0..v7, which no code here touches. Everything else that a call may
 * change is free. The key of the shadow stack is sp, or x29 where the entry knows no other (-pg).
 */
#ifdef ARGS_FRAME
#define RETURN_FRAME 112
#else
#define RETURN_FRAME 64
#endif
FUNCTION(return_to_handler)
	.hidden	elftrace_return_text
LABEL(elftrace_return_text)
	sub	sp, sp, #RETURN_FRAME
	stp	x0, x1, [sp]
	stp	x2, x3, [sp, #16]
	stp	x4, x5, [sp, #32]
	stp	x6, x7, [sp, #48]
#ifdef ARGS_FRAME
	str	x29, [sp, #F_FP]
#endif
#ifdef RUNTIME_REGS
	add	x0, sp, #RETURN_FRAME
	mov	x1, x29
#else
	mov	x0, x29
#endif
	bl	elftrace_graph_return
	mov	x30, x0
	cbnz	x30, 0f
	brk	#1			// the shadow stack does not know where to return to
0:	ldp	x0, x1, [sp]
	ldp	x2, x3, [sp, #16]
	ldp	x4, x5, [sp, #32]
	ldp	x6, x7, [sp, #48]
	add	sp, sp, #RETURN_FRAME
	ret
END(return_to_handler)

	.section .note.GNU-stack, "", %progbits
