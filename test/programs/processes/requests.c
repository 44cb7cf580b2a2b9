/*
 * Requests that few programs make: sizes of pipes, holes, flags of transfers, programs by their
 * descriptors, clocks that a user may not set. Everything printed is the same on each run of Linux,
 * by a user without rights.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/reboot.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/swap.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void tell(const char *what, long answer) {
  printf("%s: %ld %s\n", what, answer < 0 ? -1 : answer, answer < 0 ? strerrorname_np(errno) : "");
}
#define S(call) (errno = 0, tell(#call, (long)(call)))

static char block[1 << 20];
static long fill(int end, int size) {
  long total = 0, written;
  while ((written = write(end, block, size)) > 0) total += written;
  return total;
}
static short ready(int end) {
  struct pollfd entry = {end, POLLIN | POLLOUT};
  poll(&entry, 1, 0);
  return entry.revents;
}

static void pipes(void) {
  int ends[2];
  pipe2(ends, O_NONBLOCK);
  S(fcntl(ends[0], F_GETPIPE_SZ));
  S(fcntl(ends[1], F_SETPIPE_SZ, 1));
  S(fcntl(ends[0], F_GETPIPE_SZ));
  S(fill(ends[1], 100));
  S(ready(ends[1]));
  S(fcntl(ends[0], F_SETPIPE_SZ, 5000));
  S(fill(ends[1], 4096));
  S(fcntl(ends[0], F_SETPIPE_SZ, 4096));
  S(read(ends[0], block, 4096));
  S(read(ends[0], block, 4096));
  S(fcntl(ends[0], F_SETPIPE_SZ, 300000));
  S(fill(ends[1], 65536));
  S(fcntl(ends[0], F_SETPIPE_SZ, 65536));
  S(read(ends[0], block, sizeof block));
  S(fcntl(ends[0], F_SETPIPE_SZ, 0));
  S(fcntl(ends[0], F_SETPIPE_SZ, 1 << 20));
  S(fcntl(ends[0], F_SETPIPE_SZ, 1 << 21));
  S(fcntl(ends[0], F_SETPIPE_SZ, -1));
  S(fcntl(ends[0], F_GETPIPE_SZ));
  S(fill(ends[1], 1 << 20));
  int pair[2], file = open("file", O_RDWR | O_CREAT, 0600);
  socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
  S(fcntl(pair[0], F_SETPIPE_SZ, 4096));
  S(fcntl(file, F_GETPIPE_SZ));
  S(fcntl(file, F_SETPIPE_SZ, 4096));
  mkfifo("fifo", 0600);
  int fifo = open("fifo", O_RDWR | O_NONBLOCK);
  S(fcntl(fifo, F_SETPIPE_SZ, 8192));
  S(fill(fifo, 8192));
}

static void holes(void) {
  int file = open("data", O_RDWR | O_CREAT, 0600), ends[2];
  pipe(ends);
  S(lseek(file, 0, SEEK_DATA));
  S(lseek(file, 0, SEEK_HOLE));
  S(write(file, block, 6));
  S(lseek(file, 0, SEEK_DATA));
  S(lseek(file, 3, SEEK_DATA));
  S(lseek(file, 6, SEEK_DATA));
  S(lseek(file, 2, SEEK_HOLE));
  S(lseek(file, 6, SEEK_HOLE));
  S(lseek(file, 7, SEEK_HOLE));
  S(lseek(file, -1, SEEK_DATA));
  S(lseek(file, -1, SEEK_HOLE));
  S(lseek(file, 0, SEEK_CUR));
  S(lseek(file, 0, 5));
  S(lseek(ends[0], 0, SEEK_DATA));
}

static void transfers(void) {
  int file = open("moved", O_RDWR | O_CREAT, 0600);
  char text[20] = "";
  struct iovec one = {"first", 5}, two = {"xy", 2}, in = {text, 19};
  S(pwritev2(file, &one, 1, 0, RWF_SYNC));
  S(pwritev2(file, &two, 1, 1, RWF_DSYNC | RWF_HIPRI));
  S(pwritev2(file, &two, 1, 0, RWF_APPEND));
  S(pwritev2(file, &two, 1, -1, RWF_APPEND));
  S(lseek(file, 0, SEEK_CUR));
  S(preadv2(file, &in, 1, 0, RWF_HIPRI));
  S(preadv2(file, &in, 1, 0, RWF_APPEND));
  S(preadv2(file, &in, 1, 0, 0x4000));
  S(pwritev2(file, &one, 1, 0, 0x4000));
  puts(text);
  int ends[2];
  pipe(ends);
  S(pwritev2(ends[1], &one, 1, -1, RWF_NOWAIT));
  S(preadv2(ends[0], &in, 1, -1, RWF_NOWAIT));
  S(preadv2(ends[0], &in, 1, -1, RWF_NOWAIT));
  S(preadv2(ends[0], &in, 1, 0, RWF_NOWAIT));
}

struct entry {
  uint64_t number, next;
  unsigned short size;
  unsigned char type;
  char name[];
};
/* Lists a directory piece by piece, and does something with each number or name. */
static long each(const char *path, void (*act)(int, const char *)) {
  int directory = open(path, O_RDONLY | O_DIRECTORY);
  char piece[100];
  long size, count = 0;
  while ((size = syscall(SYS_getdents64, directory, piece, sizeof piece)) > 0) {
    for (long at = 0; at < size; count++) {
      struct entry *entry = (struct entry *)(piece + at);
      at += entry->size;
      if (entry->name[0] != '.') act(directory, entry->name);
    }
  }
  close(directory);
  return count;
}
static void closing(int directory, const char *name) {
  int number = atoi(name);
  if (number > 2 && number != directory) close(number);
}
static void removing(int directory, const char *name) { unlinkat(directory, name, 0); }
static void counting(int directory, const char *name) {}

/* What is closed or removed while it is listed. */
static void lists(void) {
  mkdir("many", 0700);
  for (int i = 0; i < 100; i++) {
    char name[40];
    sprintf(name, "many/file-%d", i);
    close(open(name, O_CREAT | O_WRONLY, 0600));
  }
  S(each("many", counting));
  S(each("many", removing));
  S(each("many", counting));
  S(rmdir("many"));
  for (int i = 3; i < 90; i++) dup2(1, i);
  each("/proc/self/fd", closing);
  long open = 0;
  for (int i = 3; i < 200; i++) open += fcntl(i, F_GETFD) >= 0;
  S(open);
}

static void program(int file, const char *path, int flags, const char *say) {
  fflush(stdout);
  int child = fork(), ended;
  if (child == 0) {
    char *args[] = {"called", (char *)say, NULL}, *env[] = {NULL};
    syscall(SYS_execveat, file, path, args, env, flags);
    printf("%s: %s\n", say, strerrorname_np(errno));
    fflush(stdout);
    _exit(1);
  }
  waitpid(child, &ended, 0);
  printf("%s ended with %d\n", say, WEXITSTATUS(ended));
}

/* Programs that are executed by a descriptor. */
static void programs(void) {
  int own = open("program", O_RDONLY), copy = open("copy", O_CREAT | O_WRONLY, 0700);
  long size;
  while ((size = read(own, block, sizeof block)) > 0) write(copy, block, size);
  close(copy);
  symlink("copy", "linked");
  int here = open(".", O_PATH | O_DIRECTORY), place = open("copy", O_PATH), file = open("copy", O_RDONLY);
  int plain = open("file", O_RDWR | O_CREAT, 0600), link = open("linked", O_PATH | O_NOFOLLOW);
  program(file, "", AT_EMPTY_PATH, "file");
  program(place, "", AT_EMPTY_PATH, "place");
  program(place, "", 0, "no flag");
  program(here, "copy", 0, "directory");
  program(here, "linked", AT_SYMLINK_NOFOLLOW, "link");
  program(here, "copy", AT_SYMLINK_NOFOLLOW, "no link");
  program(here, "copy", 0x4000, "other flag");
  program(here, "", AT_EMPTY_PATH, "itself");
  program(plain, "", AT_EMPTY_PATH, "not executable");
  program(link, "", AT_EMPTY_PATH, "link itself");
  program(99, "", AT_EMPTY_PATH, "not open");
  program(AT_FDCWD, "copy", AT_EMPTY_PATH, "named");
  int memory = memfd_create("some", 0);
  lseek(own, 0, SEEK_SET);
  while ((size = read(own, block, sizeof block)) > 0) write(memory, block, size);
  program(memory, "", AT_EMPTY_PATH, "memory");
  unlink("copy");
  program(file, "", AT_EMPTY_PATH, "unlinked");
}

static void clocks(void) {
  struct timespec time = {0}, own = {0};
  struct timeval now = {0, 2000000};
  S(clock_settime(CLOCK_REALTIME, &time));
  S(clock_settime(CLOCK_MONOTONIC, &time));
  S(clock_settime(CLOCK_BOOTTIME, &time));
  S(clock_settime(CLOCK_PROCESS_CPUTIME_ID, &time));
  S(clock_settime(77, &time));
  S(syscall(SYS_settimeofday, &now, 0L));
  now.tv_usec = 0;
  S(syscall(SYS_settimeofday, &now, 0L));
  S(syscall(SYS_settimeofday, 0L, 0L));
  S(sethostname("other", 5));
  S(setdomainname("other", 5));
  S(acct("file"));
  S(reboot(0));
  S(vhangup());
  S(swapon("file", 0));
  S(swapoff("file"));
  S(syscall(SYS_pivot_root, ".", "."));
  S(sched_rr_get_interval(0, &time));
  S(sched_rr_get_interval(-1, &time));
  S(sched_rr_get_interval(999999, &time));

  clockid_t clock;
  S(pthread_getcpuclockid(pthread_self(), &clock));
  S(clock_gettime(clock, &time));
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &own);
  S(own.tv_sec > time.tv_sec || (own.tv_sec == time.tv_sec && own.tv_nsec >= time.tv_nsec));
  S(clock_getres(clock, &time));
  S(clock_getcpuclockid(0, &clock));
  S(clock_gettime(clock, &time));
  S(clock_settime(clock, &time));
}

int main(int argc, char **argv) {
  if (argc > 1 && strcmp(argv[0], "called") == 0) {
    printf("called by %s\n", argv[1]);
    return 4;
  }
  chdir(argv[1]);
  pipes();
  holes();
  transfers();
  programs();
  clocks();
  lists();
  return 3;
}
