/* Multiplication of 256-bit integers, Montgomery-free modular power by shift and subtract, gcd. */
#include "lib.h"
#define W 8
typedef struct { u32 w[W]; } big;
static int less(const big *a, const big *b) {
  for (int i = W - 1; i >= 0; i--)
    if (a->w[i] != b->w[i]) return a->w[i] < b->w[i];
  return 0;
}
static u32 add(big *a, const big *b) {
  u64 c = 0;
  for (int i = 0; i < W; i++) {
    c += (u64)a->w[i] + b->w[i];
    a->w[i] = (u32)c;
    c >>= 32;
  }
  return (u32)c;
}
static void sub(big *a, const big *b) {
  s64 c = 0;
  for (int i = 0; i < W; i++) {
    c += (s64)a->w[i] - b->w[i];
    a->w[i] = (u32)c;
    c >>= 32;
  }
}
static big multiply(big a, const big *b, const big *m) {
  big r = {{0}};
  for (int i = W * 32 - 1; i >= 0; i--) {
    if (add(&r, &r) || !less(&r, m)) sub(&r, m);
    if (b->w[i / 32] >> (i % 32) & 1)
      if (add(&r, &a) || !less(&r, m)) sub(&r, m);
  }
  return r;
}
static big power(big base, u32 e, const big *m) {
  big r = {{1}};
  for (; e; e >>= 1) {
    if (e & 1) r = multiply(r, &base, m);
    base = multiply(base, &base, m);
  }
  return r;
}
static u64 gcd(u64 a, u64 b) { return b ? gcd(b, a % b) : a; }
int main(void) {
  big m = {{0xfffffc2f, 0xfffffffe, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u}}, x;
  for (int i = 0; i < W; i++) x.w[i] = random_();
  big r = power(x, 11, &m);
  for (int i = 0; i < W; i++) line("power", r.w[i]);
  u64 f = 1, g = 1, h = 0;
  for (int i = 0; i < 40; i++) {
    u64 t = f + g;
    h ^= gcd(t * 6, f * 9) + gcd((u64)random_() << 16, random_());
    f = g;
    g = t;
  }
  line("gcd", h);
  flush();
  return (int)(r.w[0] & 15);
}
