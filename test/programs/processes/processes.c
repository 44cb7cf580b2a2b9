/* Processes and what they send each other. Prints what Linux does on every machine. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static volatile sig_atomic_t children, broken;
static siginfo_t told;
static void wake(int number) {}
static void on_child(int s, siginfo_t *info, void *context) { (void)s; (void)context; children++; told = *info; }
static void on_pipe(int s) { (void)s; broken++; }
static int shared;

static pid_t begin(void) {
  fflush(stdout);
  return fork();
}
static int end(pid_t c) {
  int status;
  while (waitpid(c, &status, 0) != c)
    if (errno != EINTR) return -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static void pipes(void) {
  int p[2];
  char b[200];
  printf("pipe %d\n", pipe(p));
  pid_t c = begin();
  if (c == 0) {
    close(p[0]);
    for (int i = 0; i < 3; i++) dprintf(p[1], "line %d\n", i);
    _exit(3);
  }
  close(p[1]);
  int n, all = 0;
  while ((n = (int)read(p[0], b, 7)) > 0) all += n;
  printf("read %d status %d\n", all, end(c));
  close(p[0]);
  /* More than a pipe holds: the writer waits for the reader. */
  pipe(p);
  c = begin();
  if (c == 0) {
    static char big[200000];
    memset(big, 'x', sizeof big);
    close(p[0]);
    _exit(write(p[1], big, sizeof big) == sizeof big ? 8 : 9);
  }
  close(p[1]);
  all = 0;
  while ((n = (int)read(p[0], b, sizeof b)) > 0) all += n;
  printf("big %d status %d\n", all, end(c));
  close(p[0]);
  pipe2(p, O_NONBLOCK | O_CLOEXEC);
  n = (int)read(p[0], b, 1);
  printf("empty %d %d\n", n, errno == EAGAIN);
  all = 0;
  while ((n = (int)write(p[1], b, sizeof b)) > 0) all += n;
  printf("full %d %d\n", all, errno == EAGAIN);
  printf("flags %d %d\n", fcntl(p[0], F_GETFD), (fcntl(p[0], F_GETFL) & (O_NONBLOCK | O_ACCMODE)) == O_NONBLOCK);
  close(p[0]);
  n = (int)write(p[1], b, 1);
  printf("broken %d %d %d\n", n, errno == EPIPE, (int)broken);
  close(p[1]);
  pipe(p);
  c = begin();
  if (c == 0) { close(p[0]); signal(SIGPIPE, SIG_DFL); usleep(2000); write(p[1], b, 1); _exit(1); }
  close(p[0]);
  close(p[1]);
  printf("killed by %d\n", end(c));
}

static void copies(void) {
  char name[] = "/proc/self/exe";
  int a = open(name, O_RDONLY), b = dup(a), c = fcntl(a, F_DUPFD, 100);
  char x[8], y[8];
  read(a, x, 4);
  printf("copies %d %d %d\n", b > a, c >= 100, (int)lseek(c, 0, SEEK_CUR));
  pid_t child = begin();
  if (child == 0) { read(b, y, 4); _exit(0); }
  end(child);
  printf("offset %d %d\n", (int)lseek(a, 0, SEEK_CUR), memcmp(x, "\177ELF", 4));
  printf("dup2 %d %d\n", dup2(a, 50) == 50, dup2(999, 51) == -1 && errno == EBADF);
  printf("dup3 %d %d\n", dup3(a, 52, O_CLOEXEC) == 52 && fcntl(52, F_GETFD) == FD_CLOEXEC, dup3(a, a, 0) == -1 && errno == EINVAL);
  close(a), close(b), close(c), close(50), close(52);
}

static void ends(void) {
  pid_t c = begin();
  if (c == 0) *(volatile int *)0 = 1;
  printf("fault %d\n", end(c));
  c = begin();
  if (c == 0) abort();
  printf("abort %d\n", end(c));
  c = begin();
  if (c == 0) for (;;) pause();
  kill(c, SIGTERM);
  printf("term %d\n", end(c));
  c = begin();
  if (c == 0) { shared = 5; _exit(shared); }
  int ended = end(c);
  printf("own memory %d %d\n", ended, shared);
  c = vfork();
  if (c == 0) { shared = 6; _exit(5); }
  ended = end(c);
  printf("vfork %d %d\n", ended, shared);
  c = begin();
  if (c == 0) { sigset_t all; sigfillset(&all); sigprocmask(SIG_BLOCK, &all, 0); for (;;) pause(); }
  kill(c, SIGKILL);
  printf("kill %d\n", end(c));
}

static void waits(void) {
  siginfo_t info;
  int status;
  printf("none %d", waitpid(-1, &status, 0));
  printf(" %d\n", errno == ECHILD);
  pid_t a = begin();
  if (a == 0) { usleep(300000); _exit(1); }
  pid_t b = begin();
  if (b == 0) _exit(2);
  printf("not yet %d\n", waitpid(a, &status, WNOHANG));
  printf("waitid %d", waitid(P_PID, (id_t)b, &info, WEXITED | WNOWAIT));
  printf(" %d %d %d %d\n", info.si_signo == SIGCHLD, info.si_code == CLD_EXITED, info.si_status, info.si_pid == b);
  printf("first %d\n", waitpid(-1, &status, 0) == b && WEXITSTATUS(status) == 2);
  printf("second %d\n", waitpid(0, &status, 0) == a && WEXITSTATUS(status) == 1);
  printf("strange %d\n", waitpid(1, &status, 0) == -1 && errno == ECHILD);
  struct sigaction action = {0}, old;
  action.sa_sigaction = on_child;
  action.sa_flags = SA_SIGINFO | SA_RESTART;
  sigaction(SIGCHLD, &action, &old);
  children = 0;
  a = begin();
  if (a == 0) _exit(7);
  printf("handled %d", end(a));
  printf(" %d %d %d %d\n", (int)children, told.si_pid == a, told.si_status, told.si_code == CLD_EXITED);
  signal(SIGCHLD, SIG_IGN);
  a = begin();
  if (a == 0) _exit(7);
  int gone = waitpid(a, &status, 0);
  printf("ignored %d %d\n", gone, errno == ECHILD);
  sigaction(SIGCHLD, &old, 0);
  a = begin();
  if (a == 0) {
    setpgid(0, 0);
    pid_t inner = fork();
    if (inner == 0) for (;;) pause();
    _exit(kill(0, 0) == 0 && getpgid(inner) == getpid() && getpgrp() == getpid() ? (kill(inner, SIGKILL), 4) : 5);
  }
  printf("group %d\n", end(a));
  a = begin();
  if (a == 0) _exit(setsid() == getpid() && getsid(0) == getpid() ? 6 : 7);
  printf("session %d\n", end(a));
}

static void events(void) {
  int s[2], ev = eventfd(3, EFD_SEMAPHORE), ep = epoll_create1(0);
  char b[10];
  unsigned long long value;
  struct epoll_event e = {.events = EPOLLIN, .data.u64 = 0x1122334455667788}, out[4];
  printf("pair %d\n", socketpair(AF_UNIX, SOCK_STREAM, 0, s));
  read(ev, &value, 8);
  printf("semaphore %d\n", (int)value);
  printf("add %d", epoll_ctl(ep, EPOLL_CTL_ADD, s[0], &e));
  printf(" %d", epoll_ctl(ep, EPOLL_CTL_ADD, s[0], &e));
  printf(" %d\n", errno == EEXIST);
  printf("quiet %d\n", epoll_wait(ep, out, 4, 5));
  pid_t c = begin();
  if (c == 0) { usleep(1000); write(s[1], "hi", 2); _exit(0); }
  int n = epoll_wait(ep, out, 4, -1);
  printf("epoll %d %d %d\n", n, out[0].data.u64 == e.data.u64, out[0].events == EPOLLIN);
  end(c);
  printf("again %d\n", epoll_wait(ep, out, 4, 0));
  e.events = EPOLLIN | EPOLLET;
  epoll_ctl(ep, EPOLL_CTL_MOD, s[0], &e);
  printf("edge %d", epoll_wait(ep, out, 4, 0));
  printf(" %d\n", epoll_wait(ep, out, 4, 0));
  printf("socket %d\n", (int)read(s[0], b, sizeof b));
  struct pollfd p[2] = {{s[0], POLLIN | POLLOUT, 0}, {ev, POLLIN, 0}};
  n = poll(p, 2, 100);
  printf("poll %d %d %d\n", n, p[0].revents == POLLOUT, p[1].revents == POLLIN);
  fd_set in;
  FD_ZERO(&in);
  FD_SET(s[0], &in);
  struct timespec time = {0, 1000000};
  n = pselect(s[0] + 1, &in, 0, 0, &time, 0);
  printf("select %d %d\n", n, FD_ISSET(s[0], &in) != 0);
  FD_SET(s[0], &in);
  struct sigaction wakes = {0};
  wakes.sa_handler = wake;
  sigaction(SIGUSR2, &wakes, 0);
  c = fork();
  if (c == 0) { usleep(1000); kill(getppid(), SIGUSR2); _exit(0); }
  n = select(s[0] + 1, &in, 0, 0, 0);
  printf("interrupted %d %d\n", n, FD_ISSET(s[0], &in) != 0);
  end(c);
  close(s[1]);
  n = (int)read(s[0], b, 1);
  printf("end %d %d\n", n, poll(p, 1, 0) == 1 && (p[0].revents & POLLHUP) != 0);
  socketpair(AF_UNIX, SOCK_DGRAM, 0, s);
  send(s[0], "abc", 3, 0), send(s[0], "defgh", 5, 0);
  printf("messages %d", (int)recv(s[1], b, 10, 0));
  printf(" %d\n", (int)recv(s[1], b, 2, 0));
}

static void devices(void) {
  char b[16] = "not zero at all";
  int null = open("/dev/null", O_RDWR), zero = open("/dev/zero", O_RDONLY), random = open("/dev/urandom", O_RDONLY), full = open("/dev/full", O_WRONLY);
  int n = (int)write(null, b, 9);
  printf("null %d %d\n", n, (int)read(null, b, 9));
  n = (int)read(zero, b, 8);
  printf("zero %d %d\n", n, b[7]);
  printf("random %d\n", (int)read(random, b, 16));
  printf("full %d", (int)write(full, b, 1));
  printf(" %d\n", errno == ENOSPC);
}

int main(int argc, char **argv) {
  if (argc > 1 && !strcmp(argv[1], "child")) {
    printf("child %s %s %d %d\n", argv[2], getenv("WHO"), getenv("PATH") == 0, fcntl(60, F_GETFD) == -1 && fcntl(61, F_GETFD) == 0);
    return 9;
  }
  signal(SIGPIPE, on_pipe);
  pipes();
  copies();
  ends();
  waits();
  events();
  devices();
  fflush(stdout);
  if (argc < 2) return 0;
  dup3(1, 60, O_CLOEXEC), dup2(1, 61);
  char *args[] = {argv[1], "child", "x y", 0}, *none[] = {0}, *env[] = {"WHO=me", 0};
  pid_t c;
  fflush(stdout);
  int spawned = posix_spawn(&c, argv[1], 0, 0, args, env);
  printf("spawn %d status %d\n", spawned, end(c));
  printf("missing %d\n", posix_spawn(&c, "/no/such", 0, 0, args, env) == ENOENT);
  printf("exec %d", execve("/dev/null", args, env));
  printf(" %d\n", errno == EACCES);
  (void)none;
  fflush(stdout);
  execve(argv[1], args, env);
  return 1;
}
