/*
 * Products: 8 to 64 bits, mixed signs, high halves by schoolbook and, where there is one, by the
 * 128-bit type.
 */
#include "lib.h"
static __attribute__((noinline)) u64 high(u64 a, u64 b) {
  u64 al = (u32)a, ah = a >> 32, bl = (u32)b, bh = b >> 32;
  u64 mid = ah * bl + (al * bl >> 32), other = al * bh + (u32)mid;
  return ah * bh + (mid >> 32) + (other >> 32);
}
static __attribute__((noinline)) s64 high_signed(s64 a, s64 b) {
  return (s64)(high((u64)a, (u64)b) - (a < 0 ? (u64)b : 0) - (b < 0 ? (u64)a : 0));
}
static __attribute__((noinline)) u64 wide(u64 a, u64 b) {
#ifdef __SIZEOF_INT128__
  u64 u = (u64)((unsigned __int128)a * b >> 64);
  u64 s = (u64)((__int128)(s64)a * (s64)b >> 64);
  unsigned __int128 sum = (unsigned __int128)a * b + ((unsigned __int128)b << 64 | a);
  if (u != high(a, b) || s != (u64)high_signed((s64)a, (s64)b)) puts_("wrong\n");
  return (u64)(sum >> 64) ^ (u64)(sum >> 17);
#else
  return high(a, b) ^ a * b >> 17;
#endif
}
static __attribute__((noinline)) u64 mixed(u64 a, u64 b) {
  return (u64)((s64)(s32)a * (s32)b) + (u64)(u32)a * (u32)b + (u64)((s64)(s32)a * (u32)b) + (u64)((s16)a * (s16)b) +
         (u64)((s8)a * (u8)b) + (u32)a * (u32)b + a * 10 + a * 0x10001 + (u64)((s64)b * -7);
}
int main(void) {
  u64 sum = 0, products = 0;
  for (int i = 0; i < 150; i++) {
    u64 a = (u64)random_() << 32 | random_(), b = (u64)random_() << 32 | random_();
    if (i % 5 == 0) a = -(a >> 40);
    if (i % 7 == 0) b = (u64)((s64)b >> 50);
    sum = sum * 3 + high(a, b) + (u64)high_signed((s64)a, (s64)b);
    products = (products << 3 | products >> 61) ^ wide(a, b) ^ mixed(a, b);
  }
  line("high", sum);
  line("ends", high(~0ull, ~0ull) ^ (u64)high_signed(-0x7fffffffffffffffll - 1, -1));
#ifdef __SIZEOF_INT128__
  line("products", products);
#else
  line("narrow", products);
#endif
  s32 overflow;
  u64 long_overflow;
  u32 flags = 0;
  for (int i = 0; i < 32; i++) {
    flags = flags << 1 | __builtin_mul_overflow((s32)random_() >> (i % 20), 1 << (i % 13), &overflow);
    flags ^= __builtin_mul_overflow((u64)random_() << (i % 30), (u64)random_(), &long_overflow);
  }
  line("flags", flags);
  flush();
  return (int)(sum & 31);
}
