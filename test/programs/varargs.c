/* Variable arguments, structures by value, many parameters, function pointers. */
#include "lib.h"
typedef __builtin_va_list va_list;
#define va_start __builtin_va_start
#define va_arg __builtin_va_arg
#define va_end __builtin_va_end
static __attribute__((noinline)) void print(const char *format, ...) {
  va_list ap;
  va_start(ap, format);
  for (; *format; format++) {
    if (*format != '%') {
      put(*format);
      continue;
    }
    switch (*++format) {
    case 'd': {
      s32 v = va_arg(ap, s32);
      u32 u = v < 0 ? 0u - (u32)v : (u32)v;
      char d[12];
      int n = 0;
      do d[n++] = (char)('0' + u % 10);
      while (u /= 10);
      if (v < 0) put('-');
      while (n) put(d[--n]);
      break;
    }
    case 'x': hex(va_arg(ap, u32)); break;
    case 'q': hex(va_arg(ap, u64)); break;
    case 's': puts_(va_arg(ap, const char *)); break;
    case 'c': put((char)va_arg(ap, int)); break;
    default: put('%');
    }
  }
  va_end(ap);
}
struct big { u64 a; u32 b; u8 c[9]; };
struct small { s16 a; s8 b; };
static __attribute__((noinline)) struct big twist(struct big v, struct small s) {
  v.a += (u64)s.a;
  v.b ^= (u32)s.b;
  for (int i = 0; i < 9; i++) v.c[i] = (u8)(v.c[8 - i] + i);
  return v;
}
static __attribute__((noinline)) s64 many(s32 a, s64 b, s8 c, u16 d, u64 e, s32 f, s32 g, s32 h, s32 i, u64 j, s8 k) {
  return a - b + c * 3 + d * 5 + (s64)e * 7 - f + g * 11 - h * 13 + i * 17 + (s64)j * 19 + k;
}
static s32 add(s32 a, s32 b) { return a + b; }
static s32 sub(s32 a, s32 b) { return a - b; }
static s32 mul(s32 a, s32 b) { return a * b; }
static s32 (*const ops[])(s32, s32) = {add, sub, mul};
int main(int argc, char **argv) {
  print("%s %d %x %q %c%%\n", "text", -12345, 0xdeadbeefu, 0x123456789abcdefull, 'z');
  print("%d %d %d %d %d %d %d %d %d %q %d\n", 1, 2, 3, 4, 5, 6, 7, 8, 9, 10ull, -11);
  struct big v = {0xffffffff00000001ull, 77, {1, 2, 3, 4, 5, 6, 7, 8, 9}};
  for (int i = 0; i < 5; i++) v = twist(v, (struct small){(s16)(-300 * i), (s8)(i - 3)});
  line("a", v.a);
  line("b", v.b);
  line("c", (u64)v.c[0] << 16 | (u64)v.c[4] << 8 | v.c[8]);
  line("many", (u64)many(-1, -2, -3, 4, 5, -6, 7, -8, 9, 10, -128));
  s32 r = 5;
  for (int i = 0; i < 30; i++) r = ops[random_() % 3](r, i + 1);
  line("r", (u32)r);
  line("argc", (u64)argc);
  for (int i = 1; i < argc; i++) print("[%s]\n", argv[i]);
  flush();
  return argc;
}
