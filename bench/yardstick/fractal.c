/* Fixed point: Mandelbrot's and Julia's sets, lines and circles by integers, colours, dithering. */
#include "yard.h"

#define WIDTH 48
#define HEIGHT 32

static u8 picture[HEIGHT][WIDTH];
static s16 greys[HEIGHT][WIDTH];
static u32 histogram[64];

/* 26 bits behind the point, in 64 bits. */
static OWN u32 escapes(s64 x, s64 y, s64 cx, s64 cy, u32 most) {
  u32 n = 0;
  for (; n < most; n++) {
    s64 xx = x * x >> 26, yy = y * y >> 26;
    if (xx + yy > 4ll << 26) break;
    y = (x * y >> 25) + cy;
    x = xx - yy + cx;
  }
  return n;
}

/* 12 bits behind the point, in 32. */
static OWN u32 escapes_narrow(s32 cx, s32 cy, u32 most) {
  s32 x = 0, y = 0;
  u32 n = 0;
  for (; n < most; n++) {
    s32 xx = x * x >> 12, yy = y * y >> 12;
    if (xx + yy > 4 << 12) break;
    y = (x * y >> 11) + cy;
    x = xx - yy + cx;
  }
  return n;
}

static OWN void paint(u32 n) {
  s64 size = (3ll << 26) >> n % 6, left = -(2ll << 26) + (s64)(n % 7) * (size / 9), top = -(1ll << 26) + (s64)(n % 5) * (size / 11);
  for (u32 y = 0; y < HEIGHT; y++)
    for (u32 x = 0; x < WIDTH; x++) {
      s64 cx = left + size * x / WIDTH, cy = top + size * y / WIDTH;
      u32 v = n & 1 ? escapes(cx, cy, -(s64)(n % 16) << 22, 1ll << 24, 48) : escapes(0, 0, cx, cy, 60);
      if (n % 3 == 0) v = (v + escapes_narrow((s32)(cx >> 14), (s32)(cy >> 14), 40)) / 2;
      picture[y][x] = (u8)v;
    }
}

static OWN void equalise(void) {
  u32 total = 0;
  memset(histogram, 0, sizeof histogram);
  for (u32 y = 0; y < HEIGHT; y++)
    for (u32 x = 0; x < WIDTH; x++) histogram[picture[y][x] & 63]++;
  for (u32 i = 0; i < 64; i++) {
    u32 count = histogram[i];
    histogram[i] = total * 255 / (WIDTH * HEIGHT);
    total += count;
  }
  for (u32 y = 0; y < HEIGHT; y++)
    for (u32 x = 0; x < WIDTH; x++) greys[y][x] = (s16)histogram[picture[y][x] & 63];
}

/* Floyd and Steinberg: what was rounded off goes to the neighbours. */
static OWN u32 dither(void) {
  u32 hash = 0;
  for (u32 y = 0; y < HEIGHT; y++)
    for (u32 x = 0; x < WIDTH; x++) {
      s32 old = greys[y][x], is_white = old > 127, rest = old - (is_white ? 255 : 0);
      hash = hash << 1 ^ (hash >> 31 ? 0x04c11db7u : 0) ^ (u32)is_white;
      if (x + 1 < WIDTH) greys[y][x + 1] = (s16)(greys[y][x + 1] + rest * 7 / 16);
      if (y + 1 == HEIGHT) continue;
      if (x) greys[y + 1][x - 1] = (s16)(greys[y + 1][x - 1] + rest * 3 / 16);
      greys[y + 1][x] = (s16)(greys[y + 1][x] + rest * 5 / 16);
      if (x + 1 < WIDTH) greys[y + 1][x + 1] = (s16)(greys[y + 1][x + 1] + rest / 16);
    }
  return hash;
}

static void dot(s32 x, s32 y) {
  if (x >= 0 && x < WIDTH && y >= 0 && y < HEIGHT) picture[y][x] ^= 1;
}

static OWN void draw_line(s32 x, s32 y, s32 to_x, s32 to_y) {
  s32 dx = to_x > x ? to_x - x : x - to_x, dy = to_y > y ? y - to_y : to_y - y, error = dx + dy;
  for (;;) {
    dot(x, y);
    if (x == to_x && y == to_y) return;
    s32 twice = 2 * error;
    if (twice >= dy) {
      error += dy;
      x += x < to_x ? 1 : -1;
    }
    if (twice <= dx) {
      error += dx;
      y += y < to_y ? 1 : -1;
    }
  }
}

static OWN void circle(s32 cx, s32 cy, s32 r) {
  s32 x = r, y = 0, error = 1 - r;
  while (y <= x) {
    dot(cx + x, cy + y), dot(cx - x, cy + y), dot(cx + x, cy - y), dot(cx - x, cy - y);
    dot(cx + y, cy + x), dot(cx - y, cy + x), dot(cx + y, cy - x), dot(cx - y, cy - x);
    y++;
    if (error < 0) error += 2 * y + 1;
    else {
      x--;
      error += 2 * (y - x) + 1;
    }
  }
}

static void prepare(void) {}

static void turn(u32 n) {
  paint(n);
  u32 hash = n;
  for (u32 i = 0; i < 30; i++) {
    s32 x = (s32)below(WIDTH), y = (s32)below(HEIGHT), to_x = (s32)below(WIDTH), to_y = (s32)below(HEIGHT);
    if (i < 20) draw_line(x, y, to_x, to_y);
    else circle(x, y, 2 + to_x / 2);
  }
  for (u32 y = 0; y < HEIGHT; y++)
    for (u32 x = 0; x < WIDTH; x++) hash = hash * 31 + picture[y][x];
  note(hash);
  equalise();
  note(dither());
}
