/*
 * Direct callers: entered as if the function's site had called them, t0 = body of the function, ra = its caller, arguments in place. They keep all of
 * it, do what they are for, and go to the body by t0. SPDX-License-Identifier: MIT
 */
	.macro	direct_caller name, number
	.globl	\name
	.type	\name, @function
\name:
	addi	sp, sp, -80
	sd	t0, 0(sp)
	sd	ra, 8(sp)
	sd	a0, 16(sp)
	sd	a1, 24(sp)
	sd	a2, 32(sp)
	sd	a3, 40(sp)
	sd	a4, 48(sp)
	sd	a5, 56(sp)
	sd	a6, 64(sp)
	sd	a7, 72(sp)
	li	a0, \number
	call	direct_count
	ld	t0, 0(sp)
	ld	ra, 8(sp)
	ld	a0, 16(sp)
	ld	a1, 24(sp)
	ld	a2, 32(sp)
	ld	a3, 40(sp)
	ld	a4, 48(sp)
	ld	a5, 56(sp)
	ld	a6, 64(sp)
	ld	a7, 72(sp)
	addi	sp, sp, 80
	jr	t0
	.size	\name, .-\name
	.endm
	.text
	direct_caller my_direct_caller, 1
	direct_caller my_direct_caller2, 2
	.section .note.GNU-stack, "", @progbits
