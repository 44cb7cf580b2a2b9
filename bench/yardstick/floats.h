/*
 * What the programs of floating point share: they are built with the C library of the machine,
 * whose `sqrt` and `sin` they call as programs do. `main` takes how many turns of the work to do
 * (one turn is about a millisecond under qemu-user) and prints a checksum, the same on every
 * machine.
 */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define OWN __attribute__((noinline))

static uint64_t sum = 0x243f6a8885a308d3ull;
/* Takes the leading 36 bits of a double into the checksum: libraries differ in the last ones. */
static void note(double v) {
  int exponent;
  int64_t bits = (int64_t)(frexp(v, &exponent) * 68719476736.0);
  sum = (sum ^ (uint64_t)bits ^ (uint64_t)(int64_t)exponent << 48) * 0x9e3779b97f4a7c15ull;
  sum ^= sum >> 29;
}

/* Says where the program has found itself wrong: no such line is printed anywhere. */
static inline void must(int holds, const char *what) {
  if (!holds) printf("%s\n", what);
}

/* Noise between -1 and 1. */
static inline double uniform(void) {
  static uint32_t state = 12345;
  state ^= state << 13;
  state ^= state >> 17;
  state ^= state << 5;
  return (double)(int32_t)state / 2147483648.0;
}

static void prepare(void);
static void turn(unsigned n);

int main(int argc, char **argv) {
  unsigned turns = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : 1;
  prepare();
  for (unsigned n = 0; n < turns; n++) turn(n);
  printf("sum %llx\n", (unsigned long long)sum);
  return 0;
}
