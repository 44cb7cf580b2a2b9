/* POSIX queues of messages: names, order, limits, waiting, times, notices; names end with the
   process's number. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <mqueue.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define S(what) do { errno = 0; long got_ = (what); int error_ = errno; \
  printf("%s: %ld %d\n", #what, got_, got_ < 0 ? error_ : 0); fflush(stdout); } while (0)

static char name[64], other[64];
static char text[10000];
static const struct timespec past = {1, 0}, wrong = {1, 1000000000};

static void show(int queue) {
  struct mq_attr now;
  if (mq_getattr(queue, &now) < 0) printf("no attributes: %d\n", errno);
  else printf("%ld %ld %ld %ld\n", now.mq_flags & O_NONBLOCK, now.mq_maxmsg, now.mq_msgsize, now.mq_curmsgs);
}

static struct timespec soon(long milliseconds) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  now.tv_nsec += milliseconds * 1000000;
  now.tv_sec += now.tv_nsec / 1000000000; now.tv_nsec %= 1000000000;
  return now;
}

static long receive(int queue, const struct timespec *until) {
  unsigned priority = 77;
  memset(text, 0, 16);
  long got = until ? mq_timedreceive(queue, text, sizeof text, &priority, until)
      : mq_receive(queue, text, sizeof text, &priority);
  int error = errno;
  printf("received %u %.10s\n", got < 0 ? 0 : priority, text);
  errno = error;
  return got;
}

/* Until a child has ended; a handler that runs meanwhile ends no wait. */
static void await(int *status) { while (wait(status) < 0 && errno == EINTR); }

static void names(void) {
  char longest[300];
  memset(longest, 'n', sizeof longest); longest[0] = '/'; longest[299] = 0;
  S(mq_open(name, O_RDWR)); S(mq_open("none", O_RDWR));
  S(mq_open("/a/b", O_RDWR | O_CREAT, 0600, 0)); S(mq_open("/..", O_RDWR | O_CREAT, 0600, 0));
  S(mq_open(longest, O_RDWR)); S(syscall(SYS_mq_open, "", O_RDWR, 0, 0));
  S(syscall(SYS_mq_open, -8L, O_RDWR, 0, 0));
  S(syscall(SYS_mq_open, "x", O_RDWR | O_CREAT, 0600, -8L));
  int queue = mq_open(name, O_RDWR | O_CREAT | O_EXCL, 0620, 0);
  S(queue); show(queue); S(fcntl(queue, F_GETFD)); S(fcntl(queue, F_GETFL) & (O_ACCMODE | O_NONBLOCK));
  S(mq_open(name, O_RDWR | O_CREAT | O_EXCL, 0600, 0)); S(mq_open(name, O_RDWR | O_WRONLY));
  int again = mq_open(name, O_RDONLY | O_CREAT, 0600, 0);
  S(again); S(mq_send(again, "x", 1, 0)); S(mq_timedsend(again, "x", 1, 0, &wrong));
  int written = mq_open(name, O_WRONLY | O_NONBLOCK);
  S(mq_send(written, "of another", 10, 3)); S(receive(written, 0)); S(receive(again, 0));
  struct stat status;
  S(fstat(queue, &status)); S(status.st_mode & 07777777); S(status.st_size); S(status.st_nlink);
  S(lseek(queue, 0, SEEK_SET)); S(write(queue, "x", 1));
  S(mq_close(again)); S(mq_close(again)); S(mq_unlink(name)); S(mq_unlink(name)); S(mq_open(name, O_RDWR));
  S(mq_send(queue, "still", 5, 0)); S(receive(queue, 0)); S(fstat(queue, &status)); S(status.st_nlink);
  int closed = mq_open(other, O_RDWR | O_CREAT, 0200, 0), refused = mq_open(other, O_RDONLY);
  S(refused); S(mq_open(other, O_WRONLY) >= 0); S(mq_unlink(other)); S(closed >= 0);
  S(mq_send(1, "x", 1, 0)); S(mq_receive(1, text, sizeof text, 0));
  S(syscall(SYS_mq_getsetattr, 1, 0, 0)); S(mq_notify(1, 0)); S(mq_send(99, "x", 1, 0));
}

static void limits(void) {
  struct mq_attr wanted = {.mq_maxmsg = 3, .mq_msgsize = 16, .mq_flags = O_NONBLOCK, .mq_curmsgs = 2};
  struct mq_attr bad[] = {{.mq_maxmsg = 0, .mq_msgsize = 8}, {.mq_maxmsg = 2, .mq_msgsize = -1},
      {.mq_maxmsg = 11, .mq_msgsize = 8}, {.mq_maxmsg = 2, .mq_msgsize = 8193}};
  for (int i = 0; i < 4; i++) S(mq_open(name, O_RDWR | O_CREAT, 0600, &bad[i]));
  int queue = mq_open(name, O_RDWR | O_CREAT, 0600, &wanted);
  show(queue);
  S(mq_send(queue, text, 17, 0)); S(mq_send(queue, "low", 3, 1));
  S(mq_send(queue, "high", 4, 32767)); S(mq_send(queue, "x", 1, 32768));
  S(mq_send(queue, "low again", 9, 1));
  S(syscall(SYS_mq_timedsend, queue, -8L, 3, 0, 0));
  S(mq_timedsend(queue, "full", 4, 0, &past)); S(mq_timedsend(queue, "full", 4, 0, &wrong));
  S(syscall(SYS_mq_timedsend, queue, "x", 1, 0, -8L));
  struct timespec then = soon(3);
  S(mq_timedsend(queue, "full", 4, 0, &then));
  struct mq_attr flags = {.mq_flags = O_NONBLOCK}, old;
  S(mq_setattr(queue, &flags, &old)); S(old.mq_flags); show(queue); S(mq_send(queue, "full", 4, 0));
  flags.mq_flags = O_APPEND; S(mq_setattr(queue, &flags, 0));
  S(syscall(SYS_mq_getsetattr, queue, -8L, 0)); S(syscall(SYS_mq_getsetattr, queue, 0, -8L));
  struct pollfd both = {queue, POLLIN | POLLOUT, 0};
  S(poll(&both, 1, 0)); S(both.revents);
  char line[128] = ""; long got = read(queue, line, sizeof line);
  printf("%ld %s", got, line);
  S(mq_receive(queue, text, 15, 0)); S(receive(queue, 0)); S(poll(&both, 1, 0)); S(both.revents);
  S(receive(queue, 0)); S(mq_receive(queue, text, 16, 0));
  S(receive(queue, 0)); S(poll(&both, 1, 0)); S(both.revents);
  flags.mq_flags = 0; S(mq_setattr(queue, &flags, 0)); S(receive(queue, &past)); then = soon(3);
  S(receive(queue, &then)); S(receive(queue, &wrong));
  S(mq_unlink(name));
  int many = 0;
  for (char each[80]; many < 300; many++) {
    snprintf(each, sizeof each, "%s-%d", name, many);
    if (mq_open(each, O_RDWR | O_CREAT, 0600, 0) < 0) break;
  }
  printf("%d: %d\n", many, errno);
  for (int i = 0; i < many; i++) {
    char each[80]; snprintf(each, sizeof each, "%s-%d", name, i);
    if (mq_unlink(each)) printf("no %d\n", i);
  }
  S(mq_open(other, O_RDWR | O_CREAT, 0600, 0));
  for (int i = 20; i < 100; i++) if (i != queue) close(i);
  for (int i = 3; i < 20; i++) close(i);
  S(mq_open(other, O_RDWR | O_CREAT, 0600, &wanted) >= 0); S(mq_unlink(other));
}

static void waiting(void) {
  struct mq_attr one = {.mq_maxmsg = 1, .mq_msgsize = 16};
  int queue = mq_open(name, O_RDWR | O_CREAT, 0600, &one),
      back = mq_open(other, O_RDWR | O_CREAT, 0600, &one), status;
  if (!fork()) {
    for (int i = 0; i < 5; i++) { char word[2] = {'a' + i, 0}; if (mq_send(queue, word, 2, i)) _exit(1); }
    unsigned priority;
    if (mq_receive(back, text, 16, &priority) != 4) _exit(2);
    _exit(priority);
  }
  for (int i = 0; i < 5; i++) { S(receive(queue, 0)); }
  S(mq_send(back, "end", 4, 9)); await(&status); S(WEXITSTATUS(status));
  S(mq_close(queue)); S(mq_close(back)); S(mq_unlink(name)); S(mq_unlink(other));
}

static volatile int told, codes, value, sender, count;
static void handler(int signal, siginfo_t *info, void *context) {
  told = signal; codes = info->si_code; value = info->si_value.sival_int; sender = info->si_pid;
  count++;
}
static void tell(void) {
  printf("signal %d code %d value %d times %d own %d\n", told, codes, value, count,
      sender == getpid());
  told = codes = value = 0;
}

static void notices(void) {
  struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
  sigaction(SIGUSR1, &action, 0); sigaction(SIGALRM, &action, 0);
  struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1, .sigev_value.sival_int = 42},
      none = {.sigev_notify = SIGEV_NONE};
  int queue = mq_open(name, O_RDWR | O_CREAT, 0600, 0), status;
  S(mq_notify(queue, &event)); S(mq_notify(queue, &event)); S(mq_notify(queue, &none));
  char line[128] = ""; long got = read(queue, line, sizeof line);
  line[strcspn(line, "Y") + 1] = 0; printf("%ld %s\n", got, line);
  S(mq_send(queue, "a", 1, 0)); tell(); S(mq_send(queue, "b", 1, 0)); tell();
  S(mq_notify(queue, &event)); S(mq_send(queue, "c", 1, 0)); tell(); S(receive(queue, 0));
  S(receive(queue, 0)); S(receive(queue, 0)); tell();
  if (!fork()) {
    S(mq_notify(queue, &event)); S(mq_notify(queue, 0)); S(mq_send(queue, "d", 1, 0)); _exit(0);
  }
  await(&status); tell(); S(receive(queue, 0));
  S(mq_notify(queue, &event)); S(mq_notify(queue, 0)); S(mq_send(queue, "e", 1, 0)); tell();
  S(receive(queue, 0));
  S(mq_notify(queue, &none)); S(mq_send(queue, "f", 1, 0)); tell(); S(mq_notify(queue, &event));
  S(receive(queue, 0));
  int copy = dup(queue); S(close(copy)); S(mq_send(queue, "g", 1, 0)); tell(); S(receive(queue, 0));
  event.sigev_signo = 65; S(mq_notify(queue, &event)); event.sigev_notify = 9;
  S(mq_notify(queue, &event)); S(syscall(SYS_mq_notify, queue, -8L));
  event.sigev_notify = SIGEV_SIGNAL; event.sigev_signo = SIGUSR1; S(mq_notify(queue, &event));
  if (!fork()) { for (int i = 0; i < 20; i++) usleep(1000); mq_send(queue, "h", 1, 0); _exit(0); }
  S(receive(queue, 0)); await(&status); tell();
  alarm(1); S(receive(queue, 0)); tell();
  action.sa_flags |= SA_RESTART; sigaction(SIGALRM, &action, 0);
  if (!fork()) { sleep(2); mq_send(queue, "i", 1, 0); _exit(0); }
  alarm(1); S(receive(queue, 0)); tell(); await(&status);
  S(mq_unlink(name));
}

int main(void) {
  snprintf(name, sizeof name, "/elftrace-queue-%d", getpid());
  snprintf(other, sizeof other, "/elftrace-other-%d", getpid());
  umask(022);
  names(); limits(); waiting(); notices();
  return 3;
}
