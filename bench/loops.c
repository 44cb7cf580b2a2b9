/*
 * Loops whose speed `npm run bench` measures in the emulator and under qemu-user: -DSIEVE, -DCRC,
 * -DSHA256, -DCALLS, -DSWITCH, -DMIXED or -DQUICKSORT chooses.
 */
#include "../test/programs/lib.h"

/* How long: 1 is some 250 million instructions. */
#ifndef SCALE
#define SCALE 1
#endif
/* Of -DMIXED; one is 300,000 instructions. */
#ifndef ROUNDS
#define ROUNDS (700 * SCALE)
#endif

#if defined(SIEVE)
static u8 composite[1 << 20];
static u64 work(void) {
  u64 primes = 0;
  for (int round = 0; round < 12 * SCALE; round++) {
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
  for (int round = 0; round < 500 * SCALE; round++)
    for (u32 i = 0; i < sizeof data; i++) crc = table[(crc ^ data[i]) & 255] ^ (crc >> 8);
  return crc;
}
#elif defined(SHA256)
static const u32 k[64] = {
  0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be,
  0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa,
  0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967, 0x27b70a85,
  0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3,
  0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f,
  0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};
static u32 state[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
static u8 message[1 << 14];
static u32 rotate(u32 x, int n) { return x >> n | x << (32 - n); }
static __attribute__((noinline)) void block(const u8 *p) {
  u32 w[64];
  for (int i = 0; i < 16; i++) w[i] = (u32)p[4 * i] << 24 | (u32)p[4 * i + 1] << 16 | (u32)p[4 * i + 2] << 8 | p[4 * i + 3];
  for (int i = 16; i < 64; i++) {
    u32 a = rotate(w[i - 15], 7) ^ rotate(w[i - 15], 18) ^ w[i - 15] >> 3;
    u32 b = rotate(w[i - 2], 17) ^ rotate(w[i - 2], 19) ^ w[i - 2] >> 10;
    w[i] = w[i - 16] + a + w[i - 7] + b;
  }
  u32 a = state[0], b = state[1], c = state[2], d = state[3], e = state[4], f = state[5], g = state[6], h = state[7];
  for (int i = 0; i < 64; i++) {
    u32 x = h + (rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25)) + ((e & f) ^ (~e & g)) + k[i] + w[i];
    u32 y = (rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
    h = g, g = f, f = e, e = d + x, d = c, c = b, b = a, a = x + y;
  }
  state[0] += a, state[1] += b, state[2] += c, state[3] += d, state[4] += e, state[5] += f, state[6] += g, state[7] += h;
}
static u64 work(void) {
  for (u32 i = 0; i < sizeof message; i++) message[i] = (u8)(i * 31 + (i >> 8));
  for (int round = 0; round < 280 * SCALE; round++)
    for (u32 i = 0; i < sizeof message; i += 64) block(message + i);
  return (u64)state[0] << 32 | state[7];
}
#elif defined(CALLS)
/*
 * What a traced function costs: an entry that calls a trampoline, which keeps the arguments and
 * calls the function of an ops object.
 */
struct ops {
  void (*function)(word ip, word parent, struct ops *ops, word *registers);
  u64 hits;
  word last;
};
static void tracer(word ip, word parent, struct ops *ops, word *registers) {
  ops->hits++;
  ops->last = ip ^ parent ^ registers[0];
}
static struct ops ops = {tracer, 0, 0};
static struct ops *volatile current = &ops;
static __attribute__((noinline)) void trampoline(word a, word b, word c, word d, word ip, word parent) {
  volatile word registers[6];
  registers[0] = a, registers[1] = b, registers[2] = c, registers[3] = d, registers[4] = ip, registers[5] = parent;
  struct ops *to = current;
  to->function(ip, parent, to, (word *)registers);
}
static __attribute__((noinline)) u32 traced(u32 a, u32 b) {
  trampoline(a, b, 3, 4, 0x1000, 0x2000);
  return a * 3 + b;
}
static u64 work(void) {
  u32 sum = 0;
  for (u32 i = 0; i < 4000000 * SCALE; i++) sum = traced(sum, i);
  return sum + ops.hits + ops.last;
}
#elif defined(SWITCH)
/* A byte code of a stack machine: runs a program that counts, multiplies and jumps. */
static const u8 program[] = {
  0, 200, 1, 0,              /* push 200, store 0 */
  2, 1, 0, 7, 4, 0, 13, 3,   /* load 1, push 7, mul, push 13, add */
  1, 1,                      /* store 1 */
  2, 2, 2, 1, 5, 1, 2,       /* load 2, load 1, xor, store 2 */
  2, 2, 0, 3, 6, 2, 2, 3, 1, 2, /* load 2, push 3, shr, load 2, add, store 2 */
  2, 0, 0, 1, 7, 8, 1, 0,    /* load 0, push 1, sub, dup, store 0 */
  9, 4,                      /* jump to 4 when not 0 */
  10,                        /* end */
};
static __attribute__((noinline)) u32 interpret(u32 seed) {
  u32 stack[16], slots[4] = {0, seed, 0, 0};
  int top = 0;
  for (u32 at = 0;;) {
    switch (program[at++]) {
    case 0: stack[top++] = program[at++]; break;
    case 1: slots[program[at++]] = stack[--top]; break;
    case 2: stack[top++] = slots[program[at++]]; break;
    case 3: top--; stack[top - 1] += stack[top]; break;
    case 4: top--; stack[top - 1] *= stack[top]; break;
    case 5: top--; stack[top - 1] ^= stack[top]; break;
    case 6: top--; stack[top - 1] >>= stack[top]; break;
    case 7: top--; stack[top - 1] -= stack[top]; break;
    case 8: stack[top] = stack[top - 1]; top++; break;
    case 9: at = stack[--top] ? program[at] : at + 1; break;
    case 10: return slots[2];
    default: return 0;
    }
  }
}
static u64 work(void) {
  u32 sum = 0;
  for (u32 i = 0; i < 5000 * SCALE; i++) sum += interpret(sum ^ i);
  return sum;
}
#elif defined(MIXED)
/*
 * Several kinds of work in turn, none of them long: lists, matrices, a state machine over text, a
 * checksum of it all.
 */
struct node {
  struct node *next;
  u16 key;
  u16 value;
};
static struct node nodes[256];
static u16 crc16(u16 crc, u16 value) {
  for (int i = 0; i < 16; i++) {
    u16 bit = (u16)((crc ^ value) & 1);
    crc = (u16)(crc >> 1 ^ (bit ? 0xa001 : 0));
    value >>= 1;
  }
  return crc;
}
static struct node *merge(struct node *a, struct node *b, int (*less)(const struct node *, const struct node *)) {
  struct node head, *tail = &head;
  while (a && b) {
    struct node **from = less(b, a) ? &b : &a;
    tail->next = *from;
    tail = *from;
    *from = (*from)->next;
  }
  tail->next = a ? a : b;
  return head.next;
}
static struct node *sorted(struct node *list, int count, int (*less)(const struct node *, const struct node *)) {
  if (count == 1) {
    list->next = 0;
    return list;
  }
  struct node *half = list;
  for (int i = 0; i < count / 2; i++) half = half->next;
  struct node *b = sorted(half, count - count / 2, less);
  return merge(sorted(list, count / 2, less), b, less);
}
static int by_key(const struct node *a, const struct node *b) { return a->key < b->key; }
static int by_value(const struct node *a, const struct node *b) { return a->value < b->value; }
static __attribute__((noinline)) u16 lists(u16 seed) {
  for (int i = 0; i < 256; i++) {
    nodes[i].next = i < 255 ? &nodes[i + 1] : 0;
    nodes[i].key = seed = (u16)(seed * 25173 + 13849);
    nodes[i].value = (u16)(seed >> 5 ^ i);
  }
  u16 crc = 0;
  struct node *list = sorted(nodes, 256, by_key);
  for (struct node *at = list; at; at = at->next) crc = crc16(crc, at->value);
  list = sorted(list, 256, by_value);
  for (struct node *at = list; at; at = at->next)
    if ((at->key & 7) == 3) crc = crc16(crc, at->key);
  return crc;
}
static s16 left[24][24], right[24][24];
static s32 product[24][24];
static __attribute__((noinline)) u16 matrices(u16 seed) {
  for (int i = 0; i < 24; i++)
    for (int j = 0; j < 24; j++) {
      left[i][j] = (s16)(seed + i * j);
      right[i][j] = (s16)(seed ^ (i + j));
    }
  for (int i = 0; i < 24; i++)
    for (int j = 0; j < 24; j++) {
      s32 sum = 0;
      for (int n = 0; n < 24; n++) sum += (left[i][n] * right[n][j]) >> 2;
      product[i][j] = sum;
    }
  u16 crc = seed;
  for (int i = 0; i < 24; i += 5) crc = crc16(crc, (u16)(product[i][23 - i] >> (i & 3)));
  return crc;
}
enum kind { START, SIGN, INTEGER, POINT, FRACTION, EXPONENT, POWER, INVALID, KINDS };
static enum kind step(enum kind state, u8 c) {
  int digit = c >= '0' && c <= '9';
  switch (state) {
  case START: return digit ? INTEGER : c == '+' || c == '-' ? SIGN : c == '.' ? POINT : INVALID;
  case SIGN: return digit ? INTEGER : c == '.' ? POINT : INVALID;
  case INTEGER: return digit ? INTEGER : c == '.' ? POINT : c == 'e' ? EXPONENT : INVALID;
  case POINT: case FRACTION: return digit ? FRACTION : c == 'e' ? EXPONENT : INVALID;
  case EXPONENT: return digit || c == '-' ? POWER : INVALID;
  case POWER: return digit ? POWER : INVALID;
  default: return INVALID;
  }
}
static __attribute__((noinline)) u16 text(u16 seed) {
  static const char *const words[] = {"5012", "-874", "+122", "35.54400", ".1234500", "-110.700", "5.500e3", "-.123e-2", "T0.3e-1F", "12+34"};
  static u8 input[2000];
  u32 counts[KINDS] = {0}, length = 0;
  while (length < 1900) {
    const char *from = words[seed % 10];
    seed = (u16)(seed * 25173 + 13849);
    while (*from) input[length++] = (u8)*from++;
    input[length++] = ',';
  }
  enum kind state = START;
  for (u32 i = 0; i < length; i++) {
    if (input[i] == ',') {
      counts[state]++;
      state = START;
    } else state = step(state, input[i]);
  }
  u16 crc = seed;
  for (int i = 0; i < KINDS; i++) crc = crc16(crc, (u16)counts[i]);
  return crc;
}
static u64 work(void) {
  u16 crc = 1;
  for (int round = 0; round < ROUNDS; round++) {
    crc = crc16(lists(crc), crc);
    crc = crc16(matrices(crc), crc);
    crc = crc16(text(crc), crc);
  }
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
  for (int round = 0; round < 10 * SCALE; round++) {
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
