/*
 * Huffman coding: frequencies, tree by two smallest, canonical codes, bits written and read back.
 */
#include "lib.h"
static const char text[] = "it is the business of the future to be dangerous; and it is among the merits of science that it equips the future for its duties";
static u16 frequency[256], weights[512];
static s16 parent[512];
static u8 lengths[256], bits[200];
static u32 codes[256];
static u32 written;
static void emit(u32 code, int n) {
  while (n--) {
    if (code >> n & 1) bits[written / 8] |= (u8)(0x80 >> written % 8);
    written++;
  }
}
int main(void) {
  int nodes = 256, symbols = 0;
  for (const char *s = text; *s; s++) frequency[(u8)*s]++;
  for (int i = 0; i < 256; i++) weights[i] = frequency[i], parent[i] = -1, symbols += frequency[i] > 0;
  for (int k = 1; k < symbols; k++) {
    int least[2] = {-1, -1};
    for (int i = 0; i < nodes; i++) {
      if (!weights[i] || parent[i] >= 0) continue;
      if (least[0] < 0 || weights[i] < weights[least[0]]) least[1] = least[0], least[0] = i;
      else if (least[1] < 0 || weights[i] < weights[least[1]]) least[1] = i;
    }
    weights[nodes] = (u16)(weights[least[0]] + weights[least[1]]);
    parent[nodes] = -1;
    parent[least[0]] = parent[least[1]] = (s16)nodes++;
  }
  for (int i = 0; i < 256; i++)
    if (frequency[i])
      for (int p = parent[i]; p >= 0; p = parent[p]) lengths[i]++;
  u32 code = 0;
  for (u8 n = 1; n < 20; n++, code <<= 1)
    for (int i = 0; i < 256; i++)
      if (lengths[i] == n) codes[i] = code++;
  for (const char *s = text; *s; s++) emit(codes[(u8)*s], lengths[(u8)*s]);
  line("symbols", (u64)symbols);
  line("bits", written);
  u32 hash = 0, at = 0, wrong = 0;
  for (u32 i = 0; i < (written + 7) / 8; i++) hash = hash * 257 + bits[i];
  line("hash", hash);
  for (const char *s = text; *s; s++) {
    u32 c = 0;
    int n = 0, symbol = -1;
    while (symbol < 0 && n < 20) {
      c = c << 1 | (bits[at / 8] >> (7 - at % 8) & 1);
      at++, n++;
      for (int i = 0; i < 256; i++)
        if (lengths[i] == n && codes[i] == c) symbol = i;
    }
    wrong += symbol != *s;
  }
  line("wrong", wrong);
  flush();
  return (int)wrong;
}
