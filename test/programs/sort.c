/* Quicksort, insertion sort and heap sort of the same data. */
#include "lib.h"
#define N 400
static s32 a[N], b[N], c[N];
static void quick(s32 *v, int lo, int hi) {
  if (hi - lo < 8) {
    for (int i = lo + 1; i <= hi; i++) {
      s32 x = v[i];
      int j = i - 1;
      for (; j >= lo && v[j] > x; j--) v[j + 1] = v[j];
      v[j + 1] = x;
    }
    return;
  }
  s32 p = v[(lo + hi) / 2];
  int i = lo, j = hi;
  while (i <= j) {
    while (v[i] < p) i++;
    while (v[j] > p) j--;
    if (i <= j) {
      s32 t = v[i];
      v[i++] = v[j];
      v[j--] = t;
    }
  }
  quick(v, lo, j);
  quick(v, i, hi);
}
static void insertion(s32 *v, int n) {
  for (int i = 1; i < n; i++)
    for (int j = i; j > 0 && v[j - 1] > v[j]; j--) {
      s32 t = v[j];
      v[j] = v[j - 1];
      v[j - 1] = t;
    }
}
static void sift(s32 *v, int i, int n) {
  for (;;) {
    int k = 2 * i + 1;
    if (k >= n) return;
    if (k + 1 < n && v[k + 1] > v[k]) k++;
    if (v[i] >= v[k]) return;
    s32 t = v[i];
    v[i] = v[k];
    v[k] = t;
    i = k;
  }
}
static void heap(s32 *v, int n) {
  for (int i = n / 2 - 1; i >= 0; i--) sift(v, i, n);
  for (int i = n - 1; i > 0; i--) {
    s32 t = v[0];
    v[0] = v[i];
    v[i] = t;
    sift(v, 0, i);
  }
}
int main(void) {
  for (int i = 0; i < N; i++) a[i] = b[i] = c[i] = (s32)random_() >> (i % 24);
  quick(a, 0, N - 1);
  insertion(b, N);
  heap(c, N);
  int same = 1;
  u32 sum = 0;
  for (int i = 0; i < N; i++) {
    if (a[i] != b[i] || a[i] != c[i]) same = 0;
    sum = sum * 31 + (u32)a[i];
  }
  line("same", (u64)same);
  line("first", (u64)(s64)a[0]);
  line("last", (u64)(s64)a[N - 1]);
  line("sum", sum);
  flush();
  return same ? 7 : 1;
}
