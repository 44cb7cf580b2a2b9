/* Doubles: a fast Fourier transform and its inverse, filters, and planets that pull at each other. */
#include "yard.h"

#define N 512

static double re[N], im[N], cosines[N / 2], sines[N / 2], kept[N];

static double root(double v) {
  double r = v > 1 ? v : 1;
  for (int i = 0; i < 80; i++) {
    double next = 0.5 * (r + v / r);
    if (next >= r) break;
    r = next;
  }
  return r;
}
static u64 rounded(double v) {
  double scaled = v * 65536.0;
  return (u64)(s64)scaled;
}

static OWN void transform(int inverse) {
  for (u32 i = 1, j = 0; i < N; i++) {
    u32 bit = N / 2;
    for (; j & bit; bit >>= 1) j ^= bit;
    j ^= bit;
    if (i < j) {
      double held = re[i];
      re[i] = re[j];
      re[j] = held;
      held = im[i];
      im[i] = im[j];
      im[j] = held;
    }
  }
  for (u32 length = 2; length <= N; length *= 2)
    for (u32 start = 0; start < N; start += length)
      for (u32 k = 0; k < length / 2; k++) {
        u32 a = start + k, b = a + length / 2;
        double c = cosines[k * (N / length)], s = inverse ? -sines[k * (N / length)] : sines[k * (N / length)];
        double x = re[b] * c - im[b] * s, y = re[b] * s + im[b] * c;
        re[b] = re[a] - x;
        im[b] = im[a] - y;
        re[a] += x;
        im[a] += y;
      }
  if (inverse)
    for (u32 i = 0; i < N; i++) re[i] /= N, im[i] /= N;
}

struct body { double x[3], v[3], mass; };
static struct body bodies[5];

static OWN void advance(double dt) {
  for (int i = 0; i < 5; i++)
    for (int j = i + 1; j < 5; j++) {
      double d[3], square = 0.01;
      for (int k = 0; k < 3; k++) {
        d[k] = bodies[i].x[k] - bodies[j].x[k];
        square += d[k] * d[k];
      }
      double pull = dt / (square * root(square));
      for (int k = 0; k < 3; k++) {
        bodies[i].v[k] -= d[k] * bodies[j].mass * pull;
        bodies[j].v[k] += d[k] * bodies[i].mass * pull;
      }
    }
  for (int i = 0; i < 5; i++)
    for (int k = 0; k < 3; k++) bodies[i].x[k] += dt * bodies[i].v[k];
}

static OWN double energy(void) {
  double total = 0;
  for (int i = 0; i < 5; i++) {
    double speed = 0;
    for (int k = 0; k < 3; k++) speed += bodies[i].v[k] * bodies[i].v[k];
    total += 0.5 * bodies[i].mass * speed;
    for (int j = i + 1; j < 5; j++) {
      double square = 0.01;
      for (int k = 0; k < 3; k++) {
        double d = bodies[i].x[k] - bodies[j].x[k];
        square += d * d;
      }
      total -= bodies[i].mass * bodies[j].mass / root(square);
    }
  }
  return total;
}

static void prepare(void) {
  /* A turn's steps by the sum of angles, begun with the half of an angle again and again. */
  double c = -1, s = 0;
  for (u32 n = 2; n < N; n *= 2) {
    double half = root((1 + c) / 2 > 0 ? (1 + c) / 2 : 0);
    s = c < -0.5 ? 1 : s / (2 * half);
    c = c < -0.5 ? 0 : half;
  }
  double x = 1, y = 0;
  for (u32 i = 0; i < N / 2; i++) {
    cosines[i] = x;
    sines[i] = -y;
    double next = x * c - y * s;
    y = x * s + y * c;
    x = next;
  }
  for (int i = 0; i < 5; i++)
    for (int k = 0; k < 3; k++) {
      bodies[i].mass = 1 + i;
      bodies[i].x[k] = (double)(i * i - 4 * k) + 0.5 * k;
      bodies[i].v[k] = 0.1 * (double)((i + k) % 3 - 1);
    }
}

static void turn(u32 n) {
  double worst = 0;
  for (u32 i = 0; i < N; i++) {
    kept[i] = re[i] = (double)((s32)random_() >> 16) + (double)(i * n % 64);
    im[i] = 0;
  }
  transform(0);
  for (u32 i = 1; i < N; i += 61) note(rounded(re[i]) ^ rounded(im[i]) << 1);
  transform(1);
  for (u32 i = 0; i < N; i++) {
    double d = re[i] - kept[i];
    if (d < 0) d = -d;
    if (d > worst) worst = d;
  }
  must(worst < 1e-6, "not restored");
  for (int i = 0; i < 20; i++) advance(0.001);
  note(rounded(energy()));
  note(rounded(bodies[n % 5].x[n % 3]));
}
