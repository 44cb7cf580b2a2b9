/* Binary range coding with adaptive models: bits of bytes in the context of the byte before. */
#include "yard.h"

#define SIZE 3000

static u8 text[SIZE], packed[2 * SIZE], back[SIZE];
static u16 models[256 * 256];
static u16 lengths_model[64];

struct encoder { u64 low; u32 range; u8 cache; u32 pending; u8 *out; };
struct decoder { u32 code, range; const u8 *in; };

static void shift_low(struct encoder *e) {
  if ((u32)e->low < 0xff000000u || e->low >> 32) {
    u8 carry = (u8)(e->low >> 32), byte = e->cache;
    do {
      *e->out++ = (u8)(byte + carry);
      byte = 0xff;
    } while (--e->pending);
    e->cache = (u8)(e->low >> 24);
  }
  e->pending++;
  e->low = (u64)((u32)e->low << 8);
}

static void encode_bit(struct encoder *e, u16 *model, u32 bit) {
  u32 bound = (e->range >> 11) * *model;
  if (bit == 0) {
    e->range = bound;
    *model = (u16)(*model + ((2048 - *model) >> 5));
  } else {
    e->low += bound;
    e->range -= bound;
    *model = (u16)(*model - (*model >> 5));
  }
  while (e->range < 1u << 24) {
    e->range <<= 8;
    shift_low(e);
  }
}

static u32 decode_bit(struct decoder *d, u16 *model) {
  u32 bound = (d->range >> 11) * *model, bit;
  if (d->code < bound) {
    d->range = bound;
    *model = (u16)(*model + ((2048 - *model) >> 5));
    bit = 0;
  } else {
    d->code -= bound;
    d->range -= bound;
    *model = (u16)(*model - (*model >> 5));
    bit = 1;
  }
  while (d->range < 1u << 24) {
    d->range <<= 8;
    d->code = d->code << 8 | *d->in++;
  }
  return bit;
}

static void reset(void) {
  for (u32 i = 0; i < COUNT(models); i++) models[i] = 1024;
  for (u32 i = 0; i < COUNT(lengths_model); i++) lengths_model[i] = 1024;
}

static void encode_number(struct encoder *e, u32 v) {
  u32 width = 0;
  while ((v + 1) >> (width + 1)) width++;
  for (u32 i = 0; i <= width; i++) encode_bit(e, &lengths_model[i], i < width);
  for (u32 i = width; i-- > 0;) encode_bit(e, &lengths_model[32 + i], (v + 1) >> i & 1);
}

static u32 decode_number(struct decoder *d) {
  u32 width = 0, v = 1;
  while (decode_bit(d, &lengths_model[width])) width++;
  for (u32 i = width; i-- > 0;) v = v << 1 | decode_bit(d, &lengths_model[32 + i]);
  return v - 1;
}

static OWN u32 pack(void) {
  struct encoder e = {0, ~0u, 0, 1, packed};
  u32 context = 0;
  reset();
  for (u32 i = 0; i < SIZE; i++) {
    u16 *model = models + 256 * context;
    u32 node = 1;
    for (int bit = 7; bit >= 0; bit--) {
      u32 b = text[i] >> bit & 1;
      encode_bit(&e, model + node, b);
      node = node << 1 | b;
    }
    if (text[i] == '\n') encode_number(&e, i);
    context = text[i];
  }
  for (int i = 0; i < 5; i++) shift_low(&e);
  return (u32)(e.out - packed);
}

static OWN void unpack(void) {
  struct decoder d = {0, ~0u, packed + 1};
  u32 context = 0;
  for (int i = 0; i < 4; i++) d.code = d.code << 8 | *d.in++;
  reset();
  for (u32 i = 0; i < SIZE; i++) {
    u16 *model = models + 256 * context;
    u32 node = 1;
    while (node < 256) node = node << 1 | decode_bit(&d, model + node);
    back[i] = (u8)node;
    if (back[i] == '\n') must(decode_number(&d) == i, "number");
    context = back[i];
  }
}

static void prepare(void) {}

static void turn(u32 n) {
  write_text(text, SIZE);
  text[n % SIZE] = (u8)n;
  u32 size = pack();
  unpack();
  note(size);
  must(memcmp(text, back, SIZE) == 0, "not restored");
  for (u32 i = 0; i < size; i += 29) note(packed[i]);
}
