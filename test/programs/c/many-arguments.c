/*
 * Functions with up to 20 arguments of mixed widths, through pointers, tail calls, and results of
 * every width.
 */
#include "lib.h"
#define N __attribute__((noinline))
static N u64 twenty(u8 a, s8 b, u16 c, s16 d, u32 e, s32 f, u64 g, s64 h, u8 i, s8 j, u16 k, s16 l, u32 m, s32 n, u64 o, s64 p, u8 q, s16 r, s32 s, u64 t) {
  u64 v = a + (u64)(s64)b * 3 + c * 5u + (u64)(s64)d * 7 + e * 11ull + (u64)(s64)f * 13 + g * 17 + (u64)h * 19;
  v ^= i * 23u + (u64)(s64)j * 29 + k * 31u + (u64)(s64)l * 37 + m * 41ull + (u64)(s64)n * 43 + o * 47 + (u64)p * 53;
  return v + q * 59u + (u64)(s64)r * 61 + (u64)(s64)s * 67 + t * 71;
}
static N u64 pass(u64 t, s32 s, s16 r, u8 q, u64 a) {
  return twenty((u8)a, (s8)t, (u16)s, r, (u32)t, s, t, (s64)a, q, (s8)q, (u16)r, (s16)s, (u32)a, (s32)t, a, -(s64)t, (u8)s, (s16)q, r, t ^ a);
}
static N u64 pairs(u32 a, u64 b, u32 c, u64 d, u32 e, u64 f, u32 g, u64 h, u32 i, u64 j) { return a - b + c - d + e - f + g - h + i - j; }
static N s8 narrow(s32 v) { return (s8)v; }
static N u8 byte(s32 v) { return (u8)v; }
static N s16 half(s64 v) { return (s16)v; }
static N u16 short_(u32 v) { return (u16)(v >> 8); }
static N _Bool truth(u64 v) { return v & 0x100000000ull; }
static N u64 twice(u64 v) { return v * 2; }
static N u64 plus(u64 v) { return v + 0x123456789ull; }
static N u64 inverse(u64 v) { return ~v; }
static u64 (*const steps[])(u64) = {twice, plus, inverse};
static N u64 tail(u64 v, u32 which) { return steps[which % 3](v ^ which); }
static N u64 apply(u64 (*f)(u64, u32), u64 v, int n) {
  while (n--) v = f(v, (u32)n);
  return v;
}
static N int even(u32 n);
static N int odd(u32 n) { return n == 0 ? 0 : even(n - 1); }
static N int even(u32 n) { return n == 0 ? 1 : odd(n - 1); }
int main(void) {
  u64 v = 1;
  for (u32 i = 0; i < 30; i++) {
    u32 r = random_();
    v = pass(v * r, (s32)r, (s16)(r >> 3), (u8)(r >> 7), v ^ i) + pairs(r, v, i, v >> 9, ~r, 5, 6, v << 3, r >> 1, 77);
    v += (u64)(s64)narrow((s32)r) + byte((s32)r) + (u64)(s64)half((s64)v) + short_(r) + truth(v);
  }
  line("v", v);
  line("apply", apply(tail, v, 41));
  line("parity", (u64)(even(1000) << 1 | odd(77)));
  flush();
  return (int)(v & 63);
}
