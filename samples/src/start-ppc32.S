/* Process start and system calls, 32-bit PowerPC Linux (System V ABI). SPDX-License-Identifier: MIT */
	.text
	.globl	_start, sys_write, sys_exit
	.type	_start, @function
	.type	sys_write, @function
	.type	sys_exit, @function
_start:
	li	0, 0
	stwu	0, -16(1)
	bl	start_c
	trap
	.size	_start, .-_start
sys_write:
	li	0, 4
	sc
	blr
	.size	sys_write, .-sys_write
sys_exit:
	li	0, 1
	sc
	trap
	.size	sys_exit, .-sys_exit
	.section .note.GNU-stack, "", @progbits
