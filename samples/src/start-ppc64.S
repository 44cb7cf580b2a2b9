/* Process start and system calls, 64-bit PowerPC Linux, ELFv1 and ELFv2. SPDX-License-Identifier: MIT */
#include "ppc64.h"
	.text
/* ELFv1: e_entry is a descriptor and the kernel loads r2 from it; ELFv2: r12 is the address of the entry. */
TOC_FUNCTION(_start)
	li	0, 0
	stdu	0, -FRAME(1)
	bl	start_c
	nop
	trap
END(_start)
FUNCTION(sys_write)
	li	0, 4
	sc
	blr
END(sys_write)
FUNCTION(sys_exit)
	li	0, 1
	sc
	trap
END(sys_exit)
	.section .note.GNU-stack, "", @progbits
