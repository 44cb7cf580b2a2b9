/*
 * Records sorted through functions that compare: quicksort with three ways, insertion for the
 * rest, a stable sort of pointers, the median by selection.
 */
#include "yard.h"

#define N 1200

struct record {
  char name[12];
  u16 year;
  u8 grade;
  s32 amount;
  u64 key;
};
typedef int compare_fn(const struct record *, const struct record *);

static struct record rows[N], copy[N];
static const struct record *pointers[N], *spare[N];
static u64 compared;

static int by_name(const struct record *a, const struct record *b) {
  compared++;
  for (int i = 0; i < 12; i++)
    if (a->name[i] != b->name[i]) return (u8)a->name[i] < (u8)b->name[i] ? -1 : 1;
  return 0;
}
static int by_amount(const struct record *a, const struct record *b) {
  compared++;
  return (a->amount > b->amount) - (a->amount < b->amount);
}
static int by_year_and_grade(const struct record *a, const struct record *b) {
  compared++;
  if (a->year != b->year) return (int)a->year - (int)b->year;
  return (int)b->grade - (int)a->grade;
}
static int by_key(const struct record *a, const struct record *b) {
  compared++;
  return a->key < b->key ? -1 : a->key > b->key;
}

static void exchange(struct record *a, struct record *b) {
  struct record held = *a;
  *a = *b;
  *b = held;
}

static void insertion(struct record *v, int n, compare_fn *compare) {
  for (int i = 1; i < n; i++)
    for (int j = i; j > 0 && compare(&v[j - 1], &v[j]) > 0; j--) exchange(&v[j - 1], &v[j]);
}

static OWN void quick(struct record *v, int n, compare_fn *compare) {
  while (n > 8) {
    int a = 0, middle = n / 2, b = n - 1;
    if (compare(&v[a], &v[middle]) > 0) exchange(&v[a], &v[middle]);
    if (compare(&v[middle], &v[b]) > 0) exchange(&v[middle], &v[b]);
    if (compare(&v[a], &v[middle]) > 0) exchange(&v[a], &v[middle]);
    struct record pivot = v[middle];
    int low = 0, at = 0, high = n;
    while (at < high) {
      int order = compare(&v[at], &pivot);
      if (order < 0) exchange(&v[low++], &v[at++]);
      else if (order > 0) exchange(&v[at], &v[--high]);
      else at++;
    }
    if (low < n - high) {
      quick(v, low, compare);
      v += high;
      n -= high;
    } else {
      quick(v + high, n - high, compare);
      n = low;
    }
  }
  insertion(v, n, compare);
}

static OWN void stable(const struct record **v, const struct record **to, int n, compare_fn *compare) {
  if (n < 2) return;
  int half = n / 2, a = 0, b = half;
  stable(v, to, half, compare);
  stable(v + half, to, n - half, compare);
  for (int i = 0; i < n; i++) to[i] = b >= n || (a < half && compare(v[a], v[b]) <= 0) ? v[a++] : v[b++];
  for (int i = 0; i < n; i++) v[i] = to[i];
}

static OWN s32 median(struct record *v, int n) {
  int low = 0, high = n - 1, want = n / 2;
  while (low < high) {
    s32 pivot = v[(low + high) / 2].amount;
    int i = low, j = high;
    while (i <= j) {
      while (v[i].amount < pivot) i++;
      while (v[j].amount > pivot) j--;
      if (i <= j) exchange(&v[i++], &v[j--]);
    }
    if (want <= j) high = j;
    else if (want >= i) low = i;
    else break;
  }
  return v[want].amount;
}

static void prepare(void) {}

static void turn(u32 n) {
  for (u32 i = 0; i < N; i++) {
    struct record *r = &rows[i];
    write_text((u8 *)r->name, 12);
    r->year = (u16)(1950 + below(70));
    r->grade = (u8)below(6);
    r->amount = (s32)random_() >> 12;
    r->key = (u64)random_() << 32 | n;
    pointers[i] = r;
  }
  memcpy(copy, rows, sizeof rows);
  note((u64)median(copy, N));
  static compare_fn *const all[] = {by_name, by_amount, by_year_and_grade, by_key};
  quick(copy, N, all[n % 4]);
  for (u32 i = 0; i < N; i += 37) note((u64)copy[i].year << 32 | (u32)copy[i].amount);
  stable(pointers, spare, N, by_year_and_grade);
  for (u32 i = 0; i < N; i += 41) note((u64)(pointers[i] - rows));
  note(compared);
}
