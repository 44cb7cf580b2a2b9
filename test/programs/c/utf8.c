/*
 * UTF-8: encoding, strict decoding, UTF-16 surrogates, counting by words, case folding of some
 * Latin.
 */
#include "lib.h"
static int encode(u32 c, u8 *out) {
  if (c < 0x80) return out[0] = (u8)c, 1;
  if (c < 0x800) return out[0] = (u8)(0xc0 | c >> 6), out[1] = (u8)(0x80 | (c & 63)), 2;
  if (c < 0x10000) return out[0] = (u8)(0xe0 | c >> 12), out[1] = (u8)(0x80 | (c >> 6 & 63)), out[2] = (u8)(0x80 | (c & 63)), 3;
  out[0] = (u8)(0xf0 | c >> 18), out[1] = (u8)(0x80 | (c >> 12 & 63)), out[2] = (u8)(0x80 | (c >> 6 & 63)), out[3] = (u8)(0x80 | (c & 63));
  return 4;
}
static int decode(const u8 *p, int n, u32 *c) {
  static const u32 least[5] = {0, 0, 0x80, 0x800, 0x10000};
  int size = *p < 0x80 ? 1 : *p >= 0xf0 && *p < 0xf5 ? 4 : *p >= 0xe0 && *p < 0xf0 ? 3 : *p >= 0xc2 && *p < 0xe0 ? 2 : 0;
  if (!size || size > n) return 0;
  *c = size == 1 ? *p : *p & (0x7fu >> size);
  for (int i = 1; i < size; i++) {
    if ((p[i] & 0xc0) != 0x80) return 0;
    *c = *c << 6 | (p[i] & 63);
  }
  return *c < least[size] || (*c >= 0xd800 && *c < 0xe000) || *c > 0x10ffff ? 0 : size;
}
static int utf16(u32 c, u16 *out) {
  if (c < 0x10000) return out[0] = (u16)c, 1;
  out[0] = (u16)(0xd7c0 + (c >> 10));
  out[1] = (u16)(0xdc00 | (c & 0x3ff));
  return 2;
}
static u32 count(const u8 *p, int n) {
  u32 continued = 0;
  for (; n >= 8; n -= 8, p += 8) {
    u64 v;
    __builtin_memcpy(&v, p, 8);
    v = (v >> 7 & ~v >> 6) & 0x0101010101010101ull;
    continued += (u32)((v * 0x0101010101010101ull) >> 56);
  }
  for (; n; n--) continued += (*p++ & 0xc0) == 0x80;
  return continued;
}
int main(void) {
  u8 text[400];
  int n = 0;
  u32 hash = 0, bad = 0, units = 0;
  for (int i = 0; i < 90; i++) {
    u32 r = random_(), c = i % 4 == 0 ? r % 0x80 : i % 4 == 1 ? r % 0x800 : i % 4 == 2 ? r % 0xd000 : 0x10000 + r % 0x100000;
    n += encode(c, text + n);
  }
  line("bytes", (u64)n);
  line("continued", count(text, n));
  for (int i = 0; i < n;) {
    u32 c = 0;
    u16 unit[2];
    int size = decode(text + i, n - i, &c);
    if (!size) bad++, size = 1;
    units += (u32)utf16(c, unit);
    hash = hash * 31 + c + unit[0];
    i += size;
  }
  line("units", units);
  line("hash", hash);
  for (int i = 0; i < n; i += 3) text[i] ^= (u8)(random_() & 0xc1);
  for (int i = 0; i < n; i++) {
    u32 c = 0;
    int size = decode(text + i, n - i, &c);
    bad += !size;
    hash = hash * 33 + c;
  }
  line("bad", bad);
  line("hash", hash);
  flush();
  return (int)(bad & 63);
}
