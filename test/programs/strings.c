/* String functions, a tokenizer, a matcher, run-length coding. */
#include "lib.h"
static word length(const char *s) {
  const char *p = s;
  while (*p) p++;
  return (word)(p - s);
}
static int compare(const char *a, const char *b) {
  for (; *a && *a == *b; a++, b++) {}
  return (u8)*a - (u8)*b;
}
static const char *find(const char *hay, const char *needle) {
  for (; *hay; hay++) {
    const char *h = hay, *n = needle;
    while (*n && *h == *n) h++, n++;
    if (!*n) return hay;
  }
  return 0;
}
static int match(const char *p, const char *s) {
  for (; *p; p++, s++) {
    if (*p == '*') {
      for (p++;; s++) {
        if (match(p, s)) return 1;
        if (!*s) return 0;
      }
    }
    if (!*s || (*p != '?' && *p != *s)) return 0;
  }
  return !*s;
}
static void reverse(char *s) {
  for (char *e = s + length(s) - 1; s < e; s++, e--) {
    char t = *s;
    *s = *e;
    *e = t;
  }
}
static s64 number(const char *s) {
  s64 v = 0;
  int negative = *s == '-';
  for (s += negative; *s >= '0' && *s <= '9'; s++) v = v * 10 + (*s - '0');
  return negative ? -v : v;
}
int main(int argc, char **argv, char **envp) {
  (void)argc;
  static char text[] = "the quick brown fox jumps over the lazy dog";
  char copy[64];
  memcpy(copy, text, sizeof text);
  line("length", length(copy));
  line("find", (u64)(find(copy, "lazy") - copy));
  line("missing", find(copy, "cat") != 0);
  char *word_ = copy;
  for (char *p = copy;; p++)
    if (*p == ' ' || !*p) {
      char last = *p;
      *p = 0;
      reverse(word_);
      puts_(word_);
      put(last ? '_' : '\n');
      if (!last) break;
      word_ = p + 1;
    }
  line("cmp", (u64)(s64)compare("alpha", "alphabet"));
  line("match", (u64)(match("*qu?ck*o?", text) << 1 | match("the*cat", text)));
  line("number", (u64)number("-9223372036854775807"));
  memset(copy, 'x', 20);
  copy[20] = 0;
  copy[7] = 'y';
  for (char *p = copy; *p;) {
    int n = 0;
    char c = *p;
    while (*p == c) p++, n++;
    put(c);
    hex((u64)n);
  }
  put('\n');
  line("memcmp", (u64)(s64)memcmp("abcd\xff", "abcd\x01", 5));
  line("argv", length(argv[0]) > 0);
  line("env", envp[0] != 0);
  line("utf", 0);
  flush();
  return 0;
}
