/* LZW with codes of 9 to 13 bits, a dictionary that is emptied when full, and its inverse. */
#include "yard.h"

#define SIZE 16384
#define CODES 8192
#define SLOTS 16384

static u8 text[SIZE], packed[2 * SIZE], back[SIZE + 64], stack[CODES];
static u32 keys[SLOTS];
static u16 values[SLOTS];
static u16 prefixes[CODES];
static u8 lasts[CODES];

struct bits { u8 *at; u32 held, count; };

static void put_bits(struct bits *to, u32 value, u32 width) {
  to->held |= value << to->count;
  to->count += width;
  while (to->count >= 8) {
    *to->at++ = (u8)to->held;
    to->held >>= 8;
    to->count -= 8;
  }
}

static u32 get_bits(struct bits *from, u32 width) {
  while (from->count < width) {
    from->held |= (u32)*from->at++ << from->count;
    from->count += 8;
  }
  u32 value = from->held & ((1u << width) - 1);
  from->held >>= width;
  from->count -= width;
  return value;
}

static u32 slot_of(u32 key) {
  u32 slot = key * 0x9e3779b1u >> 18;
  while (keys[slot] && keys[slot] != key) slot = (slot + 1) % SLOTS;
  return slot;
}

static u32 width_for(u32 next) {
  u32 width = 9;
  while (next >> width) width++;
  return width;
}

static OWN u32 pack(void) {
  struct bits to = {packed, 0, 0};
  u32 next = 258, prefix = text[0];
  memset(keys, 0, sizeof keys);
  for (u32 at = 1; at < SIZE; at++) {
    u32 key = (prefix << 8 | text[at]) + 1, slot = slot_of(key);
    if (keys[slot]) {
      prefix = values[slot];
      continue;
    }
    put_bits(&to, prefix, width_for(next));
    prefix = text[at];
    if (next == CODES - 1) {
      put_bits(&to, 256, width_for(next));
      memset(keys, 0, sizeof keys);
      next = 258;
      continue;
    }
    keys[slot] = key;
    values[slot] = (u16)next++;
  }
  put_bits(&to, prefix, width_for(next));
  put_bits(&to, 257, width_for(next + (next < CODES - 1)));
  put_bits(&to, 0, 8);
  return (u32)(to.at - packed);
}

static u32 expand(u32 code, u32 at, u8 *first) {
  u32 depth = 0;
  while (code >= 258) {
    stack[depth++] = lasts[code];
    code = prefixes[code];
  }
  *first = (u8)code;
  back[at++] = (u8)code;
  while (depth) back[at++] = stack[--depth];
  return at;
}

static OWN u32 unpack(void) {
  struct bits from = {packed, 0, 0};
  u32 next = 258, at = 0;
  s32 before = -1;
  u8 first = 0;
  for (;;) {
    /* The side that packs has one entry more by now. */
    u32 ahead = before < 0 ? 258 : next + 1 < CODES ? next + 1 : CODES - 1;
    u32 code = get_bits(&from, width_for(ahead));
    if (code == 257 || at >= SIZE) return at;
    if (code == 256) {
      next = 258;
      before = -1;
      continue;
    }
    u32 start = at;
    if (before >= 0 && code == next) {
      at = expand((u32)before, at, &first);
      back[at++] = first;
    } else at = expand(code, at, &first);
    if (before >= 0 && next < CODES - 1) {
      prefixes[next] = (u16)before;
      lasts[next++] = back[start];
    }
    before = (s32)code;
  }
}

static void prepare(void) { write_text(text, SIZE); }

static void turn(u32 n) {
  for (u32 i = 0; i < 64; i++) text[below(SIZE)] = (u8)(n + i);
  u32 size = pack();
  note(size);
  note(unpack());
  must(memcmp(text, back, SIZE) == 0, "not restored");
  for (u32 i = 0; i < size; i += 97) note(packed[i]);
}
