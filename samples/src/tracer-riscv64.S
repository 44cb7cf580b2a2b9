/*
 * _mcount of RISC-V: called behind the prologue, ra saved, arguments in s registers; a call as any other.
 * SPDX-License-Identifier: MIT
 */
	.text
	.globl	_mcount
	.type	_mcount, @function
_mcount:
	lla	t0, trace_calls
	ld	t1, 0(t0)
	addi	t1, t1, 1
	sd	t1, 0(t0)
	ret
	.size	_mcount, .-_mcount
	.bss
	.balign	8
	.globl	trace_calls
	.hidden	trace_calls
	.type	trace_calls, @object
	.size	trace_calls, 8
trace_calls:
	.zero	8
	.section .note.GNU-stack, "", @progbits
