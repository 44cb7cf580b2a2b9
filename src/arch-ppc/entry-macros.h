/*
 * Names for what differs only in width between 32 and 64 bits, and the way to the core's TOC. For
 * assembly. SPDX-License-Identifier: MIT
 */
#if defined(__powerpc64__)
	.macro load register, at:vararg
	ld	\register, \at
	.endm
	.macro store register, at:vararg
	std	\register, \at
	.endm
	.macro store_update register, at:vararg
	stdu	\register, \at
	.endm
	.macro compare_zero register
	cmpdi	\register, 0
	.endm
	/* The word after a call that a linker may turn into a reload of r2. */
	.macro toc_nop
	nop
	.endm
	/*
	 * r2 := TOC of the object that this code is in. LR was saved before; r12 is scratch. bcl 20,31 is
	 * no call to the processor.
	 */
	.macro core_toc
	bcl	20, 31, 8f
8:	mflr	12
	addis	2, 12, (.TOC. - 8b)@ha
	addi	2, 2, (.TOC. - 8b)@l
	.endm
#else
	.macro load register, at:vararg
	lwz	\register, \at
	.endm
	.macro store register, at:vararg
	stw	\register, \at
	.endm
	.macro store_update register, at:vararg
	stwu	\register, \at
	.endm
	.macro compare_zero register
	cmpwi	\register, 0
	.endm
	.macro toc_nop
	.endm
	.macro core_toc
	.endm
#endif
