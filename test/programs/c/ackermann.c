/*
 * Deep and doubled recursion: Ackermann, McCarthy 91, Collatz with memory, Hofstadter Q, Catalan,
 * tak.
 */
#include "lib.h"
static u32 deepest, depth;
static __attribute__((noinline)) u32 ackermann(u32 m, u32 n) {
  if (++depth > deepest) deepest = depth;
  u32 r = m == 0 ? n + 1 : n == 0 ? ackermann(m - 1, 1) : ackermann(m - 1, ackermann(m, n - 1));
  depth--;
  return r;
}
static s32 mccarthy(s32 n) { return n > 100 ? n - 10 : mccarthy(mccarthy(n + 11)); }
static s32 tak(s32 x, s32 y, s32 z) { return y >= x ? z : tak(tak(x - 1, y, z), tak(y - 1, z, x), tak(z - 1, x, y)); }
static u16 lengths[400];
static u32 collatz(u64 n) {
  if (n == 1) return 0;
  if (n < 400 && lengths[n]) return lengths[n];
  u32 r = 1 + collatz(n & 1 ? 3 * n + 1 : n / 2);
  if (n < 400) lengths[n] = (u16)r;
  return r;
}
static u16 memory[200];
static u32 hofstadter(u32 n) {
  if (n < 3) return 1;
  if (!memory[n]) memory[n] = (u16)(hofstadter(n - hofstadter(n - 1)) + hofstadter(n - hofstadter(n - 2)));
  return memory[n];
}
static u64 catalan(int n) {
  u64 sum = n == 0;
  for (int i = 0; i < n; i++) sum += catalan(i) * catalan(n - 1 - i);
  return sum;
}
int main(void) {
  line("ackermann", ackermann(2, 30));
  line("ackermann", ackermann(3, 3));
  line("deepest", deepest);
  u32 sum = 0;
  for (s32 i = 0; i < 102; i += 3) sum = sum * 3 + (u32)mccarthy(i);
  line("mccarthy", sum);
  line("tak", (u64)(s64)tak(9, 5, 1));
  u32 longest = 0;
  for (u32 i = 1; i < 400; i++)
    if (collatz(i) > longest) longest = collatz(i);
  line("collatz", longest);
  line("hofstadter", hofstadter(199));
  line("catalan", catalan(8));
  flush();
  return (int)deepest & 127;
}
