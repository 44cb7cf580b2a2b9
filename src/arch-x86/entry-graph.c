/*
 * Between the entries of x86-64 and the shadow stack, which is common to all machines: where the
 * return address is and what tells calls apart. SPDX-License-Identifier: MIT
 */
#include "abi.h"
#include "entry.h"

#define PUBLIC __attribute__((visibility("default"), used))
#define INTERNAL __attribute__((visibility("hidden")))

/*
 * 0: one thread. THREADS_FS, THREADS_GS: who is running is at the base of that segment. Written by
 * the tool.
 */
__attribute__((section(".data"))) PUBLIC word elftrace_thread_mode = 0;
extern INTERNAL word elftrace_graph_return(word frame);

#ifdef RUNTIME_MODERN
INTERNAL word elftrace_graph_return_regs(void *regs) {
  return elftrace_graph_return(*(word *)((char *)regs + R_SP));
}
#else
extern INTERNAL word elftrace_graph_enter(word parent_ip, word ip, word frame);

/*
 * A frame pointer can be compared where functions keep one. Neither end does: code of __fentry__
 * has none, and what tells calls apart is where their return address is.
 */
INTERNAL void elftrace_graph_hook(word *slot, word ip, word frame_pointer) {
  (void)frame_pointer;
  slot = elftrace_return_slot(ip, slot);
  *slot = elftrace_graph_enter(*slot, ip, (word)(slot + 1));
}

INTERNAL word elftrace_graph_return_2014(word frame_pointer, word stack_pointer) {
  (void)frame_pointer;
  return elftrace_graph_return(stack_pointer);
}
#endif
