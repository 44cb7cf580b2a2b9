/*
 * Hash tables: words counted in chains, numbers in open addressing with deletion, a table that
 * keeps the entries of poor places near (Robin Hood), and growth of each.
 */
#include "yard.h"

#define TEXT 12000
#define POOL 4096

struct entry { struct entry *next; u32 hash, start, length, count; };
struct chains { struct entry *buckets[2048]; u32 size, used; };

static u8 text[TEXT];
static struct entry pool[POOL];
static struct chains words;

static u32 hash_word(const u8 *p, u32 length) {
  u32 h = 2166136261u;
  while (length--) h = (h ^ *p++) * 16777619u;
  return h ^ h >> 15;
}

static void grow(struct chains *t) {
  u32 half = t->size;
  t->size *= 2;
  for (u32 i = 0; i < half; i++) {
    struct entry *list = t->buckets[i], *low = 0, *high = 0;
    while (list) {
      struct entry *next = list->next;
      if (list->hash & half) list->next = high, high = list;
      else list->next = low, low = list;
      list = next;
    }
    t->buckets[i] = low;
    t->buckets[i + half] = high;
  }
}

static OWN struct entry *word_at(struct chains *t, u32 start, u32 length) {
  u32 hash = hash_word(text + start, length);
  struct entry **bucket = &t->buckets[hash & (t->size - 1)];
  for (struct entry *e = *bucket; e; e = e->next)
    if (e->hash == hash && e->length == length && memcmp(text + e->start, text + start, length) == 0) return e;
  struct entry *e = &pool[t->used++];
  e->next = *bucket;
  e->hash = hash;
  e->start = start;
  e->length = length;
  e->count = 0;
  *bucket = e;
  if (t->used > t->size && t->size < 2048) grow(t);
  return e;
}

static OWN void count_words(void) {
  memset(&words, 0, sizeof words);
  words.size = 16;
  for (u32 at = 0; at < TEXT;) {
    u32 start = at;
    while (at < TEXT && text[at] >= 'a') at++;
    if (at > start) word_at(&words, start, at - start)->count++;
    while (at < TEXT && text[at] < 'a') at++;
  }
}

/* Keys above one; zero is free, one was deleted. */
static u64 keys[4096];
static u32 held[4096];

static u32 mix(u64 key) { return (u32)(key * 0x9e3779b97f4a7c15ull >> 52); }

static OWN u32 *open_slot(u64 key, int make) {
  u32 at = mix(key), free_at = ~0u;
  for (;; at = (at + 1) & 4095) {
    if (keys[at] == key) return &held[at];
    if (keys[at] == 1 && free_at == ~0u) free_at = at;
    if (keys[at] == 0) break;
  }
  if (!make) return 0;
  if (free_at == ~0u) free_at = at;
  keys[free_at] = key;
  held[free_at] = 0;
  return &held[free_at];
}

static OWN u64 open_addressing(u32 seed) {
  u64 total = 0;
  memset(keys, 0, sizeof keys);
  for (u32 i = 0; i < 4000; i++) {
    u64 key = 2 + (u64)below(1500) * 7919 + seed % 3;
    u32 kind = below(8);
    if (kind < 5) *open_slot(key, 1) += i;
    else {
      u32 *slot = open_slot(key, 0);
      if (slot && kind == 7) keys[slot - held] = 1;
      total += slot ? *slot + kind : 1;
    }
  }
  return total;
}

/* Robin Hood: distances in a row of their own. */
static u32 poor_keys[2048];
static u8 distances[2048];

static OWN u32 robin_insert(u32 key) {
  u32 at = key * 2654435761u >> 21, distance = 1, moved = 0;
  for (;; at = (at + 1) & 2047, distance++) {
    if (distances[at] == 0) break;
    if (poor_keys[at] == key) return moved;
    if (distances[at] < distance) {
      u32 k = poor_keys[at], d = distances[at];
      poor_keys[at] = key;
      distances[at] = (u8)distance;
      key = k;
      distance = d;
      moved++;
    }
  }
  poor_keys[at] = key;
  distances[at] = (u8)distance;
  return moved;
}

static void prepare(void) { write_text(text, TEXT); }

static void turn(u32 n) {
  write_text(text + n % 4 * (TEXT / 4), TEXT / 4);
  count_words();
  u64 all = 0;
  for (u32 i = 0; i < words.used; i++) all += (u64)pool[i].count * pool[i].hash;
  note(all);
  note(words.used);
  note(open_addressing(n));
  memset(distances, 0, sizeof distances);
  u32 moves = 0;
  for (u32 i = 0; i < 1500; i++) moves += robin_insert(random_() >> 20 | 1);
  note(moves);
}
