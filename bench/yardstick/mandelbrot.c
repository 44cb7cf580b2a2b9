/* Mandelbrot's set: steps of z * z + c until z is far, or for long, of doubles. */
#include "floats.h"

#define WIDTH 12

static OWN unsigned steps(double re, double im, unsigned limit) {
  double x = 0, y = 0, xx = 0, yy = 0;
  unsigned n = 0;
  for (; n < limit && xx + yy <= 4; n++) {
    y = 2 * x * y + im;
    x = xx - yy + re;
    xx = x * x;
    yy = y * y;
  }
  return n;
}

static void prepare(void) {}

static void turn(unsigned n) {
  double total = 0, size = 3.0 / (double)(1 + n % 11);
  for (int row = 0; row < WIDTH; row++)
    for (int column = 0; column < WIDTH; column++)
      total += steps(-0.6 + size * (column - WIDTH / 2) / WIDTH, size * (row - WIDTH / 2) / WIDTH, 200);
  note(total);
}
