/* Ways that are kept to (openat2), and entries of directories as they were told first (getdents).
   Prints what Linux does on every machine. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "saying.h"

#ifndef SYS_openat2
#define SYS_openat2 437
#endif
struct how { uint64_t flags, mode, resolve, more; };
enum { NO_XDEV = 1, NO_MAGICLINKS = 2, NO_SYMLINKS = 4, BENEATH = 8, IN_ROOT = 16, CACHED = 32 };

static int dir;
static long how_many(const char *path, uint64_t flags, uint64_t mode, uint64_t resolve,
                     long size, uint64_t more) {
  struct how how = {flags, mode, resolve, more};
  return syscall(SYS_openat2, dir, path, &how, size);
}
/* What is read there: the first letter, or -1 and the error. */
static void look(int line, const char *path, uint64_t resolve) {
  errno = 0;
  int fd = how_many(path, O_RDONLY, 0, resolve, 24, 0);
  char letter = '-';
  if (fd >= 0) { if (read(fd, &letter, 1) < 0) letter = 'd'; close(fd); }
  printf("look:%d %s %d: %c %d\n", line, path, (int)resolve, letter, fd < 0 ? errno : 0);
}
#define LOOK(path, resolve) look(__LINE__, path, resolve)
static void put(const char *path, const char *text) {
  int fd = openat(dir, path, O_CREAT | O_WRONLY, 0600);
  write(fd, text, strlen(text));
  close(fd);
}

static void ways(const char *name) {
  char out[400];
  mkdirat(dir, "a", 0700), mkdirat(dir, "a/b", 0700), mkdirat(dir, "outside", 0700);
  put("a/file", "f"), put("a/b/deep", "d"), put("outside/file", "o");
  symlinkat("file", dir, "a/near");
  symlinkat("../outside/file", dir, "a/far");
  symlinkat("/file", dir, "a/root");
  symlinkat("b", dir, "a/to-b"), symlinkat("loop", dir, "a/loop"), symlinkat("../..", dir, "a/b/up");
  dir = openat(dir, "a", O_RDONLY | O_DIRECTORY);
  const int all[] = {
    0, NO_XDEV, NO_MAGICLINKS, NO_SYMLINKS, BENEATH, IN_ROOT, BENEATH | NO_SYMLINKS, IN_ROOT | NO_XDEV,
  };
  for (int i = 0; i < 8; i++) {
    LOOK("file", all[i]);
    LOOK("./b//deep", all[i]);
    LOOK("near", all[i]);
    LOOK("far", all[i]);
    LOOK("to-b/deep", all[i]);
    LOOK("b/../file", all[i]);
    LOOK("../outside/file", all[i]);
    LOOK("b/up/outside/file", all[i]);
    LOOK("loop", all[i]);
    LOOK("none", all[i]);
    LOOK("none/file", all[i]);
    LOOK("file/x", all[i]);
    LOOK("b", all[i]);
    LOOK("", all[i]);
  }
  LOOK("root", IN_ROOT);
  LOOK("root", BENEATH);
  LOOK("/file", IN_ROOT);
  LOOK("/file", BENEATH);
  LOOK("../../../../file", IN_ROOT);
  LOOK("/proc/self/exe", NO_MAGICLINKS);
  LOOK("/proc/self/exe", NO_SYMLINKS);
  LOOK("/proc/self/comm", NO_XDEV);
  LOOK("file", CACHED);
  LOOK("file", 64);
  LOOK("file", BENEATH | IN_ROOT);
  say(how_many("near", O_RDONLY | O_NOFOLLOW, 0, NO_SYMLINKS, 24, 0));
  say(how_many("file", O_RDONLY, 0600, 0, 24, 0));
  say(how_many("file", O_RDONLY, 0, 0, 23, 0));
  say(how_many("file", O_RDONLY, 0, 0, 5000, 0));
  say(how_many("file", O_RDONLY, 0, 0, 32, 1));
  say(how_many("file", (uint64_t)1 << 40, 0, 0, 24, 0));
  say(how_many("file", 0x80000000u, 0, 0, 24, 0));
  say(how_many("new", O_CREAT | O_RDWR, 010000, 0, 24, 0));
  say(how_many("file", O_PATH | O_RDWR, 0, 0, 24, 0));
  say(how_many("new", O_CREAT | O_RDWR, 0600, CACHED, 24, 0));
  int fd = how_many("b/new", O_CREAT | O_RDWR | O_CLOEXEC, 0640, BENEATH, 32, 0);
  say(fcntl(fd, F_GETFD));
  struct stat st;
  fstat(fd, &st);
  printf("%o\n", st.st_mode);
  close(fd);
  fd = how_many("far", O_CREAT | O_RDWR, 0640, BENEATH, 24, 0);
  say(fd);
  fd = how_many("near", O_PATH | O_NOFOLLOW, 0, BENEATH, 24, 0);
  fstat(fd, &st);
  printf("link %d\n", S_ISLNK(st.st_mode));
  close(fd);
}

/* Machines that are newer have getdents64 alone. */
static void entries(void) {
  char buffer[2000], *names[] = {".", "..", "b", "far", "file", "loop", "near", "root", "to-b"};
  int kinds[9] = {4, 4, 4, 10, 8, 10, 10, 10, 10};
#ifdef SYS_getdents
  int fd = openat(dir, ".", O_RDONLY);
  errno = 0;
  if (syscall(SYS_getdents, fd, buffer, 8) != -1 || errno != EINVAL) puts("small");
  memset(kinds, 0, sizeof kinds);
  for (long n; (n = syscall(SYS_getdents, fd, buffer, 100)) > 0;) {
    for (long at = 0; at < n;) {
      int size = *(unsigned short *)(buffer + at + 2 * sizeof(long));
      if (size % sizeof(long) != 0 || *(long *)(buffer + at) == 0) puts("bad");
      for (int i = 0; i < 9; i++)
        if (!strcmp(buffer + at + 2 * sizeof(long) + 2, names[i])) kinds[i] = buffer[at + size - 1];
      at += size;
    }
  }
  close(fd);
#endif
  for (int i = 0; i < 9; i++) printf("%s %d\n", names[i], kinds[i]);
}

int main(int argc, char **argv) {
  dir = open(argv[1], O_RDONLY | O_DIRECTORY);
  ways(argv[1]);
  entries();
  return 3;
}
