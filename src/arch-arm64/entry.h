/*
 * What the entries of arm64 and the common runtime share: frames, offsets in them, the clock, what
 * tells threads apart. For assembly and C. The offsets are a table of their own (A-ENT-7, A-ENT-8):
 * a callback sees them as `regs`.
 *
 * RUNTIME_REGS: sites at the function's entry; without it sites behind the prologue (-pg).
 * ARGS_FRAME: the frame has the arguments only. CALL_OPS: the same, and the entry finds its ops in
 * front of the function. SPDX-License-Identifier: MIT
 */
#define WORD 8

/* The machine's own counter. */
#define ELFTRACE_CLOCK_KIND 1

#ifdef ARGS_FRAME
/* x0..x8 at 8n, then: */
#define F_DIRECT 72
#define F_FP 80
#define F_LR 88
#define F_SP 96
#define F_PC 104
#define F_OWN 112    /* frame record of the entry */
#define F_TRACED 128 /* frame record of the traced function */
#define F_BYTES 144
#elif defined(RUNTIME_REGS)
/* pt_regs: x0..x30 at 8n, then: */
#define F_FP 232
#define F_LR 240
#define F_SP 248
#define F_PC 256
#define F_MARK 280 /* the number of a system call: -1 in a frame with all registers, 0 in one with some */
#define F_OWN 304
#define F_TRACED 336
#define F_BYTES 352
#endif

/* In an ops object. */
#define OPS_DIRECT_CALL 16

#ifdef __ASSEMBLER__

#define FUNCTION(name) .globl name; .type name, %function; name:
#define END(name) .size name, . - name
#define LABEL(name) .globl name; name:

#else

/* The virtual counter: every program may read it. */
static inline unsigned long long elftrace_clock(void) {
  unsigned long long now;
  __asm__ volatile("mrs %0, cntvct_el0" : "=r"(now));
  return now;
}

/* What tells threads apart: the thread pointer. */
static inline unsigned long elftrace_thread_key(void) {
  unsigned long key;
  __asm__ volatile("mrs %0, tpidr_el0" : "=r"(key));
  return key;
}

/* A static chain (x18) is no part of the stack. */
static inline unsigned long elftrace_frame(unsigned long ip, unsigned long frame) {
  (void)ip;
  return frame;
}

/*
 * Whether the function around a -pg site has signed its return address: paciasp or pacibsp stands
 * before the site in straight code. The signature depends on a stack pointer that only the function
 * knows, and few bits of it may all be 0, so the address itself does not tell.
 */
static inline int elftrace_is_signed(unsigned long ip) {
  const unsigned int *code = (const unsigned int *)ip;
  for (int i = 0; i < 64; i++) {
    const unsigned int word = *--code;
    if ((word & 0xffffffbfu) == 0xd503233fu) return 1;
    /* Branches and returns: what is before them is another function. */
    if ((word & 0x7c000000u) == 0x14000000u || (word & 0xfe000000u) == 0xd6000000u) return 0;
  }
  return 0;
}

/*
 * Frames of detour buffers are struct pt_regs, whatever the entries pass, and complete but for the
 * address.
 */
#define P_LR 240
#define P_SP 248
#define P_PC 256
#define PROBE_WORD(regs, at) (*(unsigned long *)((char *)(regs) + (at)))
#define PROBE_FRAME(regs, op) (PROBE_WORD(regs, P_PC) = (op)->ip)
#define PROBE_RETURN_SLOT(regs) (&PROBE_WORD(regs, P_LR))
#define PROBE_RETURN_FRAME(regs) PROBE_WORD(regs, P_SP)
#if defined(RUNTIME_REGS) && !defined(ARGS_FRAME) && !defined(CALL_OPS)
/* At a site pc says where the entry goes on: it comes back as it was. */
#define PROBE_SITE_FRAME(regs, op)                        \
  const unsigned long resume_ = PROBE_WORD(regs, P_PC);   \
  PROBE_WORD(regs, P_PC) = (op)->ip
#define PROBE_SITE_LEAVE(regs) (PROBE_WORD(regs, P_PC) = resume_)
#endif

#ifndef RUNTIME_REGS
#define GRAPH_REFUSES(ip) elftrace_is_signed(ip)
#endif

#ifdef RUNTIME_REGS
#ifdef ARGS_FRAME
/* There are no frames with more; those of every call are complete. */
#define REGS_MARK F_PC
#define REGS_DIRECT F_DIRECT
#else
#define REGS_MARK F_MARK
#endif
/*
 * Where the return address that the entry loads is, the stack pointer after the return, and the
 * frame pointer, which the function must bring back. The stack pointer tells calls apart: functions
 * without a frame have the frame pointer of their caller.
 */
#define GRAPH_SLOT(regs, ip) ((unsigned long *)((char *)(regs) + F_LR))
#define GRAPH_FRAME(regs, ip) (*(const unsigned long *)((const char *)(regs) + F_SP))
/* Goes on at a function; lr and the stack are as at its own entry. */
#define REGS_RESUME(regs, function) (*(unsigned long *)((char *)(regs) + F_PC) = (function))
#define GRAPH_POINTER(regs) (*(const unsigned long *)((const char *)(regs) + F_FP))
#endif

#endif
