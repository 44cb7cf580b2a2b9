/*
 * `main` of a traced program (whose own is called traced_main): fills the list of ops, calls it,
 * and writes to standard error what the runtime counted and whether every record holds together.
 * Compiled without sites.
 */
#include "abi.h"
#include "entry.h"
#include "record.h"
typedef void regs;
typedef void callback(word ip, word parent_ip, struct ops *ops, regs *regs);
extern callback elftrace_function_tracer, elftrace_counter;
extern struct ops *ftrace_ops_list, *function_trace_op, ftrace_list_end;
extern struct ring *elftrace_ring;
extern struct thread elftrace_graph_stack[];
extern word elftrace_count, elftrace_graph_stopped;
extern void ftrace_caller(void), return_to_handler(void);
#ifdef RUNTIME_REGS
extern void ftrace_regs_caller(void);
extern callback ftrace_graph_func;
#endif
extern int traced_main(int argc, char **argv, char **envp);
extern long sys(long number, ...);

static word text(const void *function) {
#if defined(__powerpc64__) && _CALL_ELF != 2
  return *(const word *)function;
#else
  return (word)function;
#endif
}

static char buffer[512];
static unsigned used;
static void say(const char *name, u64 value) {
  char digits[24];
  int n = 0;
  while (*name) buffer[used++] = *name++;
  buffer[used++] = ' ';
  /* No 64-bit division: it would need libgcc. */
  do {
    digits[n++] = "0123456789abcdef"[value & 15];
    value >>= 4;
  } while (value);
  while (n) buffer[used++] = digits[--n];
  buffer[used++] = '\n';
}

#ifdef __aarch64__
/* The address is a bl to an entry. */
static int is_site(word ip) {
  const u32 code = *(const u32 *)ip;
  const word target = ip + (word)((long)(int)(code << 6) >> 4);
#if defined(RUNTIME_REGS) && !defined(CALL_OPS) && !defined(ARGS_FRAME)
  if ((code & 0xfc000000u) == 0x94000000u && target == (word)ftrace_regs_caller) return 1;
#endif
  return (code & 0xfc000000u) == 0x94000000u && target == (word)ftrace_caller;
}
/* Behind a bl or blr. */
static int is_return(word address) {
  if (address == (word)return_to_handler) return 1;
  const u32 code = *(const u32 *)(address - 4);
  return (code & 0xfc000000u) == 0x94000000u || (code & 0xfffffc1fu) == 0xd63f0000u;
}
#elif defined(__riscv)
/* 16-bit reads: code may be 2-aligned. */
static u32 code_at(word address) {
  const unsigned short *const at = (const unsigned short *)address;
  return at[0] | (u32)at[1] << 16;
}
/* The pair at the address of its auipc, or a jal, leads to an entry. */
static int leads(word at) {
  const u32 first = code_at(at);
  word target;
  if ((first & 0xfff) == 0x0ef) {
    const long off = (long)(int)(first & 0x80000000u) >> 11 | (first & 0xff000) | (first >> 9 & 0x800) | (first >> 20 & 0x7fe);
    target = at + (word)off;
  } else {
    const u32 rd = first >> 7 & 31, second = code_at(at + 4);
    if ((first & 0x7f) != 0x17 || (rd != 1 && rd != 5) || (second & 0xfffff) != (rd << 15 | rd << 7 | 0x67)) return 0;
    target = at + (word)(long)(int)(first & 0xfffff000u) + (word)((long)(int)second >> 20);
  }
#ifndef ENTRY_PLAIN
  if (target == (word)ftrace_regs_caller) return 1;
#endif
  return target == (word)ftrace_caller;
}
/* SITE_OFFSET: from what callbacks are told to the pair. */
static int is_site(word ip) {
  return leads(ip + SITE_OFFSET);
}
static int is_return(word address) {
  if (address == (word)return_to_handler) return 1;
  const u32 code = code_at(address - 4);
  return (code & 0xfff) == 0x0ef || (code & 0x7fff) == 0x00e7 || (code >> 16 & 0xf07f) == 0x9002;
}
#else
/* The address is a call of an entry: an unconditional bl to it, or to its local entry. */
static int is_site(word ip) {
  const u32 code = *(const u32 *)ip;
  if ((code & 0xfc000003u) != 0x48000001u) return 0;
  const word target = ip + (word)((long)(int)((code & 0x03fffffcu) << 6) >> 6);
#ifdef RUNTIME_REGS
  if (target == text(ftrace_regs_caller)) return 1;
#endif
  return target == text(ftrace_caller) || target == text(ftrace_caller) + 8;
}

/* Behind a call, or where functions reached by a tail call of a hooked one return to. */
static int is_return(word address) {
  if (address == text(return_to_handler)) return 1;
  const u32 code = *(const u32 *)(address - 4);
  return (code & 0xfc000003u) == 0x48000001u || code == 0x4e800421u || code == 0x4e800021u;
}
#endif

static u64 open_calls[64][2];

#ifndef SYS_WRITE
#define SYS_WRITE 4
#endif
static struct ops ops[3];
static int number_of_ops;
static void use(callback *function, word flags) {
  struct ops *const last = number_of_ops ? &ops[number_of_ops - 1] : 0;
  struct ops *const each = &ops[number_of_ops++];
  each->func = text(function);
  each->flags = flags;
  each->next = &ftrace_list_end;
  if (last) last->next = each;
  else function_trace_op = ftrace_ops_list = each;
}

int main(int argc, char **argv, char **envp) {
#ifdef USE_FUNCTION
  use(elftrace_function_tracer, 0);
#endif
#ifdef USE_COUNTER
  use(elftrace_counter, 0);
#endif
#if defined(USE_GRAPH) && defined(RUNTIME_REGS)
  use(ftrace_graph_func, 0);
#endif
  const int code = traced_main(argc, argv, envp);
  const struct ring *const ring = elftrace_ring;
  const word head = (word)ring->head;
  const word first = head > ring->capacity ? head - ring->capacity : 0;
  word entries = 0, returns = 0, wrong_site = 0, wrong_parent = 0, unpaired = 0, backwards = 0, depth = 0, deepest = 0;
  u64 before = 0;
  for (word at = first; at < head; at++) {
    const struct ring_record found = read_record(ring, at), *const record = &found;
    if (!is_site((word)record->ip)) wrong_site++;
    if (!is_return((word)record->parent_ip)) wrong_parent++;
    if (record->time < before) backwards++;
    before = record->time;
    if (record->kind == RECORD_ENTRY || record->kind == RECORD_CALL) {
      entries++;
      if (depth < 64) {
        open_calls[depth][0] = record->ip;
        open_calls[depth][1] = record->parent_ip;
      }
      if (++depth > deepest) deepest = depth;
    } else if (record->kind == RECORD_RETURN) {
      returns++;
      if (depth) depth--;
      if (depth < 64 && (open_calls[depth][0] != record->ip || open_calls[depth][1] != record->parent_ip)) unpaired++;
    }
  }
  const struct thread *const thread = &elftrace_graph_stack[0];
  say("head", ring->head);
  say("dropped", ring->dropped);
  say("entries", entries);
  say("returns", returns);
  say("unpaired", unpaired);
  say("deepest", deepest);
  say("wrong-site", wrong_site);
  say("wrong-parent", wrong_parent);
  say("backwards", backwards);
  say("count", elftrace_count);
  say("depth", thread->depth);
  say("overrun", thread->overrun);
  say("abandoned", thread->abandoned);
  say("threads", (elftrace_graph_stack[0].owner != 0) + (elftrace_graph_stack[1].owner != 0));
  say("stopped", elftrace_graph_stopped);
  sys(SYS_WRITE, 2L, buffer, (long)used);
  return code;
}
