/*
 * Entries of RISC-V for sites of sixteen bytes (G1, Linux 5.13 to 6.1; R-ENT-0).
 *
 * 	sd ra,-8(sp); auipc ra; jalr ra; ld ra,-8(sp)
 *
 * ra = site + 12, whose load brings the real return address back from the word below the stack
 * pointer: the frame begins below that word, and what the graph tracer changes must be written back
 * to it. The plain entry passes no registers. A callback of the register entry that changes epc
 * takes the function's place: the entry returns there with ra = that address, so such code must
 * load ra from -8(sp) itself, as the site does. The stack pointer is 8 modulo 16 at the register
 * entry's callback. SPDX-License-Identifier: MIT
 */
#include "entry.h"
#include "entry-macros.h"
	.text
	.balign	4

/*
 * Arguments, ra, t2 (the static chain; kernels have none and a frame of 72) and a word for the
 * alignment.
 */
#define PLAIN_BYTES 88

FUNCTION(ftrace_caller)
	addi	sp, sp, -(PLAIN_BYTES + SITE_BYTES)
	sd	ra, 64(sp)
	sd	t2, 72(sp)
	store_arguments 0
LABEL(ftrace_caller_op_ptr)
	addi	a0, ra, -12
	load_ops
	ld	a1, PLAIN_BYTES(sp)
	li	a3, 0
LABEL(ftrace_call)
	call	ftrace_stub
	ld	ra, 64(sp)
	ld	t2, 72(sp)
	load_arguments 0
	addi	sp, sp, PLAIN_BYTES + SITE_BYTES
LABEL(ftrace_caller_end)
	ret
END(ftrace_caller)

FUNCTION(ftrace_regs_caller)
	addi	sp, sp, -(REGS_BYTES + SITE_BYTES)
	sd	ra, R_EPC(sp)
	store_all
	ld	t1, REGS_BYTES(sp)
	sd	t1, R_RA(sp)
LABEL(ftrace_regs_caller_op_ptr)
	addi	a0, ra, -12
	load_ops
	mv	a1, t1
	mv	a3, sp
LABEL(ftrace_regs_call)
	call	ftrace_stub
	ld	t0, R_RA(sp)
	sd	t0, REGS_BYTES(sp)
	ld	ra, R_EPC(sp)
	ld	t0, R_T0(sp)
	load_all
	addi	sp, sp, REGS_BYTES + SITE_BYTES
LABEL(ftrace_regs_caller_end)
	ret
END(ftrace_regs_caller)

	FLAVOUR(elftrace_entry_g1)
	.section .note.GNU-stack, "", @progbits
