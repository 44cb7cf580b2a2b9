/* Radix sort of 32-bit and 64-bit keys by bytes, signed order, and counting sort of small keys. */
#include "lib.h"
#define N 256
static u64 a[N], b[N];
static void radix(u64 *v, u64 *t, int bytes) {
  for (int byte = 0; byte < bytes; byte++) {
    u32 count[257] = {0};
    u8 flip = byte == bytes - 1 ? 0x80 : 0;
    for (int i = 0; i < N; i++) count[((u8)(v[i] >> 8 * byte) ^ flip) + 1]++;
    for (int i = 0; i < 256; i++) count[i + 1] += count[i];
    for (int i = 0; i < N; i++) t[count[(u8)(v[i] >> 8 * byte) ^ flip]++] = v[i];
    u64 *swap = v;
    v = t;
    t = swap;
  }
}
static u64 fold(const u64 *v) {
  u64 sum = 0;
  for (int i = 0; i < N; i++) sum = (sum << 7 | sum >> 57) ^ v[i];
  return sum;
}
int main(void) {
  int wrong = 0;
  for (int i = 0; i < N; i++) a[i] = (u64)random_() << 32 ^ (u64)random_() << (i % 33);
  radix(a, b, 8);
  for (int i = 1; i < N; i++) wrong += (s64)a[i - 1] > (s64)a[i];
  line("wide", fold(a));
  for (int i = 0; i < N; i++) a[i] = (u64)(s64)((s32)random_() >> (i % 20));
  radix(a, b, 4);
  for (int i = 1; i < N; i++) wrong += (s32)a[i - 1] > (s32)a[i];
  line("narrow", fold(a));
  u16 histogram[32] = {0};
  for (int i = 0; i < 1000; i++) histogram[random_() >> 27]++;
  u32 total = 0;
  for (int i = 0; i < 32; i++) total = total * 3 + histogram[i];
  line("histogram", total);
  line("wrong", (u64)wrong);
  flush();
  return wrong;
}
