/*
 * Digests: an MD5-like one (little-endian words, table by integer series) and SHA-1 with padding.
 */
#include "lib.h"
static u32 rotl(u32 x, u32 n) { return x << n | x >> (32 - n); }
static void sha1(const u8 *p, u32 n, u32 *h) {
  u8 tail[128];
  u32 w[80], rest = n % 64, blocks = n / 64, ends = rest < 56 ? 1 : 2;
  memset(tail, 0, sizeof tail);
  memcpy(tail, p + blocks * 64, rest);
  tail[rest] = 0x80;
  for (u32 i = 0; i < 8; i++) tail[64 * ends - 1 - i] = (u8)((u64)n * 8 >> 8 * i);
  for (u32 at = 0; at < blocks + ends; at++) {
    const u8 *b = at < blocks ? p + 64 * at : tail + 64 * (at - blocks);
    for (int i = 0; i < 16; i++) w[i] = (u32)b[4 * i] << 24 | (u32)b[4 * i + 1] << 16 | (u32)b[4 * i + 2] << 8 | b[4 * i + 3];
    for (int i = 16; i < 80; i++) w[i] = rotl(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
    u32 v[5];
    for (int i = 0; i < 5; i++) v[i] = h[i];
    for (int i = 0; i < 80; i++) {
      u32 f, k;
      if (i < 20) f = (v[1] & v[2]) | (~v[1] & v[3]), k = 0x5a827999;
      else if (i < 40) f = v[1] ^ v[2] ^ v[3], k = 0x6ed9eba1;
      else if (i < 60) f = (v[1] & v[2]) | (v[1] & v[3]) | (v[2] & v[3]), k = 0x8f1bbcdc;
      else f = v[1] ^ v[2] ^ v[3], k = 0xca62c1d6;
      u32 t = rotl(v[0], 5) + f + v[4] + k + w[i];
      v[4] = v[3], v[3] = v[2], v[2] = rotl(v[1], 30), v[1] = v[0], v[0] = t;
    }
    for (int i = 0; i < 5; i++) h[i] += v[i];
  }
}
static u32 md(const u8 *p, u32 n) {
  static const u8 shifts[16] = {7, 12, 17, 22, 5, 9, 14, 20, 4, 11, 16, 23, 6, 10, 15, 21};
  u32 a = 0x67452301, b = 0xefcdab89, c = 0x98badcfe, d = 0x10325476, series = 0xd76aa478;
  for (u32 i = 0; i + 64 <= n; i += 64)
    for (u32 r = 0; r < 64; r++) {
      u32 g = r < 16 ? r : r < 32 ? (5 * r + 1) & 15 : r < 48 ? (3 * r + 5) & 15 : (7 * r) & 15;
      u32 f = r < 16 ? (b & c) | (~b & d) : r < 32 ? (d & b) | (~d & c) : r < 48 ? b ^ c ^ d : c ^ (b | ~d);
      u32 word_;
      memcpy(&word_, p + i + 4 * g, 4);
      if (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__) word_ = __builtin_bswap32(word_);
      series = series * 1664525 + 1013904223;
      f += a + series + word_;
      a = d, d = c, c = b;
      b += rotl(f, shifts[r / 16 * 4 + r % 4]);
    }
  return a ^ b ^ c ^ d;
}
int main(void) {
  static const char abc[] = "abc", two[] = "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
  u8 data[200];
  for (int i = 0; i < 200; i++) data[i] = (u8)random_();
  for (u32 n = 0; n < 4; n++) {
    u32 h[5] = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0};
    sha1(n == 0 ? (const u8 *)abc : n == 1 ? (const u8 *)two : data, n == 0 ? 3 : n == 1 ? 56 : 180 + n * 4, h);
    for (int i = 0; i < 5; i++) line("sha1", h[i]);
  }
  line("md", md(data, 192));
  flush();
  return 0;
}
