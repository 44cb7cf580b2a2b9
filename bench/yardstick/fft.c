/* A fast Fourier transform of complex doubles, with roots of the C library. */
#include "floats.h"

#define N 1024

struct complex { double re, im; };
static struct complex data[N], roots[N / 2], kept[N];

static OWN void transform(double sign) {
  for (unsigned i = 1, j = 0; i < N; i++) {
    unsigned bit = N / 2;
    for (; j & bit; bit >>= 1) j ^= bit;
    j ^= bit;
    if (i < j) {
      struct complex held = data[i];
      data[i] = data[j];
      data[j] = held;
    }
  }
  for (unsigned length = 2; length <= N; length *= 2)
    for (unsigned start = 0; start < N; start += length)
      for (unsigned k = 0; k < length / 2; k++) {
        struct complex *a = &data[start + k], *b = a + length / 2, w = roots[k * (N / length)];
        double s = sign * w.im, re = b->re * w.re - b->im * s, im = b->re * s + b->im * w.re;
        b->re = a->re - re;
        b->im = a->im - im;
        a->re += re;
        a->im += im;
      }
}

/* A turn's steps by the sum of angles, begun with the half of an angle again and again. */
static void prepare(void) {
  struct complex step = {0, 1}, at = {1, 0};
  for (unsigned n = 4; n < N; n *= 2) {
    double half = sqrt((1 + step.re) / 2);
    step = (struct complex){half, step.im / (2 * half)};
  }
  for (unsigned i = 0; i < N / 2; i++) {
    roots[i] = at;
    at = (struct complex){at.re * step.re - at.im * step.im, at.re * step.im + at.im * step.re};
  }
}

static void turn(unsigned n) {
  double power = 0, worst = 0;
  for (int i = 0; i < N; i++) kept[i] = data[i] = (struct complex){uniform() + (double)(n % 5), uniform()};
  transform(-1);
  for (int i = 0; i < N; i++) power += sqrt(data[i].re * data[i].re + data[i].im * data[i].im);
  note(power);
  transform(1);
  for (int i = 0; i < N; i++) worst = fmax(worst, fabs(data[i].re / N - kept[i].re) + fabs(data[i].im / N - kept[i].im));
  must(worst < 1e-9, "not restored");
}
