/*
 * Dynamic programming: edit distance, longest common and increasing subsequences, knapsack, matrix
 * chains, coin change.
 */
#include "lib.h"
static int least(int a, int b) { return a < b ? a : b; }
static int most(int a, int b) { return a > b ? a : b; }
static int size(const char *s) {
  int n = 0;
  while (s[n]) n++;
  return n;
}
static int edit(const char *a, const char *b) {
  u8 row[2][64];
  int n = size(a), m = size(b);
  for (int j = 0; j <= m; j++) row[0][j] = (u8)j;
  for (int i = 1; i <= n; i++) {
    u8 *now = row[i & 1], *old = row[~i & 1];
    now[0] = (u8)i;
    for (int j = 1; j <= m; j++) now[j] = (u8)least(old[j - 1] + (a[i - 1] != b[j - 1]), 1 + least(old[j], now[j - 1]));
  }
  return row[n & 1][m];
}
static s16 table[48][48];
static int common(const char *a, const char *b, char *out) {
  int n = size(a), m = size(b), k = 0;
  for (int i = n; i >= 0; i--)
    for (int j = m; j >= 0; j--)
      table[i][j] = (s16)(i == n || j == m ? 0 : a[i] == b[j] ? 1 + table[i + 1][j + 1] : most(table[i + 1][j], table[i][j + 1]));
  for (int i = 0, j = 0; i < n && j < m;) {
    if (a[i] == b[j]) out[k++] = a[i], i++, j++;
    else if (table[i + 1][j] >= table[i][j + 1]) i++;
    else j++;
  }
  out[k] = 0;
  return k;
}
static int increasing(const s32 *v, int n) {
  s32 tails[100];
  int k = 0;
  for (int i = 0; i < n; i++) {
    int lo = 0, hi = k;
    while (lo < hi) {
      int mid = (lo + hi) >> 1;
      if (tails[mid] < v[i]) lo = mid + 1;
      else hi = mid;
    }
    tails[lo] = v[i];
    if (lo == k) k++;
  }
  return k;
}
static s64 chain(const u16 *d, int n) {
  static s64 cost[16][16];
  for (int width = 1; width < n; width++)
    for (int i = 0; i + width < n; i++) {
      s64 best = 0x7fffffffffffffffll;
      for (int k = i; k < i + width; k++) {
        s64 c = cost[i][k] + cost[k + 1][i + width] + (s64)d[i] * d[k + 1] * d[i + width + 1];
        if (c < best) best = c;
      }
      cost[i][i + width] = best;
    }
  return cost[0][n - 1];
}
int main(void) {
  char out[48];
  s32 values[100];
  u16 sizes[15];
  line("edit", (u64)(edit("kitten", "sitting") << 16 | edit("instruction", "interpretation") << 8 | edit("", "four")));
  line("common", (u64)common("the trampoline saves the registers", "then a stub restores them", out));
  puts_(out);
  put('\n');
  for (int i = 0; i < 100; i++) values[i] = (s32)random_() / 1000;
  line("increasing", (u64)increasing(values, 100));
  for (int i = 0; i < 15; i++) sizes[i] = (u16)(random_() % 3000 + 1);
  line("chain", (u64)chain(sizes, 14));
  static u32 best[500];
  static u64 ways[301] = {1};
  for (int i = 0; i < 30; i++) {
    u32 weight = random_() % 60 + 1, value = random_() % 1000;
    for (u32 w = 499; w >= weight; w--)
      if (best[w - weight] + value > best[w]) best[w] = best[w - weight] + value;
  }
  line("knapsack", best[499]);
  for (int coin = 1; coin <= 50; coin += coin / 2 + 1)
    for (int i = coin; i <= 300; i++) ways[i] += ways[i - coin];
  line("ways", ways[300]);
  flush();
  return 2;
}
