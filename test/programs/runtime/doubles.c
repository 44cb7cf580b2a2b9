/* C-FG-7: floating point arguments and results pass entries that save general registers only. */
#include "lib.h"
#define F __attribute__((noinline, noclone))
F static double leaf(double a) { return a * 1.5; }
F static double eight(double a, double b, double c, double d, double e, double f, double g, double h) {
  return a + 2 * b + 3 * c + 4 * leaf(d) + 5 * e + 6 * f + 7 * g + 8 * h;
}
F static double tail(double a, double b) { return eight(a, b, a, b, a, b, a, b); }
F static double mixed(int i, double a, long l, float b, u64 w) { return i * a + l * b + (double)(long)(w >> 40); }
F static double sum(int count, ...) {
  __builtin_va_list list;
  double r = 0;
  __builtin_va_start(list, count);
  for (int i = 0; i < count; i++) r += (i + 1) * __builtin_va_arg(list, double);
  __builtin_va_end(list);
  return r;
}
F static _Complex double both(double a, double b) { _Complex double r; __real__ r = leaf(a); __imag__ r = b; return r; }
static void bits(const char *name, double d) {
  union { double d; u64 u; } both = { d };
  line(name, both.u);
}
int main(void) {
  bits("eight", eight(1.25, 2.5, 3.75, 4.125, 5.0625, 6.5, 7.25, 8.875));
  bits("tail", tail(0.1, 0.7));
  bits("mixed", mixed(3, 2.5, 9, 1.5f, 0x123456789abcdef0ull));
  bits("sum", sum(7, 1.0, 2.5, 3.25, 4.125, 5.5, 6.0, 7.75));
  const _Complex double c = both(2.25, 9.5);
  bits("real", __real__ c);
  bits("imag", __imag__ c);
  flush();
  return 3;
}
