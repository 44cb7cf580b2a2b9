/*
 * The page of a thread, room in it, and where on its stack and in time a record is: what the entries
 * of both kinds of traces begin with. SPDX-License-Identifier: MIT
 */
	/* x11 = page, x14 = its generation; x10 = native_slot. Else to the slow way. */
	.macro	page slow
	mrs	x12, tpidr_el0
	sub	x11, x12, x11
	ldr	x11, [x11]
	cbz	x11, \slow
	ldr	x13, [x11, #PAGE_OWNER]
	cmp	x13, x10
	b.ne	\slow
	ldr	x14, [x10, #8]
	sub	x14, x12, x14
	ldr	w14, [x14]
	ldr	w13, [x11, #PAGE_THREAD]
	cmp	w13, w14
	b.ne	\slow
	ldr	x14, [x11, #PAGE_GENERATION]
	.endm

	/* x12 = room for so many bytes. */
	.macro	reserve bytes, slow
77:	ldxr	x12, [x11]
	add	x13, x12, #\bytes
	stxr	w15, x13, [x11]
	cbnz	w15, 77b
	ldr	x13, [x11, #PAGE_END]
	cmp	x12, x13
	b.hs	\slow
	.endm

	/* x13 = counter. x15 is lost. */
	.macro	clock slow
	mrs	x13, cntvct_el0
	ldr	x15, [x11, #PAGE_EPOCH]
	cmp	x15, x13, lsr #CLOCK_BITS
	b.ne	\slow
	.endm

	/* x15 = units from the base to sp. x10 is lost. */
	.macro	depth slow
	mov	x15, sp
	ldr	x10, [x11, #PAGE_BASE]
	sub	x15, x15, x10
	lsr	x15, x15, #STACK_UNIT
	lsr	x10, x15, #STACK_BITS
	cbnz	x10, \slow
	.endm

	.macro	place slow
	clock	\slow
	depth	\slow
	.endm
