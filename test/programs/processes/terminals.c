/* Pseudo terminals: line editing, echo, modes, sizes, sessions, signals and ends. Prints what it found; ends with 3. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

static void show(const char *what, const char *bytes, int n) {
  printf("%s: %d", what, n);
  if (n < 0) printf(" %s", strerror(errno));
  for (int i = 0; i < n; i++) printf(bytes[i] > 31 && bytes[i] < 127 ? "%c" : "\\%03o", i == 0 ? bytes[i] : (unsigned char)bytes[i]);
  puts("");
}
static char buffer[20000];
/* What can be read now. */
static void now(const char *what, int fd) {
  struct pollfd p = {fd, POLLIN | POLLOUT, 0};
  poll(&p, 1, 0);
  int n = p.revents & (POLLIN | POLLHUP) ? read(fd, buffer, sizeof buffer) : 0;
  printf("[%x] ", p.revents);
  show(what, buffer, n);
}
/* Linux carries input to the other side by and by. */
static void send(int fd, const char *text) {
  write(fd, text, strlen(text));
  usleep(10000);
}
static volatile int interrupts, windows, hangups;
static void on_signal(int n) {
  if (n == SIGINT) interrupts++;
  if (n == SIGWINCH) windows++;
  if (n == SIGHUP) hangups++;
}
static int fresh(char *name) {
  int master = posix_openpt(O_RDWR | O_NOCTTY);
  unlockpt(master);
  strcpy(name, ptsname(master));
  return master;
}
static void check(const char *what, long result) { printf("%s: %ld %s\n", what, result < 0 ? -1 : result, result < 0 ? strerror(errno) : ""); }

static void modes(int slave) {
  struct termios t;
  check("tcgetattr", tcgetattr(slave, &t));
  printf("8 bits %d speed %d echoes %d%d%d%d\n", (t.c_cflag & (CSIZE | CREAD)) == (CS8 | CREAD), cfgetospeed(&t) == B38400, !!(t.c_lflag & ECHOE), !!(t.c_lflag & ECHOK), !!(t.c_lflag & ECHOKE), !!(t.c_lflag & ECHOCTL));
  printf("icanon %d echo %d isig %d icrnl %d onlcr %d opost %d ixon %d\n", !!(t.c_lflag & ICANON), !!(t.c_lflag & ECHO), !!(t.c_lflag & ISIG), !!(t.c_iflag & ICRNL), !!(t.c_oflag & ONLCR), !!(t.c_oflag & OPOST), !!(t.c_iflag & IXON));
  printf("chars %d %d %d %d %d %d %d %d %d %d %d\n", t.c_cc[VINTR], t.c_cc[VQUIT], t.c_cc[VERASE], t.c_cc[VKILL], t.c_cc[VEOF], t.c_cc[VMIN], t.c_cc[VTIME], t.c_cc[VSUSP], t.c_cc[VWERASE], t.c_cc[VLNEXT], t.c_cc[VREPRINT]);
}
static void opening(void) {
  struct stat s;
  char name[50], path[50], link[50] = "";
  int master = posix_openpt(O_RDWR | O_NOCTTY);
  printf("isatty %d\n", isatty(master));
  strcpy(name, ptsname(master));
  printf("pts %d\n", strncmp(name, "/dev/pts/", 9) == 0);
  check("locked", open(name, O_RDWR | O_NOCTTY));
  int lock = -1;
  check("TIOCGPTLCK", ioctl(master, TIOCGPTLCK, &lock)); printf("%d\n", lock);
  check("grantpt", grantpt(master));
  check("unlockpt", unlockpt(master));
  struct pollfd p = {master, POLLIN | POLLOUT, 0};
  poll(&p, 1, 0);
  printf("before it is open %x\n", p.revents);
  int slave = open(name, O_RDWR | O_NOCTTY);
  printf("slave %d isatty %d ttyname %d\n", slave > master, isatty(slave), strcmp(ttyname(slave) ?: "", name));
  check("fstat", fstat(slave, &s));
  printf("%d %d %d mode %o\n", S_ISCHR(s.st_mode), major(s.st_rdev) == 136, atoi(name + 9) == (int)minor(s.st_rdev), s.st_mode & 0600);
  check("stat ptmx", stat("/dev/ptmx", &s));
  printf("%d:%d\n", major(s.st_rdev), minor(s.st_rdev));
  check("access", access(name, R_OK | W_OK));
  check("sid of the other side", tcgetsid(slave));
  check("group without a session", tcgetpgrp(slave));
  check("lseek", lseek(slave, 0, SEEK_CUR));
  check("number of a slave", ioctl(slave, TIOCGPTN, &lock));
  int peer = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY);
  printf("peer %d\n", peer > 0 && strcmp(ttyname(peer) ?: "", name) == 0);
  close(peer);
  modes(slave);
  modes(master);
  close(slave);
  now("after the last slave", master);
  send(master, "abc\n");
  slave = open(name, O_RDWR | O_NOCTTY);
  now("what was written meanwhile", slave);
  close(master);
  now("after the master", slave);
  check("write", write(slave, "x", 1));
  struct termios t;
  check("tcgetattr", tcgetattr(slave, &t));
  close(slave);
  check("gone", open(name, O_RDWR | O_NOCTTY));
}
static void editing(void) {
  char name[50];
  int master = fresh(name), slave = open(name, O_RDWR | O_NOCTTY), n = 0;
  send(master, "one");
  now("no line yet", slave);
  now("echo", master);
  send(master, " two\rnext\n");
  check("FIONREAD", ioctl(slave, FIONREAD, &n)); printf("%d\n", n);
  show("line", buffer, read(slave, buffer, 3));
  show("rest", buffer, read(slave, buffer, 100));
  show("second", buffer, read(slave, buffer, 100));
  now("echo", master);
  send(master, "abcd\177\177x\n");
  now("erased", slave);
  now("echo", master);
  send(master, "kill me\025kept words\027w\001\033\n");
  now("killed", slave);
  now("echo", master);
  send(master, "\177\025\027\026\003quoted\n");
  now("quoted", slave);
  now("echo", master);
  send(master, "re\022draw\n");
  now("reprint", slave);
  now("echo", master);
  send(master, "no newline\004\004");
  now("end", slave);
  show("end of file", buffer, read(slave, buffer, 100));
  now("echo", master);
  write(slave, "a\tb\nc\r\n", 7);
  now("output", master);
  send(master, "x\023");
  send(master, "\021\n");
  now("behind a stop", slave);
  now("echo", master);
  send(master, "gone\nand this");
  check("tcflush", tcflush(slave, TCIFLUSH));
  now("flushed", slave);
  now("echo", master);
  check("tcdrain", tcdrain(slave));
  close(slave);
  close(master);
}
static void raw(void) {
  char name[50];
  int master = fresh(name), slave = open(name, O_RDWR | O_NOCTTY), n;
  struct termios t, u;
  tcgetattr(slave, &t);
  u = t;
  send(master, "partial");
  now("echo", master);
  cfmakeraw(&u);
  check("tcsetattr", tcsetattr(slave, TCSANOW, &u));
  now("what was there", slave);
  tcgetattr(master, &u);
  printf("raw %d %d %d\n", !!(u.c_lflag & ICANON), !!(u.c_oflag & OPOST), !!(u.c_lflag & ECHO));
  send(master, "\003\004a\r\n\177");
  check("FIONREAD", ioctl(slave, FIONREAD, &n)); printf("%d\n", n);
  now("raw", slave);
  write(slave, "x\ny", 3);
  now("output", master);
  u.c_cc[VMIN] = 0;
  tcsetattr(slave, TCSANOW, &u);
  show("nothing", buffer, read(slave, buffer, 10));
  u.c_cc[VMIN] = 3;
  tcsetattr(slave, TCSANOW, &u);
  send(master, "ab");
  if (fork() == 0) { usleep(1000); send(master, "cd"); _exit(0); }
  show("three", buffer, read(slave, buffer, 10));
  wait(0);
  now("fourth", slave);
  send(master, "left over");
  tcsetattr(slave, TCSADRAIN, &t);
  now("a line without an end", slave);
  t.c_iflag |= INLCR | ISTRIP; t.c_iflag &= ~ICRNL;
  t.c_oflag |= OCRNL | OLCUC; t.c_oflag &= ~ONLCR;
  t.c_lflag &= ~ECHO; t.c_lflag |= ECHONL;
  tcsetattr(slave, TCSAFLUSH, &t);
  send(master, "hig\350\nx\r");
  now("mapped", slave);
  write(slave, "up\rdown\n", 8);
  now("mapped output", master);
  fcntl(slave, F_SETFL, O_RDWR | O_NONBLOCK);
  show("would wait", buffer, read(slave, buffer, 10));
  close(slave);
  close(master);
}
static void sizes(void) {
  char name[50];
  struct winsize w = {0};
  int master = fresh(name), slave = open(name, O_RDWR | O_NOCTTY);
  check("TIOCGWINSZ", ioctl(slave, TIOCGWINSZ, &w));
  printf("%d %d\n", w.ws_row, w.ws_col);
  w.ws_row = 24, w.ws_col = 80, w.ws_xpixel = 7;
  check("TIOCSWINSZ", ioctl(master, TIOCSWINSZ, &w));
  memset(&w, 0, sizeof w);
  ioctl(slave, TIOCGWINSZ, &w);
  printf("%d %d %d %d\n", w.ws_row, w.ws_col, w.ws_xpixel, w.ws_ypixel);
  int fds[2];
  pipe(fds);
  check("pipe", tcgetattr(fds[0], (struct termios[1]){}));
  check("pipe", ioctl(fds[0], TIOCGWINSZ, &w));
  close(fds[0]), close(fds[1]), close(slave), close(master);
}
/* Reads until a text has come. */
static void until(int fd, const char *text) {
  int n = 0, got;
  do {
    got = read(fd, buffer + n, 1);
    if (got > 0) n++;
    buffer[n] = 0;
  } while (got > 0 && !strstr(buffer, text));
  show("until", buffer, n);
  /* The other side waits by then. */
  usleep(10000);
}
static void in_session(const char *name) {
  struct sigaction a = {0};
  a.sa_handler = on_signal;
  sigaction(SIGINT, &a, 0);
  sigaction(SIGWINCH, &a, 0);
  sigaction(SIGHUP, &a, 0);
  setsid();
  check("still none", open("/dev/tty", O_RDWR) < 0 ? -1 : 0);
  int slave = open(name, O_RDWR);
  printf("own %d %d\n", tcgetsid(slave) == getpid(), tcgetpgrp(slave) == getpid());
  int tty = open("/dev/tty", O_RDWR);
  printf("tty %d isatty %d\n", tty > 0, isatty(tty));
  write(tty, "ready\n", 6);
  show("interrupted", buffer, read(slave, buffer, 100));
  printf("interrupts %d\n", interrupts);
  write(tty, "again\n", 6);
  show("window", buffer, read(slave, buffer, 100));
  printf("windows %d\n", windows);
  write(tty, "a line\n", 7);
  show("line", buffer, read(tty, buffer, 100));
  check("another group", setpgid(0, 0));
  int other = fork();
  if (other == 0) {
    signal(SIGINT, SIG_DFL);
    pause();
    _exit(1);
  }
  setpgid(other, other);
  check("tcsetpgrp", tcsetpgrp(tty, other));
  printf("foreground %d\n", tcgetpgrp(slave) == other);
  check("no such group", tcsetpgrp(tty, 999999));
  write(tty, "kill\n", 5);
  int status;
  waitpid(other, &status, 0);
  printf("killed by %d, interrupts %d\n", WTERMSIG(status), interrupts);
  signal(SIGTTOU, SIG_IGN);
  check("tcsetpgrp", tcsetpgrp(tty, getpid()));
  write(tty, "done\n", 5);
  show("hung up", buffer, read(slave, buffer, 100));
  printf("hangups %d\n", hangups);
  show("behind it", buffer, read(slave, buffer, 100));
  check("no terminal", open("/dev/tty", O_RDWR) < 0 ? -1 : 0);
  check("of no session", tcgetpgrp(slave));
}
static void sessions(void) {
  char name[50];
  struct winsize w = {5, 6, 0, 0};
  check("no terminal", open("/dev/tty", O_RDWR) < 0 ? -1 : 0);
  int master = fresh(name);
  fflush(stdout);
  int child = fork();
  if (child == 0) {
    close(master);
    in_session(name);
    fflush(stdout);
    _exit(4);
  }
  until(master, "ready\r\n");
  check("a session of others", tcgetsid(master) == child ? 0 : -1);
  check("its group", tcgetpgrp(master) == child ? 0 : -1);
  send(master, "typed\003");
  until(master, "again\r\n");
  ioctl(master, TIOCSWINSZ, &w);
  ioctl(master, TIOCSWINSZ, &w);
  until(master, "a line\r\n");
  send(master, "word\n");
  until(master, "kill\r\n");
  send(master, "\003");
  until(master, "done\r\n");
  fflush(stdout);
  close(master);
  int status;
  waitpid(child, &status, 0);
  printf("status %d\n", WEXITSTATUS(status));
}
static void programs(void) {
  int master;
  struct winsize w = {30, 100, 0, 0};
  fflush(stdout);
  int child = forkpty(&master, 0, 0, &w);
  if (child == 0) {
    struct winsize now;
    ioctl(0, TIOCGWINSZ, &now);
    printf("in a terminal %d %d %d of %d %d\n", isatty(0), isatty(1), isatty(2), now.ws_row, now.ws_col);
    fflush(stdout);
    char line[100];
    while (fgets(line, sizeof line, stdin)) printf("got %s", line);
    fflush(stdout);
    exit(7);
  }
  send(master, "first\nsecond\n\004");
  int total = 0, n;
  static char all[1000];
  while ((n = read(master, all + total, sizeof all - total)) > 0) total += n;
  show("ended", buffer, n);
  int echoed = 0;
  for (char *at = all; (at = strstr(at, "got ")); at++) echoed++;
  printf("answers %d, told of a terminal %d\n", echoed, strstr(all, "in a terminal 1 1 1 of 30 100\r\n") != 0);
  int status;
  waitpid(child, &status, 0);
  printf("status %d\n", WEXITSTATUS(status));
  close(master);
}
/* The session ends, and who opened the other side before still has it. */
static void left_over(void) {
  int master, slave;
  openpty(&master, &slave, 0, 0, 0);
  fflush(stdout);
  int child = fork();
  if (child == 0) {
    login_tty(slave);
    write(1, "child", 5);
    _exit(2);
  }
  waitpid(child, 0, 0);
  usleep(10000);
  now("of the child", master);
  now("nothing more", master);
  check("write", write(slave, "x", 1));
  close(slave);
  now("over", master);
  close(master);
}
int main(void) {
  signal(SIGHUP, SIG_IGN);
  setsid();
  opening();
  editing();
  raw();
  sizes();
  if (fork() == 0) { setsid(); sessions(); fflush(stdout); _exit(0); }
  wait(0);
  programs();
  left_over();
  return 3;
}
