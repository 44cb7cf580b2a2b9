/* Grids: the game of life on bytes and on bits, sand that falls, floods of colour, a maze. */
#include "yard.h"

#define SIDE 64

static u8 cells[SIDE][SIDE], next[SIDE][SIDE], colours[SIDE][SIDE];
static u64 rows[SIDE], fresh[SIDE];
static u16 queue[SIDE * SIDE];

static OWN void step_bytes(void) {
  for (u32 y = 0; y < SIDE; y++)
    for (u32 x = 0; x < SIDE; x++) {
      u32 up = (y + SIDE - 1) % SIDE, down = (y + 1) % SIDE, left = (x + SIDE - 1) % SIDE, right = (x + 1) % SIDE;
      u32 n = cells[up][left] + cells[up][x] + cells[up][right] + cells[y][left] + cells[y][right] + cells[down][left] +
              cells[down][x] + cells[down][right];
      next[y][x] = n == 3 || (n == 2 && cells[y][x]);
    }
  memcpy(cells, next, sizeof cells);
}

static u64 left_of(u64 v) { return v << 1 | v >> 63; }
static u64 right_of(u64 v) { return v >> 1 | v << 63; }

/* Sums of eight neighbours as bits of ones, twos and fours, for 64 cells together. */
static OWN void step_bits(void) {
  for (u32 y = 0; y < SIDE; y++) {
    u64 around[8], ones = 0, twos = 0, fours = 0;
    u64 up = rows[(y + SIDE - 1) % SIDE], here = rows[y], down = rows[(y + 1) % SIDE];
    around[0] = left_of(up), around[1] = up, around[2] = right_of(up), around[3] = left_of(here);
    around[4] = right_of(here), around[5] = left_of(down), around[6] = down, around[7] = right_of(down);
    for (u32 i = 0; i < 8; i++) {
      u64 carry = ones & around[i];
      ones ^= around[i];
      u64 more = twos & carry;
      twos ^= carry;
      fours |= more;
    }
    fresh[y] = twos & ~fours & (ones | here);
  }
  memcpy(rows, fresh, sizeof rows);
}

static OWN u32 flood(u32 start, u8 colour) {
  u32 first = 0, last = 0;
  u8 *flat = &colours[0][0];
  u8 old = flat[start];
  if (old == colour) return 0;
  flat[start] = colour;
  queue[last++] = (u16)start;
  while (first < last) {
    u32 at = queue[first++], x = at % SIDE, y = at / SIDE;
    const u32 around[4] = {x ? at - 1 : at, x < SIDE - 1 ? at + 1 : at, y ? at - SIDE : at, y < SIDE - 1 ? at + SIDE : at};
    for (u32 k = 0; k < 4; k++)
      if (flat[around[k]] == old) {
        flat[around[k]] = colour;
        queue[last++] = (u16)around[k];
      }
  }
  return last;
}

static OWN void fall(u32 steps) {
  for (u32 s = 0; s < steps; s++)
    for (u32 y = SIDE - 1; y > 0; y--)
      for (u32 x = 1; x < SIDE - 1; x++) {
        if (colours[y - 1][x] != 1) continue;
        u32 aside = x + ((s + y) & 1 ? 1 : 0) - ((s + y) & 1 ? 0 : 1);
        u32 to = colours[y][x] == 0 ? x : colours[y][aside] == 0 ? aside : SIDE;
        if (to == SIDE) continue;
        colours[y][to] = 1;
        colours[y - 1][x] = 0;
      }
}

/* A maze by walking at random and turning back; its walls are ones. */
static OWN u32 maze(void) {
  u32 depth = 0, longest = 0;
  memset(next, 1, sizeof next);
  queue[depth++] = SIDE + 1;
  next[1][1] = 0;
  while (depth) {
    u32 at = queue[depth - 1], y = at / SIDE, x = at % SIDE, open[4], n = 0;
    if (x > 2 && next[y][x - 2]) open[n++] = at - 2;
    if (x < SIDE - 3 && next[y][x + 2]) open[n++] = at + 2;
    if (y > 2 && next[y - 2][x]) open[n++] = at - 2 * SIDE;
    if (y < SIDE - 3 && next[y + 2][x]) open[n++] = at + 2 * SIDE;
    if (n == 0) {
      depth--;
      continue;
    }
    u32 to = open[below(n)], between = (at + to) / 2;
    next[between / SIDE][between % SIDE] = next[to / SIDE][to % SIDE] = 0;
    queue[depth++] = (u16)to;
    if (depth > longest) longest = depth;
  }
  return longest;
}

static void prepare(void) {}

static void turn(u32 n) {
  for (u32 y = 0; y < SIDE; y++) {
    rows[y] = 0;
    for (u32 x = 0; x < SIDE; x++) {
      u32 alive = below(3) == 0;
      cells[y][x] = (u8)alive;
      rows[y] |= (u64)alive << x;
      colours[y][x] = below(10) < 4 ? 2 : below(4) == 0;
    }
  }
  for (u32 i = 0; i < 8; i++) {
    step_bytes();
    step_bits();
  }
  u32 wrong = 0, alive = 0;
  for (u32 y = 0; y < SIDE; y++)
    for (u32 x = 0; x < SIDE; x++) {
      wrong += cells[y][x] != (rows[y] >> x & 1);
      alive += cells[y][x];
    }
  must(wrong == 0, "bytes and bits differ");
  note(alive);
  fall(6);
  for (u32 i = 0; i < 12; i++) note(flood(below(SIDE * SIDE), (u8)(3 + (i + n) % 5)));
  note(maze());
}
