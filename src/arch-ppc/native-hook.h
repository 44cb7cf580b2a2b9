/*
 * Stubs of PowerPC for programs that write calls and returns, drawn in native-graph.S;
 * native-tracing.ts makes them. SPDX-License-Identifier: MIT
 */
#ifndef ELFTRACE_NATIVE_HOOK_H
#define ELFTRACE_NATIVE_HOOK_H

#define STUB_BYTES 32
/* Behind the call of the entry; the call; where functions return to; what lies behind; the mark. */
#define STUB_ENTERED 4
#define STUB_CALL 8
#define STUB_HOOK 12
#define STUB_SPANS 24
#define STUB_MARKED 28
#define STUB_MARK 0x74676674

/* Where a function saves LR, above its caller's stack pointer. */
#if __SIZEOF_LONG__ == 8
#define LINK_SAVE 16
#else
#define LINK_SAVE 4
#endif

/* Where callers through stubs save r2: by the ABI of the program, which may not be the runtime's. */
#ifndef TOC_SAVE
#define TOC_SAVE 24
#endif

#ifndef __ASSEMBLER__
/* Whether a function would return to a stub of ours, or of another object. */
static inline int is_hook(word address)
{
  if ((address - STUB_HOOK) % STUB_BYTES != 0) return 0;
  return *(volatile u32 *)(address - STUB_HOOK + STUB_MARKED) == STUB_MARK;
}
#endif

#endif
