/* CRC-8, CRC-16 (reflected and not), CRC-32C by nibbles, CRC-64 by table. */
#include "lib.h"
static u8 crc8(const u8 *p, int n) {
  u8 c = 0xff;
  while (n--) {
    c ^= *p++;
    for (int i = 0; i < 8; i++) c = (u8)(c & 0x80 ? c << 1 ^ 0x31 : c << 1);
  }
  return c;
}
static u16 ccitt(const u8 *p, int n) {
  u16 c = 0xffff;
  while (n--) {
    u8 x = (u8)(c >> 8 ^ *p++);
    x ^= x >> 4;
    c = (u16)(c << 8 ^ x << 12 ^ x << 5 ^ x);
  }
  return c;
}
static u16 modbus(const u8 *p, int n) {
  u16 c = 0xffff;
  while (n--) {
    c ^= *p++;
    for (int i = 0; i < 8; i++) c = (u16)(c & 1 ? c >> 1 ^ 0xa001 : c >> 1);
  }
  return c;
}
static u32 castagnoli(const u8 *p, int n) {
  static u32 nibbles[16];
  if (!nibbles[1])
    for (u32 i = 0; i < 16; i++) {
      u32 c = i;
      for (int j = 0; j < 4; j++) c = c >> 1 ^ (0x82f63b78u & -(c & 1));
      nibbles[i] = c;
    }
  u32 c = ~0u;
  while (n--) {
    c ^= *p++;
    c = c >> 4 ^ nibbles[c & 15];
    c = c >> 4 ^ nibbles[c & 15];
  }
  return ~c;
}
static u64 table[256];
static u64 crc64(const u8 *p, int n) {
  u64 c = 0;
  while (n--) c = table[(u8)(c >> 56) ^ *p++] ^ c << 8;
  return c;
}
int main(void) {
  static const char check[] = "123456789";
  const u8 *p = (const u8 *)check;
  for (u32 i = 0; i < 256; i++) {
    u64 c = (u64)i << 56;
    for (int j = 0; j < 8; j++) c = (s64)c < 0 ? c << 1 ^ 0x42f0e1eba9ea3693ull : c << 1;
    table[i] = c;
  }
  line("crc8", crc8(p, 9));
  line("ccitt", ccitt(p, 9));
  line("modbus", modbus(p, 9));
  line("castagnoli", castagnoli(p, 9));
  line("crc64", crc64(p, 9));
  u8 data[300];
  for (int i = 0; i < 300; i++) data[i] = (u8)random_();
  line("all", (u64)crc8(data, 300) ^ (u64)ccitt(data, 300) << 8 ^ (u64)modbus(data, 300) << 24 ^ (u64)castagnoli(data, 300) << 32);
  line("long", crc64(data, 300));
  flush();
  return crc8(data, 17) & 63;
}
