/*
 * Ciphers and checksums of words: TEA, RC4, ChaCha quarter rounds, Speck with 64-bit words, Luhn,
 * ISBN, Verhoeff-like tables.
 */
#include "lib.h"
static u32 rotl(u32 v, int n) { return v << n | v >> (32 - n); }
static void tea(u32 *v, const u32 *k, int decrypt) {
  u32 a = v[0], b = v[1], sum = decrypt ? 0xc6ef3720u : 0;
  for (int i = 0; i < 32; i++) {
    if (decrypt) {
      b -= (a << 4) + k[2] ^ a + sum ^ (a >> 5) + k[3];
      a -= (b << 4) + k[0] ^ b + sum ^ (b >> 5) + k[1];
      sum -= 0x9e3779b9u;
    } else {
      sum += 0x9e3779b9u;
      a += (b << 4) + k[0] ^ b + sum ^ (b >> 5) + k[1];
      b += (a << 4) + k[2] ^ a + sum ^ (a >> 5) + k[3];
    }
  }
  v[0] = a, v[1] = b;
}
static u32 rc4(const u8 *key, int n, int length) {
  u8 s[256], i = 0, j = 0;
  u32 hash = 0;
  for (int k = 0; k < 256; k++) s[k] = (u8)k;
  for (int k = 0; k < 256; k++) {
    j = (u8)(j + s[k] + key[k % n]);
    u8 t = s[k];
    s[k] = s[j], s[j] = t;
  }
  for (j = 0; length--;) {
    j = (u8)(j + s[++i]);
    u8 t = s[i];
    s[i] = s[j], s[j] = t;
    hash = hash * 257 + s[(u8)(s[i] + s[j])];
  }
  return hash;
}
#define QUARTER(a, b, c, d) \
  x[a] += x[b], x[d] = rotl(x[d] ^ x[a], 16), x[c] += x[d], x[b] = rotl(x[b] ^ x[c], 12), x[a] += x[b], x[d] = rotl(x[d] ^ x[a], 8), x[c] += x[d], x[b] = rotl(x[b] ^ x[c], 7)
static u32 chacha(u32 counter) {
  u32 x[16] = {0x61707865, 0x3320646e, 0x79622d32, 0x6b206574, 1, 2, 3, 4, 5, 6, 7, 8, counter, 9, 10, 11}, start[16], hash = 0;
  memcpy(start, x, sizeof x);
  for (int i = 0; i < 10; i++) {
    QUARTER(0, 4, 8, 12), QUARTER(1, 5, 9, 13), QUARTER(2, 6, 10, 14), QUARTER(3, 7, 11, 15);
    QUARTER(0, 5, 10, 15), QUARTER(1, 6, 11, 12), QUARTER(2, 7, 8, 13), QUARTER(3, 4, 9, 14);
  }
  for (int i = 0; i < 16; i++) hash = hash * 31 + x[i] + start[i];
  return hash;
}
static u64 speck(u64 x, u64 y, u64 a, u64 b) {
  for (u64 i = 0; i < 32; i++) {
    x = ((x >> 8 | x << 56) + y) ^ b;
    y = (y << 3 | y >> 61) ^ x;
    a = ((a >> 8 | a << 56) + b) ^ i;
    b = (b << 3 | b >> 61) ^ a;
  }
  return x ^ y;
}
static int luhn(const char *s) {
  int sum = 0, n = 0;
  while (s[n]) n++;
  for (int i = 0; i < n; i++) {
    int d = (s[i] - '0') << ((n - i + 1) & 1);
    sum += d > 9 ? d - 9 : d;
  }
  return sum % 10;
}
int main(void) {
  u32 v[2] = {0x01234567, 0x89abcdef};
  static const u32 key[4] = {1, 0x80000000, 0xffffffff, 77};
  tea(v, key, 0);
  line("tea", (u64)v[0] << 32 | v[1]);
  tea(v, key, 1);
  line("back", (u64)v[0] << 32 | v[1]);
  line("rc4", rc4((const u8 *)"Secret", 6, 300));
  line("chacha", chacha(1) ^ (u64)chacha(0xffffffff) << 20);
  line("speck", speck(0x6c61766975716520ull, 0x7469206564616d20ull, 0x0f0e0d0c0b0a0908ull, 0x0706050403020100ull));
  line("luhn", (u64)(luhn("79927398713") * 10 + luhn("49927398717")));
  flush();
  return 0;
}
