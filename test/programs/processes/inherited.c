/* Locks with priority inheritance: the C library's, and the system call that they are made of. */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define S(what) do { errno = 0; long got_ = (what); int error_ = errno; \
  printf("%s: %ld %d\n", #what, got_, got_ < 0 ? error_ : 0); fflush(stdout); } while (0)
#ifndef SYS_futex
#define SYS_futex SYS_futex_time64
#endif
#ifndef FUTEX_LOCK_PI2
#define FUTEX_LOCK_PI2 13
#endif

static long pi(uint32_t *word, int operation, const void *time) {
  return syscall(SYS_futex, word, operation, 0L, time, 0L, 0L);
}
static struct timespec until(clockid_t clock, int milliseconds) {
  struct timespec now;
  clock_gettime(clock, &now);
  now.tv_nsec += milliseconds * 1000000L;
  now.tv_sec += now.tv_nsec / 1000000000; now.tv_nsec %= 1000000000;
  return now;
}
static pid_t self(void) { return syscall(SYS_gettid); }

static pthread_mutex_t lock, second;
static int sum, order[8], count;

static void make(pthread_mutex_t *mutex, int kind, int robust, int shared) {
  pthread_mutexattr_t how;
  pthread_mutexattr_init(&how);
  S(pthread_mutexattr_setprotocol(&how, PTHREAD_PRIO_INHERIT)); S(pthread_mutexattr_settype(&how, kind));
  if (robust) S(pthread_mutexattr_setrobust(&how, PTHREAD_MUTEX_ROBUST));
  if (shared) S(pthread_mutexattr_setpshared(&how, PTHREAD_PROCESS_SHARED));
  S(pthread_mutex_init(mutex, &how));
}

static void *adds(void *unused) {
  for (int i = 0; i < 3000; i++) {
    pthread_mutex_lock(&lock); int was = sum; if (i % 50 == 0) sched_yield(); sum = was + 1;
    pthread_mutex_unlock(&lock);
  }
  return 0;
}
static void *inTurn(void *number) {
  pthread_mutex_lock(&lock); order[count++] = (int)(intptr_t)number; pthread_mutex_unlock(&lock);
  return 0;
}
static void *keeps(void *mutex) { pthread_mutex_lock(mutex); return 0; }
static void *tries(void *mutex) {
  struct timespec soon = until(CLOCK_REALTIME, 5);
  S(pthread_mutex_trylock(mutex)); S(pthread_mutex_timedlock(mutex, &soon)); S(pthread_mutex_unlock(mutex));
  return 0;
}

static void mutexes(void) {
  pthread_t threads[4];
  make(&lock, PTHREAD_MUTEX_NORMAL, 0, 0);
  for (int i = 0; i < 4; i++) pthread_create(&threads[i], 0, adds, 0);
  for (int i = 0; i < 4; i++) pthread_join(threads[i], 0);
  S(sum);
  pthread_mutex_lock(&lock);
  for (int i = 0; i < 4; i++) { pthread_create(&threads[i], 0, inTurn, (void *)(intptr_t)i); usleep(20000); }
  pthread_mutex_unlock(&lock);
  for (int i = 0; i < 4; i++) pthread_join(threads[i], 0);
  printf("%d: %d %d %d %d\n", count, order[0], order[1], order[2], order[3]);
  make(&second, PTHREAD_MUTEX_ERRORCHECK, 0, 0);
  S(pthread_mutex_lock(&second)); S(pthread_mutex_lock(&second));
  pthread_create(&threads[0], 0, tries, &second); pthread_join(threads[0], 0);
  S(pthread_mutex_unlock(&second)); S(pthread_mutex_unlock(&second));
  pthread_mutex_t robust;
  make(&robust, PTHREAD_MUTEX_ERRORCHECK, 1, 0);
  pthread_create(&threads[0], 0, keeps, &robust); pthread_join(threads[0], 0);
  S(pthread_mutex_lock(&robust)); S(pthread_mutex_consistent(&robust));
  S(pthread_mutex_unlock(&robust)); S(pthread_mutex_lock(&robust));
  S(pthread_mutex_unlock(&robust));
}

static volatile int ready;
static void *dies(void *mutex) { pthread_mutex_lock(mutex); ready = 1; usleep(30000); return 0; }

static void died(void) {
  pthread_t thread;
  pthread_mutex_t robust;
  make(&robust, PTHREAD_MUTEX_NORMAL, 1, 0);
  pthread_create(&thread, 0, dies, &robust);
  while (!ready) sched_yield();
  S(pthread_mutex_lock(&robust)); S(pthread_mutex_unlock(&robust)); S(pthread_mutex_lock(&robust));
  pthread_join(thread, 0);
  pthread_mutex_t *shared = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  make(shared, PTHREAD_MUTEX_NORMAL, 1, 1);
  int *cell = (int *)(shared + 1), status;
  pthread_mutex_lock(shared);
  for (int i = 0; i < 2; i++) if (!fork()) {
    int got = pthread_mutex_lock(shared); cell[0] += got + 1;
    if (got) pthread_mutex_consistent(shared); if (cell[0] == 1) _exit(0);
    pthread_mutex_unlock(shared); _exit(0);
  }
  usleep(20000); S(pthread_mutex_unlock(shared));
  while (wait(&status) > 0);
  S(cell[0]); S(pthread_mutex_lock(shared));
}

static uint32_t word, other;
static long found;
static void *crosses(void *unused) {
  pi(&other, FUTEX_LOCK_PI, 0); ready = 2; found = pi(&word, FUTEX_LOCK_PI_PRIVATE, 0);
  pi(&word, FUTEX_UNLOCK_PI_PRIVATE, 0); pi(&other, FUTEX_UNLOCK_PI, 0); return 0;
}
static void *ends(void *place) { *(uint32_t *)place = self(); return 0; }
static int handled;
static void handler(int signal) { handled++; }
static void *holds(void *target) {
  pi(&word, FUTEX_LOCK_PI_PRIVATE, 0); ready = 3; usleep(10000);
  pthread_kill(*(pthread_t *)target, SIGUSR1); usleep(20000); pi(&word, FUTEX_UNLOCK_PI_PRIVATE, 0);
  return 0;
}

static void calls(void) {
  struct timespec past = {1, 0}, wrong = {1, 1000000000}, soon;
  pthread_t thread, own = pthread_self();
  S(pi(&word, FUTEX_UNLOCK_PI_PRIVATE, 0)); S(pi(&word, FUTEX_LOCK_PI_PRIVATE, 0));
  S(word == self()); S(pi(&word, FUTEX_LOCK_PI_PRIVATE, 0));
  S(pi(&word, FUTEX_TRYLOCK_PI_PRIVATE, 0));
  S(pi((uint32_t *)((char *)&word + 1), FUTEX_LOCK_PI_PRIVATE, 0));
  S(pi((uint32_t *)8, FUTEX_LOCK_PI, 0)); S(pi((uint32_t *)8, FUTEX_UNLOCK_PI, 0));
  S(pi(&word, FUTEX_LOCK_PI_PRIVATE | FUTEX_CLOCK_REALTIME, 0));
  S(pi(&other, FUTEX_LOCK_PI_PRIVATE, &wrong));
  S(pi(&word, FUTEX_UNLOCK_PI_PRIVATE, 0)); S(word);
  pthread_create(&thread, 0, ends, &word); pthread_join(thread, 0);
  S(pi(&word, FUTEX_LOCK_PI_PRIVATE, 0)); S(pi(&word, FUTEX_TRYLOCK_PI_PRIVATE, 0)); S(word >> 31);
  word = FUTEX_OWNER_DIED; S(pi(&word, FUTEX_TRYLOCK_PI_PRIVATE, 0));
  S(word == (FUTEX_OWNER_DIED | self())); S(pi(&word, FUTEX_UNLOCK_PI_PRIVATE, 0)); S(word);
  S(pi(&word, FUTEX_LOCK_PI_PRIVATE, 0));
  ready = 0; pthread_create(&thread, 0, crosses, 0);
  while (ready != 2) sched_yield();
  usleep(20000);
  S(pi(&other, FUTEX_LOCK_PI, 0)); S(pi(&other, FUTEX_TRYLOCK_PI, 0));
  S(word == (FUTEX_WAITERS | self())); S(pi(&word, FUTEX_UNLOCK_PI_PRIVATE, 0));
  pthread_join(thread, 0); S(found); S(word); S(other);
  ready = 0; pthread_create(&thread, 0, dies, &lock);
  struct sigaction action = {.sa_handler = handler};
  sigaction(SIGUSR1, &action, 0);
  pthread_join(thread, 0);
  ready = 0; pthread_create(&thread, 0, holds, &own);
  while (ready != 3) sched_yield();
  S(pi(&word, FUTEX_LOCK_PI_PRIVATE, &past)); soon = until(CLOCK_REALTIME, 2);
  S(pi(&word, FUTEX_LOCK_PI_PRIVATE, &soon)); soon = until(CLOCK_MONOTONIC, 2);
  S(pi(&word, FUTEX_LOCK_PI2 | FUTEX_PRIVATE_FLAG, &soon));
  S(pi(&word, FUTEX_LOCK_PI_PRIVATE, 0)); S(handled);
  S(word == (FUTEX_WAITERS | self()) || word == self()); S(pi(&word, FUTEX_UNLOCK_PI_PRIVATE, 0));
  S(word);
  pthread_join(thread, 0);
}

int main(void) {
  mutexes(); died(); calls();
  return 3;
}
