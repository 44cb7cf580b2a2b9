/*
 * Decimal digit strings: powers of two, square root by long division, digits of e and pi with
 * integers.
 */
#include "lib.h"
#define DIGITS 60
static u8 number[DIGITS];
static void twice(void) {
  u8 carry = 0;
  for (int i = 0; i < DIGITS; i++) {
    u8 d = (u8)(number[i] * 2 + carry);
    carry = d > 9;
    number[i] = (u8)(carry ? d - 10 : d);
  }
}
static void print(void) {
  int n = DIGITS - 1;
  while (n > 0 && !number[n]) n--;
  while (n >= 0) put((char)('0' + number[n--]));
  put('\n');
}
static u64 root(u64 v) {
  u64 r = 0;
  for (u64 bit = 1ull << 62; bit; bit >>= 2) {
    if (v >= r + bit) {
      v -= r + bit;
      r = (r >> 1) + bit;
    } else r >>= 1;
  }
  return r;
}
int main(void) {
  number[0] = 1;
  for (int i = 0; i < 150; i++) twice();
  print();
  static s32 parts[100];
  for (int i = 0; i < 99; i++) parts[i] = 20000000 / 1000000 * 100;
  for (int k = 98; k > 14; k -= 14) {
    static s32 carried;
    s32 d = 0;
    for (int i = k; i > 0; i--) {
      d += parts[i] * 10000;
      parts[i] = d % (2 * i + 1);
      d /= 2 * i + 1;
      d *= i;
    }
    line("part", (u64)(s64)(carried + d / 10000));
    carried = d % 10000;
  }
  static u32 e[42];
  for (int i = 0; i < 42; i++) e[i] = 1;
  for (int digit = 0; digit < 40; digit++) {
    u32 carry = 0;
    for (int i = 41; i >= 0; i--) {
      u32 v = e[i] * 10 + carry;
      e[i] = v % (u32)(i + 2);
      carry = v / (u32)(i + 2);
    }
    put((char)('0' + carry));
  }
  put('\n');
  line("root", root(0xffffffffffffffffull));
  line("root", root(1000000007ull * 1000000007ull - 1));
  flush();
  return 5;
}
