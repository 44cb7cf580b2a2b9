/*
 * Noise and what is said of it: a twister, a generator of sums, xorshift, a shuffle; means,
 * variances, quantiles, a histogram, a walk, correlation, a simulated queue: all in integers.
 */
#include "yard.h"

#define N 624
#define SAMPLES 1500

static u32 state[N], position = N;
static u32 lagged[55], lag;
static u64 wide[2];
static s32 samples[SAMPLES];

static OWN void refill(void) {
  for (u32 i = 0; i < N; i++) {
    u32 y = (state[i] & 0x80000000u) | (state[(i + 1) % N] & 0x7fffffffu);
    state[i] = state[(i + 397) % N] ^ y >> 1 ^ (y & 1 ? 0x9908b0dfu : 0);
  }
  position = 0;
}
static u32 twister(void) {
  if (position == N) refill();
  u32 y = state[position++];
  y ^= y >> 11;
  y ^= y << 7 & 0x9d2c5680u;
  y ^= y << 15 & 0xefc60000u;
  return y ^ y >> 18;
}
static u32 sums(void) {
  u32 v = lagged[lag] += lagged[(lag + 31) % 55];
  lag = (lag + 1) % 55;
  return v;
}
static u64 plus128(void) {
  u64 a = wide[0], b = wide[1];
  wide[0] = b;
  a ^= a << 23;
  wide[1] = a ^ b ^ a >> 18 ^ b >> 5;
  return wide[1] + b;
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

static OWN void moments(void) {
  s64 total = 0, square = 0, cube = 0;
  for (u32 i = 0; i < SAMPLES; i++) total += samples[i];
  s64 mean = total / SAMPLES;
  for (u32 i = 0; i < SAMPLES; i++) {
    s64 d = samples[i] - mean;
    square += d * d;
    cube += d * d * d / 4096;
  }
  note((u64)mean);
  note(root((u64)square / SAMPLES));
  note((u64)cube);
}

static OWN s32 quantile(u32 want) {
  u32 low = 0, high = SAMPLES - 1;
  while (low < high) {
    s32 pivot = samples[low + (high - low) / 2];
    u32 i = low, j = high;
    for (;;) {
      while (samples[i] < pivot) i++;
      while (samples[j] > pivot) j--;
      if (i >= j) break;
      s32 held = samples[i];
      samples[i++] = samples[j];
      samples[j--] = held;
    }
    if (want <= j) high = j;
    else low = j + 1;
  }
  return samples[want];
}

static OWN u32 chi_square(u32 kind) {
  u32 counts[64] = {0}, result = 0;
  for (u32 i = 0; i < 3200; i++) counts[(kind == 0 ? twister() : kind == 1 ? sums() : (u32)plus128()) >> 26]++;
  for (u32 i = 0; i < 64; i++) result += (counts[i] - 50) * (counts[i] - 50);
  return result;
}

static OWN void shuffle(u8 *cards) {
  for (u32 i = 51; i > 0; i--) {
    u32 j = (u32)((u64)twister() * (i + 1) >> 32);
    u8 held = cards[i];
    cards[i] = cards[j];
    cards[j] = held;
  }
}
/* Hands of five: how many have a pair, three alike, a flush. */
static OWN u32 hands(void) {
  u8 cards[52];
  u32 score = 0;
  for (u32 i = 0; i < 52; i++) cards[i] = (u8)i;
  for (u32 deal = 0; deal < 12; deal++) {
    shuffle(cards);
    for (u32 hand = 0; hand < 50; hand += 5) {
      u8 ranks[13] = {0}, suits[4] = {0};
      for (u32 k = 0; k < 5; k++) ranks[cards[hand + k] % 13]++, suits[cards[hand + k] / 13]++;
      u32 most = 0;
      for (u32 r = 0; r < 13; r++) most = ranks[r] > most ? ranks[r] : most;
      for (u32 s = 0; s < 4; s++) score += suits[s] == 5 ? 1000 : 0;
      score += most * most;
    }
  }
  return score;
}

/* One counter, people who come and go; how long they waited. */
static OWN u64 queue(void) {
  u64 clock = 0, free_at = 0, waited = 0;
  u32 longest = 0;
  for (u32 i = 0; i < 600; i++) {
    clock += (plus128() >> 56) + 1;
    if (free_at < clock) free_at = clock;
    u64 wait = free_at - clock;
    waited += wait;
    if (wait > longest) longest = (u32)wait;
    free_at += (plus128() >> 57) + (twister() & 63);
  }
  return waited << 20 | longest;
}

static void prepare(void) {
  state[0] = 5489;
  for (u32 i = 1; i < N; i++) state[i] = 1812433253u * (state[i - 1] ^ state[i - 1] >> 30) + i;
  /* The first number of the twister's reference seed. */
  line("twister", twister());
  for (u32 i = 0; i < 55; i++) lagged[i] = twister();
  wide[0] = twister();
  wide[1] = twister();
}

static void turn(u32 n) {
  for (u32 i = 0; i < SAMPLES; i++) {
    s32 v = 0;
    for (u32 k = 0; k < 4; k++) v += (s32)(sums() >> 20) - 2048;
    samples[i] = v;
  }
  moments();
  note((u32)quantile(SAMPLES / 2));
  note((u32)quantile(SAMPLES * 9 / 10));
  note(chi_square(n % 3));
  note(hands());
  note(queue());
}
