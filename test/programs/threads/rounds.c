/* A thread that holds a lock for 802 of the 1000 instructions of each round, which fit every slice
   of whole thousands; another that waits for it. */
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
static volatile int held;
static void *hold(void *unused) {
  __asm__ volatile(
      "0: movl $1, %0; movl $400, %%ecx; 1: decl %%ecx; jnz 1b\n"
      "movl $0, %0; movl $97, %%ecx; 1: decl %%ecx; jnz 1b; nop; jmp 0b"
      : "+m"(held) : : "ecx", "memory");
  return unused;
}
int main(void) {
  pthread_t thread;
  pthread_create(&thread, NULL, hold, NULL);
  while (!held) sched_yield();
  while (held) sched_yield();
  puts("free");
  exit(3);
}
