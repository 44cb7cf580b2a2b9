/*
 * The entry of programs that write their own trace (RT-20, RT-21): a record for each call, into
 * memory that belongs to the thread. 0(%rsp) = behind the site's call, 8(%rsp) = return address of
 * the function, which is never touched. Alive at a site is everything but r11 and the flags.
 *
 * Room is reserved by one instruction, before anything is looked at that a signal handler may
 * change; what was looked at before and after is told by the page's generation. Whatever is not as
 * expected goes the slow way, which writes the record itself; the reserved word stays zero.
 * SPDX-License-Identifier: MIT
 */
#include "native.h"
#include "native-page.h"

	.text
	.balign	16
	.globl	elftrace_native_function
	.type	elftrace_native_function, @function
elftrace_native_function:
	movq	native_slot(%rip), %r11
	testq	%r11, %r11
	js	.Loff
	pushq	%rax
	pushq	%rdx
	pushq	%rcx
	pushq	%rsi
	jz	.Lslow
	page	.Lslow
	reserve	8, .Lslow
	clock	.Lslow
	leaq	40(%rsp), %rdx
	word	.Lslow
	movq	32(%rsp), %rdx
	shlq	$SITE_SHIFT, %rdx
	orq	%rdx, %rax
	cmpq	PAGE_GENERATION(%r11), %rsi
	jne	.Lslow
	movq	%rax, (%rcx)
.Lout:
	popq	%rsi
	popq	%rcx
	popq	%rdx
	popq	%rax
.Loff:
	ret

.Lslow:
	pushq	%rdi
	pushq	%r8
	pushq	%r9
	pushq	%r10
	movq	64(%rsp), %rdi
	leaq	72(%rsp), %rsi
	movq	%rsp, %rdx
	call	native_record
	popq	%r10
	popq	%r9
	popq	%r8
	popq	%rdi
	jmp	.Lout
	.size	elftrace_native_function, . - elftrace_native_function

#include "native-words.h"
