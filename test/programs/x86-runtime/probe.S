/*
 * Registers before and after a site, byte for byte. Integer state: rax rbx rcx rdx rsi rdi rbp
 * r8..r15 rflags rsp, then xmm0..15.
 */
	.text
	.macro	load_all at
	movups	136(\at), %xmm0
	movups	152(\at), %xmm1
	movups	168(\at), %xmm2
	movups	184(\at), %xmm3
	movups	200(\at), %xmm4
	movups	216(\at), %xmm5
	movups	232(\at), %xmm6
	movups	248(\at), %xmm7
	movups	264(\at), %xmm8
	movups	280(\at), %xmm9
	movups	296(\at), %xmm10
	movups	312(\at), %xmm11
	movups	328(\at), %xmm12
	movups	344(\at), %xmm13
	movups	360(\at), %xmm14
	movups	376(\at), %xmm15
	pushq	120(\at)
	popfq
	movq	0(\at), %rax
	movq	8(\at), %rbx
	movq	16(\at), %rcx
	movq	24(\at), %rdx
	movq	32(\at), %rsi
	movq	48(\at), %rbp
	movq	56(\at), %r8
	movq	64(\at), %r9
	movq	72(\at), %r10
	movq	80(\at), %r11
	movq	88(\at), %r12
	movq	96(\at), %r13
	movq	104(\at), %r14
	movq	112(\at), %r15
	movq	40(\at), %rdi
	.endm

/*
 * void probe_run(const struct state *in, void (*target)(void), long below): calls with `below`
 * bytes less of stack, a multiple of 8.
 */
	.globl	probe_run
probe_run:
	pushq	%rbx
	pushq	%rbp
	pushq	%r12
	pushq	%r13
	pushq	%r14
	pushq	%r15
	movq	%rsp, kept_rsp(%rip)
	subq	%rdx, %rsp
	movq	%rsi, kept_target(%rip)
	movq	%rsp, probe_rsp(%rip)
	load_all %rdi
	call	*kept_target(%rip)
	.globl	probe_back
probe_back:
	/* Results and callee-saved registers as they come back. */
	movq	%rax, probe_result(%rip)
	movq	%rdx, 8+probe_result(%rip)
	movups	%xmm0, 16+probe_result(%rip)
	movups	%xmm1, 32+probe_result(%rip)
	movq	%rsp, 48+probe_result(%rip)
	movq	kept_rsp(%rip), %rsp
	cld
	popq	%r15
	popq	%r14
	popq	%r13
	popq	%r12
	popq	%rbp
	popq	%rbx
	ret

/* A function with a site that stores what it finds. */
	.globl	probe_target
	.type	probe_target, @function
probe_target:
#ifdef MCOUNT
	pushq	%rbp
	movq	%rsp, %rbp
	call	mcount
#elif defined(SIX)
	.byte	0x67
	call	__fentry__
#else
	call	__fentry__
#endif
	movq	%rax, probe_out(%rip)
	movq	%rbx, 8+probe_out(%rip)
	movq	%rcx, 16+probe_out(%rip)
	movq	%rdx, 24+probe_out(%rip)
	movq	%rsi, 32+probe_out(%rip)
	movq	%rdi, 40+probe_out(%rip)
	movq	%rbp, 48+probe_out(%rip)
	movq	%r8, 56+probe_out(%rip)
	movq	%r9, 64+probe_out(%rip)
	movq	%r10, 72+probe_out(%rip)
	movq	%r11, 80+probe_out(%rip)
	movq	%r12, 88+probe_out(%rip)
	movq	%r13, 96+probe_out(%rip)
	movq	%r14, 104+probe_out(%rip)
	movq	%r15, 112+probe_out(%rip)
	movq	%rsp, 128+probe_out(%rip)
	pushfq
	popq	120+probe_out(%rip)
	movups	%xmm0, 136+probe_out(%rip)
	movups	%xmm1, 152+probe_out(%rip)
	movups	%xmm2, 168+probe_out(%rip)
	movups	%xmm3, 184+probe_out(%rip)
	movups	%xmm4, 200+probe_out(%rip)
	movups	%xmm5, 216+probe_out(%rip)
	movups	%xmm6, 232+probe_out(%rip)
	movups	%xmm7, 248+probe_out(%rip)
	movups	%xmm8, 264+probe_out(%rip)
	movups	%xmm9, 280+probe_out(%rip)
	movups	%xmm10, 296+probe_out(%rip)
	movups	%xmm11, 312+probe_out(%rip)
	movups	%xmm12, 328+probe_out(%rip)
	movups	%xmm13, 344+probe_out(%rip)
	movups	%xmm14, 360+probe_out(%rip)
	movups	%xmm15, 376+probe_out(%rip)
	movq	$0x1111, %rax
	movq	$0x2222, %rdx
	cld
#ifdef MCOUNT
	popq	%rbp
#endif
	ret
	.size	probe_target, . - probe_target

/*
 * Callback: keeps its arguments and the frame, then spoils everything that the calling convention
 * lets it spoil (r10 where asked).
 */
	.globl	spoil
	.type	spoil, @function
spoil:
	cld
	incq	seen_count(%rip)
	movq	%rdi, seen(%rip)
	movq	%rsi, 8+seen(%rip)
	movq	%rdx, 16+seen(%rip)
	movq	%rcx, 24+seen(%rip)
	movq	%rsp, 32+seen(%rip)
	testq	%rcx, %rcx
	jz	1f
	leaq	seen_frame(%rip), %rdi
	movq	%rcx, %rsi
	movl	$21, %ecx
	rep movsq
1:	movq	$-1, %rax
	movq	$-3, %rcx
	movq	$-5, %rdx
	movq	$-7, %rsi
	movq	$-9, %rdi
	movq	$-11, %r8
	movq	$-13, %r9
	movq	$-15, %r11
	cmpq	$0, spoil_r10(%rip)
	je	2f
	movq	$-17, %r10
2:	addq	$1, %rax
	ret
	.size	spoil, . - spoil
	/* Where the call of a block leads that was moved by 0x100. */
	.org	spoil + 0x100
	.globl	spoil_off
spoil_off:
	movq	%rdx, %rdi
	jmp	moved_here

/* Goes on in the place of a function that has made its frame. */
	.globl	within_frame
	.type	within_frame, @function
within_frame:
	leaq	7000(%rdi), %rax
	subq	%rsi, %rax
	leave
	ret

/* Direct callers, the way X-DIR-1 has them. */
	.globl	direct_caller
	.type	direct_caller, @function
direct_caller:
	pushq	%rbp
	movq	%rsp, %rbp
	pushq	%rdi
	pushq	%rsi
	pushq	%rdx
	pushq	%rcx
	pushq	%r8
	pushq	%r9
	pushq	%rax
	movq	%rdi, %rdi
	movq	8(%rbp), %rsi
	call	direct_seen
	popq	%rax
	popq	%r9
	popq	%r8
	popq	%rcx
	popq	%rdx
	popq	%rsi
	popq	%rdi
	leave
	ret
	.size	direct_caller, . - direct_caller

/*
 * long on_stack(long (*function)(long, long), long a, long b, long below): calls with the stack
 * moved.
 */
	.globl	on_stack
on_stack:
	pushq	%rbp
	movq	%rsp, %rbp
	movq	%rdi, %rax
	movq	%rsi, %rdi
	movq	%rdx, %rsi
	subq	%rcx, %rsp
	call	*%rax
	leave
	ret

	.bss
	.balign	16
	.globl	probe_out, probe_result, probe_rsp, seen, seen_count, seen_frame, spoil_r10
probe_out:	.skip	392
probe_result:	.skip	56
probe_rsp:	.skip	8
kept_rsp:	.skip	8
kept_target:	.skip	8
seen:		.skip	40
seen_count:	.skip	8
seen_frame:	.skip	168
spoil_r10:	.skip	8
	.section .note.GNU-stack, "", @progbits
