/* What processes share: memory, files in memory, locks. Prints what each finds there; the files are
 * in the directory that is given. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char path[512];
static const char *in(const char *folder, const char *name) { snprintf(path, sizeof path, "%s/%s", folder, name); return path; }
static void ends(int child) { int status; waitpid(child, &status, 0); printf("ended %d\n", status); }
static char *map(int size, int protection, int flags, int fd, long offset) {
  char *p = mmap(0, size, protection, flags, fd, offset);
  if (p == MAP_FAILED) printf("mmap: %s\n", strerror(errno));
  return p;
}
static void say(int value) { printf(" %d", value); }
enum { RW = PROT_READ | PROT_WRITE, ANON = MAP_SHARED | MAP_ANONYMOUS };

/* Locks, a condition and a counter of two processes. */
struct both { pthread_mutex_t mutex; pthread_cond_t condition; pthread_barrier_t barrier; sem_t there, back; int turn, sum, counted; };
static void synchronised(void) {
  struct both *both = (struct both *)map(sizeof *both, RW, ANON, -1, 0);
  pthread_mutexattr_t mutex; pthread_condattr_t condition; pthread_barrierattr_t barrier;
  pthread_mutexattr_init(&mutex); pthread_mutexattr_setpshared(&mutex, PTHREAD_PROCESS_SHARED);
  pthread_condattr_init(&condition); pthread_condattr_setpshared(&condition, PTHREAD_PROCESS_SHARED);
  pthread_barrierattr_init(&barrier); pthread_barrierattr_setpshared(&barrier, PTHREAD_PROCESS_SHARED);
  pthread_mutex_init(&both->mutex, &mutex); pthread_cond_init(&both->condition, &condition);
  pthread_barrier_init(&both->barrier, &barrier, 2);
  sem_init(&both->there, 1, 0); sem_init(&both->back, 1, 0);
  int child = fork(), mine = child != 0;
  for (int i = 0; i < 50; i++) {
    pthread_mutex_lock(&both->mutex);
    while (both->turn != mine) pthread_cond_wait(&both->condition, &both->mutex);
    both->sum += mine ? 1 : 100;
    both->turn = !mine;
    pthread_cond_broadcast(&both->condition);
    pthread_mutex_unlock(&both->mutex);
  }
  for (int i = 0; i < 2000; i++) { pthread_mutex_lock(&both->mutex); both->sum++; pthread_mutex_unlock(&both->mutex); }
  for (int i = 0; i < 2000; i++) __atomic_fetch_add(&both->counted, 1, __ATOMIC_SEQ_CST);
  pthread_barrier_wait(&both->barrier);
  if (!child) { sem_post(&both->there); sem_wait(&both->back); both->sum += 7; sem_post(&both->there); _exit(1); }
  sem_wait(&both->there); printf("sum %d %d\n", both->sum, both->counted); sem_post(&both->back);
  sem_wait(&both->there); printf("sum %d\n", both->sum);
  ends(child);
}

/* A lock whose owner dies. */
static void robust(void) {
  struct both *both = (struct both *)map(sizeof *both, RW, ANON, -1, 0);
  pthread_mutexattr_t mutex;
  pthread_mutexattr_init(&mutex);
  pthread_mutexattr_setpshared(&mutex, PTHREAD_PROCESS_SHARED);
  pthread_mutexattr_setrobust(&mutex, PTHREAD_MUTEX_ROBUST);
  pthread_mutex_init(&both->mutex, &mutex);
  int child = fork();
  if (!child) { pthread_mutex_lock(&both->mutex); both->sum = 5; _exit(0); }
  while (!*(volatile int *)&both->sum);
  printf("owner %s, %d\n", pthread_mutex_lock(&both->mutex) == EOWNERDEAD ? "died" : "lives", both->sum);
  ends(child);
}

static void rights(void) {
  char *p = map(12288, RW, ANON, -1, 0), *q = map(4096, RW, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  p[0] = q[0] = 1;
  mprotect(p + 8192, 4096, PROT_NONE);
  int child = fork();
  if (!child) {
    mprotect(p + 8192, 4096, RW);
    p[0]++, p[4096] = 3, p[8192] = 4, q[0]++;
    if (madvise(p, 4096, MADV_DONTNEED) == 0) p[1] = p[0];
    munmap(p + 4096, 4096);
    _exit(q[0]);
  }
  ends(child);
  mprotect(p + 8192, 4096, PROT_READ);
  printf("shared %d %d %d %d, private %d\n", p[0], p[1], p[4096], p[8192], q[0]);
  /* A grandchild, when the child that made it is gone. */
  if (!(child = fork())) { if (!fork()) { while (p[2] == 0) usleep(1000); p[3] = 9; p[2] = 2; } _exit(0); }
  ends(child);
  *(volatile char *)(p + 2) = 1;
  while (*(volatile char *)(p + 2) != 2) usleep(1000);
  printf("grandchild %d\n", p[3]);
}

static void show(const char *what, int fd, long at) {
  char bytes[9] = "";
  long n = pread(fd, bytes, 8, at);
  for (int i = 0; i < n; i++) if (!bytes[i]) bytes[i] = '.';
  printf("%s: %ld %s\n", what, n, bytes);
}

static void files(const char *folder) {
  int fd = open(in(folder, "file"), O_RDWR | O_CREAT | O_TRUNC, 0600), only = open(path, O_RDONLY);
  if (fd < 0) { printf("open: %s\n", strerror(errno)); return; }
  ftruncate(fd, 6000);
  char *p = map(8192, RW, MAP_SHARED, fd, 0), *r = map(4096, PROT_READ, MAP_SHARED, only, 4096);
  memcpy(p, "stored", 6), memcpy(p + 5996, "end-----", 8);
  show("what was stored is read", fd, 0);
  show("and ends where the file does", only, 5996);
  pwrite(fd, "WRITTEN", 7, 3);
  printf("what was written is there: %.10s\n", p);
  lseek(fd, 4096, SEEK_SET); write(fd, "second", 6);
  printf("in both places: %s %s\n", p + 4096, r);
  printf("rights:"), say(mprotect(r, 4096, RW)), say(errno == EACCES), puts("");
  errno = 0; map(4096, RW, MAP_SHARED, only, 0);
  int child = fork();
  if (!child) {
    memcpy(p + 100, "child", 6);
    int again = open(path, O_RDWR);
    show("opened again", again, 100);
    char *other = map(4096, RW, MAP_SHARED, again, 0);
    printf("mapped again: %s\n", other + 100);
    munmap(p, 8192);
    memcpy(other + 200, "through another", 16);
    _exit(0);
  }
  ends(child);
  printf("from the child: %s, %s\n", p + 100, p + 200);
  char *private = map(4096, RW, MAP_PRIVATE, fd, 0);
  private[0] = 'S';
  printf("private: %.3s %.3s\n", private, p);
  ftruncate(fd, 12288);
  char *more = map(12288, RW, MAP_SHARED, fd, 0);
  more[12287] = 'z';
  munmap(more, 12288);
  show("grown", fd, 12280);
  msync(p, 8192, MS_SYNC);
  munmap(p, 8192); munmap(r, 4096); close(fd); close(only);
  fd = open(path, O_RDONLY); show("opened at last", fd, 0); show("opened at last", fd, 4096); close(fd);
  /* A file without a name. */
  fd = open(in(folder, "gone"), O_RDWR | O_CREAT | O_EXCL, 0600); unlink(path); ftruncate(fd, 4096);
  p = map(4096, RW, MAP_SHARED, fd, 0);
  if (!(child = fork())) { p[0] = 'g'; _exit(0); }
  ends(child); show("without a name", fd, 0); close(fd);
  if (!(child = fork())) { p[1] = 'h'; _exit(0); }
  ends(child); printf("and a descriptor: %c%c\n", p[0], p[1]); munmap(p, 4096);
}

static void ask(int fd, int type, long from, long length) {
  struct flock lock = {.l_type = type, .l_whence = SEEK_SET, .l_start = from, .l_len = length};
  int r = fcntl(fd, F_GETLK, &lock);
  printf("%d ask %d %ld %ld: %d", r, type, from, length, lock.l_type);
  if (lock.l_type != F_UNLCK) printf(" %ld %ld %d", (long)lock.l_start, (long)lock.l_len, lock.l_pid == getppid());
  printf("\n");
}
static int lock(int fd, int command, int type, long from, long length) {
  struct flock lock = {.l_type = type, .l_whence = SEEK_SET, .l_start = from, .l_len = length};
  return fcntl(fd, command, &lock) == 0 ? 0 : errno;
}
static void stage(int *pipes, char c) { write(pipes[1], &c, 1); }
static void until(int *pipes) { char c; read(pipes[0], &c, 1); }

static void locks(const char *folder) {
  int fd = open(in(folder, "locks"), O_RDWR | O_CREAT | O_TRUNC, 0600), there[2], back[2];
  write(fd, "0123456789", 10);
  pipe(there), pipe(back);
  say(lock(fd, F_SETLK, F_WRLCK, 10, 20)), say(lock(fd, F_SETLK, F_RDLCK, 40, 0)), say(lock(fd, F_SETLK, F_UNLCK, 15, 2)), puts("");
  int child = fork();
  if (!child) {
    ask(fd, F_WRLCK, 0, 0), ask(fd, F_WRLCK, 15, 2), ask(fd, F_RDLCK, 16, 100), ask(fd, F_WRLCK, 100, 1), ask(fd, F_RDLCK, 100, 1);
    say(lock(fd, F_SETLK, F_WRLCK, 12, 1)), say(lock(fd, F_SETLK, F_WRLCK, 15, 2));
    say(lock(fd, F_SETLK, F_RDLCK, 50, 5)), say(lock(fd, F_SETLK, 9, 0, 0)), puts("");
    stage(there, 'a');
    int r = lock(fd, F_SETLKW, F_WRLCK, 10, 5);
    printf("waited %d\n", r);
    stage(there, 'b'); until(back);
    /* Closing any descriptor of it gives all up. */
    close(dup(fd));
    stage(there, 'c'); until(back);
    printf("flock"), say(flock(open(path, O_RDWR), LOCK_EX | LOCK_NB)), say(errno == EWOULDBLOCK), puts("");
    stage(there, 'd');
    printf("flock %d\n", flock(open(path, O_RDWR), LOCK_EX));
    _exit(0);
  }
  until(there); usleep(1000);
  puts("unlock"), lock(fd, F_SETLK, F_UNLCK, 0, 0);
  until(there); say(lock(fd, F_SETLK, F_WRLCK, 11, 1)), say(lock(fd, F_SETLK, F_WRLCK, 20, 1)), puts(""); stage(back, 'x');
  until(there); printf("%d\n", lock(fd, F_SETLK, F_WRLCK, 11, 1));
  int other = open(path, O_RDWR);
  say(flock(other, LOCK_SH)), say(flock(other, LOCK_EX)), puts(""); stage(back, 'y');
  until(there); close(other); ends(child);
  /* Two that would wait for each other. */
  lock(fd, F_SETLK, F_UNLCK, 0, 0);
  lock(fd, F_SETLK, F_WRLCK, 0, 1);
  if (!(child = fork())) { lock(fd, F_SETLK, F_WRLCK, 1, 1); stage(there, 'e'); _exit(lock(fd, F_SETLKW, F_WRLCK, 0, 1)); }
  until(there); usleep(20000);
  printf("circle %d\n", lock(fd, F_SETLKW, F_WRLCK, 1, 1) == EDEADLK);
  lock(fd, F_SETLK, F_UNLCK, 0, 0);
  ends(child);
  /* Of a description, not of a process. */
  other = open(path, O_RDWR);
  say(lock(fd, F_OFD_SETLK, F_WRLCK, 0, 0)), say(lock(other, F_OFD_SETLK, F_RDLCK, 3, 1)), puts("");
  struct flock found = {.l_type = F_WRLCK, .l_whence = SEEK_END, .l_start = -2};
  say(fcntl(other, F_OFD_GETLK, &found)), say(found.l_type), say(found.l_pid), puts("");
  close(fd);
  printf("%d\n", lock(other, F_OFD_SETLK, F_RDLCK, 3, 1));
  say(lock(1, F_SETLK, F_WRLCK, 0, 1) != 0), say(flock(99, LOCK_EX)), puts("");
}

int main(int argc, char **argv) {
  setvbuf(stdout, 0, _IONBF, 0);
  if (argc < 2) return 1;
  synchronised(); robust(); rights(); files(argv[1]); locks(argv[1]);
  return 3;
}
