/*
 * What an entry could break: every way of passing arguments and results that calling conventions
 * have, compiled with sites.
 */
#include "lib.h"
#define F __attribute__((noinline, noclone))

static volatile word sink;
F static word leaf(word a) { return a * 3 + 1; }
F static word eight(word a, word b, word c, word d, word e, word f, word g, word h) {
  return a + 2 * b + 3 * c + 4 * d + 5 * e + 6 * f + 7 * g + 8 * h;
}
F static word twelve(word a, word b, word c, word d, word e, word f, word g, word h, word i, word j, word k, word l) {
  return eight(a, b, c, d, e, f, g, h) + 9 * i + 10 * j + 11 * k + 12 * leaf(l);
}
F static u64 wide(u64 a, u32 b, u64 c) { return (a << 7) ^ (c >> 3) ^ b; }
F static _Complex long long wider(long long a, long long b) { _Complex long long r; __real__ r = a + 1; __imag__ r = b + 2; return r; }
struct small { char bytes[3]; };
struct pair { word a, b; };
struct large { word words[9]; };
F static struct small make_small(int a) { return (struct small){ { (char)a, (char)(a + 1), (char)(a + 2) } }; }
F static struct pair make_pair(word a) { return (struct pair){ a, leaf(a) }; }
F static struct large make_large(word a) {
  struct large r;
  for (word i = 0; i < 9; i++) r.words[i] = a * i + leaf(i);
  return r;
}
F static word take(struct small s, struct pair p, struct large l) { return (word)s.bytes[2] + p.b + l.words[8]; }
F static word sum(int count, ...) {
  __builtin_va_list list;
  word r = 0;
  __builtin_va_start(list, count);
  for (int i = 0; i < count; i++) r = r * 31 + (i % 3 == 2 ? (word)__builtin_va_arg(list, u64) : __builtin_va_arg(list, word));
  __builtin_va_end(list);
  return r;
}
F static word outer(word a) {
  word total = a;
  F word inner(word b) {
    total += b;
    return b ? inner(b - 1) + total : total;
  }
  return inner(5) + inner(a & 3) + total;
}
F static word tail_three(word a, word b) { return a * 7 + b; }
F static word tail_two(word a, word b) { return sink = a, tail_three(a + 1, b ^ a); }
F static word tail_one(word a) { return sink = a, tail_two(a, a + 5); }
F static word deep(word n) { return n == 0 ? leaf(1) : deep(n - 1) + leaf(n); }
F static word blocks(word n) {
  volatile char *const p = __builtin_alloca(n * 16 + 16);
  for (word i = 0; i < n; i++) p[i] = (char)(i * 5);
  return n ? blocks(n - 1) + (word)p[n - 1] : leaf(2);
}
/* A leaf with locals below the stack pointer, where the ABI has a red zone. */
F static word zone(word n) {
  volatile word local[20];
  for (word i = 0; i < 20; i++) local[i] = i * n;
  return local[n % 20] + local[19];
}
typedef word pointer(word);
static pointer *const pointers[] = { leaf, deep, zone, outer, tail_one, blocks };
F static word many_live(word a) {
  word v[14];
  for (int i = 0; i < 14; i++) v[i] = leaf(a + (word)i);
  word p = v[0], q = v[1], r = v[2], s = v[3], t = v[4], u = v[5], x = v[6], y = v[7], z = v[8], m = v[9], n = v[10], o = v[11];
  for (int i = 0; i < 5; i++) {
    p += leaf(q), q ^= leaf(r), r += leaf(s), s ^= leaf(t), t += leaf(u), u ^= leaf(x);
    x += leaf(y), y ^= leaf(z), z += leaf(m), m ^= leaf(n), n += leaf(o), o ^= leaf(p);
  }
  return p + q + r + s + t + u + x + y + z + m + n + o + v[12] + v[13];
}

int main(void) {
  line("leaf", leaf(5));
  line("eight", eight(1, 2, 3, 4, 5, 6, 7, 8));
  line("twelve", twelve(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12));
  line("wide", wide(0x123456789abcdef0ull, 77, 0xfedcba9876543210ull));
  const _Complex long long w = wider(0x1122334455667788ll, 0x99aabbccddeeffll);
  line("wider", (u64)__real__ w);
  line("wider", (u64)__imag__ w);
  const struct small s = make_small(40);
  const struct pair p = make_pair(9);
  const struct large l = make_large(3);
  line("small", (u64)s.bytes[0] + (u64)s.bytes[2]);
  line("pair", p.a + p.b);
  line("take", take(s, p, l));
  line("sum", sum(9, (word)1, (word)2, 3ull, (word)4, (word)5, 6ull, (word)7, (word)8, 9ull));
  line("outer", outer(6));
  line("tail", tail_one(11));
  line("deep", deep(200));
  line("blocks", blocks(20));
  line("zone", zone(7));
  line("live", many_live(3));
  word total = 0;
  for (word i = 0; i < 6; i++) total = total * 17 + pointers[i](i + 2);
  line("pointers", total);
  flush();
  return 7;
}
