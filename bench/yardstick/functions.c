/* Functions of the C library on doubles: sines, powers, logarithms, rounding, remainders. */
#include "floats.h"

static void prepare(void) {}

static OWN double waves(double x) { return sin(x) * cos(0.5 * x) + atan2(x, 2.0) - tan(0.1 * x); }
static OWN double growth(double x) { return exp(-x) + log(1 + x) + pow(x, 0.75) - cbrt(x); }
static OWN double whole(double x) { return floor(x) + 0.5 * ceil(-x) + 0.25 * rint(3 * x) + trunc(1.5 * x) + fmod(x, 0.75); }

static void turn(unsigned n) {
  double first = 0, second = 0, third = 0;
  for (int i = 1; i <= 400; i++) {
    double x = 0.013 * i + 0.001 * (double)(n % 100) + 0.0001;
    first += waves(x);
    second += growth(x);
    third += whole(x);
  }
  note(first);
  note(second);
  note(third);
}
