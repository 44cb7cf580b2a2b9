/*
 * Search in text: plainly, by Knuth, Morris and Pratt, by Boyer, Moore and Horspool, by a rolling
 * hash, for many words at once; names compared, turned, cut into words.
 */
#include "yard.h"

#define SIZE 9000
#define NODES 256

static u8 text[SIZE + 1];
static u8 pattern[16];
static u32 length;

static OWN u32 plainly(void) {
  u32 found = 0;
  for (u32 i = 0; i + length <= SIZE; i++) {
    u32 k = 0;
    while (k < length && text[i + k] == pattern[k]) k++;
    found += k == length;
  }
  return found;
}

static OWN u32 by_borders(void) {
  u32 border[17], found = 0, k = 0;
  border[0] = border[1] = 0;
  for (u32 i = 1; i < length; i++) {
    while (k && pattern[k] != pattern[i]) k = border[k];
    if (pattern[k] == pattern[i]) k++;
    border[i + 1] = k;
  }
  k = 0;
  for (u32 i = 0; i < SIZE; i++) {
    while (k && (k == length || pattern[k] != text[i])) k = border[k];
    if (pattern[k] == text[i]) k++;
    found += k == length;
  }
  return found;
}

static OWN u32 by_skips(void) {
  u32 skips[256], found = 0;
  for (u32 c = 0; c < 256; c++) skips[c] = length;
  for (u32 i = 0; i + 1 < length; i++) skips[pattern[i]] = length - 1 - i;
  for (u32 at = 0; at + length <= SIZE; at += skips[text[at + length - 1]]) {
    u32 k = length;
    while (k && text[at + k - 1] == pattern[k - 1]) k--;
    found += k == 0;
  }
  return found;
}

static OWN u32 by_hash(void) {
  u32 want = 0, now = 0, top = 1, found = 0;
  for (u32 i = 0; i < length; i++) {
    want = want * 257 + pattern[i];
    now = now * 257 + text[i];
    if (i) top *= 257;
  }
  for (u32 i = 0;; i++) {
    found += now == want && memcmp(text + i, pattern, length) == 0;
    if (i + length >= SIZE) return found;
    now = (now - text[i] * top) * 257 + text[i + length];
  }
}

/* Many words at once: a tree of bytes with links to where a suffix goes on. */
static u16 children[NODES][26], fail[NODES];
static u8 ends[NODES];
static OWN u32 many(void) {
  static const char *const words[] = {"kato", "tomi", "ren", "suland", "quist", "nela", "zi", "unda", "veer", "mimi", "oka", "dane"};
  u16 queue[NODES];
  u32 used = 1, first = 0, last = 0, found = 0;
  memset(children, 0, sizeof children);
  memset(ends, 0, sizeof ends);
  for (u32 w = 0; w < COUNT(words); w++) {
    u32 at = 0;
    for (const char *p = words[w]; *p; p++) {
      u16 *child = &children[at][*p - 'a'];
      if (!*child) *child = (u16)used++;
      at = *child;
    }
    ends[at]++;
  }
  for (u32 c = 0; c < 26; c++)
    if (children[0][c]) {
      fail[children[0][c]] = 0;
      queue[last++] = children[0][c];
    }
  while (first < last) {
    u32 at = queue[first++];
    ends[at] = (u8)(ends[at] + ends[fail[at]]);
    for (u32 c = 0; c < 26; c++) {
      u32 child = children[at][c];
      if (!child) children[at][c] = children[fail[at]][c];
      else {
        fail[child] = children[fail[at]][c];
        queue[last++] = (u16)child;
      }
    }
  }
  u32 at = 0;
  for (u32 i = 0; i < SIZE; i++) {
    at = text[i] >= 'a' ? children[at][text[i] - 'a'] : 0;
    found += ends[at];
  }
  return found;
}

static u32 size_of(const u8 *s) {
  const u8 *p = s;
  while (*p) p++;
  return (u32)(p - s);
}
static int compare(const u8 *a, const u8 *b) {
  while (*a && *a == *b) a++, b++;
  return (int)*a - (int)*b;
}

static OWN void cut(void) {
  static u8 words[400][16];
  u32 count = 0, order = 0;
  for (u32 i = 0; i < 2400 && count < COUNT(words); count++) {
    u32 n = 0;
    while (text[i] == ' ' || text[i] == ',' || text[i] == '\n') i++;
    for (; text[i] >= 'a'; i++)
      if (n < 15) {
        words[count][n] = text[i] ^ (n ? 0 : 32);
        n++;
      }
    words[count][n] = 0;
  }
  for (u32 i = 1; i < count; i++) {
    order = order * 3 + (u32)(compare(words[i - 1], words[i]) < 0);
    u32 n = size_of(words[i]);
    for (u32 k = 0; k < n / 2; k++) {
      u8 held = words[i][k];
      words[i][k] = words[i][n - 1 - k];
      words[i][n - 1 - k] = held;
    }
    order += n + (u32)(compare(words[i], words[i - 1]) == 0);
  }
  note(order);
}

static void prepare(void) { write_text(text, SIZE); }

static void turn(u32 n) {
  write_text(text + n % 3 * (SIZE / 3), SIZE / 3);
  length = 3 + n % 9;
  memcpy(pattern, text + below(SIZE - 16), length);
  u32 found = plainly();
  note(found);
  must(by_borders() == found && by_skips() == found && by_hash() == found, "searches differ");
  note(many());
  cut();
}
