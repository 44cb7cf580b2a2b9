/*
 * The page of a thread, room in it, and where on its stack and in time a record is: what the entries
 * of both kinds of traces begin with. SPDX-License-Identifier: MIT
 */

	/* r11 = the slot's offset; then r11 = page, rsi = its generation. rax is lost. */
	.macro	page slow
	movq	%fs:(%r11), %r11
	testq	%r11, %r11
	jz	\slow
	leaq	native_slot(%rip), %rax
	cmpq	%rax, PAGE_OWNER(%r11)
	jne	\slow
	movl	%fs:LIBRARY_THREAD, %eax
	cmpl	%eax, PAGE_THREAD(%r11)
	jne	\slow
	movq	PAGE_GENERATION(%r11), %rsi
	.endm

	/* rcx = room for so many bytes. */
	.macro	reserve bytes, slow
	movl	$\bytes, %ecx
	xaddq	%rcx, PAGE_CUR(%r11)
	cmpq	PAGE_END(%r11), %rcx
	jae	\slow
	.endm

	/* rax = counter. rdx is lost. */
	.macro	clock slow
	rdtsc
	shlq	$32, %rdx
	orq	%rdx, %rax
	movq	%rax, %rdx
	shrq	$CLOCK_BITS, %rdx
	cmpq	PAGE_EPOCH(%r11), %rdx
	jne	\slow
	.endm

	/* rax = the word of a call without its site; from the counter, and rdx = place of the return address. */
	.macro	word slow
	subq	PAGE_BASE(%r11), %rdx
	shrq	$STACK_UNIT, %rdx
	cmpq	$(1 << STACK_BITS) - 1, %rdx
	ja	\slow
	andl	$(1 << CLOCK_BITS) - 1, %eax
	shlq	$STACK_SHIFT, %rdx
	leaq	TAG_CALL(%rdx,%rax,1 << CLOCK_SHIFT), %rax
	.endm
