/*
 * Constant tables of functions, of strings, of structures with pointers among them; state kept in
 * static locals.
 */
#include "lib.h"
typedef u32 (*handler)(u32);
static u32 counter(u32 v) { static u32 calls; return calls++ * 1000 + v; }
static u32 delayed(u32 v) { static u32 kept[4], at; u32 r = kept[at & 3]; kept[at++ & 3] = v; return r; }
static u32 folded(u32 v) { static u64 state = 0x9e3779b97f4a7c15ull; state = (state ^ v) * 0xff51afd7ed558ccdull; return (u32)(state >> 32); }
struct command { const char *name; handler run; const struct command *alias; u16 flags; };
static const struct command commands[] = {
    {"count", counter, 0, 1}, {"delay", delayed, 0, 2}, {"fold", folded, 0, 4}, {"tally", 0, &commands[0], 8}, {"later", 0, &commands[1], 16}, {"again", 0, &commands[4], 32}};
static const char *const months[] = {"january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november", "december"};
static const u8 lengths[2][12] = {{31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31}, {31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31}};
static const s16 wave[3][4][2] = {{{1, -1}, {2, -2}}, {[2] = {300, -300}}, {[3] = {-32768, 32767}}};
static u32 *const cells[] = {&(u32){5}, &(u32){6}, &(u32){7}};
static const word offsets[] = {__builtin_offsetof(struct command, flags) / sizeof(void *), sizeof(struct command) / sizeof(void *)};
static int same(const char *a, const char *b) {
  for (; *a && *a == *b; a++, b++) {}
  return *a == *b;
}
static u32 dispatch(const char *name, u32 v) {
  for (const struct command *c = commands; c < commands + sizeof commands / sizeof *commands; c++) {
    if (!same(c->name, name)) continue;
    u32 flags = 0;
    for (; !c->run; c = c->alias) flags |= c->flags;
    return c->run(v) ^ flags << 16;
  }
  return ~0u;
}
int main(void) {
  static const char *const script[] = {"count", "tally", "delay", "later", "fold", "again", "nothing", "count", "later", "fold", "delay", "delay", "again"};
  u32 sum = 0;
  for (unsigned i = 0; i < sizeof script / sizeof *script; i++) {
    u32 r = dispatch(script[i], i * i + 3);
    sum = sum * 31 + r;
    line(script[i], r);
  }
  u32 hash = 0, days = 0;
  for (int i = 0; i < 12; i++) {
    for (const char *s = months[i]; *s; s++) hash = hash * 131 + (u8)*s;
    days = days * 3 + lengths[i & 1][i];
  }
  line("months", hash);
  line("days", days);
  s32 w = 0;
  for (int i = 0; i < 24; i++) w = w * 3 + wave[i / 8][i / 2 % 4][i % 2];
  line("wave", (u32)w);
  for (int i = 0; i < 3; i++) *cells[i] += *cells[(i + 1) % 3];
  line("cells", *cells[0] << 16 | *cells[1] << 8 | *cells[2]);
  line("offsets", offsets[0] << 4 | offsets[1]);
  flush();
  return (int)(sum & 63);
}
