/* Big integers: factorial, Fibonacci, division, 64-bit arithmetic with carries. */
#include "lib.h"
#define LIMBS 40
static u32 f[LIMBS];
static void multiply(u32 *v, u32 by) {
  u64 carry = 0;
  for (int i = 0; i < LIMBS; i++) {
    carry += (u64)v[i] * by;
    v[i] = (u32)carry;
    carry >>= 32;
  }
}
static u32 divide(u32 *v, u32 by) {
  u64 rest = 0;
  for (int i = LIMBS - 1; i >= 0; i--) {
    rest = rest << 32 | v[i];
    u32 q = 0;
    for (int bit = 31; bit >= 0; bit--)
      if (rest >= (u64)by << bit) {
        rest -= (u64)by << bit;
        q |= 1u << bit;
      }
    v[i] = q;
  }
  return (u32)rest;
}
int main(void) {
  f[0] = 1;
  for (u32 i = 2; i <= 60; i++) multiply(f, i);
  char digits[120];
  int n = 0;
  for (;;) {
    int zero = 1;
    for (int i = 0; i < LIMBS; i++) zero &= f[i] == 0;
    if (zero) break;
    digits[n++] = (char)('0' + divide(f, 10));
  }
  while (n) put(digits[--n]);
  put('\n');
  u64 a = 0, b = 1;
  for (int i = 0; i < 100; i++) {
    u64 t = a + b;
    a = b;
    b = t;
  }
  line("fib", b);
  u64 lo = 0, hi = 0;
  for (u32 i = 0; i < 50; i++) {
    u64 x = (u64)random_() << 32 | random_();
    u64 y = (u64)random_() << 32 | random_();
    u64 s = lo + x;
    hi += y + (s < x);
    lo = s;
    s64 d = (s64)(x - y);
    lo ^= (u64)(d >> (i % 64));
    hi ^= x >> (y & 63) ^ y << (x & 63);
    hi += x < y ? 3 : (s64)x < (s64)y ? 5 : 7;
  }
  line("lo", lo);
  line("hi", hi);
  s32 m = -7;
  for (s32 i = 1; i < 40; i++) m = m * 1103515245 + i * (m / i) - (m % (i + 1)) + (s32)((u32)m / (u32)i);
  line("m", (u32)m);
  flush();
  return 3;
}
