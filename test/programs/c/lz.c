/*
 * LZ77 with a hash of three bytes and greedy matches, packed in tokens; expanded again and
 * compared.
 */
#include "lib.h"
static u8 input[1500], packed[2200], output[1500];
static u16 heads[256];
static int compress(const u8 *in, int n, u8 *out) {
  int used = 0, literals = 0, start = 0;
  for (int i = 0; i <= n;) {
    int best = 0, from = 0;
    if (i + 3 < n) {
      u8 h = (u8)(in[i] * 7 + in[i + 1] * 31 + in[i + 2] * 113);
      int candidate = heads[h] - 1;
      heads[h] = (u16)(i + 1);
      if (candidate >= 0 && i - candidate < 1024) {
        while (best < 66 && i + best < n && in[candidate + best] == in[i + best]) best++;
        from = i - candidate;
      }
    }
    if (best > 3 || i == n || literals == 63) {
      out[used++] = (u8)literals;
      for (int k = 0; k < literals; k++) out[used++] = in[start + k];
      if (i == n) return used;
      if (best <= 3) best = 0;
      out[used++] = (u8)(best ? 0x80 | (best - 3) : 0x40);
      if (best) out[used++] = (u8)from, out[used++] = (u8)(from >> 8);
      i += best;
      start = i;
      literals = 0;
      if (best) continue;
    }
    i++;
    literals++;
  }
  return used;
}
static int expand(const u8 *in, int n, u8 *out) {
  int used = 0;
  for (int i = 0; i < n;) {
    int literals = in[i++];
    while (literals--) out[used++] = in[i++];
    if (i >= n) break;
    u8 token = in[i++];
    if (token == 0x40) continue;
    int length = (token & 0x7f) + 3, from = in[i] | in[i + 1] << 8;
    i += 2;
    while (length--) out[used] = out[used - from], used++;
  }
  return used;
}
int main(void) {
  static const char *const words[] = {"trace ", "patch ", "nop ", "call ", "branch to the stub ", "and link ", "\n"};
  int n = 0;
  while (n < 1400)
    for (const char *s = words[random_() % 7]; *s && n < 1500; s++) input[n++] = (u8)*s;
  for (int i = 0; i < 90; i++) input[400 + i] = (u8)random_();
  int size = compress(input, n, packed), back = expand(packed, size, output);
  u32 wrong = (u32)(n != back), hash = 0;
  for (int i = 0; i < n; i++) wrong += input[i] != output[i];
  for (int i = 0; i < size; i++) hash = hash * 33 + packed[i];
  line("size", (u64)size);
  line("hash", hash);
  line("wrong", wrong);
  flush();
  return (int)wrong;
}
