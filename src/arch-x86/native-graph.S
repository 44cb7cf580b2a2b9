/*
 * Entry and return of programs that write calls and returns (RT-43). A site jumps to a stub of its
 * own:
 *
 *   0   call elftrace_native_graph
 *   5   jc   body                  the call keeps its return address
 *   11  add  $8, %rsp
 *   15  call body                  puts 20 where the return address was
 *   20  jmp  native_return
 *   25  u32: address of 20 less that of native_spans
 *   29  three bytes by which stubs of all objects are told
 *
 * Each return meets its call, for the processor's return stack and for shadow stacks. Alive at a
 * site is everything but r11 and the flags; behind a return all but those, too.
 *
 * Room is reserved by one instruction, before anything is looked at that a signal handler may
 * change; what was looked at before and after is told by the page's generation. Whatever is not as
 * expected goes the slow way. SPDX-License-Identifier: MIT
 */
#include "native.h"
#include "native-graph.h"
#include "native-hook.h"
#include "native-page.h"

	.text
	.balign	16
	.globl	elftrace_native_graph
	.type	elftrace_native_graph, @function
	/* 0(%rsp) = 5 of the stub, 8(%rsp) = return address of the function. Carry: it stays there. */
elftrace_native_graph:
	.cfi_startproc
	movq	native_slot(%rip), %r11
	testq	%r11, %r11
	js	.Loff
	pushq	%rax
	.cfi_adjust_cfa_offset 8
	pushq	%rdx
	.cfi_adjust_cfa_offset 8
	pushq	%rcx
	.cfi_adjust_cfa_offset 8
	pushq	%rsi
	.cfi_adjust_cfa_offset 8
	jz	.Lslow
	page	.Lslow
	reserve	8, .Lslow
	clock	.Lslow
	leaq	40(%rsp), %rdx
	movq	%rdx, PAGE_LAST(%r11)
	word	.Lslow
	movq	32(%rsp), %rdx
	/* The stub's second call leads behind the site. */
	movl	STUB_CALL - STUB_ENTERED + 1(%rdx), %edx
	addl	32(%rsp), %edx
	addl	$STUB_HOOK - STUB_ENTERED, %edx
	shlq	$SITE_SHIFT, %rdx
	orq	%rdx, %rax
	movq	PAGE_SHADOW(%r11), %rdx
	cmpq	PAGE_GENERATION(%r11), %rsi
	jne	.Lslow
	movq	%rax, (%rcx)
	testq	%rdx, %rdx
	jz	.Lkept
	movq	40(%rsp), %rax
	leal	-STUB_HOOK(%rax), %ecx
	testl	$STUB_BYTES - 1, %ecx
	jz	.Lperhaps
.Lhook:
	movq	%rax, 40(%rsp,%rdx)
	popq	%rsi
	.cfi_remember_state
	.cfi_adjust_cfa_offset -8
	popq	%rcx
	.cfi_adjust_cfa_offset -8
	popq	%rdx
	.cfi_adjust_cfa_offset -8
	popq	%rax
	.cfi_adjust_cfa_offset -8
	clc
	ret
.Lperhaps:
	.cfi_restore_state
	/* A function that another one jumped to returns to where that one would have. */
	movl	STUB_MARKED - STUB_HOOK(%rax), %ecx
	shrl	$8, %ecx
	cmpl	$STUB_MARK, %ecx
	jne	.Lhook
.Lkept:
	.cfi_remember_state
	popq	%rsi
	.cfi_adjust_cfa_offset -8
	popq	%rcx
	.cfi_adjust_cfa_offset -8
	popq	%rdx
	.cfi_adjust_cfa_offset -8
	popq	%rax
	.cfi_adjust_cfa_offset -8
.Loff:
	stc
	ret

.Lslow:
	.cfi_restore_state
	pushq	%rdi
	.cfi_adjust_cfa_offset 8
	pushq	%r8
	.cfi_adjust_cfa_offset 8
	pushq	%r9
	.cfi_adjust_cfa_offset 8
	pushq	%r10
	.cfi_adjust_cfa_offset 8
	movq	64(%rsp), %rdi
	addl	STUB_CALL - STUB_ENTERED + 1(%rdi), %edi
	addl	$STUB_HOOK - STUB_ENTERED, %edi
	leaq	72(%rsp), %rsi
	movq	72(%rsp), %rdx
	movq	%rsp, %rcx
	call	native_enter
	movq	%rax, %r11
	popq	%r10
	.cfi_adjust_cfa_offset -8
	popq	%r9
	.cfi_adjust_cfa_offset -8
	popq	%r8
	.cfi_adjust_cfa_offset -8
	popq	%rdi
	.cfi_adjust_cfa_offset -8
	testq	%r11, %r11
	jz	.Lkept
	popq	%rsi
	.cfi_adjust_cfa_offset -8
	popq	%rcx
	.cfi_adjust_cfa_offset -8
	popq	%rdx
	.cfi_adjust_cfa_offset -8
	popq	%rax
	.cfi_adjust_cfa_offset -8
	clc
	ret
	.cfi_endproc
	.size	elftrace_native_graph, . - elftrace_native_graph

	/*
	 * The function returned: its stack is as behind a return, and the place of the return address
	 * is still ours, as far as signal handlers go.
	 */
	.balign	16
	.globl	native_return
	.type	native_return, @function
native_return:
	leaq	-8(%rsp), %rsp
	pushq	%rax
	pushq	%rdx
	pushq	%rcx
	pushq	%rsi
	movq	native_slot(%rip), %r11
	testq	%r11, %r11
	jle	.Lslow_return
	page	.Lslow_return
	leaq	32(%rsp), %rdx
	movq	PAGE_SHADOW(%r11), %rcx
	testq	%rcx, %rcx
	jz	.Lslow_return
	movq	%rdx, %rax
	subq	PAGE_BASE(%r11), %rax
	shrq	$STACK_UNIT, %rax
	cmpq	$(1 << STACK_BITS) - 1, %rax
	ja	.Lslow_return
	/* Few bits tell the call only where the last event was near. */
	movq	%rdx, %rax
	subq	PAGE_LAST(%r11), %rax
	cmpq	$(1 << (NEAR_BITS + STACK_UNIT)) - 1, %rax
	ja	.Lslow_return
	cmpq	PAGE_GENERATION(%r11), %rsi
	jne	.Lslow_return
	movq	(%rdx,%rcx), %rax
	movq	%rax, (%rdx)
	reserve	4, .Lslow_return
	clock	.Lslow_return
	leaq	32(%rsp), %rdx
	movq	%rdx, PAGE_LAST(%r11)
	subl	PAGE_BASE(%r11), %edx
	shll	$STACK_SHIFT - STACK_UNIT, %edx
	andl	$(1 << CLOCK_BITS) - 1, %eax
	leal	TAG_RETURN(%rdx,%rax,1 << CLOCK_SHIFT), %eax
	cmpq	PAGE_GENERATION(%r11), %rsi
	jne	.Lslow_return
	movl	%eax, (%rcx)
.Lreturn:
	popq	%rsi
	popq	%rcx
	popq	%rdx
	popq	%rax
	ret

.Lslow_return:
	pushq	%rdi
	pushq	%r8
	pushq	%r9
	pushq	%r10
	leaq	64(%rsp), %rdi
	movq	%rsp, %rsi
	call	native_leave
	movq	%rax, 64(%rsp)
	popq	%r10
	popq	%r9
	popq	%r8
	popq	%rdi
	jmp	.Lreturn
	.size	native_return, . - native_return

	/*
	 * How a frame whose return address is ours is unwound: its own lies in the shadow of the stack.
	 * It takes no room, so its CFA is said to be one byte higher than it is: unwinders tell frames by
	 * their CFA. In front of the stub's second call the return address is where it always is.
	 */
	.section .stubs, "ax", @progbits
	.balign	STUB_BYTES
	.globl	native_stubs
	.type	native_stubs, @object
native_stubs:
	.cfi_startproc
	/* CFA: rsp + 1, or rsp + 8 while (pc & 31) < 15. */
	.cfi_escape 0x0f, 11, 0x77, 1, 0x80, 0, 0x4f, 0x1a, 0x3f, 0x2d, 0x37, 0x1e, 0x22
	/* rsp: CFA, or CFA - 1 while (pc & 31) >= 15. */
	.cfi_escape 0x16, 7, 7, 0x80, 0, 0x4f, 0x1a, 0x3f, 0x2a, 0x1c
	/*
	 * rip, while (pc & 31) < 15: *(CFA - 8). Else key = CFA - 9, t = native_spans; words w of it until
	 * w >> 36 = key >> 26: *((w << 28 >> 16) + (key & 0x3ffffff)); no such word: 0.
	 */
	.cfi_escape 0x16, 16, 68
	/* pc & 31 < 15: to the end */
	.cfi_escape 0x80, 0, 0x4f, 0x1a, 0x3f, 0x2d, 0x28, 56, 0
	/* key, t */
	.cfi_escape 0x12, 0x39, 0x1c, 0x80, 5, 0x94, 4, 0x80, 0, 0x16, 0x1c
	/* w; is it that of the key? */
	.cfi_escape 0x12, 0x06, 0x12, 0x08, 36, 0x25, 0x15, 3, 0x4a, 0x25, 0x29, 0x28, 12, 0
	/* the last one; the next one */
	.cfi_escape 0x28, 4, 0, 0x30, 0x2f, 27, 0
	.cfi_escape 0x23, 8, 0x2f, 0xe6, 0xff
	/* found */
	.cfi_escape 0x08, 28, 0x24, 0x08, 16, 0x25, 0x15, 2, 0x0c, 0xff, 0xff, 0xff, 0x03, 0x1a, 0x22, 0x06, 0x2f, 3, 0
	.cfi_escape 0x38, 0x1c, 0x06
	.zero	STUB_BYTES
	.cfi_endproc
	.size	native_stubs, . - native_stubs

#include "native-words.h"
