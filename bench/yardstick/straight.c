/*
 * 448 functions of straight code, called in an order that changes: no loop is hot, many functions
 * are warm.
 */
#include "yard.h"

#define FUNCTIONS 448
#define CALLS 3000

static u32 memory[256];
typedef u32 step_fn(u32 a, u32 b);

#define F(n) \
  static OWN u32 f##n(u32 a, u32 b) { \
    u32 x = memory[(a + 0x##n) & 255], y = b * (0x##n * 2 + 1); \
    if (0x##n % 3 == 0) x = (x << 5 | x >> 27) + y; \
    else if (0x##n % 3 == 1) x ^= y >> (0x##n % 7 + 2); \
    else x = x * 33 + (y & 0xffff); \
    if (x & 1u << 0x##n % 19) y += x + 0x##n; \
    else y ^= x * 5; \
    memory[(b ^ 0x##n) & 255] = x + y; \
    if (0x##n % 8 == 7 && (y & 64)) x = x > y ? x - y : y - x; \
    return x + (y >> 3); \
  }
#define F16(n) \
  F(n##0) F(n##1) F(n##2) F(n##3) F(n##4) F(n##5) F(n##6) F(n##7) \
  F(n##8) F(n##9) F(n##a) F(n##b) F(n##c) F(n##d) F(n##e) F(n##f)
#define F256(n) \
  F16(n##0) F16(n##1) F16(n##2) F16(n##3) F16(n##4) F16(n##5) F16(n##6) F16(n##7) \
  F16(n##8) F16(n##9) F16(n##a) F16(n##b) F16(n##c) F16(n##d) F16(n##e) F16(n##f)
F256(1)
F16(20) F16(21) F16(22) F16(23) F16(24) F16(25) F16(26) F16(27) F16(28) F16(29) F16(2a) F16(2b)

#define R(n) f##n,
#define R16(n) \
  R(n##0) R(n##1) R(n##2) R(n##3) R(n##4) R(n##5) R(n##6) R(n##7) \
  R(n##8) R(n##9) R(n##a) R(n##b) R(n##c) R(n##d) R(n##e) R(n##f)
#define R256(n) \
  R16(n##0) R16(n##1) R16(n##2) R16(n##3) R16(n##4) R16(n##5) R16(n##6) R16(n##7) \
  R16(n##8) R16(n##9) R16(n##a) R16(n##b) R16(n##c) R16(n##d) R16(n##e) R16(n##f)
static step_fn *const all[FUNCTIONS] = {
  R256(1)
  R16(20) R16(21) R16(22) R16(23) R16(24) R16(25) R16(26) R16(27) R16(28) R16(29) R16(2a) R16(2b)
};

/* Long rows of direct calls: a function whose code is calls and little else. */
#define C(n) a = f##n(a, b); b += a;
#define C16(n) \
  C(n##0) C(n##1) C(n##2) C(n##3) C(n##4) C(n##5) C(n##6) C(n##7) \
  C(n##8) C(n##9) C(n##a) C(n##b) C(n##c) C(n##d) C(n##e) C(n##f)
#define C256(n) \
  C16(n##0) C16(n##1) C16(n##2) C16(n##3) C16(n##4) C16(n##5) C16(n##6) C16(n##7) \
  C16(n##8) C16(n##9) C16(n##a) C16(n##b) C16(n##c) C16(n##d) C16(n##e) C16(n##f)
static OWN u32 row_one(u32 a, u32 b) { C256(1) return a ^ b; }
static OWN u32 row_two(u32 a, u32 b) { C16(20) C16(21) C16(22) C16(23) C16(24) C16(25) C16(26) C16(27) return a ^ b; }

/* Waves of one kind of work after the other, as phases of a large program. */
static OWN u32 wave(u32 from, u32 count, u32 a) {
  u32 b = from;
  for (u32 i = 0; i < count; i++) {
    u32 at = (from + (i * 7 + (i >> 3)) % 96) % FUNCTIONS;
    a = all[at](a, b);
    b = b * 69069 + a;
  }
  return a;
}

static void prepare(void) {
  for (u32 i = 0; i < COUNT(memory); i++) memory[i] = random_();
}

static void turn(u32 n) {
  u32 a = n;
  for (u32 i = 0; i < 6; i++) a = wave((n * 13 + i * 211) % FUNCTIONS, CALLS / 24, a);
  for (u32 i = 0; i < CALLS / 6; i++) {
    u32 at = below(FUNCTIONS);
    a = all[at](a, at);
  }
  a = row_one(a, n);
  a = row_two(a, n);
  note(a);
  for (u32 i = 0; i < COUNT(memory); i += 31) note(memory[i]);
}
