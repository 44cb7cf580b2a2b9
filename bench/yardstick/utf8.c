/* UTF-8 written, checked, counted, turned into UTF-16 and back, broken on purpose; Base64; case. */
#include "yard.h"

#define POINTS 2500

static u32 points[POINTS], read[POINTS * 4];
static u8 bytes[POINTS * 4 + 8], base64[POINTS * 6 + 8], again[POINTS * 4 + 8];
static u16 units[POINTS * 2];

static u32 any_point(void) {
  u32 kind = below(16), v;
  if (kind < 9) return 32 + below(95);
  if (kind < 12) return 0xa0 + below(0x500);
  if (kind < 14) v = 0x800 + below(0xf000);
  else v = 0x10000 + below(0x100000);
  return v >= 0xd800 && v < 0xe000 ? v - 0x1000 : v;
}

static OWN u32 encode(void) {
  u8 *out = bytes;
  for (u32 i = 0; i < POINTS; i++) {
    u32 c = points[i];
    if (c < 0x80) *out++ = (u8)c;
    else if (c < 0x800) {
      *out++ = (u8)(0xc0 | c >> 6);
      *out++ = (u8)(0x80 | (c & 63));
    } else if (c < 0x10000) {
      *out++ = (u8)(0xe0 | c >> 12);
      *out++ = (u8)(0x80 | (c >> 6 & 63));
      *out++ = (u8)(0x80 | (c & 63));
    } else {
      *out++ = (u8)(0xf0 | c >> 18);
      *out++ = (u8)(0x80 | (c >> 12 & 63));
      *out++ = (u8)(0x80 | (c >> 6 & 63));
      *out++ = (u8)(0x80 | (c & 63));
    }
  }
  return (u32)(out - bytes);
}

/* What is not well formed becomes U+FFFD, a byte at a time. */
static OWN u32 decode(u32 size, u32 *bad) {
  u32 n = 0;
  *bad = 0;
  for (u32 at = 0; at < size;) {
    u32 c = bytes[at], more = c < 0x80 ? 0 : c < 0xc2 ? 9 : c < 0xe0 ? 1 : c < 0xf0 ? 2 : c < 0xf5 ? 3 : 9;
    static const u32 least[] = {0, 0x80, 0x800, 0x10000};
    u32 v = more == 0 ? c : more == 1 ? c & 31 : more == 2 ? c & 15 : c & 7, k = 1;
    if (more < 9 && at + more < size) {
      while (k <= more && (bytes[at + k] & 0xc0) == 0x80) v = v << 6 | (bytes[at + k++] & 63);
    }
    if (more == 9 || k <= more || v < least[more] || v > 0x10ffff || (v >= 0xd800 && v < 0xe000)) {
      (*bad)++;
      read[n++] = 0xfffd;
      at++;
      continue;
    }
    read[n++] = v;
    at += more + 1;
  }
  return n;
}

static OWN u32 to_units(u32 count) {
  u32 n = 0;
  for (u32 i = 0; i < count; i++) {
    u32 c = points[i];
    if (c < 0x10000) units[n++] = (u16)c;
    else {
      units[n++] = (u16)(0xd800 + ((c - 0x10000) >> 10));
      units[n++] = (u16)(0xdc00 + ((c - 0x10000) & 0x3ff));
    }
  }
  return n;
}
static OWN u32 from_units(u32 n) {
  u32 count = 0;
  for (u32 i = 0; i < n; i++) {
    u32 c = units[i];
    if (c >= 0xd800 && c < 0xdc00) c = 0x10000 + ((c - 0xd800) << 10) + (units[++i] - 0xdc00u);
    read[count++] = c;
  }
  return count;
}

static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
static OWN u32 to_base64(u32 size) {
  u32 out = 0;
  for (u32 at = 0; at < size; at += 3) {
    u32 v = (u32)bytes[at] << 16 | (at + 1 < size ? (u32)bytes[at + 1] << 8 : 0) | (at + 2 < size ? bytes[at + 2] : 0u);
    base64[out++] = (u8)letters[v >> 18];
    base64[out++] = (u8)letters[v >> 12 & 63];
    base64[out++] = at + 1 < size ? (u8)letters[v >> 6 & 63] : '=';
    base64[out++] = at + 2 < size ? (u8)letters[v & 63] : '=';
  }
  return out;
}
static u32 digit(u8 c) {
  if (c >= 'A' && c <= 'Z') return c - 'A' + 0u;
  if (c >= 'a' && c <= 'z') return c - 'a' + 26u;
  if (c >= '0' && c <= '9') return c - '0' + 52u;
  return c == '+' ? 62 : 63;
}
static OWN u32 from_base64(u32 size) {
  u32 out = 0;
  for (u32 at = 0; at < size; at += 4) {
    u32 v = digit(base64[at]) << 18 | digit(base64[at + 1]) << 12 | digit(base64[at + 2]) << 6 | digit(base64[at + 3]);
    again[out++] = (u8)(v >> 16);
    if (base64[at + 2] != '=') again[out++] = (u8)(v >> 8);
    if (base64[at + 3] != '=') again[out++] = (u8)v;
  }
  return out;
}

static u32 upper(u32 c) {
  if ((c >= 'a' && c <= 'z') || (c >= 0xe0 && c <= 0xfe && c != 0xf7) || (c >= 0x3b1 && c <= 0x3c9 && c != 0x3c2) || (c >= 0x430 && c <= 0x44f)) return c - 32;
  if ((c >= 0x100 && c < 0x138) || (c >= 0x14a && c < 0x178)) return c & ~1u;
  return c >= 0x450 && c <= 0x45f ? c - 80 : c;
}

static void prepare(void) {}

static void turn(u32 n) {
  u32 bad, cases = 0;
  for (u32 i = 0; i < POINTS; i++) points[i] = any_point();
  u32 size = encode(), count = decode(size, &bad);
  must(count == POINTS && bad == 0 && memcmp(points, read, sizeof points) == 0, "UTF-8");
  note(size);
  count = from_units(to_units(POINTS));
  must(count == POINTS && memcmp(points, read, sizeof points) == 0, "UTF-16");
  u32 packed = to_base64(size);
  must(from_base64(packed) == size && memcmp(bytes, again, size) == 0, "Base64");
  for (u32 i = 0; i < POINTS; i++) cases = cases * 31 + upper(points[i]);
  note(cases);
  for (u32 i = 0; i < 60 + n % 30; i++) spoil(bytes, size);
  note(decode(size, &bad));
  note(bad);
}
