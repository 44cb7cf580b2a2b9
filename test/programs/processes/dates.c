/*
 * Clocks that show the date, given in the first argument (seconds since 1970), and waits until a
 * date: each ends in time, and no wait for the other clocks is meant. Prints the same on each run.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

static long long wanted;
static const long long WAIT = 60000000;

static void near(const char *what, long long seconds) {
  long long off = seconds - wanted;
  printf("%s %s\n", what, off >= -1 && off < 100 ? "shows the date" : "is elsewhere");
}
static long long clock_of(clockid_t id) {
  struct timespec now;
  clock_gettime(id, &now);
  return now.tv_sec * 1000000000LL + now.tv_nsec;
}
static struct timespec in(clockid_t id) {
  long long at = clock_of(id) + WAIT;
  struct timespec time = {at / 1000000000, at % 1000000000};
  return time;
}
static long long began;
static void begin(void) { began = clock_of(CLOCK_MONOTONIC); }
static void waited(const char *what) {
  long long took = clock_of(CLOCK_MONOTONIC) - began;
  printf("%s waited %s\n", what, took < WAIT / 2 ? "too short" : took > 50 * WAIT ? "too long" : "until then");
}

int main(int argc, char **argv) {
  wanted = atoll(argv[1]);
  struct timeval time_of_day;
  gettimeofday(&time_of_day, 0);
  near("time", time(0));
  near("gettimeofday", time_of_day.tv_sec);
  const struct { clockid_t id; const char *name; } clocks[] = {
      {CLOCK_REALTIME, "REALTIME"}, {CLOCK_REALTIME_COARSE, "REALTIME_COARSE"}, {CLOCK_REALTIME_ALARM, "REALTIME_ALARM"},
      {CLOCK_TAI, "TAI"}, {CLOCK_MONOTONIC, "MONOTONIC"}, {CLOCK_BOOTTIME, "BOOTTIME"}, {CLOCK_PROCESS_CPUTIME_ID, "CPU"},
  };
  for (unsigned i = 0; i < sizeof clocks / sizeof *clocks; i++) near(clocks[i].name, clock_of(clocks[i].id) / 1000000000);

  for (int i = 0; i < 2; i++) {
    clockid_t id = i ? CLOCK_MONOTONIC : CLOCK_REALTIME;
    struct timespec until = in(id);
    begin();
    clock_nanosleep(id, TIMER_ABSTIME, &until, 0);
    waited("clock_nanosleep");

    struct itimerspec once = {{0, 0}, in(id)}, left;
    int fd = timerfd_create(id, 0);
    unsigned long long count = 0;
    begin();
    timerfd_settime(fd, TFD_TIMER_ABSTIME, &once, 0);
    timerfd_gettime(fd, &left);
    printf("left %d\n", left.it_value.tv_sec == 0 && left.it_value.tv_nsec > 0 && left.it_value.tv_nsec <= WAIT);
    printf("timer %d", (int)read(fd, &count, 8));
    printf(", expired %llu\n", count);
    waited("timerfd");

    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigprocmask(SIG_BLOCK, &set, 0);
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
    timer_t timer;
    timer_create(id, &event, &timer);
    once.it_value = in(id);
    begin();
    timer_settime(timer, TIMER_ABSTIME, &once, 0);
    timer_gettime(timer, &left);
    printf("left %d\n", left.it_value.tv_sec == 0 && left.it_value.tv_nsec > 0 && left.it_value.tv_nsec <= WAIT);
    printf("signal %d\n", sigwaitinfo(&set, 0) == SIGUSR1);
    waited("timer_settime");
    timer_delete(timer);
  }
  sem_t semaphore;
  sem_init(&semaphore, 0, 0);
  struct timespec until = in(CLOCK_REALTIME);
  begin();
  printf("sem_timedwait %d\n", sem_timedwait(&semaphore, &until));
  waited("semaphore");

  if (argc > 2) {
    struct stat made;
    close(open(argv[2], O_WRONLY | O_CREAT, 0644));
    stat(argv[2], &made);
    near("a new file", made.st_mtime);
    struct timespec both[2] = {{1, 0}, {0, UTIME_NOW}};
    utimensat(AT_FDCWD, argv[2], both, 0);
    stat(argv[2], &made);
    near("UTIME_NOW", made.st_mtime);
  }
  return 0;
}
