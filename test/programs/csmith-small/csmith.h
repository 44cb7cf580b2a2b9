/*
 * In place of csmith's header: its checked arithmetic with a checksum that needs no table, which
 * alone would be most of what a small program executes.
 */
#include <string.h>
#include <float.h>
#include <math.h>
#include <limits.h>
#include <stdint.h>
#include <assert.h>
#define __STDC_LIMIT_MACROS
#ifndef __OPTIMIZE__
/*
 * Without optimisation compilers emit every static function that is not inline: several hundred of
 * checked arithmetic, for the linker to drop.
 */
#include "platform_generic.h"
#define static static inline
#endif
#include "random_inc.h"
#undef static

static uint32_t crc32_context = 0xFFFFFFFFUL;
static void crc32_gentab(void) {}
static void transparent_crc(uint64_t value, char *name, int flag) {
  crc32_context = (crc32_context << 5 | crc32_context >> 27) ^ (uint32_t)value ^ (uint32_t)(value >> 32);
  if (flag) printf("...checksum after hashing %s : %X\n", name, crc32_context);
}
static __attribute__((unused)) void transparent_crc_bytes(char *bytes, int count, char *name, int flag) {
  for (int i = 0; i < count; i++) transparent_crc((uint8_t)bytes[i], name, flag);
}
