/*
 * Moves of a game like chess on bitboards: sliding, leaping and stepping pieces, check, making and
 * unmaking moves, search to a depth with alpha and beta, and a count of all leaves.
 */
#include "yard.h"

enum { PAWN, KNIGHT, BISHOP, ROOK, QUEEN, KING, NONE };
struct board { u64 men[6], sides[2]; u8 square[64]; int side; };
struct move { u8 from, to, man, taken; };

static struct board b;
static u64 knight[64], king[64], rays[8][64];
static u64 leaves, checked;

static int first_of(u64 v) {
  static const u8 table[64] = {0, 1, 48, 2, 57, 49, 28, 3, 61, 58, 50, 42, 38, 29, 17, 4, 62, 55, 59, 36, 53, 51, 43, 22, 45, 39, 33, 30, 24, 18, 12, 5,
                               63, 47, 56, 27, 60, 41, 37, 16, 54, 35, 52, 21, 44, 32, 23, 11, 46, 26, 40, 15, 34, 20, 31, 10, 25, 14, 19, 9, 13, 8, 7, 6};
  return table[(v & (0 - v)) * 0x03f79d71b4cb0a89ull >> 58];
}
static int last_of(u64 v) {
  v |= v >> 1;
  v |= v >> 2;
  v |= v >> 4;
  v |= v >> 8;
  v |= v >> 16;
  v |= v >> 32;
  return first_of(v ^ v >> 1);
}

static void make_rays(void) {
  static const s8 steps[8][2] = {{1, 0}, {0, 1}, {1, 1}, {-1, 1}, {-1, 0}, {0, -1}, {-1, -1}, {1, -1}};
  static const s8 leaps[8][2] = {{1, 2}, {2, 1}, {2, -1}, {1, -2}, {-1, -2}, {-2, -1}, {-2, 1}, {-1, 2}};
  for (int s = 0; s < 64; s++)
    for (int d = 0; d < 8; d++) {
      int x = s % 8 + steps[d][0], y = s / 8 + steps[d][1];
      if (x >= 0 && x < 8 && y >= 0 && y < 8) king[s] |= 1ull << (y * 8 + x);
      for (; x >= 0 && x < 8 && y >= 0 && y < 8; x += steps[d][0], y += steps[d][1]) rays[d][s] |= 1ull << (y * 8 + x);
      x = s % 8 + leaps[d][0], y = s / 8 + leaps[d][1];
      if (x >= 0 && x < 8 && y >= 0 && y < 8) knight[s] |= 1ull << (y * 8 + x);
    }
}

/* Directions 0 to 3 go up in number, 4 to 7 down. */
static u64 ray(int d, int s, u64 men) {
  u64 all = rays[d][s], blocked = all & men;
  if (blocked) all ^= rays[d][d < 4 ? first_of(blocked) : last_of(blocked)];
  return all;
}
static u64 straight(int s, u64 men) { return ray(0, s, men) | ray(1, s, men) | ray(4, s, men) | ray(5, s, men); }
static u64 diagonal(int s, u64 men) { return ray(2, s, men) | ray(3, s, men) | ray(6, s, men) | ray(7, s, men); }

static OWN int attacked(int s, int by) {
  u64 men = b.sides[0] | b.sides[1], theirs = b.sides[by], at = 1ull << s;
  u64 left = at & ~0x0101010101010101ull, right = at & ~0x8080808080808080ull;
  u64 pawns = by == 0 ? left >> 9 | right >> 7 : left << 7 | right << 9;
  if (pawns & theirs & b.men[PAWN]) return 1;
  if (knight[s] & theirs & b.men[KNIGHT]) return 1;
  if (king[s] & theirs & b.men[KING]) return 1;
  if (straight(s, men) & theirs & (b.men[ROOK] | b.men[QUEEN])) return 1;
  return (diagonal(s, men) & theirs & (b.men[BISHOP] | b.men[QUEEN])) != 0;
}

static u32 add(struct move *list, u32 n, int from, u64 to, int man) {
  for (; to; to &= to - 1) {
    int t = first_of(to);
    list[n++] = (struct move){(u8)from, (u8)t, (u8)man, b.square[t]};
  }
  return n;
}

static OWN u32 moves(struct move *list) {
  u64 own = b.sides[b.side], other = b.sides[!b.side], men = own | other;
  u32 n = 0;
  for (int man = PAWN; man <= KING; man++)
    for (u64 left = own & b.men[man]; left; left &= left - 1) {
      int s = first_of(left);
      u64 at = 1ull << s, to = 0;
      switch (man) {
        case PAWN: {
          u64 step = (b.side == 0 ? at << 8 : at >> 8) & ~men;
          to = step;
          if (step && (b.side == 0 ? s < 16 : s >= 48)) to |= (b.side == 0 ? step << 8 : step >> 8) & ~men;
          u64 west = at & ~0x0101010101010101ull, east = at & ~0x8080808080808080ull;
          to |= (b.side == 0 ? west << 7 | east << 9 : west >> 9 | east >> 7) & other;
          break;
        }
        case KNIGHT: to = knight[s]; break;
        case BISHOP: to = diagonal(s, men); break;
        case ROOK: to = straight(s, men); break;
        case QUEEN: to = straight(s, men) | diagonal(s, men); break;
        default: to = king[s]; break;
      }
      n = add(list, n, s, to & ~own, man);
    }
  return n;
}

static void toggle(const struct move *m, int side) {
  u64 from = 1ull << m->from, to = 1ull << m->to;
  b.men[m->man] ^= from | to;
  b.sides[side] ^= from | to;
  if (m->taken == NONE) return;
  b.men[m->taken] ^= to;
  b.sides[!side] ^= to;
}

static int make(const struct move *m) {
  int side = b.side;
  u64 own_king;
  toggle(m, side);
  b.square[m->from] = NONE;
  b.square[m->to] = m->man;
  b.side = !side;
  own_king = b.men[KING] & b.sides[side];
  return own_king && !attacked(first_of(own_king), !side);
}

static void unmake(const struct move *m) {
  b.side = !b.side;
  toggle(m, b.side);
  b.square[m->from] = m->man;
  b.square[m->to] = m->taken;
}

static OWN u64 count(u32 depth) {
  struct move list[220];
  u64 total = 0;
  if (depth == 0) return 1;
  u32 n = moves(list);
  for (u32 i = 0; i < n; i++) {
    if (make(&list[i])) total += count(depth - 1);
    else checked++;
    unmake(&list[i]);
  }
  return total;
}

static OWN s32 value(void) {
  static const s32 worth[6] = {100, 320, 330, 500, 900, 0};
  s32 total = 0;
  for (int side = 0; side < 2; side++)
    for (u64 left = b.sides[side]; left; left &= left - 1) {
      int s = first_of(left), x = s % 8, y = side ? 7 - s / 8 : s / 8;
      s32 v = worth[b.square[s]] + (x < 4 ? x : 7 - x) * 3 + (b.square[s] == PAWN ? y * y : 0);
      total += side ? -v : v;
    }
  return b.side ? -total : total;
}

static OWN s32 search(u32 depth, s32 alpha, s32 beta) {
  struct move list[220];
  leaves++;
  if (depth == 0) return value();
  u32 n = moves(list);
  for (u32 i = 0; i < n; i++) {
    /* Captures first, the best of what is left. */
    for (u32 j = i + 1; j < n; j++)
      if ((list[j].taken != NONE) > (list[i].taken != NONE)) {
        struct move held = list[i];
        list[i] = list[j];
        list[j] = held;
        break;
      }
    if (make(&list[i])) {
      s32 score = -search(depth - 1, -beta, -alpha);
      if (score > alpha) alpha = score;
    }
    unmake(&list[i]);
    if (alpha >= beta) break;
  }
  return alpha;
}

static void place(void) {
  static const u8 row[8] = {ROOK, KNIGHT, BISHOP, QUEEN, KING, BISHOP, KNIGHT, ROOK};
  memset(&b, 0, sizeof b);
  for (int s = 0; s < 64; s++) {
    int man = s / 8 == 0 || s / 8 == 7 ? row[s % 8] : s / 8 == 1 || s / 8 == 6 ? PAWN : NONE;
    b.square[s] = (u8)man;
    if (man == NONE) continue;
    b.men[man] |= 1ull << s;
    b.sides[s >= 32] |= 1ull << s;
  }
}

static void prepare(void) {
  make_rays();
  place();
  line("two", count(2));
  line("three", count(3));
}

static void turn(u32 n) {
  struct move list[220];
  if (n % 12 == 0) place();
  for (u32 tries = 0; tries < 30; tries++) {
    u32 many = moves(list);
    if (many == 0) break;
    struct move *m = &list[below(many)];
    if (make(m)) break;
    unmake(m);
  }
  leaves = checked = 0;
  note((u32)search(2, -100000, 100000));
  note(leaves);
  note(count(2));
  note(checked);
}
