/* Threads: mutexes, condition variables, storage of their own. */
#include <pthread.h>
#include <stdio.h>
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t full = PTHREAD_COND_INITIALIZER, empty = PTHREAD_COND_INITIALIZER;
static int slot, has, total;
static __thread int own;
static void *produce(void *arg) {
  for (int i = 1; i <= 200; i++) {
    pthread_mutex_lock(&lock);
    while (has) pthread_cond_wait(&empty, &lock);
    slot = i, has = 1, own++;
    pthread_cond_signal(&full);
    pthread_mutex_unlock(&lock);
  }
  return (char *)arg + own;
}
static void *consume(void *arg) {
  for (int i = 1; i <= 200; i++) {
    pthread_mutex_lock(&lock);
    while (!has) pthread_cond_wait(&full, &lock);
    total += slot, has = 0, own += 2;
    pthread_cond_signal(&empty);
    pthread_mutex_unlock(&lock);
  }
  return (char *)arg + own;
}
int main(void) {
  pthread_t a, b;
  void *x, *y;
  pthread_create(&a, 0, produce, 0);
  pthread_create(&b, 0, consume, 0);
  pthread_join(a, &x);
  pthread_join(b, &y);
  printf("%d %ld %ld %d\n", total, (long)x, (long)y, own);
  return 0;
}
