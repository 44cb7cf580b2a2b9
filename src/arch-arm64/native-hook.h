/*
 * Stubs of arm64 for programs that write calls and returns, drawn in native-graph.S;
 * native-tracing.ts makes them. SPDX-License-Identifier: MIT
 */
#ifndef ELFTRACE_NATIVE_HOOK_H
#define ELFTRACE_NATIVE_HOOK_H

#define STUB_BYTES 32
/* The call; where functions return to; the mark. */
#define STUB_CALL 12
#define STUB_HOOK 16
#define STUB_MARKED 28
#define STUB_MARK 0x74676674

#ifndef __ASSEMBLER__
/* Whether a function would return to a stub of ours, or of another object. */
static inline int is_hook(word address)
{
  if ((address - STUB_HOOK) % STUB_BYTES != 0) return 0;
  return *(volatile u32 *)(address - STUB_HOOK + STUB_MARKED) == STUB_MARK;
}
#endif

#endif
