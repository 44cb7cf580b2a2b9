/*
 * Runs of registers to and from a frame, and the arguments of callbacks. For assembly; all words
 * have 4 bytes (unless ENTRY_COMPRESSED) and none is relaxed. SPDX-License-Identifier: MIT
 */
#ifndef ENTRY_COMPRESSED
	.option	norvc
#endif
	.option	norelax

	.macro	store_arguments base=R_A0
	sd	a0, \base(sp)
	sd	a1, \base+8(sp)
	sd	a2, \base+16(sp)
	sd	a3, \base+24(sp)
	sd	a4, \base+32(sp)
	sd	a5, \base+40(sp)
	sd	a6, \base+48(sp)
	sd	a7, \base+56(sp)
	.endm
	.macro	load_arguments base=R_A0
	ld	a0, \base(sp)
	ld	a1, \base+8(sp)
	ld	a2, \base+16(sp)
	ld	a3, \base+24(sp)
	ld	a4, \base+32(sp)
	ld	a5, \base+40(sp)
	ld	a6, \base+48(sp)
	ld	a7, \base+56(sp)
	.endm

#ifndef ENTRY_MERGED
/*
 * Everything but epc and ra. sp goes in as it is now; the word of status says that the frame is
 * complete.
 */
	.macro	store_all
	sd	sp, R_SP(sp)
	sd	gp, R_GP(sp)
	sd	tp, R_TP(sp)
	sd	t0, R_T0(sp)
	sd	t1, R_T1(sp)
	sd	t2, R_T2(sp)
	sd	s0, R_S0(sp)
	sd	s1, R_S1(sp)
	store_arguments
	sd	s2, R_S2(sp)
	sd	s3, R_S2+8(sp)
	sd	s4, R_S2+16(sp)
	sd	s5, R_S2+24(sp)
	sd	s6, R_S2+32(sp)
	sd	s7, R_S2+40(sp)
	sd	s8, R_S2+48(sp)
	sd	s9, R_S2+56(sp)
	sd	s10, R_S2+64(sp)
	sd	s11, R_S2+72(sp)
	sd	t3, R_T3(sp)
	sd	t4, R_T3+8(sp)
	sd	t5, R_T3+16(sp)
	sd	t6, R_T3+24(sp)
	li	t1, FULL_STATUS
	sd	t1, R_STATUS(sp)
	.endm
/* Everything but ra and t0. */
	.macro	load_all
	ld	sp, R_SP(sp)
	ld	gp, R_GP(sp)
	ld	tp, R_TP(sp)
	ld	t1, R_T1(sp)
	ld	t2, R_T2(sp)
	ld	s0, R_S0(sp)
	ld	s1, R_S1(sp)
	load_arguments
	ld	s2, R_S2(sp)
	ld	s3, R_S2+8(sp)
	ld	s4, R_S2+16(sp)
	ld	s5, R_S2+24(sp)
	ld	s6, R_S2+32(sp)
	ld	s7, R_S2+40(sp)
	ld	s8, R_S2+48(sp)
	ld	s9, R_S2+56(sp)
	ld	s10, R_S2+64(sp)
	ld	s11, R_S2+72(sp)
	ld	t3, R_T3(sp)
	ld	t4, R_T3+8(sp)
	ld	t5, R_T3+16(sp)
	ld	t6, R_T3+24(sp)
	.endm
#endif

/* Third argument. */
	.macro	load_ops
	ld	a2, function_trace_op
	.endm
