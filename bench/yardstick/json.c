/* JSON: documents made at random, parsed into a tree, asked, and written again in the same bytes. */
#include "yard.h"

#define SIZE 65536
#define NODES 4096

enum kind { NOTHING, FALSE, TRUE, NUMBER, STRING, LIST, OBJECT };
struct node { enum kind kind; u32 key, key_length, start, length; s64 number; struct node *first, *next; };

static u8 document[SIZE], again[SIZE];
static u32 size;
static struct node nodes[NODES];
static u32 used, at, written;

static void add(const char *s) {
  while (*s) document[size++] = (u8)*s++;
}

static void make_string(void) {
  add("\"");
  u32 n = 2 + below(14);
  for (u32 i = 0; i < n; i++) {
    u32 kind = below(24);
    if (kind == 0) add("\\n");
    else if (kind == 1) add("\\\"");
    else if (kind == 2) add("\\u00e9");
    else document[size++] = (u8)('a' + below(26));
  }
  add("\"");
}

static void make_number(void) {
  u32 shift = below(28);
  s32 v = (s32)random_() >> shift;
  char digits[12];
  int n = 0;
  u32 rest = v < 0 ? 0u - (u32)v : (u32)v;
  if (v < 0) add("-");
  do digits[n++] = (char)('0' + rest % 10);
  while (rest /= 10);
  while (n) document[size++] = (u8)digits[--n];
}

static OWN void make(u32 depth) {
  u32 kind = depth == 0 ? below(4) : 2 + below(5);
  if (depth > 3) kind = 5 + below(2);
  switch (kind) {
    case 0: add(below(2) ? "true" : "false"); break;
    case 1: add("null"); break;
    case 2: make_string(); break;
    case 3: case 4: make_number(); break;
    default: {
      u32 n = 2 + below(5);
      add(kind == 5 ? "[" : "{");
      for (u32 i = 0; i < n; i++) {
        if (i) add(",");
        if (kind == 6) {
          make_string();
          add(":");
        }
        make(depth - 1);
      }
      add(kind == 5 ? "]" : "}");
    }
  }
}

static void skip_space(void) {
  while (document[at] == ' ' || document[at] == '\n' || document[at] == '\t') at++;
}

static u32 skip_string(void) {
  u32 start = ++at;
  while (document[at] != '"') at += document[at] == '\\' ? 2 : 1;
  return start;
}

static OWN struct node *parse(void) {
  struct node *n = &nodes[used++];
  n->first = n->next = 0;
  n->key_length = 0;
  skip_space();
  u8 c = document[at];
  if (c == '"') {
    n->kind = STRING;
    n->start = skip_string();
    n->length = at++ - n->start;
  } else if (c == '-' || (c >= '0' && c <= '9')) {
    s64 value = 0;
    int minus = c == '-';
    at += (u32)minus;
    while (document[at] >= '0' && document[at] <= '9') value = value * 10 + document[at++] - '0';
    n->kind = NUMBER;
    n->number = minus ? -value : value;
  } else if (c == '[' || c == '{') {
    struct node **end = &n->first;
    n->kind = c == '[' ? LIST : OBJECT;
    do {
      u32 key = 0, length = 0;
      at++;
      skip_space();
      if (c == '{') {
        key = skip_string();
        length = at++ - key;
        skip_space();
        at++;
      }
      struct node *child = *end = parse();
      child->key = key;
      child->key_length = length;
      end = &child->next;
      skip_space();
    } while (document[at] == ',');
    at++;
  } else {
    n->kind = c == 't' ? TRUE : c == 'f' ? FALSE : NOTHING;
    at += c == 'f' ? 5 : 4;
  }
  return n;
}

static void copy(u32 start, u32 length) {
  again[written++] = '"';
  for (u32 i = 0; i < length; i++) again[written++] = document[start + i];
  again[written++] = '"';
}

static void literal(const char *s) {
  while (*s) again[written++] = (u8)*s++;
}

static OWN void write(const struct node *n) {
  switch (n->kind) {
    case NOTHING: literal("null"); return;
    case FALSE: literal("false"); return;
    case TRUE: literal("true"); return;
    case STRING: copy(n->start, n->length); return;
    case NUMBER: {
      char digits[20];
      int count = 0;
      u64 rest = n->number < 0 ? (u64)-n->number : (u64)n->number;
      if (n->number < 0) again[written++] = '-';
      do digits[count++] = (char)('0' + rest % 10);
      while (rest /= 10);
      while (count) again[written++] = (u8)digits[--count];
      return;
    }
    default: break;
  }
  again[written++] = n->kind == LIST ? '[' : '{';
  for (const struct node *child = n->first; child; child = child->next) {
    if (child != n->first) again[written++] = ',';
    if (n->kind == OBJECT) {
      copy(child->key, child->key_length);
      again[written++] = ':';
    }
    write(child);
  }
  again[written++] = n->kind == LIST ? ']' : '}';
}

static OWN s64 total(const struct node *n, u32 depth) {
  s64 sum_of = n->kind == NUMBER ? n->number : n->kind == STRING ? (s64)n->length : (s64)n->kind;
  for (const struct node *child = n->first; child; child = child->next) sum_of += total(child, depth + 1) * (s64)depth;
  return sum_of;
}

static void prepare(void) {}

static void turn(u32 n) {
  size = used = at = written = 0;
  make(5);
  document[size] = 0;
  for (u32 i = 0; i < 4; i++) {
    used = at = written = 0;
    struct node *root = parse();
    note((u64)total(root, 1 + n % 2));
    write(root);
  }
  note(size);
  must(written == size && memcmp(document, again, size) == 0, "not written as read");
}
