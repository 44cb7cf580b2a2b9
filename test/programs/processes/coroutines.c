/* Contexts of a thread that are kept and gone on with: coroutines on stacks of their own, what they
   keep of registers and masks, and a context that is gone on with again. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

static ucontext_t home, first, second;
static char stacks[2][65536];

static void print_mask(const char *where) {
  sigset_t set;
  sigprocmask(SIG_BLOCK, NULL, &set);
  printf("%s:", where);
  for (int i = 1; i < 32; i++) if (sigismember(&set, i)) printf(" %d", i);
  printf("\n");
}

static void count(int from, int by, int to) {
  double root = 0;
  for (int i = from; i < to; i += by) {
    root += 1.0 / i;
    printf("counts %d %.6f\n", i, root);
    swapcontext(from == 1 ? &first : &second, from == 1 ? &second : &first);
    if (i == from) print_mask(from == 1 ? "first" : "second");
  }
  printf("count of %d ends\n", from);
}

static void begin(ucontext_t *context, char *stack, ucontext_t *then, int from, int by, int to) {
  getcontext(context);
  context->uc_stack.ss_sp = stack;
  context->uc_stack.ss_size = sizeof stacks[0];
  context->uc_link = then;
  sigemptyset(&context->uc_sigmask);
  sigaddset(&context->uc_sigmask, from == 1 ? SIGUSR1 : SIGTERM);
  makecontext(context, (void (*)(void))count, 3, from, by, to);
}

static void again(void) {
  ucontext_t here;
  volatile int times = 0;
  volatile double kept = 1.5;
  int got = getcontext(&here);
  printf("again %d %d %.3f\n", got, times, kept);
  kept *= 1.5;
  if (times++ < 3) setcontext(&here);
}

static volatile int handled;
static ucontext_t interrupted;
static void handler(int signal) {
  handled++;
  /* Out of the handler, to where the context was kept. */
  if (handled < 3) setcontext(&interrupted);
}
static void out_of_handlers(void) {
  signal(SIGUSR2, handler);
  getcontext(&interrupted);
  print_mask("before");
  printf("handled %d\n", handled);
  if (handled < 3) raise(SIGUSR2);
  print_mask("behind");
}

int main(void) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGHUP);
  sigprocmask(SIG_SETMASK, &set, NULL);
  begin(&first, stacks[0], &home, 1, 2, 9);
  begin(&second, stacks[1], &home, 2, 3, 12);
  printf("swap %d\n", swapcontext(&home, &first));
  print_mask("home");
  again();
  out_of_handlers();
  return 3;
}
