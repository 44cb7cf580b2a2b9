/*
 * Tries: words by letters, addresses by bits with the longest prefix, suffixes in an array, a
 * filter of Bloom.
 */
#include "yard.h"

#define ROUTES 400

struct node { u16 child, next; u8 letter; u8 ends; u16 count; };
static struct node nodes[16384];
static u32 used;
static u8 text[4000];

static OWN u32 add_word(const u8 *p, u32 length) {
  u32 at = 0;
  for (u32 i = 0; i < length; i++) {
    u16 *link = &nodes[at].child;
    while (*link && nodes[*link].letter < p[i]) link = &nodes[*link].next;
    if (!*link || nodes[*link].letter != p[i]) {
      nodes[used] = (struct node){0, *link, p[i], 0, 0};
      *link = (u16)used++;
    }
    at = *link;
    nodes[at].count++;
  }
  nodes[at].ends = 1;
  return at;
}

static OWN u32 walk(u32 at, u32 depth, u32 hash) {
  for (u32 c = nodes[at].child; c; c = nodes[c].next) {
    hash = hash * 31 + nodes[c].letter * depth + nodes[c].ends;
    hash = walk(c, depth + 1, hash);
  }
  return hash;
}

/* How many words are within one exchanged letter. */
static OWN u32 near(u32 at, const u8 *p, u32 length, u32 wrong) {
  u32 found = 0;
  if (length == 0) return nodes[at].ends;
  for (u32 c = nodes[at].child; c; c = nodes[c].next) {
    if (nodes[c].letter == *p) found += near(c, p + 1, length - 1, wrong);
    else if (wrong) found += near(c, p + 1, length - 1, wrong - 1);
  }
  return found;
}

struct branch { u16 sides[2]; u16 route; };
static struct branch branches[16384];
static u32 branches_used;

static OWN void add_route(u32 address, u32 length, u32 route) {
  u32 at = 0;
  for (u32 i = 0; i < length; i++) {
    u16 *side = &branches[at].sides[address >> (31 - i) & 1];
    if (!*side) {
      branches[branches_used] = (struct branch){{0, 0}, 0};
      *side = (u16)branches_used++;
    }
    at = *side;
  }
  branches[at].route = (u16)route;
}
static OWN u32 route_of(u32 address) {
  u32 at = 0, best = branches[0].route;
  for (u32 i = 0; i < 32; i++) {
    at = branches[at].sides[address >> (31 - i) & 1];
    if (!at) break;
    if (branches[at].route) best = branches[at].route;
  }
  return best;
}

static u16 suffixes[600];
static int behind(u32 a, u32 b) {
  while (a < COUNT(suffixes) && b < COUNT(suffixes) && text[a] == text[b]) a++, b++;
  return b == COUNT(suffixes) || (a < COUNT(suffixes) && text[a] > text[b]);
}
static OWN u32 sort_suffixes(void) {
  u32 hash = 0;
  for (u32 i = 0; i < COUNT(suffixes); i++) suffixes[i] = (u16)i;
  for (u32 gap = 301; gap; gap = gap == 1 ? 0 : gap * 5 / 11 + (gap < 3))
    for (u32 i = gap; i < COUNT(suffixes); i++) {
      u16 v = suffixes[i];
      u32 j = i;
      for (; j >= gap && behind(suffixes[j - gap], v); j -= gap) suffixes[j] = suffixes[j - gap];
      suffixes[j] = v;
    }
  for (u32 i = 0; i < COUNT(suffixes); i++) hash = hash * 17 + suffixes[i];
  return hash;
}

static u32 filter[512];
static OWN u32 bloom(u32 key, int enter) {
  u32 present = 1;
  for (u32 k = 0; k < 4; k++) {
    key = (key ^ key >> 15) * (0x2c1b3c6du + 2 * k);
    u32 bit = key >> 18;
    present &= filter[bit >> 5] >> (bit & 31) & 1;
    if (enter) filter[bit >> 5] |= 1u << (bit & 31);
  }
  return present;
}

static void prepare(void) {}

static void turn(u32 n) {
  u32 ends = 0, close = 0, routes = 0, maybe = 0;
  memset(&nodes[0], 0, sizeof nodes[0]);
  used = 1;
  write_text(text, sizeof text);
  for (u32 at = 0; at < sizeof text;) {
    u32 start = at;
    while (at < sizeof text && text[at] >= 'a') at++;
    if (at > start) ends += add_word(text + start, at - start);
    if (at > start && start % 8 == 0) close += near(0, text + start, at - start, 1);
    at++;
  }
  note(walk(0, 1, n));
  note((u64)ends << 32 | close);
  branches[0] = (struct branch){{0, 0}, 0};
  branches_used = 1;
  for (u32 i = 1; i <= ROUTES; i++) {
    u32 length = 4 + below(20);
    add_route(random_(), length, i);
  }
  for (u32 i = 0; i < 1200; i++) routes = routes * 5 + route_of(random_());
  note(routes);
  note(sort_suffixes());
  memset(filter, 0, sizeof filter);
  for (u32 i = 0; i < 1500; i++) bloom(i * 7919 + n, 1);
  for (u32 i = 0; i < 1500; i++) maybe += bloom(i * 104729 + 1, 0);
  note(maybe);
}
