/* Process start and system calls, arm64 Linux. SPDX-License-Identifier: MIT */
	.text
	.globl	_start, sys_write, sys_exit
	.type	_start, %function
	.type	sys_write, %function
	.type	sys_exit, %function
	.hidden	start_c
_start:
	hint	#34			/* bti c */
	mov	x29, #0
	mov	x30, #0
	bl	start_c
	brk	#1
	.size	_start, .-_start
sys_write:
	hint	#34
	mov	x8, #64
	svc	#0
	ret
	.size	sys_write, .-sys_write
sys_exit:
	hint	#34
	mov	x8, #93
	svc	#0
	brk	#1
	.size	sys_exit, .-sys_exit
#ifdef BTI
	/* GNU property: this object has landing pads, so that the linked image may say the same. */
	.section .note.gnu.property, "a"
	.balign	8
	.word	4, 16, 5
	.asciz	"GNU"
	.word	0xc0000000, 4, 3, 0
#endif
	.section .note.GNU-stack, "", %progbits
