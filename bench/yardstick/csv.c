/* CSV: a table written with quotes and escapes, read again by columns, grouped, joined, summed. */
#include "yard.h"

#define ROWS 160
#define SIZE 32768

static char file[SIZE];
static u32 size;
struct field { u32 start, length; u8 quoted; };
static struct field fields[ROWS][6];
static s32 prices[ROWS];
static u32 amounts[ROWS], dates[ROWS];
struct group { u32 hash, rows; s64 total; s32 least, most; };
static struct group groups[64];
static char unescaped[64];

static void add(char c) { file[size++] = c; }
static void add_text(const char *s) {
  while (*s) add(*s++);
}
static void add_number(u32 v, u32 width) {
  char digits[12];
  u32 n = 0;
  while (v || n < width) {
    digits[n++] = (char)('0' + v % 10);
    v /= 10;
  }
  while (n) add(digits[--n]);
}

static void add_quoted(u32 seed) {
  add('"');
  for (u32 i = 0; i < 4 + seed % 9; i++) {
    seed = seed * 1103515245u + 12345u;
    u32 kind = seed >> 16 & 31;
    if (kind == 0) add_text("\"\"");
    else if (kind == 1) add_text(", ");
    else if (kind == 2) add('\n');
    else add((char)('A' + kind % 26));
  }
  add('"');
}

static OWN void make(void) {
  static const char *const towns[] = {"Oslo", "Lima", "\"Port, au\"", "Cairo", "Quito", "Hanoi", "\"San \"\"X\"\"\"", "Bern"};
  size = 0;
  for (u32 row = 0; row < ROWS; row++) {
    add_number(row + 1, 1);
    add(',');
    add_text(towns[below(8)]);
    add(',');
    add_quoted(random_());
    add(',');
    if (below(5) == 0) add('-');
    add_number(below(5000), 1);
    add('.');
    add_number(below(100), 2);
    add(',');
    add_number(1990 + below(30), 4);
    add('-');
    add_number(1 + below(12), 2);
    add('-');
    add_number(1 + below(28), 2);
    add(',');
    add_number(below(1000), 1);
    add('\n');
  }
}

static OWN u32 split(void) {
  u32 row = 0, column = 0, at = 0;
  while (at < size) {
    struct field *f = &fields[row][column];
    f->quoted = file[at] == '"';
    if (f->quoted) {
      f->start = ++at;
      while (file[at] != '"' || file[at + 1] == '"') at += file[at] == '"' ? 2 : 1;
      f->length = at++ - f->start;
    } else {
      f->start = at;
      while (file[at] != ',' && file[at] != '\n') at++;
      f->length = at - f->start;
    }
    if (file[at++] == '\n') {
      row++;
      column = 0;
    } else column++;
  }
  return row;
}

static u32 number(const char *p, const char *end, char *stop) {
  u32 v = 0;
  while (p < end && *p >= '0' && *p <= '9') v = v * 10 + (u32)(*p++ - '0');
  *stop = p < end ? *p : 0;
  return v;
}

static s32 cents(const struct field *f) {
  const char *p = file + f->start, *end = p + f->length;
  char stop;
  int minus = *p == '-';
  p += minus;
  u32 whole = number(p, end, &stop);
  while (*p != '.') p++;
  s32 v = (s32)(whole * 100 + number(p + 1, end, &stop));
  return minus ? -v : v;
}

static u32 days(const struct field *f) {
  static const u16 before[] = {0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334};
  const char *p = file + f->start, *end = p + f->length;
  char stop;
  u32 year = number(p, end, &stop), month = number(p + 5, end, &stop), day = number(p + 8, end, &stop);
  u32 leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
  return (year - 1990) * 365 + (year - 1989) / 4 + before[month - 1] + (leap && month > 2) + day;
}

static u32 unescape(const struct field *f) {
  u32 n = 0;
  for (u32 i = 0; i < f->length; i++) {
    unescaped[n++] = file[f->start + i];
    if (f->quoted && file[f->start + i] == '"') i++;
  }
  return n;
}

static OWN struct group *group_of(const struct field *f) {
  u32 n = unescape(f), hash = 5381;
  for (u32 i = 0; i < n; i++) hash = hash * 33 + (u8)unescaped[i];
  for (u32 at = hash % 64;; at = (at + 1) % 64) {
    struct group *g = &groups[at];
    if (g->rows && g->hash != hash) continue;
    if (!g->rows) {
      g->hash = hash;
      g->least = 0x7fffffff;
      g->most = -0x7fffffff;
    }
    return g;
  }
}

static void prepare(void) {}

static void turn(u32 n) {
  make();
  u32 rows = split();
  must(rows == ROWS, "rows");
  memset(groups, 0, sizeof groups);
  for (u32 row = 0; row < rows; row++) {
    char stop;
    struct group *g = group_of(&fields[row][1]);
    prices[row] = cents(&fields[row][3]);
    dates[row] = days(&fields[row][4]);
    amounts[row] = number(file + fields[row][5].start, file + size, &stop);
    g->rows++;
    g->total += (s64)prices[row] * amounts[row];
    if (prices[row] < g->least) g->least = prices[row];
    if (prices[row] > g->most) g->most = prices[row];
    note(unescape(&fields[row][2]) + dates[row]);
  }
  for (u32 i = 0; i < 64; i++)
    if (groups[i].rows) note((u64)groups[i].total ^ (u64)groups[i].rows << 48 ^ (u32)(groups[i].most - groups[i].least));
  note(size + n);
}
