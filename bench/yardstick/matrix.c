/* Matrices of integers: products plain and by blocks, transposes, determinants by fractions of integers. */
#include "yard.h"

#define N 40

static s32 a[N][N], b[N][N], c[N][N], d[N][N];
static s16 pixels[72][72], smooth[72][72];

static OWN void multiply(void) {
  for (int i = 0; i < N; i++)
    for (int j = 0; j < N; j++) {
      u32 total = 0;
      for (int k = 0; k < N; k++) total += (u32)a[i][k] * (u32)b[k][j];
      c[i][j] = (s32)total;
    }
}

static OWN void by_blocks(void) {
  memset(d, 0, sizeof d);
  for (int kk = 0; kk < N; kk += 8)
    for (int jj = 0; jj < N; jj += 8)
      for (int i = 0; i < N; i++)
        for (int k = kk; k < kk + 8; k++) {
          u32 factor = (u32)a[i][k];
          for (int j = jj; j < jj + 8; j++) d[i][j] = (s32)((u32)d[i][j] + factor * (u32)b[k][j]);
        }
}

static OWN void transpose(s32 m[N][N]) {
  for (int i = 0; i < N; i++)
    for (int j = 0; j < i; j++) {
      s32 held = m[i][j];
      m[i][j] = m[j][i];
      m[j][i] = held;
    }
}

/* Bareiss: each division is exact. Entries are small, so nothing overflows at this size. */
static OWN s64 determinant(int n) {
  s64 m[9][9], last = 1, sign = 1;
  for (int i = 0; i < n; i++)
    for (int j = 0; j < n; j++) m[i][j] = a[i][j] % 7;
  for (int k = 0; k < n - 1; k++) {
    int pivot = k;
    while (pivot < n && m[pivot][k] == 0) pivot++;
    if (pivot == n) return 0;
    if (pivot != k) {
      sign = -sign;
      for (int j = 0; j < n; j++) {
        s64 held = m[k][j];
        m[k][j] = m[pivot][j];
        m[pivot][j] = held;
      }
    }
    for (int i = k + 1; i < n; i++)
      for (int j = k + 1; j < n; j++) m[i][j] = (m[i][j] * m[k][k] - m[i][k] * m[k][j]) / last;
    last = m[k][k];
  }
  return sign * m[n - 1][n - 1];
}

/* Matrices modulo a prime, raised to a power by squaring. */
static OWN void power(u32 exponent) {
  u64 result[4] = {1, 0, 0, 1}, base[4] = {1, 1, 1, 0};
  for (; exponent; exponent >>= 1) {
    u64 t[4];
    for (int which = exponent & 1 ? 0 : 1; which < 2; which++) {
      u64 *x = which ? base : result;
      for (int i = 0; i < 2; i++)
        for (int j = 0; j < 2; j++) t[2 * i + j] = (x[2 * i] * base[j] + x[2 * i + 1] * base[2 + j]) % 1000000007u;
      for (int i = 0; i < 4; i++) x[i] = t[i];
    }
  }
  note(result[1]);
}

static OWN void convolve(void) {
  static const s8 kernel[5][5] = {{1, 4, 6, 4, 1}, {4, 16, 24, 16, 4}, {6, 24, 36, 24, 6}, {4, 16, 24, 16, 4}, {1, 4, 6, 4, 1}};
  for (int y = 2; y < 70; y++)
    for (int x = 2; x < 70; x++) {
      s32 total = 0;
      for (int j = 0; j < 5; j++)
        for (int i = 0; i < 5; i++) total += kernel[j][i] * pixels[y + j - 2][x + i - 2];
      smooth[y][x] = (s16)(total >> 8);
    }
}

static void prepare(void) {
  for (int i = 0; i < 72; i++)
    for (int j = 0; j < 72; j++) pixels[i][j] = (s16)(random_() >> 20);
}

static void turn(u32 n) {
  for (int i = 0; i < N; i++)
    for (int j = 0; j < N; j++) {
      a[i][j] = (s32)random_() >> 20;
      b[i][j] = (s32)(n + (u32)(i * j)) - a[i][j];
    }
  multiply();
  by_blocks();
  must(memcmp(c, d, sizeof c) == 0, "products differ");
  transpose(c);
  for (int i = 0; i < N; i += 3) note((u32)c[i][(i * 7) % N]);
  for (int i = 4; i < 9; i++) note((u64)determinant(i));
  power(n * 1000003u + 17);
  convolve();
  memcpy(pixels, smooth, sizeof pixels / 2);
  note((u16)smooth[n % 68 + 2][35]);
}
