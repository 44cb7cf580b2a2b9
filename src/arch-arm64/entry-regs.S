/*
 * Entries of arm64 for sites of two words at the function's entry, of the years before per-callsite
 * ops (A-ENT-1, A-ENT-7).
 *
 * 	[bti c]; mov x9, x30; bl entry; [paciasp] ...
 *
 * x9 = return address of the traced function B, not signed yet; x30 = way back into B. B has no
 * frame and all its arguments are live: x0..x7, x8 (where a result in memory goes), x18 (static
 * chain), v0..v7. x9..x17 are free at an entry. Two frame records are made: one that stands for B,
 * so that unwinders see it, one for the entry. B goes on at `pc` of the frame, which a callback may
 * have changed, with x30 = `lr`, which the graph tracer changes. `ret x9`, not `br x9`: no landing
 * pad is behind the site.
 *
 * Both entries pass one frame; the plain one leaves x10..x28 out and says so by F_MARK. x10..x17
 * are dead at a site and x18..x28 kept by callbacks, so what a callback writes to those has no
 * effect. SPDX-License-Identifier: MIT
 */
#include "entry.h"
	.text
	.balign	8

LABEL(elftrace_entry_regs)
FUNCTION(ftrace_caller)
	hint	#34			// bti c: far sites come by br x16
	sub	sp, sp, #F_BYTES
	str	x29, [sp, #F_FP]
	str	xzr, [sp, #F_MARK]
	b	.Lcommon
LABEL(ftrace_caller_end)
END(ftrace_caller)

FUNCTION(ftrace_regs_caller)
	hint	#34
	sub	sp, sp, #F_BYTES
	stp	x10, x11, [sp, #80]
	stp	x12, x13, [sp, #96]
	stp	x14, x15, [sp, #112]
	stp	x16, x17, [sp, #128]
	stp	x18, x19, [sp, #144]
	stp	x20, x21, [sp, #160]
	stp	x22, x23, [sp, #176]
	stp	x24, x25, [sp, #192]
	stp	x26, x27, [sp, #208]
	stp	x28, x29, [sp, #224]
	mov	x10, #-1
	str	x10, [sp, #F_MARK]
.Lcommon:
	stp	x0, x1, [sp]
	stp	x2, x3, [sp, #16]
	stp	x4, x5, [sp, #32]
	stp	x6, x7, [sp, #48]
	stp	x8, x9, [sp, #64]
	add	x10, sp, #F_BYTES
	stp	x9, x10, [sp, #F_LR]	// and F_SP
	str	x30, [sp, #F_PC]
	stp	x29, x9, [sp, #F_TRACED]
	add	x29, sp, #F_TRACED
	stp	x29, x30, [sp, #F_OWN]
	add	x29, sp, #F_OWN
	sub	x0, x30, #4
	mov	x1, x9
	adrp	x2, function_trace_op
	ldr	x2, [x2, #:lo12:function_trace_op]
	mov	x3, sp
LABEL(ftrace_regs_call)			// one call for both
LABEL(ftrace_call)
	bl	ftrace_stub
	ldp	x0, x1, [sp]
	ldp	x2, x3, [sp, #16]
	ldp	x4, x5, [sp, #32]
	ldp	x6, x7, [sp, #48]
	ldr	x8, [sp, #64]
	ldp	x29, x30, [sp, #F_FP]	// and F_LR
	ldr	x9, [sp, #F_PC]
	add	sp, sp, #F_BYTES
	ret	x9
LABEL(ftrace_regs_caller_end)
END(ftrace_regs_caller)

	.section .note.GNU-stack, "", %progbits
