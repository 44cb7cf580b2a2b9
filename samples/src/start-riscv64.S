/* Process start and system calls, 64-bit RISC-V Linux. SPDX-License-Identifier: MIT */
	.text
	.globl	_start, sys_write, sys_exit
	.type	_start, @function
	.type	sys_write, @function
	.type	sys_exit, @function
_start:
#ifndef LOADED_CORE
	/* The linker makes accesses relative to gp, so gp is set first, and this must not be relaxed itself. */
	.option push
	.option norelax
	lla	gp, __global_pointer$
	.option pop
#endif
	andi	sp, sp, -16
	call	start_c
	ebreak
	.size	_start, .-_start
sys_write:
	li	a7, 64
	ecall
	ret
	.size	sys_write, .-sys_write
sys_exit:
	li	a7, 93
	ecall
	ebreak
	.size	sys_exit, .-sys_exit
	.section .note.GNU-stack, "", @progbits
