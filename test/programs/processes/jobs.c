/*
 * Job control at a terminal: what is typed stops the group in the foreground, a group in the
 * background stops where it reads or writes, and does that when it is in the foreground again.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

static void pause_for(long milliseconds) {
  struct timespec t = {milliseconds / 1000, milliseconds % 1000 * 1000000};
  while (nanosleep(&t, &t) != 0) {}
}

static void expect(const char *what, pid_t child) {
  int status = 0;
  if (waitpid(child, &status, WUNTRACED | WCONTINUED) != child) printf("%s: %s\n", what, strerror(errno));
  else if (WIFSTOPPED(status)) printf("%s: stopped by %d\n", what, WSTOPSIG(status));
  else if (WIFCONTINUED(status)) printf("%s: goes on\n", what);
  else printf("%s: ended with %d\n", what, status);
  fflush(stdout);
}

static int slave;

/* A job of its own group, in the background. */
static pid_t job(void (*body)(void)) {
  fflush(stdout);
  pid_t child = fork();
  if (child == 0) {
    setpgid(0, 0);
    body();
    fflush(stdout);
    _exit(0);
  }
  setpgid(child, child);
  return child;
}

static void foreground(pid_t group) {
  if (tcsetpgrp(slave, group) != 0) printf("tcsetpgrp: %s\n", strerror(errno));
}

static volatile int handled;
static void count(int signal) { (void)signal, handled = handled + 1; }

static void forever(void) { for (;;) pause(); }

static void reads(void) {
  char line[32];
  int size = read(slave, line, sizeof line);
  printf("read %d: %.*s", size, size, line);
}

static void reads_with_handler(void) {
  char line[32];
  struct sigaction action = {.sa_handler = count};
  sigaction(SIGTTIN, &action, 0);
  int size = read(slave, line, sizeof line);
  printf("read %d %s, handled %d\n", size, strerror(errno), handled);
}

static void writes(void) {
  int size = write(slave, "output\n", 7);
  pause_for(200);
  printf("written %d\n", size);
}

static void sets(void) {
  struct termios modes;
  tcgetattr(slave, &modes);
  int got = tcsetattr(slave, TCSANOW, &modes);
  pause_for(200);
  printf("set %d\n", got);
}

static void ignores(void) {
  char line[32];
  signal(SIGTTIN, SIG_IGN), signal(SIGTTOU, SIG_IGN);
  int size = read(slave, line, sizeof line);
  printf("read %d %s\n", size, strerror(errno));
  sets();
}

static void session(int master, const char *name) {
  setsid();
  slave = open(name, O_RDWR);
  ioctl(slave, TIOCSCTTY, 0);
  signal(SIGTTOU, SIG_IGN);
  pid_t own = getpgrp();

  pid_t child = job(forever);
  foreground(child);
  pause_for(100);
  if (write(master, "\032", 1) != 1) return;
  expect("typed", child);
  kill(-child, SIGCONT);
  expect("continued", child);
  if (write(master, "\003", 1) != 1) return;
  expect("interrupted", child);

  foreground(own);
  signal(SIGTTOU, SIG_DFL);
  child = job(reads);
  expect("read in the background", child);
  foreground(child);
  kill(-child, SIGCONT);
  expect("continued", child);
  if (write(master, "hello\n", 6) != 6) return;
  expect("read", child);
  signal(SIGTTOU, SIG_IGN);
  foreground(own);
  signal(SIGTTOU, SIG_DFL);

  expect("read with a handler", job(reads_with_handler));
  expect("written", job(writes));

  struct termios modes;
  tcgetattr(slave, &modes);
  modes.c_lflag |= TOSTOP;
  tcsetattr(slave, TCSANOW, &modes);
  child = job(writes);
  expect("write in the background", child);
  kill(-child, SIGCONT);
  expect("continued", child);
  expect("again", child);
  foreground(child);
  kill(-child, SIGCONT);
  expect("continued", child);
  expect("written", child);
  signal(SIGTTOU, SIG_IGN);
  foreground(own);
  signal(SIGTTOU, SIG_DFL);

  child = job(sets);
  expect("set in the background", child);
  signal(SIGTTOU, SIG_IGN);
  foreground(child);
  kill(-child, SIGCONT);
  expect("continued", child);
  expect("set", child);
  foreground(own);
  expect("ignored", job(ignores));
}

int main(void) {
  int master = posix_openpt(O_RDWR | O_NOCTTY);
  grantpt(master);
  unlockpt(master);
  const char *name = strdup(ptsname(master));
  fflush(stdout);
  if (fork() == 0) {
    session(master, name);
    fflush(stdout);
    _exit(0);
  }
  int status;
  wait(&status);
  return 9;
}
