/*
 * Division and remainder of 32 and 64 bits, signed and unsigned, by variables and constants; powers
 * of two; extremes.
 */
#include "lib.h"
static __attribute__((noinline)) u64 each(u64 a, u64 b) {
  u64 r = a / b * 3 + a % b;
  if ((s64)b != -1) r ^= (u64)((s64)a / (s64)b) ^ (u64)((s64)a % (s64)b) << 1;
  if ((u32)b) r += (u32)a / (u32)b + (u64)((u32)a % (u32)b);
  if ((s32)b != 0 && (s32)b != -1) r -= (u64)(s64)((s32)a / (s32)b) + (u64)(s64)((s32)a % (s32)b);
  return r;
}
static __attribute__((noinline)) u64 constants(u64 a) {
  s64 s = (s64)a;
  s32 n = (s32)a;
  u32 u = (u32)a;
  u64 r = a / 10 + a % 10 + a / 7 + a % 1000000007 + a / 0x100000000ull;
  r ^= (u64)(s / 10) + (u64)(s % 10) + (u64)(s / -8) + (u64)(s % 16) + (u64)(s / 60);
  r += (u64)(s64)(n / 3 + n % 3 + n / -7 + n / 16 + n % 32 + n / 100000);
  r -= u / 3 + u % 3 + u / 641 + u / 10 + u % 365;
  return r + (u64)((s16)a / 5) + (u8)a % 11;
}
int main(void) {
  static const u64 corners[] = {1, 2, 3, 7, 10, 255, 0x7fffffff, 0x80000000, 0x80000001, 0xffffffff, 0x100000000ull, 0x100000001ull,
                                0x7fffffffffffffffull, 0x8000000000000000ull, 0x8000000000000001ull, 0xffffffffffffffffull};
  u64 sum = 0;
  for (int i = 0; i < 16; i++) {
    for (int j = 0; j < 16; j++) sum = (sum << 9 | sum >> 55) + each(corners[i], corners[j]);
    line("row", sum);
    sum ^= constants(corners[i]);
  }
  for (int i = 0; i < 200; i++) {
    u64 a = (u64)random_() << 32 | random_(), b = ((u64)random_() << 32 | random_()) >> (random_() & 63);
    sum = sum * 3 + each(a, b ? b : 1) + constants(a >> (i & 31));
  }
  line("sum", sum);
  flush();
  return (int)(sum & 63);
}
