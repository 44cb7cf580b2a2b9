/* Process start and system calls, s390x Linux. SPDX-License-Identifier: MIT */
	.text
	.globl	_start, sys_write, sys_exit
	.type	_start, @function
	.type	sys_write, @function
	.type	sys_exit, @function
	.hidden	start_c
_start:
	lghi	%r11, 0
	aghi	%r15, -160		/* the callee's save area */
	xc	0(8,%r15), 0(%r15)
	brasl	%r14, start_c
	j	.+2			/* into itself: an illegal instruction */
	.size	_start, .-_start
sys_write:
	svc	4
	br	%r14
	.size	sys_write, .-sys_write
sys_exit:
	svc	1
	j	.+2
	.size	sys_exit, .-sys_exit
	.section .note.GNU-stack, "", @progbits
