/* As LINPACK has it: LU of a full matrix by columns, with pivots, and a solution, of doubles. */
#include "floats.h"

#define N 40

static double a[N][N], kept[N][N], b[N], right[N];
static int pivots[N];

/* y += t * x */
static OWN void daxpy(int n, double t, const double *x, double *y) {
  for (int i = 0; i < n; i++) y[i] += t * x[i];
}

static OWN double ddot(int n, const double *x, const double *y) {
  double total = 0;
  for (int i = 0; i < n; i++) total += x[i] * y[i];
  return total;
}

static OWN int idamax(int n, const double *x) {
  int at = 0;
  for (int i = 1; i < n; i++)
    if (fabs(x[i]) > fabs(x[at])) at = i;
  return at;
}

/* `a[j]` is column j. */
static OWN void dgefa(void) {
  for (int k = 0; k < N - 1; k++) {
    int p = k + idamax(N - k, &a[k][k]);
    pivots[k] = p;
    double held = a[k][p];
    a[k][p] = a[k][k];
    a[k][k] = held;
    for (int i = k + 1; i < N; i++) a[k][i] *= -1.0 / held;
    for (int j = k + 1; j < N; j++) {
      double t = a[j][p];
      a[j][p] = a[j][k];
      a[j][k] = t;
      daxpy(N - k - 1, t, &a[k][k + 1], &a[j][k + 1]);
    }
  }
}

static OWN void dgesl(void) {
  for (int k = 0; k < N - 1; k++) {
    double t = b[pivots[k]];
    b[pivots[k]] = b[k];
    b[k] = t;
    daxpy(N - k - 1, t, &a[k][k + 1], &b[k + 1]);
  }
  for (int k = N - 1; k >= 0; k--) {
    b[k] /= a[k][k];
    daxpy(k, -b[k], a[k], b);
  }
}

static void prepare(void) {}

static void turn(unsigned n) {
  for (int j = 0; j < N; j++)
    for (int i = 0; i < N; i++) kept[i][j] = a[j][i] = uniform();
  for (int i = 0; i < N; i++) right[i] = b[i] = uniform() + (double)(n % 7);
  dgefa();
  dgesl();
  double worst = 0;
  for (int i = 0; i < N; i++) worst = fmax(worst, fabs(ddot(N, kept[i], b) - right[i]));
  must(worst < 1e-7, "not a solution");
  for (int i = 0; i < N; i += 9) note(b[i]);
}
