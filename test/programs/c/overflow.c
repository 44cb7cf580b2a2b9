/*
 * Checked additions and subtractions of every width, saturation, averages without overflow,
 * absolute values.
 */
#include "lib.h"
static u32 flags;
static u64 sum;
static void note(int overflow, u64 value) {
  flags = (flags << 1 | flags >> 31) ^ (u32)overflow;
  sum = sum * 31 + value;
}
static __attribute__((noinline)) void check(u64 a, u64 b) {
  s8 c;
  u16 h;
  s32 w;
  u32 u;
  s64 l;
  u64 d;
  /* Not as an argument: the order in which arguments are evaluated is open. */
  int o;
  o = __builtin_add_overflow((s8)a, (s8)b, &c);
  note(o, (u64)(s64)c);
  o = __builtin_sub_overflow((u16)a, (u16)b, &h);
  note(o, h);
  o = __builtin_add_overflow((s32)a, (s32)b, &w);
  note(o, (u64)(s64)w);
  o = __builtin_sub_overflow((s32)a, (s32)b, &w);
  note(o, (u64)(s64)w);
  o = __builtin_add_overflow((u32)a, (u32)b, &u);
  note(o, u);
  o = __builtin_sub_overflow((s64)a, (s64)b, &l);
  note(o, (u64)l);
  o = __builtin_add_overflow(a, b, &d);
  note(o, d);
  o = __builtin_sub_overflow(a, b, &d);
  note(o, d);
  o = __builtin_add_overflow((s64)a, (u32)b, &w);
  note(o, (u64)(s64)w);
}
static __attribute__((noinline)) s32 saturate(s64 v) { return v > 0x7fffffff ? 0x7fffffff : v < -0x7fffffffll - 1 ? -0x7fffffff - 1 : (s32)v; }
static __attribute__((noinline)) u8 clamp(s32 v) { return (u8)(v < 0 ? 0 : v > 255 ? 255 : v); }
static __attribute__((noinline)) u32 average(u32 a, u32 b) { return (a & b) + ((a ^ b) >> 1); }
static __attribute__((noinline)) s32 magnitude(s32 v) { return v < 0 ? -v : v; }
static __attribute__((noinline)) s64 sign(s64 v) { return (v > 0) - (v < 0); }
int main(void) {
  static const u64 corners[] = {0, 1, 127, 128, 0xffff, 0x7fffffff, 0x80000000, 0xffffffff, 0x7fffffffffffffffull, 0x8000000000000000ull, ~0ull};
  for (int i = 0; i < 11; i++)
    for (int j = 0; j < 11; j++) check(corners[i], corners[j]);
  line("flags", flags);
  line("sum", sum);
  for (int i = 0; i < 60; i++) {
    s64 v = (s64)((u64)random_() << 32 | random_()) >> (random_() % 60);
    sum = sum * 7 + (u64)(s64)saturate(v) + clamp((s32)v) + average((u32)v, random_()) + (u64)(s64)magnitude((s32)v >> 1) + (u64)sign(v);
  }
  line("sum", sum);
  flush();
  return (int)(flags & 31);
}
