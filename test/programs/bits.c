/*
 * Bit fields, rotates, masks, counts of bits, unaligned and reversed accesses, all integer widths.
 */
#include "lib.h"
struct fields { u32 a : 3; s32 b : 7; u32 c : 1; u32 d : 13; s32 e : 8; u64 f : 37; s64 g : 20; };
static __attribute__((noinline)) void mix(struct fields *s, u32 r) {
  s->a += r;
  s->b ^= (s32)(r >> 3);
  s->c = !s->c;
  s->d -= r & 511;
  s->e += s->b;
  s->f = s->f * 5 + r;
  s->g = -s->g + (s32)r;
}
static u32 count(u32 v) {
  v = v - ((v >> 1) & 0x55555555);
  v = (v & 0x33333333) + ((v >> 2) & 0x33333333);
  return ((v + (v >> 4)) & 0x0f0f0f0f) * 0x01010101 >> 24;
}
static u64 swap(u64 v) { return __builtin_bswap64(v); }
int main(void) {
  struct fields s = {1, -2, 1, 4, -5, 6, -7};
  u64 acc = 0;
  for (int i = 0; i < 60; i++) {
    u32 r = random_();
    mix(&s, r);
    acc = (acc << 5 | acc >> 59) ^ s.a ^ (u64)(s64)s.b << 8 ^ (u64)s.c << 16 ^ (u64)s.d << 20 ^ (u64)(s64)s.e << 34 ^
          s.f << 3 ^ (u64)s.g << 40;
    acc += count(r) + (u32)__builtin_clz(r | 1) + (u32)__builtin_ctz(r | 1u << 31);
    acc ^= swap((u64)r << 20 | r) + __builtin_bswap32(r) + __builtin_bswap16((u16)r);
    acc += (u64)__builtin_clzll(acc | 1);
  }
  line("acc", acc);
  u8 bytes[32];
  for (int i = 0; i < 32; i++) bytes[i] = (u8)(random_() >> 7);
  u64 sum = 0;
  for (int i = 0; i < 20; i++) {
    u16 h;
    u32 w;
    u64 d;
    s16 sh;
    __builtin_memcpy(&h, bytes + i, 2);
    __builtin_memcpy(&sh, bytes + i + 1, 2);
    __builtin_memcpy(&w, bytes + i, 4);
    __builtin_memcpy(&d, bytes + i, 8);
    sum = sum * 3 + h + (u64)(s64)sh + w + d + (u64)(s64)(s8)bytes[i];
    __builtin_memcpy(bytes + i + 3, &sum, 8);
    __asm__ volatile("" ::: "memory"); /* GCC 12 at -O2 would keep bytes in registers across overlapping stores. */
  }
  line("sum", sum);
  volatile s8 a = -100;
  volatile u8 b = 200;
  volatile s16 c = -30000;
  volatile u16 d = 60000;
  volatile s32 e = -2000000000;
  volatile u32 f = 4000000000u;
  volatile s64 g = -9000000000000000000ll;
  volatile u64 h = 18000000000000000000ull;
  line("w", (u64)(a * b + c - d) ^ (u64)((s64)e * f) ^ (u64)(g >> 7) ^ (h >> 9) ^ (u64)(g < (s64)h) ^ (u32)(e >> 3));
  a = (s8)(a * 2);
  b = (u8)(b << 1);
  c = (s16)(c - 10000);
  line("v", (u64)(s64)a ^ (u64)b << 8 ^ (u64)(s64)c << 16);
  flush();
  return (int)(acc & 127);
}
