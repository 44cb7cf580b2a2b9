/* libm, in the modes of the floating point environment. */
#include <fenv.h>
#include <math.h>
#include <stdio.h>
int main(void) {
  double x[] = {0.5, 1.0, 2.75, -0.3, 10.0, 1e-9, 300.5};
  for (unsigned i = 0; i < sizeof x / sizeof *x; i++) {
    volatile double v = x[i];
    printf("%.15g %.15g %.15g %.15g %.15g %.15g\n", sin(v), cos(v), tan(v), exp(v / 10), atan(v), cbrt(v));
    printf("%.15g %.15g %.15g %.15g %.15g\n", log(fabs(v)), sqrt(fabs(v)), pow(fabs(v), 1.7), tgamma(fabs(v) / 8 + 1), erf(v));
    printf("%g %g %g %g %ld %g %g\n", floor(v), ceil(v), round(v), rint(v), lrint(v), fmod(v, 0.7), hypot(v, 3));
    printf("%.7g %.7g %.7g %.7g\n", (double)sinf((float)v), (double)expf((float)v / 10), (double)sqrtf(fabsf((float)v)), (double)powf(fabsf((float)v), 0.3f));
  }
  volatile double one = 1, zero = 0, three = 3, big = 1e308;
  feclearexcept(FE_ALL_EXCEPT);
  volatile double y = one / zero;
  printf("%g %d\n", y, fetestexcept(FE_DIVBYZERO) != 0);
  y = one / three;
  printf("%d", fetestexcept(FE_INEXACT) != 0);
  y = big * big;
  printf(" %d", fetestexcept(FE_OVERFLOW) != 0);
  y = zero / zero;
  printf(" %d %d\n", fetestexcept(FE_INVALID) != 0, isnan(y) != 0);
  int modes[] = {FE_TONEAREST, FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO};
  for (int i = 0; i < 4; i++) {
    fesetround(modes[i]);
    y = one / three;
    printf("%d %a %g %ld\n", fegetround() == modes[i], y, rint(2.5), lrint(-2.5));
  }
  return 0;
}
