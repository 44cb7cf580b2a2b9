/* Threads that count without a lock: what is lost depends on where they are interrupted. */
#include <pthread.h>
#include <stdio.h>
static volatile int count;
static void *body(void *unused) {
  for (int i = 0; i < 3000; i++) count++;
  return unused;
}
int main(void) {
  pthread_t t[4];
  for (int i = 0; i < 4; i++) pthread_create(&t[i], 0, body, 0);
  for (int i = 0; i < 4; i++) pthread_join(t[i], 0);
  printf("%d\n", count);
  return 0;
}
