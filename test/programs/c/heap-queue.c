/* A binary heap as a priority queue with decrease-key; an event simulation driven by it. */
#include "lib.h"
#define MAX 128
struct event { u32 when; u16 kind; u16 serial; };
static struct event heap[MAX];
static int used;
static int before(const struct event *a, const struct event *b) {
  return a->when != b->when ? a->when < b->when : a->serial < b->serial;
}
static void up(int i) {
  for (; i > 0 && before(&heap[i], &heap[(i - 1) / 2]); i = (i - 1) / 2) {
    struct event t = heap[i];
    heap[i] = heap[(i - 1) / 2];
    heap[(i - 1) / 2] = t;
  }
}
static void add(u32 when, u16 kind) {
  static u16 serial;
  if (used == MAX) return;
  heap[used] = (struct event){when, kind, serial++};
  up(used++);
}
static struct event take(void) {
  struct event top = heap[0];
  heap[0] = heap[--used];
  for (int i = 0;;) {
    int least = i;
    for (int k = 2 * i + 1; k <= 2 * i + 2; k++)
      if (k < used && before(&heap[k], &heap[least])) least = k;
    if (least == i) return top;
    struct event t = heap[i];
    heap[i] = heap[least];
    heap[least] = t;
    i = least;
  }
}
int main(void) {
  u32 now = 0, handled[4] = {0}, hash = 0;
  for (u16 i = 0; i < 40; i++) add(random_() % 500, i % 4);
  while (used && now < 4000) {
    struct event e = take();
    if (e.when < now) line("backwards", e.when);
    now = e.when;
    handled[e.kind]++;
    hash = hash * 33 ^ (e.when + e.serial);
    if (e.kind == 1) add(now + 7 + random_() % 300, (u16)(random_() & 3));
    if (e.kind == 2) add(now + 1, 1), add(now + random_() % 9, 3);
    if (used > 3 && hash % 5 == 0) {
      heap[used - 1].when = now;
      up(used - 1);
    }
  }
  for (int i = 0; i < 4; i++) line("handled", handled[i]);
  line("now", now);
  line("hash", hash);
  flush();
  return used;
}
