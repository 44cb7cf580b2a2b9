/*
 * Conversions between byte orders by shifts, by builtins and by unions; a record format read and
 * written in both.
 */
#include "lib.h"
union both { u64 d; u32 w[2]; u16 h[4]; u8 b[8]; };
static __attribute__((noinline)) void put_be(u8 *p, u64 v, int n) {
  while (n--) p[n] = (u8)v, v >>= 8;
}
static __attribute__((noinline)) void put_le(u8 *p, u64 v, int n) {
  for (int i = 0; i < n; i++) p[i] = (u8)(v >> 8 * i);
}
static __attribute__((noinline)) u64 get_be(const u8 *p, int n) {
  u64 v = 0;
  while (n--) v = v << 8 | *p++;
  return v;
}
static __attribute__((noinline)) u32 be32(const u8 *p) { return (u32)p[0] << 24 | (u32)p[1] << 16 | (u32)p[2] << 8 | p[3]; }
static __attribute__((noinline)) u32 le32(const u8 *p) { return (u32)p[3] << 24 | (u32)p[2] << 16 | (u32)p[1] << 8 | p[0]; }
static __attribute__((noinline)) u64 le64(const u8 *p) { return (u64)le32(p + 4) << 32 | le32(p); }
static __attribute__((noinline)) u16 be16(const u8 *p) { return (u16)(p[0] << 8 | p[1]); }
static __attribute__((noinline)) u64 be64(const u64 *p) {
  return __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__ ? *p : __builtin_bswap64(*p);
}
static __attribute__((noinline)) void swap_all(u32 *p, int n) {
  for (int i = 0; i < n; i++) p[i] = __builtin_bswap32(p[i]);
}
int main(void) {
  u8 bytes[64];
  u64 sum = 0;
  for (int i = 0; i < 40; i++) {
    u64 v = (u64)random_() << 32 | random_();
    put_be(bytes + i % 9, v, 8);
    put_le(bytes + 20 + i % 7, v >> 3, 6);
    put_be(bytes + 30, v, 3);
    sum = sum * 3 + get_be(bytes + i % 9, 8) + be32(bytes + i % 5) + le32(bytes + 20) * (u64)be16(bytes + i % 9 + 3) + le64(bytes + i % 9);
    sum ^= get_be(bytes + 29, 5);
    for (int k = 28; k < 40; k++) bytes[k] = (u8)(sum >> k);
    if (i == 0)
      for (int k = 8 + 9; k < 20; k++) bytes[k] = 0;
  }
  line("sum", sum & 0xffff ? 1 : 2);
  union both u = {.b = {1, 2, 3, 4, 5, 6, 7, 8}};
  line("d", u.d);
  line("w", u.w[0]);
  line("h", u.h[3]);
  line("be", be64(&u.d));
  u32 words[5] = {1, 0x01020304, 0xdeadbeef, 0x80000000, 0xff};
  swap_all(words, 5);
  for (int i = 0; i < 5; i++) line("swapped", words[i]);
  flush();
  return u.b[7];
}
