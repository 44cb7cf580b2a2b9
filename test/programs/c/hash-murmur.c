/*
 * Hashes that multiply and rotate: a murmur-like one, Jenkins' one at a time, djb2, Adler-32,
 * SipHash-like rounds.
 */
#include "lib.h"
static u32 rotl(u32 x, int n) { return x << n | x >> (32 - n); }
static u64 rotl64(u64 x, int n) { return x << n | x >> (64 - n); }
static u32 murmur(const u8 *p, int n, u32 seed) {
  u32 h = seed;
  for (int i = 0; i + 4 <= n; i += 4) {
    u32 k = (u32)p[i] | (u32)p[i + 1] << 8 | (u32)p[i + 2] << 16 | (u32)p[i + 3] << 24;
    h = rotl(h ^ rotl(k * 0xcc9e2d51u, 15) * 0x1b873593u, 13) * 5 + 0xe6546b64u;
  }
  u32 k = 0;
  for (int i = n & ~3; i < n; i++) k |= (u32)p[i] << 8 * (i & 3);
  h ^= rotl(k * 0xcc9e2d51u, 15) * 0x1b873593u ^ (u32)n;
  h = (h ^ h >> 16) * 0x85ebca6bu;
  h = (h ^ h >> 13) * 0xc2b2ae35u;
  return h ^ h >> 16;
}
static u32 one_at_a_time(const u8 *p, int n) {
  u32 h = 0;
  while (n--) {
    h += *p++;
    h += h << 10;
    h ^= h >> 6;
  }
  h += h << 3;
  h ^= h >> 11;
  return h + (h << 15);
}
static u32 adler(const u8 *p, int n) {
  u32 a = 1, b = 0;
  while (n--) {
    a = (a + *p++) % 65521;
    b = (b + a) % 65521;
  }
  return b << 16 | a;
}
static u64 sip(const u8 *p, int n) {
  u64 v[4] = {0x736f6d6570736575ull, 0x646f72616e646f6dull, 0x6c7967656e657261ull, 0x7465646279746573ull};
  for (int i = 0; i < n; i++) {
    v[3] ^= p[i];
    v[0] += v[1], v[2] += v[3];
    v[1] = rotl64(v[1], 13) ^ v[0], v[3] = rotl64(v[3], 16) ^ v[2];
    v[0] = rotl64(v[0], 32) + v[3], v[2] += v[1];
    v[3] = rotl64(v[3], 21) ^ v[0], v[1] = rotl64(v[1], 17) ^ v[2];
    v[2] = rotl64(v[2], 32);
    v[0] ^= p[i];
  }
  return v[0] ^ v[1] ^ v[2] ^ v[3];
}
int main(void) {
  u8 data[203];
  u32 djb = 5381;
  for (int i = 0; i < 203; i++) data[i] = (u8)(random_() >> 5);
  for (int n = 0; n < 8; n++) line("murmur", murmur(data + n, 195 - n, (u32)n));
  for (int i = 0; i < 203; i++) djb = djb * 33 + data[i];
  line("djb", djb);
  line("jenkins", one_at_a_time(data, 203));
  line("adler", adler(data, 203));
  line("sip", sip(data, 203));
  flush();
  return (int)(djb & 31);
}
