/*
 * Deep recursion over large frames, arrays of variable length, alloca, addresses of locals kept by
 * callees.
 */
#include "lib.h"
static u32 visited;
static __attribute__((noinline)) u32 sum_of(const u32 *p, int n) {
  u32 s = 0;
  while (n--) s = s * 5 + *p++;
  return s;
}
static __attribute__((noinline)) u32 large(u32 depth, u32 seed) {
  u32 frame[3000];
  for (int i = 0; i < 3000; i += 37) frame[i] = seed * (u32)i + depth;
  visited++;
  u32 below = depth ? large(depth - 1, frame[37 * (depth % 80)] | 1) : 7;
  return below * 3 + frame[37 * 20] + frame[2960];
}
static __attribute__((noinline)) u32 variable(int n) {
  if (n == 0) return 1;
  u32 v[n * 9], w[n];
  for (int i = 0; i < n * 9; i++) v[i] = (u32)(i * n);
  for (int i = 0; i < n; i++) w[i] = v[i * 8] ^ 0x55;
  u32 below = variable(n - 1);
  return below * 7 + sum_of(v, n * 9) + sum_of(w, n);
}
static __attribute__((noinline)) u32 dynamic(int n) {
  u8 *p = __builtin_alloca((word)n);
  u32 s = 0;
  for (int i = 0; i < n; i++) p[i] = (u8)(i * 7);
  for (int round = 0; round < 3; round++) {
    u8 *q = __builtin_alloca((word)(n / 2 + 1));
    for (int i = 0; i <= n / 2; i++) q[i] = (u8)(p[i] + round);
    p = q;
    n /= 2;
    s = s * 31 + q[n / 2];
  }
  return s;
}
struct chain { const struct chain *up; u32 value; };
static __attribute__((noinline)) u64 linked(const struct chain *up, u32 n) {
  struct chain here = {up, n * n};
  if (n < 60) return linked(&here, n + 1) + here.value;
  u64 s = 0;
  for (const struct chain *c = &here; c; c = c->up) s = s * 3 + c->value;
  return s;
}
static __attribute__((noinline)) u32 huge(u32 seed) {
  u32 frame[12000];
  frame[0] = seed, frame[11999] = seed + 1, frame[6000] = 9;
  return sum_of(frame + 11999, 1) + sum_of(frame, 1) * sum_of(frame + 6000, 1);
}
int main(void) {
  line("large", large(60, 1));
  line("visited", visited);
  line("variable", variable(25));
  line("dynamic", dynamic(500));
  line("linked", linked(0, 1));
  line("huge", huge(77));
  flush();
  return 3;
}
