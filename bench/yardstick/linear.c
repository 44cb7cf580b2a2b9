/* Linear algebra in doubles: LU with pivots, Jacobi's eigenvalues, conjugate gradients, least squares. */
#include "yard.h"

#define N 24

static double a[N][N], lu[N][N], x[N], y[N];
static int order[N];

static double absolute(double v) { return v < 0 ? -v : v; }
static double root(double v) {
  double r = v > 1 ? v : 1;
  if (v <= 0) return 0;
  for (int i = 0; i < 60; i++) {
    double next = 0.5 * (r + v / r);
    if (next >= r) break;
    r = next;
  }
  return r;
}
/* A double as an integer that is the same on every machine: of its leading 40 bits. */
static u64 rounded(double v) {
  int scale = 0;
  while (absolute(v) >= 1) v *= 0.5, scale++;
  return (u64)(s64)(v * 1099511627776.0) + (u64)scale;
}
static double uniform(void) { return (double)(s32)random_() / 2147483648.0; }

static OWN double decompose(void) {
  double product = 1;
  memcpy(lu, a, sizeof a);
  for (int i = 0; i < N; i++) order[i] = i;
  for (int k = 0; k < N; k++) {
    int pivot = k;
    for (int i = k + 1; i < N; i++)
      if (absolute(lu[i][k]) > absolute(lu[pivot][k])) pivot = i;
    if (pivot != k) {
      int held = order[k];
      order[k] = order[pivot];
      order[pivot] = held;
      for (int j = 0; j < N; j++) {
        double v = lu[k][j];
        lu[k][j] = lu[pivot][j];
        lu[pivot][j] = v;
      }
    }
    product *= lu[k][k];
    for (int i = k + 1; i < N; i++) {
      double factor = lu[i][k] /= lu[k][k];
      for (int j = k + 1; j < N; j++) lu[i][j] -= factor * lu[k][j];
    }
  }
  return product;
}

static OWN void solve(const double *right) {
  for (int i = 0; i < N; i++) {
    x[i] = right[order[i]];
    for (int j = 0; j < i; j++) x[i] -= lu[i][j] * x[j];
  }
  for (int i = N - 1; i >= 0; i--) {
    for (int j = i + 1; j < N; j++) x[i] -= lu[i][j] * x[j];
    x[i] /= lu[i][i];
  }
}

static OWN double residual(const double *right) {
  double worst = 0;
  for (int i = 0; i < N; i++) {
    double v = -right[i];
    for (int j = 0; j < N; j++) v += a[i][j] * x[j];
    if (absolute(v) > worst) worst = absolute(v);
  }
  return worst;
}

/* Sweeps of rotations on the symmetric part of eight rows. */
static OWN double eigenvalue(void) {
  double m[8][8];
  for (int i = 0; i < 8; i++)
    for (int j = 0; j < 8; j++) m[i][j] = a[i][j] + a[j][i];
  for (int sweep = 0; sweep < 6; sweep++)
    for (int p = 0; p < 7; p++)
      for (int q = p + 1; q < 8; q++) {
        if (absolute(m[p][q]) < 1e-12) continue;
        double theta = (m[q][q] - m[p][p]) / (2 * m[p][q]);
        double t = 1 / (absolute(theta) + root(theta * theta + 1));
        if (theta < 0) t = -t;
        double c = 1 / root(t * t + 1), s = t * c;
        for (int k = 0; k < 8; k++) {
          double u = m[k][p], v = m[k][q];
          m[k][p] = c * u - s * v;
          m[k][q] = s * u + c * v;
        }
        for (int k = 0; k < 8; k++) {
          double u = m[p][k], v = m[q][k];
          m[p][k] = c * u - s * v;
          m[q][k] = s * u + c * v;
        }
      }
  double most = m[0][0];
  for (int i = 1; i < 8; i++)
    if (m[i][i] > most) most = m[i][i];
  return most;
}

/* A grid's Laplace operator, 12 by 12, by conjugate gradients. */
static OWN double gradients(void) {
  static double u[144], r[144], p[144], q[144];
  double rr = 0;
  for (int i = 0; i < 144; i++) {
    u[i] = 0;
    p[i] = r[i] = uniform();
    rr += r[i] * r[i];
  }
  for (int step = 0; step < 20; step++) {
    double pq = 0, next = 0;
    for (int i = 0; i < 144; i++) {
      double v = 4 * p[i];
      if (i >= 12) v -= p[i - 12];
      if (i < 132) v -= p[i + 12];
      if (i % 12) v -= p[i - 1];
      if (i % 12 < 11) v -= p[i + 1];
      q[i] = v;
      pq += p[i] * v;
    }
    double alpha = rr / pq;
    for (int i = 0; i < 144; i++) {
      u[i] += alpha * p[i];
      r[i] -= alpha * q[i];
      next += r[i] * r[i];
    }
    for (int i = 0; i < 144; i++) p[i] = r[i] + next / rr * p[i];
    rr = next;
  }
  return u[65];
}

static void prepare(void) {}

static void turn(u32 n) {
  for (int i = 0; i < N; i++) {
    y[i] = uniform() * (double)(n % 10 + 1);
    for (int j = 0; j < N; j++) a[i][j] = uniform();
    a[i][i] += 4;
  }
  note(rounded(decompose()));
  solve(y);
  must(residual(y) < 1e-9, "not a solution");
  for (int i = 0; i < N; i += 5) note(rounded(x[i]));
  note(rounded(eigenvalue()));
  note(rounded(gradients()));
}
