/* Loops whose speed `npm run bench` measures in the emulator and under qemu-user: -DSIEVE, -DCRC or -DQUICKSORT chooses. */
#include "../test/programs/lib.h"

#if defined(SIEVE)
static u8 composite[1 << 20];
static u64 work(void) {
  u64 primes = 0;
  for (int round = 0; round < 12; round++) {
    for (u32 i = 0; i < sizeof composite; i++) composite[i] = 0;
    for (u32 i = 2; i < sizeof composite; i++) {
      if (composite[i]) continue;
      primes++;
      for (u32 j = 2 * i; j < sizeof composite; j += i) composite[j] = 1;
    }
  }
  return primes;
}
#elif defined(CRC)
static u32 table[256];
static u8 data[1 << 16];
static u64 work(void) {
  for (u32 i = 0; i < 256; i++) {
    u32 c = i;
    for (int k = 0; k < 8; k++) c = c & 1 ? 0xedb88320 ^ (c >> 1) : c >> 1;
    table[i] = c;
  }
  for (u32 i = 0; i < sizeof data; i++) data[i] = (u8)(i * 7 + (i >> 8));
  u32 crc = ~0u;
  for (int round = 0; round < 500; round++)
    for (u32 i = 0; i < sizeof data; i++) crc = table[(crc ^ data[i]) & 255] ^ (crc >> 8);
  return crc;
}
#else
static u32 values[1 << 17];
static void sort(int low, int high) {
  while (low < high) {
    u32 pivot = values[(low + high) / 2];
    int i = low, j = high;
    while (i <= j) {
      while (values[i] < pivot) i++;
      while (values[j] > pivot) j--;
      if (i <= j) {
        u32 t = values[i];
        values[i++] = values[j];
        values[j--] = t;
      }
    }
    if (j - low < high - i) {
      sort(low, j);
      low = i;
    } else {
      sort(i, high);
      high = j;
    }
  }
}
static u64 work(void) {
  u64 sum = 0;
  for (int round = 0; round < 10; round++) {
    u32 seed = 12345 + (u32)round;
    for (u32 i = 0; i < sizeof values / 4; i++) values[i] = seed = seed * 1664525 + 1013904223;
    sort(0, (int)(sizeof values / 4) - 1);
    sum += values[1000];
  }
  return sum;
}
#endif

int main(void) {
  line("result", work());
  flush();
  return 0;
}
