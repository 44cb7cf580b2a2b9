/*
 * _mcount of 32-bit PowerPC: called before the frame is made, with the caller's return address in the LR save word
 * 4(r1). It comes back through CTR with LR reloaded from there, because a leaf goes straight on to blr.
 * r0 and r12 are free; r11 (static chain) and CR (varargs flag) are not. addic: addi would read r0 as zero.
 * SPDX-License-Identifier: MIT
 */
	.text
	.globl	_mcount
	.type	_mcount, @function
_mcount:
	mflr	12
	mtctr	12
	lis	12, trace_calls@ha
	lwz	0, trace_calls@l(12)
	addic	0, 0, 1
	stw	0, trace_calls@l(12)
	lwz	0, 4(1)
	mtlr	0
	bctr
	.size	_mcount, .-_mcount
	.bss
	.balign	4
	.globl	trace_calls
	.type	trace_calls, @object
	.size	trace_calls, 4
trace_calls:
	.zero	4
	.section .note.GNU-stack, "", @progbits
