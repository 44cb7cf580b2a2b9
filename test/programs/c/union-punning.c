/*
 * Unions seen through all members, type punning by memcpy, tagged unions, pointers packed with
 * tags.
 */
#include "lib.h"
union view { u64 d; s64 sd; struct { u32 a, b; } w; struct { s16 a; u16 b; s8 c[4]; } m; u8 bytes[8]; };
struct value { enum { INT, PAIR, TEXT, LIST } kind; union { s64 number; struct { s32 a, b; } pair; char text[12]; const struct value *list; } u; };
static __attribute__((noinline)) u64 hash(const struct value *v) {
  u64 h = v->kind;
  switch (v->kind) {
  case INT: return h * 31 + (u64)v->u.number;
  case PAIR: return h * 31 + (u64)(s64)v->u.pair.a * 7 + (u64)(s64)v->u.pair.b;
  case TEXT:
    for (const char *s = v->u.text; *s; s++) h = h * 131 + (u8)*s;
    return h;
  case LIST:
    for (const struct value *p = v->u.list; p->kind != INT || p->u.number; p++) h = h * 65599 + hash(p);
    return h;
  }
  return 0;
}
static __attribute__((noinline)) union view mix(union view v, int i) {
  switch (i % 6) {
  case 0: v.d += 0x0123456789abcdefull; break;
  case 1: v.w.a ^= v.w.b; break;
  case 2: v.m.a = (s16)-v.m.a; break;
  case 3: v.bytes[i & 7] ^= 0xff; break;
  case 4: v.m.c[i & 3] = (s8)(v.m.c[i & 3] >> 1); break;
  default: v.sd >>= 3; break;
  }
  return v;
}
static struct value cells[4];
int main(void) {
  union view v = {.d = 0x8000000000000001ull};
  for (int i = 0; i < 60; i++) v = mix(v, i * 7 + (v.bytes[0] & 1));
  line("d", v.d);
  line("w", v.w.a ^ (u64)v.m.b << 32);
  static const struct value list[] = {{PAIR, {.pair = {-1, 2}}}, {TEXT, {.text = "hello"}}, {INT, {.number = -5}}, {INT, {.number = 0}}};
  static const struct value all[] = {{LIST, {.list = list}}, {INT, {.number = 1ll << 60}}, {LIST, {.list = list + 2}}, {TEXT, {.text = ""}}, {INT, {.number = 0}}};
  struct value top = {LIST, {.list = all}};
  line("hash", hash(&top));
  word tagged[4];
  u64 sum = 0;
  for (word i = 0; i < 4; i++) {
    cells[i].kind = (int)i;
    tagged[i] = (word)&cells[i] | (i & 3);
  }
  for (int i = 0; i < 4; i++) {
    struct value *p = (struct value *)(tagged[i] & ~(word)3);
    sum = sum * 10 + (u64)p->kind + (tagged[i] & 3);
  }
  line("tagged", sum);
  flush();
  return (int)v.bytes[3] & 31;
}
