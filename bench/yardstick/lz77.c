/* LZ77 with chains of earlier places by a hash of three bytes, lazy matching, and its inverse. */
#include "yard.h"

#define SIZE 12288
#define WINDOW 4096
#define HASHES 2048
#define LONGEST 66

static u8 text[SIZE], packed[2 * SIZE], back[SIZE];
static s32 head[HASHES], chain[SIZE];

struct match { u32 length, distance; };

static u32 hash_at(u32 at) {
  u32 three = (u32)text[at] << 16 | (u32)text[at + 1] << 8 | text[at + 2];
  return three * 2654435761u >> 21;
}

static void enter(u32 at) {
  if (at + 3 > SIZE) return;
  u32 h = hash_at(at);
  chain[at] = head[h];
  head[h] = (s32)at;
}

static u32 common(u32 a, u32 b) {
  u32 n = 0, most = SIZE - b < LONGEST ? SIZE - b : LONGEST;
  while (n < most && text[a + n] == text[b + n]) n++;
  return n;
}

static OWN struct match longest(u32 at) {
  struct match best = {0, 0};
  if (at + 3 > SIZE) return best;
  int tries = 24;
  for (s32 from = head[hash_at(at)]; from >= 0 && tries-- && at - (u32)from <= WINDOW; from = chain[from]) {
    if (best.length && text[(u32)from + best.length] != text[at + best.length]) continue;
    u32 length = common((u32)from, at);
    if (length > best.length) {
      best.length = length;
      best.distance = at - (u32)from;
      if (length == LONGEST) break;
    }
  }
  return best;
}

/* Tokens: 0..127 literals of that many bytes and one; 128 + length - 3, then two bytes of distance. */
static u8 *literals(u8 *out, u32 from, u32 count) {
  while (count) {
    u32 n = count < 128 ? count : 128;
    *out++ = (u8)(n - 1);
    for (u32 i = 0; i < n; i++) *out++ = text[from + i];
    from += n;
    count -= n;
  }
  return out;
}

static OWN u32 pack(void) {
  u8 *out = packed;
  u32 at = 0, start = 0;
  for (u32 i = 0; i < HASHES; i++) head[i] = -1;
  struct match now = longest(0);
  while (at < SIZE) {
    enter(at);
    struct match next = at + 1 < SIZE ? longest(at + 1) : (struct match){0, 0};
    if (now.length < 3 || next.length > now.length) {
      at++;
      now = next;
      continue;
    }
    out = literals(out, start, at - start);
    *out++ = (u8)(128 + now.length - 3);
    *out++ = (u8)(now.distance >> 8);
    *out++ = (u8)now.distance;
    for (u32 i = 1; i < now.length; i++) enter(at + i);
    at += now.length;
    start = at;
    now = at < SIZE ? longest(at) : (struct match){0, 0};
  }
  return (u32)(literals(out, start, at - start) - packed);
}

static OWN u32 unpack(u32 size) {
  u32 in = 0, at = 0;
  while (in < size) {
    u32 token = packed[in++];
    if (token < 128) {
      for (u32 i = 0; i <= token; i++) back[at++] = packed[in++];
    } else {
      u32 length = token - 128 + 3, distance = (u32)packed[in] << 8 | packed[in + 1];
      in += 2;
      for (; length; length--, at++) back[at] = back[at - distance];
    }
  }
  return at;
}

static void prepare(void) { write_text(text, SIZE); }

static void turn(u32 n) {
  write_text(text + n % 3 * (SIZE / 3), SIZE / 3);
  u32 size = pack();
  note(size);
  note(unpack(size));
  must(memcmp(text, back, SIZE) == 0, "not restored");
  for (u32 i = 0; i < size; i += 61) note(packed[i]);
}
