/*
 * _mcount of 64-bit PowerPC, ELFv1 and ELFv2.
 * -mprofile-kernel (PROFILE_KERNEL): r0 is the caller's return address, LR the way back into the function, there is no
 * frame. It comes back through CTR with LR = r0, since a leaf goes straight on to blr; r2 must be as it was, and
 * nothing may be stored at the caller's TOC slot. r12 and CTR are free, r0 after LR was restored from it.
 * Plain -pg: a call as any other, behind the prologue.
 * Power10 code has no TOC pointer: the counter is then addressed relative to the program counter. Local entry 0, not 1,
 * since r2 is left alone: the linker refuses a call without nop of a function that may change it.
 * addic: addi would read r0 as zero.
 * SPDX-License-Identifier: MIT
 */
#include "ppc64.h"
	.text
#ifdef __PCREL__
	.balign	64			/* no prefixed instruction crosses 64 bytes */
FUNCTION(_mcount)
#else
TOC_FUNCTION(_mcount)
#endif
#ifdef PROFILE_KERNEL
	mflr	12
	mtctr	12
	mtlr	0
#endif
#ifdef __PCREL__
	pld	0, trace_calls@pcrel
	addic	0, 0, 1
	pstd	0, trace_calls@pcrel
#else
	addis	12, 2, trace_calls@toc@ha
	ld	0, trace_calls@toc@l(12)
	addic	0, 0, 1
	std	0, trace_calls@toc@l(12)
#endif
#ifdef PROFILE_KERNEL
	mflr	0
	bctr
#else
	blr
#endif
END(_mcount)
	.bss
	.balign	8
	.globl	trace_calls
	.hidden	trace_calls
	.type	trace_calls, @object
	.size	trace_calls, 8
trace_calls:
	.zero	8
	.section .note.GNU-stack, "", @progbits
