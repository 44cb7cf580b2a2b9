/* Big numbers: products by Karatsuba, division, powers modulo, a root, pi's digits, a test of primes. */
#include "yard.h"

#define LIMBS 64

static void add_at(u32 *to, const u32 *v, u32 n) {
  u64 carry = 0;
  for (u32 i = 0; i < n; i++, carry >>= 32) to[i] = (u32)(carry += (u64)to[i] + v[i]);
  for (; carry; to++, carry >>= 32) to[n] = (u32)(carry += to[n]);
}
static void subtract(u32 *from, const u32 *v, u32 n, u32 length) {
  u32 borrow = 0;
  for (u32 i = 0; i < length; i++) {
    u64 d = (u64)from[i] - (i < n ? v[i] : 0) - borrow;
    from[i] = (u32)d;
    borrow = (u32)(d >> 63);
  }
}
static int compare(const u32 *a, const u32 *b, u32 n) {
  while (n--)
    if (a[n] != b[n]) return a[n] < b[n] ? -1 : 1;
  return 0;
}

static OWN void school(u32 *to, const u32 *a, const u32 *b, u32 n) {
  memset(to, 0, 2 * n * sizeof *to);
  for (u32 i = 0; i < n; i++) {
    u64 carry = 0;
    for (u32 j = 0; j < n; j++, carry >>= 32) to[i + j] = (u32)(carry += (u64)a[i] * b[j] + to[i + j]);
    to[i + n] = (u32)carry;
  }
}

/* n is a power of two. */
static OWN void multiply(u32 *to, const u32 *a, const u32 *b, u32 n) {
  if (n <= 8) {
    school(to, a, b, n);
    return;
  }
  u32 half = n / 2, sums[2][LIMBS / 2 + 1], middle[LIMBS + 4] = {0};
  multiply(to, a, b, half);
  multiply(to + n, a + half, b + half, half);
  u32 carries[2];
  for (u32 k = 0; k < 2; k++) {
    const u32 *v = k ? b : a;
    u64 carry = 0;
    for (u32 i = 0; i < half; i++, carry >>= 32) sums[k][i] = (u32)(carry += (u64)v[i] + v[half + i]);
    carries[k] = (u32)carry;
  }
  multiply(middle, sums[0], sums[1], half);
  if (carries[0]) add_at(middle + half, sums[1], half);
  if (carries[1]) add_at(middle + half, sums[0], half);
  if (carries[0] & carries[1]) middle[n]++;
  subtract(middle, to, n, n + 1);
  subtract(middle, to + n, n, n + 1);
  add_at(to + half, middle, n + 1);
}

/* Remainder of `v` of length limbs by m of n limbs, whose top bit is set; schoolbook. */
static OWN void reduce(u32 *v, u32 length, const u32 *m, u32 n) {
  for (u32 at = length - n; at-- > 0;) {
    u32 *low = v + at;
    u64 top = (u64)low[n] << 32 | low[n - 1];
    u64 guess = top / m[n - 1];
    if (guess > 0xffffffffu) guess = 0xffffffffu;
    u64 carry = 0, borrow = 0;
    for (u32 i = 0; i < n; i++) {
      carry += guess * m[i];
      u64 d = (u64)low[i] - (u32)carry - borrow;
      low[i] = (u32)d;
      borrow = d >> 63;
      carry >>= 32;
    }
    u64 d = (u64)low[n] - carry - borrow;
    low[n] = (u32)d;
    while (d >> 63) {
      u64 back = 0;
      for (u32 i = 0; i < n; i++, back >>= 32) low[i] = (u32)(back += (u64)low[i] + m[i]);
      d += back;
      low[n] = (u32)d;
    }
  }
  if (compare(v, m, n) >= 0) subtract(v, m, n, n);
}

static OWN void power(u32 *result, const u32 *base, u32 exponent, const u32 *m, u32 n) {
  u32 wide[2 * LIMBS + 1], square[LIMBS];
  memset(result, 0, n * sizeof *result);
  result[0] = 1;
  memcpy(square, base, n * sizeof *square);
  for (; exponent; exponent >>= 1) {
    if (exponent & 1) {
      multiply(wide, result, square, n);
      wide[2 * n] = 0;
      reduce(wide, 2 * n + 1, m, n);
      memcpy(result, wide, n * sizeof *result);
    }
    multiply(wide, square, square, n);
    wide[2 * n] = 0;
    reduce(wide, 2 * n + 1, m, n);
    memcpy(square, wide, n * sizeof *square);
  }
}

/* Pi by a spigot: digits of four at a time. */
static OWN u32 pi(u32 digits) {
  u32 parts[701], carry_over = 0, hash = 0, length = digits * 7 / 2;
  for (u32 i = 0; i < length; i++) parts[i] = 2000;
  for (u32 left = length; left > 13; left -= 14) {
    u32 carry = 0;
    for (u32 i = left; i-- > 1;) {
      carry += parts[i] * 10000;
      parts[i] = carry % (2 * i - 1);
      carry = carry / (2 * i - 1) * (i - 1);
    }
    hash = hash * 10007 + carry_over + carry / 10000;
    carry_over = carry % 10000;
  }
  return hash;
}

/* Miller and Rabin on numbers of 31 bits. */
static u32 power_mod(u32 base, u32 exponent, u32 m) {
  u64 r = 1, b = base;
  for (; exponent; exponent >>= 1, b = b * b % m)
    if (exponent & 1) r = r * b % m;
  return (u32)r;
}
static OWN int is_prime(u32 n) {
  static const u32 bases[] = {2, 3, 5, 7};
  u32 odd = n - 1, twos = 0;
  while (!(odd & 1)) odd >>= 1, twos++;
  for (u32 i = 0; i < COUNT(bases); i++) {
    u64 x = power_mod(bases[i], odd, n);
    if (x == 1 || x == n - 1) continue;
    u32 k = 1;
    for (; k < twos && x != n - 1; k++) x = x * x % n;
    if (x != n - 1) return 0;
  }
  return 1;
}

static void prepare(void) {}

static void turn(u32 n) {
  u32 a[LIMBS], b[LIMBS], c[2 * LIMBS + 1], d[2 * LIMBS + 1], result[LIMBS];
  for (u32 i = 0; i < LIMBS; i++) a[i] = random_(), b[i] = random_();
  multiply(c, a, b, LIMBS);
  school(d, a, b, LIMBS);
  must(memcmp(c, d, 2 * LIMBS * sizeof *c) == 0, "products differ");
  note(c[n % LIMBS]);
  c[2 * LIMBS] = 0;
  b[LIMBS - 1] |= 1u << 31;
  reduce(c, 2 * LIMBS + 1, b, LIMBS);
  note(c[n % LIMBS]);
  b[7] |= 1u << 31;
  power(result, a, 65537 + n, b, 8);
  note(result[n % 8]);
  note(pi(100 + n % 100));
  u32 primes = 0;
  for (u32 i = 0; i < 40; i++) primes += (u32)is_prime((random_() >> 1) | 1 | 1u << 29);
  note(primes);
}
