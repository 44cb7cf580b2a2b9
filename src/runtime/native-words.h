/*
 * The words that entries of self-tracing programs share with the slow way; included at the end of
 * their assembly, so that the compiler knows nothing of what the words hold.
 * SPDX-License-Identifier: MIT
 */

	/* struct config of native.c. */
	.section .rodata, "a", %progbits
	.balign	32
	.globl	native_config
	.hidden	native_config
	.type	native_config, %object
native_config:
	.ascii	"ELFTRCN1"
	.zero	8 + 32 + 8 + NAME_BYTES + 16
	.size	native_config, . - native_config

	/* Where ours and the thread's number are: native.c, native-blocks.h. */
	.section .bss
	.balign	16
	.globl	native_slot, native_thread
	.hidden	native_slot
	.hidden	native_thread
	.type	native_slot, %object
	.type	native_thread, %object
native_slot:
	.zero	8
	.size	native_slot, . - native_slot
native_thread:
	.zero	8
	.size	native_thread, . - native_thread
#ifdef STATE_BYTES
	.globl	native_state
	.hidden	native_state
	.type	native_state, %object
native_state:
	.zero	STATE_BYTES
	.size	native_state, . - native_state
#endif
#ifdef ELFTRACE_NATIVE_GRAPH_H
	.globl	native_spans
	.hidden	native_spans
	.type	native_spans, %object
native_spans:
	.zero	8 * SPANS
	.size	native_spans, . - native_spans
#endif
	.section .note.GNU-stack, "", %progbits
