/*
 * Structures of 1 to 40 bytes passed and returned by value, nested, in arrays, with mixed arguments
 * around them.
 */
#include "lib.h"
#define SIZE(n)                                                                          \
  struct s##n { u8 b[n]; };                                                              \
  static __attribute__((noinline)) struct s##n turn##n(struct s##n v, int by, s64 add) { \
    struct s##n r;                                                                       \
    for (int i = 0; i < n; i++) r.b[i] = (u8)(v.b[(i + by) % n] + add);                  \
    return r;                                                                            \
  }                                                                                      \
  static u64 use##n(void) {                                                              \
    struct s##n v;                                                                       \
    u64 h = n;                                                                           \
    for (int i = 0; i < n; i++) v.b[i] = (u8)random_();                                  \
    for (int i = 0; i < 5; i++) v = turn##n(turn##n(v, i, -i), n - 1, 1ll << i);         \
    for (int i = 0; i < n; i++) h = h * 257 + v.b[i];                                    \
    return h;                                                                            \
  }
SIZE(1) SIZE(2) SIZE(3) SIZE(4) SIZE(5) SIZE(6) SIZE(7) SIZE(8) SIZE(9) SIZE(11) SIZE(12) SIZE(15) SIZE(16) SIZE(17) SIZE(24) SIZE(31) SIZE(40)
struct point { s32 x, y; };
struct box { struct point a, b; u8 color; };
struct tree { struct box box; s64 weight; struct point extra[2]; };
static __attribute__((noinline)) struct point middle(struct point a, struct point b) { return (struct point){(a.x + b.x) / 2, (a.y + b.y) / 2}; }
static __attribute__((noinline)) struct box grow(struct box v, struct point by, s16 factor, u8 color) {
  v.a.x -= by.x * factor, v.a.y -= by.y * factor;
  v.b = (struct point){v.b.x + by.x * factor, v.b.y + by.y * factor};
  v.color ^= color;
  return v;
}
static __attribute__((noinline)) struct tree combine(struct tree a, struct tree b, struct box c) {
  struct tree r = {grow(c, middle(a.box.a, b.box.b), (s16)(a.weight & 3), b.box.color), a.weight - b.weight, {a.extra[1], b.extra[0]}};
  return r;
}
int main(void) {
  u64 h[] = {use1(), use2(), use3(), use4(), use5(), use6(), use7(), use8(), use9(), use11(), use12(), use15(), use16(), use17(), use24(), use31(), use40()};
  for (unsigned i = 0; i < sizeof h / sizeof *h; i++) line("size", h[i]);
  struct tree a = {{{-5, 7}, {100, -200}, 3}, -9, {{1, 2}, {3, 4}}}, b = {{{50, -60}, {-70, 80}, 0x55}, 1ll << 40, {{5, 6}, {7, 8}}};
  for (int i = 0; i < 9; i++) {
    struct tree c = combine(a, b, i & 1 ? a.box : b.box);
    a = b;
    b = c;
  }
  line("weight", (u64)b.weight);
  line("a", (u64)(s64)b.box.a.x ^ (u64)(s64)b.box.a.y << 20);
  line("b", (u64)(s64)b.box.b.x ^ (u64)(s64)b.box.b.y << 20);
  line("color", b.box.color + (u64)b.extra[0].x * 100 + (u64)b.extra[1].y);
  flush();
  return b.box.color & 63;
}
