/*
 * Entries of RISC-V for sites of eight bytes at the function's start (G2), as in the time of the
 * direct calls thread of 2022 (R-ENT-8, R-DIR-1).
 *
 * 	auipc t0, high; jalr t0, low(t0)	t0 = body of the function, ra = where it returns to
 *
 * At a function's entry t0, t1 and t3 to t6 are dead, t2 is the static chain, everything else may
 * hold an argument. The plain entry makes the same frame as the register entry and fills little of
 * it: epc, ra, a0 to a7, s0, and (kernels have no nested functions) t2; status 0 marks it. The
 * function goes on at epc, which a callback of the register entry may change; the graph tracer
 * changes ra, as a callback or through a second patched call (`ftrace_graph_call`, two nops while
 * it is off).
 *
 * ENTRY_PLAIN: the build without register support has the plain entry only, with a frame of 80
 * bytes that callbacks do not get; its graph tracer is the patched call. t2 survives there because
 * the runtime is compiled without it.
 *
 * t1 carries the message of direct callers: its slot is 0 when callbacks begin, and where a helper
 * put an address into it the entry goes there, with t0 and ra as the site left them, so that the
 * direct caller comes back to the function by its own `jr t0`. The plain entry neither clears nor
 * looks at it. SPDX-License-Identifier: MIT
 */
#include "entry.h"
#include "entry-macros.h"
	.text
	.balign	4

	.macro	arguments
	addi	a0, t0, -8
	load_ops
	mv	a1, ra
#ifdef ENTRY_PLAIN
	li	a3, 0
#else
	mv	a3, sp
#endif
	.endm

/* Two nops while it is off. */
	.macro	graph_call label
	addi	a0, sp, R_RA
	ld	a1, R_EPC(sp)
	addi	a1, a1, -8
	mv	a2, s0
	.globl	\label
\label:
	.option	push
	.option	norvc
	nop
	nop
	.option	pop
	.endm

FUNCTION(ftrace_caller)
	addi	sp, sp, -REGS_BYTES
	sd	t0, R_EPC(sp)
	sd	ra, R_RA(sp)
	store_arguments
#ifndef ENTRY_PLAIN
	sd	s0, R_S0(sp)
	sd	t2, R_T2(sp)
	sd	zero, R_STATUS(sp)
#endif
LABEL(ftrace_caller_op_ptr)
	arguments
LABEL(ftrace_call)
	call	ftrace_stub
	graph_call ftrace_graph_call
	ld	t0, R_EPC(sp)
	ld	ra, R_RA(sp)
	load_arguments
#ifndef ENTRY_PLAIN
	ld	s0, R_S0(sp)
	ld	t2, R_T2(sp)
#endif
	addi	sp, sp, REGS_BYTES
LABEL(ftrace_caller_end)
	jr	t0
END(ftrace_caller)

#ifdef ENTRY_PLAIN
	FLAVOUR(elftrace_entry_g2_plain)
#else
FUNCTION(ftrace_regs_caller)
	addi	sp, sp, -REGS_BYTES
	sd	t0, R_EPC(sp)
	sd	ra, R_RA(sp)
	store_all
LABEL(elftrace_direct_clear)
	sd	zero, R_T1(sp)
LABEL(ftrace_regs_caller_op_ptr)
	arguments
LABEL(ftrace_regs_call)
	call	ftrace_stub
	graph_call ftrace_graph_regs_call
	ld	t0, R_EPC(sp)
	ld	ra, R_RA(sp)
	load_all
	addi	sp, sp, REGS_BYTES
LABEL(ftrace_regs_caller_end)
	bnez	t1, 1f
	jr	t0
1:	jr	t1
END(ftrace_regs_caller)

	FLAVOUR(elftrace_entry_g2)
#endif
	.section .note.GNU-stack, "", @progbits
