/* Dynamic programming: edit distance, common subsequence, knapsack, orders of products, coins, LIS. */
#include "yard.h"

#define LENGTH 220

static u8 one[LENGTH], two[LENGTH];
static u16 grid[LENGTH + 1][LENGTH + 1];
static u32 best[2001], products[31][31];
static s32 values[400];

static u32 least(u32 a, u32 b) { return a < b ? a : b; }

static OWN u32 edit_distance(void) {
  for (u32 i = 0; i <= LENGTH; i++) grid[i][0] = grid[0][i] = (u16)i;
  for (u32 i = 1; i <= LENGTH; i++)
    for (u32 j = 1; j <= LENGTH; j++) {
      u32 same = grid[i - 1][j - 1] + (one[i - 1] != two[j - 1]);
      u32 v = least(same, 1 + least(grid[i - 1][j], grid[i][j - 1]));
      if (i > 1 && j > 1 && one[i - 1] == two[j - 2] && one[i - 2] == two[j - 1]) v = least(v, grid[i - 2][j - 2] + 1u);
      grid[i][j] = (u16)v;
    }
  return grid[LENGTH][LENGTH];
}

static OWN u32 common(void) {
  memset(grid[0], 0, sizeof grid[0]);
  for (u32 i = 1; i <= LENGTH; i++) {
    grid[i][0] = 0;
    for (u32 j = 1; j <= LENGTH; j++)
      grid[i][j] = one[i - 1] == two[j - 1] ? (u16)(grid[i - 1][j - 1] + 1)
                   : grid[i - 1][j] > grid[i][j - 1] ? grid[i - 1][j] : grid[i][j - 1];
  }
  u32 i = LENGTH, j = LENGTH, hash = 0;
  while (i && j) {
    if (one[i - 1] == two[j - 1]) hash = hash * 31 + one[i - 1], i--, j--;
    else if (grid[i - 1][j] >= grid[i][j - 1]) i--;
    else j--;
  }
  return hash ^ grid[LENGTH][LENGTH];
}

static OWN u32 knapsack(void) {
  memset(best, 0, sizeof best);
  for (u32 item = 0; item < 24; item++) {
    u32 weight = 20 + below(300), worth = weight + below(200);
    for (u32 room = 2000; room >= weight; room--) {
      u32 with = best[room - weight] + worth;
      if (with > best[room]) best[room] = with;
    }
  }
  return best[2000];
}

static OWN u32 order_of_products(void) {
  u32 sides[31];
  for (u32 i = 0; i < 31; i++) sides[i] = 5 + below(60);
  for (u32 i = 0; i < 30; i++) products[i][i] = 0;
  for (u32 length = 2; length <= 30; length++)
    for (u32 i = 0; i + length <= 30; i++) {
      u32 j = i + length - 1, found = ~0u;
      for (u32 k = i; k < j; k++) found = least(found, products[i][k] + products[k + 1][j] + sides[i] * sides[k + 1] * sides[j + 1]);
      products[i][j] = found;
    }
  return products[0][29];
}

static OWN u64 coins(void) {
  static const u32 kinds[] = {1, 2, 5, 10, 20, 50, 100, 200};
  static u64 ways[1001];
  memset(ways, 0, sizeof ways);
  ways[0] = 1;
  for (u32 k = 0; k < COUNT(kinds); k++)
    for (u32 v = kinds[k]; v <= 1000; v++) ways[v] += ways[v - kinds[k]];
  return ways[1000];
}

static OWN u32 rising(void) {
  s32 tails[COUNT(values)];
  u32 length = 0;
  for (u32 i = 0; i < COUNT(values); i++) {
    u32 low = 0, high = length;
    while (low < high) {
      u32 middle = (low + high) / 2;
      if (tails[middle] < values[i]) low = middle + 1;
      else high = middle;
    }
    tails[low] = values[i];
    if (low == length) length++;
  }
  return length;
}

/* The most even cut of words into lines of 40. */
static OWN u32 wrap(void) {
  u32 costs[121], words[120];
  for (u32 i = 0; i < 120; i++) words[i] = 1 + below(11);
  costs[120] = 0;
  for (u32 i = 120; i-- > 0;) {
    u32 width = 0;
    costs[i] = ~0u;
    for (u32 j = i; j < 120; j++) {
      width += words[j] + (j > i);
      if (width > 40) break;
      u32 room = j == 119 ? 0 : 40 - width;
      costs[i] = least(costs[i], costs[j + 1] + room * room * room);
    }
  }
  return costs[0];
}

static void prepare(void) {}

static void turn(u32 n) {
  write_text(one, LENGTH);
  memcpy(two, one, LENGTH);
  for (u32 i = 0; i < 10 + n % 50; i++) {
    u32 at = below(LENGTH - 1);
    if (below(2)) two[at] = (u8)('a' + below(26));
    else memmove(two + at, two + at + 1, LENGTH - at - 1);
  }
  for (u32 i = 0; i < COUNT(values); i++) values[i] = (s32)random_() >> 16;
  note(edit_distance());
  note(common());
  note(knapsack());
  note(order_of_products());
  note(coins());
  note(rising());
  note(wrap());
}
