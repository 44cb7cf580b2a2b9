/*
 * The entry of arm64 for sites at the function's entry since 6.2 (A-CO-2, A-ENT-2, A-ENT-8). ARGS:
 * the patched call in the entry says what is called; it serves every site of two words. CALL_OPS
 * (6.3): the pointer in front of the function says it.
 *
 * 	.quad ops		CALL_OPS: 8-aligned
 * 	f:	[bti c]
 * 		mov x9, x30
 * 		bl  ftrace_caller	x30 = f + 8, or f + 12 behind a landing pad
 *
 * CALL_OPS: one entry serves every site: it finds the site's ops 16 bytes in front of x30 rounded
 * down to 8, and needs neither a list walk nor a private trampoline. Ops of a direct caller lead
 * there at once, with everything but x11 and x17 as it was: a direct caller continues the function
 * at x30 with x30 = x9. An ops pointer may change while a thread is between the two loads; all ops
 * that it could have been must stay what they are until every such thread has left. A second entry,
 * ftrace_list_caller, never reads the word: it takes the ops that walk the list (T-A64-5), so a
 * site may call it while its word is changed in whatever way.
 *
 * The frame has what is live at an entry and nothing else. `direct` is 0 when callbacks begin: one
 * may put the address of a direct caller there, which is entered behind them as if the site had
 * called it. SPDX-License-Identifier: MIT
 */
#include "entry.h"
	.text
	.balign	8

#ifdef CALL_OPS
LABEL(elftrace_entry_callops)
#else
LABEL(elftrace_entry_args)
#endif
FUNCTION(ftrace_caller)
	hint	#34			// bti c: far sites come by br x16
#ifdef CALL_OPS
	bic	x11, x30, #7
	ldur	x11, [x11, #-16]
.Lops:	ldr	x17, [x11, #OPS_DIRECT_CALL]
	cbnz	x17, .Ldirect
#endif
	mov	x10, sp
	sub	sp, sp, #F_BYTES
	stp	x0, x1, [sp]
	stp	x2, x3, [sp, #16]
	stp	x4, x5, [sp, #32]
	stp	x6, x7, [sp, #48]
	stp	x8, xzr, [sp, #64]	// and F_DIRECT
	stp	x29, x9, [sp, #F_FP]	// and F_LR
	stp	x10, x30, [sp, #F_SP]	// and F_PC
	stp	x29, x9, [sp, #F_TRACED]
	add	x29, sp, #F_TRACED
	stp	x29, x30, [sp, #F_OWN]
	add	x29, sp, #F_OWN
	sub	x0, x30, #4
	mov	x1, x9
#ifdef CALL_OPS
	mov	x2, x11
	mov	x3, sp
	ldr	x4, [x2]
	blr	x4
#else
	adrp	x2, function_trace_op
	ldr	x2, [x2, #:lo12:function_trace_op]
	mov	x3, sp
LABEL(ftrace_call)
	bl	ftrace_stub
#endif
	ldp	x0, x1, [sp]
	ldp	x2, x3, [sp, #16]
	ldp	x4, x5, [sp, #32]
	ldp	x6, x7, [sp, #48]
	ldp	x8, x17, [sp, #64]	// and F_DIRECT
	cbnz	x17, 1f
	ldp	x29, x30, [sp, #F_FP]	// and F_LR
	ldr	x9, [sp, #F_PC]
	add	sp, sp, #F_BYTES
	ret	x9
1:	ldp	x29, x9, [sp, #F_FP]
	ldr	x30, [sp, #F_PC]
	add	sp, sp, #F_BYTES
.Ldirect:
	br	x17
LABEL(ftrace_caller_end)
END(ftrace_caller)

#ifdef CALL_OPS
/* The other entry of a site: always the list. Its ops have no direct caller. */
FUNCTION(ftrace_list_caller)
	hint	#34
	adrp	x11, ftrace_list_ops
	add	x11, x11, #:lo12:ftrace_list_ops
	b	.Lops
END(ftrace_list_caller)
#endif

	.section .note.GNU-stack, "", %progbits
