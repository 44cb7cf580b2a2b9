/*
 * What the sites of x86-64 call: both names count and return. GCC assumes that every register survives (a leaf reads
 * rdi right after), r10 may hold the static chain and al the number of vector arguments: only the flags change here.
 * SPDX-License-Identifier: MIT
 */
	.text
	.globl	__fentry__, mcount
	.type	__fentry__, @function
	.type	mcount, @function
__fentry__:
mcount:
#ifdef __CET__
	endbr64
#endif
	incq	trace_calls(%rip)
	ret
	.size	__fentry__, .-__fentry__
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
