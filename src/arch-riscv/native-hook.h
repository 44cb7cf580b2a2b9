/*
 * Where functions of RISC-V return to in programs that write calls and returns: native-graph.S.
 * SPDX-License-Identifier: MIT
 */
#ifndef ELFTRACE_NATIVE_HOOK_H
#define ELFTRACE_NATIVE_HOOK_H

/* So that what is looked at behind a return address lies in its page, and 0 is none of ours. */
#define HOOK_ALIGN 32
#define HOOK_AT 12
/* Behind it: native_spans less that address; the mark of all objects. */
#define HOOK_SPANS 4
#define HOOK_MARKED 8
#define HOOK_MARK 0x74676674

#ifndef __ASSEMBLER__
/* Whether a function would return to the place of ours, or to that of another object. */
static inline int is_hook(word address)
{
  if (address % HOOK_ALIGN != HOOK_AT) return 0;
  return *(volatile u32 *)(address + HOOK_MARKED) == HOOK_MARK;
}
#endif

#endif
