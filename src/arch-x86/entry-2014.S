/*
 * Entries of x86-64 as they were in 2014 (X-ENT-9): a plain one without registers,
 * one with all of them, and the function graph by a jump that both end in. ENTRY_MCOUNT: for -pg
 * without -mfentry, whose call stands behind `push %rbp; mov %rsp,%rbp`.
 *
 * 	__fentry__   0(%rsp) = site+5, 8(%rsp) = return address of the function
 * 	mcount       0(%rsp) = site+5, 8(%rbp) = return address of the function, 0(%rbp) = %rbp of its
 *               caller
 *
 * Alive at a site: rdi rsi rdx rcx r8 r9, al (vector arguments of a variadic call), xmm0-7, r10
 * (static chain), everything callee-saved; free: r11 and the flags. Where rsp stands modulo 16 is
 * not known to an entry: with mcount it differs from __fentry__, and -mpreferred-stack-boundary
 * leaves it open. So nothing here, nor any callback of the runtime, counts on it.
 *
 * What lies between a `caller` label and its `end` is copied to make a trampoline: in it only the
 * load of the ops word and the call depend on the place. The jumps behind the `end` labels are not
 * copied. SPDX-License-Identifier: MIT
 */
#include "entry.h"
#include "entry-macros.h"
	.text
	.balign	16

#ifdef ENTRY_MCOUNT
#define PARENT 8(%rbp)
#else
#define PARENT R_SS + 16(%rsp)
#endif

	/* rdx is scratch. `made` bytes of the frame are on the stack. */
	.macro	save made
	subq	$REGS_BYTES - \made, %rsp
	save_arguments
	movq	R_SS + 8(%rsp), %rdx
	movq	%rdx, R_IP(%rsp)
	.endm
	.macro	restore made
	restore_arguments
	addq	$REGS_BYTES - \made, %rsp
	.endm

FUNCTION(ftrace_caller)
	save	0
LABEL(ftrace_caller_op_ptr)
	movq	function_trace_op(%rip), %rdx
	movq	R_IP(%rsp), %rdi
	subq	$5, %rdi
	movq	PARENT, %rsi
	movq	$0, %rcx
LABEL(ftrace_call)
	call	.Lstub
	restore	0
LABEL(ftrace_caller_end)
LABEL(ftrace_return)
LABEL(ftrace_graph_call)
	jmp.d32	.Lstub
END(ftrace_caller)
FUNCTION(ftrace_stub)
	.hidden	elftrace_stub_text
LABEL(elftrace_stub_text)
.Lstub:
	ret
END(ftrace_stub)

FUNCTION(ftrace_regs_caller)
	/* The flags first, into what will be the slot of ss: nothing changed them yet. */
	pushfq
	save	8
LABEL(ftrace_regs_caller_op_ptr)
	movq	function_trace_op(%rip), %rdx
	movq	R_IP(%rsp), %rdi
	subq	$5, %rdi
	movq	PARENT, %rsi
	movq	%r15, R_R15(%rsp)
	movq	%r14, R_R14(%rsp)
	movq	%r13, R_R13(%rsp)
	movq	%r12, R_R12(%rsp)
	movq	%r11, R_R11(%rsp)
	movq	%r10, R_R10(%rsp)
	movq	%rbp, R_BP(%rsp)
	movq	%rbx, R_BX(%rsp)
	movq	R_SS(%rsp), %rcx
	movq	%rcx, R_FLAGS(%rsp)
	save_selectors
	leaq	R_SS + 16(%rsp), %rcx
	movq	%rcx, R_SP(%rsp)
	leaq	(%rsp), %rcx
LABEL(ftrace_regs_call)
	call	.Lstub
	movq	R_FLAGS(%rsp), %rax
	movq	%rax, R_SS(%rsp)
	/* A callback may have changed where the function goes on. */
	movq	R_IP(%rsp), %rax
	movq	%rax, R_SS + 8(%rsp)
	movq	R_R15(%rsp), %r15
	movq	R_R14(%rsp), %r14
	movq	R_R13(%rsp), %r13
	movq	R_R12(%rsp), %r12
	movq	R_R10(%rsp), %r10
	movq	R_BP(%rsp), %rbp
	movq	R_BX(%rsp), %rbx
	restore	8
	popfq
LABEL(ftrace_regs_caller_end)
	jmp	ftrace_return
END(ftrace_regs_caller)

/*
 * A site may call it, or the jump leads here: the stack is the same. The third argument is a frame
 * pointer to compare, or 0.
 */
FUNCTION(ftrace_graph_caller)
	save	0
#ifdef ENTRY_MCOUNT
	leaq	8(%rbp), %rdi
#else
	leaq	R_SS + 16(%rsp), %rdi
#endif
	movq	R_IP(%rsp), %rsi
	subq	$5, %rsi
#ifdef ENTRY_MCOUNT
	movq	(%rbp), %rdx
#else
	movq	$0, %rdx
#endif
	call	elftrace_graph_hook
	restore	0
	ret
END(ftrace_graph_caller)

/*
 * A `ret` comes here: the word that it took is below rsp. rax, rdx, xmm0, xmm1 and st0 may be
 * results. The stack pointer as second argument is ours: it says which call this is, which a frame
 * pointer does not in code without them.
 */
FUNCTION(return_to_handler)
	.hidden	elftrace_return_text
LABEL(elftrace_return_text)
	subq	$24, %rsp
	movq	%rax, (%rsp)
	movq	%rdx, 8(%rsp)
	movq	%rbp, %rdi
	leaq	24(%rsp), %rsi
	call	elftrace_graph_return_2014
	movq	%rax, %rdi
	movq	8(%rsp), %rdx
	movq	(%rsp), %rax
	addq	$24, %rsp
	testq	%rdi, %rdi
	jz	0f
	notrack jmp	*%rdi
0:	ud2				/* the shadow stack does not know where to return to */
END(return_to_handler)

	.section .note.GNU-stack, "", @progbits
