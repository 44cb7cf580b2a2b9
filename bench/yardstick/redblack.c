/* Trees of pointers that are red and black, with insertion and removal; a skip list; lists sorted. */
#include "yard.h"

#define N 2048

struct node { struct node *child[2], *parent; u32 key, red, count; };
static struct node pool[N], *root, *spare;

static void turn_at(struct node *a, int side) {
  struct node *b = a->child[!side];
  a->child[!side] = b->child[side];
  if (b->child[side]) b->child[side]->parent = a;
  b->parent = a->parent;
  if (!a->parent) root = b;
  else a->parent->child[a == a->parent->child[1]] = b;
  b->child[side] = a;
  a->parent = b;
}

static OWN void insert(u32 key) {
  struct node *parent = 0, **place = &root;
  while (*place) {
    parent = *place;
    if (parent->key == key) {
      parent->count++;
      return;
    }
    place = &parent->child[key > parent->key];
  }
  struct node *n = spare;
  spare = n->parent;
  *n = (struct node){{0, 0}, parent, key, 1, 1};
  *place = n;
  while (n->parent && n->parent->red) {
    struct node *p = n->parent, *g = p->parent;
    int side = p == g->child[1];
    struct node *uncle = g->child[!side];
    if (uncle && uncle->red) {
      p->red = uncle->red = 0;
      g->red = 1;
      n = g;
      continue;
    }
    if (n == p->child[!side]) {
      turn_at(p, side);
      p = n;
    }
    p->red = 0;
    g->red = 1;
    turn_at(g, !side);
    break;
  }
  root->red = 0;
}

static void mend(struct node *x, struct node *parent) {
  while (x != root && (!x || !x->red)) {
    int side = x == parent->child[1];
    struct node *w = parent->child[!side];
    if (w->red) {
      w->red = 0;
      parent->red = 1;
      turn_at(parent, side);
      w = parent->child[!side];
    }
    if ((!w->child[0] || !w->child[0]->red) && (!w->child[1] || !w->child[1]->red)) {
      w->red = 1;
      x = parent;
      parent = x->parent;
      continue;
    }
    if (!w->child[!side] || !w->child[!side]->red) {
      w->child[side]->red = 0;
      w->red = 1;
      turn_at(w, !side);
      w = parent->child[!side];
    }
    w->red = parent->red;
    parent->red = 0;
    w->child[!side]->red = 0;
    turn_at(parent, side);
    x = root;
  }
  if (x) x->red = 0;
}

static OWN int erase(u32 key) {
  struct node *n = root;
  while (n && n->key != key) n = n->child[key > n->key];
  if (!n) return 0;
  if (n->child[0] && n->child[1]) {
    struct node *next = n->child[1];
    while (next->child[0]) next = next->child[0];
    n->key = next->key;
    n->count = next->count;
    n = next;
  }
  struct node *x = n->child[0] ? n->child[0] : n->child[1], *parent = n->parent;
  if (x) x->parent = parent;
  if (!parent) root = x;
  else parent->child[n == parent->child[1]] = x;
  if (!n->red && root) mend(x, parent);
  n->parent = spare;
  spare = n;
  return 1;
}

/* Black height, or 0 where a rule is broken. */
static OWN u32 height(const struct node *n) {
  if (!n) return 1;
  u32 a = height(n->child[0]), b = height(n->child[1]);
  if (a != b || a == 0) return 0;
  if (n->red && ((n->child[0] && n->child[0]->red) || (n->child[1] && n->child[1]->red))) return 0;
  return a + !n->red;
}

/* A skip list of eight floors. */
struct stop { u32 key; u16 next[8]; };
static struct stop stops[1024];
static OWN u32 skips(u32 seed) {
  u32 used = 1, hops = 0, found = 0;
  memset(&stops[0], 0, sizeof stops[0]);
  for (u32 i = 0; i < 1000; i++) {
    u32 key = 1 + (seed = seed * 1103515245u + 12345u) % 4096, floor = 8, at = 0, floors = 1;
    u16 before[8];
    while (floor--) {
      while (stops[at].next[floor] && stops[stops[at].next[floor]].key < key) at = stops[at].next[floor], hops++;
      before[floor] = (u16)at;
    }
    u32 after = stops[at].next[0];
    if (after && stops[after].key == key) {
      found++;
      continue;
    }
    while (floors < 8 && (seed >> (14 + floors) & 3) == 0) floors++;
    u32 fresh = used++;
    stops[fresh].key = key;
    for (u32 f = 0; f < floors; f++) {
      stops[fresh].next[f] = stops[before[f]].next[f];
      stops[before[f]].next[f] = (u16)fresh;
    }
    for (u32 f = floors; f < 8; f++) stops[fresh].next[f] = 0;
  }
  return hops * 4 + found;
}

/* Lists: made, turned round, merged in order. */
struct link { struct link *next; u32 key; };
static struct link links[800];
static struct link *merged(struct link *a, struct link *b) {
  struct link first, *last = &first;
  while (a && b) {
    struct link **least = a->key <= b->key ? &a : &b;
    last->next = *least;
    last = *least;
    *least = last->next;
  }
  last->next = a ? a : b;
  return first.next;
}
static OWN struct link *sorted(struct link *list) {
  if (!list || !list->next) return list;
  struct link *slow = list, *fast = list->next;
  while (fast && fast->next) slow = slow->next, fast = fast->next->next;
  struct link *half = slow->next;
  slow->next = 0;
  return merged(sorted(list), sorted(half));
}

static void prepare(void) {
  for (u32 i = 0; i < N; i++) {
    pool[i].parent = spare;
    spare = &pool[i];
  }
}

static void turn(u32 n) {
  u32 gone = 0, hash = 0;
  for (u32 i = 0; i < 700; i++) insert(random_() % 1900);
  for (u32 i = 0; i < 500; i++) gone += (u32)erase(random_() % 1900);
  u32 black = height(root);
  must(black > 0, "not red and black");
  note(gone * 64 + black);
  note(skips(n));
  for (u32 i = 0; i < COUNT(links); i++) links[i] = (struct link){i ? &links[i - 1] : 0, random_() >> 8};
  u32 before = 0;
  for (struct link *l = sorted(&links[COUNT(links) - 1]); l; l = l->next) {
    must(l->key >= before, "list");
    hash = hash * 33 + (before = l->key);
  }
  note(hash);
}
