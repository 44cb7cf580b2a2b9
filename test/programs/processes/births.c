/* Processes that begin with a descriptor of theirs, or without the handlers of their maker (clone,
   clone3). Prints what Linux does on every machine. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include "saying.h"

enum {
  PIDFD = 0x1000, PARENT_SETTID = 0x100000, DETACHED = 0x400000,
  THREAD = 0x10000, SIGHAND = 0x800, VM = 0x100,
};
#define CLEAR 0x100000000ull
static struct clone_args {
  uint64_t flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls;
  uint64_t set_tid, set_tid_size, cgroup;
} args;
static int descriptor = -1, id = -1;

static long make(uint64_t flags) {
  memset(&args, 0, sizeof args);
  args.flags = flags, args.exit_signal = SIGCHLD;
  args.pidfd = (uintptr_t)&descriptor, args.parent_tid = (uintptr_t)&id;
  fflush(stdout);
  return syscall(435, &args, sizeof args);
}
static void handler(int signal) {}
static int hasHandler(int signal) {
  struct sigaction now;
  sigaction(signal, 0, &now);
  return now.sa_handler == handler ? 2 : now.sa_handler == SIG_IGN;
}
static int events(int fd, int time) {
  struct pollfd p = {fd, POLLIN, 0};
  poll(&p, 1, time);
  return p.revents;
}

static void described(void) {
  int p[2];
  char byte;
  pipe(p);
  pid_t c = make(PIDFD | PARENT_SETTID);
  if (c == 0) { read(p[0], &byte, 1); _exit(fcntl(descriptor, F_GETFD) < 0 ? 7 : 8); }
  say(id == c);
  say(descriptor > 2);
  say(fcntl(descriptor, F_GETFD));
  say(fcntl(descriptor, F_GETFL));
  say(events(descriptor, 0));
  say(syscall(424, descriptor, 0, 0, 0));
  write(p[1], "", 1);
  say(events(descriptor, 5000));
  siginfo_t info;
  memset(&info, 0, sizeof info);
  say(waitid(P_PIDFD, descriptor, &info, WEXITED));
  say(info.si_status);
  say(info.si_pid == c);
  close(descriptor);
  fflush(stdout);
  /* As it was first: where the id of the child would be. */
  descriptor = -1;
  c = syscall(SYS_clone, PIDFD | SIGCHLD, 0, &descriptor, 0, 0);
  if (c == 0) _exit(9);
  say(descriptor > 2);
  say(waitid(P_PIDFD, descriptor, &info, WEXITED));
  say(info.si_status);
  close(descriptor);
  say(syscall(SYS_clone, PIDFD | PARENT_SETTID | SIGCHLD, 0, &descriptor, 0, 0));
  say(make(PIDFD | DETACHED));
  say(make(PIDFD | THREAD | SIGHAND | VM));
  close(p[0]), close(p[1]);
}

static void cleared(void) {
  signal(SIGUSR1, handler);
  signal(SIGUSR2, SIG_IGN);
  pid_t c = make(CLEAR);
  if (c == 0) _exit(hasHandler(SIGUSR1) * 16 + hasHandler(SIGUSR2));
  say(end(c));
  say(hasHandler(SIGUSR1) * 16 + hasHandler(SIGUSR2));
  c = make(0);
  if (c == 0) _exit(hasHandler(SIGUSR1) * 16 + hasHandler(SIGUSR2));
  say(end(c));
  say(make(CLEAR | SIGHAND | VM));
}

int main(void) {
  described();
  cleared();
  return 3;
}
