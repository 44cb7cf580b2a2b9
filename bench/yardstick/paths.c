/* Shortest ways: Dijkstra with a heap on a random graph, A* on a grid with walls, all pairs at once. */
#include "yard.h"

#define NODES 1500
#define EDGES 6000
#define SIDE 64
#define FAR 0x3fffffffu

struct edge { u32 to, weight, next; };
struct item { u32 distance, node; };

static struct edge edges[EDGES + 1];
static u32 first[NODES], distance[NODES];
static struct item heap[EDGES * 4];
static u32 heaped;
static u8 grid[SIDE * SIDE], closed[SIDE * SIDE];
static u32 cost[SIDE * SIDE], from[SIDE * SIDE];
static u32 all[40][40];

static void push(u32 d, u32 node) {
  u32 at = heaped++;
  while (at && heap[(at - 1) / 2].distance > d) {
    heap[at] = heap[(at - 1) / 2];
    at = (at - 1) / 2;
  }
  heap[at].distance = d;
  heap[at].node = node;
}

static struct item pop(void) {
  struct item top = heap[0], last = heap[--heaped];
  u32 at = 0;
  for (;;) {
    u32 child = 2 * at + 1;
    if (child >= heaped) break;
    if (child + 1 < heaped && heap[child + 1].distance < heap[child].distance) child++;
    if (heap[child].distance >= last.distance) break;
    heap[at] = heap[child];
    at = child;
  }
  heap[at] = last;
  return top;
}

static OWN void make_graph(void) {
  memset(first, 0, sizeof first);
  for (u32 i = 1; i <= EDGES; i++) {
    u32 a = i <= NODES ? i - 1 : below(NODES);
    edges[i].to = below(NODES);
    edges[i].weight = 1 + below(1000);
    edges[i].next = first[a];
    first[a] = i;
  }
}

static OWN u32 dijkstra(u32 start) {
  u32 reached = 0;
  for (u32 i = 0; i < NODES; i++) distance[i] = FAR;
  heaped = 0;
  distance[start] = 0;
  push(0, start);
  while (heaped) {
    struct item now = pop();
    if (now.distance != distance[now.node]) continue;
    reached++;
    for (u32 e = first[now.node]; e; e = edges[e].next) {
      u32 d = now.distance + edges[e].weight;
      if (d >= distance[edges[e].to]) continue;
      distance[edges[e].to] = d;
      push(d, edges[e].to);
    }
  }
  return reached;
}

static OWN void make_grid(void) {
  for (u32 i = 0; i < SIDE * SIDE; i++) grid[i] = below(100) < 28;
  for (u32 i = 0; i < SIDE; i++) grid[i] = grid[i * SIDE] = grid[SIDE * SIDE - 1 - i] = grid[i * SIDE + SIDE - 1] = 1;
}

static u32 guess(u32 at, u32 goal) {
  s32 dx = (s32)(at % SIDE) - (s32)(goal % SIDE), dy = (s32)(at / SIDE) - (s32)(goal / SIDE);
  if (dx < 0) dx = -dx;
  if (dy < 0) dy = -dy;
  return dx > dy ? (u32)(10 * dx + 4 * dy) : (u32)(10 * dy + 4 * dx);
}

static OWN u32 a_star(u32 start, u32 goal) {
  static const s32 steps[8] = {1, -1, SIDE, -SIDE, SIDE + 1, SIDE - 1, -SIDE + 1, -SIDE - 1};
  u32 looked = 0;
  for (u32 i = 0; i < SIDE * SIDE; i++) cost[i] = FAR;
  memset(closed, 0, sizeof closed);
  heaped = 0;
  grid[start] = grid[goal] = 0;
  cost[start] = 0;
  push(guess(start, goal), start);
  while (heaped) {
    u32 at = pop().node;
    if (closed[at]) continue;
    closed[at] = 1;
    looked++;
    if (at == goal) break;
    for (u32 k = 0; k < 8; k++) {
      u32 to = at + (u32)steps[k];
      if (grid[to] || closed[to]) continue;
      u32 c = cost[at] + (k < 4 ? 10 : 14);
      if (c >= cost[to]) continue;
      cost[to] = c;
      from[to] = at;
      push(c + guess(to, goal), to);
    }
  }
  if (cost[goal] == FAR) return looked;
  u32 length = 0;
  for (u32 at = goal; at != start; at = from[at]) length++;
  note(length);
  return cost[goal] * 4096 + looked;
}

static OWN u32 all_pairs(void) {
  for (u32 i = 0; i < 40; i++)
    for (u32 j = 0; j < 40; j++) all[i][j] = i == j ? 0 : below(6) == 0 ? 1 + below(50) : FAR;
  for (u32 k = 0; k < 40; k++)
    for (u32 i = 0; i < 40; i++)
      for (u32 j = 0; j < 40; j++)
        if (all[i][k] + all[k][j] < all[i][j]) all[i][j] = all[i][k] + all[k][j];
  u32 total = 0;
  for (u32 i = 0; i < 40; i++) total += all[i][(i * 7 + 3) % 40];
  return total;
}

static void prepare(void) { make_graph(); }

static void turn(u32 n) {
  if (n % 4 == 0) make_graph();
  note(dijkstra(n * 31 % NODES));
  for (u32 i = 0; i < NODES; i += 151) note(distance[i]);
  make_grid();
  note(a_star(SIDE + 1, SIDE * (SIDE - 2) + SIDE - 2 - n % 8));
  note(all_pairs());
}
