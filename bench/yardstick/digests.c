/* MD5, CRC-32 by slices of four bytes, Adler-32, and a hash of four lanes in the manner of xxHash. */
#include "yard.h"

#define SIZE 8192

static u8 message[SIZE + 128];
static u32 sines[64], slices[4][256];

static u32 left(u32 v, u32 n) { return v << n | v >> (32 - n); }
static u64 left64(u64 v, u32 n) { return v << n | v >> (64 - n); }
static u32 little(const u8 *p) { return (u32)p[0] | (u32)p[1] << 8 | (u32)p[2] << 16 | (u32)p[3] << 24; }
static u64 little64(const u8 *p) { return little(p) | (u64)little(p + 4) << 32; }

static OWN void md5_block(u32 *state, const u8 *p) {
  static const u8 shifts[16] = {7, 12, 17, 22, 5, 9, 14, 20, 4, 11, 16, 23, 6, 10, 15, 21};
  u32 a = state[0], b = state[1], c = state[2], d = state[3], words[16];
  for (int i = 0; i < 16; i++) words[i] = little(p + 4 * i);
  for (u32 i = 0; i < 64; i++) {
    u32 f, g;
    switch (i >> 4) {
      case 0: f = (b & c) | (~b & d), g = i; break;
      case 1: f = (d & b) | (~d & c), g = 5 * i + 1; break;
      case 2: f = b ^ c ^ d, g = 3 * i + 5; break;
      default: f = c ^ (b | ~d), g = 7 * i; break;
    }
    u32 t = d;
    d = c;
    c = b;
    b += left(a + f + sines[i] + words[g & 15], shifts[(i >> 4) * 4 + (i & 3)]);
    a = t;
  }
  state[0] += a, state[1] += b, state[2] += c, state[3] += d;
}

static OWN void md5(u8 *data, u32 size, u32 *state) {
  u8 tail[128] = {0};
  u32 at = 0;
  state[0] = 0x67452301, state[1] = 0xefcdab89, state[2] = 0x98badcfe, state[3] = 0x10325476;
  for (; at + 64 <= size; at += 64) md5_block(state, data + at);
  memcpy(tail, data + at, size - at);
  tail[size - at] = 128;
  u32 end = size - at < 56 ? 64 : 128;
  for (u32 i = 0; i < 4; i++) tail[end - 8 + i] = (u8)(size * 8 >> 8 * i);
  for (u32 i = 0; i < end; i += 64) md5_block(state, tail + i);
}

static OWN u32 crc32(const u8 *data, u32 size) {
  u32 crc = ~0u;
  for (; size >= 4; size -= 4, data += 4) {
    crc ^= little(data);
    crc = slices[3][crc & 255] ^ slices[2][crc >> 8 & 255] ^ slices[1][crc >> 16 & 255] ^ slices[0][crc >> 24];
  }
  while (size--) crc = slices[0][(crc ^ *data++) & 255] ^ crc >> 8;
  return ~crc;
}

static OWN u32 adler32(const u8 *data, u32 size) {
  u32 a = 1, b = 0;
  while (size) {
    u32 part = size < 3800 ? size : 3800;
    size -= part;
    while (part--) {
      a += *data++;
      b += a;
    }
    a %= 65521;
    b %= 65521;
  }
  return b << 16 | a;
}

static OWN u64 lanes(const u8 *data, u32 size) {
  const u64 p1 = 0x9e3779b185ebca87ull, p2 = 0xc2b2ae3d27d4eb4full, p3 = 0x165667b19e3779f9ull;
  u64 v[4] = {p1 + p2, p2, 0, 0 - p1};
  u32 left_over = size % 32;
  for (u32 at = 0; at + 32 <= size; at += 32)
    for (int i = 0; i < 4; i++) v[i] = left64(v[i] + little64(data + at + 8 * i) * p2, 31) * p1;
  u64 h = left64(v[0], 1) + left64(v[1], 7) + left64(v[2], 12) + left64(v[3], 18) + size;
  for (const u8 *p = data + size - left_over; left_over--; p++) h = left64(h ^ *p * p3, 11) * p1;
  h ^= h >> 33;
  h *= p2;
  return h ^ h >> 29;
}

/* |sin(i + 1)| * 2^32, by a series on the angle in 2^-60 of a turn's radians. */
static u32 sine(u32 i) {
  double x = i, pi = 3.14159265358979323846, term, total;
  while (x > pi) x -= pi;
  term = total = x;
  for (int k = 1; k < 24; k++) {
    term = -term * x * x / (double)(2 * k * (2 * k + 1));
    total += term;
  }
  return (u32)((total < 0 ? -total : total) * 4294967296.0);
}

static void prepare(void) {
  for (u32 i = 0; i < 64; i++) sines[i] = sine(i + 1);
  for (u32 i = 0; i < 256; i++) {
    u32 c = i;
    for (int k = 0; k < 8; k++) c = c & 1 ? c >> 1 ^ 0xedb88320 : c >> 1;
    slices[0][i] = c;
  }
  for (u32 s = 1; s < 4; s++)
    for (u32 i = 0; i < 256; i++) slices[s][i] = slices[s - 1][i] >> 8 ^ slices[0][slices[s - 1][i] & 255];
  for (u32 i = 0; i < sizeof message; i++) message[i] = (u8)random_();
  u8 abc[] = "abc";
  u32 state[4];
  md5(abc, 3, state);
  line("md5", state[0]);
  line("crc", crc32(abc, 3));
  line("adler", adler32(abc, 3));
}

static void turn(u32 n) {
  u32 state[4], from = n % 61, size = SIZE - n % 1000;
  md5(message + from, size, state);
  note((u64)state[0] << 32 | state[3]);
  note(crc32(message + from, size));
  note(adler32(message + from, size));
  note(lanes(message + from, size));
  message[n % SIZE] ^= (u8)sum;
}
