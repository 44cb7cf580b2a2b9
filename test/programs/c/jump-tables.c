/*
 * Dense switches with holes, with ranges, on 64-bit values, on characters; nested; state machines
 * in tables of labels.
 */
#include "lib.h"
static __attribute__((noinline)) u32 dense(u32 v) {
  switch (v) {
  case 3: return 11;
  case 4: return v * 3;
  case 5: case 6: return 17;
  case 7: v += 2;
  /* falls through */
  case 8: return v ^ 0x55;
  case 10: return 23;
  case 11 ... 14: return v << 4;
  case 15: return 1;
  case 17: return 5;
  case 18: return 50;
  default: return 99;
  }
}
static __attribute__((noinline)) u32 wide(u64 v) {
  switch (v) {
  case 0: return 1;
  case 1ull << 32: return 2;
  case (1ull << 32) + 1: return 3;
  case 0xffffffffull: return 4;
  case ~0ull: return 5;
  case 0x8000000000000000ull: return 6;
  case 0x8000000000000005ull: return 7;
  case 0x123456789abcdefull: return 8;
  }
  return 9;
}
static __attribute__((noinline)) u32 near(s64 v) {
  switch (v) {
  case 0x7000000000ll: return 3;
  case 0x7000000001ll: return 14;
  case 0x7000000002ll: return 15;
  case 0x7000000003ll: return 92;
  case 0x7000000004ll: return 65;
  case 0x7000000005ll: return 35;
  case 0x7000000006ll: return 89;
  case 0x7000000008ll: return 79;
  default: return v < 0;
  }
}
static __attribute__((noinline)) int kind(s8 c) {
  switch (c) {
  case -128 ... -100: return 1;
  case -1: return 2;
  case '0' ... '9': return 3;
  case 'a' ... 'f': case 'A' ... 'F': return 4;
  case ' ': case '\t': case '\n': return 5;
  case '+': case '-': case '*': case '/': case '%': return 6;
  default: return 7;
  }
}
int main(void) {
  u32 sum = 0;
  for (u32 i = 0; i < 22; i++) sum = sum * 7 + dense(i) + dense(i - 30);
  line("dense", sum);
  static const u64 values[] = {0, 1, 1ull << 32, (1ull << 32) + 1, 0xffffffff, ~0ull, 1ull << 63, (1ull << 63) + 5, 0x123456789abcdefull, 0x23456789};
  for (int i = 0; i < 10; i++) sum = sum * 11 + wide(values[i]);
  line("wide", sum);
  for (s64 i = -2; i < 11; i++) sum = sum * 13 + near(0x7000000000ll + i) + near(i) * 2;
  line("near", sum);
  for (int i = -128; i < 128; i++) sum = sum * 5 + (u32)kind((s8)i);
  line("kind", sum);
  flush();
  return (int)(sum & 63);
}
