/*
 * Entries of RISC-V for the calls of -pg (G0, Linux to 5.12), behind the prologue.
 *
 * 	mv a0, ra; call _mcount		gcc: auipc ra; jalr ra, or jal ra after relaxation
 *
 * An ordinary call: the compiler has saved what it needs, and a0 is the return address of the
 * function. clang passes nothing, but has set up a frame pointer. entry-g0.c reads the code in
 * front of the site to tell which. The plain entry passes no registers; in the frame of the
 * register entry ra is the function's return address and epc where the function goes on. The graph
 * tracer needs the register entry. SPDX-License-Identifier: MIT
 */
#include "entry.h"
#include "entry-macros.h"
	.text
	.balign	4

FUNCTION(ftrace_caller)
	addi	sp, sp, -32
	sd	ra, 24(sp)
	sd	a0, 16(sp)
	mv	a0, ra
	call	elftrace_g0_site
	sd	a0, 8(sp)
	ld	a1, 16(sp)
	mv	a2, s0
	call	elftrace_g0_parent
	mv	t0, a0
LABEL(ftrace_caller_op_ptr)
	ld	a0, 8(sp)
	load_ops
	mv	a1, t0
	li	a3, 0
LABEL(ftrace_call)
	call	ftrace_stub
	ld	ra, 24(sp)
	addi	sp, sp, 32
LABEL(ftrace_caller_end)
	ret
END(ftrace_caller)

FUNCTION(ftrace_regs_caller)
	addi	sp, sp, -REGS_BYTES
	sd	ra, R_EPC(sp)
	store_all
	mv	a0, ra
	call	elftrace_g0_site
	mv	s1, a0
	ld	a1, R_A0(sp)
	mv	a2, s0
	call	elftrace_g0_parent
	sd	a0, R_RA(sp)
	mv	t0, a0
LABEL(ftrace_regs_caller_op_ptr)
	mv	a0, s1
	load_ops
	mv	a1, t0
	mv	a3, sp
LABEL(ftrace_regs_call)
	call	ftrace_stub
	ld	ra, R_EPC(sp)
	ld	t0, R_T0(sp)
	load_all
	addi	sp, sp, REGS_BYTES
LABEL(ftrace_regs_caller_end)
	ret
END(ftrace_regs_caller)

	FLAVOUR(elftrace_entry_g0)
	.section .note.GNU-stack, "", @progbits
