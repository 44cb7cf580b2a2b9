/* What /proc says that threads and processes do: run, wait, are stopped, have ended. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static char stateIn(const char *path, long *id) {
  char line[512] = "", state = '?';
  FILE *f = fopen(path, "r");
  if (!f) return '-';
  if (fgets(line, sizeof line, f)) sscanf(line, "%ld (%*[^)]) %c", id, &state);
  fclose(f);
  return state;
}

static char stateOf(long process, long thread, long *id) {
  char path[64];
  if (thread) snprintf(path, sizeof path, "/proc/%ld/task/%ld/stat", process, thread);
  else snprintf(path, sizeof path, "/proc/%ld/stat", process);
  return stateIn(path, id);
}

/* Asks until it is so; what was seen before is no matter, but for a while. */
static void until(const char *what, long process, long thread, char wanted) {
  long id = 0;
  for (int i = 0; i < 5000; i++) {
    if (stateOf(process, thread, &id) == wanted) {
      printf("%s: %c %d\n", what, wanted, id == (thread ? thread : process)); fflush(stdout);
      return;
    }
    sched_yield();
    usleep(200);
  }
  printf("%s: never %c\n", what, wanted);
  fflush(stdout);
}

static volatile int go, isOver;
static long waiter, runner;

static void *wait_(void *pipe) {
  char byte; waiter = syscall(SYS_gettid); (void)!read(*(int *)pipe, &byte, 1); return 0;
}
static void *run(void *unused) { runner = syscall(SYS_gettid); while (!isOver) go++; return 0; }

static void threads(void) {
  pthread_t one, two;
  int ends[2];
  long id;
  (void)!pipe(ends);
  pthread_create(&one, 0, wait_, &ends[0]); pthread_create(&two, 0, run, 0);
  while (!waiter || !runner) sched_yield();
  until("thread that reads", getpid(), waiter, 'S');
  until("thread that counts", getpid(), runner, 'R'); until("who asks", getpid(), 0, 'R');
  char own = stateIn("/proc/thread-self/stat", &id);
  printf("%c %d\n", own, id == getpid());
  char path[64], line[128]; snprintf(path, sizeof path, "/proc/self/task/%ld/status", waiter);
  FILE *f = fopen(path, "r");
  while (fgets(line, sizeof line, f)) {
    long number;
    if (sscanf(line, "Pid: %ld", &number) == 1) printf("Pid %d\n", number == waiter);
    if (sscanf(line, "Tgid: %ld", &number) == 1) printf("Tgid %d\n", number == getpid());
    if (!strncmp(line, "State:", 6)) printf("%s", line);
  }
  fclose(f);
  isOver = 1; (void)!write(ends[1], "", 1); pthread_join(one, 0); pthread_join(two, 0);
}

static void processes(void) {
  int status, child = fork();
  if (!child) for (;;) pause();
  until("child that pauses", child, 0, 'S');
  kill(child, SIGSTOP); until("child that was stopped", child, 0, 'T');
  kill(child, SIGCONT); until("child that goes on", child, 0, 'S');
  kill(child, SIGKILL); waitpid(child, &status, 0);
  child = fork();
  if (!child) for (;;) go++;
  until("child that counts", child, 0, 'R'); kill(child, SIGKILL); waitpid(child, &status, 0);
}

static void *last(void *process) { until("first thread", (long)process, 0, 'Z'); exit(3); }

int main(void) {
  threads(); processes();
  pthread_t other;
  pthread_create(&other, 0, last, (void *)(long)getpid());
  pthread_exit(0);
}
