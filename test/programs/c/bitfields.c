/*
 * Bit fields of every signedness, crossing units, packed, in unions with their bytes, in arrays,
 * passed by value.
 */
#include "lib.h"
struct plain { u32 a : 1, b : 5, c : 10; s32 d : 9, e : 7; u64 f : 33; s64 g : 31; u8 h : 3, i : 5; };
struct __attribute__((packed)) tight { u8 a : 3; u32 b : 17; s16 c : 11; u64 d : 41; s8 e : 4; u16 tail; };
struct zero { u16 a : 4; u16 : 0; u16 b : 12; u32 : 5; u32 c : 20; };
union header { struct { u32 version : 4, length : 4, service : 8, total : 16; } f; u8 bytes[4]; u32 all; };
static __attribute__((noinline)) struct plain step(struct plain p, u32 r) {
  p.a ^= r;
  p.b += r >> 3;
  p.c = p.c * 3 + p.b;
  p.d -= (s32)(r >> 9);
  p.e = p.d >> 2;
  p.f = p.f << 5 | r;
  p.g += (s64)p.f;
  p.h++;
  p.i = (u8)~p.i;
  return p;
}
static u64 fold(const void *p, word n) {
  u64 h = 0;
  for (const u8 *b = p; n--;) h = h * 0x100000001b3ull ^ *b++;
  return h;
}
int main(void) {
  struct plain p, many[3];
  struct tight t[4];
  struct zero z;
  memset(&p, 0, sizeof p);
  memset(many, 0, sizeof many);
  memset(t, 0, sizeof t);
  memset(&z, 0xff, sizeof z);
  u64 sum = 0;
  for (int i = 0; i < 50; i++) {
    u32 r = random_();
    p = step(p, r);
    many[i % 3] = step(many[(i + 1) % 3], r >> 5);
    struct tight *q = &t[i & 3];
    q->a += 3;
    q->b = q->b * 5 + r;
    q->c = (s16)(q->c ^ (s32)r);
    q->d += q->b * 0x123456789ull;
    q->e--;
    q->tail ^= (u16)q->d;
    sum = sum * 3 + (u64)(s64)q->c + q->d + (u64)(s64)q->e + p.a + p.b + p.c + (u64)(s64)p.d + (u64)(s64)p.e + p.f + (u64)p.g + p.h + p.i;
    z.a += 3, z.b -= 5, z.c ^= r;
    sum ^= (u64)z.a << 40 ^ (u64)z.b << 24 ^ z.c;
  }
  line("sum", sum);
  line("size", sizeof p << 16 | sizeof *t << 8 | sizeof z);
  line("tight", fold(t, sizeof t));
  union header h = {.all = 0};
  h.f.version = 4, h.f.length = 5, h.f.service = 0xab, h.f.total = 1500;
  line("bytes", (u64)h.bytes[0] << 24 | (u64)h.bytes[1] << 16 | (u64)h.bytes[2] << 8 | h.bytes[3]);
  line("all", h.all);
  line("many", many[1].f ^ (u64)many[2].g);
  flush();
  return p.i;
}
