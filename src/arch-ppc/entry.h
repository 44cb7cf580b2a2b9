/*
 * What the entries of PowerPC and the common runtime share: frames, offsets in the register frame,
 * and the few operations that C cannot say. For assembly and C. The offsets are a table of their
 * own (P-ENT-8): a callback sees them as `regs`. SPDX-License-Identifier: MIT
 */
#if defined(__powerpc64__)
#define WORD 8
/* pt_regs, 64 bits: register n at 8n. */
#define REGS_NIP 256
#define REGS_MSR 264
#define REGS_CTR 280
#define REGS_LINK 288
#define REGS_XER 296
#define REGS_CCR 304
#define LR_WORD 16 /* in the frame of the caller */
#if _CALL_ELF == 2
#define MINIMAL 32     /* M: smallest frame */
#define REGS_FRAME 432 /* W: frame with pt_regs */
#define REGS_AT 48     /* pt_regs in it */
#define TOC_WORD 24
#else
#define MINIMAL 112
#define REGS_FRAME 496
#define REGS_AT 112
#define TOC_WORD 40
#endif
#else
#define WORD 4
/* pt_regs, 32 bits: register n at 4n. */
#define REGS_NIP 128
#define REGS_MSR 132
#define REGS_CTR 140
#define REGS_LINK 144
#define REGS_XER 148
#define REGS_CCR 152
#define LR_WORD 4
#define MINIMAL 16
#define REGS_FRAME 192
#define REGS_AT 16
#endif
#define REGS_SP WORD /* r1 of the caller of the traced function */

#ifdef CALL_OPS
/* Word of the ops of a site, from the return address of its call. */
#define OPS_IN_FRONT (-8 - WORD)
#define OPS_DIRECT_CALL (2 * WORD)
/* Last word of pt_regs, in every frame: where a direct caller lies that the entry goes on to. */
#define REGS_DIRECT (43 * WORD)
#if defined(__powerpc64__) && _CALL_ELF != 2 && !defined(__ASSEMBLER__)
/* The name of a function is its descriptor, and an ops object has text. */
extern const char elftrace_list_text[] __asm__(".ftrace_ops_list_func");
#define LIST_TEXT ((word)elftrace_list_text)
#endif
#endif

/* The machine's own counter. */
#define ELFTRACE_CLOCK_KIND 1

#ifdef __ASSEMBLER__

/* Slots of the register frame, from r1 after both allocations. */
#define SLOT(n) (REGS_AT + WORD * (n))
#define NIP_SLOT (REGS_AT + REGS_NIP)
#define MSR_SLOT (REGS_AT + REGS_MSR)
#define STUB_SLOT (REGS_AT + REGS_MSR + WORD) /* of no register: the way back into a stub */
#define DIRECT_SLOT (REGS_AT + REGS_DIRECT)
#ifdef OUT_OF_LINE
#define WAY_BACK_SLOT STUB_SLOT
#else
#define WAY_BACK_SLOT NIP_SLOT
#endif
#define CTR_SLOT (REGS_AT + REGS_CTR)
#define LINK_SLOT (REGS_AT + REGS_LINK)
#define XER_SLOT (REGS_AT + REGS_XER)
#define CCR_SLOT (REGS_AT + REGS_CCR)
#define B_LR_SLOT (REGS_FRAME + LR_WORD)
#define A_LR_SLOT (REGS_FRAME + MINIMAL + LR_WORD)

#if !defined(__powerpc64__)
/* One code symbol. */
#define FUNCTION(name) .globl name; .type name, @function; name:
#define TOC_FUNCTION(name) FUNCTION(name)
#define END(name) .size name, . - name
#elif _CALL_ELF == 2
#define FUNCTION(name) .globl name; .type name, @function; name:
#define TOC_FUNCTION(name)                                                                \
  .globl name; .type name, @function; name: addis 2, 12, (.TOC. - name) @ha;              \
  addi 2, 2, (.TOC. - name) @l; .localentry name, . - name
#define END(name) .size name, . - name
#else
/* The name is a descriptor; the code has it with a dot. */
#define FUNCTION(name)                                                                    \
  .section .opd, "aw"; .balign 8; .globl name; .type name, @function;                     \
  name: .quad .name, .TOC.@tocbase, 0; .size name, 24; .previous;                         \
  .globl .name; .type .name, @function; .name:
#define TOC_FUNCTION(name) FUNCTION(name)
#define END(name) .size .name, . - .name
#endif
/* A label that is no function: text on every ABI. */
#define LABEL(name) .globl name; name:

#else

/* Time: the time base. 32-bit processors read it in halves, until the upper one stood still. */
static inline unsigned long long elftrace_clock(void) {
#if defined(__powerpc64__)
  unsigned long now;
  __asm__ volatile("mftb %0" : "=r"(now));
  return now;
#else
  unsigned long high, low, again;
  do __asm__ volatile("mftbu %0\n\tmftb %1\n\tmftbu %2" : "=&r"(high), "=&r"(low), "=&r"(again));
  while (high != again);
  return (unsigned long long)high << 32 | low;
#endif
}

/* What tells threads apart: the thread pointer (in a kernel image: the block of the processor). */
#if defined(__powerpc64__)
register unsigned long elftrace_thread_pointer __asm__("13");
#else
register unsigned long elftrace_thread_pointer __asm__("2");
#endif
static inline unsigned long elftrace_thread_key(void) { return elftrace_thread_pointer; }

/*
 * The stack pointer after the return of the function with this site, from the one at the site.
 * 32-bit gcc keeps the static chain of a nested function in a frame of 16 around its call: stwu
 * r1,-16(r1); stw r11,12(r1); ...; bl; lwz r11,12(r1); addi r1,r1,16.
 */
static inline unsigned long elftrace_frame(unsigned long ip, unsigned long frame) {
#if !defined(__powerpc64__)
  const unsigned int *const code = (const unsigned int *)ip;
  if (code[1] == 0x8161000c && code[2] == 0x38210010) return *(const unsigned long *)frame;
#endif
  (void)ip;
  return frame;
}

/*
 * Frames of detour buffers are complete but for the address; at a site it says where the entry goes
 * on, and comes back as it was.
 */
#define PROBE_WORD(regs, at) (*(unsigned long *)((char *)(regs) + (at)))
#define PROBE_FRAME(regs, op) (PROBE_WORD(regs, REGS_NIP) = (op)->ip)
#define PROBE_RETURN_SLOT(regs) (&PROBE_WORD(regs, REGS_LINK))
#define PROBE_RETURN_FRAME(regs) PROBE_WORD(regs, REGS_SP)
#ifdef RUNTIME_REGS
#define PROBE_SITE_FRAME(regs, op)                                      \
  const unsigned long resume_ = PROBE_WORD(regs, REGS_NIP);             \
  PROBE_WORD(regs, REGS_NIP) = (op)->ip
#define PROBE_SITE_LEAVE(regs) (PROBE_WORD(regs, REGS_NIP) = resume_)
#endif

#ifdef RUNTIME_REGS
/* 0 in a frame that is not complete. */
#define REGS_MARK REGS_MSR
/* Where the return address that the entry loads is, and the stack pointer after the return. */
#define GRAPH_SLOT(regs, ip) ((unsigned long *)((char *)(regs) + REGS_LINK))
#define GRAPH_FRAME(regs, ip) elftrace_frame(ip, *(const unsigned long *)((char *)(regs) + REGS_SP))
/*
 * Goes on at a function, of which this is a pointer. ELFv1: it names a descriptor, whose TOC the
 * entry takes from the frame.
 */
#if defined(__powerpc64__) && _CALL_ELF != 2
#define REGS_RESUME(regs, function) \
  (*(unsigned long *)((char *)(regs) + REGS_NIP) = ((const unsigned long *)(function))[0], \
   *(unsigned long *)((char *)(regs) + 2 * WORD) = ((const unsigned long *)(function))[1])
#else
#define REGS_RESUME(regs, function) (*(unsigned long *)((char *)(regs) + REGS_NIP) = (function))
#endif
#endif

#endif
