/*
 * What the entries of RISC-V (64 bits) and the common runtime share: offsets in the register frame,
 * the clock, what tells threads apart. For assembly and C. The offsets are a table of their own
 * (R-ENT-7): a callback sees them as `regs`. ENTRY_MERGED: the small frame of one
 * entry for all; ENTRY_PLAIN: the frame of entries that pass no registers; ENTRY_G1, ENTRY_G0: how
 * the sites of those generations leave the stack. SPDX-License-Identifier: MIT
 */
#define WORD 8

#ifdef ENTRY_PLAIN
#define R_A0 0
#define R_EPC 64
#define R_RA 72
#define REGS_BYTES 80
#else
#define R_EPC 0
#define R_RA 8
#define R_SP 16
#ifdef ENTRY_MERGED
#define R_S0 24
#define R_T1 32
#define R_A0 40
#define R_T2 104
#define REGS_BYTES 112
#else
#define R_GP 24
#define R_TP 32
#define R_T0 40
#define R_T1 48
#define R_T2 56
#define R_S0 64
#define R_S1 72
#define R_A0 80
#define R_S2 144
#define R_T3 224
#define R_STATUS 256
#define REGS_BYTES 288
#endif
#endif
/*
 * Bytes between the frame and the stack pointer at the site. A G1 site keeps the return address in
 * the word below the stack pointer.
 */
#ifdef ENTRY_G1
#define SITE_BYTES 8
#else
#define SITE_BYTES 0
#endif

/*
 * A program cannot read its status register; what matters to readers is that it is not 0 in a full
 * frame.
 */
#define FULL_STATUS 0x20

/* The machine's own counter. */
#define ELFTRACE_CLOCK_KIND 1

#ifdef __ASSEMBLER__

#define FUNCTION(name) .globl name; .type name, @function; name:
#define END(name) .size name, . - name
/* Tells the tool which entries these are. */
#define FLAVOUR(name) .globl name; .set name, 1
/* A label that is no function. */
#define LABEL(name) .globl name; name:

#else

/*
 * Frames of detour buffers are struct pt_regs, whatever the entries pass, and complete but for the
 * address. At a site epc says where the entry goes on, and sp is the one that the entry restores:
 * both come back as they were. Small frames have too few registers for handlers.
 */
#define P_EPC 0
#define P_RA 8
#define P_SP 16
#define PROBE_WORD(regs, at) (*(unsigned long *)((char *)(regs) + (at)))
#define PROBE_FRAME(regs, op) (PROBE_WORD(regs, P_EPC) = (op)->ip)
#define PROBE_RETURN_SLOT(regs) (&PROBE_WORD(regs, P_RA))
#define PROBE_RETURN_FRAME(regs) PROBE_WORD(regs, P_SP)
#if !defined(ENTRY_MERGED) && !defined(ENTRY_PLAIN)
#define PROBE_SITE_FRAME(regs, op)                          \
  const unsigned long resume_ = PROBE_WORD(regs, P_EPC);    \
  PROBE_WORD(regs, P_EPC) = (op)->ip;                       \
  PROBE_WORD(regs, P_SP) += REGS_BYTES + SITE_BYTES
#define PROBE_SITE_LEAVE(regs) (PROBE_WORD(regs, P_EPC) = resume_, PROBE_WORD(regs, P_SP) -= REGS_BYTES + SITE_BYTES)
#endif

/* 0 in a frame that is not complete. */
#if defined(ENTRY_MERGED) || defined(ENTRY_PLAIN)
#define REGS_MARK R_EPC
#else
#define REGS_MARK R_STATUS
#endif

#ifdef ENTRY_G0
/*
 * The function has begun: its return address is in its frame, which the code in front of the site
 * describes.
 */
extern __attribute__((visibility("hidden"))) unsigned long *elftrace_return_slot(const void *regs, unsigned long ip);
extern __attribute__((visibility("hidden"))) unsigned long elftrace_caller_frame(const void *regs, unsigned long ip);
#define GRAPH_SLOT(regs, ip) elftrace_return_slot(regs, ip)
#define GRAPH_FRAME(regs, ip) elftrace_caller_frame(regs, ip)
#define GRAPH_MAY_MISS
#else
/* Where the return address that the entry loads is, and the stack pointer after the return. */
#define GRAPH_SLOT(regs, ip) ((unsigned long *)((char *)(regs) + R_RA))
#define GRAPH_FRAME(regs, ip) ((unsigned long)(regs) + REGS_BYTES + SITE_BYTES)
/*
 * A function gives s0 back, frame pointer or not. Behind the prologue of a -pg function it is
 * another one already.
 */
#ifdef ENTRY_PLAIN
#define GRAPH_POINTER(regs) 0
#else
#define GRAPH_POINTER(regs) (*(const unsigned long *)((const char *)(regs) + R_S0))
#endif
#endif

#if !defined(ENTRY_G0) && !defined(ENTRY_G1)
/*
 * Goes on at a function: ra and the stack are as at the site, which they are not where a site saves
 * ra first.
 */
#define REGS_RESUME(regs, function) (*(unsigned long *)((char *)(regs) + R_EPC) = (function))
#endif

#ifdef ENTRY_DIRECT
/*
 * Which word of the frame the helper of direct callers writes: R_T1, unless a user wants to see
 * what happens with another one. Data and not code, because nothing else differs between the
 * proposals.
 */
extern unsigned long elftrace_direct_slot;
#define REGS_DIRECT elftrace_direct_slot
#endif

static inline unsigned long elftrace_frame(unsigned long ip, unsigned long frame) {
  (void)ip;
  return frame;
}

static inline unsigned long long elftrace_clock(void) {
  unsigned long now;
  __asm__ volatile("rdtime %0" : "=r"(now));
  return now;
}

/* What tells threads apart: the thread pointer. */
register unsigned long elftrace_thread_pointer __asm__("tp");
static inline unsigned long elftrace_thread_key(void) { return elftrace_thread_pointer; }

#endif
