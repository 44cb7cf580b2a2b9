/*
 * -fpatchable-function-entry=2 on ELFv2 as GCC 13 and later place it: the nops follow the local entry, so calls through
 * the global entry and direct calls both pass them, and r2 is already set up there. (GCC 12 puts them before the TOC
 * setup, where local calls skip them and r12 is live.) Hand-written, since the compiler at hand is older.
 *
 *     f:   addis r2,r12,(.TOC.-f)@ha    global entry (functions that use the TOC)
 *          addi  r2,r2,(.TOC.-f)@l
 *          nop                      <-  local entry; named in __patchable_function_entries; becomes mflr r0
 *          nop                          becomes bl
 *
 * SPDX-License-Identifier: MIT
 */
#include "ppc64.h"

/* The entry of the function that starts here, in a table linked in order with .text. */
#define SITE                                                                              \
  .section __patchable_function_entries, "awo", @progbits, .text; .balign 8; .quad 9f;    \
  .text; 9: nop; nop

	.text
/* u32 pf_leaf(u32 a, u32 b): 3 a + b. No TOC, one entry. */
FUNCTION(pf_leaf)
	SITE
	mulli	3, 3, 3
	add	3, 3, 4
	clrldi	3, 3, 32
	blr
END(pf_leaf)

/* u32 pf_bump(u32 by): total += by. A leaf that uses the TOC: LR is never saved. */
TOC_FUNCTION(pf_bump)
	SITE
	addis	9, 2, total@toc@ha
	lwz	10, total@toc@l(9)
	add	3, 10, 3
	stw	3, total@toc@l(9)
	clrldi	3, 3, 32
	blr
END(pf_bump)

/* static u32 half(u32 x): x / 2. A local symbol. */
	.type	half, @function
half:
	SITE
	srwi	3, 3, 1
	blr
	.size	half, .-half

/* u32 pf_chain(u32 x): pf_leaf(half(x), pf_bump(1)). Direct calls go to local entries. */
TOC_FUNCTION(pf_chain)
	SITE
	mflr	0
	std	0, 16(1)
	std	31, -8(1)
	stdu	1, -48(1)
	bl	half
	mr	31, 3
	li	3, 1
	bl	pf_bump
	mr	4, 3
	mr	3, 31
	bl	pf_leaf
	addi	1, 1, 48
	ld	0, 16(1)
	ld	31, -8(1)
	mtlr	0
	blr
END(pf_chain)

/* u32 pf_apply(u32 (*f)(u32), u32 x): f(x) + 1, through the global entry with r12. */
FUNCTION(pf_apply)
	SITE
	mflr	0
	std	0, 16(1)
	stdu	1, -32(1)
	mr	12, 3
	mr	3, 4
	mtctr	12
	std	2, 24(1)
	bctrl
	ld	2, 24(1)
	addi	3, 3, 1
	clrldi	3, 3, 32
	addi	1, 1, 32
	ld	0, 16(1)
	mtlr	0
	blr
END(pf_apply)

/* u32 pf_forward(u32 by): a tail call inside the same TOC. */
TOC_FUNCTION(pf_forward)
	SITE
	addi	3, 3, 7
	b	pf_bump
END(pf_forward)

	.data
	.balign	8
	.type	total, @object
	.size	total, 4
total:
	.long	1000
	.zero	4
	.section .note.GNU-stack, "", @progbits
