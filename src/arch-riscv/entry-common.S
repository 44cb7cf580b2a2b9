/*
 * What all entry conventions of RISC-V share: the stub that does nothing, the call of a callback by
 * its address, the return handler, a direct caller that does nothing.
 *
 * Lesson for a patcher: return_to_handler is not called. Traced functions return to it with their
 * results in a0 and a1 (fa0, fa1; callbacks keep off those), and sp = stack pointer of the function
 * that called them. A handler that saves a0 only, as that of 2022, loses the second half of 16-byte
 * results; with HANDLER_2022 this one does so, too. SPDX-License-Identifier: MIT
 */
#include "entry.h"
#include "entry-macros.h"
	.text
	.balign	4

/* Called instead of a tracer. */
FUNCTION(ftrace_stub)
	.hidden	elftrace_stub_text
LABEL(elftrace_stub_text)
	ret
END(ftrace_stub)

/*
 * void elftrace_invoke(word ip, word parent_ip, ops *ops, regs *regs, word text): calls `text` with
 * the first four, sp 0 modulo 16.
 */
FUNCTION(elftrace_invoke)
	.hidden	elftrace_invoke
	addi	sp, sp, -16
	sd	ra, 8(sp)
	sd	s0, 0(sp)
	mv	s0, sp
	andi	sp, sp, -16
	mv	t0, a4			/* branches through t0 and t2 need no landing pad */
	jalr	t0
	mv	sp, s0
	ld	ra, 8(sp)
	ld	s0, 0(sp)
	addi	sp, sp, 16
	ret
END(elftrace_invoke)

/*
 * The result goes through a register that is no result: a2; the handler of 2022 takes a1. Merged
 * entries have the frame of their own for it, with ra, s0, a0 and a1 in their words; the others 32
 * bytes, with s0 as a frame pointer for who walks the stack.
 */
#ifdef HANDLER_2022
#define RESULT a1
#else
#define RESULT a2
#endif
#ifdef ENTRY_MERGED
#define RETURN_BYTES REGS_BYTES
#define RETURN_RA R_RA
#define RETURN_S0 R_S0
#define RETURN_A0 R_A0
#define RETURN_A1 R_A0+8
#else
#define RETURN_BYTES 32
#define RETURN_RA 24
#define RETURN_S0 16
#define RETURN_A0 8
#define RETURN_A1 0
#endif
FUNCTION(return_to_handler)
	.hidden	elftrace_return_text
LABEL(elftrace_return_text)
	addi	sp, sp, -RETURN_BYTES
	sd	s0, RETURN_S0(sp)
	sd	ra, RETURN_RA(sp)
	sd	a0, RETURN_A0(sp)
#ifndef HANDLER_2022
	sd	a1, RETURN_A1(sp)
#endif
	mv	a1, s0			/* compared with that of the call */
	addi	a0, sp, RETURN_BYTES
#ifndef ENTRY_MERGED
	mv	s0, a0
#endif
	call	elftrace_graph_return
	mv	RESULT, a0
	ld	ra, RETURN_RA(sp)
	ld	s0, RETURN_S0(sp)
	ld	a0, RETURN_A0(sp)
#ifndef HANDLER_2022
	ld	a1, RETURN_A1(sp)
#endif
	addi	sp, sp, RETURN_BYTES
	bnez	RESULT, 0f
	ebreak				/* the shadow stack does not know where to return to */
LABEL(elftrace_return_end)
0:
LABEL(elftrace_return_leave)		/* where landing pads are checked, this leaves through t2 */
	nop
	jalr	RESULT			/* ra is dead, and a call keeps a return-address predictor right */
END(return_to_handler)

#ifdef ENTRY_DIRECT
/* Back to the function with nothing done: the smallest direct caller. */
FUNCTION(ftrace_stub_direct_tramp)
	jr	t0
END(ftrace_stub_direct_tramp)

	.data
	.balign	8
	.globl	elftrace_direct_slot
	.type	elftrace_direct_slot, @object
	.size	elftrace_direct_slot, 8
elftrace_direct_slot:
	.quad	R_T1
#endif

/* The profiling entry, for programs that have none: it does nothing. */
	.text
	.weak	_mcount
	.type	_mcount, @function
_mcount:
	ret
END(_mcount)
	.section .note.GNU-stack, "", @progbits
