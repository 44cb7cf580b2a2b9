/*
 * Allocators of memory on one arena each: a list of free blocks with tags at both ends, buddies, and
 * slabs of one size; objects of random sizes live and die, and are looked at before they do.
 */
#include "yard.h"

#define ARENA 65536
#define LIVE 256

static u32 tags[ARENA / 4];
static u32 buddy_area[ARENA / 4];
static s16 buddy_next[1024], buddy_before[1024], buddy_free[11];
static u8 buddy_order[1024], buddy_is_free[1024];

/* Sizes in words; the lowest bit of a tag says used. The list is through the first two words. */
static u32 free_head;
static u32 fails;

static void unlink_block(u32 at) {
  u32 next = tags[at + 1], before = tags[at + 2];
  if (before) tags[before + 1] = next;
  else free_head = next;
  if (next) tags[next + 2] = before;
}
static void link_block(u32 at, u32 size) {
  tags[at] = tags[at + size - 1] = size << 1;
  tags[at + 1] = free_head;
  tags[at + 2] = 0;
  if (free_head) tags[free_head + 2] = at;
  free_head = at;
}

static OWN u32 take(u32 words) {
  u32 need = words + 2 < 4 ? 4 : words + 2;
  for (u32 at = free_head; at; at = tags[at + 1]) {
    u32 size = tags[at] >> 1;
    if (size < need) continue;
    unlink_block(at);
    if (size - need >= 4) link_block(at + need, size - need);
    else need = size;
    tags[at] = tags[at + need - 1] = need << 1 | 1;
    return at + 1;
  }
  fails++;
  return 0;
}

static OWN void give(u32 p) {
  u32 at = p - 1, size = tags[at] >> 1;
  if (!(tags[at - 1] & 1)) {
    u32 before = tags[at - 1] >> 1;
    at -= before;
    size += before;
    unlink_block(at);
  }
  if (!(tags[at + size] & 1)) {
    u32 next = at + size, more = tags[next] >> 1;
    unlink_block(next);
    size += more;
  }
  link_block(at, size);
}

static void begin_list(void) {
  memset(tags, 0, sizeof tags);
  free_head = 0;
  tags[0] = tags[COUNT(tags) - 1] = 1;
  link_block(1, COUNT(tags) - 2);
}

/* Buddies of 64 bytes and up. */
static void buddy_push(u32 block, u32 order) {
  buddy_is_free[block] = 1;
  buddy_order[block] = (u8)order;
  buddy_next[block] = buddy_free[order];
  buddy_before[block] = -1;
  if (buddy_free[order] >= 0) buddy_before[buddy_free[order]] = (s16)block;
  buddy_free[order] = (s16)block;
}
static void buddy_remove(u32 block) {
  s16 next = buddy_next[block], before = buddy_before[block];
  buddy_is_free[block] = 0;
  if (before >= 0) buddy_next[before] = next;
  else buddy_free[buddy_order[block]] = next;
  if (next >= 0) buddy_before[next] = before;
}

static OWN s32 buddy_take(u32 words) {
  u32 order = 0, found;
  while (16u << order < words) order++;
  for (found = order; found < 11 && buddy_free[found] < 0; found++) continue;
  if (found == 11) {
    fails++;
    return -1;
  }
  u32 block = (u32)buddy_free[found];
  buddy_remove(block);
  while (found > order) {
    found--;
    buddy_push(block + (1u << found), found);
  }
  buddy_order[block] = (u8)order;
  return (s32)block;
}

static OWN void buddy_give(u32 block) {
  u32 order = buddy_order[block];
  while (order < 10) {
    u32 other = block ^ 1u << order;
    if (!buddy_is_free[other] || buddy_order[other] != order) break;
    buddy_remove(other);
    block &= ~(1u << order);
    order++;
  }
  buddy_push(block, order);
}

/* Slabs: 32 objects of eight words in each of 64, with a map of who is free. */
static u32 slab_maps[64], slab_area[64 * 32 * 8];
static OWN s32 slab_take(void) {
  for (u32 s = 0; s < 64; s++)
    if (slab_maps[s]) {
      u32 bit = 0;
      while (!(slab_maps[s] >> bit & 1)) bit++;
      slab_maps[s] &= slab_maps[s] - 1;
      return (s32)(s * 32 + bit);
    }
  fails++;
  return -1;
}

struct object { s32 place; u32 words, mark; };
static struct object live[3][LIVE];

static OWN void fill(u32 *to, struct object *o) {
  for (u32 i = 0; i < o->words; i++) to[i] = o->mark + i;
}
static OWN void look(const u32 *from, const struct object *o) {
  u32 wrong = 0;
  for (u32 i = 0; i < o->words; i++) wrong |= from[i] ^ (o->mark + i);
  must(!wrong, "an object was written over");
}

static void prepare(void) {
  begin_list();
  for (u32 i = 0; i < 11; i++) buddy_free[i] = -1;
  buddy_push(0, 10);
  memset(slab_maps, 255, sizeof slab_maps);
}

static void turn(u32 n) {
  for (u32 step = 0; step < 700; step++) {
    u32 i = below(LIVE), words = 3 + below(below(12) ? 24 : 220);
    struct object *o = &live[0][i];
    if (o->words) {
      look(tags + o->place, o);
      give((u32)o->place);
      o->words = 0;
    } else if ((o->place = (s32)take(words)) > 0) {
      o->words = words;
      o->mark = random_();
      fill(tags + o->place, o);
    }
    o = &live[1][i];
    if (o->words) {
      look(buddy_area + 16 * o->place, o);
      buddy_give((u32)o->place);
      o->words = 0;
    } else if ((o->place = buddy_take(words)) >= 0) {
      o->words = words;
      o->mark = random_();
      fill(buddy_area + 16 * o->place, o);
    }
    o = &live[2][i];
    if (o->words) {
      look(slab_area + 8 * o->place, o);
      slab_maps[o->place / 32] |= 1u << (o->place % 32);
      o->words = 0;
    } else if ((o->place = slab_take()) >= 0) {
      o->words = 8;
      o->mark = random_();
      fill(slab_area + 8 * o->place, o);
    }
    note((u32)o->place + n);
  }
  note(fails);
}
