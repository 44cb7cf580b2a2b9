/* Open addressing with tombstones, and chains; keys are strings. */
#include "lib.h"
#define SLOTS 128
struct entry { char key[8]; s32 value; u8 state; };
static struct entry table[SLOTS];
static u32 hash(const char *s) {
  u32 h = 0x811c9dc5;
  while (*s) h = (h ^ (u8)*s++) * 0x01000193;
  return h;
}
static int same(const char *a, const char *b) {
  while (*a && *a == *b) a++, b++;
  return *a == *b;
}
static struct entry *find(const char *key, int create) {
  struct entry *grave = 0;
  for (u32 i = hash(key), n = 0; n < SLOTS; i++, n++) {
    struct entry *e = &table[i % SLOTS];
    if (e->state == 0) {
      if (!create) return 0;
      if (grave) e = grave;
      e->state = 1;
      e->value = 0;
      for (int k = 0; k < 8; k++) {
        e->key[k] = key[k];
        if (!key[k]) break;
      }
      return e;
    }
    if (e->state == 2) {
      if (!grave) grave = e;
    } else if (same(e->key, key)) return e;
  }
  return 0;
}
static void name(char *out, u32 n) {
  int k = 0;
  do out[k++] = (char)('a' + n % 17);
  while (n /= 17);
  out[k] = 0;
}
int main(void) {
  char key[8];
  u32 removed = 0, missing = 0, live = 0;
  s64 sum = 0;
  for (int i = 0; i < 900; i++) {
    u32 r = random_();
    name(key, r % 75);
    struct entry *e = find(key, (r >> 20) % 3 != 0);
    if (!e) missing++;
    else if ((r >> 24) % 7 == 0) e->state = 2, removed++;
    else e->value += (s32)(r >> 8) - 0x800000;
  }
  for (int i = 0; i < SLOTS; i++)
    if (table[i].state == 1) live++, sum = sum * 5 + table[i].value + (s64)hash(table[i].key);
  line("live", live);
  line("removed", removed);
  line("missing", missing);
  line("sum", (u64)sum);
  flush();
  return (int)live;
}
