/*
 * Doubly linked lists in an arena with a free list: insertion, removal, reversal, Josephus, an LRU
 * cache.
 */
#include "lib.h"
struct node { struct node *next, *previous; u32 key; };
static struct node arena[64], *unused;
static struct node ring = {&ring, &ring, 0};
static u32 live, hits;
static struct node *take(void) {
  struct node *n = unused;
  if (n) unused = n->next, live++;
  return n;
}
static void unlink_(struct node *n) {
  n->previous->next = n->next;
  n->next->previous = n->previous;
}
static void release(struct node *n) {
  unlink_(n);
  n->next = unused;
  unused = n;
  live--;
}
static void after(struct node *at, struct node *n) {
  n->next = at->next;
  n->previous = at;
  at->next->previous = n;
  at->next = n;
}
static void reverse(void) {
  struct node *n = &ring;
  do {
    struct node *t = n->next;
    n->next = n->previous;
    n->previous = t;
    n = t;
  } while (n != &ring);
}
static void cache(u32 key) {
  for (struct node *n = ring.next; n != &ring; n = n->next)
    if (n->key == key) {
      unlink_(n);
      after(&ring, n);
      hits++;
      return;
    }
  if (live == 16) release(ring.previous);
  struct node *n = take();
  n->key = key;
  after(&ring, n);
}
int main(void) {
  for (int i = 0; i < 63; i++) arena[i].next = &arena[i + 1];
  unused = arena;
  for (u32 i = 1; i <= 41; i++) {
    struct node *n = take();
    n->key = i;
    after(ring.previous, n);
  }
  reverse();
  struct node *n = &ring;
  u32 order = 0;
  while (live > 1) {
    for (int k = 0; k < 3; k++)
      do n = n->next;
      while (n == &ring);
    struct node *previous = n->previous;
    order = order * 43 + n->key;
    release(n);
    n = previous;
  }
  line("order", order);
  line("survivor", ring.next->key);
  for (int i = 0; i < 500; i++) cache(random_() % 9 * (random_() % 5));
  line("hits", hits);
  line("live", live);
  flush();
  return (int)ring.next->key;
}
