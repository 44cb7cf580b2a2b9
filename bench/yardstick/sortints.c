/* Numbers sorted by a heap, by merging from the bottom up, by radix, and by Shell's method. */
#include "yard.h"

#define N 3000

static u32 source[N], heap[N], merged[N], spare[N], radix[N], shell[N];

static void sink(u32 *v, u32 root, u32 end) {
  u32 value = v[root];
  for (;;) {
    u32 child = 2 * root + 1;
    if (child >= end) break;
    if (child + 1 < end && v[child + 1] > v[child]) child++;
    if (v[child] <= value) break;
    v[root] = v[child];
    root = child;
  }
  v[root] = value;
}

static OWN void heap_sort(u32 *v, u32 n) {
  for (u32 i = n / 2; i-- > 0;) sink(v, i, n);
  for (u32 end = n - 1; end > 0; end--) {
    u32 top = v[0];
    v[0] = v[end];
    v[end] = top;
    sink(v, 0, end);
  }
}

static void merge(const u32 *from, u32 *to, u32 low, u32 middle, u32 high) {
  u32 a = low, b = middle;
  for (u32 i = low; i < high; i++) {
    if (a < middle && (b >= high || from[a] <= from[b])) to[i] = from[a++];
    else to[i] = from[b++];
  }
}

static OWN void merge_sort(u32 *v, u32 *other, u32 n) {
  u32 *from = v, *to = other;
  for (u32 width = 1; width < n; width *= 2) {
    for (u32 low = 0; low < n; low += 2 * width) {
      u32 middle = low + width < n ? low + width : n, high = low + 2 * width < n ? low + 2 * width : n;
      merge(from, to, low, middle, high);
    }
    u32 *held = from;
    from = to;
    to = held;
  }
  if (from != v) memcpy(v, from, n * sizeof *v);
}

static OWN void radix_sort(u32 *v, u32 *other, u32 n) {
  u32 counts[256];
  for (u32 shift = 0; shift < 32; shift += 8) {
    memset(counts, 0, sizeof counts);
    for (u32 i = 0; i < n; i++) counts[v[i] >> shift & 255]++;
    u32 total = 0;
    for (u32 i = 0; i < 256; i++) {
      u32 count = counts[i];
      counts[i] = total;
      total += count;
    }
    for (u32 i = 0; i < n; i++) other[counts[v[i] >> shift & 255]++] = v[i];
    u32 *held = v;
    v = other;
    other = held;
  }
}

static OWN void shell_sort(u32 *v, u32 n) {
  static const u32 gaps[] = {1750, 701, 301, 132, 57, 23, 10, 4, 1};
  for (u32 g = 0; g < COUNT(gaps); g++) {
    u32 gap = gaps[g];
    for (u32 i = gap; i < n; i++) {
      u32 value = v[i], j = i;
      for (; j >= gap && v[j - gap] > value; j -= gap) v[j] = v[j - gap];
      v[j] = value;
    }
  }
}

static u32 find(const u32 *v, u32 n, u32 value) {
  u32 low = 0, high = n;
  while (low < high) {
    u32 middle = (low + high) / 2;
    if (v[middle] < value) low = middle + 1;
    else high = middle;
  }
  return low;
}

static void prepare(void) {}

static void turn(u32 n) {
  for (u32 i = 0; i < N; i++) {
    u32 v = random_();
    source[i] = n & 1 ? v >> (v & 15) : v;
    if (n % 7 == 3 && i > 0) source[i] = source[i - 1] + (v & 255) - 20;
  }
  memcpy(heap, source, sizeof heap);
  memcpy(merged, source, sizeof heap);
  memcpy(radix, source, sizeof heap);
  memcpy(shell, source, sizeof heap);
  heap_sort(heap, N);
  merge_sort(merged, spare, N);
  radix_sort(radix, spare, N);
  shell_sort(shell, N);
  must(memcmp(heap, merged, sizeof heap) == 0, "heap and merge differ");
  must(memcmp(heap, radix, sizeof heap) == 0, "heap and radix differ");
  must(memcmp(heap, shell, sizeof heap) == 0, "heap and shell differ");
  for (u32 i = 0; i < N; i += 101) note(heap[i]);
  for (u32 i = 0; i < 200; i++) note(find(heap, N, source[i] + (i & 1)));
}
