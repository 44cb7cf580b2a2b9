/*
 * AES-128: key schedule, encryption and decryption with the S-box computed in the field, the vector
 * of FIPS 197.
 */
#include "lib.h"
static u8 box[256], inverse[256], keys[176];
static u8 times(u8 a, u8 b) {
  u8 r = 0;
  for (; b; b >>= 1, a = (u8)(a << 1 ^ (a & 0x80 ? 0x1b : 0)))
    if (b & 1) r ^= a;
  return r;
}
static void prepare(const u8 *key) {
  u8 p = 1, q = 1;
  do {
    p = times(p, 3);
    q ^= (u8)(q << 1), q ^= (u8)(q << 2), q ^= (u8)(q << 4);
    if (q & 0x80) q ^= 9;
    u8 x = (u8)(q ^ (q << 1 | q >> 7) ^ (q << 2 | q >> 6) ^ (q << 3 | q >> 5) ^ (q << 4 | q >> 4) ^ 0x63);
    box[p] = x;
  } while (p != 1);
  box[0] = 0x63;
  for (int i = 0; i < 256; i++) inverse[box[i]] = (u8)i;
  memcpy(keys, key, 16);
  u8 constant = 1;
  for (int i = 16; i < 176; i += 4) {
    u8 t[4] = {keys[i - 4], keys[i - 3], keys[i - 2], keys[i - 1]};
    if (i % 16 == 0) {
      u8 first = t[0];
      t[0] = box[t[1]] ^ constant, t[1] = box[t[2]], t[2] = box[t[3]], t[3] = box[first];
      constant = times(constant, 2);
    }
    for (int k = 0; k < 4; k++) keys[i + k] = keys[i + k - 16] ^ t[k];
  }
}
static void add(u8 *s, int round) {
  for (int i = 0; i < 16; i++) s[i] ^= keys[16 * round + i];
}
static void substitute(u8 *s, const u8 *with, int shift) {
  u8 t[16];
  for (int i = 0; i < 16; i++) t[i] = with[s[(i + shift * 4 * (i % 4)) & 15]];
  memcpy(s, t, 16);
}
static void mix(u8 *s, u8 a, u8 b, u8 c, u8 d) {
  for (int i = 0; i < 16; i += 4) {
    u8 t[4];
    for (int k = 0; k < 4; k++) t[k] = times(s[i + k], a) ^ times(s[i + (k + 1) % 4], b) ^ times(s[i + (k + 2) % 4], c) ^ times(s[i + (k + 3) % 4], d);
    memcpy(s + i, t, 4);
  }
}
static void encrypt(u8 *s) {
  add(s, 0);
  for (int round = 1; round <= 10; round++) {
    substitute(s, box, 1);
    if (round < 10) mix(s, 2, 3, 1, 1);
    add(s, round);
  }
}
static void decrypt(u8 *s) {
  for (int round = 10; round > 0; round--) {
    add(s, round);
    if (round < 10) mix(s, 14, 11, 13, 9);
    substitute(s, inverse, -1);
  }
  add(s, 0);
}
int main(void) {
  u8 key[16], block[16];
  for (int i = 0; i < 16; i++) key[i] = (u8)i, block[i] = (u8)(i * 0x11);
  prepare(key);
  encrypt(block);
  for (int i = 0; i < 16; i++) hex(block[i]), put(' ');
  decrypt(block);
  put('\n');
  for (int i = 0; i < 16; i++) hex(block[i]), put(' ');
  put('\n');
  flush();
  return block[15] == 0xff ? 0 : 1;
}
