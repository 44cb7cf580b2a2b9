/*
 * Times of files to the nanosecond, and what inotify tells of changes that the program itself and
 * its child make below a directory. Everything printed is the same on each run of Linux: of times
 * that the clock gives only their order is said.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <utime.h>

static void show(const char *what, const struct timespec *time) {
  printf(" %s %lld.%09ld", what, (long long)time->tv_sec, (long)time->tv_nsec);
}
static void times(const char *path) {
  struct stat status;
  if (lstat(path, &status)) {
    printf("%s: %s\n", path, strerror(errno));
    return;
  }
  printf("%s:", path);
  show("read", &status.st_atim);
  show("written", &status.st_mtim);
  printf("\n");
}
static int order(const struct timespec *a, const struct timespec *b) {
  if (a->tv_sec != b->tv_sec) return a->tv_sec < b->tv_sec ? -1 : 1;
  return a->tv_nsec < b->tv_nsec ? -1 : a->tv_nsec > b->tv_nsec;
}
/* The kernel's clock of files moves in steps of up to 10 ms. */
static void pass(void) {
  struct timespec step = {0, 30000000};
  nanosleep(&step, 0);
}
static struct stat before;
static void remember(const char *path) {
  lstat(path, &before);
  pass();
}
static void changed(const char *what, const char *path) {
  struct stat now;
  if (lstat(path, &now)) printf("%s gone\n", path);
  printf("%s: read %d, written %d, changed %d, %s file\n", what, order(&now.st_atim, &before.st_atim),
         order(&now.st_mtim, &before.st_mtim), order(&now.st_ctim, &before.st_ctim),
         now.st_ino == before.st_ino ? "same" : "other");
}
static void tell(const char *what, int answer) {
  printf("%s %d %s\n", what, answer, answer < 0 ? strerror(errno) : "");
}
static int put(const char *path, int flags, const char *text) {
  int fd = open(path, O_WRONLY | O_CREAT | flags, 0644);
  if (write(fd, text, strlen(text)) < 0) printf("write: %s\n", strerror(errno));
  return close(fd);
}

static void setting(void) {
  struct timespec both[2] = {{1000000000, 123456789}, {1500000001, 987654321}};
  put("set", 0, "text");
  printf("utimensat %d\n", utimensat(AT_FDCWD, "set", both, 0));
  times("set");
  struct timespec omit[2] = {{0, UTIME_OMIT}, {7, 1}};
  printf("omit %d\n", utimensat(AT_FDCWD, "set", omit, 0));
  times("set");
  struct timespec none[2] = {{0, UTIME_OMIT}, {0, UTIME_OMIT}};
  printf("none %d\n", utimensat(AT_FDCWD, "absent", none, 0));
  struct timespec wrong[2] = {{0, 1000000000}, {0, 0}};
  tell("wrong", utimensat(AT_FDCWD, "set", wrong, 0));
  tell("absent", utimensat(AT_FDCWD, "absent", both, 0));
  struct timeval small[2] = {{3, 4}, {5, 999999}};
  printf("utimes %d\n", utimes("set", small));
  times("set");
  struct utimbuf whole = {11, 12};
  printf("utime %d\n", utime("set", &whole));
  times("set");
  int fd = open("set", O_RDONLY);
  printf("futimens %d\n", futimens(fd, both));
  times("set");
  struct stat open;
  fstat(fd, &open);
  show("open", &open.st_mtim);
  close(fd);
  printf("\nsymlink %d\n", symlink("set", "link"));
  printf("of the link %d\n", utimensat(AT_FDCWD, "link", omit, AT_SYMLINK_NOFOLLOW));
  struct stat link;
  lstat("link", &link);
  show("link", &link.st_mtim);
  printf("\n");
  times("set");
  struct statx more;
  statx(AT_FDCWD, "set", 0, STATX_BASIC_STATS, &more);
  printf("statx %lld.%09u\n", (long long)more.stx_mtime.tv_sec, more.stx_mtime.tv_nsec);
}

static void clocks(void) {
  close(open("file", O_CREAT, 0644));
  struct stat made;
  lstat("file", &made);
  printf("made: %d %d\n", order(&made.st_atim, &made.st_mtim), order(&made.st_mtim, &made.st_ctim));
  remember("file");
  put("file", 0, "more");
  changed("write", "file");
  remember("file");
  chmod("file", 0600);
  changed("chmod", "file");
  remember("file");
  rename("file", "other");
  changed("rename", "other");
  remember("other");
  link("other", "second");
  changed("link", "other");
  remember("other");
  truncate("other", 2);
  changed("truncate", "other");
  char bytes[4];
  remember("other");
  int fd = open("other", O_RDONLY);
  printf("read %d\n", (int)read(fd, bytes, 4));
  changed("read", "other");
  close(fd);
  remember("other");
  close(open("other", O_WRONLY | O_TRUNC));
  changed("open", "other");
  remember("other");
  unlink("second");
  changed("unlink", "other");
  mkdir("folder", 0755);
  remember("folder");
  put("folder/file", 0, "a");
  changed("create", "folder");
  remember("folder");
  put("folder/file", 0, "b");
  changed("write in", "folder");
  remember("folder");
  rename("folder/file", "moved");
  changed("rename out of", "folder");
  remember("folder");
  mkdir("folder/in", 0755);
  changed("mkdir in", "folder");
  remember("folder");
  rmdir("folder/in");
  changed("rmdir in", "folder");
}

static void mode(const char *path) {
  struct stat status;
  if (stat(path, &status)) printf("%s: %s\n", path, strerror(errno));
  else printf("%s: mode %o, %lld bytes, written %lld\n", path, status.st_mode, S_ISDIR(status.st_mode) ? 0LL : (long long)status.st_size,
              (long long)(status.st_mtim.tv_sec < 100 ? status.st_mtim.tv_sec : -1));
}
static void link_of(int fd) {
  char name[64], text[4096] = "";
  snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
  if (readlink(name, text, sizeof text - 1) < 0) printf("readlink: %s\n", strerror(errno));
  printf("fd leads to %s\n", strrchr(text, '/'));
}
/* What a descriptor leads to stays what it is, whatever becomes of its name. */
static void renaming(void) {
  struct timespec both[2] = {{41, 0}, {42, 0}};
  struct stat open_one;
  int fd = open("one", O_RDWR | O_CREAT, 0644);
  rename("one", "two");
  put("one", 0, "another");
  tell("ftruncate", ftruncate(fd, 3));
  tell("fchmod", fchmod(fd, 0600));
  tell("fchown", fchown(fd, -1, -1));
  tell("futimens", futimens(fd, both));
  mode("one");
  mode("two");
  link_of(fd);
  chmod("two", 0640);
  fstat(fd, &open_one);
  printf("fstat %o\n", open_one.st_mode);
  unlink("two");
  tell("unlinked: fchmod", fchmod(fd, 0711));
  tell("futimens", futimens(fd, both));
  fstat(fd, &open_one);
  printf("fstat %o, written %lld\n", open_one.st_mode, (long long)open_one.st_mtim.tv_sec);
  mode("one");
  close(fd);
  mkdir("old", 0755);
  int flags[2] = {O_RDONLY | O_DIRECTORY, O_PATH | O_DIRECTORY};
  for (int i = 0; i < 2; i++) {
    int dir = open("old", flags[i]);
    mkdir("above", 0755);
    rename("old", "above/new");
    mkdir("old", 0755);
    close(openat(dir, "in", O_WRONLY | O_CREAT, 0644));
    mode("old/in");
    mode("above/new/in");
    if (i == 0) tell("fchmod", fchmod(dir, 0750));
    if (i == 0) tell("futimens", futimens(dir, both));
    mode("above/new");
    link_of(dir);
    char *was = getcwd(0, 0), here[4096] = "";
    printf("fchdir %d", fchdir(dir));
    printf(" to %s\n", strrchr(getcwd(here, sizeof here), '/'));
    chdir(was);
    unlink("above/new/in");
    rmdir("above/new");
    mkdir("above/new", 0755);
    tell("in what is gone", openat(dir, "in", O_WRONLY | O_CREAT, 0644));
    mode("above/new/in");
    rmdir("above/new");
    close(dir);
  }
}

static const struct { unsigned bit; const char *name; } BITS[] = {
    {IN_ACCESS, "ACCESS"}, {IN_MODIFY, "MODIFY"}, {IN_ATTRIB, "ATTRIB"}, {IN_CLOSE_WRITE, "CLOSE_WRITE"},
    {IN_CLOSE_NOWRITE, "CLOSE_NOWRITE"}, {IN_OPEN, "OPEN"}, {IN_MOVED_FROM, "MOVED_FROM"}, {IN_MOVED_TO, "MOVED_TO"},
    {IN_CREATE, "CREATE"}, {IN_DELETE, "DELETE"}, {IN_DELETE_SELF, "DELETE_SELF"}, {IN_MOVE_SELF, "MOVE_SELF"},
    {IN_IGNORED, "IGNORED"}, {IN_ISDIR, "ISDIR"}, {IN_Q_OVERFLOW, "Q_OVERFLOW"},
};
static void events(const char *what, int fd) {
  static char bytes[65536] __attribute__((aligned(8)));
  static unsigned lastCookie;
  int ready = -1;
  ioctl(fd, FIONREAD, &ready);
  struct pollfd one = {fd, POLLIN, 0};
  printf("-- %s: poll %d, %d bytes\n", what, poll(&one, 1, 0), ready);
  ssize_t count = read(fd, bytes, sizeof bytes);
  if (count < 0) printf("   %s\n", strerror(errno));
  for (char *at = bytes; at < bytes + count;) {
    struct inotify_event *event = (struct inotify_event *)at;
    printf("   %d", event->wd);
    for (unsigned i = 0; i < sizeof BITS / sizeof *BITS; i++)
      if (event->mask & BITS[i].bit) printf(" %s", BITS[i].name);
    if (event->len) printf(" '%s' (%u)", event->name, event->len);
    if (event->cookie) printf(event->cookie == lastCookie ? " the same" : " cookie");
    lastCookie = event->cookie;
    printf("\n");
    at += sizeof *event + event->len;
  }
}

static void watching(void) {
  char one = 0;
  int fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
  printf("flags %d\n", inotify_init1(0x10) < 0 && errno == EINVAL);
  mkdir("seen", 0755);
  mkdir("seen/sub", 0755);
  put("seen/old", 0, "0");
  int all = inotify_add_watch(fd, "seen", IN_ALL_EVENTS);
  printf("watch %d, again %d\n", all, inotify_add_watch(fd, "seen", IN_ALL_EVENTS));
  tell("created", inotify_add_watch(fd, "seen", IN_OPEN | IN_MASK_CREATE));
  tell("absent", inotify_add_watch(fd, "absent", IN_OPEN));
  tell("nothing", inotify_add_watch(fd, "seen", 0));
  tell("no directory", inotify_add_watch(fd, "seen/old", IN_OPEN | IN_ONLYDIR));
  tell("no watcher", inotify_add_watch(1, "seen", IN_OPEN));
  events("nothing", fd);
  put("seen/new", 0, "text");
  events("new", fd);
  put("seen/new", O_APPEND, "more");
  events("appended", fd);
  tell("too short", (int)read(fd, &one, 0));
  int file = open("seen/new", O_RDWR);
  printf("%d\n", (int)read(file, &one, 1));
  printf("%d\n", (int)read(file, &one, 1));
  printf("%d\n", (int)write(file, &one, 1));
  printf("%d\n", (int)lseek(file, 0, SEEK_END));
  printf("%d\n", (int)read(file, &one, 1));
  printf("%d\n", ftruncate(file, 100));
  events("open", fd);
  char *memory = malloc(10);
  printf("short buffer %d\n", (int)read(fd, memory, 10));
  fchmod(file, 0600);
  events("chmod", fd);
  unlink("seen/new");
  events("unlinked", fd);
  write(file, &one, 1);
  close(file);
  events("closed", fd);
  link("seen/old", "seen/second");
  rename("seen/second", "seen/third");
  events("names", fd);
  rename("seen/third", "outside");
  rename("outside", "seen/fourth");
  events("out and in", fd);
  symlink("old", "seen/symlink");
  mkfifo("seen/pipe", 0644);
  unlink("seen/pipe");
  mkdir("seen/folder", 0755);
  events("others", fd);
  DIR *directory = opendir("seen/folder");
  while (readdir(directory)) ;
  closedir(directory);
  rmdir("seen/folder");
  events("folder", fd);
  struct timespec both[2] = {{1, 2}, {3, 4}};
  utimensat(AT_FDCWD, "seen/old", both, 0);
  both[0].tv_nsec = UTIME_OMIT;
  utimensat(AT_FDCWD, "seen/old", both, 0);
  both[0].tv_nsec = 0, both[1].tv_nsec = UTIME_OMIT;
  utimensat(AT_FDCWD, "seen/old", both, 0);
  events("times", fd);
  int self = inotify_add_watch(fd, "seen/fourth", IN_ALL_EVENTS);
  int old = inotify_add_watch(fd, "seen/old", IN_ATTRIB | IN_DELETE_SELF | IN_MOVE_SELF);
  printf("of files %d %d\n", self, old);
  events("a name more", fd);
  unlink("seen/fourth");
  rename("seen/old", "seen/sub/old");
  unlink("seen/sub/old");
  events("the file", fd);
  tell("remove", inotify_rm_watch(fd, all));
  tell("remove again", inotify_rm_watch(fd, all));
  put("seen/unseen", 0, "x");
  events("removed", fd);
  int onlyOnce = inotify_add_watch(fd, "seen", IN_CREATE | IN_ONESHOT);
  put("seen/once", 0, "x");
  put("seen/twice", 0, "x");
  events("once", fd);
  int sub = inotify_add_watch(fd, "seen/sub", IN_CREATE | IN_DELETE_SELF | IN_MOVE_SELF);
  printf("%d %d\n", onlyOnce, inotify_add_watch(fd, "seen/sub", IN_DELETE | IN_MASK_ADD) == sub);
  if (fork() == 0) {
    put("seen/sub/child", 0, "x");
    unlink("seen/sub/child");
    rename("seen/sub", "seen/sub2");
    rmdir("seen/sub2");
    _exit(0);
  }
  wait(0);
  events("a child", fd);
  close(fd);
  int waiting = inotify_init();
  inotify_add_watch(waiting, ".", IN_CREATE);
  if (fork() == 0) {
    pass();
    put("late", 0, "x");
    _exit(0);
  }
  events("waited for", waiting);
  wait(0);
}

int main(int argc, char **argv) {
  setvbuf(stdout, 0, _IONBF, 0);
  if (chdir(argv[1])) return 1;
  setting();
  clocks();
  renaming();
  watching();
  return 3;
}
