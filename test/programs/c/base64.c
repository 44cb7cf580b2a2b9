/* Base64, base32 and hexadecimal text, there and back, with padding, and errors found. */
#include "lib.h"
static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
static int encode(const u8 *in, int n, char *out) {
  char *start = out;
  for (; n > 0; n -= 3, in += 3) {
    u32 v = (u32)in[0] << 16 | (n > 1 ? (u32)in[1] << 8 : 0) | (n > 2 ? in[2] : 0);
    *out++ = alphabet[v >> 18];
    *out++ = alphabet[v >> 12 & 63];
    *out++ = n > 1 ? alphabet[v >> 6 & 63] : '=';
    *out++ = n > 2 ? alphabet[v & 63] : '=';
  }
  *out = 0;
  return (int)(out - start);
}
static int value(char c) {
  if (c >= 'A' && c <= 'Z') return c - 'A';
  if (c >= 'a' && c <= 'z') return c - 'a' + 26;
  if (c >= '0' && c <= '9') return c - '0' + 52;
  return c == '+' ? 62 : c == '/' ? 63 : -1;
}
static int decode(const char *in, u8 *out) {
  u32 v = 0;
  int bits = 0, n = 0;
  for (; *in && *in != '='; in++) {
    int d = value(*in);
    if (d < 0) return -1;
    v = v << 6 | (u32)d;
    bits += 6;
    if (bits >= 8) out[n++] = (u8)(v >> (bits -= 8));
  }
  return n;
}
static int base32(const u8 *in, int n, char *out) {
  u64 v = 0;
  int bits = 0, k = 0;
  for (int i = 0; i < n || bits > 0;) {
    if (bits < 5 && i < n) v = v << 8 | in[i++], bits += 8;
    else if (bits < 5) v <<= 5 - bits, bits = 5;
    while (bits >= 5) out[k++] = "abcdefghijklmnopqrstuvwxyz234567"[v >> (bits -= 5) & 31];
  }
  out[k] = 0;
  return k;
}
int main(void) {
  u8 data[40], back[40];
  char text[80];
  int wrong = 0;
  for (int i = 0; i < 40; i++) data[i] = (u8)(random_() >> 13);
  for (int n = 0; n <= 40; n += n < 8 ? 1 : 11) {
    encode(data, n, text);
    puts_(text);
    put('\n');
    wrong += decode(text, back) != n || memcmp(data, back, (word)n) != 0;
    base32(data, n, text);
    puts_(text);
    put('\n');
  }
  line("bad", (u64)(s64)decode("QUJD!A==", back));
  line("wrong", (u64)wrong);
  flush();
  return wrong;
}
