// Entry of the freestanding test programs on arm64: main(argc, argv, envp), then exit with its result.
	.text
	.globl	_start, sys
	.type	_start, %function
	.type	sys, %function
_start:	hint	#34 // bti c
	ldr	x0, [sp]
	add	x1, sp, #8
	add	x2, x1, x0, lsl #3
	add	x2, x2, #8
	mov	x29, #0
	mov	x30, #0
	bl	main
	mov	x8, #94
	svc	#0
	.size	_start, .-_start
sys:	hint	#34
	mov	x8, x0
	mov	x0, x1
	mov	x1, x2
	mov	x2, x3
	mov	x3, x4
	mov	x4, x5
	mov	x5, x6
	mov	x6, x7
	svc	#0
	ret
	.size	sys, .-sys
#ifdef BTI
	.section .note.gnu.property, "a"
	.balign	8
	.word	4, 16, 5
	.asciz	"GNU"
	.word	0xc0000000, 4, 1, 0
#endif
	.section .note.GNU-stack, "", %progbits
