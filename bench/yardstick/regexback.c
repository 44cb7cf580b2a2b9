/* Regular expressions matched by backtracking: classes, repetition, groups, alternatives, anchors. */
#include "yard.h"

#define SIZE 6000

static u8 text[SIZE + 1];
static u64 steps;

struct matcher { const char *end; const u8 *start; u32 depth; };

static const char *skip_class(const char *p) {
  p++;
  if (*p == '^') p++;
  while (*p != ']') p++;
  return p + 1;
}

/* Behind an atom of the pattern: a byte, a class, a group. */
static const char *behind(const char *p) {
  if (*p == '\\') return p + 2;
  if (*p == '[') return skip_class(p);
  if (*p != '(') return p + 1;
  u32 depth = 0;
  do {
    if (*p == '\\') p++;
    else if (*p == '(') depth++;
    else if (*p == ')') depth--;
    p++;
  } while (depth);
  return p;
}

static int in_class(const char *p, u8 c) {
  int not = *++p == '^', found = 0;
  p += not;
  for (; *p != ']'; p++) {
    u8 low = (u8)*p, high = low;
    if (p[1] == '-' && p[2] != ']') {
      high = (u8)p[2];
      p += 2;
    }
    found |= c >= low && c <= high;
  }
  return found != not;
}

static int single(const char *p, u8 c) {
  if (c == 0) return 0;
  switch (*p) {
    case '.': return c != '\n';
    case '[': return in_class(p, c);
    case '\\':
      if (p[1] == 'w') return (c >= 'a' && c <= 'z') || c == '_';
      if (p[1] == 's') return c == ' ' || c == '\n' || c == ',';
      return c == (u8)p[1];
    default: return c == (u8)*p;
  }
}

typedef const u8 *result;
struct rest { const char *from, *to; const struct rest *next; const char *loop; };
static result match_here(const char *p, const char *end, const u8 *s, const struct rest *next);

static result go_on(const u8 *s, const struct rest *next) {
  return next ? match_here(next->from, next->to, s, next->next) : s;
}

/* The alternatives of p up to end, each followed by the rest. */
static OWN result match_any(const char *p, const char *end, const u8 *s, const struct rest *next) {
  const char *start = p;
  while (p < end) {
    if (*p == '|') {
      result r = match_here(start, p, s, next);
      if (r) return r;
      start = ++p;
    } else p = behind(p);
  }
  return match_here(start, end, s, next);
}

static OWN result match_here(const char *p, const char *end, const u8 *s, const struct rest *next) {
  steps++;
  if (p == end) return go_on(s, next);
  if (*p == '$') return *s == 0 || *s == '\n' ? match_here(p + 1, end, s, next) : 0;
  const char *after = behind(p);
  char op = after < end ? *after : 0;
  struct rest follow = {after, end, next, 0};
  if (*p == '(') {
    if (op == '?') {
      follow.from++;
      result r = match_any(p + 1, after - 1, s, &follow);
      return r ? r : match_here(after + 1, end, s, next);
    }
    if (op == '*' || op == '+') {
      struct rest again = {p, end, next, 0};
      if (op == '+') {
        struct rest either = {after + 1, end, next, 0};
        result r = match_any(p + 1, after - 1, s, &again);
        return r ? r : match_any(p + 1, after - 1, s, &either);
      }
      if (single(p + 1, *s) || p[1] == '(') {
        result r = match_any(p + 1, after - 1, s, &again);
        if (r) return r;
      }
      return match_here(after + 1, end, s, next);
    }
    return match_any(p + 1, after - 1, s, &follow);
  }
  if (op == '*' || op == '+' || op == '?') {
    u32 n = 0, least = op == '+', most = op == '?' ? 1 : 200;
    while (n < most && single(p, s[n])) n++;
    for (;; n--) {
      if (n < least) return 0;
      result r = match_here(after + 1, end, s + n, next);
      if (r) return r;
      if (n == 0) return 0;
    }
  }
  return single(p, *s) ? match_here(after, end, s + 1, next) : 0;
}

static OWN u32 find_all(const char *pattern, u64 *places) {
  const char *end = pattern;
  u32 found = 0;
  while (*end) end++;
  for (const u8 *s = text; *s;) {
    result r = match_any(pattern, end, s, 0);
    if (r && r > s) {
      found++;
      *places = *places * 31 + (u64)(s - text) + (u64)(r - s) * 7;
      s = r;
    } else s++;
  }
  return found;
}

static void prepare(void) {}

static void turn(u32 n) {
  static const char *const patterns[] = {
    "to\\w*ren", "(ka|mi)+\\s", "[^aeiou \n,]+[aeiou]*$", "(un|zi)(da|ne)*la", "\\w+er,\\s*\\w*ist",
    "a.*b?c*o", "(v|s)(e|u)(l|r)?[a-m]+", "(qu(and)?|o)+\\s\\w\\w\\w\\s",
  };
  write_text(text, SIZE);
  u64 places = 0;
  u32 at = n % 4 * 2;
  note(find_all(patterns[at], &places));
  note(find_all(patterns[at + 1], &places));
  note(places);
  note(steps);
}
