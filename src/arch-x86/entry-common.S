/*
 * What all entry conventions of x86-64 share: calling a callback with an aligned stack, and
 * callbacks that use vectors. SPDX-License-Identifier: MIT
 */
#include "entry.h"
#include "entry-macros.h"
	.text
	.balign	16

/*
 * void elftrace_invoke(word ip, word parent_ip, ops *ops, regs *regs, word text): calls `text` with
 * the first four. The entries do not know where rsp stands modulo 16; a callback in ordinary C
 * counts on it.
 */
FUNCTION(elftrace_invoke)
	.hidden	elftrace_invoke
	pushq	%rbp
	movq	%rsp, %rbp
	andq	$-16, %rsp
	notrack call	*%r8		# a callback need not begin with endbr64
	leave
	ret
END(elftrace_invoke)

/*
 * Callback for the sake of another: calls the function of ordinary C whose address is in the ops'
 * private word (word 3), with an aligned stack and with the vector registers that may hold
 * arguments saved. AVX state is not: such a callback must not use it.
 */
FUNCTION(elftrace_vector_func)
	pushq	%rbp
	movq	%rsp, %rbp
	subq	$128 + 16, %rsp
	andq	$-16, %rsp
	movaps	%xmm0, (%rsp)
	movaps	%xmm1, 16(%rsp)
	movaps	%xmm2, 32(%rsp)
	movaps	%xmm3, 48(%rsp)
	movaps	%xmm4, 64(%rsp)
	movaps	%xmm5, 80(%rsp)
	movaps	%xmm6, 96(%rsp)
	movaps	%xmm7, 112(%rsp)
	stmxcsr	128(%rsp)
	notrack call	*24(%rdx)
	ldmxcsr	128(%rsp)
	movaps	(%rsp), %xmm0
	movaps	16(%rsp), %xmm1
	movaps	32(%rsp), %xmm2
	movaps	48(%rsp), %xmm3
	movaps	64(%rsp), %xmm4
	movaps	80(%rsp), %xmm5
	movaps	96(%rsp), %xmm6
	movaps	112(%rsp), %xmm7
	leave
	ret
END(elftrace_vector_func)

/* The profiling entries, for programs that have none: they do nothing. */
	.weak	__fentry__
	.type	__fentry__, @function
__fentry__:
	.weak	mcount
	.type	mcount, @function
mcount:
	ret
	.size	__fentry__, 1
	.size	mcount, 1

	.section .note.GNU-stack, "", @progbits
