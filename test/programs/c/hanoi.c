/*
 * Hanoi with real stacks, recursive and by bits; Gray codes; permutations by Heap's method;
 * subsets.
 */
#include "lib.h"
#define DISKS 8
static u8 pegs[3][DISKS], height[3];
static u32 moves, hash;
static void move(int from, int to) {
  u8 disk = pegs[from][--height[from]];
  if (height[to] && pegs[to][height[to] - 1] < disk) puts_("illegal\n");
  pegs[to][height[to]++] = disk;
  hash = hash * 7 + (u32)(from * 3 + to);
  moves++;
}
static void hanoi(int n, int from, int to, int via) {
  if (n == 0) return;
  hanoi(n - 1, from, via, to);
  move(from, to);
  hanoi(n - 1, via, to, from);
}
static u8 letters[6] = "abcdef";
static u32 permutations;
static void heap(int n) {
  if (n == 1) {
    permutations = permutations * 131;
    for (int i = 0; i < 6; i++) permutations ^= (u32)letters[i] << (4 * i);
    return;
  }
  for (int i = 0; i < n; i++) {
    heap(n - 1);
    int k = n & 1 ? 0 : i;
    u8 t = letters[k];
    letters[k] = letters[n - 1];
    letters[n - 1] = t;
  }
}
static u32 subsets(const u8 *v, int n, s32 rest) {
  if (rest == 0) return 1;
  if (n == 0 || rest < 0) return 0;
  return subsets(v + 1, n - 1, rest - *v) + subsets(v + 1, n - 1, rest);
}
int main(void) {
  for (u8 i = 0; i < DISKS; i++) pegs[0][i] = (u8)(DISKS - i);
  height[0] = DISKS;
  hanoi(DISKS, 0, 2, 1);
  line("moves", moves);
  line("hash", hash);
  for (u32 m = 1; m < 1u << DISKS; m++) {
    int from = (int)((m & (m - 1)) % 3), to = (int)(((m | (m - 1)) + 1) % 3);
    move(2 - from == 2 ? 2 : from == 1 ? 1 : 0, 2 - to == 2 ? 2 : to == 1 ? 1 : 0);
  }
  line("tops", (u64)height[0] << 16 | (u64)height[1] << 8 | height[2]);
  u32 gray = 0, changes = 0;
  for (u32 i = 1; i < 500; i++) {
    u32 next = i ^ i >> 1;
    changes += ((gray ^ next) & (gray ^ next) - 1) != 0;
    gray = next;
  }
  line("changes", changes);
  heap(6);
  line("permutations", permutations);
  static const u8 coins[12] = {1, 2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31};
  line("subsets", subsets(coins, 12, 60));
  flush();
  return 0;
}
