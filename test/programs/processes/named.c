/* Memory and semaphores that processes share by their names, below /dev/shm. Prints what Linux does
   on every machine. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include "listing.h"
#include "saying.h"

static char memory[40], gate[40], folder[40];

static void shared(void) {
  struct stat st;
  say(stat("/dev/shm", &st));
  printf("%o\n", st.st_mode);
  say(shm_open(memory, O_RDWR, 0600));
  int fd = shm_open(memory, O_RDWR | O_CREAT | O_EXCL, 0600);
  say(shm_open(memory, O_RDWR | O_CREAT | O_EXCL, 0600));
  say(ftruncate(fd, 8192));
  int *p = mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  p[1] = 7;
  pid_t c = begin();
  if (c == 0) {
    munmap(p, 8192);
    int other = shm_open(memory, O_RDWR, 0);
    int *q = mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, other, 0);
    q[2] = q[1] + 1;
    _exit(q[1]);
  }
  say(end(c));
  say(p[2]);
  say(has("/dev/shm", memory + 1));
  fstat(fd, &st);
  printf("%o %ld\n", st.st_mode, (long)st.st_size);
  say(shm_unlink(memory));
  say(shm_unlink(memory));
  say(has("/dev/shm", memory + 1));
  p[3] = 9;
  say(pread(fd, p + 4, 4, 12));
  say(p[4]);
  say(mkdir(folder, 0700));
  say(rmdir(folder));
}

static void gates(void) {
  say(sem_open(gate, 0) == SEM_FAILED && errno == ENOENT);
  sem_t *s = sem_open(gate, O_CREAT | O_EXCL, 0600, 0);
  say(s != SEM_FAILED);
  say(sem_open(gate, O_CREAT | O_EXCL, 0600, 0) == SEM_FAILED && errno == EEXIST);
  pid_t c = begin();
  if (c == 0) {
    sem_t *t = sem_open(gate, 0);
    usleep(10000);
    sem_post(t), sem_post(t);
    _exit(5);
  }
  say(sem_wait(s));
  say(sem_wait(s));
  int value;
  sem_getvalue(s, &value);
  say(value);
  say(end(c));
  say(sem_close(s));
  say(sem_unlink(gate));
  say(sem_unlink(gate));
}

static void devices(void) {
  const char *names[] = {
    "null", "zero", "full", "random", "urandom", "tty", "ptmx", "fd", "stdin", "shm", "none",
  };
  for (int i = 0; i < 11; i++) say(has("/dev", names[i]));
  struct stat st;
  say(stat("/dev", &st) == 0 && S_ISDIR(st.st_mode));
  say(open("/dev", O_RDONLY | O_DIRECTORY) > 0);
  say(chdir("/dev"));
  say(open("null", O_RDWR) > 0);
}

int main(void) {
  sprintf(memory, "/elftrace-%d", getpid());
  sprintf(gate, "/gate-%d", getpid());
  sprintf(folder, "/dev/shm/f-%d", getpid());
  shared();
  gates();
  devices();
  return 3;
}
