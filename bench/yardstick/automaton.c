/*
 * A state machine of 512 states, some 4,000 blocks, each with constants of its own, and a table of
 * places to jump to: much straight code, of which each part is executed now and then.
 */
#include "yard.h"

#define STATES 512
#define STEPS 12000

static u32 cells[64];
static u8 input[4096];
static u32 visits[STATES / 64];

/* One state: n is a constant, so each block is other code. */
#define STATE(n) \
  case (n): { \
    u32 c = input[at++ & 4095]; \
    if ((n) % 5 == 0) a += cells[((n) * 7) & 63] ^ c; \
    else if ((n) % 5 == 1) b = (b << ((n) % 13 + 1) | b >> (31 - (n) % 13)) + (n); \
    else if ((n) % 5 == 2) cells[((n) >> 2) & 63] = a + b * ((n) | 1); \
    else if ((n) % 5 == 3) a ^= b >> ((n) % 11 + 1), b -= c * ((n) % 97); \
    else { \
      if (a < b) a += (n) * 2654435u; \
      else b ^= a + (n); \
    } \
    if (c < 96 + (n) % 64) state = ((n) + 1) % STATES; \
    else if (c < 232) state = ((n) * 5 + 3) % STATES; \
    else state = (a ^ (n)) % STATES; \
    break; \
  }
#define STATE4(n) STATE(n) STATE((n) + 1) STATE((n) + 2) STATE((n) + 3)
#define STATE16(n) STATE4(n) STATE4((n) + 4) STATE4((n) + 8) STATE4((n) + 12)
#define STATE64(n) STATE16(n) STATE16((n) + 16) STATE16((n) + 32) STATE16((n) + 48)

struct run { u32 state, a, b, at; };

/* Eight functions of 64 states each: each returns when the next state is another's. */
typedef u32 part(struct run *r, u32 steps);
#define PART(n) \
  static OWN u32 part_##n(struct run *r, u32 steps) { \
    u32 state = r->state, a = r->a, b = r->b, at = r->at, left = steps; \
    while (left && state / 64 == n) { \
      left--; \
      switch (state) { STATE64(n * 64) default: break; } \
    } \
    r->state = state; \
    r->a = a; \
    r->b = b; \
    r->at = at; \
    return steps - left; \
  }

PART(0) PART(1) PART(2) PART(3) PART(4) PART(5) PART(6) PART(7)

static part *const parts[8] = {part_0, part_1, part_2, part_3, part_4, part_5, part_6, part_7};

static void prepare(void) {
  for (u32 i = 0; i < sizeof input; i++) input[i] = (u8)random_();
}

static void turn(u32 n) {
  struct run r = {n * 41 % STATES, n, ~n, random_()};
  u32 left = STEPS;
  while (left) {
    visits[r.state / 64]++;
    left -= parts[r.state / 64](&r, left);
  }
  note((u64)r.a << 32 | r.b);
  note(r.state);
  for (u32 i = 0; i < COUNT(cells); i += 5) note(cells[i]);
  note(visits[n % COUNT(visits)]);
}
