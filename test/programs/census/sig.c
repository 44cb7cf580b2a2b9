/* Signals: handlers, masks, a stack of their own, jumps out of them, timers. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>
#include <unistd.h>
static volatile sig_atomic_t seen, ticks;
static sigjmp_buf back;
static char stack[65536];
static void on(int s, siginfo_t *info, void *context) {
  (void)context;
  char here;
  seen = s * 10 + (info->si_code <= 0) + 2 * (&here > stack && &here < stack + sizeof stack);
}
static void tick(int s) { (void)s; ticks++; }
static void jump(int s) { siglongjmp(back, s); }
int main(void) {
  stack_t own = {.ss_sp = stack, .ss_size = sizeof stack};
  sigaltstack(&own, 0);
  struct sigaction action = {0};
  action.sa_sigaction = on;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigaction(SIGUSR1, &action, 0);
  raise(SIGUSR1);
  printf("%d\n", seen);
  sigset_t set, old;
  sigemptyset(&set);
  sigaddset(&set, SIGUSR1);
  sigprocmask(SIG_BLOCK, &set, &old);
  seen = 0;
  kill(getpid(), SIGUSR1);
  sigset_t waiting;
  sigpending(&waiting);
  printf("%d %d\n", seen, sigismember(&waiting, SIGUSR1));
  sigprocmask(SIG_SETMASK, &old, 0);
  printf("%d\n", seen);
  signal(SIGSEGV, jump);
  int got = sigsetjmp(back, 1);
  if (!got) *(volatile int *)0 = 1;
  printf("caught %d\n", got);
  signal(SIGALRM, tick);
  struct itimerval timer = {{0, 1000}, {0, 1000}};
  setitimer(ITIMER_REAL, &timer, 0);
  while (ticks < 3) pause();
  printf("ticks\n");
  signal(SIGABRT, jump);
  got = sigsetjmp(back, 1);
  if (!got) abort();
  printf("aborted %d\n", got);
  return 0;
}
