/*
 * A first-fit allocator with headers, splitting and merging in a static arena; growing vectors and
 * strings on top of it.
 */
#include "lib.h"
struct header { u32 size; u32 used; };
static u8 arena[8192] __attribute__((aligned(16)));
static u32 failures;
static struct header *next(struct header *h) { return (struct header *)((u8 *)(h + 1) + h->size); }
static struct header *end(void) { return (struct header *)(arena + sizeof arena); }
static void *allocate(u32 size) {
  size = (size + 7) & ~7u;
  for (struct header *h = (struct header *)arena; h < end(); h = next(h)) {
    if (h->used) continue;
    while (next(h) < end() && !next(h)->used) h->size += next(h)->size + (u32)sizeof *h;
    if (h->size < size) continue;
    if (h->size >= size + sizeof *h + 8) {
      u32 rest = h->size - size - (u32)sizeof *h;
      h->size = size;
      *next(h) = (struct header){rest, 0};
    }
    h->used = 1;
    return h + 1;
  }
  failures++;
  return 0;
}
static void release(void *p) {
  if (p) ((struct header *)p - 1)->used = 0;
}
static void *resize(void *p, u32 size) {
  u32 old = p ? ((struct header *)p - 1)->size : 0;
  if (size <= old) return p;
  u8 *q = allocate(size);
  if (q) memcpy(q, p, old), release(p);
  return q;
}
struct vector { u16 *items; u32 count, room; };
static void append(struct vector *v, u16 item) {
  if (v->count == v->room) {
    u16 *grown = resize(v->items, (v->room * 3 / 2 + 4) * 2);
    if (!grown) return;
    v->items = grown;
    v->room = v->room * 3 / 2 + 4;
  }
  v->items[v->count++] = item;
}
int main(void) {
  *(struct header *)arena = (struct header){sizeof arena - sizeof(struct header), 0};
  u8 *blocks[32] = {0};
  struct vector v[3] = {{0}};
  u32 hash = 0;
  for (int i = 0; i < 600; i++) {
    u32 r = random_(), k = r & 31;
    if (blocks[k]) {
      hash = hash * 31 + blocks[k][0];
      release(blocks[k]);
      blocks[k] = 0;
    } else if ((blocks[k] = allocate((r >> 8) % 300 + 1))) memset(blocks[k], (int)(r >> 20), (r >> 8) % 300 + 1);
    append(&v[r % 3], (u16)(r >> 16));
  }
  line("hash", hash);
  line("failures", failures);
  u64 sum = 0;
  for (int i = 0; i < 3; i++)
    for (u32 k = 0; k < v[i].count; k++) sum = sum * 7 + v[i].items[k];
  line("sum", sum);
  for (int i = 0; i < 32; i++) release(blocks[i]);
  for (int i = 0; i < 3; i++) release(v[i].items);
  line("whole", allocate(sizeof arena - sizeof(struct header)) != 0);
  flush();
  return (int)(failures & 63);
}
