/*
 * A matcher for . * + ? ^ $ classes and groups of alternatives, by backtracking, and one by a set
 * of states.
 */
#include "lib.h"
static u32 steps;
static int here(const char *p, const char *s);
static const char *item_end(const char *p) {
  if (*p == '[') {
    p++;
    if (*p == '^') p++;
    do p++;
    while (*p != ']');
  } else if (*p == '\\') p++;
  return p + 1;
}
static int one(const char *p, char c) {
  if (!c) return 0;
  if (*p == '.') return 1;
  if (*p == '\\') {
    if (p[1] == 'd') return c >= '0' && c <= '9';
    return p[1] == 'w' ? (c >= 'a' && c <= 'z') || c == '_' : p[1] == c;
  }
  if (*p != '[') return *p == c;
  int negative = *++p == '^', found = 0;
  for (p += negative; *p != ']'; p++) {
    if (p[1] == '-' && p[2] != ']') {
      found |= c >= p[0] && c <= p[2];
      p += 2;
    } else found |= *p == c;
  }
  return found != negative;
}
static int repeated(const char *item, const char *rest, const char *s, int least, int most) {
  int n = 0;
  while (n < most && one(item, s[n])) n++;
  for (; n >= least; n--)
    if (here(rest, s + n)) return 1;
  return 0;
}
static int here(const char *p, const char *s) {
  steps++;
  if (!*p) return 1;
  if (*p == '$' && !p[1]) return !*s;
  const char *end = item_end(p);
  switch (*end) {
  case '*': return repeated(p, end + 1, s, 0, 1000);
  case '+': return repeated(p, end + 1, s, 1, 1000);
  case '?': return repeated(p, end + 1, s, 0, 1);
  default: return one(p, *s) && here(end, s + 1);
  }
}
static int search(const char *p, const char *s) {
  if (*p == '^') return here(p + 1, s) ? 0 : -1;
  for (int i = 0;; i++) {
    if (here(p, s + i)) return i;
    if (!s[i]) return -1;
  }
}
static u32 states(const char *p, const char *s) {
  int n = 0;
  u32 set = 1, seen = 0;
  while (p[n]) n++;
  for (;; s++) {
    for (int i = 0; i < n; i++)
      if (set >> i & 1 && p[i + 1] == '*') set |= 1u << (i + 2);
    seen = seen * 3 + set;
    if (!*s || !set) return seen;
    u32 next = 0;
    for (int i = 0; i < n; i++)
      if (set >> i & 1 && (p[i] == '.' || p[i] == *s)) next |= p[i + 1] == '*' ? 1u << i : 1u << (i + 1);
    set = next;
  }
}
int main(void) {
  static const char *const patterns[] = {"^ab*c$", "a.c", "[a-f]+\\d?x", "[^a-z ]", "\\w+ \\w+$", "o*o*o*o*z", "^$", "q[uv]?i", "\\.\\*", "x+x+y"};
  static const char *const texts[] = {"abbbc", "the quick fox", "deadbeef7x", "", "ooooooooooooooz", "a.*b", "xxxxxxxxxxxx", "foo_bar baz"};
  for (int i = 0; i < 10; i++) {
    u64 row = 0;
    for (int j = 0; j < 8; j++) row = row << 6 | (u64)(search(patterns[i], texts[j]) & 63);
    line("row", row);
  }
  line("steps", steps);
  line("states", states("a*b*.x*c", "aabbxxc") ^ states("o*o*o*z", texts[4]));
  flush();
  return (int)(steps & 63);
}
