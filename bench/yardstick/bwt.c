/*
 * The Burrows-Wheeler transform by sorting of rotations (prefix doubling with counting sorts),
 * move to front, run lengths of zeros, and all three inverted.
 */
#include "yard.h"

#define SIZE 2048

static u8 text[SIZE], last[SIZE], moved[SIZE], back[SIZE], again[SIZE];
static u16 runs[SIZE + 1];
static u16 order[SIZE], rank[SIZE], other[SIZE], fresh[SIZE];
static u32 counts[SIZE + 257];

static OWN void sort_rotations(void) {
  u32 classes = 256;
  memset(counts, 0, sizeof counts);
  for (u32 i = 0; i < SIZE; i++) counts[text[i] + 1]++;
  for (u32 i = 1; i <= 256; i++) counts[i] += counts[i - 1];
  for (u32 i = 0; i < SIZE; i++) order[counts[text[i]]++] = (u16)i;
  rank[order[0]] = 0;
  classes = 1;
  for (u32 i = 1; i < SIZE; i++) {
    if (text[order[i]] != text[order[i - 1]]) classes++;
    rank[order[i]] = (u16)(classes - 1);
  }
  for (u32 width = 1; width < SIZE && classes < SIZE; width *= 2) {
    for (u32 i = 0; i < SIZE; i++) other[i] = (u16)((order[i] + SIZE - width) % SIZE);
    memset(counts, 0, (classes + 1) * sizeof *counts);
    for (u32 i = 0; i < SIZE; i++) counts[rank[i] + 1]++;
    for (u32 i = 1; i <= classes; i++) counts[i] += counts[i - 1];
    for (u32 i = 0; i < SIZE; i++) order[counts[rank[other[i]]]++] = other[i];
    fresh[order[0]] = 0;
    u32 found = 1;
    for (u32 i = 1; i < SIZE; i++) {
      u32 a = order[i], b = order[i - 1];
      if (rank[a] != rank[b] || rank[(a + width) % SIZE] != rank[(b + width) % SIZE]) found++;
      fresh[a] = (u16)(found - 1);
    }
    memcpy(rank, fresh, sizeof rank);
    classes = found;
  }
}

static OWN u32 transform(void) {
  u32 start = 0;
  sort_rotations();
  for (u32 i = 0; i < SIZE; i++) {
    if (order[i] == 0) start = i;
    last[i] = text[(order[i] + SIZE - 1) % SIZE];
  }
  return start;
}

static OWN void move_to_front(void) {
  u8 list[256];
  for (u32 i = 0; i < 256; i++) list[i] = (u8)i;
  for (u32 i = 0; i < SIZE; i++) {
    u8 c = last[i], held = list[0];
    u32 at = 0;
    while (held != c) {
      u8 next = list[++at];
      list[at] = held;
      held = next;
    }
    list[0] = c;
    moved[i] = (u8)at;
  }
}

/* Symbols as they are; a run of zeros as 256 and more. */
static OWN u32 run_lengths(void) {
  u32 used = 0;
  for (u32 i = 0; i < SIZE;) {
    u32 run = 0;
    while (i + run < SIZE && moved[i + run] == 0) run++;
    if (run) {
      runs[used++] = (u16)(256 + run);
      i += run;
    } else runs[used++] = moved[i++];
  }
  return used;
}

static OWN void invert(u32 used, u32 start) {
  u8 list[256];
  u32 at = 0;
  for (u32 i = 0; i < 256; i++) list[i] = (u8)i;
  for (u32 i = 0; i < used; i++) {
    u32 symbol = runs[i];
    if (symbol >= 256) {
      for (symbol -= 256; symbol; symbol--) again[at++] = list[0];
      continue;
    }
    u8 c = list[symbol];
    for (; symbol; symbol--) list[symbol] = list[symbol - 1];
    list[0] = c;
    again[at++] = c;
  }
  memset(counts, 0, 257 * sizeof *counts);
  for (u32 i = 0; i < SIZE; i++) counts[again[i] + 1]++;
  for (u32 i = 1; i <= 256; i++) counts[i] += counts[i - 1];
  for (u32 i = 0; i < SIZE; i++) other[counts[again[i]]++] = (u16)i;
  for (u32 i = 0, row = other[start]; i < SIZE; i++, row = other[row]) back[i] = again[row];
}

static void prepare(void) {}

static void turn(u32 n) {
  write_text(text, SIZE);
  text[n % SIZE] = '.';
  u32 start = transform();
  move_to_front();
  u32 used = run_lengths();
  note(start);
  note(used);
  invert(used, start);
  must(memcmp(text, back, SIZE) == 0, "not restored");
  for (u32 i = 0; i < used; i += 31) note(runs[i]);
}
