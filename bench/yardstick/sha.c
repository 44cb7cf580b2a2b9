/* SHA-1 and SHA-512 of messages of many lengths, padding and all. */
#include "yard.h"

#define SIZE 4096

static u8 message[SIZE];
static u64 constants[80];

static u32 left32(u32 v, int n) { return v << n | v >> (32 - n); }
static u64 right64(u64 v, int n) { return v >> n | v << (64 - n); }

static OWN void sha1_block(u32 *state, const u8 *p) {
  u32 w[80];
  for (int i = 0; i < 16; i++) w[i] = (u32)p[4 * i] << 24 | (u32)p[4 * i + 1] << 16 | (u32)p[4 * i + 2] << 8 | p[4 * i + 3];
  for (int i = 16; i < 80; i++) w[i] = left32(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
  u32 a = state[0], b = state[1], c = state[2], d = state[3], e = state[4];
  for (int i = 0; i < 80; i++) {
    u32 f, k;
    if (i < 20) f = (b & c) | (~b & d), k = 0x5a827999;
    else if (i < 40) f = b ^ c ^ d, k = 0x6ed9eba1;
    else if (i < 60) f = (b & c) | (b & d) | (c & d), k = 0x8f1bbcdc;
    else f = b ^ c ^ d, k = 0xca62c1d6;
    u32 t = left32(a, 5) + f + e + k + w[i];
    e = d, d = c, c = left32(b, 30), b = a, a = t;
  }
  state[0] += a, state[1] += b, state[2] += c, state[3] += d, state[4] += e;
}

static OWN void sha512_block(u64 *state, const u8 *p) {
  u64 w[80], v[8];
  for (int i = 0; i < 16; i++) {
    w[i] = 0;
    for (int k = 0; k < 8; k++) w[i] = w[i] << 8 | p[8 * i + k];
  }
  for (int i = 16; i < 80; i++) {
    u64 a = right64(w[i - 15], 1) ^ right64(w[i - 15], 8) ^ w[i - 15] >> 7;
    u64 b = right64(w[i - 2], 19) ^ right64(w[i - 2], 61) ^ w[i - 2] >> 6;
    w[i] = w[i - 16] + a + w[i - 7] + b;
  }
  for (int i = 0; i < 8; i++) v[i] = state[i];
  for (int i = 0; i < 80; i++) {
    u64 e = v[4], a = v[0];
    u64 t = v[7] + (right64(e, 14) ^ right64(e, 18) ^ right64(e, 41)) + ((e & v[5]) ^ (~e & v[6])) + constants[i] + w[i];
    u64 s = (right64(a, 28) ^ right64(a, 34) ^ right64(a, 39)) + ((a & v[1]) ^ (a & v[2]) ^ (v[1] & v[2]));
    v[7] = v[6], v[6] = v[5], v[5] = e, v[4] = v[3] + t, v[3] = v[2], v[2] = v[1], v[1] = a, v[0] = t + s;
  }
  for (int i = 0; i < 8; i++) state[i] += v[i];
}

static OWN void sha1(const u8 *data, u32 size, u32 *state) {
  static const u32 begin[5] = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0};
  u8 tail[128] = {0};
  memcpy(state, begin, sizeof begin);
  u32 at = 0;
  for (; at + 64 <= size; at += 64) sha1_block(state, data + at);
  memcpy(tail, data + at, size - at);
  tail[size - at] = 128;
  u32 end = size - at < 56 ? 64 : 128;
  for (int i = 0; i < 4; i++) tail[end - 1 - (u32)i] = (u8)(size * 8 >> 8 * i);
  for (u32 i = 0; i < end; i += 64) sha1_block(state, tail + i);
}

static OWN void sha512(const u8 *data, u32 size, u64 *state) {
  static const u64 begin[8] = {0x6a09e667f3bcc908, 0xbb67ae8584caa73b, 0x3c6ef372fe94f82b, 0xa54ff53a5f1d36f1,
                               0x510e527fade682d1, 0x9b05688c2b3e6c1f, 0x1f83d9abfb41bd6b, 0x5be0cd19137e2179};
  u8 tail[256] = {0};
  memcpy(state, begin, sizeof begin);
  u32 at = 0;
  for (; at + 128 <= size; at += 128) sha512_block(state, data + at);
  memcpy(tail, data + at, size - at);
  tail[size - at] = 128;
  u32 end = size - at < 112 ? 128 : 256;
  for (int i = 0; i < 4; i++) tail[end - 1 - (u32)i] = (u8)(size * 8 >> 8 * i);
  for (u32 i = 0; i < end; i += 128) sha512_block(state, tail + i);
}

/* The first 64 bits of the fractions of the cube roots of the primes, found bit by bit. */
static int cube_exceeds(u64 whole, u64 fraction, u32 prime) {
  /* (whole + fraction / 2^64)^3 > prime, in limbs of 32 bits: x has three limbs. */
  u32 x[3] = {(u32)fraction, (u32)(fraction >> 32), (u32)whole}, square[6] = {0}, cube[9] = {0};
  for (int i = 0; i < 3; i++) {
    u64 carry = 0;
    for (int j = 0; j < 3; j++) carry += (u64)x[i] * x[j] + square[i + j], square[i + j] = (u32)carry, carry >>= 32;
    square[i + 3] += (u32)carry;
  }
  for (int i = 0; i < 3; i++) {
    u64 carry = 0;
    for (int j = 0; j < 6; j++) carry += (u64)x[i] * square[j] + cube[i + j], cube[i + j] = (u32)carry, carry >>= 32;
    cube[i + 6] += (u32)carry;
  }
  return cube[6] >= prime;
}

static void prepare(void) {
  u32 found = 0;
  for (u32 p = 2; found < 80; p++) {
    u32 divisor = 2;
    while (divisor * divisor <= p && p % divisor) divisor++;
    if (divisor * divisor <= p) continue;
    u64 whole = 1, fraction = 0;
    while ((whole + 1) * (whole + 1) * (whole + 1) <= p) whole++;
    for (int bit = 63; bit >= 0; bit--)
      if (!cube_exceeds(whole, fraction | 1ull << bit, p)) fraction |= 1ull << bit;
    constants[found++] = fraction;
  }
  u64 wide[8];
  u32 narrow[5];
  sha1((const u8 *)"abc", 3, narrow);
  sha512((const u8 *)"abc", 3, wide);
  line("sha1", narrow[0]);
  line("sha512", wide[0]);
  for (u32 i = 0; i < SIZE; i++) message[i] = (u8)(i * 131 + (i >> 7));
}

static void turn(u32 n) {
  u64 wide[8];
  u32 narrow[5];
  u32 size = SIZE - n * 37 % 700;
  sha1(message, size, narrow);
  sha512(message + n % 64, size - n % 64, wide);
  note((u64)narrow[0] << 32 | narrow[4]);
  note(wide[0] ^ wide[7]);
  for (int i = 0; i < 8; i++) message[n * 8 % SIZE + (u32)i] ^= (u8)wide[i];
}
