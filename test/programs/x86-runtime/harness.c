/*
 * Runs the entries of the guest runtime natively or under another emulator: patches its own sites,
 * calls, compares. One scenario per name; the last line is `ok NAME CHECKS`, a failed check prints
 * `FAIL` and what it was.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "abi.h"
#include "../runtime/record.h"
#include "traced.h"

typedef void entry(void);
extern entry ftrace_caller, ftrace_call, ftrace_stub, ftrace_regs_caller, ftrace_regs_call, ftrace_ops_list_func,
    ftrace_ops_assist_func, elftrace_function_tracer, elftrace_counter, elftrace_vector_func, return_to_handler;
#ifdef MODERN
extern entry ftrace_graph_func, ftrace_direct_func;
extern const word *ftrace_direct_table;
#else
extern entry ftrace_graph_caller, ftrace_graph_call, ftrace_return;
extern const struct ops *elftrace_graph_ops;
#endif
extern struct ops ftrace_list_end, *ftrace_ops_list, *function_trace_op;
extern struct ring *elftrace_ring;
extern struct thread elftrace_graph_stack[THREADS];
extern word elftrace_count, elftrace_graph_stopped, elftrace_thread_mode;
extern entry __fentry__, mcount;
extern char __executable_start[], etext[];

struct state { word rax, rbx, rcx, rdx, rsi, rdi, rbp, r8, r9, r10, r11, r12, r13, r14, r15, flags, rsp; unsigned char xmm[256]; };
_Static_assert(sizeof(struct state) == 392, "probe.S");
extern struct state probe_out;
extern struct { word rax, rdx; unsigned char xmm[32]; word rsp; } probe_result;
extern word probe_rsp, seen[5], seen_count, seen_frame[21], spoil_r10;
extern entry probe_target, spoil, direct_caller, probe_back;
extern void probe_run(const struct state *in, entry *target, long below);
extern long on_stack(long (*function)(long, long), long a, long b, long below);
enum { F_R15, F_R14, F_R13, F_R12, F_BP, F_BX, F_R11, F_R10, F_R9, F_R8, F_AX, F_CX, F_DX, F_SI, F_DI, F_ORIG, F_IP, F_CS, F_FLAGS, F_SP, F_SS };

static int checks, failures;
static const char *context = "";
#define CHECK(condition)                                                           \
  do {                                                                             \
    checks++;                                                                      \
    if (!(condition)) failures++, printf("FAIL %s line %d: %s\n", context, __LINE__, #condition); \
  } while (0)
#define SAME(a, b)                                                                 \
  do {                                                                             \
    const word a_ = (word)(a), b_ = (word)(b);                                     \
    checks++;                                                                      \
    if (a_ != b_) failures++, printf("FAIL %s line %d: %s is %#lx, %s is %#lx\n", context, __LINE__, #a, a_, #b, b_); \
  } while (0)

/*
 * ------------------------------------------------------------------------------------------- sites
 */

#define FUNCTIONS(X) X(leaf) X(ten) X(sum_of) X(pair_of) X(big_of) X(eight) X(on_the_x87) X(complex_of) X(down) X(outer) X(tail) X(other) X(jumps) X(probe_target)
/* What only gcc can compile is there or not. */
extern long nested(long a) __attribute__((weak));
extern void *const nested_code __attribute__((weak));
enum {
#define X(name) S_##name,
  FUNCTIONS(X)
#undef X
  S_nested,
  S_inner,
  SITES
};
static entry *functions[SITES] = {
#define X(name) (entry *)name,
  FUNCTIONS(X)
#undef X
};
/*
 * Address of the e8: what callbacks get as ip. Under `67 e8` it is the second byte of the
 * instruction.
 */
static unsigned char *sites[SITES];
#ifdef MCOUNT
#define PROFILER mcount
#else
#define PROFILER __fentry__
#endif

static void find_sites(void) {
  if (nested) {
    functions[S_nested] = (entry *)nested;
    functions[S_inner] = (entry *)nested_code;
  }
  for (int i = 0; i < SITES; i++) {
    if (!functions[i]) continue;
    unsigned char *const start = (unsigned char *)functions[i];
    for (int at = 0; at < 300 && !sites[i]; at++) {
      int displacement;
      memcpy(&displacement, start + at + 1, 4);
      if (start[at] == 0xe8 && start + at + 5 + displacement == (unsigned char *)PROFILER) sites[i] = start + at;
    }
    if (!sites[i]) printf("FAIL no site in function %d\n", i), exit(1);
  }
}
static void branch(unsigned char *at, int opcode, const void *target) {
  const long distance = (const char *)target - (const char *)at - 5;
  const int displacement = (int)distance;
  CHECK(distance == displacement);
  at[0] = (unsigned char)opcode;
  memcpy(at + 1, &displacement, 4);
}
static void call_at(int site, const void *target) { branch(sites[site], 0xe8, target); }
static void nop_at(int site) {
#ifdef SIX
  static const unsigned char nop[] = { 0x66, 0x0f, 0x1f, 0x44, 0, 0 };
  if (sites[site][-1] == 0x67 || sites[site][-1] == 0x66) {
    memcpy(sites[site] - 1, nop, 6);
    return;
  }
#endif
  static const unsigned char nop5[] = { 0x0f, 0x1f, 0x44, 0, 0 };
  memcpy(sites[site], nop5, 5);
}
static void all_call(const void *target) {
  for (int i = 0; i < SITES; i++) {
    if (!sites[i]) continue;
#ifdef SIX
    if (sites[i][-1] == 0x66) sites[i][-1] = 0x67;
#endif
    call_at(i, target);
  }
}
static void all_nop(void) {
  for (int i = 0; i < SITES; i++)
    if (sites[i]) nop_at(i);
}
static void callee(const void *plain_or_regs_call, const void *function) { branch((unsigned char *)plain_or_regs_call, 0xe8, function); }
static void both_call(const void *function) {
  callee(ftrace_call, function);
  callee(ftrace_regs_call, function);
}

/*
 * --------------------------------------------------------------------------------------------- ops
 */

struct ops ops_a, ops_b, ops_c;
static struct { word count, sites[16]; } hash_a, hash_b;

static void only(struct ops *ops, const void *func) {
  memset(ops, 0, sizeof *ops);
  ops->func = (word)func;
  ops->next = &ftrace_list_end;
  ftrace_ops_list = ops;
  function_trace_op = ops;
}
static void push(struct ops *ops, const void *func) {
  memset(ops, 0, sizeof *ops);
  ops->func = (word)func;
  ops->next = ftrace_ops_list;
  ftrace_ops_list = ops;
}
static struct ring_record *record(u64 number) {
  static struct ring_record read[RING_CAPACITY];
  struct ring_record *const one = &read[number & (RING_CAPACITY - 1)];
  *one = read_record(elftrace_ring, number);
  return one;
}

/*
 * --------------------------------------------------------------------------------------- all calls
 */

static double close_to(double a, double b) { return a - b < 1e-9 && b - a < 1e-9; }
static void values(void) {
  SAME(leaf(40, 2), 118);
  SAME(ten(1, 2, 3, 4, 5, 6, 7, 8, 9, 10), 385);
  CHECK(close_to(sum_of(3, 1.5, 2l, 2.5, 3l, 0.25, 4l), 11.5));
  CHECK(close_to(sum_of(10, 1., 1l, 2., 1l, 3., 1l, 4., 1l, 5., 1l, 6., 1l, 7., 1l, 8., 1l, 9., 1l, 10., 1l), 55));
  const struct two two = pair_of(0x1234, 35);
  SAME(two.first, 0x4761);
  SAME(two.second, 42);
  const struct big big = big_of(100);
  SAME(big.words[0] + big.words[4], 204);
  CHECK(close_to(eight(1, 2, 3, 4, 5, 6, 7, 8), 1 + 4 + 12 + 32 + 80 + 192 + 448 + 1024));
  CHECK(on_the_x87(3.25L, 4.0L) == 13.5L);
  const _Complex double z = complex_of(5.5, 2.25);
  CHECK(__real__ z == 7.75 && __imag__ z == 3.25);
  SAME(down(10), 55);
  SAME(outer(7), 39);
  SAME(tail(7), 16);
  if (nested) SAME(nested(5), 8);
  SAME(other(1, 2), 1003);
}
/*
 * Functions called by values(): sum_of twice, down 11 times, leaf by outer twice and tail once;
 * nested calls its inner one twice.
 */
static int CALLS = 13 + 10 + 2 + 1;

static const word flag_patterns[] = { 0x202, 0x202 | 1, 0x202 | 0x40 | 4, 0x202 | 0x80 | 0x800 | 0x10, 0x202 | 0x8d5 };
static void fill(struct state *in, int pattern) {
  word *const words = (word *)in;
  for (int i = 0; i < 15; i++) words[i] = 0x0101010101010101ul * (word)(pattern * 16 + i + 1) ^ 0x8000000000000000ul;
  in->flags = flag_patterns[pattern];
  for (int i = 0; i < 256; i++) in->xmm[i] = (unsigned char)(i * 7 + pattern);
}

/* What X-ENT-10 says of an entry; `kind` 0: plain, 1: regs. */
static void preserves(const void *target, int kind, const struct ops *ops) {
  for (int pattern = 0; pattern < 5; pattern++) {
    for (long below = 0; below < 32; below += 8) {
      struct state in;
      fill(&in, pattern);
      memset(&probe_out, 0, sizeof probe_out);
      memset(seen, 0xee, 40);
      memset(seen_frame, 0xee, sizeof seen_frame);
      spoil_r10 = kind;
      call_at(S_probe_target, target);
      seen_count = 0;
      probe_run(&in, probe_target, below);
      SAME(seen_count, 1);
      /* Arguments (T-X86-25: no registers from the plain entry of 2014). */
      SAME(seen[0], sites[S_probe_target]);
      SAME(seen[1], probe_back);
      SAME(seen[2], ops);
      const word parent_slot = probe_rsp - 8;
#ifdef MCOUNT
      const word at_site = parent_slot - 8;
      const word rbp = at_site;
#else
      const word at_site = parent_slot;
      const word rbp = in.rbp;
#endif
      SAME(probe_out.rsp, at_site);
      SAME(probe_result.rsp, probe_rsp);
      SAME(probe_out.rax, in.rax);
      SAME(probe_out.rbx, in.rbx);
      SAME(probe_out.rcx, in.rcx);
      SAME(probe_out.rdx, in.rdx);
      SAME(probe_out.rsi, in.rsi);
      SAME(probe_out.rdi, in.rdi);
      SAME(probe_out.rbp, rbp);
      SAME(probe_out.r8, in.r8);
      SAME(probe_out.r9, in.r9);
      SAME(probe_out.r10, in.r10);
      SAME(probe_out.r12, in.r12);
      SAME(probe_out.r13, in.r13);
      SAME(probe_out.r14, in.r14);
      SAME(probe_out.r15, in.r15);
      CHECK(memcmp(probe_out.xmm, in.xmm, 256) == 0);
      SAME(probe_result.rax, 0x1111);
      SAME(probe_result.rdx, 0x2222);
      if (kind == 1) SAME(probe_out.flags & 0xcd5, in.flags & 0xcd5);
#ifndef MODERN
      if (kind == 0) SAME(seen[3], 0);
#endif
      if (seen[3] != 0) {
        const word *const frame = seen_frame;
        SAME(frame[F_AX], in.rax);
        SAME(frame[F_CX], in.rcx);
        SAME(frame[F_DX], in.rdx);
        SAME(frame[F_SI], in.rsi);
        SAME(frame[F_DI], in.rdi);
        SAME(frame[F_R8], in.r8);
        SAME(frame[F_R9], in.r9);
        SAME(frame[F_BP], rbp);
        SAME(frame[F_IP], sites[S_probe_target] + 5);
        SAME(frame[F_SP], at_site);
#ifdef MODERN
        SAME(frame[F_ORIG], 0);
        if (kind == 0) SAME(frame[F_CS], 0);
#endif
        if (kind == 1) {
          SAME(frame[F_BX], in.rbx);
          SAME(frame[F_R10], in.r10);
          SAME(frame[F_R11], in.r11);
          SAME(frame[F_R12], in.r12);
          SAME(frame[F_R13], in.r13);
          SAME(frame[F_R14], in.r14);
          SAME(frame[F_R15], in.r15);
          SAME(frame[F_FLAGS] & 0xcd5, in.flags & 0xcd5);
          SAME(frame[F_CS], 0x33);
          SAME(frame[F_SS], 0x2b);
        }
      }
    }
  }
}
/*
 * All of it but flags, r10 and r11, which callbacks in C may change behind a plain or graph entry.
 */
static void same_registers(const struct state *in) {
  const word *const out = (const word *)&probe_out, *const was = (const word *)in;
  for (int i = 0; i < 15; i++) {
#ifdef MCOUNT
    if (i == 6) continue;
#endif
    if (i != 9 && i != 10) SAME(out[i], was[i]);
  }
  CHECK(memcmp(probe_out.xmm, in->xmm, 256) == 0);
}
/*
 * A callback that changes everything which the register entry loads again, and r11, which it does
 * not.
 */
static struct state wanted;
__attribute__((used)) static void rewrite(word ip, word parent_ip, struct ops *ops, word *regs) {
  (void)ip, (void)parent_ip, (void)ops;
  const struct state *const w = &wanted;
  regs[F_AX] = w->rax, regs[F_BX] = w->rbx, regs[F_CX] = w->rcx, regs[F_DX] = w->rdx, regs[F_SI] = w->rsi, regs[F_DI] = w->rdi;
  regs[F_BP] = w->rbp, regs[F_R8] = w->r8, regs[F_R9] = w->r9, regs[F_R10] = w->r10, regs[F_R12] = w->r12;
  regs[F_R13] = w->r13, regs[F_R14] = w->r14, regs[F_R15] = w->r15, regs[F_FLAGS] = w->flags;
}
static word exit_to;
__attribute__((used)) static void rewrite_and_exit(word ip, word parent_ip, struct ops *ops, word *regs) {
  rewrite(ip, parent_ip, ops, regs);
  regs[F_ORIG] = exit_to;
}
static void frame_of(const void *target, int all) {
  call_at(S_probe_target, target);
  for (int pattern = 0; pattern < 4; pattern++) {
    struct state in;
    fill(&in, pattern);
    fill(&wanted, pattern + 1);
    probe_run(&in, probe_target, 8);
    const word *const out = (const word *)&probe_out, *const want = (const word *)&wanted, *const was = (const word *)&in;
    for (int i = 0; i < 15; i++) {
      /* rbx, r10 and r12 to r15 are the register entry's. */
      const int loaded = all || !(i == 1 || i == 9 || i >= 11);
      if (i != 10 && (loaded || i != 9)) SAME(out[i], loaded ? want[i] : was[i]);
    }
    if (all) SAME(probe_out.flags & 0xcd5, wanted.flags & 0xcd5);
  }
}
static void frame(void) {
  only(&ops_a, rewrite);
  both_call(rewrite);
  frame_of(ftrace_regs_caller, 1);
#ifdef MODERN
  context = "plain";
  frame_of(ftrace_caller, 0);
  context = "direct exit";
  exit_to = (word)ftrace_stub;
  both_call(rewrite_and_exit);
  frame_of(ftrace_regs_caller, 1);
#else
  (void)rewrite_and_exit;
#endif
}
static void registers(void) {
  only(&ops_a, spoil);
  both_call(spoil);
  context = "plain";
  preserves(ftrace_caller, 0, &ops_a);
  context = "regs";
  preserves(ftrace_regs_caller, 1, &ops_a);
  context = "plain, nobody";
  both_call(ftrace_stub);
  all_call(ftrace_caller);
  values();
  context = "regs, nobody";
  all_call(ftrace_regs_caller);
  values();
}

/* Records since then, without the upper halves of those that are far from the ring. */
static u64 events(u64 from) {
  u64 count = 0;
  for (u64 i = from; i < elftrace_ring->head; i++) count += record(i)->kind != RECORD_DATA;
  return count;
}

/* Every function was called from text, a nested one too. */
static void callers(u64 from, int with_nested) {
  for (u64 i = from; i < elftrace_ring->head; i++) {
    if (record(i)->kind == RECORD_DATA || (record(i)->ip == (u64)sites[S_inner] && !with_nested)) continue;
    CHECK(record(i)->parent_ip > (u64)__executable_start && record(i)->parent_ip < (u64)etext);
  }
}
/* Every kind of call under every tracer. */
static void calls(void) {
  static entry *const entries[] = { ftrace_caller, ftrace_regs_caller };
  for (int kind = 0; kind < 2; kind++) {
    all_call(entries[kind]);
    context = "counter";
    only(&ops_a, elftrace_counter);
    both_call(elftrace_counter);
    elftrace_count = 0;
    values();
    SAME(elftrace_count, CALLS);
    SAME(ops_a.private_, CALLS);
    context = "tracer";
    only(&ops_a, elftrace_function_tracer);
    both_call(elftrace_function_tracer);
    const u64 before = elftrace_ring->head;
    values();
    SAME(events(before), CALLS);
    SAME(record(before)->ip, sites[S_leaf]);
    SAME(record(before)->kind, RECORD_CALL);
#ifdef Y2014
    callers(before, 0); /* no frame, and what is above the call's return address at a nested function is the static chain */
#else
    callers(before, 1);
#endif
    CHECK(record(before)->parent_ip > (u64)__executable_start && record(before)->parent_ip < (u64)etext);
    CHECK(record(before + 1)->time >= record(before)->time);
    context = "assist";
    only(&ops_a, elftrace_counter);
    both_call(ftrace_ops_assist_func);
    values();
    SAME(ops_a.private_, CALLS);
  }
  context = "nop";
  all_nop();
  elftrace_count = 0;
  values();
  SAME(elftrace_count, 0);
}

static void list(void) {
  /* a: leaf only; b: all but leaf and ten; c: wants registers. */
  all_call(ftrace_caller);
  both_call(ftrace_ops_list_func);
  function_trace_op = (struct ops *)0xbad0bad0bad0bad0ul;
  ftrace_ops_list = &ftrace_list_end;
  push(&ops_a, elftrace_counter);
  push(&ops_b, elftrace_counter);
  push(&ops_c, elftrace_counter);
  hash_a.count = 1;
  hash_a.sites[0] = (word)sites[S_leaf];
  ops_a.filter = (const struct hash *)&hash_a;
  hash_b.count = 2;
  const word one = (word)sites[S_leaf], two = (word)sites[S_ten];
  hash_b.sites[0] = one < two ? one : two;
  hash_b.sites[1] = one < two ? two : one;
  ops_b.notrace = (const struct hash *)&hash_b;
  ops_c.flags = OPS_SAVE_REGS;
  context = "plain list";
  values();
  SAME(ops_a.private_, 4);
  SAME(ops_b.private_, CALLS - 5);
  SAME(ops_c.private_, 0);
  context = "regs list";
  all_call(ftrace_regs_caller);
  values();
  SAME(ops_a.private_, 8);
  SAME(ops_c.private_, CALLS);
}

/*
 * --------------------------------------------------------------------------------------- alignment
 */

static volatile double scratch[8];
static volatile long ordinary_count, misaligned_count;
__attribute__((noinline)) static double mix(double a, double b) { return a * 1.5 + b; }
/* A callback of ordinary C: uses vectors, and stores them aligned on its stack. */
static void ordinary(word ip, word parent_ip, struct ops *ops, void *regs) {
  double __attribute__((aligned(16))) local[4] = { (double)ip, (double)parent_ip, 3, 4 };
  __asm__ volatile("movaps (%0), %%xmm1\n\tmovaps %%xmm1, 16(%0)" ::"r"(local) : "xmm1", "memory");
  __asm__ volatile("pxor %%xmm0,%%xmm0\n\tpxor %%xmm1,%%xmm1\n\tpxor %%xmm2,%%xmm2\n\tpxor %%xmm3,%%xmm3\n\tpxor %%xmm4,%%xmm4\n\t"
                   "pxor %%xmm5,%%xmm5\n\tpxor %%xmm6,%%xmm6\n\tpxor %%xmm7,%%xmm7" ::
                       : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7");
  static const unsigned int rounds_up = 0x5f80;
  __asm__ volatile("ldmxcsr %0" ::"m"(rounds_up));
  scratch[0] = mix(local[0], local[1]);
  (void)ops;
  (void)regs;
  if ((word)__builtin_frame_address(0) & 15) misaligned_count++;
  ordinary_count++;
}
static void alignment(void) {
  static entry *const entries[] = { ftrace_caller, ftrace_regs_caller };
  for (int kind = 0; kind < 2; kind++) {
    all_call(entries[kind]);
    for (int by_list = 0; by_list < 2; by_list++) {
      only(&ops_a, elftrace_vector_func);
      ops_a.private_ = (word)ordinary;
      both_call(by_list ? ftrace_ops_list_func : elftrace_vector_func);
      ordinary_count = misaligned_count = 0;
      context = "ordinary callback";
      values();
      SAME(ordinary_count, CALLS);
      for (long below = 0; below < 48; below += 8) SAME(on_stack(leaf, 40, 2, below), 118);
      SAME(ordinary_count, CALLS + 6);
      for (long below = 0; below < 32; below += 8) {
        struct state in;
        unsigned int control = 0;
        fill(&in, 1);
        probe_run(&in, probe_target, below);
        same_registers(&in);
        __asm__ volatile("stmxcsr %0" : "=m"(control));
        SAME(control & ~0x3f, 0x1f80);
      }
      SAME(misaligned_count, 0);
    }
    /*
     * The list function aligns for a callback that is called without help; this one's vectors are
     * scratch to the traced leaf.
     */
    only(&ops_a, ordinary);
    both_call(ftrace_ops_list_func);
    ordinary_count = 0;
    for (long below = 0; below < 48; below += 8) SAME(on_stack(leaf, 40, 2, below), 118);
    SAME(ordinary_count, 6);
    SAME(misaligned_count, 0);
    static const unsigned int at_start = 0x1f80;
    __asm__ volatile("ldmxcsr %0" ::"m"(at_start));
  }
}

/*
 * ------------------------------------------------------------------------------------------- graph
 */

static const struct thread *mine(void) { return &elftrace_graph_stack[0]; }
static void *jump_buffer[8];
__attribute__((noinline)) static int left_by_jump(void) {
  if (__builtin_setjmp(jump_buffer)) return 1;
  return (int)jumps(jump_buffer);
}
/* Entries and returns must pair, innermost first. */
static void balanced(u64 from) {
  u64 stack[128];
  int depth = 0;
  for (u64 i = from; i < elftrace_ring->head; i++) {
    const struct ring_record *const each = record(i);
    if (each->kind == RECORD_ENTRY) stack[depth++] = each->ip;
    else if (each->kind == RECORD_RETURN) {
      CHECK(depth > 0);
      SAME(stack[--depth], each->ip);
    }
  }
  SAME(depth, 0);
}
static void graph_calls(void) {
  u64 before = elftrace_ring->head;
  values();
  SAME(events(before), 2 * CALLS);
  balanced(before);
  callers(before, 1);
  SAME(record(before)->ip, sites[S_leaf]);
  CHECK(record(before)->parent_ip > (u64)__executable_start && record(before)->parent_ip < (u64)etext);
  SAME(mine()->depth, 0);
  /* The whole result: rax, rdx, xmm0, xmm1 through the return handler. */
  struct state in;
  for (long below = 0; below < 32; below += 8) {
    fill(&in, 2);
    probe_run(&in, probe_target, below);
    same_registers(&in);
    SAME(probe_result.rax, 0x1111);
    SAME(probe_result.rdx, 0x2222);
    SAME(probe_result.rsp, probe_rsp);
    CHECK(memcmp(probe_result.xmm, in.xmm, 32) == 0);
  }
  /* Deeper than the shadow stack: those beyond it are not hooked, and everything returns right. */
  const word overrun = mine()->overrun;
  before = elftrace_ring->head;
  SAME(down(200), 20100);
  SAME(events(before), 2 * GRAPH_ENTRIES);
  SAME(mine()->overrun - overrun, 201 - GRAPH_ENTRIES);
  SAME(mine()->depth, 0);
  /* A function that never returns. */
  const word abandoned = mine()->abandoned;
  SAME(left_by_jump(), 1);
  SAME(leaf(1, 1), 2);
  SAME(mine()->abandoned - abandoned, 1);
  SAME(mine()->depth, 0);
  /* Alignment of the caller does not matter. */
  for (long below = 0; below < 48; below += 8) SAME(on_stack(leaf, 40, 2, below), 118);
  SAME(elftrace_graph_stopped, 0);
}
#ifdef MODERN
static void graph(void) {
  only(&ops_a, ftrace_graph_func);
  both_call(ftrace_graph_func);
  context = "plain";
  all_call(ftrace_caller);
  graph_calls();
  context = "regs";
  all_call(ftrace_regs_caller);
  graph_calls();
  context = "list";
  push(&ops_b, elftrace_counter);
  both_call(ftrace_ops_list_func);
  elftrace_count = 0;
  all_call(ftrace_caller);
  graph_calls();
  CHECK(elftrace_count > CALLS);
}
#else
static void graph(void) {
  elftrace_graph_ops = 0;
  ftrace_ops_list = &ftrace_list_end;
  context = "alone: sites call the graph entry";
  all_call(ftrace_graph_caller);
  graph_calls();
  static entry *const entries[] = { ftrace_caller, ftrace_regs_caller };
  branch((unsigned char *)ftrace_graph_call, 0xe9, ftrace_graph_caller);
  for (int kind = 0; kind < 2; kind++) {
    context = kind ? "jump behind regs" : "jump behind plain";
    only(&ops_a, elftrace_counter);
    both_call(elftrace_counter);
    all_call(entries[kind]);
    graph_calls();
    CHECK(ops_a.private_ > CALLS);
  }
  context = "C-FG-8: the graph's own filter";
  hash_a.count = 1;
  hash_a.sites[0] = (word)sites[S_leaf];
  memset(&ops_b, 0, sizeof ops_b);
  ops_b.filter = (const struct hash *)&hash_a;
  elftrace_graph_ops = &ops_b;
  const u64 before = elftrace_ring->head;
  values();
  SAME(events(before), 8);
  balanced(before);
  context = "off";
  branch((unsigned char *)ftrace_graph_call, 0xe9, ftrace_stub);
  values();
  SAME(events(before), 8);
}
#endif

/*
 * -------------------------------------------------------------------------- another place to go on
 */

__attribute__((used)) static long elsewhere(long a, long b) { return 7000 + a - b; }
__attribute__((used)) static void modify(word ip, word parent_ip, struct ops *ops, word *regs) {
  (void)ip, (void)parent_ip, (void)ops;
#ifdef MCOUNT
  /* The function has made its frame: only code that knows it can go on. */
  extern entry within_frame;
  regs[F_IP] = (word)within_frame;
#else
  regs[F_IP] = (word)elsewhere;
#endif
}
static void ipmodify(void) {
  only(&ops_a, modify);
  ops_a.flags = OPS_SAVE_REGS;
  both_call(modify);
  call_at(S_leaf, ftrace_regs_caller);
  for (long below = 0; below < 32; below += 8) SAME(on_stack(leaf, 5, 2, below), 7003);
  both_call(ftrace_ops_list_func);
  SAME(leaf(5, 2), 7003);
#ifdef MODERN
  both_call(modify);
  call_at(S_leaf, ftrace_caller);
  SAME(leaf(5, 2), 7003);
#endif
  nop_at(S_leaf);
  SAME(leaf(5, 2), 13);
}

static word direct_first, direct_back;
static long direct_count;
__attribute__((used)) void direct_seen(word first, word back) {
  direct_first = first;
  direct_back = back;
  direct_count++;
}
#ifdef MODERN
static void direct(void) {
  context = "alone: the site calls it";
  call_at(S_leaf, direct_caller);
  SAME(leaf(40, 2), 118);
  SAME(direct_first, 40);
  SAME(direct_back, sites[S_leaf] + 5);
  SAME(direct_count, 1);
  static word table[] = { 3, 0, 0x1234, 0, 0, ~0ul, 0x5678 };
  table[1] = 16;
  table[3] = (word)sites[S_leaf];
  table[4] = (word)direct_caller;
  ftrace_direct_table = table;
  for (int by_list = 0; by_list < 2; by_list++) {
    context = by_list ? "with another: through the list" : "through the register entry";
    only(&ops_a, ftrace_direct_func);
    if (by_list) push(&ops_b, elftrace_counter);
    both_call(by_list ? ftrace_ops_list_func : ftrace_direct_func);
    all_call(ftrace_regs_caller);
    direct_count = 0;
    elftrace_count = 0;
    direct_back = 0;
    for (long below = 0; below < 48; below += 8) SAME(on_stack(leaf, 40, 2, below), 118);
    SAME(direct_count, 6);
    SAME(direct_first, 40);
    SAME(direct_back, sites[S_leaf] + 5);
    values();
    SAME(direct_count, 10);
    SAME(elftrace_count, by_list ? 6 + CALLS : 0);
  }
  /* The plain entry has no such exit: the word is not read. */
  context = "plain";
  call_at(S_leaf, ftrace_caller);
  direct_count = 0;
  SAME(leaf(40, 2), 118);
  SAME(direct_count, 0);
  context = "registers through the direct exit";
  table[1 + 2] = (word)sites[S_probe_target];
  table[0] = 2;
  table[1] = 16;
  call_at(S_probe_target, ftrace_regs_caller);
  both_call(ftrace_direct_func);
  table[4] = (word)ftrace_stub;
  for (int pattern = 0; pattern < 5; pattern++) {
    struct state in;
    fill(&in, pattern);
    memset(&probe_out, 0, sizeof probe_out);
    probe_run(&in, probe_target, 8 * pattern);
    word *const out = (word *)&probe_out, *const was = (word *)&in;
    for (int i = 0; i < 15; i++) {
      if (i != 10 && i != 9) SAME(out[i], was[i]);
    }
    SAME(probe_out.flags & 0xcd5, in.flags & 0xcd5);
    SAME(probe_out.rsp, probe_rsp - 8);
    CHECK(memcmp(probe_out.xmm, in.xmm, 256) == 0);
  }
}
#endif

/*
 * ----------------------------------------------------------------------------------------- threads
 */

static void *work(void *argument) {
  long sum = 0;
  for (int i = 0; i < 200; i++) sum += down(20) + leaf(i, 1) + outer(i);
  *(long *)argument = sum;
  return 0;
}
static void threads(void) {
  elftrace_thread_mode = 1;
#ifdef MODERN
  only(&ops_a, ftrace_graph_func);
  both_call(ftrace_graph_func);
  all_call(ftrace_caller);
#else
  elftrace_graph_ops = 0;
  all_call(ftrace_graph_caller);
#endif
  long results[4] = { 0 };
  pthread_t all[4];
  const u64 before = elftrace_ring->head;
  for (int i = 0; i < 4; i++) pthread_create(&all[i], 0, work, &results[i]);
  for (int i = 0; i < 4; i++) pthread_join(all[i], 0);
  for (int i = 0; i < 4; i++) SAME(results[i], 200 * 210 + 3 * 199 * 100 - 200 + 6 * 199 * 100 - 3 * 200);
  CHECK(elftrace_ring->head + elftrace_ring->dropped - before >= 4 * 200 * 25 * 2);
  SAME(elftrace_graph_stopped, 0);
  for (int i = 0; i < THREADS; i++) SAME(elftrace_graph_stack[i].depth, 0);
}

/*
 * ------------------------------------------------------------------------------------- trampolines
 */

/*
 * In a block that was moved, the call leads here, with the ops that it was made for. It cannot go
 * back: its last branch is off too.
 */
__attribute__((used)) void moved_here(word ops) {
  SAME(ops, &ops_b);
  printf("%s moved %d\n", failures ? "failed" : "ok", checks);
  fflush(stdout);
  _exit(failures ? 1 : 0);
}
static unsigned char *map_block(const char *file, const char *address_text) {
  static unsigned char bytes[4096];
  unsigned char *const address = (unsigned char *)strtoul(address_text, 0, 16);
  unsigned char *const page = (unsigned char *)((word)address & ~4095ul);
  const int descriptor = open(file, O_RDONLY);
  const long size = read(descriptor, bytes, sizeof bytes);
  unsigned char *const map =
      mmap(page, 8192, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  if (descriptor < 0 || size <= 0 || map != page) printf("FAIL cannot map %s at %s\n", file, address_text), exit(1);
  memcpy(address, bytes, (size_t)size);
  mprotect(page, 8192, PROT_READ | PROT_EXEC);
  return address;
}
/*
 * T-X86-15: the copy finds its own ops, whatever the global word says. The block calls `spoil` for
 * ops_b.
 */
static void trampoline(const char *file, const char *address, int kind) {
  unsigned char *const block = map_block(file, address);
  only(&ops_a, elftrace_counter);
  function_trace_op = (struct ops *)0xdead0000dead0000ul;
  both_call(ftrace_stub);
  preserves(block, kind, &ops_b);
  all_call(block);
  /* r10 is not kept by plain entries, and no function here has a static chain. */
  seen_count = 0;
  values();
  SAME(seen_count, CALLS);
  SAME(seen[0], sites[S_other]);
  SAME(seen[2], &ops_b);
#ifndef MODERN
  /* T-X86-26: the block ends in the shared tail, where the graph may still have to run. */
  elftrace_graph_ops = 0;
  branch((unsigned char *)ftrace_graph_call, 0xe9, ftrace_graph_caller);
  seen_count = 0;
  const u64 before = elftrace_ring->head;
  values();
  SAME(seen_count, CALLS);
  SAME(events(before), 2 * CALLS);
  balanced(before);
#endif
}
static void moved(const char *file, const char *address) {
  call_at(S_leaf, map_block(file, address));
  leaf(1, 2);
  printf("FAIL the moved block came back\n");
  exit(1);
}

int main(int count, char **arguments) {
  const char *const name = count > 1 ? arguments[1] : "";
  const word page = (word)__executable_start & ~4095ul;
  if (mprotect((void *)page, (((word)etext + 4095) & ~4095ul) - page, PROT_READ | PROT_WRITE | PROT_EXEC) != 0) {
    printf("FAIL mprotect\n");
    return 1;
  }
  find_sites();
  if (nested) CALLS += 3;
  /*
   * A linker does not put the records behind the header, as the tool's loader does. Static memory is
   * near the sites.
   */
  static u64 room[(sizeof(struct ring) + RING_CAPACITY * sizeof(struct ring_short)) / sizeof(u64)];
  struct ring *const ring = (struct ring *)room;
  memcpy(ring, elftrace_ring, sizeof(struct ring));
  elftrace_ring = ring;
  values();
  if (!strcmp(name, "registers")) registers();
  else if (!strcmp(name, "frame")) frame();
  else if (!strcmp(name, "calls")) calls();
  else if (!strcmp(name, "list")) list();
  else if (!strcmp(name, "alignment")) alignment();
  else if (!strcmp(name, "graph")) graph();
  else if (!strcmp(name, "ipmodify")) ipmodify();
#ifdef MODERN
  else if (!strcmp(name, "direct")) direct();
#endif
  else if (!strcmp(name, "threads")) threads();
  else if (!strcmp(name, "trampoline") && count == 5) trampoline(arguments[2], arguments[3], atoi(arguments[4]));
  else if (!strcmp(name, "moved") && count == 4) moved(arguments[2], arguments[3]);
  else printf("FAIL unknown scenario %s\n", name), failures++;
  printf("%s %s %d\n", failures ? "failed" : "ok", name, checks);
  return failures ? 1 : 0;
}
