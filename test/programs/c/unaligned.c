/*
 * Accesses to packed structures and through memcpy at every offset, loads wider than their
 * alignment, copies that overlap.
 */
#include "lib.h"
struct __attribute__((packed)) any { u8 pad; u16 h; u32 w; u64 d; s16 sh; s32 sw; s64 sd; };
static u8 buffer[96];
static __attribute__((noinline)) u64 through(struct any *p, u64 v) {
  p->pad = (u8)(v >> 56);
  p->h = (u16)(p->h + v);
  p->w ^= (u32)(v >> 8);
  p->d = p->d * 3 + v;
  p->sh = (s16)(p->sh - (s16)v);
  p->sw += p->sh;
  p->sd -= p->sw;
  return p->pad + p->h + p->w + p->d + (u64)(s64)p->sh + (u64)(s64)p->sw + (u64)p->sd;
}
static __attribute__((noinline)) u64 copies(const u8 *p) {
  u16 a;
  u32 b;
  u64 c;
  s16 d;
  s32 e;
  struct { u8 x[3]; } f;
  struct { u32 x[3]; } g;
  __builtin_memcpy(&a, p, 2);
  __builtin_memcpy(&b, p + 1, 4);
  __builtin_memcpy(&c, p + 2, 8);
  __builtin_memcpy(&d, p + 3, 2);
  __builtin_memcpy(&e, p + 5, 4);
  __builtin_memcpy(&f, p + 7, 3);
  __builtin_memcpy(&g, p + 9, 12);
  return a + b * 3ull + c * 5 + (u64)(s64)d * 7 + (u64)(s64)e * 11 + f.x[2] + g.x[0] + (u64)g.x[2] * 13;
}
static __attribute__((noinline)) void pieces(u8 *to, const u8 *from) {
  __builtin_memcpy(to, from, 31);
  __builtin_memcpy(to + 33, from + 1, 15);
  __builtin_memset(to + 50, 0x5a, 13);
  __builtin_memset(to + 64, 0, 24);
}
int main(void) {
  u64 sum = 0;
  for (int i = 0; i < 96; i++) buffer[i] = (u8)(random_() >> 11);
  for (int offset = 0; offset < 40; offset++) {
    sum = (sum << 3 | sum >> 61) + through((struct any *)(buffer + offset), sum ^ random_());
    sum ^= copies(buffer + (offset * 7 & 31));
    if (offset % 8 == 0) line("sum", sum);
  }
  u8 target[96];
  memset(target, 1, sizeof target);
  pieces(target + 3, buffer + 5);
  memmove(target + 1, target + 4, 80);
  memmove(target + 9, target + 2, 80);
  for (int i = 0; i < 96; i++) sum = sum * 31 + target[i];
  line("pieces", sum);
  flush();
  return target[40] & 63;
}
