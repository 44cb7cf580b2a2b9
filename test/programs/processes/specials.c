/* Timers, signals, processes and memory as descriptors; bytes that move between pipes. Prints what
   Linux does on every machine. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "saying.h"

static int events(int fd, int wanted, int time) { struct pollfd p = {fd, (short)wanted, 0}; poll(&p, 1, time); return p.revents; }
static void rest(int milliseconds) { struct timespec t = {0, milliseconds * 1000000L}; nanosleep(&t, 0); }

static void timers(void) {
  uint64_t count = 0;
  int t = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
  struct itimerspec set = {{0, 0}, {0, 20000000}}, old;
  say(read(t, &count, 8));
  say(read(t, &count, 4));
  say(write(t, &count, 8));
  say(fcntl(t, F_GETFD));
  say(timerfd_gettime(t, &old));
  printf("%ld %ld\n", (long)old.it_value.tv_sec, (long)old.it_value.tv_nsec);
  say(timerfd_settime(t, 0, &set, &old));
  printf("events %x\n", events(t, POLLIN | POLLOUT, 0));
  say(timerfd_gettime(t, &old));
  printf("left %d\n", old.it_value.tv_nsec > 0 && old.it_value.tv_nsec <= 20000000);
  printf("events %x\n", events(t, POLLIN | POLLOUT, 2000));
  say(read(t, &count, 8));
  printf("count %d\n", (int)count);
  say(read(t, &count, 8));
  /* Several at once; the time goes on. */
  struct itimerspec often = {{0, 10000000}, {0, 10000000}};
  say(timerfd_settime(t, 0, &often, &old));
  rest(55);
  say(read(t, &count, 8));
  printf("count %d\n", count >= 5 && count < 40);
  fcntl(t, F_SETFL, 0);
  say(read(t, &count, 8));
  printf("count %d\n", count >= 1);
  memset(&often, 0, sizeof often);
  say(timerfd_settime(t, 0, &often, &old));
  printf("interval %ld\n", (long)old.it_interval.tv_nsec);
  printf("events %x\n", events(t, POLLIN, 30));
  struct itimerspec bad = {{0, 0}, {0, 1000000000}};
  say(timerfd_settime(t, 0, &bad, 0));
  say(timerfd_settime(t, 99, &set, 0));
  say(timerfd_settime(0, 0, &set, 0));
  say(timerfd_create(99, 0));
  say(timerfd_create(CLOCK_MONOTONIC, 1));
  /* Of an absolute time that is past. */
  struct itimerspec past = {{0, 0}, {0, 1}};
  say(timerfd_settime(t, TFD_TIMER_ABSTIME, &past, 0));
  printf("events %x\n", events(t, POLLIN, 0));
  /* An epoll waits for it and for a pipe. */
  int e = epoll_create1(0), p[2];
  pipe(p);
  struct epoll_event event = {EPOLLIN, {.u32 = 1}}, list[4];
  read(t, &count, 8);
  timerfd_settime(t, 0, &set, 0);
  epoll_ctl(e, EPOLL_CTL_ADD, t, &event);
  event.data.u32 = 2;
  epoll_ctl(e, EPOLL_CTL_ADD, p[0], &event);
  say(epoll_wait(e, list, 4, -1));
  printf("who %d\n", list[0].data.u32);
  close(t), close(e), close(p[0]), close(p[1]);
}

static void show(int fd) {
  struct signalfd_siginfo info;
  memset(&info, 0xff, sizeof info);
  errno = 0;
  int n = read(fd, &info, sizeof info);
  printf("read %d %d", n, n < 0 ? errno : 0);
  if (n > 0) printf(" signal %d code %d own %d user %d status %d int %d ptr %d", info.ssi_signo, info.ssi_code, info.ssi_pid == getpid(), info.ssi_uid == getuid(), info.ssi_signo == SIGCHLD ? info.ssi_status : 0, info.ssi_code == SI_QUEUE ? info.ssi_int : 0, info.ssi_code == SI_QUEUE ? (int)info.ssi_ptr : 0);
  printf("\n");
}
static void signals(void) {
  sigset_t set, usual;
  sigemptyset(&set);
  sigaddset(&set, SIGUSR1);
  sigaddset(&set, SIGCHLD);
  sigaddset(&set, SIGRTMIN + 1);
  sigprocmask(SIG_BLOCK, &set, &usual);
  int s = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
  show(s);
  printf("events %x\n", events(s, POLLIN | POLLOUT, 0));
  kill(getpid(), SIGUSR1);
  printf("events %x\n", events(s, POLLIN | POLLOUT, 0));
  show(s);
  union sigval value = {.sival_ptr = (void *)0x1234L};
  sigqueue(getpid(), SIGRTMIN + 1, value);
  value.sival_ptr = (void *)0x5678L;
  sigqueue(getpid(), SIGRTMIN + 1, value);
  struct signalfd_siginfo both[3];
  say(read(s, both, sizeof both));
  printf("%d %d\n", (int)both[0].ssi_ptr, (int)both[1].ssi_ptr);
  pid_t c = begin();
  if (c == 0) _exit(17);
  printf("events %x\n", events(s, POLLIN, 3000));
  show(s);
  end(c);
  fcntl(s, F_SETFL, 0);
  c = begin();
  if (c == 0) { rest(10); kill(getppid(), SIGUSR1); _exit(0); }
  show(s);
  end(c);
  show(s);
  sigdelset(&set, SIGUSR1);
  say(signalfd(s, &set, SFD_NONBLOCK) == s);
  kill(getpid(), SIGUSR1);
  printf("events %x\n", events(s, POLLIN, 0));
  say(read(s, both, 12));
  say(syscall(SYS_signalfd4, -1, &set, 4, 0));
  say(signalfd(0, &set, 0));
  signal(SIGUSR1, SIG_IGN);
  close(s);
  sigprocmask(SIG_SETMASK, &usual, 0);
}

#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif
#ifndef SYS_pidfd_send_signal
#define SYS_pidfd_send_signal 424
#endif
#ifndef SYS_pidfd_getfd
#define SYS_pidfd_getfd 438
#endif
static void processes(void) {
  int p[2];
  pipe(p);
  pid_t c = begin();
  if (c == 0) { char b; read(p[0], &b, 1); for (;;) pause(); }
  int fd = syscall(SYS_pidfd_open, c, 0);
  printf("pidfd %d %d\n", fd >= 0, fcntl(fd, F_GETFD));
  printf("events %x\n", events(fd, POLLIN, 0));
  say(syscall(SYS_pidfd_send_signal, fd, 0, 0, 0));
  say(syscall(SYS_pidfd_open, 0, 0));
  say(syscall(SYS_pidfd_open, c, 7));
  say(syscall(SYS_pidfd_open, 999999, 0));
  siginfo_t info;
  memset(&info, 0, sizeof info);
  say(waitid(P_PIDFD, fd, &info, WEXITED | WNOHANG));
  say(syscall(SYS_pidfd_send_signal, fd, SIGTERM, 0, 0));
  printf("events %x\n", events(fd, POLLIN, 3000));
  say(waitid(P_PIDFD, fd, &info, WEXITED));
  printf("%d %d %d\n", info.si_pid == c, info.si_code, info.si_status);
  say(syscall(SYS_pidfd_send_signal, fd, 0, 0, 0));
  say(waitid(P_PIDFD, fd, &info, WEXITED));
  say(waitid(P_PIDFD, p[0], &info, WEXITED));
  char b[4];
  say(read(fd, b, 4));
  close(fd);
  /* A descriptor of a child, which is one of this process by another number. */
  fd = syscall(SYS_pidfd_open, getpid(), 0);
  int copy = syscall(SYS_pidfd_getfd, fd, p[1], 0);
  if (copy < 0) { copy = dup(p[1]); }
  say(write(copy, "x", 1));
  say(read(p[0], b, 1));
  close(copy), close(fd), close(p[0]), close(p[1]);
}

static void memory(void) {
  int m = memfd_create("some memory", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  struct stat st;
  char path[64], text[64] = "";
  snprintf(path, sizeof path, "/proc/self/fd/%d", m);
  readlink(path, text, sizeof text - 1);
  printf("%s\n", text);
  say(fstat(m, &st));
  printf("%o %d %d\n", st.st_mode, (int)st.st_nlink, (int)st.st_size);
  say(write(m, "hello", 5));
  say(ftruncate(m, 100000));
  say(pwrite(m, "end", 3, 99990));
  char extents[64] = {0};
  say(ioctl(m, 0xc020660b, extents));
  say(lseek(m, 0, SEEK_END));
  char *a = mmap(0, 100000, PROT_READ | PROT_WRITE, MAP_SHARED, m, 0);
  printf("%.5s %d %.3s\n", a, a[50000], a + 99990);
  pid_t c = begin();
  if (c == 0) { strcpy(a + 50000, "from the child"); pwrite(m, "J", 1, 0); _exit(0); }
  end(c);
  printf("%.5s %s\n", a, a + 50000);
  memcpy(a + 10, "stored", 6);
  say(pread(m, text, 6, 10));
  printf("%.6s\n", text);
  char *b = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE, m, 0);
  b[0] = 'x';
  printf("%c\n", a[0]);
  say(fcntl(m, F_GET_SEALS));
  say(fcntl(m, F_ADD_SEALS, F_SEAL_SHRINK));
  say(ftruncate(m, 5));
  say(ftruncate(m, 200000));
  say(fcntl(m, F_ADD_SEALS, F_SEAL_WRITE));
  munmap(a, 100000);
  say(fcntl(m, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW));
  say(write(m, "x", 1));
  say(ftruncate(m, 300000));
  say((long)mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, m, 0) == -1);
  a = mmap(0, 4096, PROT_READ, MAP_SHARED, m, 0);
  printf("%.5s\n", a);
  say(mprotect(a, 4096, PROT_READ | PROT_WRITE));
  say(fcntl(m, F_ADD_SEALS, F_SEAL_SEAL));
  say(fcntl(m, F_ADD_SEALS, F_SEAL_SHRINK));
  say(fcntl(m, F_GET_SEALS));
  int n = memfd_create("", 0);
  say(fcntl(n, F_GET_SEALS));
  say(fcntl(n, F_ADD_SEALS, F_SEAL_GROW));
  say(fcntl(1, F_ADD_SEALS, F_SEAL_GROW));
  say(memfd_create("x", 0x100));
  static char long_name[300];
  memset(long_name, 'n', 299);
  say(memfd_create(long_name, 0));
  /* Mappings that were there before the seal. */
  ftruncate(n = memfd_create("future", MFD_ALLOW_SEALING), 4096);
  a = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, n, 0);
  say(fcntl(n, F_ADD_SEALS, 0x10));
  strcpy(a, "still");
  say(write(n, "x", 1));
  say(pread(n, text, 6, 0));
  printf("%s\n", text);
}

static void moves(void) {
  int p[2], q[2], two[2], m = memfd_create("file", 0), fd;
  char b[64] = "";
  loff_t at = 3;
  pipe(p), pipe(q);
  socketpair(AF_UNIX, SOCK_STREAM, 0, two);
  write(m, "0123456789", 10);
  say(splice(m, &at, p[1], 0, 4, 0));
  printf("at %d\n", (int)at);
  say(tee(p[0], q[1], 10, 0));
  say(read(q[0], b, 10));
  printf("%.4s\n", b);
  at = 20;
  say(splice(p[0], 0, m, &at, 2, 0));
  say(splice(p[0], 0, two[0], 0, 10, 0));
  say(read(two[1], b, 10));
  write(two[1], "from a socket", 13);
  say(splice(two[0], 0, q[1], 0, 100, 0));
  say(splice(q[0], 0, p[1], 0, 6, 0));
  say(read(p[0], b, 20));
  say(read(q[0], b, 20));
  say(splice(p[0], 0, m, 0, 5, SPLICE_F_NONBLOCK));
  say(tee(p[0], q[1], 5, SPLICE_F_NONBLOCK));
  say(splice(m, 0, m, 0, 5, 0));
  say(splice(p[0], &at, m, 0, 5, 0));
  say(splice(p[0], 0, p[1], 0, 5, 0));
  say(splice(p[1], 0, m, 0, 5, 0));
  say(splice(m, 0, p[1], 0, 5, 0x100));
  lseek(m, 0, SEEK_SET);
  say(splice(m, 0, p[1], 0, 100, 0));
  say(lseek(m, 0, SEEK_CUR));
  say(splice(m, 0, p[1], 0, 100, 0));
  struct iovec parts[2] = {{"ab", 2}, {"cde", 3}}, into = {b, 60};
  say(vmsplice(q[1], parts, 2, 0));
  say(vmsplice(q[0], &into, 1, 0));
  printf("%.5s\n", b);
  pid_t c = begin();
  if (c == 0) { rest(10); write(q[1], "late", 4); _exit(0); }
  close(q[1]);
  say(splice(q[0], 0, m, 0, 100, 0));
  end(c);
  say(splice(q[0], 0, m, 0, 100, 0));
}

/* Pipes in the tree. */
static void fifos(const char *folder) {
  char path[200], other[200], b[32] = "";
  struct stat st;
  snprintf(path, sizeof path, "%s/pipe", folder);
  snprintf(other, sizeof other, "%s/renamed", folder);
  say(mkfifo(path, 0640));
  say(mkfifo(path, 0640));
  say(mknod(other, S_IFREG | 0600, 0));
  say(unlink(other));
  say(stat(path, &st));
  printf("%o %d\n", st.st_mode & (S_IFMT | 0777), (int)st.st_size);
  say(open(path, O_WRONLY | O_NONBLOCK));
  say(open(path, O_RDONLY | O_CREAT | O_EXCL, 0600));
  int r = open(path, O_RDONLY | O_NONBLOCK);
  printf("events %x\n", events(r, POLLIN, 0));
  say(read(r, b, 8));
  int w = open(path, O_WRONLY | O_NONBLOCK);
  say(read(r, b, 8));
  say(write(w, "hello", 5));
  say(read(r, b, 8));
  close(w);
  printf("events %x\n", events(r, POLLIN, 0));
  close(r);
  say(rename(path, other));
  say(access(path, F_OK));
  /* Each end waits for the other. */
  for (int i = 0; i < 2; i++) {
    pid_t c = begin();
    if (c == 0) {
      if (i) rest(10);
      int out = open(other, O_WRONLY);
      write(out, i ? "late" : "early", 5);
      _exit(5);
    }
    if (!i) rest(10);
    r = open(other, O_RDONLY);
    say(read(r, b, 20));
    say(read(r, b, 20));
    printf("%.4s %d\n", b, end(c));
    close(r);
  }
  r = open(other, O_RDWR);
  say(write(r, "both", 4));
  say(read(r, b, 20));
  close(r);
  say(unlink(other));
  say(mknod(path, S_IFDIR | 0700, 0));
}

int main(int count, char **arguments) {
  setvbuf(stdout, 0, _IOFBF, 1 << 16);
  timers();
  signals();
  processes();
  memory();
  moves();
  fifos(count > 1 ? arguments[1] : "/tmp");
  return 6;
}
