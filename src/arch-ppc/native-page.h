/*
 * The page of a thread, room in it, and where on its stack and in time a record is: what the entries
 * of both kinds of traces of 64-bit PowerPC begin with. Registers that a function was called with
 * lie below the stack pointer meanwhile, which signals keep. SPDX-License-Identifier: MIT
 */
	.macro	spill
	std	3, -8(1)
	std	4, -16(1)
	std	5, -24(1)
	std	6, -32(1)
	std	7, -40(1)
	std	8, -48(1)
	.endm

	.macro	refill
	ld	8, -48(1)
	ld	7, -40(1)
	ld	6, -32(1)
	ld	5, -24(1)
	ld	4, -16(1)
	ld	3, -8(1)
	.endm

	/* r12 = the address of a symbol; LR is lost. */
	.macro	address symbol
	bcl	20, 31, 77f
77:
	mflr	12
	addis	12, 12, (\symbol - 77b)@ha
	addi	12, 12, (\symbol - 77b)@l
	.endm

	/* r12 = native_slot, r4 = what it holds. Then r4 = page, r5 = its generation. Else the slow way. */
	.macro	page slow
	subf	4, 4, 13
	ld	4, -THREAD_BIAS(4)
	cmpdi	4, 0
	beq	\slow
	ld	5, PAGE_OWNER(4)
	cmpld	5, 12
	bne	\slow
	ld	5, 8(12)
	subf	5, 5, 13
	lwz	5, -THREAD_BIAS(5)
	lwz	6, PAGE_THREAD(4)
	cmplw	5, 6
	bne	\slow
	ld	5, PAGE_GENERATION(4)
	.endm

	/* r6 = room for so many bytes. */
	.macro	reserve bytes, slow
78:	ldarx	6, 0, 4
	addi	7, 6, \bytes
	stdcx.	7, 0, 4
	bne-	78b
	ld	7, PAGE_END(4)
	cmpld	6, 7
	bge	\slow
	.endm

	/* r7 = counter, at its place in a record. r8 and r12 are lost. */
	.macro	clock slow
	mftb	7
	ld	8, PAGE_EPOCH(4)
	srdi	12, 7, CLOCK_BITS
	cmpld	8, 12
	bne	\slow
	clrlsldi 7, 7, 64 - CLOCK_BITS, CLOCK_SHIFT
	.endm

	/* r8 = stack pointer, at its place in a record. r12 is lost. */
	.macro	depth slow
	ld	8, PAGE_BASE(4)
	subf	8, 8, 1
	srdi	12, 8, STACK_BITS + STACK_UNIT
	cmpdi	12, 0
	bne	\slow
	/* Stack pointers are multiples of 16. */
	sldi	8, 8, STACK_SHIFT - STACK_UNIT
	.endm

	.macro	place slow
	clock	\slow
	depth	\slow
	.endm

	/* r7 to where r6 says, the unit of the lower bits first. */
	.macro	put_call
#ifdef UNITS_APART
	stw	7, 0(6)
	srdi	7, 7, 32
	stw	7, 4(6)
#else
	std	7, 0(6)
#endif
	.endm

	/*
	 * The slow way's frame is above what C may use, and holds what was spilled. From SAVED on lie r9,
	 * r10, r11, three others, two that are not used, and r8 down to r3.
	 */
#define FRAME 160
#define SAVED 48
	.macro	open_frame
	stdu	1, -FRAME(1)
	std	0, 32(1)
	std	2, 40(1)
	std	9, 48(1)
	std	10, 56(1)
	std	11, 64(1)
	std	3, 72(1)
	.endm

	.macro	close_frame
	ld	3, 72(1)
	ld	11, 64(1)
	ld	10, 56(1)
	ld	9, 48(1)
	ld	2, 40(1)
	ld	0, 32(1)
	addi	1, 1, FRAME
	.endm

	/* A function in C, by its global entry. */
	.macro	call_c function
	address	\function
	mtctr	12
	bctrl
	.endm
