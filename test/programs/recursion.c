/* Recursion: Ackermann, Towers of Hanoi, mutual recursion, N queens, a tree. */
#include "lib.h"
static u32 calls;
static u32 ack(u32 m, u32 n) {
  calls++;
  return m == 0 ? n + 1 : n == 0 ? ack(m - 1, 1) : ack(m - 1, ack(m, n - 1));
}
static u32 hanoi(int n, int a, int b, int c) {
  if (n == 0) return 0;
  return hanoi(n - 1, a, c, b) + (u32)(a * 3 + c) + hanoi(n - 1, b, a, c);
}
static int odd(u32 n);
static __attribute__((noinline)) int even(u32 n) { return n == 0 ? 1 : odd(n - 1); }
static __attribute__((noinline)) int odd(u32 n) { return n == 0 ? 0 : even(n - 1); }
static int queens(int n, u32 cols, u32 left, u32 right) {
  u32 all = (1u << n) - 1;
  if (cols == all) return 1;
  int count = 0;
  for (u32 free = all & ~(cols | left | right); free; free &= free - 1) {
    u32 bit = free & -free;
    count += queens(n, cols | bit, (left | bit) << 1, (right | bit) >> 1);
  }
  return count;
}
struct node { struct node *l, *r; s32 key; };
static struct node pool[200];
static int used;
static struct node *insert(struct node *t, s32 key) {
  if (!t) {
    t = &pool[used++];
    t->key = key;
    return t;
  }
  if (key < t->key) t->l = insert(t->l, key);
  else if (key > t->key) t->r = insert(t->r, key);
  return t;
}
static s32 walk(struct node *t, s32 acc) { return t ? walk(t->r, walk(t->l, acc) * 33 + t->key) : acc; }
int main(void) {
  line("ack", ack(2, 9));
  line("calls", calls);
  line("hanoi", hanoi(9, 1, 2, 3));
  line("even", (u64)even(101));
  line("queens", (u64)queens(6, 0, 0, 0));
  struct node *t = 0;
  for (int i = 0; i < 150; i++) t = insert(t, (s32)(random_() % 1000) - 500);
  line("walk", (u32)walk(t, 1));
  flush();
  return 42;
}
