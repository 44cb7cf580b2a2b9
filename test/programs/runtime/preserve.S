/*
 * Fills every register with a pattern, calls an entry as a site does, and keeps what is in them
 * then.
 */
#include "entry.h"
#include "entry-macros.h"
#define CONCAT(a, b) a##b
#define DOTTED(name) CONCAT(., name)
#define TEXT_NAME DOTTED(ENTRY_NAME)
#define FRAME 720
#define SAVED 128
#define AFTER 288
	.macro	pattern n
	lis	\n, 0x1234
	ori	\n, \n, 0x5600 + \n
#if defined(__powerpc64__)
	sldi	\n, \n, 32
	oris	\n, \n, 0x7abc
	ori	\n, \n, 0x0100 + \n
#endif
	.endm
	.macro	each operation, base, first, last
	\operation \first, \base + WORD * \first(1)
	.if	\last - \first
	each	\operation, \base, "(\first+1)", \last
	.endif
	.endm
	.macro	patterns first, last
	pattern	\first
	.if	\last - \first
	patterns "(\first+1)", \last
	.endif
	.endm
	.text
TOC_FUNCTION(probe)
	mflr	0
	store	0, LR_WORD(1)
	store_update 1, -FRAME(1)
	mfcr	0
	store	0, AFTER + 43 * WORD(1)
	mr	3, 2
	store	3, AFTER + 40 * WORD(1)
	each	store, SAVED - 14 * WORD, 14, 31
#ifdef TOC_WORD
	pattern	3
	std	3, TOC_WORD(1)
#endif
	pattern	3
	store	3, WORD * 1(1)		/* CR word; 32 bits: LR word */
	lis	3, 0x1000			/* the file header: readable, and no return address */
	ori	3, 3, 0x10
	mtlr	3
	lis	3, 0x5a3c
	ori	3, 3, 0x96e1
	mtcr	3
	lis	3, 0x6000
	mtxer	3
	store	1, AFTER + 41 * WORD(1)
	patterns 3, 31
#if defined(__powerpc64__) && !defined(RUNTIME_REGS)
#ifdef FAR
	/* The module's TOC is the stub itself. */
	bcl	20, 31, 1f
1:	mflr	12
	addi	2, 12, .Lstub - 1b
	pattern	12
	store	2, AFTER + 42 * WORD(1)
#endif
#else
	pattern	2
	mflr	0
#if !defined(__powerpc64__)
	stw	0, 4(1)
#endif
#endif
	.globl	probe_site
probe_site:
#ifdef FAR
	bl	.Lstub
#elif defined(__powerpc64__) && _CALL_ELF != 2
	bl	TEXT_NAME
#else
	bl	ENTRY_NAME
#endif
#if defined(__powerpc64__) && !defined(RUNTIME_REGS)
#ifdef FAR
	ld	2, TOC_WORD(1)
#else
	nop
#endif
#endif
	each	store, AFTER, 0, 31
	mfcr	3
	store	3, AFTER + 32 * WORD(1)
	mfxer	3
	store	3, AFTER + 33 * WORD(1)
	mflr	3
	store	3, AFTER + 34 * WORD(1)
	load	3, WORD(1)
	store	3, AFTER + 35 * WORD(1)
#ifdef TOC_WORD
	ld	3, TOC_WORD(1)
	std	3, AFTER + 36 * WORD(1)
#endif
	load	2, AFTER + 40 * WORD(1)
	each	load, SAVED - 14 * WORD, 14, 31
	addi	3, 1, AFTER
	bl	record
	toc_nop
	load	0, AFTER + 43 * WORD(1)
	mtcr	0
	addi	1, 1, FRAME
	load	0, LR_WORD(1)
	mtlr	0
	blr
END(probe)
	.balign	8
.Lstub:
#if !defined(__powerpc64__)
	lis	12, ENTRY_NAME@ha
	addi	12, 12, ENTRY_NAME@l
	mtctr	12
	bctr
#elif defined(RUNTIME_REGS)
#if _CALL_ELF == 2
#define TARGET ENTRY_NAME
#else
#define TARGET TEXT_NAME
#endif
	lis	12, TARGET@highest
	ori	12, 12, TARGET@higher
	sldi	12, 12, 32
	oris	12, 12, TARGET@high
	ori	12, 12, TARGET@l
	mtctr	12
	bctr
#elif _CALL_ELF == 2
	addis	11, 2, 0
	addi	11, 11, 0
	std	2, 24(1)
	ld	12, 32(11)
	mtctr	12
	bctr
	nop
	.long	0x73747562
	.quad	ENTRY_NAME
#else
	addis	12, 2, 0
	addi	12, 12, 0
	std	2, 40(1)
	ld	11, 32(12)
	ld	2, 40(12)
	mtctr	11
	bctr
	.long	0
	.quad	TEXT_NAME, .TOC.@tocbase
#endif
	.section .note.GNU-stack, "", @progbits
