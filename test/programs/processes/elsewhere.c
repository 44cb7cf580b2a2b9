/* Links of a tree that lead to /proc and /dev: what is opened, asked and made through them. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define S(what) do { errno = 0; long got_ = (what); int error_ = errno; \
  printf("%s: %ld %d\n", #what, got_, got_ < 0 ? error_ : 0); fflush(stdout); } while (0)

static char text[4096];

static int kind(const char *path, int (*ask)(const char *, struct stat *)) {
  struct stat status;
  return ask(path, &status) < 0 ? -1 : (int)(status.st_mode >> 12);
}

static int device(const char *path) {
  struct stat status;
  return stat(path, &status) < 0 ? -1 : (int)(major(status.st_rdev) * 1000 + minor(status.st_rdev));
}

/* How much of a file can be read, up to a few bytes. */
static int some(const char *path, int flags) {
  int file = open(path, flags), count = file < 0 ? -1 : (int)read(file, text, 5);
  if (file >= 0) close(file);
  return count;
}

/* Whether the file tells of this process. */
static int own(const char *path) {
  int file = open(path, O_RDONLY), count = file < 0 ? -1 : (int)read(file, text, sizeof text - 1);
  if (count < 0) return -1;
  close(file);
  text[count] = 0;
  char *found = strstr(text, "\nPid:\t");
  return found ? atoi(found + 6) == getpid() : 2;
}

static int holds(const char *path, const char *name) {
  DIR *folder = opendir(path);
  int found = 0;
  if (!folder) return -1;
  for (struct dirent *each; (each = readdir(folder));) found |= strcmp(each->d_name, name) == 0;
  closedir(folder);
  return found;
}

static void look(void) {
  S(kind("null", stat)); S(kind("null", lstat)); S(device("null")); S(device("zero"));
  S(access("null", R_OK | W_OK)); S(readlink("null", text, 50));
  S(some("null", O_RDONLY)); S(some("zero", O_RDONLY)); S(some("twice", O_RDONLY));
  S(device("twice")); S(device("up"));
  S(some("null", O_RDONLY | O_NOFOLLOW)); S(open("null", O_RDWR | O_CREAT | O_EXCL, 0600));
  S(open("null", O_RDONLY | O_DIRECTORY)); S(open("zero/x", O_RDONLY));
  S(own("status")); S(own("proc/self/status")); S(own("self/status")); S(own("loop-in/status"));
  S(some("mounts", O_RDONLY)); S(some("mtab", O_RDONLY)); S(kind("mtab", stat));
  S(kind("proc", stat));
  S(access("mtab", R_OK)); S(access("nothing", F_OK)); S(open("nothing", O_RDONLY));
  S(kind("nothing", stat)); S(holds("proc", "self")); S(holds("self", "status"));
  int folder = open(".", O_RDONLY | O_DIRECTORY), file = open("null", O_RDONLY);
  sprintf(text, "/proc/self/fd/%d/status", folder); S(own(text));
  sprintf(text, "/dev/fd/%d/twice", folder); S(device(text));
  sprintf(text, "/proc/self/fd/%d/x", file); S(open(text, O_RDONLY));
  S(open("/dev/fd/99/x", O_RDONLY)); S(kind("/proc/self/cwd/null", lstat));
  close(folder); close(file);
  S(open("round", O_RDONLY)); S(truncate("null", 0)); S(truncate("proc", 0));
  S(chdir("self")); S(own("status")); S(chdir("..")); S(own("self/status"));
}

static void link_all(void) {
  symlink("/dev/null", "null"); symlink("/dev/zero", "zero"); symlink("null", "twice");
  symlink("../../../../../../../../dev/zero", "up");
  symlink("/proc/self/status", "status"); symlink("/proc", "proc"); symlink("proc/self", "self");
  symlink("/proc/self/cwd/self", "loop-in"); symlink("/proc/mounts", "mounts");
  symlink("../../../../../../../../proc/self/mounts", "mtab"); symlink("/proc/none", "nothing");
  symlink("/proc/self/cwd/round", "round");
}

int main(int argc, char **argv) {
  if (chdir(argv[1])) return 1;
  if (argc > 2) {
    S(own("status")); S(own("proc/self/status")); S(access("one", F_OK)); S(some("one", O_RDONLY));
    S(access("proc/1/status", F_OK)); return 3;
  }
  link_all();
  S(open("twice", O_WRONLY | O_CREAT | O_TRUNC, 0600) >= 0);
  S(open("zero", O_RDWR | O_CREAT, 0600) >= 0); S(kind("null", stat));
  look();
  return 3;
}
