/*
 * Regular expressions compiled to a machine of many states, which is simulated as sets of states,
 * and as a deterministic machine whose states are made when they are reached.
 */
#include "yard.h"

#define SIZE 5000
#define STATES 256
#define SETS 512

enum { BYTE, ANY, CLASS, SPLIT, ACCEPT };
struct state { u8 kind, byte; u16 out, other; u32 class[8]; };
struct part { u16 start, end; };

static u8 text[SIZE + 1];
static struct state states[STATES];
static u32 used;
static const char *pattern;

static u16 state(u8 kind, u8 byte, u16 out, u16 other) {
  struct state *s = &states[used];
  memset(s, 0, sizeof *s);
  s->kind = kind;
  s->byte = byte;
  s->out = out;
  s->other = other;
  return (u16)used++;
}

static struct part alternatives(void);

static struct part atom(void) {
  char c = *pattern++;
  u16 end = state(SPLIT, 0, 0, 0), start;
  if (c == '(') {
    struct part inner = alternatives();
    pattern++;
    states[inner.end].out = states[inner.end].other = end;
    inner.end = end;
    return inner;
  }
  if (c == '.') start = state(ANY, 0, end, end);
  else if (c == '[') {
    start = state(CLASS, 0, end, end);
    while (*pattern != ']') {
      u32 low = (u8)*pattern++, high = low;
      if (*pattern == '-') {
        high = (u8)pattern[1];
        pattern += 2;
      }
      for (; low <= high; low++) states[start].class[low >> 5] |= 1u << (low & 31);
    }
    pattern++;
  } else start = state(BYTE, (u8)c, end, end);
  return (struct part){start, end};
}

static struct part repeated(void) {
  struct part p = atom();
  while (*pattern == '*' || *pattern == '+' || *pattern == '?') {
    char op = *pattern++;
    u16 end = state(SPLIT, 0, 0, 0), split = state(SPLIT, 0, p.start, end);
    states[p.end].out = states[p.end].other = op == '?' ? end : split;
    p.start = op == '+' ? p.start : split;
    p.end = end;
  }
  return p;
}

static struct part sequence(void) {
  struct part p = repeated();
  while (*pattern && *pattern != '|' && *pattern != ')') {
    struct part q = repeated();
    states[p.end].out = states[p.end].other = q.start;
    p.end = q.end;
  }
  return p;
}

static OWN struct part alternatives(void) {
  struct part p = sequence();
  while (*pattern == '|') {
    pattern++;
    struct part q = sequence();
    u16 end = state(SPLIT, 0, 0, 0), split = state(SPLIT, 0, p.start, q.start);
    states[p.end].out = states[p.end].other = states[q.end].out = states[q.end].other = end;
    p = (struct part){split, end};
  }
  return p;
}

static u16 compile(const char *text_of) {
  used = 0;
  pattern = text_of;
  struct part p = alternatives();
  u16 accept = state(ACCEPT, 0, 0, 0);
  states[p.end].out = states[p.end].other = accept;
  return p.start;
}

/* Sets of states: a list, and who is in it. */
struct set { u16 list[STATES]; u32 count; u32 in[STATES / 32]; };

static void enter(struct set *to, u16 s) {
  if (to->in[s >> 5] >> (s & 31) & 1) return;
  to->in[s >> 5] |= 1u << (s & 31);
  if (states[s].kind == SPLIT) {
    enter(to, states[s].out);
    if (states[s].other != states[s].out) enter(to, states[s].other);
    return;
  }
  to->list[to->count++] = s;
}

static void clear(struct set *s) {
  s->count = 0;
  memset(s->in, 0, sizeof s->in);
}

static int steps_on(const struct state *s, u8 c) {
  return s->kind == BYTE ? s->byte == c : s->kind == ANY ? c != '\n' : s->kind == CLASS && (s->class[c >> 5] >> (c & 31) & 1);
}

static int advance(const struct set *from, struct set *to, u8 c, u16 start) {
  int accepts = 0;
  clear(to);
  for (u32 i = 0; i < from->count; i++)
    if (steps_on(&states[from->list[i]], c)) enter(to, states[from->list[i]].out);
  enter(to, start);
  for (u32 i = 0; i < to->count; i++) accepts |= states[to->list[i]].kind == ACCEPT;
  return accepts;
}

/* How many places of the text end a match. */
static OWN u32 simulate(u16 start, u32 size) {
  static struct set a, b;
  struct set *now = &a, *then = &b;
  u32 found = 0;
  clear(now);
  enter(now, start);
  for (u32 i = 0; i < size; i++) {
    found += (u32)advance(now, then, text[i], start);
    struct set *held = now;
    now = then;
    then = held;
  }
  return found;
}

static struct set sets[SETS];
static u16 edges[SETS][256];
static u8 accepting[SETS];

static OWN u32 lazily(u16 start) {
  static struct set fresh;
  u32 made = 1, now = 0, found = 0;
  memset(edges, 0, sizeof edges[0]);
  clear(&sets[0]);
  enter(&sets[0], start);
  for (u32 i = 0; i < SIZE; i++) {
    u32 next = edges[now][text[i]];
    if (next == 0) {
      int accepts = advance(&sets[now], &fresh, text[i], start);
      for (next = 0; next < made; next++)
        if (memcmp(sets[next].in, fresh.in, sizeof fresh.in) == 0) break;
      if (next == made) {
        if (made == SETS) return found;
        sets[made] = fresh;
        accepting[made] = (u8)accepts;
        memset(edges[made++], 0, sizeof edges[0]);
      }
      edges[now][text[i]] = (u16)(next + 1);
      next++;
    }
    now = next - 1;
    found += accepting[now];
  }
  return found;
}

static void prepare(void) {}

static void turn(u32 n) {
  static const char *const patterns[] = {
    "(ka|mi|to)+ ", "[a-m]+(ren|sul).*er", "a.?.?.?o", "(un|zi|(da)?ne)*la,", "(o|ve|e)+(and)?[^ ]* (i|t)?", "k.*s.*v.*q",
  };
  write_text(text, SIZE);
  memset(accepting, 0, sizeof accepting);
  u16 start = compile(patterns[n % COUNT(patterns)]);
  note(used);
  note(simulate(start, 1000));
  note(lazily(start));
}
