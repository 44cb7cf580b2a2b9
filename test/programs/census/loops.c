/* Loops that compilers turn into vector instructions. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
enum { N = 1024 };
static float fa[N], fb[N], fc[N];
static double da[N], db[N];
static int32_t ia[N], ib[N];
static int16_t sa[N];
static uint8_t ba[N], bb[N];
int main(void) {
  for (int i = 0; i < N; i++) {
    fa[i] = (float)i / 7, fb[i] = (float)(N - i), da[i] = i * 0.25, ia[i] = i * 77 - 900, sa[i] = (int16_t)(i * 31), ba[i] = (uint8_t)(i * 13);
  }
  for (int i = 0; i < N; i++) fc[i] = fa[i] * fb[i] + fa[i];
  for (int i = 0; i < N; i++) db[i] = sqrt(da[i]) / (da[i] + 1);
  for (int i = 0; i < N; i++) ib[i] = ia[i] > 0 ? ia[i] * 3 : -ia[i] >> 2;
  for (int i = 0; i < N; i++) bb[i] = (uint8_t)((ba[i] + ba[(i + 1) % N] + 1) >> 1);
  int64_t total = 0;
  int32_t most = 0, dot = 0;
  for (int i = 0; i < N; i++) total += ib[i];
  for (int i = 0; i < N; i++) most = ib[i] > most ? ib[i] : most;
  for (int i = 0; i < N; i++) dot += sa[i] * (i & 63);
  unsigned bytes = 0;
  for (int i = 0; i < N; i++) bytes += bb[i];
  double d = 0;
  float f = 0;
  for (int i = 0; i < N; i++) d += db[i], f += fc[i];
  for (int i = 0; i < N; i++) ib[i] = (int32_t)(da[i] * 1.5);
  uint32_t bits = 0;
  for (int i = 0; i < N; i++) bits ^= (uint32_t)ib[i] << (i & 7);
  printf("%lld %d %d %u %.12g %.6g %u\n", (long long)total, most, dot, bytes, d, (double)f, bits);
  return 0;
}
