/* CPU clocks of threads and other processes, processes named by their folder below /proc, and room
   that links take. Prints what Linux does on every machine. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timex.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "saying.h"

static long long shows(clockid_t id) {
  struct timespec now = {-1, 0};
  return clock_gettime(id, &now) ? -1 : now.tv_sec * 1000000000LL + now.tv_nsec;
}
static volatile int isDone, mayEnd;
static volatile unsigned sum;
static void spin(int times) { for (int i = 0; i < times; i++) sum += i; }
static void *works(void *none) {
  spin(3000000);
  isDone = 1;
  while (!mayEnd) usleep(1000);
  return 0;
}

static void threads(void) {
  pthread_t t;
  clockid_t own, other, process;
  long long before = shows(CLOCK_THREAD_CPUTIME_ID);
  pthread_create(&t, 0, works, 0);
  while (!isDone) usleep(1000);
  say(pthread_getcpuclockid(t, &other));
  say(pthread_getcpuclockid(pthread_self(), &own));
  say(clock_getcpuclockid(0, &process));
  long long mine = shows(own), its = shows(other), all = shows(process);
  say(its > 0 && mine > 0 && all > 0);
  say(its > (mine - before) * 3);
  say(all >= its);
  say(shows(CLOCK_THREAD_CPUTIME_ID) - before < its);
  say(shows(CLOCK_PROCESS_CPUTIME_ID) >= all);
  struct timespec unit;
  say(clock_getres(other, &unit));
  printf("%ld %ld\n", (long)unit.tv_sec, unit.tv_nsec);
  mayEnd = 1;
  pthread_join(t, 0);
}

static void processes(void) {
  int p[2], q[2];
  pipe(p), pipe(q);
  pid_t c = begin();
  if (c == 0) {
    char byte;
    spin(1000000);
    write(p[1], "", 1);
    read(q[0], &byte, 1);
    _exit(4);
  }
  char byte;
  read(p[0], &byte, 1);
  clockid_t its;
  say(clock_getcpuclockid(c, &its));
  say(shows(its) > 0);
  write(q[1], "", 1);
  siginfo_t info;
  say(waitid(P_PID, c, &info, WEXITED | WNOWAIT));
  say(end(c));
  say(shows(its));
  say(clock_getcpuclockid(c, &its) == ESRCH);
  say(shows(((~5) << 3) | 3));
}

#ifndef SYS_pidfd_send_signal
#define SYS_pidfd_send_signal 424
#endif
static void folders(void) {
  char path[30];
  pid_t c = begin();
  if (c == 0) { pause(); _exit(0); }
  snprintf(path, sizeof path, "/proc/%d", c);
  const int how = O_RDONLY | O_DIRECTORY;
  int folder = open(path, how), elsewhere = open("/", how), self = open("/proc/self", how);
  say(syscall(SYS_pidfd_send_signal, folder, 0, 0, 0));
  say(syscall(SYS_pidfd_send_signal, self, 0, 0, 0));
  say(syscall(SYS_pidfd_send_signal, elsewhere, 0, 0, 0));
  say(syscall(SYS_pidfd_send_signal, folder, SIGTERM, 0, 0));
  say(end(c));
  say(syscall(SYS_pidfd_send_signal, folder, 0, 0, 0));
}

static void links(const char *dir) {
  struct stat st;
  char path[300], text[60];
  memset(text, 'x', 59), text[59] = 0;
  snprintf(path, sizeof path, "%s/short", dir);
  symlink(text, path);
  say(lstat(path, &st));
  printf("%ld %ld\n", (long)st.st_size, (long)st.st_blocks);
}

/* What steers the clock is read; who has no rights sets nothing. Linux may steer its clock. */
static void steering(void) {
  struct timex now = {0};
  struct timeval left = {7, 7};
  long before = time(NULL);
  int done = adjtimex(&now) >= 0;
  printf("%d %d\n", done, now.time.tv_sec - before < 3);
  printf("%ld %ld %ld\n", (long)now.precision, (long)now.tolerance, (long)now.tick);
  memset(&now, 0, sizeof now);
  done = clock_adjtime(CLOCK_REALTIME, &now) >= 0;
  printf("%d %ld\n", done, (long)now.tolerance);
  now.modes = ADJ_FREQUENCY;
  say(adjtimex(&now));
  now.modes = ADJ_OFFSET_SINGLESHOT;
  say(adjtimex(&now));
  now.modes = ADJ_OFFSET_SS_READ;
  done = adjtimex(&now) >= 0;
  printf("%d %ld\n", done, (long)now.offset);
  now.modes = 0x8000;
  say(adjtimex(&now));
  say(adjtime(NULL, &left));
  printf("%ld %ld\n", (long)left.tv_sec, (long)left.tv_usec);
  now.modes = 0;
  say(clock_adjtime(CLOCK_MONOTONIC, &now));
  say(clock_adjtime(77, &now));
  say(syscall(SYS_adjtimex, 16L));
}

int main(int argc, char **argv) {
  threads();
  processes();
  folders();
  links(argv[1]);
  steering();
  return 3;
}
