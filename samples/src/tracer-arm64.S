/*
 * _mcount of arm64: called behind the prologue, x0 = the caller's return address, arguments in saved registers; a call
 * as any other. Only x16 and x17 change.
 * SPDX-License-Identifier: MIT
 */
	.text
	.globl	_mcount
	.type	_mcount, %function
_mcount:
	hint	#34			/* bti c */
	adrp	x16, trace_calls
	ldr	x17, [x16, #:lo12:trace_calls]
	add	x17, x17, #1
	str	x17, [x16, #:lo12:trace_calls]
	ret
	.size	_mcount, .-_mcount
	.bss
	.balign	8
	.globl	trace_calls
	.hidden	trace_calls
	.type	trace_calls, %object
	.size	trace_calls, 8
trace_calls:
	.zero	8
#ifdef BTI
	.section .note.gnu.property, "a"
	.balign	8
	.word	4, 16, 5
	.asciz	"GNU"
	.word	0xc0000000, 4, 3, 0
#endif
	.section .note.GNU-stack, "", %progbits
