/*
 * A small Forth: words defined in text, an inner interpreter over tokens with function pointers, a
 * return stack.
 */
#include "lib.h"
static s32 data[32];
static int top;
typedef void (*primitive)(void);
static void push(s32 v) { data[top++ & 31] = v; }
static s32 pop(void) { return data[--top & 31]; }
static void add(void) { s32 b = pop(); push(pop() + b); }
static void sub(void) { s32 b = pop(); push(pop() - b); }
static void mul(void) { s32 b = pop(); push(pop() * b); }
static void dup(void) { s32 a = pop(); push(a); push(a); }
static void swap(void) { s32 b = pop(), a = pop(); push(b); push(a); }
static void over(void) { s32 b = pop(), a = pop(); push(a); push(b); push(a); }
static void rot(void) { s32 c = pop(), b = pop(), a = pop(); push(b); push(c); push(a); }
static void less(void) { s32 b = pop(); push(pop() < b ? -1 : 0); }
static void dot(void) { line("dot", (u64)(s64)pop()); }
static void drop(void) { pop(); }
static const struct { const char *name; primitive code; } primitives[] = {
    {"+", add}, {"-", sub}, {"*", mul}, {"dup", dup}, {"swap", swap}, {"over", over}, {"rot", rot}, {"<", less}, {".", dot}, {"drop", drop}};
static struct { const char *name; int length; const char *body; } words[16];
static int defined, depth, deepest;
static int same(const char *a, int n, const char *b) {
  while (n && *b && *a == *b) a++, b++, n--;
  return n == 0 && (*b == 0 || *b == ' ');
}
static void interpret(const char *s) {
  const char *start = s;
  if (++depth > deepest) deepest = depth;
  for (;;) {
    while (*s == ' ') s++;
    if (!*s || *s == ';') break;
    const char *w = s;
    while (*s && *s != ' ') s++;
    int n = (int)(s - w), found = 0;
    if (*w == ':') {
      while (*s == ' ') s++;
      words[defined].name = s;
      for (w = s; *s != ' ';) s++;
      words[defined].length = (int)(s - w);
      words[defined++].body = s;
      while (*s != ';') s++;
      s++;
      continue;
    }
    if (same(w, n, "exit?")) {
      if (pop()) break;
      continue;
    }
    if (same(w, n, "again")) {
      s = start;
      continue;
    }
    for (int i = defined - 1; i >= 0 && !found; i--)
      if (words[i].length == n && same(w, n, words[i].name)) interpret(words[i].body), found = 1;
    for (unsigned i = 0; i < sizeof primitives / sizeof *primitives && !found; i++)
      if (same(w, n, primitives[i].name)) primitives[i].code(), found = 1;
    if (!found) {
      s32 v = 0, negative = *w == '-';
      for (w += negative; w < s; w++) v = v * 10 + *w - '0';
      push(negative ? -v : v);
    }
  }
  depth--;
}
int main(void) {
  interpret(": square dup * ; : cube dup square * ; 7 square . -5 cube . ");
  interpret(": gcd dup 1 < exit? over over < swap1 again ; : swap1 drop ;");
  interpret(": fact dup 2 < exit? dup rot * swap 1 - again ; 1 10 fact drop .");
  interpret(": fib dup 2 < exit? dup 1 - fib swap 2 - fib + ; 13 fib .");
  line("deepest", (u64)deepest);
  line("top", (u64)top);
  flush();
  return top;
}
