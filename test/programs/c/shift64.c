/*
 * Shifts and rotates of 8 to 64 bits by variable amounts, also across the halves on 32-bit targets;
 * masks; sign extension.
 */
#include "lib.h"
static __attribute__((noinline)) u64 left(u64 v, int n) { return v << n; }
static __attribute__((noinline)) u64 right(u64 v, int n) { return v >> n; }
static __attribute__((noinline)) s64 arithmetic(s64 v, int n) { return v >> n; }
static __attribute__((noinline)) u64 rotate(u64 v, int n) { return v << (n & 63) | v >> (-n & 63); }
static __attribute__((noinline)) u32 rotate32(u32 v, int n) { return v << (n & 31) | v >> (-n & 31); }
static __attribute__((noinline)) u16 rotate16(u16 v, int n) { return (u16)(v << (n & 15) | v >> (-n & 15)); }
static __attribute__((noinline)) u64 extract(u64 v, int at, int n) { return v >> at & ((n == 64 ? 0 : 1ull << n) - 1); }
static __attribute__((noinline)) s64 extend(u64 v, int n) { return (s64)(v << (64 - n)) >> (64 - n); }
int main(void) {
  static const u64 values[] = {1, 0x8000000000000000ull, 0xffffffff00000000ull, 0x00000000ffffffffull, 0x123456789abcdef0ull, 0xfedcba9876543210ull};
  for (int i = 0; i < 6; i++) {
    u64 v = values[i], sum = 0;
    for (int n = 0; n < 64; n++) {
      sum = sum * 5 + left(v, n) + right(v, n) * 3;
      sum ^= (u64)arithmetic((s64)v, n) + rotate(v, n);
      sum += rotate32((u32)v, n) + rotate16((u16)(v >> 9), n);
      sum ^= extract(v, n, 64 - n) ^ (u64)extend(v, n + 1);
      sum += (u32)v >> (n & 31) ^ (u32)((s32)(v >> 32) >> (n & 31)) ^ (u32)v << (n & 31);
    }
    line("sum", sum);
    line("const", (v << 33 ^ v >> 31) + (u64)((s64)v >> 32) + (v << 32) + (v >> 63) + (u64)((s64)v >> 63) + (v & 0xffffffff0000ull));
  }
  flush();
  return 9;
}
