/* Process start and system calls, x86-64 Linux. SPDX-License-Identifier: MIT */
	.text
	.globl	_start, sys_write, sys_exit
	.type	_start, @function
	.type	sys_write, @function
	.type	sys_exit, @function
	.hidden	start_c
_start:
	xorl	%ebp, %ebp
	andq	$-16, %rsp
	call	start_c
	hlt
	.size	_start, .-_start
sys_write:
	movl	$1, %eax
	syscall
	ret
	.size	sys_write, .-sys_write
sys_exit:
	movl	$60, %eax
	syscall
	hlt
	.size	sys_exit, .-sys_exit
	.section .note.GNU-stack, "", @progbits
