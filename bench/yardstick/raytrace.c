/* A picture of spheres over a plane by rays, in fixed point of 16 bits behind the point. */
#include "yard.h"

#define WIDTH 24
#define HEIGHT 18
#define ONE 65536

typedef s64 fixed;
struct vector { fixed x, y, z; };
struct sphere { struct vector centre; fixed radius; u8 colour[3], mirror; };
struct hit { fixed distance; const struct sphere *what; struct vector at, normal; };

static struct sphere spheres[6];
static struct vector light;
static u8 picture[HEIGHT][WIDTH][3];
static u64 cast;

static fixed mul(fixed a, fixed b) { return (a * b) >> 16; }
static fixed divide(fixed a, fixed b) { return (a * ONE) / b; }
static fixed dot(struct vector a, struct vector b) { return (a.x * b.x + a.y * b.y + a.z * b.z) >> 16; }
static struct vector plus(struct vector a, struct vector b) { return (struct vector){a.x + b.x, a.y + b.y, a.z + b.z}; }
static struct vector minus(struct vector a, struct vector b) { return (struct vector){a.x - b.x, a.y - b.y, a.z - b.z}; }
static struct vector scale(struct vector a, fixed k) { return (struct vector){mul(a.x, k), mul(a.y, k), mul(a.z, k)}; }

static OWN fixed root(fixed v) {
  u64 rest = 0, r = 0, n = (u64)v << 16;
  if (v <= 0) return 0;
  for (int i = 0; i < 32; i++) {
    rest = rest << 2 | n >> 62;
    n <<= 2;
    r <<= 1;
    if (rest > 2 * r) {
      rest -= 2 * r + 1;
      r++;
    }
  }
  return (fixed)r;
}
static struct vector unit(struct vector a) {
  fixed length = root(dot(a, a));
  return length ? (struct vector){divide(a.x, length), divide(a.y, length), divide(a.z, length)} : a;
}

static fixed meet(const struct sphere *s, struct vector from, struct vector along) {
  struct vector to = minus(s->centre, from);
  fixed middle = dot(to, along), square = dot(to, to) - mul(middle, middle), r = mul(s->radius, s->radius);
  if (square > r) return -1;
  fixed half = root(r - square);
  return middle - half > ONE / 64 ? middle - half : middle + half > ONE / 64 ? middle + half : -1;
}

static OWN struct hit nearest(struct vector from, struct vector along) {
  struct hit h = {-1, 0, {0, 0, 0}, {0, ONE, 0}};
  cast++;
  for (u32 i = 0; i < COUNT(spheres); i++) {
    fixed d = meet(&spheres[i], from, along);
    if (d > 0 && (h.distance < 0 || d < h.distance)) {
      h.distance = d;
      h.what = &spheres[i];
    }
  }
  if (along.y < -ONE / 256) {
    fixed d = divide(-from.y - ONE, along.y);
    if (d > ONE / 64 && (h.distance < 0 || d < h.distance)) {
      h.distance = d;
      h.what = 0;
    }
  }
  if (h.distance < 0) return h;
  h.at = plus(from, scale(along, h.distance));
  if (h.what) h.normal = unit(minus(h.at, h.what->centre));
  return h;
}

static OWN struct vector colour(struct vector from, struct vector along, u32 depth) {
  struct hit h = nearest(from, along);
  if (h.distance < 0) {
    fixed sky = 128 * ONE + 100 * along.y;
    return (struct vector){sky / 2, sky * 3 / 4, sky};
  }
  struct vector own;
  if (h.what) own = (struct vector){h.what->colour[0] * (fixed)ONE, h.what->colour[1] * (fixed)ONE, h.what->colour[2] * (fixed)ONE};
  else {
    fixed tile = ((h.at.x >> 16) + (h.at.z >> 16)) & 1 ? 200 : 40;
    own = (struct vector){tile * ONE, tile * ONE, tile * ONE};
  }
  struct vector to_light = unit(minus(light, h.at));
  fixed strength = dot(h.normal, to_light);
  if (strength > 0 && nearest(h.at, to_light).what) strength = 0;
  own = scale(own, ONE / 5 + (strength > 0 ? strength * 4 / 5 : 0));
  if (!h.what || !h.what->mirror || depth == 0) return own;
  struct vector away = minus(along, scale(h.normal, 2 * dot(h.normal, along)));
  struct vector other = colour(h.at, unit(away), depth - 1);
  fixed share = h.what->mirror * (ONE / 256);
  return plus(scale(own, ONE - share), scale(other, share));
}

static u8 clamp(fixed v) { return v < 0 ? 0 : v >= 256 * (fixed)ONE ? 255 : (u8)(v >> 16); }

static void prepare(void) { light = (struct vector){-4 * ONE, 8 * ONE, -3 * ONE}; }

static void turn(u32 n) {
  for (u32 i = 0; i < COUNT(spheres); i++) {
    struct sphere *s = &spheres[i];
    fixed x = below(6 * ONE), y = below(3 * ONE), z = below(5 * ONE);
    s->centre = (struct vector){x - 3 * ONE, y - ONE / 2, 3 * ONE + z};
    s->radius = ONE / 4 + (fixed)below(ONE);
    for (u32 k = 0; k < 3; k++) s->colour[k] = (u8)(64 + below(192));
    s->mirror = (u8)(i & 1 ? below(200) : 0);
  }
  for (u32 y = 0; y < HEIGHT; y++)
    for (u32 x = 0; x < WIDTH; x++) {
      struct vector along = {((fixed)x - WIDTH / 2) * ONE / (WIDTH / 2), (HEIGHT / 2 - (fixed)y) * ONE / (WIDTH / 2), ONE * 3 / 2};
      struct vector c = colour((struct vector){0, (fixed)(n % 8) * ONE / 8, 0}, unit(along), 3);
      picture[y][x][0] = clamp(c.x);
      picture[y][x][1] = clamp(c.y);
      picture[y][x][2] = clamp(c.z);
    }
  u32 hash = 0;
  const u8 *bytes = &picture[0][0][0];
  for (u32 i = 0; i < sizeof picture; i++) hash = hash * 16777619u ^ bytes[i];
  note(hash);
  note(cast);
}
