/*
 * Generators: Mersenne twister, xorshift128, PCG, LCGs of several widths, lagged Fibonacci, Blum
 * Blum Shub, a shuffle.
 */
#include "lib.h"
static u32 mt[624];
static int mt_at;
static u32 twister(void) {
  if (mt_at >= 624) {
    for (int i = 0; i < 624; i++) {
      u32 y = (mt[i] & 0x80000000u) | (mt[(i + 1) % 624] & 0x7fffffffu);
      mt[i] = mt[(i + 397) % 624] ^ y >> 1 ^ (y & 1 ? 0x9908b0dfu : 0);
    }
    mt_at = 0;
  }
  u32 y = mt[mt_at++];
  y ^= y >> 11;
  y ^= y << 7 & 0x9d2c5680u;
  y ^= y << 15 & 0xefc60000u;
  return y ^ y >> 18;
}
static u32 xs[4] = {123456789, 362436069, 521288629, 88675123};
static u32 xorshift(void) {
  u32 t = xs[0] ^ xs[0] << 11;
  xs[0] = xs[1], xs[1] = xs[2], xs[2] = xs[3];
  return xs[3] = xs[3] ^ xs[3] >> 19 ^ t ^ t >> 8;
}
static u64 pcg_state = 42;
static u32 pcg(void) {
  u64 s = pcg_state;
  pcg_state = s * 6364136223846793005ull + 1442695040888963407ull;
  u32 x = (u32)((s >> 18 ^ s) >> 27), r = (u32)(s >> 59);
  return x >> r | x << (-r & 31);
}
static u64 splitmix(u64 *s) {
  u64 z = *s += 0x9e3779b97f4a7c15ull;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ z >> 27) * 0x94d049bb133111ebull;
  return z ^ z >> 31;
}
static s32 minstd(s32 s) {
  s32 high = s / 127773, low = s % 127773, t = 16807 * low - 2836 * high;
  return t > 0 ? t : t + 0x7fffffff;
}
int main(void) {
  u64 seed = 7, sum = 0;
  mt[0] = 5489;
  for (u32 i = 1; i < 624; i++) mt[i] = 1812433253u * (mt[i - 1] ^ mt[i - 1] >> 30) + i;
  mt_at = 624;
  for (int i = 0; i < 700; i++) sum = sum * 3 + twister();
  line("twister", sum);
  for (int i = 0; i < 100; i++) sum = sum * 3 + xorshift();
  line("xorshift", sum);
  for (int i = 0; i < 100; i++) sum = sum * 3 + pcg();
  line("pcg", sum);
  for (int i = 0; i < 50; i++) sum ^= splitmix(&seed);
  line("splitmix", sum);
  s32 park = 1;
  for (int i = 0; i < 1000; i++) park = minstd(park);
  line("minstd", (u64)park);
  u16 lcg = 1;
  u32 bbs = 3, bits = 0;
  for (int i = 0; i < 64; i++) {
    lcg = (u16)(lcg * 25173 + 13849);
    bbs = (u32)((u64)bbs * bbs % (30011u * 30059u));
    bits = bits << 1 ^ (bbs & 1) ^ lcg;
  }
  line("bits", bits);
  u8 deck[52];
  for (u8 i = 0; i < 52; i++) deck[i] = i;
  for (u32 i = 51; i > 0; i--) {
    u32 k = (u32)((u64)pcg() * (i + 1) >> 32);
    u8 t = deck[i];
    deck[i] = deck[k];
    deck[k] = t;
  }
  for (int i = 0; i < 52; i++) sum = sum * 53 + deck[i];
  line("deck", sum);
  flush();
  return deck[0];
}
