# Entry of the freestanding test programs on RISC-V: main(argc, argv, envp), then exit with its result.
	.globl _start, sys
	.type _start, @function
	.type sys, @function
_start:
	.option push
	.option norelax
	lla gp, __global_pointer$
	.option pop
	ld a0, 0(sp)
	addi a1, sp, 8
	slli a2, a0, 3
	add a2, a2, a1
	addi a2, a2, 8
	andi sp, sp, -16
	call main
	li a7, 94
	ecall
	.size _start, .-_start
sys:
	mv a7, a0
	mv a0, a1
	mv a1, a2
	mv a2, a3
	mv a3, a4
	mv a4, a5
	mv a5, a6
	ecall
	ret
	.size sys, .-sys
	.section .note.GNU-stack,"",@progbits
