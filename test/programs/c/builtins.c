/*
 * Counting builtins of 32 and 64 bits, byte swaps, parity, rotates that compilers recognise, bit
 * reversal, next power.
 */
#include "lib.h"
static __attribute__((noinline)) u32 reverse(u32 v) {
  v = (v >> 1 & 0x55555555) | (v & 0x55555555) << 1;
  v = (v >> 2 & 0x33333333) | (v & 0x33333333) << 2;
  v = (v >> 4 & 0x0f0f0f0f) | (v & 0x0f0f0f0f) << 4;
  return __builtin_bswap32(v);
}
static __attribute__((noinline)) u64 count(u64 v) {
  u64 r = (u64)__builtin_popcountll(v) | (u64)__builtin_popcount((u32)v) << 8;
  r |= (u64)__builtin_parityll(v) << 16 | (u64)__builtin_parity((u32)v) << 17;
  r |= (u64)__builtin_ffsll((s64)v) << 20 | (u64)__builtin_ffs((s32)v) << 28;
  if (v) r |= (u64)__builtin_clzll(v) << 36 | (u64)__builtin_ctzll(v) << 44;
  if ((u32)v) r ^= (u64)__builtin_clz((u32)v) << 50 ^ (u64)__builtin_ctz((u32)v) << 56;
  return r + (u64)__builtin_clzll((v ^ (u64)((s64)v >> 63)) | 1) * 3;
}
static __attribute__((noinline)) u64 swaps(u64 v) {
  return __builtin_bswap64(v) ^ __builtin_bswap32((u32)v) ^ (u64)__builtin_bswap16((u16)(v >> 5)) << 24 ^ (u64)(s64)(s16)__builtin_bswap16((u16)v);
}
static __attribute__((noinline)) u32 power(u32 v) {
  v--;
  v |= v >> 1, v |= v >> 2, v |= v >> 4, v |= v >> 8;
  return (v | v >> 16) + 1;
}
static __attribute__((noinline)) u32 log10_(u32 v) {
  static const u32 powers[] = {0, 10, 100, 1000, 10000, 100000, 1000000, 10000000, 100000000, 1000000000};
  u32 t = (u32)(32 - __builtin_clz(v | 1)) * 1233 >> 12;
  return t - (v < powers[t]) + 1;
}
static __attribute__((noinline)) void stores(u8 *p, u64 v) {
  u32 w = __builtin_bswap32((u32)v);
  u16 h = __builtin_bswap16((u16)v);
  u64 d = __builtin_bswap64(v);
  __builtin_memcpy(p, &w, 4);
  __builtin_memcpy(p + 5, &h, 2);
  __builtin_memcpy(p + 9, &d, 8);
}
int main(void) {
  u64 sum = 0;
  u8 bytes[20] = {0};
  for (int i = 0; i < 130; i++) {
    u64 v = i < 64 ? 1ull << i : (u64)random_() << 32 | random_();
    if (i > 100) v = (u64)((s64)v >> (i - 90));
    sum = (sum << 11 | sum >> 53) ^ count(v) ^ count(~v);
    sum += swaps(v) + reverse((u32)v) + power((u32)v >> 1 | 1) + log10_((u32)v);
    stores(bytes + i % 3, sum);
    u32 w;
    u64 d;
    __builtin_memcpy(&w, bytes + 1, 4);
    __builtin_memcpy(&d, bytes + 6, 8);
    sum ^= __builtin_bswap32(w) + __builtin_bswap64(d);
    if (i % 13 == 0) line("sum", sum);
  }
  line("zero", count(0));
  flush();
  return (int)(sum & 63);
}
