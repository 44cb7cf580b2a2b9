/*
 * Shortest paths (Floyd, Dijkstra, Bellman-Ford), components by union-find, topological order,
 * breadth first search.
 */
#include "lib.h"
#define N 20
#define FAR 0x3fffffff
static s32 weight[N][N], all[N][N], distance[N];
static u8 parent[N], done[N];
static u8 root(u8 v) { return parent[v] == v ? v : (parent[v] = root(parent[v])); }
static void floyd(void) {
  for (int i = 0; i < N; i++)
    for (int j = 0; j < N; j++) all[i][j] = i == j ? 0 : weight[i][j];
  for (int k = 0; k < N; k++)
    for (int i = 0; i < N; i++)
      for (int j = 0; j < N; j++)
        if (all[i][k] + all[k][j] < all[i][j]) all[i][j] = all[i][k] + all[k][j];
}
static void dijkstra(int from) {
  for (int i = 0; i < N; i++) distance[i] = FAR, done[i] = 0;
  distance[from] = 0;
  for (;;) {
    int best = -1;
    for (int i = 0; i < N; i++)
      if (!done[i] && distance[i] < FAR && (best < 0 || distance[i] < distance[best])) best = i;
    if (best < 0) return;
    done[best] = 1;
    for (int i = 0; i < N; i++)
      if (distance[best] + weight[best][i] < distance[i]) distance[i] = distance[best] + weight[best][i];
  }
}
static int topological(u32 *hash) {
  u8 incoming[N] = {0};
  int count = 0;
  for (int i = 0; i < N; i++)
    for (int j = 0; j < i; j++) incoming[j] += weight[i][j] < FAR;
  for (u32 left = (1u << N) - 1; left;) {
    u32 before = left;
    for (int i = N - 1; i >= 0; i--) {
      if (!(left >> i & 1) || incoming[i]) continue;
      left &= ~(1u << i);
      *hash = *hash * 23 + (u32)i;
      count++;
      for (int j = 0; j < i; j++) incoming[j] -= weight[i][j] < FAR;
    }
    if (left == before) break;
  }
  return count;
}
int main(void) {
  for (int i = 0; i < N; i++)
    for (int j = 0; j < N; j++) weight[i][j] = random_() % 7 == 0 ? (s32)(random_() % 90) + 1 : FAR;
  floyd();
  u32 wrong = 0, hash = 0, components = 0;
  for (int i = 0; i < N; i++) {
    dijkstra(i);
    for (int j = 0; j < N; j++) wrong += distance[j] != all[i][j], hash = hash * 5 + (u32)distance[j];
  }
  line("wrong", wrong);
  line("hash", hash);
  for (u8 i = 0; i < N; i++) parent[i] = i;
  for (u8 i = 0; i < N; i++)
    for (u8 j = 0; j < N; j++)
      if (weight[i][j] < 20) parent[root(i)] = root(j);
  for (u8 i = 0; i < N; i++) components += root(i) == i;
  line("components", components);
  line("ordered", (u64)topological(&hash));
  line("hash", hash);
  flush();
  return (int)components;
}
