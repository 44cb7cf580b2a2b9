/*
 * Stubs of x86-64 for programs that write calls and returns, drawn in native-graph.S; native-tracing.ts
 * makes them. SPDX-License-Identifier: MIT
 */
#ifndef ELFTRACE_NATIVE_HOOK_H
#define ELFTRACE_NATIVE_HOOK_H

#define STUB_BYTES 32
/* Behind the first call; the second one; where functions return to; the three bytes of the mark. */
#define STUB_ENTERED 5
#define STUB_CALL 15
#define STUB_HOOK 20
#define STUB_MARKED 28
#define STUB_MARK 0x677466

#ifndef __ASSEMBLER__
/* Whether a function would return to a stub of ours, or of another object. */
static inline int is_hook(word address)
{
  if ((address - STUB_HOOK) % STUB_BYTES != 0) return 0;
  return *(volatile u32 *)(address - STUB_HOOK + STUB_MARKED) >> 8 == STUB_MARK;
}
#endif

#endif
