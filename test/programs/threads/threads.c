/*
 * Threads of the C library: mutexes, condition variables, barriers, once, storage of threads,
 * cancellation, signals to threads, detached threads, times. Prints what does not depend on the
 * order in which they run.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <signal.h>
#include <semaphore.h>
#include <errno.h>
#include <time.h>
#include <sched.h>
#include <linux/futex.h>
#include <sys/syscall.h>
static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t c = PTHREAD_COND_INITIALIZER;
static pthread_barrier_t bar;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key;
static __thread int tls = 7;
static int counter, onces, queue[16], head, tail, destroyed;
static unsigned atomics;
static sem_t sem;
static void init(void) { onces++; }
static void destroy(void *p) { __atomic_fetch_add(&destroyed, (int)(long)p, __ATOMIC_SEQ_CST); }
static void *worker(void *arg) {
  long id = (long)arg;
  tls += id;
  pthread_setspecific(key, (void *)(id + 1));
  pthread_once(&once, init);
  pthread_barrier_wait(&bar);
  for (int i = 0; i < 500; i++) {
    pthread_mutex_lock(&m);
    counter++;
    pthread_mutex_unlock(&m);
    __atomic_fetch_add(&atomics, 3, __ATOMIC_SEQ_CST);
  }
  pthread_barrier_wait(&bar);
  return (void *)(long)tls;
}
static void *consumer(void *arg) {
  long sum = 0;
  for (;;) {
    pthread_mutex_lock(&m);
    while (head == tail) pthread_cond_wait(&c, &m);
    int v = queue[head++ % 16];
    pthread_cond_broadcast(&c);
    pthread_mutex_unlock(&m);
    if (v < 0) return (void *)sum;
    sum += v;
  }
}
static void put(int v) {
  pthread_mutex_lock(&m);
  while (tail - head == 16) pthread_cond_wait(&c, &m);
  queue[tail++ % 16] = v;
  pthread_cond_broadcast(&c);
  pthread_mutex_unlock(&m);
}
static int cleaned;
static void clean(void *p) { cleaned += (int)(long)p; }
static void *cancelled(void *arg) {
  pthread_cleanup_push(clean, (void *)5);
  sem_post(&sem);
  for (;;) pause();
  pthread_cleanup_pop(0);
  return 0;
}
static void *spinning(void *arg) {
  pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, 0);
  sem_post(&sem);
  for (;;) ;
}
static volatile sig_atomic_t got;
static __thread int mine;
static void handler(int s) { got += 10 + mine; }
static void *signalled(void *arg) {
  mine = 1;
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGUSR2);
  pthread_sigmask(SIG_BLOCK, &set, 0);
  sem_post(&sem);
  int s;
  sigwait(&set, &s);
  return (void *)(long)(s == SIGUSR2);
}
static void *detached(void *arg) { sem_post(&sem); return 0; }
static pthread_mutex_t left;
static void *leaving(void *arg) { pthread_mutex_lock(&left); return 0; }
/* A thread ends with a lock that it holds. */
static void robust(void) {
  pthread_mutexattr_t attr;
  pthread_t t;
  pthread_mutexattr_init(&attr);
  pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
  pthread_mutex_init(&left, &attr);
  pthread_create(&t, 0, leaving, 0);
  pthread_join(t, 0);
  int first = pthread_mutex_lock(&left);
  printf("robust %d %d\n", first == EOWNERDEAD, pthread_mutex_consistent(&left));
  printf("unlocked %d\n", pthread_mutex_unlock(&left));
}
static int words[2], woken;
static void *sleeper(void *arg) {
  long r = syscall(SYS_futex, &words[0], FUTEX_WAIT_PRIVATE, 0, 0, 0, 0);
  __atomic_fetch_add(&woken, r == 0, __ATOMIC_SEQ_CST);
  return 0;
}
static long op(int *a, int operation, long count, long more, int *b, unsigned value) {
  return syscall(SYS_futex, a, operation, count, more, b, value);
}
/* Operations that the library does not use. */
static void futexes(void) {
  pthread_t t[3];
  for (int i = 0; i < 3; i++) pthread_create(&t[i], 0, sleeper, 0);
  long seen = 0;
  /* Moved to itself a waiter stays: so they are counted. */
  while (seen < 3) { seen = op(&words[0], FUTEX_CMP_REQUEUE_PRIVATE, 0, 9, &words[0], 0) ; sched_yield(); }
  printf("moved %ld\n", op(&words[0], FUTEX_CMP_REQUEUE_PRIVATE, 1, 1, &words[1], 0));
  printf("changed %ld\n", op(&words[0], FUTEX_CMP_REQUEUE_PRIVATE, 1, 1, &words[1], 1));
  words[1] = 5;
  printf("both %ld\n", op(&words[0], FUTEX_WAKE_OP_PRIVATE, 1, 1, &words[1],
                             FUTEX_OP(FUTEX_OP_ADD, 7, FUTEX_OP_CMP_EQ, 5)));
  for (int i = 0; i < 3; i++) pthread_join(t[i], 0);
  printf("word %d woken %d\n", words[1], woken);
}
int main(int argc, char **argv) {
  /* qemu-user 7.2 has no robust lists, does not swap the word of FUTEX_WAKE_OP, and libgcc of
     32-bit PowerPC ends under it. */
  int all = argc == 1;
  setvbuf(stdout, 0, _IOLBF, 0);
  pthread_t t[8];
  pthread_key_create(&key, destroy);
  pthread_barrier_init(&bar, 0, 4);
  sem_init(&sem, 0, 0);
  for (long i = 0; i < 4; i++) if (pthread_create(&t[i], 0, worker, (void *)i)) return 1;
  long sum = 0;
  for (int i = 0; i < 4; i++) { void *r; pthread_join(t[i], &r); sum += (long)r; }
  printf("counter %d atomics %u once %d tls %ld %d destroyed %d\n", counter, atomics, onces, sum, tls, destroyed);
  for (int i = 0; i < 3; i++) pthread_create(&t[i], 0, consumer, 0);
  long total = 0;
  for (int i = 1; i <= 200; i++) put(i);
  for (int i = 0; i < 3; i++) put(-1);
  for (int i = 0; i < 3; i++) { void *r; pthread_join(t[i], &r); total += (long)r; }
  printf("consumed %ld\n", total);
  void *r;
  if (!all) goto signals;
  pthread_create(&t[0], 0, cancelled, 0);
  sem_wait(&sem);
  pthread_cancel(t[0]);
  pthread_join(t[0], &r);
  printf("cancelled %d cleaned %d\n", r == PTHREAD_CANCELED, cleaned);
  pthread_create(&t[0], 0, spinning, 0);
  sem_wait(&sem);
  pthread_cancel(t[0]);
  pthread_join(t[0], &r);
  printf("spinning %d\n", r == PTHREAD_CANCELED);
signals:
  signal(SIGUSR1, handler);
  pthread_create(&t[0], 0, signalled, 0);
  sem_wait(&sem);
  pthread_kill(t[0], SIGUSR1);
  while (!got) ;
  pthread_kill(t[0], SIGUSR2);
  pthread_join(t[0], &r);
  printf("signalled %d %ld\n", got, (long)r);
  pthread_attr_t attr;
  pthread_attr_init(&attr);
  pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
  for (int i = 0; i < 20; i++) { pthread_create(&t[0], &attr, detached, 0); sem_wait(&sem); }
  struct timespec ts;
  clock_gettime(CLOCK_REALTIME, &ts);
  ts.tv_nsec += 1000000;
  if (ts.tv_nsec >= 1000000000) ts.tv_nsec -= 1000000000, ts.tv_sec++;
  pthread_mutex_lock(&m);
  printf("timed %d\n", pthread_cond_timedwait(&c, &m, &ts) == ETIMEDOUT);
  pthread_mutex_unlock(&m);
  if (all) robust(), futexes();
  printf("end\n");
  exit(3);
}
