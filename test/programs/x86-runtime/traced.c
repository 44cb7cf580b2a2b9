#include "traced.h"
#include <setjmp.h>
#include <stdarg.h>
#define SITE __attribute__((noinline))

SITE long leaf(long a, long b) { return 3 * a - b; }
SITE long ten(long a, long b, long c, long d, long e, long f, long g, long h, long i, long j) {
  return a + 2 * b + 3 * c + 4 * d + 5 * e + 6 * f + 7 * g + 8 * h + 9 * i + 10 * j;
}
SITE double sum_of(int count, ...) {
  va_list list;
  double sum = 0;
  va_start(list, count);
  for (int i = 0; i < count; i++) sum += va_arg(list, double) * (double)va_arg(list, long);
  va_end(list);
  return sum;
}
SITE struct two pair_of(long a, long b) {
  const struct two result = { a ^ 0x5555, b + 7 };
  return result;
}
SITE struct big big_of(long a) {
  struct big result;
  for (int i = 0; i < 5; i++) result.words[i] = a + i;
  return result;
}
SITE double eight(double a, double b, double c, double d, double e, double f, double g, double h) {
  return a + 2 * b + 4 * c + 8 * d + 16 * e + 32 * f + 64 * g + 128 * h;
}
SITE long double on_the_x87(long double a, long double b) { return a * b + 0.5L; }
SITE _Complex double complex_of(double a, double b) {
  _Complex double result;
  __real__ result = a + b;
  __imag__ result = a - b;
  return result;
}
SITE long down(long depth) {
  if (depth == 0) return 0;
  const long below = down(depth - 1);
  __asm__ volatile("" ::: "memory");
  return below + depth;
}
SITE long outer(long a) { return leaf(a, 1) + leaf(a, 2); }
SITE long tail(long a) { return leaf(a, 5); }
SITE long other(long a, long b) { return 1000 + a + b; }
SITE long jumps(void *where) {
  __builtin_longjmp(where, 1);
}
#ifdef NESTED
/* The inner function gets its static chain in r10, which its site keeps on the stack. */
extern char nested_text[] __asm__("nested_add");
void *const nested_code = nested_text;
SITE long nested(long a) {
  long sum = a;
  auto long add(long b) __asm__("nested_add");
  SITE long add(long b) {
    sum += b;
    return sum;
  }
  add(1);
  return add(2);
}
#endif
