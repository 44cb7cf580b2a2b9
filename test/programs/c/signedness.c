/*
 * Promotions, mixed comparisons, conversions between widths and signs, shifts of negative numbers,
 * char signedness made plain.
 */
#include "lib.h"
#define N __attribute__((noinline))
static N u32 compare(s64 a, s64 b) {
  u32 r = 0;
  r = r << 1 | ((s8)a < (s8)b), r = r << 1 | ((u8)a < (u8)b), r = r << 1 | ((s8)a < (u8)b);
  r = r << 1 | ((s16)a <= (s16)b), r = r << 1 | ((u16)a > (u16)b), r = r << 1 | ((s16)a >= (u16)b);
  r = r << 1 | ((s32)a < (s32)b), r = r << 1 | ((u32)a < (u32)b), r = r << 1 | ((s32)a < (u32)b);
  r = r << 1 | ((s64)a < (s64)b), r = r << 1 | ((u64)a < (u64)b), r = r << 1 | ((s32)a < (s64)b), r = r << 1 | ((u32)a < (s64)b);
  r = r << 1 | ((s32)a < (u64)b), r = r << 1 | (-1 < (u32)b), r = r << 1 | (-1 < (s64)(u32)b), r = r << 1 | ((s16)a == (u16)a);
  r = r << 1 | (a == (s32)a), r = r << 1 | ((u64)a == (u32)a), r = r << 1 | (a > 0 && b > 0), r = r << 1 | (a < 0 || b < 0);
  return r << 1 | !(a ^ b);
}
static N u64 convert(u64 v) {
  u64 r = (u64)(s64)(s8)v;
  r = r * 3 + (u64)(s16)(u8)v;
  r = r * 3 + (u32)(s16)v;
  r = r * 3 + (u64)(s64)(s32)(u16)v;
  r = r * 3 + (u64)(s64)(s32)v;
  r = r * 3 + (u16)(s8)(v >> 8);
  r = r * 3 + (u64)((s8)(v >> 16) >> 2);
  r = r * 3 + (u64)((s16)v << 3);
  r = r * 3 + (u64)(u8)((u8)v + 200);
  r = r * 3 + (u64)((u8)v + 200);
  r = r * 3 + (u64)((u8)~(u8)v >> 4);
  r = r * 3 + (u64)(~(u8)v >> 4);
  r = r * 3 + (u64)(-(u32)v);
  r = r * 3 + (u64)(s64)-(s32)((u32)v >> 1);
  r = r * 3 + (u64)(!v + !!(u32)v + !(u16)v);
  return r;
}
static N s32 choose(s32 a, s32 b, u32 c) { return a < b ? (c > 5 ? a : -a) : c & 1 ? b : ~b; }
static N s64 minimum(s64 a, s64 b) { return a < b ? a : b; }
static N u32 maximum(u32 a, u32 b) { return a > b ? a : b; }
int main(void) {
  static const s64 corners[] = {0, 1, -1, 127, 128, -128, -129, 255, 256, 32767, 32768, -32768, 65535, 0x7fffffff, 0x80000000ll, -0x80000000ll, 0xffffffffll, 0x100000000ll, -0x7fffffffffffffffll - 1};
  u64 sum = 0;
  for (int i = 0; i < 19; i++) {
    for (int j = 0; j < 19; j++) {
      sum = (sum << 5 | sum >> 59) ^ compare(corners[i], corners[j]);
      sum += (u64)(s64)choose((s32)corners[i], (s32)corners[j], (u32)j) + (u64)minimum(corners[i], corners[j]) + maximum((u32)corners[i], (u32)corners[j]);
    }
    sum ^= convert((u64)corners[i]);
    line("row", sum);
  }
  flush();
  return (int)(sum & 63);
}
