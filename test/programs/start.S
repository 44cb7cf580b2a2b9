# Entry of the freestanding test programs: main(argc, argv, envp), then exit with its result.
#if defined(__x86_64__)
	.globl _start
_start:
	mov (%rsp),%edi
	lea 8(%rsp),%rsi
	lea 8(%rsi,%rdi,8),%rdx
	call main
	mov %eax,%edi
	mov $231,%eax
	syscall
	.globl sys
sys:	mov %rdi,%rax
	mov %rsi,%rdi
	mov %rdx,%rsi
	mov %rcx,%rdx
	mov %r8,%r10
	mov %r9,%r8
	mov 8(%rsp),%r9
	syscall
	ret
#elif defined(__powerpc64__) && _CALL_ELF == 2
	.abiversion 2
	.globl _start
_start:
0:	addis 2,12,.TOC.-0b@ha
	addi 2,2,.TOC.-0b@l
	ld 3,0(1)
	addi 4,1,8
	sldi 5,3,3
	add 5,5,4
	addi 5,5,8
	li 0,0
	stdu 1,-64(1)
	bl main
	nop
	li 0,234
	sc
	.globl sys
sys:	mr 0,3
	mr 3,4
	mr 4,5
	mr 5,6
	mr 6,7
	mr 7,8
	mr 8,9
	mr 9,10
	sc
	bnslr
	neg 3,3
	blr
#elif defined(__powerpc64__)
	.section .opd,"aw"
	.globl _start
_start:	.quad .L_start,.TOC.@tocbase,0
	.globl sys
sys:	.quad .L_sys,.TOC.@tocbase,0
	.text
	.globl .sys
.L_start:
	ld 3,0(1)
	addi 4,1,8
	sldi 5,3,3
	add 5,5,4
	addi 5,5,8
	li 0,0
	stdu 1,-128(1)
	bl main
	nop
	li 0,234
	sc
.sys:
.L_sys:	mr 0,3
	mr 3,4
	mr 4,5
	mr 5,6
	mr 6,7
	mr 7,8
	mr 8,9
	mr 9,10
	sc
	bnslr
	neg 3,3
	blr
#else
	.globl _start
_start:	lwz 3,0(1)
	addi 4,1,4
	slwi 5,3,2
	add 5,5,4
	addi 5,5,4
	li 0,0
	stwu 1,-32(1)
	bl main
	li 0,234
	sc
	.globl sys
sys:	mr 0,3
	mr 3,4
	mr 4,5
	mr 5,6
	mr 6,7
	mr 7,8
	mr 8,9
	mr 9,10
	sc
	bnslr
	neg 3,3
	blr
#endif
	.section .note.GNU-stack,"",@progbits
