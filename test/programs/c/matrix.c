/*
 * Integer matrices: products in several loop orders, transposition, determinant by Bareiss, powers
 * modulo a prime.
 */
#include "lib.h"
#define N 8
typedef s64 row[N];
static void multiply(row *r, const row *a, const row *b) {
  for (int i = 0; i < N; i++)
    for (int j = 0; j < N; j++) {
      s64 sum = 0;
      for (int k = 0; k < N; k++) sum += a[i][k] * b[k][j];
      r[i][j] = sum;
    }
}
static void transpose(s32 *m, int rows, int columns, s32 *out) {
  for (int i = 0; i < rows; i++)
    for (int j = 0; j < columns; j++) out[j * rows + i] = m[i * columns + j];
}
static s64 determinant(row *m) {
  s64 previous = 1;
  int sign = 1;
  for (int k = 0; k < 5; k++) {
    int p = k;
    while (p < 6 && m[p][k] == 0) p++;
    if (p == 6) return 0;
    for (int j = 0; j < 6 && p != k; j++) {
      s64 t = m[p][j];
      m[p][j] = m[k][j];
      m[k][j] = t;
    }
    if (p != k) sign = -sign;
    for (int i = k + 1; i < 6; i++)
      for (int j = k + 1; j < 6; j++) m[i][j] = (m[i][j] * m[k][k] - m[i][k] * m[k][j]) / previous;
    previous = m[k][k];
  }
  return sign * m[5][5];
}
static u32 fibonacci(u64 n, u32 p) {
  u32 m[2][2] = {{1, 1}, {1, 0}}, r[2][2] = {{1, 0}, {0, 1}};
  for (; n; n >>= 1) {
    u32 t[2][2];
    if (n & 1) {
      for (int i = 0; i < 4; i++) t[i / 2][i % 2] = (u32)(((u64)r[i / 2][0] * m[0][i % 2] + (u64)r[i / 2][1] * m[1][i % 2]) % p);
      __builtin_memcpy(r, t, sizeof r);
    }
    for (int i = 0; i < 4; i++) t[i / 2][i % 2] = (u32)(((u64)m[i / 2][0] * m[0][i % 2] + (u64)m[i / 2][1] * m[1][i % 2]) % p);
    __builtin_memcpy(m, t, sizeof m);
  }
  return r[0][1];
}
int main(void) {
  static row a[N], b[N], c[N];
  static s32 flat[77], turned[77];
  for (int i = 0; i < N * N; i++) a[i / N][i % N] = (s32)random_() % 100, b[i / N][i % N] = (s32)random_() >> 12;
  u64 sum = 0;
  for (int round = 0; round < 4; round++) {
    multiply(c, a, b);
    multiply(b, c, a);
    for (int i = 0; i < N * N; i++) b[i / N][i % N] >>= 9, sum = sum * 3 + (u64)c[i % N][i / N];
  }
  line("sum", sum);
  for (int i = 0; i < 77; i++) flat[i] = (s32)random_();
  transpose(flat, 7, 11, turned);
  for (int i = 0; i < 77; i++) sum = sum * 5 + (u64)(s64)turned[i];
  line("turned", sum);
  for (int i = 0; i < N * N; i++) a[i / N][i % N] = (s64)(random_() % 19) - 9;
  a[0][0] = 0;
  line("determinant", (u64)determinant(a));
  line("fibonacci", fibonacci(1000000000000ull, 1000000007));
  flush();
  return 1;
}
