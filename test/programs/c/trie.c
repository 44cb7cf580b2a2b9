/*
 * A trie of words with counts, completions, longest prefixes, and an Aho-Corasick-like scan with
 * failure links.
 */
#include "lib.h"
struct node { u8 next[27]; u8 fail, count, depth; };
static struct node nodes[100];
static u8 used = 1;
static const char *const words[] = {"he", "she", "his", "hers", "here", "hero", "shell", "sells", "sea", "seashore", "a", "as", "ash", "hash", "elf", "trace"};
static void add(const char *s) {
  u8 at = 0;
  for (; *s; s++) {
    u8 *slot = &nodes[at].next[*s - 'a'];
    if (!*slot) {
      *slot = used;
      nodes[used++].depth = (u8)(nodes[at].depth + 1);
    }
    at = *slot;
  }
  nodes[at].count++;
}
static void link_(void) {
  u8 queue[100];
  int head = 0, tail = 0;
  queue[tail++] = 0;
  while (head < tail) {
    u8 at = queue[head++];
    for (int c = 0; c < 27; c++) {
      u8 child = nodes[at].next[c], back = at ? nodes[nodes[at].fail].next[c] : 0;
      if (!child) nodes[at].next[c] = back;
      else {
        nodes[child].fail = back;
        nodes[child].count = (u8)(nodes[child].count + nodes[back].count);
        queue[tail++] = child;
      }
    }
  }
}
static int complete(u8 at, char *text, int n) {
  int total = nodes[at].count;
  if (nodes[at].count) {
    text[n] = 0;
    puts_(text);
    put(' ');
  }
  for (int c = 0; c < 26; c++)
    if (nodes[at].next[c]) {
      text[n] = (char)('a' + c);
      total += complete(nodes[at].next[c], text, n + 1);
    }
  return total;
}
int main(void) {
  for (unsigned i = 0; i < sizeof words / sizeof *words; i++) add(words[i]);
  char text[16];
  line("\ntotal", (u64)complete(0, text, 0));
  line("nodes", used);
  link_();
  static const char scanned[] = "ushersellseashellsandheroesashehashishertracelf";
  u32 matches = 0, hash = 0;
  u8 at = 0;
  for (const char *s = scanned; *s; s++) {
    at = nodes[at].next[*s - 'a'];
    matches += nodes[at].count;
    hash = hash * 31 + nodes[at].depth;
  }
  line("matches", matches);
  line("hash", hash);
  flush();
  return (int)matches;
}
