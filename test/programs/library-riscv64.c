/*
 * What GCC 12 leaves to a library on RISC-V: `ffs`, and atomic operations on bytes and halfwords,
 * here loops on the word around.
 */
typedef unsigned int u32;
typedef unsigned long word;

/* The word, the place in it and the mask of an object of `bytes` bytes. */
#define PLACE(bytes) \
  volatile u32 *at = (volatile u32 *)((word)p & ~3ul); \
  u32 shift = 8 * (u32)((word)p & 3), mask = (bytes == 1 ? 0xffu : 0xffffu) << shift

#define UPDATE(type, bytes, name, symbol, result) \
  __attribute__((used)) type name##bytes(volatile void *p, type v, int order) __asm__(symbol); \
  type name##bytes(volatile void *p, type v, int order) { \
    PLACE(bytes); \
    u32 now = *at, want; \
    (void)order; \
    do { \
      type old = (type)(now >> shift); \
      want = (now & ~mask) | ((u32)(type)(result) << shift); \
    } while (!__atomic_compare_exchange_n(at, &now, want, 0, 5, 5)); \
    return (type)(now >> shift); \
  }

#define ALL(type, bytes, text) \
  UPDATE(type, bytes, add, "__atomic_fetch_add_" text, old + v) \
  UPDATE(type, bytes, sub, "__atomic_fetch_sub_" text, old - v) \
  UPDATE(type, bytes, and_, "__atomic_fetch_and_" text, old & v) \
  UPDATE(type, bytes, or_, "__atomic_fetch_or_" text, old | v) \
  UPDATE(type, bytes, xor_, "__atomic_fetch_xor_" text, old ^ v) \
  UPDATE(type, bytes, nand, "__atomic_fetch_nand_" text, ~(old & v)) \
  UPDATE(type, bytes, swap, "__atomic_exchange_" text, ((void)old, v)) \
  UPDATE(type, bytes, set, "__sync_lock_test_and_set_" text, ((void)old, v)) \
  __attribute__((used)) int cas##bytes(volatile void *p, void *e, type v, int weak, int s, int f) \
      __asm__("__atomic_compare_exchange_" text); \
  int cas##bytes(volatile void *p, void *e, type v, int weak, int s, int f) { \
    PLACE(bytes); \
    u32 now = *at; \
    (void)weak, (void)s, (void)f; \
    while ((type)(now >> shift) == *(type *)e) \
      if (__atomic_compare_exchange_n(at, &now, (now & ~mask) | ((u32)v << shift), 0, 5, 5)) return 1; \
    *(type *)e = (type)(now >> shift); \
    return 0; \
  }

ALL(unsigned char, 1, "1")
ALL(unsigned short, 2, "2")

__attribute__((used)) int first_set(int v) __asm__("ffs");
int first_set(int v) {
  int n = 1;
  if (v == 0) return 0;
  for (; !(v & 1); v = (int)((u32)v >> 1)) n++;
  return n;
}
