/*
 * String functions word by word: length, search for a byte, comparison, case, number parsing and
 * printing in any base.
 */
#include "lib.h"
#define ONES 0x0101010101010101ull
#define HIGHS 0x8080808080808080ull
static char area[256] __attribute__((aligned(8)));
static word length(const char *s) {
  const char *p = s;
  for (; (word)p & 7; p++)
    if (!*p) return (word)(p - s);
  for (;; p += 8) {
    u64 v;
    __builtin_memcpy(&v, p, 8);
    if ((v - ONES) & ~v & HIGHS) break;
  }
  while (*p) p++;
  return (word)(p - s);
}
static const char *search(const char *s, char c, word n) {
  u64 pattern = ONES * (u8)c;
  for (; n >= 8; n -= 8, s += 8) {
    u64 v;
    __builtin_memcpy(&v, s, 8);
    v ^= pattern;
    if ((v - ONES) & ~v & HIGHS) break;
  }
  for (; n; n--, s++)
    if (*s == c) return s;
  return 0;
}
static void upper(char *s) {
  for (; *s; s++)
    if (*s >= 'a' && *s <= 'z') *s = (char)(*s & ~0x20);
}
static int casecmp(const char *a, const char *b) {
  for (;; a++, b++) {
    u8 x = (u8)(*a | (*a >= 'A' && *a <= 'Z' ? 0x20 : 0)), y = (u8)(*b | (*b >= 'A' && *b <= 'Z' ? 0x20 : 0));
    if (x != y || !x) return x - y;
  }
}
static u64 parse(const char *s, unsigned base, int *bad) {
  u64 v = 0, limit = ~0ull / base;
  for (; *s; s++) {
    unsigned d = *s <= '9' ? (unsigned)(*s - '0') : (unsigned)((*s | 0x20) - 'a' + 10);
    if (d >= base) return ++*bad, v;
    if (v > limit || v * base > ~0ull - d) return ++*bad, ~0ull;
    v = v * base + d;
  }
  return v;
}
static char *print(char *end, u64 v, unsigned base) {
  *--end = 0;
  do *--end = "0123456789abcdefghijklmnopqrstuvwxyz"[v % base];
  while (v /= base);
  return end;
}
int main(void) {
  u32 sum = 0;
  int bad = 0;
  for (u32 start = 0; start < 16; start++)
    for (u32 n = 0; n < 24; n += 3) {
      memset(area, 'x', sizeof area);
      area[start + n] = 0;
      area[start + n / 2] ^= n > 1 ? 3 : 0;
      const char *found = search(area + start, 'x' ^ 3, n + 1);
      sum = sum * 3 + (u32)length(area + start) + (found ? (u32)(found - area) : 99);
    }
  line("sum", sum);
  memcpy(area, "Mixed Case, 123 and {braces}", 29);
  upper(area);
  puts_(area);
  put('\n');
  line("case", (u64)(casecmp("HeLLo", "hEllO") == 0) << 1 | (casecmp("abc", "ABD") < 0));
  static const u64 values[] = {0, 1, 255, 4294967296ull, 12345678901234567890ull, ~0ull};
  for (int i = 0; i < 6; i++)
    for (unsigned base = 2; base <= 36; base += 17 - (unsigned)i) {
      char *text = print(area + 100, values[i], base);
      puts_(text);
      put(parse(text, base, &bad) == values[i] ? '\n' : '!');
    }
  parse("18446744073709551616", 10, &bad);
  parse("12z", 10, &bad);
  line("bad", (u64)bad);
  flush();
  return bad;
}
