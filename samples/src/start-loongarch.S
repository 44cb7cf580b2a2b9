/* Process start and system calls, LoongArch Linux. SPDX-License-Identifier: MIT */
	.text
	.globl	_start, sys_write, sys_exit
	.type	_start, @function
	.type	sys_write, @function
	.type	sys_exit, @function
	.hidden	start_c
_start:
	move	$fp, $zero
	move	$ra, $zero
	bl	start_c
	break	0
	.size	_start, .-_start
sys_write:
	li.w	$a7, 64
	syscall	0
	ret
	.size	sys_write, .-sys_write
sys_exit:
	li.w	$a7, 93
	syscall	0
	break	0
	.size	sys_exit, .-sys_exit
	.section .note.GNU-stack, "", @progbits
