/*
 * Names and the common part of every frame. For assembly.
 * SPDX-License-Identifier: MIT
 */
#define FUNCTION(name) .globl name; .type name, @function; name:
#define END(name) .size name, . - name
/*
 * A label that is no function. Global: trampolines are made from what lies between them (T-X86-28).
 */
#define LABEL(name) .globl name; name:

	/* What a callback in C may change and the traced function expects: the first seven. */
	.macro	save_arguments
	movq	%rax, R_AX(%rsp)
	movq	%rcx, R_CX(%rsp)
	movq	%rdx, R_DX(%rsp)
	movq	%rsi, R_SI(%rsp)
	movq	%rdi, R_DI(%rsp)
	movq	%r8, R_R8(%rsp)
	movq	%r9, R_R9(%rsp)
	.endm
	.macro	restore_arguments
	movq	R_R9(%rsp), %r9
	movq	R_R8(%rsp), %r8
	movq	R_DI(%rsp), %rdi
	movq	R_SI(%rsp), %rsi
	movq	R_DX(%rsp), %rdx
	movq	R_CX(%rsp), %rcx
	movq	R_AX(%rsp), %rax
	.endm
	/*
	 * rcx is scratch. The loader finds the two numbers by the label, where the image is a kernel's
	 * (loader.ts).
	 */
	.macro	save_selectors
	.globl	elftrace_selectors
	.hidden	elftrace_selectors
elftrace_selectors:
	movq	$USER_SS, %rcx
	movq	%rcx, R_SS(%rsp)
	movq	$USER_CS, %rcx
	movq	%rcx, R_CS(%rsp)
	.endm
