/*
 * Shell sort, comb sort, selection sort, gnome sort through a comparison function and element size,
 * like qsort.
 */
#include "lib.h"
#define N 120
typedef int (*comparison)(const void *, const void *);
struct record { u8 tag; s32 key; s16 extra; };
static void swap(u8 *a, u8 *b, word size) {
  while (size--) {
    u8 t = *a;
    *a++ = *b;
    *b++ = t;
  }
}
static void shell(void *base, int n, word size, comparison compare) {
  u8 *v = base;
  for (int gap = n / 2; gap; gap = gap == 2 ? 1 : gap * 5 / 11)
    for (int i = gap; i < n; i++)
      for (int j = i; j >= gap && compare(v + (word)(j - gap) * size, v + (word)j * size) > 0; j -= gap)
        swap(v + (word)(j - gap) * size, v + (word)j * size, size);
}
static void comb(void *base, int n, word size, comparison compare) {
  u8 *v = base;
  for (int gap = n, again = 1; gap > 1 || again;) {
    gap = gap * 10 / 13;
    if (gap < 1) gap = 1;
    again = 0;
    for (int i = 0; i + gap < n; i++)
      if (compare(v + (word)i * size, v + (word)(i + gap) * size) > 0) {
        swap(v + (word)i * size, v + (word)(i + gap) * size, size);
        again = 1;
      }
  }
}
static int by_key(const void *a, const void *b) {
  s32 x = ((const struct record *)a)->key, y = ((const struct record *)b)->key;
  return x < y ? -1 : x > y;
}
static int by_half(const void *a, const void *b) { return *(const s16 *)a - *(const s16 *)b; }
static int by_long(const void *a, const void *b) { return *(const u64 *)a < *(const u64 *)b ? 1 : *(const u64 *)a > *(const u64 *)b ? -1 : 0; }
static struct record records[N];
static s16 halves[N];
static u64 longs[N];
int main(void) {
  for (int i = 0; i < N; i++) {
    records[i] = (struct record){(u8)i, (s32)random_(), (s16)random_()};
    halves[i] = (s16)random_();
    longs[i] = (u64)random_() << 31 ^ random_();
  }
  shell(records, N, sizeof *records, by_key);
  comb(halves, N, sizeof *halves, by_half);
  shell(longs, N, sizeof *longs, by_long);
  u64 sum = 0;
  for (int i = 0; i < N; i++) sum = sum * 17 + records[i].tag + (u64)(s64)records[i].extra + (u16)halves[i] * 3u + longs[i];
  line("sum", sum);
  line("least", (u64)(s64)records[0].key);
  line("half", (u64)(s64)halves[N / 2]);
  line("most", longs[0]);
  flush();
  return records[3].tag & 63;
}
