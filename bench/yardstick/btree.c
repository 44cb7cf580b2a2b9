/* A B-tree of records with splits and merges, walked in order, and asked for ranges. */
#include "yard.h"

#define LEAST 6
#define MOST (2 * LEAST - 1)
#define NODES 1024

struct node { u16 keys_used, leaf; u32 keys[MOST]; u32 values[MOST]; u16 children[MOST + 1]; };
static struct node nodes[NODES];
static u16 root, free_list[NODES];
static u32 free_used, splits, merges;

static u16 make(u32 leaf) {
  u16 n = free_list[--free_used];
  nodes[n].keys_used = 0;
  nodes[n].leaf = (u16)leaf;
  return n;
}
static void release(u16 n) { free_list[free_used++] = n; }

static void insert_key(struct node *n, u32 at, u32 key, u32 value) {
  for (u32 i = n->keys_used; i > at; i--) n->keys[i] = n->keys[i - 1], n->values[i] = n->values[i - 1];
  n->keys[at] = key;
  n->values[at] = value;
  n->keys_used++;
}
static void remove_key(struct node *n, u32 at) {
  n->keys_used--;
  for (u32 i = at; i < n->keys_used; i++) n->keys[i] = n->keys[i + 1], n->values[i] = n->values[i + 1];
}
static u32 place(const struct node *n, u32 key) {
  u32 low = 0, high = n->keys_used;
  while (low < high) {
    u32 middle = (low + high) / 2;
    if (n->keys[middle] < key) low = middle + 1;
    else high = middle;
  }
  return low;
}

static OWN void split(struct node *parent, u32 at) {
  struct node *full = &nodes[parent->children[at]];
  u16 fresh = make(full->leaf);
  struct node *right = &nodes[fresh];
  splits++;
  for (u32 i = 0; i < LEAST - 1; i++) right->keys[i] = full->keys[LEAST + i], right->values[i] = full->values[LEAST + i];
  if (!full->leaf)
    for (u32 i = 0; i < LEAST; i++) right->children[i] = full->children[LEAST + i];
  right->keys_used = LEAST - 1;
  full->keys_used = LEAST - 1;
  for (u32 i = parent->keys_used + 1u; i > at + 1; i--) parent->children[i] = parent->children[i - 1];
  parent->children[at + 1] = fresh;
  insert_key(parent, at, full->keys[LEAST - 1], full->values[LEAST - 1]);
}

static OWN void insert(u32 key, u32 value) {
  if (nodes[root].keys_used == MOST) {
    u16 top = make(0);
    nodes[top].children[0] = root;
    root = top;
    split(&nodes[top], 0);
  }
  for (struct node *n = &nodes[root];;) {
    u32 at = place(n, key);
    if (at < n->keys_used && n->keys[at] == key) {
      n->values[at] += value;
      return;
    }
    if (n->leaf) {
      insert_key(n, at, key, value);
      return;
    }
    if (nodes[n->children[at]].keys_used == MOST) {
      split(n, at);
      continue;
    }
    n = &nodes[n->children[at]];
  }
}

/* Child `at` and the one behind it become one. */
static OWN void merge(struct node *n, u32 at) {
  struct node *left = &nodes[n->children[at]], *right = &nodes[n->children[at + 1]];
  merges++;
  left->keys[LEAST - 1] = n->keys[at];
  left->values[LEAST - 1] = n->values[at];
  for (u32 i = 0; i < LEAST - 1; i++) left->keys[LEAST + i] = right->keys[i], left->values[LEAST + i] = right->values[i];
  if (!left->leaf)
    for (u32 i = 0; i < LEAST; i++) left->children[LEAST + i] = right->children[i];
  left->keys_used = MOST;
  release(n->children[at + 1]);
  remove_key(n, at);
  for (u32 i = at + 1; i <= n->keys_used; i++) n->children[i] = n->children[i + 1];
}

/* Makes child `at` one that may lose a key; where it is then. */
static OWN u32 enrich(struct node *n, u32 at) {
  struct node *c = &nodes[n->children[at]];
  if (c->keys_used >= LEAST) return at;
  if (at > 0 && nodes[n->children[at - 1]].keys_used >= LEAST) {
    struct node *left = &nodes[n->children[at - 1]];
    insert_key(c, 0, n->keys[at - 1], n->values[at - 1]);
    if (!c->leaf) {
      for (u32 i = c->keys_used; i > 0; i--) c->children[i] = c->children[i - 1];
      c->children[0] = left->children[left->keys_used];
    }
    n->keys[at - 1] = left->keys[left->keys_used - 1];
    n->values[at - 1] = left->values[left->keys_used - 1];
    left->keys_used--;
    return at;
  }
  if (at < n->keys_used && nodes[n->children[at + 1]].keys_used >= LEAST) {
    struct node *right = &nodes[n->children[at + 1]];
    insert_key(c, c->keys_used, n->keys[at], n->values[at]);
    if (!c->leaf) c->children[c->keys_used] = right->children[0];
    n->keys[at] = right->keys[0];
    n->values[at] = right->values[0];
    if (!right->leaf)
      for (u32 i = 0; i < right->keys_used; i++) right->children[i] = right->children[i + 1];
    remove_key(right, 0);
    return at;
  }
  if (at == n->keys_used) at--;
  merge(n, at);
  return at;
}

static OWN int erase(u16 from, u32 key) {
  struct node *n = &nodes[from];
  u32 at = place(n, key);
  int here = at < n->keys_used && n->keys[at] == key;
  if (n->leaf) {
    if (here) remove_key(n, at);
    return here;
  }
  if (here) {
    struct node *before = &nodes[n->children[at]];
    if (before->keys_used >= LEAST) {
      struct node *last = before;
      while (!last->leaf) last = &nodes[last->children[last->keys_used]];
      n->keys[at] = last->keys[last->keys_used - 1];
      n->values[at] = last->values[last->keys_used - 1];
      return erase(n->children[at], n->keys[at]);
    }
    if (nodes[n->children[at + 1]].keys_used >= LEAST) {
      struct node *next = &nodes[n->children[at + 1]];
      while (!next->leaf) next = &nodes[next->children[0]];
      n->keys[at] = next->keys[0];
      n->values[at] = next->values[0];
      return erase(n->children[at + 1], n->keys[at]);
    }
    merge(n, at);
    return erase(n->children[at], key);
  }
  at = enrich(n, at);
  return erase(n->children[at], key);
}

static OWN u32 range(u16 from, u32 low, u32 high) {
  const struct node *n = &nodes[from];
  u32 total = 0, at = place(n, low);
  for (; at <= n->keys_used; at++) {
    if (!n->leaf) total += range(n->children[at], low, high);
    if (at == n->keys_used || n->keys[at] > high) break;
    total = total * 3 + n->keys[at] + n->values[at];
  }
  return total;
}

static void prepare(void) {
  for (u32 i = 0; i < NODES; i++) release((u16)(NODES - 1 - i));
  root = make(1);
}

static void turn(u32 n) {
  u32 gone = 0;
  for (u32 i = 0; i < 900; i++) insert(random_() % 4000, i + n);
  for (u32 i = 0; i < 1100; i++) {
    gone += (u32)erase(root, random_() % 4000);
    if (!nodes[root].leaf && nodes[root].keys_used == 0) {
      u16 old = root;
      root = nodes[old].children[0];
      release(old);
    }
  }
  note(gone);
  for (u32 i = 0; i < 30; i++) {
    u32 low = below(3900);
    note(range(root, low, low + 90));
  }
  note((u64)splits << 32 | merges);
}
