/* Puzzles by trying: queens with bits and with arrays, a knight's tour, exact cover by dancing links. */
#include "yard.h"

static u32 count_queens(u32 all, u32 columns, u32 left, u32 right) {
  if (columns == all) return 1;
  u32 count = 0;
  for (u32 open = all & ~(columns | left | right); open; open &= open - 1) {
    u32 bit = open & (0 - open);
    count += count_queens(all, columns | bit, (left | bit) << 1, (right | bit) >> 1);
  }
  return count;
}

static s8 rows[16];
static OWN u32 place_queens(int n, int column) {
  if (column == n) return 1;
  u32 count = 0;
  for (int row = 0; row < n; row++) {
    int clash = 0;
    for (int before = 0; before < column && !clash; before++) {
      int apart = rows[before] - row;
      clash = apart == 0 || apart == column - before || apart == before - column;
    }
    if (clash) continue;
    rows[column] = (s8)row;
    count += place_queens(n, column + 1);
  }
  return count;
}

static u8 tour[64];
static int ways_out(int x, int y);
static const s8 leaps[8][2] = {{1, 2}, {2, 1}, {2, -1}, {1, -2}, {-1, -2}, {-2, -1}, {-2, 1}, {-1, 2}};
static int open_square(int x, int y) { return x >= 0 && x < 8 && y >= 0 && y < 8 && tour[y * 8 + x] == 0; }
static int ways_out(int x, int y) {
  int n = 0;
  for (int k = 0; k < 8; k++) n += open_square(x + leaps[k][0], y + leaps[k][1]);
  return n;
}

/* Warnsdorff's rule, ties by a rotating choice; how far it came. */
static OWN u32 walk(u32 start, u32 turn_by) {
  int x = (int)(start % 8), y = (int)(start / 8);
  memset(tour, 0, sizeof tour);
  u32 step = 1;
  tour[start] = 1;
  for (;;) {
    int best = 9, bx = 0, by = 0;
    for (u32 i = 0; i < 8; i++) {
      u32 k = (i + turn_by) & 7;
      int nx = x + leaps[k][0], ny = y + leaps[k][1];
      if (!open_square(nx, ny)) continue;
      int out = ways_out(nx, ny);
      if (out < best) best = out, bx = nx, by = ny;
    }
    if (best == 9) return step;
    x = bx;
    y = by;
    tour[y * 8 + x] = (u8)++step;
  }
}

/* Dancing links: columns 1 to 36 and rows of dominoes, crosses and bars on a board of 6 by 6. */
struct cell { u16 left, right, up, down, column; };
static struct cell cells[1024];
static u16 sizes[40], used;
static u32 tried;

static void cover(u32 c) {
  cells[cells[c].right].left = cells[c].left;
  cells[cells[c].left].right = cells[c].right;
  for (u32 i = cells[c].down; i != c; i = cells[i].down)
    for (u32 j = cells[i].right; j != i; j = cells[j].right) {
      cells[cells[j].down].up = cells[j].up;
      cells[cells[j].up].down = cells[j].down;
      sizes[cells[j].column]--;
    }
}
static void uncover(u32 c) {
  for (u32 i = cells[c].up; i != c; i = cells[i].up)
    for (u32 j = cells[i].left; j != i; j = cells[j].left) {
      sizes[cells[j].column]++;
      cells[cells[j].down].up = cells[cells[j].up].down = (u16)j;
    }
  cells[cells[c].right].left = cells[cells[c].left].right = (u16)c;
}

static OWN u32 dance(u32 most) {
  if (cells[0].right == 0) return 1;
  u32 c = cells[0].right, found = 0;
  for (u32 j = c; j; j = cells[j].right)
    if (sizes[j] < sizes[c]) c = j;
  cover(c);
  for (u32 r = cells[c].down; r != c && found < most; r = cells[r].down) {
    tried++;
    for (u32 j = cells[r].right; j != r; j = cells[j].right) cover(cells[j].column);
    found += dance(most - found);
    for (u32 j = cells[r].left; j != r; j = cells[j].left) uncover(cells[j].column);
  }
  uncover(c);
  return found;
}

static void add_row(const u32 *columns, u32 n) {
  u32 first = used;
  for (u32 i = 0; i < n; i++) {
    u32 c = columns[i], at = used++;
    cells[at] = (struct cell){(u16)(i ? at - 1 : first + n - 1), (u16)(i + 1 < n ? at + 1 : first), cells[c].up, (u16)c, (u16)c};
    cells[cells[c].up].down = (u16)at;
    cells[c].up = (u16)at;
    sizes[c]++;
  }
}

static OWN void make_cover(void) {
  for (u32 c = 0; c <= 36; c++) cells[c] = (struct cell){(u16)(c ? c - 1 : 36), (u16)(c < 36 ? c + 1 : 0), (u16)c, (u16)c, (u16)c}, sizes[c] = 0;
  used = 37;
  for (u32 y = 0; y < 6; y++)
    for (u32 x = 0; x < 6; x++) {
      u32 at = 1 + y * 6 + x, across[3] = {at, at + 1, at + 2}, down[3] = {at, at + 6, at + 12}, bend[3] = {at, at + 1, at + 6};
      if (x < 4) add_row(across, 3);
      if (y < 4) add_row(down, 3);
      if (x < 5 && y < 5 && below(2)) add_row(bend, 3);
    }
}

static void prepare(void) {}

static void turn(u32 n) {
  u32 size = 6 + n % 3;
  u32 fast = count_queens((1u << size) - 1, 0, 0, 0);
  note(fast);
  must(size > 7 || place_queens((int)size, 0) == fast, "queens");
  note(walk(n * 11 % 64, n));
  make_cover();
  tried = 0;
  note(dance(60));
  note(tried);
}
