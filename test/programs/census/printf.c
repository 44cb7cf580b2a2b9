/* What printf and scanf do with numbers. */
#include <stdio.h>
#include <stdlib.h>
int main(void) {
  double values[] = {0.0, -0.0, 1.0 / 3, 2.5, 3.5, 1e300, 4.9e-324, 123456789.125, 1e21, -7e-5, 0.1};
  for (unsigned i = 0; i < sizeof values / sizeof *values; i++) {
    double v = values[i];
    printf("%f|%e|%g|%a|%.0f|%10.3f|%-12.4g|%+.17g\n", v, v, v, v, v, v, v, v);
  }
  printf("%Lf %Lg %.20Lf\n", 1.0L / 3, 1e100L, 2.0L / 7);
  printf("%d %u %x %o %ld %lld %hhd %c %s %.3s|%5d|%-5d|%05d|%+d\n", -1, 3000000000u, 255, 8, -5L, 1LL << 60, 300, 'c', "text", "abcdef", 42, 42, 42, 42);
  double a, b;
  float c;
  int n = sscanf("3.25 -1e-7 7.5", "%lf %lf %f", &a, &b, &c);
  printf("%d %g %g %g %g %g\n", n, a, b, c, strtod("0x1.8p3", 0), strtod("1.7976931348623159e308", 0));
  for (int i = 0; i < 40; i++) printf("%.*f ", i % 12, (double)i * i / 7);
  puts("");
  return 0;
}
