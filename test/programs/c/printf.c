/* A printf with flags, width, precision and length modifiers, into a buffer. */
#include "lib.h"
typedef __builtin_va_list list;
static char buffer[120];
static int digits(char *out, u64 v, unsigned base, int upper) {
  char t[24];
  int n = 0, k = 0;
  do t[n++] = (upper ? "0123456789ABCDEF" : "0123456789abcdef")[v % base];
  while (v /= base);
  while (n) out[k++] = t[--n];
  return k;
}
static __attribute__((noinline)) int format(char *out, const char *f, ...) {
  list ap;
  char *start = out;
  __builtin_va_start(ap, f);
  for (; *f; f++) {
    if (*f != '%') {
      *out++ = *f;
      continue;
    }
    int left = 0, zero = 0, plus = 0, width = 0, longs = 0;
    for (f++;; f++) {
      if (*f == '-') left = 1;
      else if (*f == '0') zero = 1;
      else if (*f == '+') plus = 1;
      else break;
    }
    if (*f == '*') width = __builtin_va_arg(ap, int), f++;
    while (*f >= '0' && *f <= '9') width = width * 10 + *f++ - '0';
    while (*f == 'l') longs++, f++;
    char text[32], sign = 0;
    const char *from = text;
    int n = 0;
    if (*f == 's') for (from = __builtin_va_arg(ap, const char *); from[n];) n++;
    else if (*f == 'c') text[n++] = (char)__builtin_va_arg(ap, int);
    else if (*f == '%') text[n++] = '%';
    else {
      u64 v = longs == 2 ? __builtin_va_arg(ap, u64) : longs ? __builtin_va_arg(ap, word) : __builtin_va_arg(ap, u32);
      if (*f == 'd') {
        s64 s = longs == 2 ? (s64)v : longs ? (s64)(long)v : (s64)(s32)v;
        sign = s < 0 ? '-' : plus ? '+' : 0;
        v = s < 0 ? -(u64)s : (u64)s;
      }
      n = digits(text, v, *f == 'o' ? 8 : *f == 'x' || *f == 'X' ? 16 : 10, *f == 'X');
    }
    int pad = width - n - (sign != 0);
    if (!left && !zero) while (pad-- > 0) *out++ = ' ';
    if (sign) *out++ = sign;
    if (!left && zero) while (pad-- > 0) *out++ = '0';
    for (int i = 0; i < n; i++) *out++ = from[i];
    if (left) while (pad-- > 0) *out++ = '.';
  }
  *out = 0;
  __builtin_va_end(ap);
  return (int)(out - start);
}
int main(void) {
  int n = format(buffer, "[%5d|%-5d|%05d|%+d|%x|%08X|%o|%c|%%|%s]\n", 42, -42, -42, 42, 0xbeefu, 0xcafeu, 64u, 'q', "text");
  puts_(buffer);
  n += format(buffer, "[%lld|%llu|%20llx|%-8s|%*d|%ld|%+lld]\n", -9223372036854775807ll - 1, ~0ull, 0x123456789ull, "ab", 6, 7, -8L, 9ll);
  puts_(buffer);
  n += format(buffer, "%d %d %d %d %d %d %d %d %d %lld %d\n", 1, -2, 3, -4, 5, -6, 7, -8, 9, 10000000000ll, 11);
  puts_(buffer);
  line("n", (u64)n);
  flush();
  return n & 127;
}
