/* Two processors that write records at once. */
#include "abi.h"
typedef unsigned char regs;
typedef void callback(word ip, word parent_ip, struct ops *ops, regs *regs);
extern callback elftrace_function_tracer;
extern struct ops *ftrace_ops_list, ftrace_list_end;
volatile word counts[2];
word stacks[2][1024] __attribute__((aligned(64)));
static struct ops ops;
__attribute__((noinline, noclone)) word hit(word a) { return a + 1; }
__attribute__((no_instrument_function)) void prepare(word text) {
  ops.func = text;
  ops.next = &ftrace_list_end;
  ftrace_ops_list = &ops;
  __builtin_trap();
}
__attribute__((no_instrument_function)) void worker(word cpu) {
  for (word i = 0; i < 100; i++) counts[cpu] = hit(i);
  __builtin_trap();
}
__attribute__((no_instrument_function)) int main(void) { return 0; }
