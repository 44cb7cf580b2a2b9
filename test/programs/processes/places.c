/*
 * The current directory, which follows where it is renamed to, and times of what is no file of a
 * tree. Everything printed is the same on each run of Linux.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const char *start;
static void tell(const char *what, int answer) {
  printf("%s %d %s\n", what, answer, answer < 0 ? strerror(errno) : "");
}
/* Where the process is, below the directory that it was started with. */
static void here(const char *who) {
  char cwd[4096], link[4096] = {0};
  const char *said = getcwd(cwd, sizeof cwd) ? cwd : strerror(errno);
  if (readlink("/proc/self/cwd", link, sizeof link - 1) < 0) strcpy(link, "?");
  size_t skip = strlen(start);
  printf("%s: %s, %s\n", who, strncmp(said, start, skip) ? said : said + skip, strncmp(link, start, skip) ? link : link + skip);
}

static void places(void) {
  struct stat status;
  mkdir("a", 0755);
  mkdir("a/b", 0755);
  mkdir("c", 0755);
  close(open("a/b/file", O_CREAT | O_WRONLY, 0644));
  tell("chdir", chdir("a/b"));
  here("in a/b");
  tell("rename", rename("../../a", "../../c/moved"));
  here("moved");
  tell("file", access("file", F_OK));
  tell("made", mkdir("new", 0755));
  chdir("..");
  here("up");
  chdir("b");
  int pipes[2];
  pipe(pipes);
  fflush(stdout);
  if (fork() == 0) {
    char byte;
    read(pipes[0], &byte, 1);
    here("child");
    fflush(stdout);
    _exit(access("file", F_OK));
  }
  rename("../../moved", "../../again");
  write(pipes[1], "x", 1);
  int ended;
  wait(&ended);
  tell("child", ended);
  here("again");
  tell("rename itself", rename(".", "../elsewhere"));
  tell("rename the upper", rename("..", "../../elsewhere"));
  tell("rename to itself", rename("new", "."));
  tell("rmdir itself", rmdir("."));
  tell("rmdir the upper", rmdir("../"));
  tell("rmdir the root", rmdir("//"));
  tell("unlink the upper", unlink(".."));
  tell("mkdir itself", mkdir("./", 0755));
  unlink("file");
  rmdir("new");
  tell("rmdir", rmdir("../b"));
  here("gone");
  tell("new file", open("file", O_CREAT | O_WRONLY, 0644));
  tell("stat", stat("file", &status));
  tell("another", mkdir(start, 0755));
  char again[4096];
  snprintf(again, sizeof again, "%s/c/again/b", start);
  tell("the same name", mkdir(again, 0755));
  here("still gone");
  tell("no file", open("file", O_CREAT | O_WRONLY, 0644));
  tell("back", chdir(start));
  here("back");
}

/* Whole seconds from `from` to `to`, not to depend on how fast the machine is. */
static long seconds(const struct timespec *from, const struct timespec *to) {
  return (to->tv_sec - from->tv_sec + (to->tv_nsec - from->tv_nsec >= 500000000) - (to->tv_nsec - from->tv_nsec <= -500000000));
}
static struct timespec now(void) {
  struct timespec time;
  clock_gettime(CLOCK_REALTIME, &time);
  return time;
}
static void age(const char *what, int fd, const struct timespec *made) {
  struct stat status;
  if (fstat(fd, &status)) {
    tell(what, -1);
    return;
  }
  printf("%s: made %ld, written %ld, mode %o\n", what, seconds(made, &status.st_ctim), seconds(made, &status.st_mtim), status.st_mode);
}
static void pass(void) {
  struct timespec second = {1, 0};
  nanosleep(&second, 0);
}

static void times(void) {
  struct timespec made = now(), epoch = {0, 0};
  int pipes[2], pair[2];
  pipe(pipes);
  socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
  int memory = memfd_create("memory", 0);
  int maps = open("/proc/self/maps", O_RDONLY);
  mkfifo("fifo", 0644);
  struct sockaddr_un name = {AF_UNIX, "socket"};
  int bound = socket(AF_UNIX, SOCK_STREAM, 0);
  tell("bind", bind(bound, (struct sockaddr *)&name, sizeof name));
  pass();
  write(pipes[1], "x", 1);
  write(memory, "x", 1);
  age("pipe", pipes[0], &made);
  age("socket", pair[0], &epoch);
  age("memory", memory, &made);
  age("maps", maps, &made);
  struct stat status;
  stat("socket", &status);
  printf("bound: %ld\n", seconds(&made, &status.st_mtim));
  stat("fifo", &status);
  printf("fifo: %ld\n", seconds(&made, &status.st_mtim));
  printf("devices: %d\n", stat("/dev/null", &status) == 0 && status.st_mtime > 1700000000);
  fstat(eventfd(0, 0), &status);
  printf("events: %d\n", status.st_mtime > 1700000000);
}

/* Opened as places: links too, which are looked at and not read. */
static void handles(void) {
  struct stat status;
  char text[64] = {0}, name[64];
  close(open("plain", O_CREAT | O_WRONLY, 0600));
  symlink("plain", "link");
  int link = open("link", O_PATH | O_NOFOLLOW), file = open("plain", O_PATH), null = open("/dev/null", O_PATH);
  tell("link", fstat(link, &status));
  printf("kind %o\n", status.st_mode & S_IFMT);
  tell("readlinkat", readlinkat(link, "", text, sizeof text - 1));
  printf("leads to %s\n", text);
  tell("of a file", readlinkat(file, "", text, sizeof text));
  tell("null", fstat(null, &status));
  printf("kind %o\n", status.st_mode & S_IFMT);
  tell("read", read(file, text, 1));
  tell("write", write(file, text, 1));
  tell("lseek", lseek(file, 0, SEEK_SET));
  tell("fchmod", fchmod(file, 0644));
  tell("mmap", mmap(0, 4096, PROT_READ, MAP_PRIVATE, file, 0) == MAP_FAILED ? -1 : 0);
  tell("directory", open("link", O_PATH | O_NOFOLLOW | O_DIRECTORY));
  tell("below a file", openat(file, "x", O_RDONLY));
  tell("absent", open("absent", O_PATH));
  tell("chmod of a link", fchmodat(AT_FDCWD, "link", 0644, AT_SYMLINK_NOFOLLOW));
  tell("chmod of a file", fchmodat(AT_FDCWD, "plain", 0640, AT_SYMLINK_NOFOLLOW));
  stat("plain", &status);
  printf("mode %o\n", status.st_mode);
  rename("plain", "renamed");
  snprintf(name, sizeof name, "/proc/self/fd/%d", file);
  int again = open(name, O_WRONLY);
  tell("written", write(again, "text", 4));
  stat("renamed", &status);
  printf("size %ld\n", (long)status.st_size);
  tell("chmod of what is open", chmod(name, 0604));
  stat("renamed", &status);
  printf("mode %o\n", status.st_mode);
  stat(name, &status);
  printf("opened: mode %o\n", status.st_mode);
  snprintf(name, sizeof name, "/proc/self/fd/%d", again);
  tell("chmod of another", chmod(name, 0600));
  stat("renamed", &status);
  printf("mode %o\n", status.st_mode);
}

int main(int count, char **arguments) {
  start = arguments[1];
  if (count < 2 || chdir(start)) return 1;
  places();
  times();
  handles();
  return 3;
}
