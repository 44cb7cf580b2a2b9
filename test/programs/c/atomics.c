/*
 * The __atomic and __sync builtins of 1, 2 and 4 bytes (8 where words have as many): all
 * operations, strong and weak.
 */
#include "lib.h"
#define TRY(type, name)                                                                             \
  static __attribute__((noinline)) u64 name(type *p, type v) {                                      \
    u64 r = __atomic_fetch_add(p, v, __ATOMIC_SEQ_CST);                                             \
    r = r * 3 + __atomic_sub_fetch(p, (type)(v >> 1), __ATOMIC_ACQUIRE);                            \
    r = r * 3 + __atomic_fetch_and(p, (type)(v | 0x5a), __ATOMIC_RELEASE);                          \
    r = r * 3 + __atomic_or_fetch(p, (type)(v << 2), __ATOMIC_RELAXED);                             \
    r = r * 3 + __atomic_fetch_xor(p, v, __ATOMIC_ACQ_REL);                                         \
    r = r * 3 + __atomic_nand_fetch(p, v, __ATOMIC_SEQ_CST);                                        \
    r = r * 3 + __atomic_exchange_n(p, (type)(v + 7), __ATOMIC_SEQ_CST);                            \
    type expected = (type)(v + 7);                                                                  \
    r = r * 3 + __atomic_compare_exchange_n(p, &expected, (type)~v, 0, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED); \
    r = r * 3 + __atomic_compare_exchange_n(p, &expected, v, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE); \
    r = r * 3 + expected;                                                                           \
    for (type old = __atomic_load_n(p, __ATOMIC_ACQUIRE);                                           \
         !__atomic_compare_exchange_n(p, &old, (type)(old * 5 + 1), 1, __ATOMIC_RELAXED, __ATOMIC_RELAXED);) {} \
    r = r * 3 + __sync_val_compare_and_swap(p, *p, (type)(*p + 1));                                 \
    r = r * 3 + __sync_lock_test_and_set(p, (type)(*p ^ v));                                        \
    __atomic_thread_fence(__ATOMIC_SEQ_CST);                                                        \
    __atomic_store_n(p, (type)(*p + 3), __ATOMIC_RELEASE);                                          \
    return r * 3 + __atomic_load_n(p, __ATOMIC_SEQ_CST);                                            \
  }
TRY(u8, bytes)
TRY(s8, signed_bytes)
TRY(u16, halves)
TRY(u32, words)
TRY(s32, signed_words)
#ifdef __powerpc64__
TRY(u64, doubles)
#endif
static u8 lock;
static u32 guarded;
static void locked(u32 v) {
  while (__atomic_test_and_set(&lock, __ATOMIC_ACQUIRE)) {}
  guarded = guarded * 9 + v;
  __atomic_clear(&lock, __ATOMIC_RELEASE);
}
int main(void) {
  struct { u8 a, b; u16 h, i; u32 w; s8 s; s32 x; u64 d; } v;
  memset(&v, 0x3c, sizeof v);
  u64 sum = 0;
  for (int i = 0; i < 40; i++) {
    u32 r = random_();
    sum ^= bytes(i & 1 ? &v.a : &v.b, (u8)r);
    sum = sum * 5 + halves(i & 2 ? &v.h : &v.i, (u16)r);
    sum = sum * 5 + words(&v.w, r);
    sum = sum * 5 + signed_bytes(&v.s, (s8)r) + signed_words(&v.x, (s32)r);
    locked(r);
  }
  line("sum", sum);
  line("left", (u64)v.a << 56 | (u64)v.b << 48 | (u64)v.h << 32 | v.w);
#ifdef __powerpc64__
  for (int i = 0; i < 40; i++) sum = sum * 5 + doubles(&v.d, (u64)random_() << 31 ^ random_());
  line("doubles", sum);
#endif
  line("guarded", guarded);
  flush();
  return lock;
}
