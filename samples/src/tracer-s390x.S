/*
 * The profiling entries of s390x; only r0 and r1 change.
 * __fentry__: the first instruction of a function calls it through r0; r14 is the caller's return address.
 * _mcount, mcount: called through r14, which GCC keeps in the caller's frame and clang in its own.
 * SPDX-License-Identifier: MIT
 */
	.text
	.globl	__fentry__, _mcount, mcount
	.type	__fentry__, @function
	.type	_mcount, @function
	.type	mcount, @function
__fentry__:
	larl	%r1, trace_calls
	agsi	0(%r1), 1
	lgr	%r1, %r0
	br	%r1
	.size	__fentry__, .-__fentry__
_mcount:
mcount:
	larl	%r1, trace_calls
	agsi	0(%r1), 1
	br	%r14
	.size	_mcount, .-_mcount
	.size	mcount, .-mcount
	.bss
	.balign	8
	.globl	trace_calls
	.hidden	trace_calls
	.type	trace_calls, @object
	.size	trace_calls, 8
trace_calls:
	.zero	8
	.section .note.GNU-stack, "", @progbits
