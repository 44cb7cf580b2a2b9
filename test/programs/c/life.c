/* The game of life by cells on a torus and by whole rows of bits; both must agree. */
#include "lib.h"
#define W 64
#define H 24
static u8 cells[2][H][W];
static u64 rows[2][H];
static void by_cells(int from) {
  for (int y = 0; y < H; y++)
    for (int x = 0; x < W; x++) {
      int n = 0;
      for (int dy = -1; dy <= 1; dy++)
        for (int dx = -1; dx <= 1; dx++) n += (dx || dy) && cells[from][(y + dy + H) % H][(x + dx) & (W - 1)];
      cells[!from][y][x] = n == 3 || (n == 2 && cells[from][y][x]);
    }
}
static u64 left(u64 v) { return v << 1 | v >> 63; }
static u64 right(u64 v) { return v >> 1 | v << 63; }
static void by_rows(int from) {
  for (int y = 0; y < H; y++) {
    u64 above = rows[from][(y + H - 1) % H], middle = rows[from][y], below = rows[from][(y + 1) % H];
    u64 around[8] = {left(above), above, right(above), left(middle), right(middle), left(below), below, right(below)};
    u64 ones = 0, twos = 0, fours = 0;
    for (int i = 0; i < 8; i++) {
      u64 carry = ones & around[i];
      ones ^= around[i];
      u64 carry2 = twos & carry;
      twos ^= carry;
      fours |= carry2;
    }
    rows[!from][y] = twos & ~fours & (ones | middle);
  }
}
int main(void) {
  for (int y = 0; y < H; y++)
    for (int x = 0; x < W; x++)
      if (random_() % 3 == 0) cells[0][y][x] = 1, rows[0][y] |= 1ull << x;
  u64 hash = 0;
  u32 wrong = 0;
  int at = 0;
  for (int generation = 0; generation < 6; generation++, at = !at) {
    by_cells(at);
    by_rows(at);
  }
  for (int y = 0; y < H; y++) {
    for (int x = 0; x < W; x++) wrong += cells[at][y][x] != (rows[at][y] >> x & 1);
    hash = (hash << 5 | hash >> 59) ^ rows[at][y];
  }
  line("wrong", wrong);
  line("hash", hash);
  line("row", rows[at][3]);
  flush();
  return (int)wrong;
}
