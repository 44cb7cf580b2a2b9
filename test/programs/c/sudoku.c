/* Sudoku by candidates in bit sets and backtracking on the cell with the fewest. */
#include "lib.h"
static const char puzzle[] = "53..7....6..195....98....6.8...6...34..8.3..17...2...6.6....28....419..5....8..79";
static u8 grid[81];
static u16 row[9], column[9], box[9];
static u32 tried;
static u16 candidates(int cell) {
  return 0x1ff & ~(row[cell / 9] | column[cell % 9] | box[cell / 27 * 3 + cell % 9 / 3]);
}
static void set(int cell, int digit, int on) {
  u16 bit = (u16)(1 << digit);
  row[cell / 9] = (u16)(on ? row[cell / 9] | bit : row[cell / 9] & ~bit);
  column[cell % 9] = (u16)(on ? column[cell % 9] | bit : column[cell % 9] & ~bit);
  u16 *b = &box[cell / 27 * 3 + cell % 9 / 3];
  *b = (u16)(on ? *b | bit : *b & ~bit);
  grid[cell] = on ? (u8)(digit + 1) : 0;
}
static int solve(void) {
  int best = -1, fewest = 10;
  tried++;
  for (int i = 0; i < 81; i++) {
    if (grid[i]) continue;
    int n = 0;
    for (u32 c = candidates(i); c; c &= c - 1) n++;
    if (n < fewest) fewest = n, best = i;
  }
  if (best < 0) return 1;
  for (u32 c = candidates(best); c; c &= c - 1) {
    int digit = __builtin_ctz(c);
    set(best, digit, 1);
    if (solve()) return 1;
    set(best, digit, 0);
  }
  return 0;
}
static void clear(void) {
  for (int i = 0; i < 81; i++)
    if (grid[i]) set(i, grid[i] - 1, 0);
}
int main(void) {
  for (int i = 0; i < 81; i++)
    if (puzzle[i] != '.') set(i, puzzle[i] - '1', 1);
  line("solved", (u64)solve());
  line("tried", tried);
  for (int i = 0; i < 81; i++) {
    put((char)('0' + grid[i]));
    if (i % 9 == 8) put('\n');
  }
  clear();
  for (int i = 0; i < 9; i++) set(i * 9 + i, (i * 4 + 1) % 9, 1);
  line("solved", (u64)solve());
  line("tried", tried);
  u32 hash = 0;
  for (int i = 0; i < 81; i++) hash = hash * 11 + grid[i];
  line("hash", hash);
  flush();
  return grid[80];
}
