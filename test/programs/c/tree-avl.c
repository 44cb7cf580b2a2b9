/* An AVL tree: insertion and deletion with rotations, order statistics, checks of balance. */
#include "lib.h"
struct node { struct node *child[2]; s32 key; s8 height; u16 size; };
static struct node pool[256];
static int used;
static int height(const struct node *t) { return t ? t->height : 0; }
static int size(const struct node *t) { return t ? t->size : 0; }
static void update(struct node *t) {
  int l = height(t->child[0]), r = height(t->child[1]);
  t->height = (s8)((l > r ? l : r) + 1);
  t->size = (u16)(size(t->child[0]) + size(t->child[1]) + 1);
}
static struct node *rotate(struct node *t, int side) {
  struct node *up = t->child[!side];
  t->child[!side] = up->child[side];
  up->child[side] = t;
  update(t);
  update(up);
  return up;
}
static struct node *balance(struct node *t) {
  update(t);
  int lean = height(t->child[1]) - height(t->child[0]);
  if (lean >= -1 && lean <= 1) return t;
  int heavy = lean > 0;
  struct node *c = t->child[heavy];
  if (height(c->child[!heavy]) > height(c->child[heavy])) t->child[heavy] = rotate(c, heavy);
  return rotate(t, !heavy);
}
static struct node *insert(struct node *t, s32 key) {
  if (!t) {
    t = &pool[used++];
    *t = (struct node){{0, 0}, key, 1, 1};
    return t;
  }
  if (key == t->key) return t;
  int side = key > t->key;
  t->child[side] = insert(t->child[side], key);
  return balance(t);
}
static struct node *erase(struct node *t, s32 key) {
  if (!t) return 0;
  if (key == t->key) {
    if (!t->child[0] || !t->child[1]) return t->child[0] ? t->child[0] : t->child[1];
    struct node *n = t->child[1];
    while (n->child[0]) n = n->child[0];
    t->key = n->key;
    t->child[1] = erase(t->child[1], n->key);
  } else {
    int side = key > t->key;
    t->child[side] = erase(t->child[side], key);
  }
  return balance(t);
}
static s32 nth(const struct node *t, int n) {
  int l = size(t->child[0]);
  return n < l ? nth(t->child[0], n) : n > l ? nth(t->child[1], n - l - 1) : t->key;
}
int main(void) {
  struct node *root = 0;
  for (int i = 0; i < 200; i++) root = insert(root, (s32)(random_() % 5000) - 2500);
  for (s32 i = 0; i < 40; i++) root = insert(root, i);
  line("size", (u64)size(root));
  line("height", (u64)height(root));
  for (s32 i = 0; i < 60; i++) root = erase(root, i % 2 ? i : nth(root, (int)(random_() % root->size)));
  u64 sum = 0;
  for (int i = 0; i < size(root); i++) sum = sum * 37 + (u64)(s64)nth(root, i);
  line("size", (u64)size(root));
  line("height", (u64)height(root));
  line("sum", sum);
  flush();
  return height(root);
}
