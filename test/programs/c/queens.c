/* N queens by arrays, and a knight's tour by Warnsdorff's rule. */
#include "lib.h"
#define N 7
static s8 column[N];
static u8 taken[N], up[2 * N], down[2 * N];
static u32 solutions, first, last;
static void place(int row) {
  if (row == N) {
    u32 code = 0;
    for (int i = 0; i < N; i++) code = code * N + (u32)column[i];
    if (!solutions++) first = code;
    last = code;
    return;
  }
  for (s8 c = 0; c < N; c++) {
    if (taken[c] || up[row + c] || down[row - c + N]) continue;
    taken[c] = up[row + c] = down[row - c + N] = 1;
    column[row] = c;
    place(row + 1);
    taken[c] = up[row + c] = down[row - c + N] = 0;
  }
}
static const s8 steps[8][2] = {{1, 2}, {2, 1}, {2, -1}, {1, -2}, {-1, -2}, {-2, -1}, {-2, 1}, {-1, 2}};
static u8 board[8][8];
static int degree(int x, int y) {
  int n = 0;
  for (int k = 0; k < 8; k++) {
    int a = x + steps[k][0], b = y + steps[k][1];
    n += a >= 0 && a < 8 && b >= 0 && b < 8 && !board[a][b];
  }
  return n;
}
int main(void) {
  place(0);
  line("solutions", solutions);
  line("first", first);
  line("last", last);
  int x = 0, y = 0, count = 1;
  board[0][0] = 1;
  for (;;) {
    int best = 9, next = -1;
    for (int k = 0; k < 8; k++) {
      int a = x + steps[k][0], b = y + steps[k][1];
      if (a < 0 || a > 7 || b < 0 || b > 7 || board[a][b]) continue;
      int d = degree(a, b);
      if (d < best) best = d, next = k;
    }
    if (next < 0) break;
    x += steps[next][0], y += steps[next][1];
    board[x][y] = (u8)++count;
  }
  line("count", (u64)count);
  u32 hash = 0;
  for (int i = 0; i < 64; i++) hash = hash * 67 + board[i / 8][i % 8];
  line("tour", hash);
  flush();
  return (int)solutions;
}
