/* Canonical Huffman codes: counted, built with a heap, limited in length, packed, unpacked by table. */
#include "yard.h"

#define SIZE 8192
#define LIMIT 12

static u8 text[SIZE], packed[2 * SIZE], back[SIZE];
static u32 counts[256];
static u8 lengths[256];
static u16 codes[256];
static u16 table[1 << LIMIT];
struct node { u32 weight; s16 left, right; };
static struct node nodes[511];
static u16 heap[256];
static u32 heaped;

static void down(u32 at) {
  u16 value = heap[at];
  for (;;) {
    u32 child = 2 * at + 1;
    if (child >= heaped) break;
    if (child + 1 < heaped && nodes[heap[child + 1]].weight < nodes[heap[child]].weight) child++;
    if (nodes[heap[child]].weight >= nodes[value].weight) break;
    heap[at] = heap[child];
    at = child;
  }
  heap[at] = value;
}

static u16 least(void) {
  u16 top = heap[0];
  heap[0] = heap[--heaped];
  down(0);
  return top;
}

static void add(u16 node) {
  u32 at = heaped++;
  while (at && nodes[heap[(at - 1) / 2]].weight > nodes[node].weight) {
    heap[at] = heap[(at - 1) / 2];
    at = (at - 1) / 2;
  }
  heap[at] = node;
}

static u32 deepest(s16 node, u32 depth) {
  if (nodes[node].left < 0) {
    lengths[-1 - nodes[node].left] = (u8)depth;
    return depth;
  }
  u32 a = deepest(nodes[node].left, depth + 1), b = deepest(nodes[node].right, depth + 1);
  return a > b ? a : b;
}

/* Weights are flattened until no code is longer than the limit. */
static OWN void build(void) {
  u32 shift = 0;
  for (;; shift++) {
    u32 used = 0;
    heaped = 0;
    memset(lengths, 0, sizeof lengths);
    for (int c = 0; c < 256; c++) {
      if (!counts[c]) continue;
      nodes[used].weight = (counts[c] >> shift) + 1;
      nodes[used].left = (s16)(-1 - c);
      add((u16)used++);
    }
    while (heaped > 1) {
      u16 a = least(), b = least();
      nodes[used].weight = nodes[a].weight + nodes[b].weight;
      nodes[used].left = (s16)a;
      nodes[used].right = (s16)b;
      add((u16)used++);
    }
    if (deepest((s16)heap[0], 0) <= LIMIT) return;
  }
}

static OWN void assign(void) {
  u32 code = 0;
  memset(table, 0, sizeof table);
  for (u32 length = 1; length <= LIMIT; length++) {
    for (u32 c = 0; c < 256; c++) {
      if (lengths[c] != length) continue;
      codes[c] = (u16)code;
      u32 first = code << (LIMIT - length);
      for (u32 i = 0; i < 1u << (LIMIT - length); i++) table[first + i] = (u16)(c << 4 | length);
      code++;
    }
    code <<= 1;
  }
}

static OWN u32 pack(void) {
  u32 held = 0, bits = 0, out = 0;
  for (u32 i = 0; i < SIZE; i++) {
    u32 length = lengths[text[i]];
    held = held << length | codes[text[i]];
    bits += length;
    while (bits >= 8) packed[out++] = (u8)(held >> (bits -= 8));
  }
  packed[out++] = (u8)(held << (8 - bits));
  packed[out] = packed[out + 1] = 0;
  return out;
}

static OWN void unpack(void) {
  u32 held = 0, bits = 0, in = 0;
  for (u32 i = 0; i < SIZE; i++) {
    while (bits < LIMIT) {
      held = held << 8 | packed[in++];
      bits += 8;
    }
    u32 entry = table[held >> (bits - LIMIT) & ((1u << LIMIT) - 1)];
    back[i] = (u8)(entry >> 4);
    bits -= entry & 15;
  }
}

static void prepare(void) {}

static void turn(u32 n) {
  write_text(text, SIZE);
  for (u32 i = 0; i < n % 5 * 100; i++) spoil(text, SIZE);
  memset(counts, 0, sizeof counts);
  for (u32 i = 0; i < SIZE; i++) counts[text[i]]++;
  build();
  assign();
  u32 size = pack();
  unpack();
  note(size);
  must(memcmp(text, back, SIZE) == 0, "not restored");
  for (u32 i = 0; i < size; i += 73) note(packed[i]);
}
