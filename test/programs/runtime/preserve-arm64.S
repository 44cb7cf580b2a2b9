/*
 * Fills every register with a pattern, goes through a site as a traced function would, and prints
 * what is in them then. Data at `after`: x0..x30, sp before, sp after, nzcv; the site is in f, and
 * the return address of f (x9 at the site) is in `back`.
 */
	.text
	.macro	pattern n
	movz	x\n, #(0x100 + \n)
	movk	x\n, #0x7abc, lsl #16
	movk	x\n, #(0x5600 + \n), lsl #32
	movk	x\n, #0x1234, lsl #48
	.endm
	.globl	probe, after, back, probe_site
	.type	probe, %function
probe:	hint	#34
	stp	x29, x30, [sp, #-176]!
	stp	x19, x20, [sp, #16]
	stp	x21, x22, [sp, #32]
	stp	x23, x24, [sp, #48]
	stp	x25, x26, [sp, #64]
	stp	x27, x28, [sp, #80]
	stp	d8, d9, [sp, #96]
	stp	d10, d11, [sp, #112]
	stp	d12, d13, [sp, #128]
	stp	d14, d15, [sp, #144]
	str	x18, [sp, #160]
	adrp	x0, after
	add	x0, x0, :lo12:after
	mov	x1, sp
	str	x1, [x0, #31*8]
	/* What is below the stack pointer is nobody's: no slot of a frame is 0 by chance. */
	sub	x2, x1, #512
	mov	x3, #-1
1:	str	x3, [x2], #8
	cmp	x2, x1
	b.lo	1b
	.irp	n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29
	pattern	\n
	.endr
	bl	f
	.globl	returned
returned:
	stp	x0, x1, [sp, #-16]!
	adrp	x0, after
	add	x0, x0, :lo12:after
	stp	x2, x3, [x0, #2*8]
	stp	x4, x5, [x0, #4*8]
	stp	x6, x7, [x0, #6*8]
	stp	x8, x9, [x0, #8*8]
	stp	x10, x11, [x0, #10*8]
	stp	x12, x13, [x0, #12*8]
	stp	x14, x15, [x0, #14*8]
	stp	x16, x17, [x0, #16*8]
	stp	x18, x19, [x0, #18*8]
	stp	x20, x21, [x0, #20*8]
	stp	x22, x23, [x0, #22*8]
	stp	x24, x25, [x0, #24*8]
	stp	x26, x27, [x0, #26*8]
	stp	x28, x29, [x0, #28*8]
	str	x30, [x0, #30*8]
	ldp	x1, x2, [sp], #16
	stp	x1, x2, [x0]
	mov	x1, sp
	str	x1, [x0, #32*8]
	ldp	x19, x20, [sp, #16]
	ldp	x21, x22, [sp, #32]
	ldp	x23, x24, [sp, #48]
	ldp	x25, x26, [sp, #64]
	ldp	x27, x28, [sp, #80]
	ldr	x18, [sp, #160]
	ldp	x29, x30, [sp], #176
	ret
	.size	probe, . - probe

/* The traced function: its body notes x30 as the site left it, and returns. */
	.balign	8
#ifdef LITERAL
1:	nop
	nop
#endif
	.type	f, %function
	.globl	f
f:
#ifdef LANDING_PAD
	hint	#34
#endif
#ifdef LITERAL
	.globl	probe_slot
	.set	probe_slot, 1b
#else
	.globl	probe_slot
probe_slot:
#endif
	nop
probe_site:
	nop
	stp	x0, x1, [sp, #-16]!
	adrp	x0, back
	str	x30, [x0, :lo12:back]
	ldp	x0, x1, [sp], #16
	ret
	.size	f, . - f
	.section __patchable_function_entries, "awo", %progbits, f
	.balign	8
	.quad	probe_slot
	.bss
	.balign	8
after:	.space	33 * 8
back:	.space	8
	.section .note.GNU-stack, "", %progbits
