/* Streams of bits: Elias, Golomb and Fibonacci codes, ranks in a vector of bits, Hamming codes. */
#include "yard.h"

#define NUMBERS 1500
#define BITS 16384

static u32 numbers[NUMBERS];
static u8 stream[32768];
static u64 vector[BITS / 64];
static u16 ranks[BITS / 64 + 1];
static u32 place;

static void put_bit(u32 bit) {
  u8 mask = (u8)(128 >> (place & 7));
  if (bit) stream[place >> 3] |= mask;
  else stream[place >> 3] &= (u8)~mask;
  place++;
}
static u32 get_bit(void) {
  u32 bit = stream[place >> 3] >> (7 - (place & 7)) & 1;
  place++;
  return bit;
}
static void put_bits(u32 v, u32 n) {
  while (n--) put_bit(v >> n & 1);
}
static u32 get_bits(u32 n) {
  u32 v = 0;
  while (n--) v = v << 1 | get_bit();
  return v;
}
static u32 width_of(u32 v) {
  u32 n = 0;
  while (v >>= 1) n++;
  return n;
}

static void put_delta(u32 v) {
  u32 width = width_of(v), length = width_of(width + 1);
  put_bits(0, length);
  put_bits(width + 1, length + 1);
  put_bits(v, width);
}
static u32 get_delta(void) {
  u32 length = 0;
  while (!get_bit()) length++;
  u32 width = ((1u << length) | get_bits(length)) - 1;
  return 1u << width | get_bits(width);
}
static void put_rice(u32 v, u32 k) {
  for (u32 q = v >> k; q; q--) put_bit(1);
  put_bit(0);
  put_bits(v & ((1u << k) - 1), k);
}
static u32 get_rice(u32 k) {
  u32 q = 0;
  while (get_bit()) q++;
  return q << k | get_bits(k);
}

static u32 fibonacci[40];
static void put_fibonacci(u32 v) {
  u32 top = 0;
  u64 code = 0;
  while (fibonacci[top + 1] <= v) top++;
  for (u32 i = top + 1; i-- > 0;)
    if (fibonacci[i] <= v) {
      v -= fibonacci[i];
      code |= 1ull << i;
    }
  for (u32 i = 0; i <= top; i++) put_bit((u32)(code >> i) & 1);
  put_bit(1);
}
static u32 get_fibonacci(void) {
  u32 v = 0, before = 0;
  for (u32 i = 0;; i++) {
    u32 bit = get_bit();
    if (bit && before) return v;
    if (bit) v += fibonacci[i];
    before = bit;
  }
}

static u32 ones(u64 v) {
  v -= v >> 1 & 0x5555555555555555ull;
  v = (v & 0x3333333333333333ull) + (v >> 2 & 0x3333333333333333ull);
  v = (v + (v >> 4)) & 0x0f0f0f0f0f0f0f0full;
  return (u32)(v * 0x0101010101010101ull >> 56);
}
static u32 rank(u32 at) { return ranks[at >> 6] + (at & 63 ? ones(vector[at >> 6] << (64 - (at & 63))) : 0); }
static u32 select(u32 n) {
  u32 low = 0, high = BITS;
  while (low < high) {
    u32 middle = (low + high) / 2;
    if (rank(middle + 1) > n) high = middle;
    else low = middle + 1;
  }
  return low;
}

/* Eleven bits in fifteen; any one of them may be wrong. */
static u32 hamming(u32 data) {
  u32 word = 0, bit = 0;
  for (u32 at = 1; at < 16; at++)
    if (at & (at - 1)) word |= (data >> bit++ & 1) << at;
  for (u32 parity = 1; parity < 16; parity <<= 1) {
    u32 p = 0;
    for (u32 at = 1; at < 16; at++)
      if (at & parity) p ^= word >> at & 1;
    word |= p << parity;
  }
  return word;
}
static u32 unhamming(u32 word) {
  u32 wrong = 0, data = 0, bit = 0;
  for (u32 at = 1; at < 16; at++)
    if (word >> at & 1) wrong ^= at;
  word ^= wrong ? 1u << wrong : 0;
  for (u32 at = 1; at < 16; at++)
    if (at & (at - 1)) data |= (word >> at & 1) << bit++;
  return data;
}

static void prepare(void) {
  fibonacci[0] = 1;
  fibonacci[1] = 2;
  for (u32 i = 2; i < COUNT(fibonacci); i++) fibonacci[i] = fibonacci[i - 1] + fibonacci[i - 2];
}

static void turn(u32 n) {
  u32 wrong = 0;
  for (u32 i = 0; i < NUMBERS; i++) numbers[i] = 1 + below(1u << (2 + below(10)));
  place = 0;
  for (u32 i = 0; i < NUMBERS; i++) {
    if (i % 3 == 0) put_delta(numbers[i]);
    else if (i % 3 == 1) put_rice(numbers[i], 7);
    else put_fibonacci(numbers[i]);
  }
  note(place);
  place = 0;
  for (u32 i = 0; i < NUMBERS; i++) {
    u32 v = i % 3 == 0 ? get_delta() : i % 3 == 1 ? get_rice(7) : get_fibonacci();
    wrong += v != numbers[i];
  }
  for (u32 i = 0; i < BITS / 64; i++) {
    vector[i] = (u64)random_() << 32;
    vector[i] &= (u64)random_() << 20;
    vector[i] |= random_() >> (n & 7);
    ranks[i + 1] = (u16)(ranks[i] + ones(vector[i]));
  }
  for (u32 i = 0; i < 300; i++) {
    u32 nth = below(ranks[BITS / 64]), at = select(nth);
    wrong += rank(at) != nth || !(vector[at >> 6] >> (at & 63) & 1);
    note(at);
  }
  for (u32 i = 0; i < 200; i++) {
    u32 data = random_() & 2047;
    wrong += unhamming(hamming(data) ^ (i & 1 ? 2u << below(15) : 0)) != data;
  }
  must(wrong == 0, "codes");
}
