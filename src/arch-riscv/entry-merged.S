/*
 * The one entry of later RISC-V kernels, for all callbacks and both names (R-ENT-1, R-ENT-2,
 * R-CO-1).
 *
 * 	G2		auipc t0; jalr t0	t0 = site + 8
 * 	ENTRY_G3	auipc t0; jalr t0	only the jalr is the site: t0 = site + 4
 * 	ENTRY_G3C	the same		and the address of the site's ops lies 16 bytes before t0
 *
 * The frame holds what a function call may change: arguments, ra, s0, sp, t1, and epc; in its last
 * word, which kernels leave empty, t2, the static chain of nested functions. t1 is cleared before
 * it is saved, because it carries the address of a direct caller out of the callbacks, as in
 * entry-g2.S.
 *
 * G3 never changes the entry's code: a pointer names what it calls. G3C asks the ops of the site,
 * which names its direct caller, too: that is gone to at once, through t1, with nothing else
 * touched. The argument a2 is therefore loaded only when it is saved. SPDX-License-Identifier: MIT
 */
#include "entry.h"
#include "entry-macros.h"
	.text
	.balign	4

FUNCTION(ftrace_caller)
FUNCTION(ftrace_regs_caller)
#ifdef ENTRY_G3C
	ld	t1, -16(t0)
	ld	t1, 16(t1)
	bnez	t1, 1f
#else
LABEL(elftrace_direct_clear)
	li	t1, 0
#endif
	addi	sp, sp, -REGS_BYTES
	sd	t0, R_EPC(sp)
	sd	ra, R_RA(sp)
	addi	t4, sp, REGS_BYTES
	sd	t4, R_SP(sp)
	sd	s0, R_S0(sp)
	sd	t1, R_T1(sp)
	sd	t2, R_T2(sp)
	store_arguments
#ifdef ENTRY_G3
	addi	a0, t0, -4
#else
	addi	a0, t0, -8
#endif
LABEL(ftrace_caller_op_ptr)
LABEL(ftrace_regs_caller_op_ptr)
#ifdef ENTRY_G3C
	ld	a2, -16(t0)
	ld	t2, 0(a2)		/* a branch through t2 needs no landing pad */
#else
	load_ops
#ifdef ENTRY_G3
	ld	t2, ftrace_call_dest
#endif
#endif
	mv	a1, ra
	mv	a3, sp
#ifdef ENTRY_G3
	jalr	t2
#else
LABEL(ftrace_call)
LABEL(ftrace_regs_call)
	call	ftrace_stub
#endif
	ld	t0, R_EPC(sp)
	ld	ra, R_RA(sp)
	ld	s0, R_S0(sp)
	ld	t1, R_T1(sp)
	ld	t2, R_T2(sp)
	load_arguments
	addi	sp, sp, REGS_BYTES
LABEL(ftrace_caller_end)
LABEL(ftrace_regs_caller_end)
	bnez	t1, 1f
	jr	t0
1:	jr	t1
END(ftrace_caller)
END(ftrace_regs_caller)

#if defined(ENTRY_G3) && !defined(ENTRY_G3C)
	.data
	.balign	8
	.globl	ftrace_call_dest
	.type	ftrace_call_dest, @object
	.size	ftrace_call_dest, 8
ftrace_call_dest:
	.quad	ftrace_stub
#endif
#if defined(ENTRY_G3C)
	FLAVOUR(elftrace_entry_g3c)
#elif defined(ENTRY_G3)
	FLAVOUR(elftrace_entry_g3)
#else
	FLAVOUR(elftrace_entry_g2_merged)
#endif
	.section .note.GNU-stack, "", @progbits
