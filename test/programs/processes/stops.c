/*
 * Processes that stop and go on: what they are sent meanwhile, what their parents learn, which
 * system calls that interrupts. Prints no number that differs from run to run.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ipc.h>
#include <sys/sem.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void pause_for(long milliseconds) {
  struct timespec t = {milliseconds / 1000, milliseconds % 1000 * 1000000};
  while (nanosleep(&t, &t) != 0) {}
}

static pid_t begin(void) {
  fflush(stdout);
  return fork();
}

/* Waits for a child, and says what became of it. */
static void expect(const char *what, pid_t child, int flags) {
  int status = 0;
  pid_t got = waitpid(child, &status, flags);
  if (got < 0) { printf("%s: %s\n", what, strerror(errno)); return; }
  if (got == 0) { printf("%s: nothing\n", what); return; }
  if (WIFSTOPPED(status)) printf("%s: stopped by %d\n", what, WSTOPSIG(status));
  else if (WIFCONTINUED(status)) printf("%s: goes on\n", what);
  else if (WIFSIGNALED(status)) printf("%s: killed by %d\n", what, WTERMSIG(status));
  else printf("%s: ended with %d\n", what, WEXITSTATUS(status));
}

static void reports(void) {
  pid_t child = begin();
  if (child == 0) { raise(SIGSTOP); pause_for(200); _exit(3); }
  expect("stop", child, WUNTRACED);
  expect("told once", child, WUNTRACED | WNOHANG);
  kill(child, SIGCONT);
  expect("continue", child, WCONTINUED);
  expect("end", child, 0);

  child = begin();
  if (child == 0) { raise(SIGSTOP); raise(SIGSTOP); pause_for(200); _exit(4); }
  siginfo_t info;
  for (int i = 0; i < 3; i++) {
    memset(&info, 0, sizeof info);
    int got = waitid(P_PID, child, &info, WSTOPPED | (i == 0 ? WNOWAIT : i == 2 ? WNOHANG : 0));
    printf("waitid %d code %d status %d mine %d\n", got, info.si_code, info.si_status, info.si_pid == child);
  }
  expect("without WUNTRACED", child, WNOHANG);
  kill(child, SIGCONT);
  memset(&info, 0, sizeof info);
  waitid(P_PID, child, &info, WSTOPPED);
  printf("again code %d status %d\n", info.si_code, info.si_status);
  /* What a stop follows is told no more. */
  expect("no continue", child, WCONTINUED | WNOHANG);
  kill(child, SIGCONT);
  memset(&info, 0, sizeof info);
  printf("waitid %d", waitid(P_PID, child, &info, WCONTINUED));
  printf(" code %d status %d\n", info.si_code, info.si_status);
  pause_for(600);
  errno = 0;
  int got = waitid(P_PID, child, &info, WSTOPPED | WNOHANG);
  printf("of one that has ended: %d %s\n", got, strerror(errno));
  expect("end", child, 0);
}

static volatile int told;
static int codes[16], states[16];
static void note(int signal, siginfo_t *info, void *context) {
  (void)signal, (void)context;
  codes[told] = info->si_code;
  states[told] = info->si_status;
  told = told + 1;
}

static void parents(void) {
  for (int i = 0; i < 2; i++) {
    struct sigaction action = {.sa_sigaction = note, .sa_flags = SA_SIGINFO | SA_RESTART | (i ? SA_NOCLDSTOP : 0)};
    sigaction(SIGCHLD, &action, 0);
    told = 0;
    pid_t child = begin();
    if (child == 0) { raise(SIGSTOP); pause_for(200); _exit(5); }
    expect("stop", child, WUNTRACED);
    pause_for(100);
    kill(child, SIGCONT);
    expect("end", child, 0);
    for (int j = 0; j < told; j++) printf("SIGCHLD code %d status %d\n", codes[j], states[j]);
  }
  signal(SIGCHLD, SIG_DFL);
}

static void ends(void) {
  pid_t child = begin();
  if (child == 0) { for (;;) pause(); }
  pause_for(100);
  kill(child, SIGTSTP);
  expect("SIGTSTP", child, WUNTRACED);
  kill(child, SIGTERM);
  pause_for(100);
  expect("SIGTERM waits", child, WNOHANG);
  kill(child, SIGCONT);
  expect("until it goes on", child, 0);

  child = begin();
  if (child == 0) { for (;;) pause(); }
  kill(child, SIGSTOP);
  expect("SIGSTOP", child, WUNTRACED);
  kill(child, SIGKILL);
  expect("SIGKILL", child, 0);

  /* Of its own session, no one could let it go on. */
  child = begin();
  if (child == 0) {
    setsid();
    raise(SIGTSTP), raise(SIGTTIN), raise(SIGTTOU);
    _exit(6);
  }
  expect("orphaned", child, WUNTRACED);

  child = begin();
  if (child == 0) {
    signal(SIGTSTP, SIG_IGN);
    raise(SIGTSTP);
    _exit(7);
  }
  expect("ignored", child, WUNTRACED);
}

static volatile int handled;
static void count(int signal) { handled = handled * 100 + signal; }

static void pending(void) {
  signal(SIGCONT, count), signal(SIGUSR1, count), signal(SIGURG, count);
  pid_t child = begin();
  if (child == 0) {
    raise(SIGSTOP);
    printf("handled %d\n", handled);
    fflush(stdout);
    _exit(0);
  }
  expect("stop", child, WUNTRACED);
  kill(child, SIGURG), kill(child, SIGUSR1), kill(child, SIGCONT);
  expect("end", child, 0);

  /* SIGCONT takes away what would stop, and the other way round. */
  child = begin();
  if (child == 0) {
    sigset_t all, set;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, 0);
    raise(SIGTSTP), raise(SIGTTIN), raise(SIGCONT);
    sigpending(&set);
    printf("pending %d %d %d\n", sigismember(&set, SIGTSTP), sigismember(&set, SIGTTIN), sigismember(&set, SIGCONT));
    raise(SIGTTOU);
    sigpending(&set);
    printf("pending %d %d\n", sigismember(&set, SIGTTOU), sigismember(&set, SIGCONT));
    fflush(stdout);
    raise(SIGSTOP);
    /* It goes on although it blocks SIGCONT. */
    sigpending(&set);
    printf("goes on, pending %d %d\n", sigismember(&set, SIGTTOU), sigismember(&set, SIGCONT));
    fflush(stdout);
    _exit(8);
  }
  expect("stop", child, WUNTRACED);
  kill(child, SIGCONT);
  expect("end", child, WUNTRACED);
  signal(SIGCONT, SIG_DFL), signal(SIGUSR1, SIG_DFL), signal(SIGURG, SIG_DFL);
}

static int calls(int which) {
  struct timespec longer = {0, 600000000};
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGUSR2);
  struct epoll_event event;
  struct sembuf take = {0, -1, 0};
  int pipes[2], got = 0;
  char byte;
  errno = 0;
  switch (which) {
    case 0: got = nanosleep(&longer, 0); break;
    case 1: got = epoll_wait(epoll_create1(0), &event, 1, 600); break;
    case 2: got = sigtimedwait(&set, 0, &longer); break;
    case 3: got = semtimedop(semget(IPC_PRIVATE, 1, 0600), &take, 1, &longer); break;
    case 4: got = pselect(0, 0, 0, 0, &longer, 0); break;
    case 5: got = pipe(pipes); fcntl(pipes[0], F_SETFL, 0);
      if (fork() == 0) { pause_for(600); got = write(pipes[1], "x", 1); _exit(0); }
      got = read(pipes[0], &byte, 1); break;
    case 6: {
      if (fork() == 0) { pause_for(600); _exit(0); }
      int status;
      got = wait(&status) > 0;
      break;
    }
  }
  printf("call %d: %d %s\n", which, got, strerror(errno));
  fflush(stdout);
  return 0;
}

static void waits(void) {
  for (int i = 0; i < 7; i++) {
    pid_t child = begin();
    if (child == 0) _exit(calls(i));
    pause_for(200);
    kill(child, SIGSTOP);
    expect("stop", child, WUNTRACED);
    kill(child, SIGCONT);
    expect("end", child, 0);
  }
}

static void *spin(void *done) {
  while (!*(volatile int *)done) pause_for(1);
  return 0;
}

static void threads(void) {
  pid_t child = begin();
  if (child == 0) {
    int done = 0;
    pthread_t other;
    pthread_create(&other, 0, spin, &done);
    raise(SIGSTOP);
    done = 1;
    pthread_join(other, 0);
    _exit(9);
  }
  expect("two threads", child, WUNTRACED);
  kill(child, SIGCONT);
  expect("end", child, 0);
}

static void states_of(void) {
  pid_t child = begin();
  if (child == 0) { raise(SIGSTOP); _exit(0); }
  expect("stop", child, WUNTRACED);
  char name[64], text[256] = "";
  snprintf(name, sizeof name, "/proc/%d/stat", child);
  int file = open(name, O_RDONLY);
  if (file >= 0 && read(file, text, sizeof text - 1) > 0) printf("state %c\n", strrchr(text, ')')[2]);
  close(file);
  kill(child, SIGKILL);
  expect("end", child, 0);
}

/* The parent of a stopped process ends: its group is nobody's, and gets SIGHUP and SIGCONT. */
static void orphans(void) {
  int pipes[2];
  char byte = 0;
  if (pipe(pipes) != 0) return;
  pid_t child = begin();
  if (child == 0) {
    setpgid(0, 0);
    pid_t other = fork();
    if (other == 0) {
      signal(SIGHUP, count), signal(SIGCONT, count);
      raise(SIGSTOP);
      byte = handled == 118 || handled == 1801 ? 'y' : 'n';
      _exit(write(pipes[1], &byte, 1) != 1);
    }
    waitpid(other, 0, WUNTRACED);
    _exit(0);
  }
  close(pipes[1]);
  expect("parent", child, 0);
  int got = read(pipes[0], &byte, 1);
  printf("orphan: %d %c\n", got, byte);
}

/* Of several children that have ended, the one that was made first is told of first. */
static void order(void) {
  pid_t one = begin();
  if (one == 0) { pause_for(200); _exit(1); }
  pid_t two = fork();
  if (two == 0) _exit(2);
  pid_t three = fork();
  if (three == 0) { raise(SIGSTOP); _exit(3); }
  pause_for(600);
  expect("first", -1, WUNTRACED);
  expect("second", -1, WUNTRACED);
  expect("third", -1, WUNTRACED);
  kill(three, SIGCONT);
  expect("last", -1, 0);
}

int main(void) {
  /* A group of which a process in another one could take care, wherever this was started. */
  pid_t child = begin();
  if (child == 0) {
    setpgid(0, 0);
    reports();
    parents();
    ends();
    pending();
    waits();
    threads();
    states_of();
    orphans();
    order();
    fflush(stdout);
    _exit(9);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WEXITSTATUS(status);
}
