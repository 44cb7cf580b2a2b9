/* Merge sort of a linked list and of an array, both stable: keys with ranks. */
#include "lib.h"
#define N 300
struct item { struct item *next; s16 key; u16 rank; };
static struct item pool[N];
static u32 left[N], right[N];
static struct item *merge(struct item *a, struct item *b) {
  struct item head = {0}, *tail = &head;
  while (a && b) {
    if (b->key < a->key) {
      tail->next = b;
      b = b->next;
    } else {
      tail->next = a;
      a = a->next;
    }
    tail = tail->next;
  }
  tail->next = a ? a : b;
  return head.next;
}
static struct item *sort(struct item *list) {
  if (!list || !list->next) return list;
  struct item *slow = list, *fast = list->next;
  while (fast && fast->next) {
    slow = slow->next;
    fast = fast->next->next;
  }
  fast = slow->next;
  slow->next = 0;
  return merge(sort(list), sort(fast));
}
static void bottom_up(u32 *v, u32 *t, int n) {
  for (int width = 1; width < n; width *= 2) {
    for (int lo = 0; lo < n; lo += 2 * width) {
      int mid = lo + width < n ? lo + width : n, hi = lo + 2 * width < n ? lo + 2 * width : n;
      for (int i = lo, j = mid, k = lo; k < hi; k++)
        t[k] = i < mid && (j >= hi || v[i] >> 16 <= v[j] >> 16) ? v[i++] : v[j++];
    }
    for (int i = 0; i < n; i++) v[i] = t[i];
  }
}
int main(void) {
  for (int i = 0; i < N; i++) {
    s16 key = (s16)(random_() % 61 - 30);
    pool[i] = (struct item){i + 1 < N ? &pool[i + 1] : 0, key, (u16)i};
    left[i] = (u32)(key + 30) << 16 | (u32)i;
  }
  int ordered = 1;
  u64 sum = 0;
  struct item *list = sort(pool);
  bottom_up(left, right, N);
  for (int i = 0; list; list = list->next, i++) {
    if (list->next) ordered &= list->key < list->next->key || (list->key == list->next->key && list->rank < list->next->rank);
    ordered &= left[i] == ((u32)(list->key + 30) << 16 | list->rank);
    sum = sum * 131 + (u64)(s64)list->key + list->rank;
  }
  line("ordered", (u64)ordered);
  line("sum", sum);
  flush();
  return ordered;
}
