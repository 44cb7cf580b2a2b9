/*
 * Entries of x86-64 as they are today (X-ENT-8), for __fentry__ sites: 0(%rsp) =
 * site+5, 8(%rsp) = return address of the function. Both pass a register frame, the plain one an
 * incomplete one (cs = 0); the function graph is a callback.
 *
 * 	                    plain            regs
 * 	flags               lost             at 168, above the frame
 * 	site+5              168(%rsp)        176(%rsp)
 * 	return address      176(%rsp)        184(%rsp)
 *
 * A callback of the register entry may put an address into orig_ax: the function's site then seems
 * to have called that one (direct calls), or with bit 0 set to have jumped there (X-JMP-3). Alive at a site is what entry-2014.S says; where rsp
 * stands modulo 16 is not known.
 *
 * What lies between a `caller` label and its `end` is copied to make a trampoline: in it only the
 * load of the ops word, the call and, in the register entry, the jump at `jmp` depend on the place.
 * The jump must be a short one, of two bytes. SPDX-License-Identifier: MIT
 */
#include "entry.h"
#include "entry-macros.h"
	.text
	.balign	16

	/* Steps 2 to 4; rdx is scratch. `added` bytes were pushed before the frame. */
	.macro	save added
	subq	$REGS_BYTES, %rsp
	save_arguments
	movq	%rbp, %rdx
	movq	%rdx, R_BP(%rsp)
	movq	$0, R_ORIG_AX(%rsp)
	movq	REGS_BYTES + 8 + \added(%rsp), %rsi
	movq	REGS_BYTES + \added(%rsp), %rdi
	movq	%rdi, R_IP(%rsp)
	subq	$5, %rdi
	.endm
	.macro	restore kept=0
	movq	R_BP(%rsp), %rbp
	restore_arguments
	addq	$REGS_BYTES - \kept, %rsp
	.endm

FUNCTION(ftrace_caller)
	save	0
	leaq	REGS_BYTES + 8(%rsp), %rcx
	movq	%rcx, R_SP(%rsp)
LABEL(ftrace_caller_op_ptr)
	movq	function_trace_op(%rip), %rdx
	movq	$0, R_CS(%rsp)
	leaq	(%rsp), %rcx
LABEL(ftrace_call)
	call	.Lstub
	movq	R_IP(%rsp), %rax
	movq	%rax, REGS_BYTES(%rsp)
	restore
LABEL(ftrace_caller_end)
	ret
END(ftrace_caller)

FUNCTION(ftrace_stub)
	.hidden	elftrace_stub_text
LABEL(elftrace_stub_text)
.Lstub:
	ret
END(ftrace_stub)

FUNCTION(ftrace_regs_caller)
	pushfq
	save	8
LABEL(ftrace_regs_caller_op_ptr)
	movq	function_trace_op(%rip), %rdx
	movq	%r15, R_R15(%rsp)
	movq	%r14, R_R14(%rsp)
	movq	%r13, R_R13(%rsp)
	movq	%r12, R_R12(%rsp)
	movq	%r11, R_R11(%rsp)
	movq	%r10, R_R10(%rsp)
	movq	%rbx, R_BX(%rsp)
	movq	REGS_BYTES(%rsp), %rcx
	movq	%rcx, R_FLAGS(%rsp)
	save_selectors
	leaq	REGS_BYTES + 16(%rsp), %rcx
	movq	%rcx, R_SP(%rsp)
	leaq	(%rsp), %rcx
LABEL(ftrace_regs_call)
	call	.Lstub
	movq	R_FLAGS(%rsp), %rax
	movq	%rax, REGS_BYTES(%rsp)
	movq	R_IP(%rsp), %rax
	movq	%rax, REGS_BYTES + 8(%rsp)
	movq	R_R15(%rsp), %r15
	movq	R_R14(%rsp), %r14
	movq	R_R13(%rsp), %r13
	movq	R_R12(%rsp), %r12
	movq	R_R10(%rsp), %r10
	movq	R_BX(%rsp), %rbx
	movq	R_ORIG_AX(%rsp), %rax
	movq	%rax, REGS_BYTES - 8(%rsp)
	testq	%rax, %rax
LABEL(ftrace_regs_caller_jmp)
	jnz	.Ldirect
	restore
	popfq
LABEL(ftrace_regs_caller_end)
	ret
	/*
	 * rax = the direct caller. The flags go down one word, it takes their place, and the last return
	 * goes to it: site+5 stays on top.
	 */
.Ldirect:
	testb	%al, elftrace_direct_jumps(%rip)
	jnz	.Ljump
	movq	REGS_BYTES(%rsp), %rcx
	movq	%rcx, REGS_BYTES - 8(%rsp)
	movq	%rax, REGS_BYTES(%rsp)
	restore	8
	popfq
	ret
	/* site+5 goes away, the direct caller takes its place: the last return leaves nothing of it. */
.Ljump:
	decq	%rax
	movq	%rax, REGS_BYTES + 8(%rsp)
	restore
	popfq
	ret
END(ftrace_regs_caller)

/*
 * A `ret` comes here: the word that it took is below rsp. rax, rdx, xmm0, xmm1 and st0 may be
 * results (X-ENT-6).
 */
FUNCTION(return_to_handler)
	.hidden	elftrace_return_text
LABEL(elftrace_return_text)
	movq	%rsp, %rdi
	subq	$REGS_BYTES + 8, %rsp
	movq	%rax, R_AX(%rsp)
	movq	%rdx, R_DX(%rsp)
	movq	%rbp, R_BP(%rsp)
	movq	%rdi, R_SP(%rsp)
	movq	%rsp, %rdi
	call	elftrace_graph_return_regs
	movq	%rax, %rdi
	movq	R_DX(%rsp), %rdx
	movq	R_AX(%rsp), %rax
	addq	$REGS_BYTES + 8, %rsp
	testq	%rdi, %rdi
	jz	0f
	pushq	%rdi
	ret
0:	ud2				/* the shadow stack does not know where to return to */
END(return_to_handler)

	/* 1: bit 0 of a direct caller says that its sites jump; 0: it is part of the address. */
	.data
	.balign	8
	.globl	elftrace_direct_jumps
	.type	elftrace_direct_jumps, @object
	.size	elftrace_direct_jumps, 8
elftrace_direct_jumps:
	.quad	0

	.section .note.GNU-stack, "", @progbits
