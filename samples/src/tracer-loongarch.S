/*
 * _mcount of LoongArch: called behind the prologue, $a0 = the caller's return address, arguments in saved registers; a
 * call as any other. Only $t0 and $t1 change.
 * SPDX-License-Identifier: MIT
 */
	.text
	.globl	_mcount
	.type	_mcount, @function
_mcount:
	la.local $t0, trace_calls
	ld.d	$t1, $t0, 0
	addi.d	$t1, $t1, 1
	st.d	$t1, $t0, 0
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
