/* Flows: Dinic's blocking flows, a matching in two halves by Hopcroft and Karp's idea, a spanning tree. */
#include "yard.h"

#define NODES 220
#define EDGES 4000

struct edge { u16 to; s32 room; u16 next; };
static struct edge edges[EDGES];
static u16 heads[NODES], used_edges, place[NODES], level[NODES], queue[NODES];
static u32 nodes, sink;

static void connect(u32 a, u32 b, s32 room) {
  edges[used_edges] = (struct edge){(u16)b, room, heads[a]};
  heads[a] = used_edges++;
  edges[used_edges] = (struct edge){(u16)a, 0, heads[b]};
  heads[b] = used_edges++;
}

static OWN int layers(void) {
  u32 begin = 0, end = 0;
  memset(level, 0, sizeof level);
  level[0] = 1;
  queue[end++] = 0;
  while (begin < end) {
    u32 at = queue[begin++];
    for (u32 e = heads[at]; e; e = edges[e].next)
      if (edges[e].room > 0 && !level[edges[e].to]) {
        level[edges[e].to] = (u16)(level[at] + 1);
        queue[end++] = edges[e].to;
      }
  }
  return level[sink] != 0;
}

static s32 push(u32 at, s32 most) {
  if (at == sink) return most;
  for (; place[at]; place[at] = edges[place[at]].next) {
    struct edge *e = &edges[place[at]];
    if (e->room <= 0 || level[e->to] != level[at] + 1) continue;
    s32 moved = push(e->to, e->room < most ? e->room : most);
    if (moved == 0) continue;
    e->room -= moved;
    edges[place[at] ^ 1].room += moved;
    return moved;
  }
  return 0;
}

static OWN u32 flow(void) {
  u32 total = 0;
  while (layers()) {
    memcpy(place, heads, sizeof heads);
    for (s32 moved; (moved = push(0, 1 << 30)) > 0;) total += (u32)moved;
  }
  return total;
}

static void begin(u32 count) {
  memset(heads, 0, sizeof heads);
  used_edges = 2;
  nodes = count;
  sink = count - 1;
}

static OWN void network(void) {
  begin(NODES);
  for (u32 i = 1; i <= 20; i++) connect(0, i, (s32)(50 + below(100)));
  for (u32 i = 1; i < NODES - 21; i++)
    for (u32 k = 0; k < 5; k++) {
      u32 to = i + 1 + below(20);
      connect(i, to, (s32)(1 + below(40)));
    }
  for (u32 i = NODES - 21; i < NODES - 1; i++) connect(i, sink, (s32)(50 + below(100)));
}

static OWN void halves(void) {
  begin(202);
  for (u32 i = 0; i < 100; i++) {
    connect(0, 1 + i, 1);
    connect(101 + i, sink, 1);
    for (u32 k = 0; k < 3; k++) connect(1 + i, 101 + below(100), 1);
  }
}

/* Kruskal, with sets that are joined. */
static u16 parent[NODES], sizes[NODES];
struct link { u16 a, b; u32 weight; };
static struct link links[1500], spare[1500];

static u32 leader(u32 a) {
  while (parent[a] != a) a = parent[a] = parent[parent[a]];
  return a;
}

static OWN u32 spanning(void) {
  u32 counts[257] = {0}, total = 0, joined = 0;
  for (u32 i = 0; i < NODES; i++) parent[i] = (u16)i, sizes[i] = 1;
  for (u32 i = 0; i < COUNT(links); i++) {
    u32 a = below(NODES), b = below(NODES);
    links[i] = (struct link){(u16)a, (u16)b, random_() >> 16};
  }
  for (u32 shift = 0; shift < 16; shift += 8) {
    memset(counts, 0, sizeof counts);
    for (u32 i = 0; i < COUNT(links); i++) counts[(links[i].weight >> shift & 255) + 1]++;
    for (u32 i = 1; i < 257; i++) counts[i] += counts[i - 1];
    for (u32 i = 0; i < COUNT(links); i++) spare[counts[links[i].weight >> shift & 255]++] = links[i];
    memcpy(links, spare, sizeof links);
  }
  for (u32 i = 0; i < COUNT(links); i++) {
    u32 a = leader(links[i].a), b = leader(links[i].b);
    if (a == b) continue;
    if (sizes[a] < sizes[b]) parent[a] = (u16)b, sizes[b] = (u16)(sizes[b] + sizes[a]);
    else parent[b] = (u16)a, sizes[a] = (u16)(sizes[a] + sizes[b]);
    total += links[i].weight;
    joined++;
  }
  return total + joined;
}

static void prepare(void) {}

static void turn(u32 n) {
  if (n & 1) halves();
  else network();
  note(flow());
  u32 cut = 0;
  for (u32 i = 0; i < nodes; i++) cut += level[i] != 0;
  note(cut);
  note(spanning());
}
