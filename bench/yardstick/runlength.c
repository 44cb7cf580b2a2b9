/* Runs of bytes packed and unpacked, deltas of samples, zigzag and variable length integers. */
#include "yard.h"

#define SIZE 16384

static u8 image[SIZE], packed[2 * SIZE], back[SIZE + 256];
static s32 samples[2048], restored[2048];

/* A picture of few colours: rectangles on top of each other. */
static OWN void draw(void) {
  for (int r = 0; r < 12; r++) {
    u32 x = below(100), y = below(100), w = 4 + below(28), h = 4 + below(28);
    u8 colour = (u8)below(9);
    for (u32 j = y; j < y + h; j++)
      for (u32 i = x; i < x + w; i++) image[j % 128 * 128 + i % 128] = colour;
  }
  for (int i = 0; i < 80; i++) spoil(image, SIZE);
}

static OWN u32 pack(void) {
  u32 out = 0;
  for (u32 at = 0; at < SIZE;) {
    u32 run = 1;
    while (run < 128 && at + run < SIZE && image[at + run] == image[at]) run++;
    if (run >= 3) {
      packed[out++] = (u8)(257 - run);
      packed[out++] = image[at];
      at += run;
      continue;
    }
    u32 start = at, count = 0;
    while (at < SIZE && count < 128) {
      if (at + 2 < SIZE && image[at] == image[at + 1] && image[at] == image[at + 2]) break;
      at++;
      count++;
    }
    packed[out++] = (u8)(count - 1);
    for (u32 i = 0; i < count; i++) packed[out++] = image[start + i];
  }
  return out;
}

static OWN u32 unpack(u32 size) {
  u32 at = 0, in = 0;
  while (in < size) {
    s32 control = (s8)packed[in++];
    if (control >= 0) {
      for (s32 i = 0; i <= control; i++) back[at++] = packed[in++];
    } else {
      u8 value = packed[in++];
      for (s32 i = control; i <= 0; i++) back[at++] = value;
    }
  }
  return at;
}

static u32 zigzag(s32 v) { return (u32)v << 1 ^ (u32)-(v < 0); }
static s32 unzigzag(u32 v) { return (s32)(v >> 1 ^ -(v & 1)); }

static OWN u32 write_samples(void) {
  u32 out = 0;
  s32 before = 0, slope = 0;
  for (u32 i = 0; i < COUNT(samples); i++) {
    u32 code = zigzag(samples[i] - before - slope);
    slope = (samples[i] - before) / 2;
    before = samples[i];
    while (code >= 128) {
      packed[out++] = (u8)(code | 128);
      code >>= 7;
    }
    packed[out++] = (u8)code;
  }
  return out;
}

static OWN void read_samples(void) {
  const u8 *in = packed;
  s32 before = 0, slope = 0;
  for (u32 i = 0; i < COUNT(restored); i++) {
    u32 code = 0, shift = 0;
    while (*in & 128) {
      code |= (u32)(*in++ & 127) << shift;
      shift += 7;
    }
    code |= (u32)*in++ << shift;
    restored[i] = unzigzag(code) + before + slope;
    slope = (restored[i] - before) / 2;
    before = restored[i];
  }
}

static void prepare(void) { draw(); }

static void turn(u32 n) {
  draw();
  u32 size = pack();
  note(size);
  note(unpack(size));
  must(memcmp(image, back, SIZE) == 0, "not restored");
  for (u32 i = 0; i < size; i += 67) note(packed[i]);
  s32 level = (s32)n, speed = 0;
  for (u32 i = 0; i < COUNT(samples); i++) {
    speed += (s32)below(21) - 10 - level / 512;
    level += speed;
    samples[i] = level;
  }
  size = write_samples();
  read_samples();
  note(size);
  must(memcmp(samples, restored, sizeof samples) == 0, "not restored");
}
