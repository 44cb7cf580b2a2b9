/*
 * -fpatchable-function-entry=4,2 with landing pads, in every mixture that a file can hold. The two nops before the
 * symbol become the literal with the address of the ops (8-aligned), `bti c` if present comes first at the symbol, and
 * the last two nops become `mov x9,x30` and `bl`: the distance from the table's address to the call is 12 or 16 bytes.
 *
 *     f - 8:  nop, nop            <-  named in __patchable_function_entries, 8-aligned
 *     f:      bti c                   only where the function can be reached through a pointer
 *             nop                     becomes mov x9, x30
 *             nop                     becomes bl
 *             paciasp                 only where LR is saved
 *
 * SPDX-License-Identifier: MIT
 */
#define BTI_C hint #34
#define PACIASP hint #25
#define AUTIASP hint #29

#define ENTER(name)                                                                       \
  .balign 8; .section __patchable_function_entries, "awo", %progbits, .text; .balign 8;   \
  .quad 9f; .text; 9: nop; nop; .type name, %function; name:
#define SITE nop; nop
#define END(name) .size name, . - name

	.text
	.globl	pf_leaf, pf_bump, pf_chain, pf_apply, pf_forward

/* u32 pf_leaf(u32 a, u32 b): 3 a + b. Only called directly: no landing pad. */
ENTER(pf_leaf)
	SITE
	add	w0, w0, w0, lsl #1
	add	w0, w0, w1
	ret
END(pf_leaf)

/* u32 pf_bump(u32 by): total += by. A leaf with a landing pad. */
ENTER(pf_bump)
	BTI_C
	SITE
	adrp	x9, total
	ldr	w10, [x9, #:lo12:total]
	add	w0, w10, w0
	str	w0, [x9, #:lo12:total]
	ret
END(pf_bump)

/* static u32 half(u32 x): x / 2. A local symbol. */
ENTER(half)
	SITE
	lsr	w0, w0, #1
	ret
END(half)

/* u32 pf_chain(u32 x): pf_leaf(half(x), pf_bump(1)). Landing pad, nops, then the signing of LR. */
ENTER(pf_chain)
	BTI_C
	SITE
	PACIASP
	stp	x29, x30, [sp, #-32]!
	mov	x29, sp
	str	x19, [sp, #16]
	bl	half
	mov	w19, w0
	mov	w0, #1
	bl	pf_bump
	mov	w1, w0
	mov	w0, w19
	bl	pf_leaf
	ldr	x19, [sp, #16]
	ldp	x29, x30, [sp], #32
	AUTIASP
	ret
END(pf_chain)

/* u32 pf_apply(u32 (*f)(u32), u32 x): f(x) + 1. No landing pad: paciasp after the nops is none for whoever jumps here. */
ENTER(pf_apply)
	SITE
	PACIASP
	stp	x29, x30, [sp, #-16]!
	mov	x29, sp
	mov	x2, x0
	mov	w0, w1
	blr	x2
	add	w0, w0, #1
	ldp	x29, x30, [sp], #16
	AUTIASP
	ret
END(pf_apply)

/* u32 pf_forward(u32 by): a tail call. */
ENTER(pf_forward)
	BTI_C
	SITE
	add	w0, w0, #7
	b	pf_bump
END(pf_forward)

	.data
	.balign	4
	.type	total, %object
	.size	total, 4
total:
	.word	1000

	.section .note.gnu.property, "a"
	.balign	8
	.word	4, 16, 5
	.asciz	"GNU"
	.word	0xc0000000, 4, 3, 0
	.section .note.GNU-stack, "", %progbits
