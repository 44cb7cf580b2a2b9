/* Refusals: names that are too long, places that are no sockets, clocks nobody can wait for, the
   heap behind a part that is protected. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define S(what) do { errno = 0; long got_ = (what); int error_ = errno; \
  printf("%s: %ld %d\n", #what, got_, got_ < 0 ? error_ : 0); fflush(stdout); } while (0)

static char longest[300], longer[300], text[900], deep[600], missing[600];
static struct stat status;

/* What can be called with the directory below which nothing is, and in one that was just made. */
static void names(void) {
  memset(longest, 'x', 255); memset(longer, 'y', 256);
  sprintf(deep, "%s/x", longer); sprintf(missing, "none/%s", longer);
  S(chdir(longer)); S(chdir(longest)); S(stat(longer, &status)); S(open(longer, O_RDONLY));
  S(open(longer, O_RDWR | O_CREAT, 0600)); S(mkdir(longer, 0700));
  S(open(deep, O_RDONLY)); S(open(missing, O_RDONLY)); S(unlink(longer)); S(rmdir(longer));
  S(rename(longer, "a")); S(symlink("a", longer)); S(access(longer, F_OK));
  S(readlink(longer, text, 5));
  S(open(longest, O_RDWR | O_CREAT, 0600) >= 0); S(rename(longest, longer));
  S(link(longest, longer)); S(stat(longest, &status)); S(chmod(longer, 0600));
  S(truncate(longer, 0)); S(execl(longer, longer, NULL));
  S(rename(longest, "short")); S(rename("short", longest)); S(unlink(longest)); S(stat(longest, &status));
  S(symlink(longer, "link")); S(open("link", O_RDONLY)); S(unlink("link"));
}

static int to(int socket_, const char *path) {
  struct sockaddr_un name = {.sun_family = AF_UNIX};
  strcpy(name.sun_path, path);
  return connect(socket_, (void *)&name, sizeof name);
}

static void sockets(void) {
  int server = socket(AF_UNIX, SOCK_STREAM, 0), client = socket(AF_UNIX, SOCK_STREAM, 0),
      datagrams = socket(AF_UNIX, SOCK_DGRAM, 0), place = open(".", O_PATH), file, size = 4, value;
  struct sockaddr_un name = {.sun_family = AF_UNIX, .sun_path = "socket"};
  S(bind(server, (void *)&name, sizeof name)); S(listen(server, 2)); S(chmod("socket", 0500));
  S(to(client, "socket")); S(to(datagrams, "socket"));
  S(sendto(datagrams, "x", 1, 0, (void *)&name, sizeof name));
  S(chmod("socket", 0200)); S(to(datagrams, "socket")); S(to(client, "socket"));
  file = open("plain", O_RDWR | O_CREAT, 0400); S(to(datagrams, "plain")); S(chmod("plain", 0600));
  S(to(datagrams, "plain"));
  S(accept(place, 0, 0)); S(listen(place, 1)); S(send(place, "x", 1, 0));
  S(recv(place, text, 1, 0)); S(getsockopt(place, SOL_SOCKET, SO_TYPE, &value, (void *)&size));
  S(to(place, "socket")); S(shutdown(place, 0)); S(accept(file, 0, 0));
}

static void clocks(void) {
  struct timespec none = {0, 0}, wrong = {0, -1};
  int clocks_[] = {CLOCK_REALTIME, CLOCK_MONOTONIC, 3, 4, CLOCK_REALTIME_COARSE,
      CLOCK_MONOTONIC_COARSE, CLOCK_BOOTTIME, 10, CLOCK_TAI, 12, 99};
  for (int i = 0; i < 11; i++) {
    errno = 0; long got = syscall(SYS_clock_nanosleep, clocks_[i], 0, &none, 0);
    printf("%d: %ld %d\n", clocks_[i], got, errno);
  }
  S(syscall(SYS_clock_nanosleep, 4, 0, &wrong, 0));
  S(syscall(SYS_clock_nanosleep, 99, 0, &wrong, 0));
  S(syscall(SYS_clock_nanosleep, 1, 0, &wrong, 0));
}

static void heap(void) {
  char *start = sbrk(0), *first = (char *)(((long)start + 4095) & -4096);
  S(brk(first + 8192)); first[4096] = 7;
  S(mprotect(first + 4096, 4096, PROT_READ)); S(brk(first + 16384)); S(sbrk(0) == first + 16384);
  first[8192] = first[16383] = 3;
  S(first[4096] + first[8192] + first[16383] + first[12288]);
  S(mprotect(first + 4096, 4096, PROT_READ | PROT_WRITE)); S(brk(first + 20480));
  first[20479] = first[4097] = 1; S(first[20479] + first[4097]);
  S(brk(start)); S(sbrk(0) == start); S(brk(first + 20480)); S(first[4096] + first[8192] + first[20479]);
}

int main(int argc, char **argv) {
  S(chdir(argv[1])); names(); S(mkdir("made", 0700)); S(chdir("made")); names();
  sockets(); clocks(); heap();
  return 3;
}
