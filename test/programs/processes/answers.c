/* Answers of calls that change little: advice, barriers, cores, locked memory, links between file
   systems, slack, sizes of files. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define S(what) do { errno = 0; long got_ = (what); int error_ = errno; \
  printf("%s: %ld %d\n", #what, got_, got_ < 0 ? error_ : 0); fflush(stdout); } while (0)

static int status;
static struct stat facts;

static void advice(int file) {
  int ends[2];
  (void)!pipe(ends);
  S(posix_fadvise(file, 0, 0, POSIX_FADV_NOREUSE)); S(posix_fadvise(file, 0, 100, 6));
  S(posix_fadvise(file, 0, 100, -1)); S(posix_fadvise(file, 1L << 30, 100, 77));
  S(posix_fadvise(ends[0], 0, 0, 9)); S(posix_fadvise(99, 0, 0, 9));
  S(posix_fadvise64(file, 1LL << 33, 1LL << 34, POSIX_FADV_WILLNEED));
  S(posix_fadvise64(file, 0, 0, 8)); S(posix_fadvise(open(".", O_PATH), 0, 0, 0));
}

static long barrier(int command) { return syscall(SYS_membarrier, command, 0); }

static void barriers(void) {
  S(barrier(1)); S(barrier(2)); S(barrier(4)); S(barrier(8)); S(barrier(16)); S(barrier(8));
  S(barrier(3)); S(barrier(-1));
  if (fork() == 0) { S(barrier(8)); _exit(0); }
  wait(0);
}

static void cores(void) {
  struct rlimit none = {0, RLIM_INFINITY};
  int signals[] = {SIGSEGV, SIGABRT, SIGQUIT, SIGTERM};
  S(setrlimit(RLIMIT_CORE, &none));
  for (int i = 0; i < 4; i++) {
    if (fork() == 0) { signal(signals[i], SIG_DFL); raise(signals[i]); _exit(0); }
    wait(&status); S(WTERMSIG(status)); S(WCOREDUMP(status) != 0);
  }
}

static void locked(int file) {
  (void)!ftruncate(file, 8192);
  char *memory = mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  S(msync(memory, 8192, MS_SYNC | MS_INVALIDATE)); S(mlock(memory + 4096, 4096));
  S(msync(memory, 8192, MS_SYNC)); S(msync(memory, 8192, MS_SYNC | MS_INVALIDATE));
  S(msync(memory, 4096, MS_INVALIDATE));
  if (fork() == 0) { S(msync(memory, 8192, MS_INVALIDATE)); _exit(0); }
  wait(0);
  S(munlock(memory + 4096, 4096)); S(msync(memory, 8192, MS_INVALIDATE)); S(mlock(memory, 1));
  munmap(memory, 4096);
  S(mmap(memory, 4096, PROT_READ, MAP_SHARED | MAP_FIXED, file, 0) == memory);
  S(msync(memory, 8192, MS_INVALIDATE)); munmap(memory, 8192);
}

static void between(void) {
  close(open("plain", O_CREAT | O_RDWR, 0600)); mkdir("folder", 0700);
  S(link("/dev/null", "null")); S(link("/proc/self/status", "stolen"));
  S(link("/proc/self/status", "plain")); S(link("/dev/null", "plain"));
  S(link("plain", "/proc/self/plain")); S(link("/dev/none", "none")); S(access("stolen", F_OK));
  S(rename("/proc/self/status", "stolen")); S(rename("plain", "/proc/self/status"));
  S(link("folder", "other"));
}

static void slack(void) {
  S(prctl(PR_GET_TIMERSLACK)); S(prctl(PR_SET_TIMERSLACK, 70000)); S(prctl(PR_GET_TIMERSLACK));
  if (fork() == 0) {
    S(prctl(PR_GET_TIMERSLACK)); S(prctl(PR_SET_TIMERSLACK, 90000)); S(prctl(PR_SET_TIMERSLACK, 0));
    S(prctl(PR_GET_TIMERSLACK)); _exit(0);
  }
  wait(0); S(prctl(PR_SET_TIMERSLACK, 0)); S(prctl(PR_GET_TIMERSLACK));
}

static volatile int told;
static void count(int signal_) { told++; }

static void sizes(int file) {
  struct rlimit limit = {100, RLIM_INFINITY};
  static char text[300];
  int ends[2];
  (void)!pipe(ends); (void)!ftruncate(file, 0);
  signal(SIGXFSZ, count); S(setrlimit(RLIMIT_FSIZE, &limit));
  S(pwrite(file, text, 60, 0)); S(pwrite(file, text, 60, 60)); S(told);
  S(pwrite(file, text, 60, 100)); S(told); S(pwrite(file, text, 0, 200));
  S(pwrite(file, text, 10, 20)); S(fstat(file, &facts)); S(facts.st_size);
  S(lseek(file, 90, SEEK_SET)); S(write(file, text, 30)); S(write(file, text, 1)); S(told);
  S(ftruncate(file, 100)); S(ftruncate(file, 101)); S(told); S(ftruncate(file, 10));
  S(truncate("sized", 200)); S(told);
  S(write(ends[1], text, 300)); S(write(open("/dev/null", O_WRONLY), text, 300));
  if (fork() == 0) { signal(SIGXFSZ, SIG_DFL); (void)!pwrite(file, text, 1, 100); _exit(0); }
  wait(&status); S(WTERMSIG(status)); signal(SIGXFSZ, SIG_IGN); S(pwrite(file, text, 1, 100));
  limit.rlim_cur = RLIM_INFINITY; S(setrlimit(RLIMIT_FSIZE, &limit)); S(pwrite(file, text, 60, 100));
}

/* The rights that `maps` tells of a page. */
static int rights(void *page) {
  char line[300];
  unsigned long from, to;
  FILE *maps = fopen("/proc/self/maps", "r");
  while (fgets(line, sizeof line, maps)) {
    char said[5];
    if (sscanf(line, "%lx-%lx %4s", &from, &to, said) != 3 || from > (unsigned long)page
        || to <= (unsigned long)page) continue;
    fclose(maps);
    puts(said);
    return 1;
  }
  fclose(maps);
  return 0;
}

static void mapped(void) {
  char *page = mmap(0, 5 * 4096, PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  S(rights(page)); page[1] = 3;
  S(mprotect(page + 4096, 4096, PROT_READ | PROT_WRITE)); S(rights(page)); S(rights(page + 4096));
  S(rights(page + 8192));
  S(mprotect(page + 4096, 4096, PROT_EXEC)); S(rights(page + 4096));
  S(mprotect(page, 4096, PROT_NONE)); S(rights(page)); S(mprotect(page, 3 * 4096, PROT_READ));
  S(rights(page)); S(rights(page + 3 * 4096));
  if (fork() == 0) { S(rights(page + 3 * 4096)); _exit(0); }
  wait(0);
  munmap(page + 3 * 4096, 4096);
  page = mmap(page + 3 * 4096, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  S(rights(page)); S(rights(page + 4096));
}

int main(int argc, char **argv) {
  if (argc > 2) {
    struct rlimit core;
    S(getrlimit(RLIMIT_CORE, &core)); S(core.rlim_cur); core.rlim_cur = core.rlim_max;
    S(setrlimit(RLIMIT_CORE, &core));
    if (fork() == 0) abort();
    wait(&status); S(WCOREDUMP(status) != 0);
    return 3;
  }
  (void)!chdir(argv[1]);
  int file = open("sized", O_CREAT | O_RDWR, 0600);
  advice(file); barriers(); cores(); locked(file); between(); slack(); sizes(file); mapped();
  return 3;
}
