/*
 * What the entries of x86-64 and the common runtime share: offsets in the register frame, the
 * clock, what tells threads apart. For assembly and C. The offsets are a table of their own
 * (X-ENT-7): a callback sees them as `regs`. SPDX-License-Identifier: MIT
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

/*
 * Selectors of a program's frame. Entries cannot tell where they run; what matters to readers is
 * that cs is not 0.
 */
#define USER_CS 0x33
#define USER_SS 0x2b

/* The machine's own counter. */
#define ELFTRACE_CLOCK_KIND 1

#ifndef __ASSEMBLER__

/* what a detour buffer leaves to the callback. */
#define PROBE_WORD(regs, at) (*(unsigned long *)((char *)(regs) + (at)))
#define PROBE_FRAME(regs, op)                                                                                                    \
  (PROBE_WORD(regs, R_SP) += (op)->adjust, PROBE_WORD(regs, R_CS) = USER_CS, PROBE_WORD(regs, R_IP) = (op)->ip,                    \
   PROBE_WORD(regs, R_ORIG_AX) = -1ul)
/*
 * At a site the function has begun no more than at a breakpoint there; direct callers use the word
 * of orig_ax.
 */
#define PROBE_SITE_FRAME(regs, op)                        \
  const unsigned long resume_ = PROBE_WORD(regs, R_IP);   \
  PROBE_WORD(regs, R_IP) = (op)->ip
/* The entry goes on there. */
#define PROBE_SITE_LEAVE(regs) (PROBE_WORD(regs, R_IP) = resume_)
#define PROBE_RETURN_SLOT(regs) ((unsigned long *)PROBE_WORD(regs, R_SP))
#define PROBE_RETURN_FRAME(regs) (PROBE_WORD(regs, R_SP) + 8)

/* 0 in a frame that is not complete. */
#define REGS_MARK R_CS
#ifdef RUNTIME_MODERN
/* Where a callback puts the address that the register entry goes to instead of the function. */
#define REGS_DIRECT R_ORIG_AX
/*
 * X-ENT-3: the stack pointer of the frame points to the word with the return address; one word on
 * is where it is after the return.
 */
#define GRAPH_SLOT(regs, ip) elftrace_return_slot(ip, *(unsigned long **)((char *)(regs) + R_SP))
#define GRAPH_FRAME(regs, ip) ((unsigned long)(GRAPH_SLOT(regs, ip) + 1))
#endif
#define CALLER_OF(ip, parent_ip, regs) \
  (regs && elftrace_is_nested(ip) ? *elftrace_return_slot(ip, *(unsigned long **)((char *)(regs) + R_SP)) : (parent_ip))

/*
 * gcc keeps the static chain of a nested function on the stack around its call of __fentry__: push
 * r10; call; pop r10. The word above the call's return address is then not the function's. What
 * stands behind the site says so first: what is before it may not be mapped.
 */
static inline int elftrace_is_nested(unsigned long ip) {
#ifdef ENTRY_MCOUNT
  (void)ip;
  return 0; /* its return address is found from rbp */
#else
  const unsigned char *const behind = (const unsigned char *)ip + 5;
  if (behind[0] != 0x41 || behind[1] != 0x5a) return 0;
  /*
   * Calls have 5 bytes, 6, or 13 (-mcmodel=large). They may be nops again by now, so they are not
   * looked at.
   */
  return (behind[-7] == 0x41 && behind[-6] == 0x52) || (behind[-8] == 0x41 && behind[-7] == 0x52) ||
         (behind[-15] == 0x41 && behind[-14] == 0x52);
#endif
}
#ifndef ENTRY_MCOUNT
/*
 * Goes on at a function: its stack is as at the site. Around the call of a nested function it is
 * not, and a function that has begun cannot be replaced.
 */
static inline void elftrace_resume(void *regs, unsigned long function) {
  unsigned long *const ip = (unsigned long *)((char *)regs + R_IP);
  if (!elftrace_is_nested(*ip - 5)) *ip = function;
}
#define REGS_RESUME(regs, function) elftrace_resume(regs, function)
#endif
static inline unsigned long *elftrace_return_slot(unsigned long ip, unsigned long *above) {
  return elftrace_is_nested(ip) ? above + 1 : above;
}
static inline unsigned long elftrace_frame(unsigned long ip, unsigned long frame) {
  (void)ip;
  return frame;
}

/* rdtsc: counts at one rate on every processor made since 2008. */
static inline unsigned long long elftrace_clock(void) {
  unsigned int low, high;
  __asm__ volatile("rdtsc" : "=a"(low), "=d"(high));
  return (unsigned long long)high << 32 | low;
}

/*
 * What tells threads apart is at the base of fs (programs with a C library) or gs (kernels: the
 * processor's block). A program without a C library has neither, and reading them faults: so the
 * tool says what there is, and 0 is one thread.
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
