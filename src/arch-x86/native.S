/*
 * The entry of programs that write their own trace (RT-20, RT-21): a record for each call, into
 * memory that belongs to the thread. 0(%rsp) = behind the site's call, 8(%rsp) = return address of
 * the function, which is never touched. Alive at a site is everything but r11 and the flags.
 *
 * Room is reserved by one instruction, before anything is looked at that a signal handler may
 * change; what was looked at before and after is told by the page's generation. Whatever is not as
 * expected goes the slow way, which writes the record itself; the reserved word stays zero. Without
 * a clock (RT-55) the bits of the counter are zero. Where calls are counted (RT-54) each site calls a
 * stub of its own, which names its number: mov $place, %r11d; jmp elftrace_native_counter.
 * SPDX-License-Identifier: MIT
 */
#include "native.h"
#include "native-page.h"

	.macro	function_entry name, is_timed
	.balign	16
	.globl	\name
	.type	\name, @function
\name:
	movq	native_slot(%rip), %r11
	testq	%r11, %r11
	js	.Loff\@
	pushq	%rax
	pushq	%rdx
	pushq	%rcx
	pushq	%rsi
	jz	.Lslow
	page	.Lslow
	reserve	8, .Lslow
	.if	\is_timed
	clock	.Lslow
	.else
	xorl	%eax, %eax
	.endif
	leaq	40(%rsp), %rdx
	word	.Lslow
	movq	32(%rsp), %rdx
	shlq	$SITE_SHIFT, %rdx
	orq	%rdx, %rax
	cmpq	PAGE_GENERATION(%r11), %rsi
	jne	.Lslow
	movq	%rax, (%rcx)
	popq	%rsi
	popq	%rcx
	popq	%rdx
	popq	%rax
.Loff\@:
	ret
	.size	\name, . - \name
	.endm

	/* What C may change, from the last on. */
	.macro restore_call
	popq	%r10
	popq	%r9
	popq	%r8
	popq	%rdi
	popq	%rsi
	popq	%rcx
	.endm

	.text
	function_entry elftrace_native_function, 1
	function_entry elftrace_native_no_clock, 0

.Lslow:
	pushq	%rdi
	pushq	%r8
	pushq	%r9
	pushq	%r10
	movq	64(%rsp), %rdi
	leaq	72(%rsp), %rsi
	movq	%rsp, %rdx
	call	native_record
	restore_call
	popq	%rdx
	popq	%rax
	ret

	/* r11 = place of the site's number, in bytes. */
	.balign	16
	.globl	elftrace_native_counter
	.type	elftrace_native_counter, @function
elftrace_native_counter:
	pushq	%rax
	pushq	%rdx
	leaq	native_slot(%rip), %rdx
	movq	(%rdx), %rax
	testq	%rax, %rax
	jle	.Lnot_begun
	movq	%fs:(%rax), %rax
	testq	%rax, %rax
	jz	.Lslow_count
	cmpq	%rdx, PAGE_OWNER(%rax)
	jne	.Lslow_count
	movl	%fs:LIBRARY_THREAD, %edx
	cmpl	%edx, PAGE_THREAD(%rax)
	jne	.Lslow_count
	movq	PAGE_CUR(%rax), %rax
	testq	%rax, %rax
	jz	.Lslow_count
	incq	(%rax,%r11)
.Lcounted:
	popq	%rdx
	popq	%rax
	ret

.Lnot_begun:
	js	.Lcounted
.Lslow_count:
	pushq	%rcx
	pushq	%rsi
	pushq	%rdi
	pushq	%r8
	pushq	%r9
	pushq	%r10
	movq	%r11, %rdi
	call	native_count
	restore_call
	jmp	.Lcounted
	.size	elftrace_native_counter, . - elftrace_native_counter

#include "native-words.h"
