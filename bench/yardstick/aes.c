/* AES-128: by bytes in CBC with decryption, by tables of words in counter mode, and GHASH's products. */
#include "yard.h"

#define SIZE 2048

static u8 box[256], unbox[256], keys[176], data[SIZE], back[SIZE], text[SIZE];
static u32 tables[4][256], words[44];

static u8 twice(u8 v) { return (u8)(v << 1 ^ (v & 128 ? 0x1b : 0)); }
static u8 times(u8 a, u8 b) {
  u8 product = 0;
  for (; b; b >>= 1, a = twice(a))
    if (b & 1) product ^= a;
  return product;
}
static u8 turn_left(u8 v, int n) { return (u8)(v << n | v >> (8 - n)); }
static u32 big(const u8 *p) { return (u32)p[0] << 24 | (u32)p[1] << 16 | (u32)p[2] << 8 | p[3]; }

static void make_tables(void) {
  u8 p = 1, q = 1;
  do {
    p = (u8)(p ^ twice(p));
    q ^= (u8)(q << 1);
    q ^= (u8)(q << 2);
    q ^= (u8)(q << 4);
    if (q & 128) q ^= 9;
    box[p] = (u8)(q ^ turn_left(q, 1) ^ turn_left(q, 2) ^ turn_left(q, 3) ^ turn_left(q, 4) ^ 0x63);
  } while (p != 1);
  box[0] = 0x63;
  for (u32 i = 0; i < 256; i++) {
    u8 s = box[i];
    unbox[s] = (u8)i;
    u32 w = (u32)twice(s) << 24 | (u32)s << 16 | (u32)s << 8 | (u8)(twice(s) ^ s);
    for (u32 k = 0; k < 4; k++) tables[k][i] = k ? w >> 8 * k | w << (32 - 8 * k) : w;
  }
}

static OWN void expand(const u8 *key) {
  u8 round = 1;
  memcpy(keys, key, 16);
  for (u32 i = 16; i < 176; i += 4) {
    u8 t[4] = {keys[i - 4], keys[i - 3], keys[i - 2], keys[i - 1]};
    if (i % 16 == 0) {
      u8 first = t[0];
      t[0] = (u8)(box[t[1]] ^ round);
      t[1] = box[t[2]];
      t[2] = box[t[3]];
      t[3] = box[first];
      round = twice(round);
    }
    for (u32 k = 0; k < 4; k++) keys[i + k] = keys[i + k - 16] ^ t[k];
  }
  for (u32 i = 0; i < 44; i++) words[i] = big(keys + 4 * i);
}

static void add_key(u8 *s, u32 round) {
  for (u32 i = 0; i < 16; i++) s[i] ^= keys[16 * round + i];
}

static OWN void encrypt(u8 *s) {
  u8 t[16];
  add_key(s, 0);
  for (u32 round = 1; round <= 10; round++) {
    for (u32 i = 0; i < 16; i++) t[i] = box[s[(i + 4 * (i & 3)) & 15]];
    if (round < 10)
      for (u32 c = 0; c < 16; c += 4) {
        u8 all = t[c] ^ t[c + 1] ^ t[c + 2] ^ t[c + 3];
        for (u32 k = 0; k < 4; k++) s[c + k] = (u8)(t[c + k] ^ all ^ twice((u8)(t[c + k] ^ t[c + ((k + 1) & 3)])));
      }
    else memcpy(s, t, 16);
    add_key(s, round);
  }
}

static OWN void decrypt(u8 *s) {
  u8 t[16];
  for (u32 round = 10; round > 0; round--) {
    add_key(s, round);
    if (round < 10)
      for (u32 c = 0; c < 16; c += 4) {
        u8 a = s[c], b = s[c + 1], d = s[c + 2], e = s[c + 3];
        s[c] = times(a, 14) ^ times(b, 11) ^ times(d, 13) ^ times(e, 9);
        s[c + 1] = times(a, 9) ^ times(b, 14) ^ times(d, 11) ^ times(e, 13);
        s[c + 2] = times(a, 13) ^ times(b, 9) ^ times(d, 14) ^ times(e, 11);
        s[c + 3] = times(a, 11) ^ times(b, 13) ^ times(d, 9) ^ times(e, 14);
      }
    for (u32 i = 0; i < 16; i++) t[(i + 4 * (i & 3)) & 15] = unbox[s[i]];
    memcpy(s, t, 16);
  }
  add_key(s, 0);
}

static OWN void counter_block(const u32 *in, u32 *out) {
  u32 a[4], b[4];
  for (u32 i = 0; i < 4; i++) a[i] = in[i] ^ words[i];
  for (u32 round = 1; round < 10; round++) {
    for (u32 i = 0; i < 4; i++)
      b[i] = tables[0][a[i] >> 24] ^ tables[1][a[(i + 1) & 3] >> 16 & 255] ^ tables[2][a[(i + 2) & 3] >> 8 & 255] ^
             tables[3][a[(i + 3) & 3] & 255] ^ words[4 * round + i];
    for (u32 i = 0; i < 4; i++) a[i] = b[i];
  }
  for (u32 i = 0; i < 4; i++)
    out[i] = ((u32)box[a[i] >> 24] << 24 | (u32)box[a[(i + 1) & 3] >> 16 & 255] << 16 | (u32)box[a[(i + 2) & 3] >> 8 & 255] << 8 |
              box[a[(i + 3) & 3] & 255]) ^ words[40 + i];
}

/* A product in the field of 2^128, bit by bit. */
static OWN void ghash(u64 *x, const u64 *h) {
  u64 z0 = 0, z1 = 0, v0 = h[0], v1 = h[1];
  for (int i = 0; i < 128; i++) {
    u64 bit = i < 64 ? x[0] >> (63 - i) & 1 : x[1] >> (127 - i) & 1;
    z0 ^= v0 & (0 - bit);
    z1 ^= v1 & (0 - bit);
    u64 low = v1 & 1;
    v1 = v1 >> 1 | v0 << 63;
    v0 = v0 >> 1 ^ (0xe100000000000000ull & (0 - low));
  }
  x[0] = z0;
  x[1] = z1;
}

static void prepare(void) {
  /* FIPS 197, appendix C.1. */
  u8 key[16], block[16];
  make_tables();
  for (u32 i = 0; i < 16; i++) key[i] = (u8)i, block[i] = (u8)(i * 17);
  expand(key);
  encrypt(block);
  line("aes", big(block));
  write_text(text, SIZE);
}

static void turn(u32 n) {
  u8 key[16], chain[16] = {0};
  u64 hash[2] = {n, 1}, factor[2];
  for (u32 i = 0; i < 16; i++) key[i] = (u8)random_();
  expand(key);
  for (u32 at = 0; at < SIZE; at += 16) {
    for (u32 i = 0; i < 16; i++) chain[i] ^= text[at + i];
    encrypt(chain);
    memcpy(data + at, chain, 16);
  }
  for (u32 at = 0; at < SIZE / 4; at += 16) {
    memcpy(back + at, data + at, 16);
    decrypt(back + at);
    for (u32 i = 0; i < 16; i++) back[at + i] ^= at ? data[at - 16 + i] : 0;
  }
  must(memcmp(back, text, SIZE / 4) == 0, "not restored");
  u32 counter[4] = {n, 2, 3, 0}, stream[4];
  for (u32 i = 0; i < 160; i++) {
    counter[3] = i;
    counter_block(counter, stream);
    factor[0] = (u64)stream[0] << 32 | stream[1];
    factor[1] = (u64)stream[2] << 32 | stream[3];
    if (i % 8 == 0) ghash(hash, factor);
  }
  note(hash[0] ^ hash[1]);
  note(big(data + SIZE - 16));
}
