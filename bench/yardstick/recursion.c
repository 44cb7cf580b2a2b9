/* Recursion: Ackermann, Takeuchi, Hofstadter, permutations, fractions of a sum, a puzzle of numbers. */
#include "yard.h"

static u64 calls;

static OWN u32 ackermann(u32 m, u32 n) {
  calls++;
  if (m == 0) return n + 1;
  if (n == 0) return ackermann(m - 1, 1);
  return ackermann(m - 1, ackermann(m, n - 1));
}

static OWN s32 tak(s32 x, s32 y, s32 z) {
  calls++;
  return y < x ? tak(tak(x - 1, y, z), tak(y - 1, z, x), tak(z - 1, x, y)) : z;
}

static u32 male(u32 n);
static OWN u32 female(u32 n) { return n == 0 ? 1 : n - male(female(n - 1)); }
static OWN u32 male(u32 n) { return n == 0 ? 0 : n - female(male(n - 1)); }

static u8 items[8];
static u32 hash;
static OWN void permute(u32 n) {
  if (n == 1) {
    hash = hash * 31 + items[0] + items[3] * 7u;
    return;
  }
  for (u32 i = 0; i < n; i++) {
    permute(n - 1);
    u32 other = n & 1 ? 0 : i;
    u8 held = items[other];
    items[other] = items[n - 1];
    items[n - 1] = held;
  }
}

static OWN u32 partitions(u32 n, u32 most) {
  u32 total = 0;
  if (n == 0) return 1;
  for (u32 part = most < n ? most : n; part > 0; part--) total += partitions(n - part, part);
  return total;
}

/* A puzzle of nine by nine: cells with the fewest candidates first. */
static u16 rows[9], columns[9], boxes[9];
static u8 board[81];
static u32 guesses;

static u32 ones(u32 v) {
  u32 n = 0;
  for (; v; v &= v - 1) n++;
  return n;
}
static u32 candidates(u32 at) { return 511u & ~(u32)(rows[at / 9] | columns[at % 9] | boxes[at / 27 * 3 + at % 9 / 3]); }
static void flip(u32 at, u32 bit) {
  rows[at / 9] ^= (u16)bit;
  columns[at % 9] ^= (u16)bit;
  boxes[at / 27 * 3 + at % 9 / 3] ^= (u16)bit;
}

static OWN int fill(u32 open) {
  u32 best = 10, at = 0;
  if (open == 0) return 1;
  for (u32 i = 0; i < 81 && best > 1; i++) {
    if (board[i]) continue;
    u32 n = ones(candidates(i));
    if (n < best) best = n, at = i;
  }
  for (u32 left = candidates(at); left; left &= left - 1) {
    u32 bit = left & (0 - left);
    guesses++;
    board[at] = (u8)ones(bit - 1) + 1;
    flip(at, bit);
    if (fill(open - 1)) return 1;
    flip(at, bit);
  }
  board[at] = 0;
  return 0;
}

static OWN u32 puzzle(u32 n) {
  /* A full board by a rule, its numbers exchanged; then most of it forgotten. */
  u8 names[9];
  u32 open = 0, result = 0;
  for (u32 i = 0; i < 9; i++) names[i] = (u8)i, rows[i] = columns[i] = boxes[i] = 0;
  for (u32 i = 8; i > 0; i--) {
    u32 j = below(i + 1);
    u8 held = names[i];
    names[i] = names[j];
    names[j] = held;
  }
  for (u32 at = 0; at < 81; at++) {
    u32 y = at / 9, x = at % 9, v = names[(y * 3 + y / 3 + x + n) % 9];
    if (below(100) < 66) board[at] = 0, open++;
    else board[at] = (u8)(v + 1), flip(at, 1u << v);
  }
  guesses = 0;
  must(fill(open), "no solution");
  for (u32 at = 0; at < 81; at++) result = result * 9 + board[at];
  return result;
}

static void prepare(void) {}

static void turn(u32 n) {
  for (u32 i = 0; i < 8; i++) items[i] = (u8)(i + n);
  note(ackermann(2, 20 + n % 9));
  note((u32)tak(8, 4 + (s32)(n % 2), (s32)(n % 3)));
  note(female(20 + n % 16));
  permute(6);
  note(hash);
  note(partitions(18 + n % 4, 12));
  note(puzzle(n));
  note(guesses);
  note(calls);
}
