/*
 * What the programs of the yardstick share: `main`, which takes how many turns of the work to do
 * (one turn is about a millisecond under qemu-user) and prints a checksum; noise and text to work
 * on. The same number of turns prints the same on every machine, whatever its byte order, its
 * size of a word and the sign of its char.
 */
#include "lib.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))
#define OWN __attribute__((noinline))

static u64 sum = 0x243f6a8885a308d3ull;
/* Takes a value into the checksum. */
static void note(u64 v) {
  sum = (sum ^ v) * 0x9e3779b97f4a7c15ull;
  sum ^= sum >> 29;
}

/* Says where the program has found itself wrong: no such line is printed anywhere. */
__attribute__((unused)) static void must(int holds, const char *what) {
  if (!holds) line(what, sum);
}

/* A number below n. */
__attribute__((unused)) static u32 below(u32 n) { return (u32)((u64)random_() * n >> 32); }

/* Writes some byte over some other. */
__attribute__((unused)) static void spoil(u8 *bytes, u32 size) {
  u32 at = below(size);
  bytes[at] = (u8)random_();
}

/* Text of words from a small language, each word the likelier the shorter. */
__attribute__((unused)) static void write_text(u8 *to, u32 size) {
  static const char *const parts[] = {"ka", "to", "mi", "ren", "sul", "o", "ve", "and", "ist", "er", "la", "qu", "ne", "da", "zi", "un"};
  u32 at = 0;
  while (at < size) {
    u32 kind = below(64), syllables = 1 + (kind < 20 ? 0 : kind < 50 ? 1 : 2), seed = below(kind < 40 ? 24 : 4096);
    for (u32 s = 0; s < syllables; s++) {
      const char *part = parts[seed * (s + 3) % COUNT(parts)];
      seed = seed * 5 + 1;
      while (*part && at < size) to[at++] = (u8)*part++;
    }
    if (at < size) to[at++] = below(12) ? ' ' : below(3) ? ',' : '\n';
  }
}

static void prepare(void);
static void turn(u32 n);

int main(int argc, char **argv) {
  u32 turns = 0;
  if (argc > 1)
    for (const char *digit = argv[1]; *digit; digit++) turns = turns * 10 + (u32)(*digit - '0');
  else
    turns = 1;
  prepare();
  for (u32 n = 0; n < turns; n++) turn(n);
  line("sum", sum);
  flush();
  return 0;
}
