/*
 * Leaving several frames with __builtin_setjmp and __builtin_longjmp: errors from deep recursion,
 * generators, retries.
 */
#include "lib.h"
static void *handlers[4][5];
static int level;
static u32 unwound;
static __attribute__((noinline)) void fail(void) {
  unwound++;
  __builtin_longjmp(handlers[--level], 1);
}
static __attribute__((noinline)) u32 deep(u32 n, u32 limit) {
  volatile u32 local[8];
  for (int i = 0; i < 8; i++) local[i] = n * 8 + (u32)i;
  if (n == limit) fail();
  u32 r = deep(n + 1, limit) + local[n & 7];
  return r;
}
static __attribute__((noinline)) int guarded(u32 limit) {
  volatile u32 kept = limit * 7;
  if (__builtin_setjmp(handlers[level++]) == 0) {
    deep(0, limit);
    return -1;
  }
  return (int)kept;
}
static __attribute__((noinline)) int nested(u32 limit) {
  volatile int result = 0;
  if (__builtin_setjmp(handlers[level++]) == 0) {
    result = guarded(limit);
    result += guarded(limit / 2);
    if (result & 1) fail();
    level--;
    return result;
  }
  return -result;
}
static volatile int attempts;
static __attribute__((noinline)) int retry(int n) {
  attempts = 0;
  __builtin_setjmp(handlers[0]);
  level = 1;
  attempts++;
  if (attempts < n) fail();
  level = 0;
  return attempts;
}
int main(void) {
  for (u32 n = 1; n < 40; n += 6) line("guarded", (u64)guarded(n));
  for (u32 n = 3; n < 12; n++) line("nested", (u64)(s64)nested(n));
  line("level", (u64)level);
  line("retry", (u64)retry(9));
  line("unwound", unwound);
  flush();
  return level;
}
