/*
 * Sieves by bytes, by bits of odd numbers, linear with least factors; Miller-Rabin; factoring by
 * Pollard's rho.
 */
#include "lib.h"
#define LIMIT 3000
static u8 composite[LIMIT];
static u32 bits[LIMIT / 64 + 1];
static u16 least[LIMIT], primes[500];
static u64 multiply(u64 a, u64 b, u64 m) {
  u64 r = 0;
  for (a %= m; b; b >>= 1) {
    if (b & 1) r = r >= m - a ? r - (m - a) : r + a;
    a = a >= m - a ? a - (m - a) : a + a;
  }
  return r;
}
static u64 power(u64 a, u64 e, u64 m) {
  u64 r = 1;
  for (; e; e >>= 1, a = multiply(a, a, m))
    if (e & 1) r = multiply(r, a, m);
  return r;
}
static int is_prime(u64 n) {
  if (n < 4 || !(n & 1)) return n == 2 || n == 3;
  int shift = __builtin_ctzll(n - 1);
  for (u32 a = 2; a < 12; a++) {
    if (a % n == 0) continue;
    u64 x = power(a, (n - 1) >> shift, n);
    int i = 0;
    if (x == 1) continue;
    for (; i < shift && x != n - 1; i++) x = multiply(x, x, n);
    if (i == shift) return 0;
  }
  return 1;
}
static u64 gcd(u64 a, u64 b) {
  while (b) {
    u64 t = a % b;
    a = b;
    b = t;
  }
  return a;
}
static u32 rho(u32 n) {
  for (u32 c = 1;; c++) {
    u64 x = 2, y = 2, d = 1;
    while (d == 1) {
      x = (x * x + c) % n;
      y = (y * y + c) % n;
      y = (y * y + c) % n;
      d = gcd(x > y ? x - y : y - x, n);
    }
    if (d != n) return (u32)d;
  }
}
int main(void) {
  int count = 0, odd = 1, wrong = 0;
  for (int i = 2; i < LIMIT; i++)
    if (!composite[i])
      for (int j = i * i; j < LIMIT; j += i) composite[j] = 1;
  for (u32 i = 3; i < LIMIT; i += 2) {
    if (bits[i / 64] >> (i / 2 % 32) & 1) continue;
    odd++;
    for (u32 j = i * i; j < LIMIT; j += 2 * i) bits[j / 64] |= 1u << (j / 2 % 32);
  }
  for (u16 i = 2; i < LIMIT; i++) {
    if (!least[i]) least[i] = i, primes[count++] = i;
    for (int k = 0; k < count && primes[k] <= least[i] && i * primes[k] < LIMIT; k++) least[i * primes[k]] = primes[k];
    wrong += (least[i] == i) == composite[i];
  }
  line("count", (u64)count);
  line("odd", (u64)odd);
  line("wrong", (u64)wrong);
  line("big", (u64)(is_prime(0x1fffffffffffffffull) << 2 | is_prime(18446744073709551557ull) << 1 | is_prime(3215031751ull)));
  line("rho", rho(65521u * 65519u) + (u64)rho(8051) * 3 + rho(10403u) * 7ull);
  flush();
  return wrong;
}
