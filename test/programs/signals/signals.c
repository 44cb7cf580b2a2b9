/* Signals as C programs use them: everything that is printed is the same on each run and machine. */
#define _GNU_SOURCE
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

static volatile sig_atomic_t depth, count, last;
static sigjmp_buf back;
static char other_stack[65536];

static void act(int signal, void (*handler)(int, siginfo_t *, void *), int flags, int masked) {
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_sigaction = handler;
  action.sa_flags = SA_SIGINFO | flags;
  sigemptyset(&action.sa_mask);
  if (masked) sigaddset(&action.sa_mask, masked);
  if (sigaction(signal, &action, 0) != 0) perror("sigaction");
}

static void counting(int signal, siginfo_t *info, void *context) {
  (void)info, (void)context;
  count++;
  last = signal;
}

static void plain(int signal) { printf("plain handler of %d\n", signal); }

static void nested(int signal, siginfo_t *info, void *context) {
  sigset_t now;
  sigprocmask(SIG_BLOCK, 0, &now);
  depth++;
  printf("enter %d depth %d code %d mine %d blocked %d%d%d\n", signal, (int)depth, info->si_code, info->si_pid == getpid(),
         sigismember(&now, SIGUSR1), sigismember(&now, SIGUSR2), sigismember(&now, SIGTERM));
  if (signal == SIGUSR1 && depth == 1) raise(SIGUSR2), raise(SIGTERM);
  printf("leave %d depth %d\n", signal, (int)depth);
  depth--;
  (void)context;
}

static void faulting(int signal, siginfo_t *info, void *context) {
  char here;
  int on = &here >= other_stack && &here < other_stack + sizeof other_stack;
  /* qemu-user does not tell what is not mapped from what may not be accessed on each machine. */
  printf("fault %d code %d address %s on stack %d\n", signal, info->si_addr == (void *)16 ? info->si_code : info->si_code > 0,
         info->si_addr == (void *)16 ? "16" : info->si_addr == 0 ? "none" : "other", on);
  (void)context;
  siglongjmp(back, signal);
}

static int registers_kept(void) {
  volatile double d[8];
  volatile long n[8];
  double sum = 0;
  for (int i = 0; i < 8; i++) d[i] = 1.5 * i, n[i] = 1000 + i;
  for (int round = 0; round < 50; round++) {
    double x = d[round % 8] + round, y = x * 3, z = y - 0.25;
    long a = n[round % 8] * 7, b = a ^ round;
    raise(SIGUSR1);
    sum += x + y + z + (double)(a + b);
  }
  printf("sum %.4f\n", sum);
  return (int)count;
}

static void computing(int signal, siginfo_t *info, void *context) {
  volatile double x = 1;
  for (int i = 0; i < 20; i++) x = x * 1.25 + i;
  (void)signal, (void)info, (void)context;
  count++;
}

static volatile double shared_sum;
static volatile int ticks;
static void ticking(int signal, siginfo_t *info, void *context) {
  (void)signal, (void)info, (void)context;
  volatile double x = ticks;
  x = x / 3 + 1;
  ticks++;
}

static void timers(void) {
  struct itimerval every = {{0, 50}, {0, 50}}, old, off = {{0, 0}, {0, 0}};
  double expected = 0, got = 0;
  act(SIGALRM, ticking, SA_RESTART, 0);
  printf("set %d\n", setitimer(ITIMER_REAL, &every, 0));
  while (ticks < 10) {
    got = 0;
    for (int i = 1; i < 200; i++) got += 1.0 / i;
    if (expected == 0) expected = got;
    if (got != expected) printf("a handler changed what was computed\n");
  }
  setitimer(ITIMER_REAL, &off, &old);
  printf("interval %ld ticked %d\n", (long)old.it_interval.tv_usec, ticks >= 10);
  getitimer(ITIMER_REAL, &old);
  printf("off %ld %ld\n", (long)old.it_value.tv_sec, (long)old.it_value.tv_usec);

  struct timespec second = {1, 0}, rest = {0, 0};
  act(SIGALRM, counting, 0, 0);
  count = 0;
  struct itimerval once = {{0, 0}, {0, 20000}};
  setitimer(ITIMER_REAL, &once, 0);
  errno = 0;
  int result = nanosleep(&second, &rest);
  printf("sleep %d %s rest %d handler %d\n", result, errno == EINTR ? "EINTR" : "other", rest.tv_sec == 0 && rest.tv_nsec > 0, (int)count);
  alarm(1);
  result = pause();
  printf("pause %d %s\n", result, errno == EINTR ? "EINTR" : "other");
  printf("alarm %u\n", alarm(0));

  timer_t id;
  struct sigevent event;
  memset(&event, 0, sizeof event);
  event.sigev_notify = SIGEV_SIGNAL;
  event.sigev_signo = SIGRTMIN + 1;
  event.sigev_value.sival_int = 77;
  sigset_t wanted;
  sigemptyset(&wanted);
  sigaddset(&wanted, SIGRTMIN + 1);
  sigprocmask(SIG_BLOCK, &wanted, 0);
  printf("timer_create %d\n", timer_create(CLOCK_MONOTONIC, &event, &id));
  struct itimerspec soon = {{0, 0}, {0, 1000000}};
  printf("timer_settime %d\n", timer_settime(id, 0, &soon, 0));
  siginfo_t info;
  memset(&info, 0, sizeof info);
  printf("waited %d", sigwaitinfo(&wanted, &info) == SIGRTMIN + 1);
  printf(" code %d value %d overrun %d\n", info.si_code, info.si_value.sival_int, timer_getoverrun(id));
  printf("timer_delete %d\n", timer_delete(id));
  struct timespec nothing = {0, 1000};
  result = sigtimedwait(&wanted, &info, &nothing);
  printf("nothing comes %d %s\n", result, errno == EAGAIN ? "EAGAIN" : "other");
}

static void queue(void) {
  sigset_t both, pending, none;
  sigemptyset(&both);
  sigemptyset(&none);
  sigaddset(&both, SIGUSR1);
  sigaddset(&both, SIGRTMIN);
  sigprocmask(SIG_SETMASK, &both, 0);
  act(SIGUSR1, counting, 0, 0);
  act(SIGRTMIN, counting, 0, 0);
  count = 0;
  union sigval value = {.sival_int = 5};
  for (int i = 0; i < 3; i++) raise(SIGUSR1), sigqueue(getpid(), SIGRTMIN, value);
  sigpending(&pending);
  printf("pending %d %d %d\n", sigismember(&pending, SIGUSR1), sigismember(&pending, SIGRTMIN), sigismember(&pending, SIGTERM));
  errno = 0;
  int result = sigsuspend(&none);
  printf("suspend %d %s count %d\n", result, errno == EINTR ? "EINTR" : "other", (int)count);
  sigprocmask(SIG_BLOCK, 0, &pending);
  printf("blocked again %d %d\n", sigismember(&pending, SIGUSR1), sigismember(&pending, SIGRTMIN));
  sigprocmask(SIG_SETMASK, &none, 0);
}

static void shown(int signal, siginfo_t *info, void *context) {
  stack_t now;
  sigaltstack(0, &now);
  ucontext_t *uc = context;
  printf("shown %d code %d value %d stack %d size %ld in context %d masked %d\n", signal, info->si_code, info->si_value.sival_int,
         now.ss_flags, (long)now.ss_size, uc->uc_stack.ss_sp == other_stack, sigismember(&uc->uc_sigmask, SIGUSR2));
}

#if defined(__x86_64__)
#define PC(uc) ((uc)->uc_mcontext.gregs[REG_RIP])
#define TRAP __asm__ volatile("int3")
#define TRAP_BYTES 0
#define ILLEGAL __asm__ volatile("ud2")
#define ILLEGAL_BYTES 2
#elif defined(__aarch64__)
#define PC(uc) ((uc)->uc_mcontext.pc)
#define TRAP __asm__ volatile("brk #0")
#define TRAP_BYTES 4
#define ILLEGAL __asm__ volatile(".inst 0")
#define ILLEGAL_BYTES 4
#elif defined(__riscv)
#define PC(uc) ((uc)->uc_mcontext.__gregs[0])
#define TRAP __asm__ volatile(".option push\n.option norvc\nebreak\n.option pop")
#define TRAP_BYTES 4
#define ILLEGAL __asm__ volatile(".word 0")
#define ILLEGAL_BYTES 4
#elif defined(__powerpc64__)
#define PC(uc) ((uc)->uc_mcontext.gp_regs[32])
#define TRAP __asm__ volatile("trap")
#define TRAP_BYTES 4
#define ILLEGAL __asm__ volatile(".long 0")
#define ILLEGAL_BYTES 4
#else
#define PC(uc) ((uc)->uc_mcontext.uc_regs->gregs[32])
#define TRAP __asm__ volatile("trap")
#define TRAP_BYTES 4
#define ILLEGAL __asm__ volatile(".long 0")
#define ILLEGAL_BYTES 4
#endif

static void skipping(int signal, siginfo_t *info, void *context) {
  ucontext_t *uc = context;
  printf("skip %d code positive %d\n", signal, info->si_code > 0);
  PC(uc) += signal == SIGTRAP ? TRAP_BYTES : ILLEGAL_BYTES;
}

static void deeper(volatile char *from) {
  volatile char room[4096];
  room[0] = *from;
  deeper(room);
  room[1] = 0;
}

int main(int argc, char **argv) {
  setvbuf(stdout, 0, _IONBF, 0);
  stack_t stack = {.ss_sp = other_stack, .ss_size = sizeof other_stack};
  if (argc > 1) {
    switch (argv[1][0]) {
    case 'a': abort();
    case 't': raise(SIGTERM); break;
    case 'd': *(volatile int *)16 = 1; break;
    case 'i': ILLEGAL; break;
    case 'l': setitimer(ITIMER_REAL, &(struct itimerval){{0, 0}, {0, 1000}}, 0); for (;;) pause();
    case 'b': {
      sigset_t all;
      sigfillset(&all);
      sigprocmask(SIG_SETMASK, &all, 0);
      act(SIGSEGV, faulting, 0, 0);
      *(volatile int *)16 = 1;
      break;
    }
    case 'n': signal(SIGSEGV, SIG_IGN); *(volatile int *)16 = 1; break;
    case 'r': signal(SIGALRM, SIG_DFL); setitimer(ITIMER_VIRTUAL, &(struct itimerval){{0, 0}, {0, 100}}, 0); for (;;) ;
    }
    return 9;
  }
  signal(SIGUSR1, plain);
  printf("raise %d\n", raise(SIGUSR1));
  struct sigaction once = {.sa_handler = plain, .sa_flags = SA_RESETHAND}, old;
  sigaction(SIGUSR1, &once, 0);
  raise(SIGUSR1);
  sigaction(SIGUSR1, 0, &old);
  printf("reset %d\n", old.sa_handler == SIG_DFL);

  act(SIGUSR1, nested, 0, SIGTERM);
  act(SIGUSR2, nested, 0, 0);
  act(SIGTERM, nested, 0, 0);
  kill(getpid(), SIGUSR1);

  act(SIGUSR1, computing, 0, 0);
  printf("handlers %d\n", registers_kept());
  queue();

  act(SIGSEGV, faulting, 0, 0);
  if (sigsetjmp(back, 1) == 0) *(volatile int *)16 = 1;
  char *page = mmap(0, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (sigsetjmp(back, 1) == 0) page[5] = 1;
  printf("altstack %d\n", sigaltstack(&stack, 0));
  act(SIGSEGV, faulting, SA_ONSTACK, 0);
  if (sigsetjmp(back, 1) == 0) deeper((char[]){1});
  if (sigsetjmp(back, 1) == 0) page[6] = 1;
  act(SIGUSR2, shown, SA_ONSTACK, 0);
  union sigval value = {.sival_int = 42};
  sigqueue(getpid(), SIGUSR2, value);
  stack.ss_flags = SS_DISABLE;
  printf("disable %d\n", sigaltstack(&stack, 0));

  act(SIGTRAP, skipping, 0, 0);
  act(SIGILL, skipping, 0, 0);
  TRAP;
  ILLEGAL;
#ifdef __x86_64__
  act(SIGFPE, faulting, 0, 0);
  volatile int zero = 0, seven = 7;
  if (sigsetjmp(back, 1) == 0) printf("%d\n", seven / zero);
#endif
  timers();
  printf("end\n");
  return 7;
}
