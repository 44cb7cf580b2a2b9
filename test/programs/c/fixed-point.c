/*
 * Fixed-point numbers: products, quotients, square roots, sine by CORDIC, logarithm and power, a
 * Mandelbrot set.
 */
#include "lib.h"
typedef s32 fix;
#define ONE 65536
static fix mul(fix a, fix b) { return (fix)((s64)a * b >> 16); }
static fix div_(fix a, fix b) { return (fix)(((s64)a << 16) / b); }
static fix root(fix v) {
  fix r = v > ONE ? v : ONE;
  for (int i = 0; i < 20; i++) r = (r + div_(v, r)) / 2;
  return r;
}
static void cordic(fix angle, fix *sine, fix *cosine) {
  static const fix table[] = {51472, 30386, 16055, 8150, 4091, 2047, 1024, 512, 256, 128, 64, 32, 16, 8, 4, 2};
  fix x = 39797, y = 0;
  for (int i = 0; i < 16; i++) {
    fix dx = y >> i, dy = x >> i;
    if (angle >= 0) x -= dx, y += dy, angle -= table[i];
    else x += dx, y -= dy, angle += table[i];
  }
  *sine = y;
  *cosine = x;
}
static fix log2_(u32 v) {
  fix r = (31 - __builtin_clz(v)) << 16;
  u64 x = (u64)v << __builtin_clz(v);
  for (fix bit = ONE / 2; bit; bit >>= 1) {
    x = x * x >> 31;
    if (x >> 32) x >>= 1, r += bit;
  }
  return r;
}
static int escape(fix cr, fix ci) {
  fix r = 0, i = 0;
  for (int n = 0; n < 24; n++) {
    fix rr = mul(r, r), ii = mul(i, i);
    if (rr + ii > 4 * ONE) return n;
    i = 2 * mul(r, i) + ci;
    r = rr - ii + cr;
  }
  return 24;
}
int main(void) {
  u64 sum = 0;
  for (fix a = -100000; a <= 100000; a += 20000) {
    fix s, c;
    cordic(a, &s, &c);
    sum = sum * 3 + (u64)(s64)s + ((u64)(u32)c << 20);
    line("norm", (u64)(mul(s, s) + mul(c, c) + 64) >> 8);
  }
  line("sum", sum);
  for (u32 i = 1; i < 40; i++) sum = sum * 5 + (u64)root((fix)i << 16) + (u64)(s64)div_((fix)i * -77777, 3 * ONE) + (u64)log2_(i * i * 99991u);
  line("sum", sum);
  for (int y = -7; y <= 7; y += 2) {
    for (int x = -30; x < 12; x++) put(" .:-=+*#%@"[escape(x * ONE / 14, y * ONE / 6) * 9 / 24]);
    put('\n');
  }
  flush();
  return (int)(sum & 63);
}
