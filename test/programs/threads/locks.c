/* Two threads that take two locks in opposite orders, and a third that sleeps for a while. */
#include <pthread.h>
#include <unistd.h>
static pthread_mutex_t a = PTHREAD_MUTEX_INITIALIZER, b = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t both;
__attribute__((noinline)) static void *first(void *unused) {
  pthread_mutex_lock(&a);
  pthread_barrier_wait(&both);
  pthread_mutex_lock(&b);
  return unused;
}
__attribute__((noinline)) static void *second(void *unused) {
  pthread_mutex_lock(&b);
  pthread_barrier_wait(&both);
  pthread_mutex_lock(&a);
  return unused;
}
static void *sleeping(void *unused) { sleep(5); return unused; }
int main(void) {
  pthread_t t[3];
  pthread_barrier_init(&both, 0, 2);
  pthread_create(&t[0], 0, first, 0);
  pthread_create(&t[1], 0, second, 0);
  pthread_create(&t[2], 0, sleeping, 0);
  for (int i = 0; i < 3; i++) pthread_join(t[i], 0);
  return 0;
}
