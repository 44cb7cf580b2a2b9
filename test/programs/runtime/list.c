/*
 * Lists of ops, hashes, guards, changed resume addresses, and the edges of the ring. What has no
 * attribute here has a site. Prints what the callbacks saw; the test knows what it must be.
 */
#include "abi.h"
#include "entry.h"
#include "record.h"
extern long sys(long number, ...);
#define P __attribute__((no_instrument_function))
#define F __attribute__((noinline, noclone))
typedef unsigned char regs;
typedef void callback(word ip, word parent_ip, struct ops *ops, regs *regs);
extern callback elftrace_function_tracer, elftrace_counter, ftrace_ops_list_func;
extern struct ops *ftrace_ops_list, ftrace_list_end;
extern struct ring *elftrace_ring;
extern struct thread elftrace_graph_stack[];
extern word elftrace_count, elftrace_rcu_watching;
extern void ENTRY_NAME(void);

static char buffer[4096];
static unsigned used;
P static void say(const char *name, u64 value) {
  char digits[24];
  int n = 0;
  while (*name) buffer[used++] = *name++;
  buffer[used++] = ' ';
  do digits[n++] = "0123456789abcdef"[value & 15];
  while (value >>= 4);
  while (n) buffer[used++] = digits[--n];
  buffer[used++] = '\n';
}
P static word text(const void *function) {
#if defined(__powerpc64__) && _CALL_ELF != 2
  return *(const word *)function;
#else
  return (word)function;
#endif
}

volatile word base = 1;
F word f(word a) { return a + base; }
F word g(word a) { return a * 2 + base; }
F word h(word a) { return a * 3 + base; }
F word twelve(word a, word b, word c, word d, word e, word i, word j, word k, word l, word m, word n, word o) {
  return a + b + c + d + e + i + j + k + l * 2 + m * 3 + n * 5 + o * 7;
}
/* Takes the place of another function. */
F P word replacement(word a) { return a * 100 + base; }
F P word replacement12(word a, word b, word c, word d, word e, word i, word j, word k, word l, word m, word n, word o) {
  return (a + b + c + d + e + i + j + k + l * 2 + m * 3 + n * 5 + o * 7) * 10 + base;
}

P static word site_of(const void *function) {
  const word entry = text(ENTRY_NAME);
  const u32 *code = (const u32 *)text(function);
  for (int i = 0; i < 24; i++, code++) {
    const word target = (word)code + (word)((long)(int)((*code & 0x03fffffcu) << 6) >> 6);
    if ((*code & 0xfc000003u) == 0x48000001u && (target == entry || target == entry + 8)) return (word)code;
  }
  return 0;
}

static word last_ip, last_parent, last_private, last_full, seen_argument, seen_resume, seen_link, seen_sp;
static struct ops *last_ops;
P static void note(word ip, word parent_ip, struct ops *ops, regs *r) {
  ops->private_++;
  last_ip = ip;
  last_parent = parent_ip;
  last_ops = ops;
#ifdef RUNTIME_REGS
  last_full = *(word *)(r + REGS_MSR) != 0;
  seen_argument = ((word *)r)[3];
  seen_resume = *(word *)(r + REGS_NIP);
  seen_link = *(word *)(r + REGS_LINK);
  seen_sp = ((word *)r)[1];
#else
  last_full = r != 0;
#endif
}
P static void again(word ip, word parent_ip, struct ops *ops, regs *r) {
  ops->private_++;
  base += f(0) - f(0);
}
static word resume_at, resume_toc;
P static void replace(word ip, word parent_ip, struct ops *ops, regs *r) {
#ifdef RUNTIME_REGS
  *(word *)(r + REGS_NIP) = resume_at;
  if (resume_toc) ((word *)r)[2] = resume_toc;
#endif
}

static struct ops a, b;
static struct { word count, sites[3]; } one, three, none;
P static void list(callback *first, word first_flags, callback *second, word second_flags) {
  a = (struct ops){ .func = text(first), .flags = first_flags, .next = &b };
  b = (struct ops){ .func = second ? text(second) : 0, .flags = second ? second_flags : OPS_STUB, .next = &ftrace_list_end };
  ftrace_ops_list = &a;
}
P static void both(const char *name) {
  say(name, a.private_);
  say(name, b.private_);
}

#if defined(__powerpc64__)
/* Ruins r2; the result says whether r12 was its own address. */
extern word ruins_toc(word a);
__asm__(
#if _CALL_ELF == 2
  ".globl ruins_toc\n.type ruins_toc,@function\nruins_toc:\n"
#else
  ".section .opd,\"aw\"\n.balign 8\n.globl ruins_toc\n.type ruins_toc,@function\n"
  "ruins_toc: .quad .Lruins,0x1234,0\n.previous\n.Lruins:\n"
#endif
  " mr 4,2\n mflr 11\n bcl 20,31,1f\n1: mflr 5\n mtlr 11\n subf 5,12,5\n li 2,1\n add 3,3,5\n"
#if _CALL_ELF == 2
  " blr\n");
#else
  " add 3,3,4\n blr\n");
#endif
#define SET_THREAD(key) __asm__ volatile("mr 13,%0" ::"r"((word)(key)))
#else
#define SET_THREAD(key) __asm__ volatile("mr 2,%0" ::"r"((word)(key)))
#endif

P int main(void) {
  one.count = 1, one.sites[0] = site_of(f);
  three.count = 3;
  three.sites[0] = site_of(f), three.sites[1] = site_of(g), three.sites[2] = site_of(h);
  for (int i = 0; i < 2; i++)
    for (int k = 0; k < 2; k++)
      if (three.sites[k] > three.sites[k + 1]) {
        const word s = three.sites[k];
        three.sites[k] = three.sites[k + 1], three.sites[k + 1] = s;
      }
  word result = f(1) + g(1);
  say("empty", result);

  list(note, 0, note, 0);
  b.filter = (struct hash *)&one;
  result = f(0x1234);
  say("ip", last_ip == site_of(f));
  say("parent", (*(const u32 *)(last_parent - 4) & 0xfc000003u) == 0x48000001u);
  say("ops", last_ops == &b);
  say("full", last_full);
#ifdef RUNTIME_REGS
  say("argument", seen_argument);
  say("resume", seen_resume == last_ip + 4);
  say("link", seen_link == last_parent);
  say("stack", seen_sp == (word)__builtin_frame_address(0) || seen_sp > (word)&result - 4096);
#endif
  result += g(1) + f(2);
  both("filter");
  list(note, 0, note, 0);
  a.notrace = (struct hash *)&one;
  b.filter = (struct hash *)&three, b.notrace = (struct hash *)&one;
  result += f(1) + g(1) + h(1) + twelve(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12);
  both("notrace");
  list(note, 0, note, 0);
  a.filter = (struct hash *)&none;
  b.filter = (struct hash *)&three;
  result += f(1) + g(1) + h(1);
  both("pending");
  list(note, OPS_STUB, note, OPS_SAVE_REGS);
  result += f(1);
  both("stub-regs");
  list(note, OPS_RCU, note, 0);
  elftrace_rcu_watching = 0;
  result += f(1);
  elftrace_rcu_watching = 1;
  both("rcu-off");
  result += f(1);
  both("rcu-on");
  list(again, 0, note, 0);
  result += f(1) + g(1);
  both("recursion");
  list(elftrace_counter, 0, elftrace_counter, 0);
  b.filter = (struct hash *)&one;
  result += f(1) + g(1);
  both("counter");
  say("count", elftrace_count);
  ftrace_ops_list = 0;
  result += f(1);
  say("result", result);

#ifdef RUNTIME_REGS
  list(replace, 0, note, 0);
  b.filter = (struct hash *)&none;
  a.filter = (struct hash *)&one;
  resume_at = text(replacement);
  say("replaced", f(3) + 1000 * f(4));
  struct { word count, sites[1]; } last = { 1, { site_of(twelve) } };
  a.filter = (struct hash *)&last;
  resume_at = text(replacement12);
  say("replaced12", twelve(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12));
#if defined(__powerpc64__)
  a.filter = (struct hash *)&one;
  resume_at = text(ruins_toc);
  resume_toc = _CALL_ELF == 2 ? 0 : ((word *)ruins_toc)[1];
  say("ruined", f(0));
  resume_toc = 0;
  say("base", base);
  say("side", elftrace_graph_stack[0].side_depth);
#endif
#endif

  volatile struct ring *const ring = elftrace_ring;
  list(elftrace_function_tracer, 0, 0, 0);
  const u64 start = ring->head;
  result = 0;
  for (int i = 0; i < 9; i++) {
    SET_THREAD(64 * i + (i == 0 ? (elftrace_graph_stack[0].owner - 1) : 0x10000));
    result += f(1);
  }
  SET_THREAD(elftrace_graph_stack[0].owner - 1);
  say("threads", ring->head - start);
  say("dropped", ring->dropped);
  say("last-thread", read_record(elftrace_ring, ring->head - 1).thread);
  ring->capacity = 4, ring->flags = RING_KEEP_OLDEST, ring->head = 0, ring->dropped = 0;
  for (int i = 0; i < 6; i++) result += f(1);
  say("kept", ring->head);
  say("kept", ring->dropped);
  ring->flags = 0, ring->head = 0xffffffffull;
  for (int i = 0; i < 2; i++) result += f(1);
  say("carry", ring->head);
  sys(4, 1L, buffer, (long)used);
  return 0;
}
