/*
 * What the entries of x86-64 and the common runtime share: offsets in the register frame, the clock, what tells threads apart. For
 * assembly and C. The offsets are a table of their own (the rules' section 5): a callback sees them as `regs`.
 * SPDX-License-Identifier: MIT
 */
#define WORD 8

#define R_R15 0
#define R_R14 8
#define R_R13 16
#define R_R12 24
#define R_BP 32
#define R_BX 40
#define R_R11 48
#define R_R10 56
#define R_R9 64
#define R_R8 72
#define R_AX 80
#define R_CX 88
#define R_DX 96
#define R_SI 104
#define R_DI 112
#define R_ORIG_AX 120
#define R_IP 128
#define R_CS 136
#define R_FLAGS 144
#define R_SP 152
#define R_SS 160
#define REGS_BYTES 168

/* Selectors of a program's frame. Entries cannot tell where they run; what matters to readers is that cs is not 0. */
#define USER_CS 0x33
#define USER_SS 0x2b

/* The machine's own counter. */
#define ELFTRACE_CLOCK_KIND 1

#ifndef __ASSEMBLER__

/* 0 in a frame that is not complete. */
#define REGS_MARK R_CS
#ifdef RUNTIME_MODERN
/* Where a callback puts the address that the register entry goes to instead of the function. */
#define REGS_DIRECT R_ORIG_AX
/* X-ENT-3: the stack pointer of the frame points to the word with the return address; one word on is where it is after the return. */
#define GRAPH_SLOT(regs) (*(unsigned long **)((char *)(regs) + R_SP))
#define GRAPH_FRAME(regs) (*(unsigned long *)((char *)(regs) + R_SP) + WORD)
#endif

/* rdtsc: counts at one rate on every processor made since 2008. */
static inline unsigned long long elftrace_clock(void) {
  unsigned int low, high;
  __asm__ volatile("rdtsc" : "=a"(low), "=d"(high));
  return (unsigned long long)high << 32 | low;
}

/*
 * What tells threads apart is at the base of fs (programs with a C library) or gs (kernels: the processor's block). A program
 * without a C library has neither, and reading them faults: so the tool says what there is, and 0 is one thread.
 */
#define THREADS_FS 1
#define THREADS_GS 2
extern unsigned long elftrace_thread_mode;

static inline unsigned long elftrace_thread_key(void) {
  unsigned long key = 0;
  if (elftrace_thread_mode == THREADS_FS) __asm__ volatile("movq %%fs:0, %0" : "=r"(key));
  if (elftrace_thread_mode == THREADS_GS) __asm__ volatile("movq %%gs:0, %0" : "=r"(key));
  return key;
}

#endif
