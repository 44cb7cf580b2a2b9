/*
 * Variable arguments of every integer type and size, structures among them, copied lists, more than
 * fit registers.
 */
#include "lib.h"
typedef __builtin_va_list list;
#define arg __builtin_va_arg
struct one { u8 a; };
struct three { u8 a, b, c; };
struct eight { u32 a, b; };
struct twelve { u32 a, b, c; };
struct large { u64 a; u16 b[9]; };
static __attribute__((noinline)) u64 read(const char *types, ...) {
  list ap, again;
  u64 sum = 0;
  __builtin_va_start(ap, types);
  __builtin_va_copy(again, ap);
  for (int round = 0; round < 2; round++) {
    for (const char *t = types; *t; t++) {
      list *from = round ? &again : &ap;
      u64 v = 0;
      switch (*t) {
      case 'c': v = (u64)(s8)arg(*from, int); break;
      case 'C': v = (u8)arg(*from, int); break;
      case 'h': v = (u64)(s16)arg(*from, int); break;
      case 'i': v = (u64)(s64)arg(*from, s32); break;
      case 'u': v = arg(*from, u32); break;
      case 'l': v = (u64)(s64)arg(*from, long); break;
      case 'q': v = arg(*from, u64); break;
      case 'p': v = *arg(*from, const u8 *); break;
      case '1': v = arg(*from, struct one).a; break;
      case '3': { struct three s = arg(*from, struct three); v = (u64)s.a << 16 | (u64)s.b << 8 | s.c; break; }
      case '8': { struct eight s = arg(*from, struct eight); v = (u64)s.a << 32 | s.b; break; }
      case 'w': { struct twelve s = arg(*from, struct twelve); v = s.a * 5ull + s.b * 3ull + s.c; break; }
      case 'L': { struct large s = arg(*from, struct large); v = s.a + s.b[0] + s.b[8]; break; }
      }
      sum = (sum << 5 | sum >> 59) ^ v;
    }
  }
  __builtin_va_end(again);
  __builtin_va_end(ap);
  return sum;
}
static __attribute__((noinline)) s64 total(int n, ...) {
  list ap;
  s64 sum = 0;
  __builtin_va_start(ap, n);
  while (n--) sum = sum * 3 + arg(ap, s64);
  __builtin_va_end(ap);
  return sum;
}
int main(void) {
  static const u8 byte = 0xa5;
  struct large big = {0x1122334455667788ull, {1, 2, 3, 4, 5, 6, 7, 8, 9}};
  line("small", read("cChiu", -5, 250, -30000, -7, 4000000000u));
  line("long", read("lqlq", -9L, 1ull << 63, 77L, 12345678901234ull));
  line("odd", read("iqiqiqiq", 1, 2ull, 3, 4ull, 5, 6ull, 7, 8ull));
  line("structs", read("138wL", (struct one){200}, (struct three){1, 2, 3}, (struct eight){4, 5}, (struct twelve){6, 7, 8}, big));
  line("mixed", read("pc1q3i8hwuLlLi", &byte, -1, (struct one){9}, ~0ull, (struct three){7, 8, 9}, -100, (struct eight){10, 11}, -2,
                     (struct twelve){12, 13, 14}, 15u, big, -16L, big, 17));
  line("total", (u64)total(12, -1ll, 2ll, -3ll, 4ll, -5ll, 6ll, -7ll, 8ll, -9ll, 10ll, -11ll, 12ll));
  flush();
  return 11;
}
